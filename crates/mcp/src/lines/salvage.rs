//! Finds the request id in a line that cannot be read as a whole.

use rmcp::model::RequestId;

/// What could be recognised among the top members of a broken message.
#[derive(Debug, Default, PartialEq)]
pub struct Salvage {
    pub id: Option<RequestId>,
    /// Whether an `id` is there, usable or not: a notification has none.
    pub has_id: bool,
    pub method: bool,
}

/// Walks the top-level members of `text`, which may be cut or broken anywhere, as far as it goes.
pub fn salvage(text: &[u8]) -> Salvage {
    let mut found = Salvage::default();
    let mut walk = Walk {
        rest: text.trim_ascii_start(),
    };
    if !walk.eat(b'{') {
        return found;
    }
    while let Some(key) = walk.string() {
        if !walk.eat(b':') {
            return found;
        }
        match key {
            br#""id""# => {
                found.has_id = true;
                let Some(value) = walk.value() else {
                    return found;
                };
                found.id = serde_json::from_slice(value).ok();
            }
            key => {
                found.method |= key == br#""method""#;
                if walk.value().is_none() {
                    return found;
                }
            }
        }
        if !walk.eat(b',') {
            return found;
        }
    }
    found
}

/// Reads an id that is the very last member of the message, as some serializers order it.
///
/// Exactly one closing brace may follow: a nested object at the end would need two.
pub fn salvage_tail(text: &[u8]) -> Option<RequestId> {
    let body = text.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let start = body.windows(4).rposition(|window| window == br#""id""#)?;
    let before = body.get(..start)?.trim_ascii_end();
    if !matches!(before.last(), Some(b',' | b'{')) {
        return None;
    }
    let value = body
        .get(start + 4..)?
        .trim_ascii_start()
        .strip_prefix(b":")?
        .trim_ascii();
    serde_json::from_slice(value).ok()
}

struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Walk<'a> {
    fn eat(&mut self, expected: u8) -> bool {
        self.rest = self.rest.trim_ascii_start();
        match self.rest.split_first() {
            Some((first, rest)) if *first == expected => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Takes a string with its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.rest = self.rest.trim_ascii_start();
        if self.rest.first() != Some(&b'"') {
            return None;
        }
        let end = end_of_string(self.rest)?;
        self.take(end)
    }

    /// Takes a value of any kind; containers are skipped by counting brackets outside strings.
    fn value(&mut self) -> Option<&'a [u8]> {
        self.rest = self.rest.trim_ascii_start();
        match self.rest.first()? {
            b'"' => self.string(),
            b'{' | b'[' => {
                let end = end_of_container(self.rest)?;
                self.take(end)
            }
            _ => {
                let end = self
                    .rest
                    .iter()
                    .position(|byte| matches!(byte, b',' | b'}' | b']' | b' '))?;
                self.take(end)
            }
        }
    }

    fn take(&mut self, end: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        Some(taken)
    }
}

fn end_of_string(text: &[u8]) -> Option<usize> {
    let mut position = 1;
    loop {
        match text.get(position)? {
            b'"' => return Some(position + 1),
            b'\\' => position += 2,
            _ => position += 1,
        }
    }
}

fn end_of_container(text: &[u8]) -> Option<usize> {
    let (mut position, mut depth) = (0, 0_usize);
    loop {
        match text.get(position)? {
            b'"' => {
                position += end_of_string(text.get(position..)?)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(position + 1);
                }
            }
            _ => {}
        }
        position += 1;
    }
}
