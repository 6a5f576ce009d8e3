//! What identifies the thing that a server entry starts.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::config::ServerConfig;

/// Returns the launch fingerprint: SHA-256 over command, arguments, folder and a keyed hash of the declared variables.
///
/// The variables enter under a key of the home, so that the fingerprint, which is stored and shown, tells nothing about
/// a secret. Only declared variables count: what a face passes on changes from login to login.
#[must_use]
pub fn fingerprint(config: &ServerConfig, key: &[u8]) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    };
    add(b"pentad server v1");
    add(config.command.as_bytes());
    add(&(config.args.len() as u64).to_be_bytes());
    for arg in &config.args {
        add(arg.as_bytes());
    }
    add(config
        .cwd
        .as_ref()
        .map_or(&b""[..], |cwd| cwd.as_os_str().as_encoded_bytes()));
    add(&environment(config, key));
    HEXLOWER.encode(&hash.finalize())
}

fn environment(config: &ServerConfig, key: &[u8]) -> Vec<u8> {
    // HMAC takes keys of any length; the error exists for other constructions.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return Vec::new();
    };
    for text in config.env.iter().flat_map(|(name, value)| [name, value]) {
        mac.update(&(text.len() as u64).to_be_bytes());
        mac.update(text.as_bytes());
    }
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_would_run_differently_changes_it() {
        let base = ServerConfig::new("x", "npx");
        let with = |change: fn(&mut ServerConfig)| {
            let mut config = base.clone();
            change(&mut config);
            fingerprint(&config, b"key")
        };
        let all = [
            with(|_| {}),
            with(|c| c.command = "npy".into()),
            with(|c| c.args = vec!["a".into(), "b".into()]),
            with(|c| c.args = vec!["ab".into()]),
            with(|c| c.cwd = Some("/x".into())),
            with(|c| drop(c.env.insert("A".into(), "1".into()))),
            with(|c| drop(c.env.insert("A".into(), "2".into()))),
            fingerprint(
                &ServerConfig {
                    env: [("A".into(), "1".into())].into(),
                    ..base.clone()
                },
                b"other key",
            ),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(with(|c| c.name = "y".into()), with(|_| {}), "a name runs nothing");
        assert_eq!(with(|c| c.trust = true), with(|_| {}));
    }
}
