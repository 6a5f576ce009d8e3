//! What identifies the thing that a server entry starts.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::config::{Reach, ServerConfig};

/// Returns the launch fingerprint: SHA-256 over everything that decides what is started or reached.
///
/// Variables and the URL enter under a key of the home, so that the fingerprint, which is stored and shown, tells nothing
/// about a secret. Only declared variables count: what a face passes on changes from login to login. Of headers only the
/// names count: a renewed token is no other server.
#[must_use]
pub fn fingerprint(config: &ServerConfig, key: &[u8]) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    };
    match &config.reach {
        Reach::Command(line) => {
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
            add(&keyed(
                key,
                line.env.iter().flat_map(|(name, value)| [name.as_str(), value]),
            ));
        }
        Reach::Url(endpoint) => {
            add(b"pentad http server v1");
            add(&keyed(key, [endpoint.url().as_str()]));
            for name in endpoint.header_names() {
                add(name.as_bytes());
            }
        }
    }
    HEXLOWER.encode(&hash.finalize())
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
    use std::collections::BTreeMap;

    use super::super::config::CommandLine;
    use super::super::endpoint::Endpoint;
    use super::*;

    #[test]
    fn everything_that_would_run_differently_changes_it() {
        let base = CommandLine::new("npx");
        let print =
            |line: CommandLine, key: &[u8]| fingerprint(&ServerConfig::new("x", Reach::Command(line)), key);
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
        let mut trusted = ServerConfig::new("y", Reach::Command(base.clone()));
        trusted.trust = true;
        assert_eq!(fingerprint(&trusted, b"key"), with(|_| {}), "a name runs nothing");
    }

    #[test]
    fn a_url_and_the_names_of_its_headers_count_and_their_values_do_not() {
        let print = |url: &str, headers: &[(&str, &str)]| {
            let headers: BTreeMap<String, String> = headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            let endpoint = Endpoint::new(url, &headers).unwrap();
            fingerprint(&ServerConfig::new("x", Reach::Url(endpoint)), b"key")
        };
        let plain = print("https://a.example/mcp", &[]);
        let old = print("https://a.example/mcp", &[("X-Key", "old")]);
        assert_ne!(plain, old);
        assert_eq!(old, print("https://a.example/mcp", &[("x-key", "new")]));
        assert_ne!(plain, print("https://a.example/mcp2", &[]));
    }
}
