//! Repairs text that strict JSON readers refuse: lone surrogate escapes and invalid UTF-8.

/// Returns `line` with each lone surrogate escape and each invalid byte sequence replaced by U+FFFD.
///
/// `None` when there is nothing to repair. Servers written in JavaScript or Python send such text whenever they cut a
/// string in the middle of an emoji; the message around it is sound.
pub fn repair(line: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(line);
    let bytes = text.as_bytes();
    let mut repaired = Vec::with_capacity(bytes.len());
    let mut changed = bytes != line;
    let mut position = 0;
    while let Some(byte) = bytes.get(position) {
        if *byte != b'\\' {
            repaired.push(*byte);
            position += 1;
            continue;
        }
        let width = match escape_at(bytes, position) {
            Escape::Other => 2,
            Escape::Unit(unit) => match unit {
                0xD800..=0xDBFF
                    if matches!(escape_at(bytes, position + 6), Escape::Unit(0xDC00..=0xDFFF)) =>
                {
                    12
                }
                0xD800..=0xDFFF => {
                    repaired.extend_from_slice(b"\\uFFFD");
                    position += 6;
                    changed = true;
                    continue;
                }
                _ => 6,
            },
        };
        let end = bytes.len().min(position + width);
        repaired.extend_from_slice(bytes.get(position..end).unwrap_or_default());
        position = end;
    }
    changed.then_some(repaired)
}

enum Escape {
    /// `\uXXXX` with its value.
    Unit(u16),
    /// Any other escape, or none.
    Other,
}

fn escape_at(bytes: &[u8], position: usize) -> Escape {
    let unit = bytes
        .get(position..position + 6)
        .and_then(|escape| escape.strip_prefix(b"\\u"))
        .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| u16::from_str_radix(digits, 16).ok());
    unit.map_or(Escape::Other, Escape::Unit)
}
