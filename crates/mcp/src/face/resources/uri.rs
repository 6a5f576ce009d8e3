//! Addresses as URIs and back.
//!
//! `pentad:` and the address, %-encoded where a URI needs it: `pentad:~/tools/`, `pentad:run:7k2m9q4x/output`,
//! `pentad:https://example.org/a%3Fb`. Addresses themselves would not do: `~/tools/` is no URI, `file:README.md` is one
//! that means something else, and a client with several servers must see whose `https://…` it is. There is no `//` after
//! the scheme: with an authority, clients would fold the host's case and the path's dots, and an address that comes
//! back must be the one that was given. What follows `?` are options of the read, since no address keeps a bare `?`.

use std::fmt::Write as _;

use pentad_model::address::{Family, decode_tool_name as percent_decoded};
use pentad_model::options::{Kind, OptionSpec, VIEW, read_options};
use pentad_model::text::excerpt;
use pentad_model::{Address, Refusal, RefusalKind};
use serde_json::{Map, Value, json};

const SCHEME: &str = "pentad";
/// The argument of `read` that is no option.
const FORMAT: &str = "format";

/// Returns the URI of an address.
pub fn of(address: &str) -> String {
    let mut uri = format!("{SCHEME}:");
    for byte in address.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte);
        if plain {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// What a URI wants read.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    address: String,
    format: Option<String>,
    options: Map<String, Value>,
}

impl Target {
    /// Reads a URI.
    ///
    /// # Errors
    /// Refuses URIs of other schemes and broken %-escapes. Whether the address exists, and takes these options, is the
    /// verb's to say.
    pub fn parse(uri: &str) -> Result<Self, Refusal> {
        let rest = match uri.split_once(':') {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case(SCHEME) => rest,
            _ => return Err(foreign(uri)),
        };
        if rest.contains('#') {
            return Err(refuse(
                uri,
                "A resource has no fragments; write a literal # as %23.",
            ));
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let address = decoded(uri, path)?;
        if address.is_empty() {
            return Err(
                refuse(uri, "This URI names no address.").next_step("resources/list names where to begin")
            );
        }
        let family = Address::parse(&address).ok().map(|address| address.family());
        let mut target = Self {
            address,
            format: None,
            options: Map::new(),
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (decoded(uri, key)?, decoded(uri, value)?);
            if key == FORMAT {
                target.format = Some(value);
            } else {
                let value = typed(family, &key, value);
                target.options.insert(key, value);
            }
        }
        Ok(target)
    }

    /// Returns the arguments of the verb `read`.
    pub fn arguments(self) -> Value {
        let mut arguments = Map::from_iter([("address".to_owned(), json!(self.address))]);
        if let Some(format) = self.format {
            arguments.insert(FORMAT.to_owned(), json!(format));
        }
        if !self.options.is_empty() {
            arguments.insert("options".to_owned(), Value::Object(self.options));
        }
        Value::Object(arguments)
    }

    /// Returns the media type of the text.
    pub fn mime(&self) -> &'static str {
        if self.format.as_deref() == Some("json") {
            "application/json"
        } else {
            "text/markdown"
        }
    }
}

/// A query has texts only; the table of options says what they mean. What it does not know stays a text, and is refused
/// by the verb with what it supports.
fn typed(family: Option<Family>, key: &str, value: String) -> Value {
    let own: &[OptionSpec] = family.map_or(&[], read_options);
    let kind = VIEW
        .iter()
        .chain(own)
        .find(|spec| spec.key == key)
        .map(|spec| spec.kind);
    let read = match kind {
        Some(Kind::Flag | Kind::Number { .. } | Kind::Object) => serde_json::from_str(&value).ok(),
        Some(Kind::Text | Kind::Word(_)) | None => None,
    };
    read.unwrap_or(Value::String(value))
}

fn decoded(uri: &str, text: &str) -> Result<String, Refusal> {
    percent_decoded(text).ok_or_else(|| {
        refuse(uri, "This URI has a broken %-escape.")
            .next_step("write a literal % as %25, or take the URI from a list, a template or a result")
    })
}

fn refuse(uri: &str, message: &str) -> Refusal {
    Refusal::new(RefusalKind::BadRequest, excerpt(uri, 200), message)
}

fn foreign(uri: &str) -> Refusal {
    let message = format!(
        "'{}' is no resource here: resources begin with {SCHEME}:.",
        excerpt(uri, 200)
    );
    let refusal = Refusal::new(RefusalKind::NotFound, excerpt(uri, 200), message);
    match Address::parse(uri) {
        Ok(address) => refusal.next_step(format!("read {}", excerpt(&of(&address.to_string()), 300))),
        Err(_) => refusal.next_step("resources/list and resources/templates/list name what there is"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(uri: &str) -> Value {
        Target::parse(uri).unwrap().arguments()
    }

    #[test]
    fn addresses_become_uris_that_can_be_read_by_a_person() {
        for (address, uri) in [
            ("~/tools/", "pentad:~/tools/"),
            (
                "~/memory/Notizen über x.md",
                "pentad:~/memory/Notizen%20%C3%BCber%20x.md",
            ),
            (
                "run:7k2m9q4x/artifacts/out.txt",
                "pentad:run:7k2m9q4x/artifacts/out.txt",
            ),
            (
                "https://example.org/a?b=c#d",
                "pentad:https://example.org/a%3Fb=c%23d",
            ),
            ("~/tools/s/a%20b", "pentad:~/tools/s/a%2520b"),
            (
                "mcp:everything/demo://resource/1",
                "pentad:mcp:everything/demo://resource/1",
            ),
        ] {
            assert_eq!(of(address), uri);
            assert_eq!(read(uri), json!({"address": address}));
        }
        assert_eq!(read("PENTAD:%7E%2Ftools%2F"), json!({"address": "~/tools/"}));
    }

    #[test]
    fn what_follows_a_question_mark_are_options_of_the_tables_types() {
        assert_eq!(
            read("pentad:run:7k2m9q4x/output?lines=1-40&grep=a%26b"),
            json!({"address": "run:7k2m9q4x/output", "options": {"lines": "1-40", "grep": "a&b"}})
        );
        assert_eq!(
            read("pentad:~/tools/?query=12&limit=5&format=json"),
            json!({"address": "~/tools/", "format": "json", "options": {"query": "12", "limit": 5}})
        );
        assert_eq!(
            read("pentad:~/tools/?limit=many&x"),
            json!({"address": "~/tools/", "options": {"limit": "many", "x": ""}})
        );
    }

    #[test]
    fn other_uris_are_refused_with_the_next_step() {
        let texts: Vec<String> = [
            "https://example.org/a",
            "thread:7k2m9q4xabcd",
            "demo://x",
            "~/tools/",
            "pentad:",
            "pentad:?lines=1",
            "pentad:~/memory/a%2",
            "pentad:~/memory/a#b",
        ]
        .map(|uri| Target::parse(uri).unwrap_err().to_text())
        .into();
        insta::assert_snapshot!("refused_uris", texts.join("\n\n"));
    }

    proptest! {
        #[test]
        fn an_address_comes_back_as_it_was_given(address in "[^\\x00]{1,60}") {
            let uri = of(&address);
            prop_assert!(uri.is_ascii() && !uri.contains(['?', '#', ' ']));
            prop_assert_eq!(Target::parse(&uri).unwrap().arguments(), json!({"address": address}));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
            let _ = Target::parse(&text);
            let _ = Target::parse(&format!("pentad:{text}"));
        }
    }
}
