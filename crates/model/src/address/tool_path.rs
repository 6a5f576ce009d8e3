//! Tool names in addresses: bytes as they are, with %-encoding for controls, white space of any
//! script, `%`, `?` and `#`. An address is trimmed when it is read, so no space may stand at its end as it is.

/// Encodes a tool name for `~/tools/…`.
#[must_use]
pub fn encode_tool_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control() || c.is_whitespace() || matches!(c, '%' | '?' | '#') {
            let mut buffer = [0_u8; 4];
            for byte in c.encode_utf8(&mut buffer).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Decodes what follows `~/tools/`; `None` when an escape is broken or the bytes are not UTF-8.
#[must_use]
pub fn decode_tool_name(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
