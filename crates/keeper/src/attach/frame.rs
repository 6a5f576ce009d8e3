//! The first message of each side.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use pentad_model::Refusal;
use pentad_program::Environment;
use serde::{Deserialize, Serialize};

/// The newest protocol of this build. A keeper serves this one and all before it.
pub const PROTOCOL: u32 = 1;

/// Which build a process is. A later build is greater.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Build {
    /// The numbers of the version.
    pub version: Vec<u64>,
    /// When the program's file was written, in nanoseconds since 1970; tells two builds of one version apart.
    #[serde(default)]
    pub stamp: u64,
}

impl Build {
    /// Returns this process's build; `executable` is its file.
    #[must_use]
    pub fn of(executable: Option<&Path>) -> Self {
        let modified = executable
            .and_then(|path| std::fs::metadata(path).ok())
            .and_then(|found| found.modified().ok());
        let stamp = modified
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
            .and_then(|since| u64::try_from(since.as_nanos()).ok());
        let numbers = env!("CARGO_PKG_VERSION").split(['.', '-', '+']);
        Self {
            version: numbers.map_while(|number| number.parse().ok()).collect(),
            stamp: stamp.unwrap_or(0),
        }
    }

    /// Returns the version as people write it.
    #[must_use]
    pub fn words(&self) -> String {
        let numbers: Vec<String> = self.version.iter().map(u64::to_string).collect();
        numbers.join(".")
    }
}

/// What a process attaches as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A command in a shell: whoever the keeper finds behind the socket.
    Shell,
    /// The stdio face of an MCP client: always a client, or the run that started it.
    Client,
}

/// What a face says first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attach {
    /// The newest protocol that the face speaks.
    pub protocol: u32,
    /// The face's build.
    pub build: Build,
    /// What it attaches as.
    pub role: Role,
    /// The variables that every face may send.
    #[serde(default)]
    pub environment: Variables,
}

/// What the keeper answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Welcome {
    /// The face is attached.
    Attached {
        /// The protocol that both speak.
        protocol: u32,
        /// The keeper's build.
        build: Build,
        /// The keeper's process.
        pid: u32,
        /// What a person should know, for example that the keeper is older than the face.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notice: Option<String>,
    },
    /// The keeper is older than the face and has nothing to do: it ends, and the face starts a new one.
    Restarting,
    /// The face may not attach.
    Refused(Refusal),
}

/// Variables as they travel: text where they are text, else bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Variables(BTreeMap<String, Word>);

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Word {
    Text(String),
    Bytes(Vec<u8>),
}

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values may be secrets.
        f.write_str("…")
    }
}

impl From<&BTreeMap<OsString, OsString>> for Variables {
    fn from(variables: &BTreeMap<OsString, OsString>) -> Self {
        let word = |value: &OsString| {
            value.to_str().map_or_else(
                || Word::Bytes(value.as_bytes().to_vec()),
                |text| Word::Text(text.to_owned()),
            )
        };
        let pairs = variables.iter().filter_map(|(name, value)| {
            // A name that is no text can be named neither in a configuration nor in a recipe.
            Some((name.to_str()?.to_owned(), word(value)))
        });
        Self(pairs.collect())
    }
}

impl Variables {
    /// Returns them as a process takes them.
    #[must_use]
    pub fn into_environment(self) -> Environment {
        let value = |word| match word {
            Word::Text(text) => text.into(),
            Word::Bytes(bytes) => OsString::from_vec(bytes),
        };
        Environment(
            self.0
                .into_iter()
                .map(|(name, word)| (name.into(), value(word)))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_build_is_greater() {
        let build = |version: &[u64], stamp| Build {
            version: version.to_vec(),
            stamp,
        };
        assert!(build(&[0, 2, 0], 1) > build(&[0, 1, 9], 5));
        assert!(build(&[0, 10, 0], 1) > build(&[0, 9, 0], 5));
        assert!(build(&[0, 1, 0], 6) > build(&[0, 1, 0], 5));
        assert_eq!(Build::of(None).words(), env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn variables_travel_whole_and_are_never_printed() {
        let odd = OsString::from_vec(vec![0x66, 0xff]);
        let sent: BTreeMap<OsString, OsString> =
            [("A".into(), "kept-secret".into()), ("B".into(), odd)].into();
        let variables = Variables::from(&sent);
        assert!(!format!("{variables:?}").contains("kept-secret"));
        let line = serde_json::to_string(&variables).unwrap();
        let read: Variables = serde_json::from_str(&line).unwrap();
        let environment = read.into_environment();
        assert!(!format!("{environment:?}").contains("kept-secret"));
        assert_eq!(environment.0, sent);
    }
}
