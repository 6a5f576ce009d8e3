//! Names of servers: what a client called one, made fit for `[servers.NAME]`.

use std::collections::BTreeSet;

use pentad_model::tool::{RESERVED_SOURCES, is_source_name};

/// Longest name of a server.
const MAX_NAME_BYTES: usize = 32;

/// A name for a server, and why it is not the client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The name.
    pub name: String,
    /// Why it differs; `None` when it does not.
    pub why: Option<&'static str>,
}

/// Chooses a name that is legal, not reserved and not taken, as near to the client's as can be.
#[must_use]
pub fn choose(wanted: &str, taken: &BTreeSet<String>) -> Chosen {
    let mut why = None;
    let mut name = legal(wanted);
    if name != wanted {
        why = Some("names have a-z 0-9 _ - only");
    }
    if RESERVED_SOURCES.contains(&name.as_str()) || name == "pentad" {
        why = Some("the name is reserved");
        name = format!("{name}-mcp");
    }
    if taken.contains(&name) {
        why = Some("another server has the name");
        name = (2..)
            .map(|n| {
                let ending = format!("-{n}");
                let stem = pentad_model::text::prefix(&name, MAX_NAME_BYTES - ending.len());
                format!("{stem}{ending}")
            })
            .find(|candidate| !taken.contains(candidate))
            .unwrap_or_default();
    }
    debug_assert!(is_source_name(&name));
    Chosen { name, why }
}

fn legal(wanted: &str) -> String {
    let mut name = String::new();
    for c in wanted.chars().flat_map(char::to_lowercase) {
        match c {
            'a'..='z' | '0'..='9' | '_' | '-' => name.push(c),
            _ if name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    let trimmed = name.trim_start_matches(['-', '_']).trim_end_matches('-');
    let cut = pentad_model::text::prefix(trimmed, MAX_NAME_BYTES);
    if cut.is_empty() {
        "server".to_owned()
    } else {
        cut.to_owned()
    }
}

/// Makes a word for the name of a secret out of the name under which it stood.
#[must_use]
pub fn secret_word(server: &str, name: &str) -> String {
    let word = legal_secret(name);
    let stem = server.split('-').next().unwrap_or(server);
    if word.starts_with(server) || word.split('-').next() == Some(stem) {
        word
    } else {
        pentad_model::text::prefix(&format!("{server}-{word}"), 56).to_owned()
    }
}

/// Makes a word for something that a client asks for.
#[must_use]
pub fn legal_secret(name: &str) -> String {
    let word = legal(&name.replace('_', "-"));
    pentad_model::text::prefix(&word, 56).to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_as_near_as_can_be() {
        let taken: BTreeSet<String> = ["github".to_owned(), "github-2".to_owned()].into();
        for (wanted, name, renamed) in [
            ("files", "files", false),
            ("My Files!", "my-files", true),
            ("github", "github-3", true),
            ("library", "library-mcp", true),
            ("Pentad", "pentad-mcp", true),
            ("日本", "server", true),
            ("a.b/c", "a-b-c", true),
        ] {
            let chosen = choose(wanted, &taken);
            assert_eq!(
                (chosen.name.as_str(), chosen.why.is_some()),
                (name, renamed),
                "{wanted}"
            );
        }
        assert_eq!(secret_word("github", "GITHUB_TOKEN"), "github-token");
        assert_eq!(secret_word("search", "BRAVE_API_KEY"), "search-brave-api-key");
    }

    proptest! {
        #[test]
        fn every_name_is_legal_and_free(wanted in ".{0,50}", taken in proptest::collection::btree_set("[a-z]{1,2}", 0..8)) {
            let chosen = choose(&wanted, &taken);
            prop_assert!(is_source_name(&chosen.name) && !taken.contains(&chosen.name));
            prop_assert!(secret_word(&chosen.name, &wanted).parse::<pentad_keeper::SecretName>().is_ok());
        }
    }
}
