//! What identifies the thing that a server entry starts.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::way::{Definition, Values};

/// Returns the fingerprint of a definition: SHA-256 over everything that decides what is started or reached, but for the
/// variables of callers.
///
/// Variables and the URL enter under a key of the home, so that the fingerprint, which is stored and shown, tells nothing
/// about a secret. Only what the definition names counts: what a face passes on besides changes from login to login. Of
/// headers only the names count: a renewed token is no other server.
#[must_use]
pub fn fingerprint(definition: &Definition, key: &[u8]) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    };
    match definition {
        Definition::Command(line) => {
            add(b"pentad server v1");
            add(line.program.as_bytes());
            add(&(line.args.len() as u64).to_be_bytes());
            for arg in &line.args {
                add(arg.as_bytes());
            }
            add(line
                .cwd
                .as_ref()
                .map_or(&b""[..], |cwd| cwd.as_os_str().as_encoded_bytes()));
            add(&keyed(key, pairs(&line.env)));
        }
        Definition::Url { url, headers } => {
            add(b"pentad http server v1");
            add(&keyed(key, [url.as_str()]));
            for name in headers {
                add(name.as_bytes());
            }
        }
    }
    HEXLOWER.encode(&hash.finalize())
}

/// Returns the launch fingerprint: that of the definition, with the variables of a caller that count for it. They enter
/// under the home's key, too. Callers for whom it is equal share processes and approvals.
#[must_use]
pub fn of_variant(definition: &str, values: &Values, key: &[u8]) -> String {
    if values.is_empty() {
        return definition.to_owned();
    }
    let mut hash = Sha256::new();
    hash.update(b"pentad variant v1\n");
    hash.update(definition);
    hash.update(keyed(key, pairs(values)));
    HEXLOWER.encode(&hash.finalize())
}

fn pairs(variables: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    variables.iter().flat_map(|(name, value)| [name.as_str(), value])
}

fn keyed<'a>(key: &[u8], texts: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    // HMAC takes keys of any length; the error exists for other constructions.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return Vec::new();
    };
    for text in texts {
        mac.update(&(text.len() as u64).to_be_bytes());
        mac.update(text.as_bytes());
    }
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::config::{CommandLine, Reach};
    use super::super::endpoint::Endpoint;
    use super::super::way::Way;
    use super::*;

    #[test]
    fn everything_that_would_run_differently_changes_it() {
        let base = CommandLine::new("npx");
        let print = |line: CommandLine, key: &[u8]| fingerprint(&Definition::Command(line), key);
        let with = |change: fn(&mut CommandLine)| {
            let mut line = base.clone();
            change(&mut line);
            print(line, b"key")
        };
        let all = [
            with(|_| {}),
            with(|c| c.program = "npy".into()),
            with(|c| c.args = vec!["a".into(), "b".into()]),
            with(|c| c.args = vec!["ab".into()]),
            with(|c| c.cwd = Some("/x".into())),
            with(|c| drop(c.env.insert("A".into(), "1".into()))),
            with(|c| drop(c.env.insert("A".into(), "2".into()))),
            print(
                CommandLine {
                    env: [("A".into(), "1".into())].into(),
                    ..base.clone()
                },
                b"other key",
            ),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn a_url_and_the_names_of_its_headers_count_and_their_values_do_not() {
        let print = |url: &str, headers: &[(&str, &str)]| {
            let headers: BTreeMap<String, String> = headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            let endpoint = Endpoint::new(url, &headers).unwrap();
            fingerprint(&Way::from(Reach::Url(endpoint)).definition(), b"key")
        };
        let plain = print("https://a.example/mcp", &[]);
        let old = print("https://a.example/mcp", &[("X-Key", "old")]);
        assert_ne!(plain, old);
        assert_eq!(old, print("https://a.example/mcp", &[("x-key", "new")]));
        assert_ne!(plain, print("https://a.example/mcp2", &[]));
    }

    #[test]
    fn callers_with_equal_variables_have_the_same_and_nobody_sees_the_values() {
        let values = |pairs: &[(&str, &str)]| -> Values {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        let print = |pairs: &[(&str, &str)], key: &[u8]| of_variant("d", &values(pairs), key);
        assert_eq!(print(&[], b"key"), "d", "nobody's variables count");
        assert_eq!(print(&[("A", "1")], b"key"), print(&[("A", "1")], b"key"));
        let all = [
            print(&[], b"key"),
            print(&[("A", "1")], b"key"),
            print(&[("A", "2")], b"key"),
            print(&[("A", "")], b"key"),
            print(&[("B", "1")], b"key"),
            print(&[("A", "1"), ("B", "1")], b"key"),
            print(&[("A", "1")], b"other key"),
            of_variant("e", &values(&[("A", "1")]), b"key"),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
