//! Identifiers: UUIDv7, shown as 26 Crockford base32 characters, found again by any unambiguous ending.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use data_encoding::{Encoding, Specification};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Characters of a full identifier.
pub const ID_CHARS: usize = 26;
/// The shortest ending that may stand for an identifier.
pub const MIN_ENDING: usize = 8;

static BASE32: LazyLock<Option<Encoding>> = LazyLock::new(|| {
    let mut spec = Specification::new();
    spec.symbols.push_str("0123456789abcdefghjkmnpqrstvwxyz");
    spec.translate.from.push_str("ABCDEFGHJKMNPQRSTVWXYZ");
    spec.translate.to.push_str("abcdefghjkmnpqrstvwxyz");
    spec.encoding().ok()
});

/// Why a text is no identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text has characters outside the base32 alphabet or a wrong length.
    #[error("'{0}' is no id: expected 26 base32 characters, or at least the last 8 of them")]
    Malformed(String),
}

/// Sixteen bytes of UUIDv7: ordered by creation time, unambiguous in its last characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id([u8; 16]);

impl Id {
    /// Wraps the bytes of a UUIDv7.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the raw bytes, as the journal stores them.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Returns a new identifier from the system clock; ordered within this process.
    #[must_use]
    pub fn generate() -> Self {
        Self(uuid::Uuid::now_v7().into_bytes())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match BASE32.as_ref() {
            Some(encoding) => f.write_str(&encoding.encode(&self.0)),
            None => Err(fmt::Error),
        }
    }
}

impl FromStr for Id {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let malformed = || IdError::Malformed(text.to_owned());
        let encoding = BASE32.as_ref().ok_or_else(malformed)?;
        let bytes = encoding.decode(text.as_bytes()).map_err(|_| malformed())?;
        bytes.try_into().map(Self).map_err(|_| malformed())
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

/// Takes both forms: inside a tagged enum serde forgets which format it reads.
struct IdVisitor;

impl de::Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id of 26 base32 characters or 16 bytes")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Id, E> {
        <[u8; 16]>::try_from(bytes).map(Id).map_err(E::custom)
    }
}

/// What a person or model typed for an identifier: all of it, or an ending of eight characters or more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdEnding(String);

impl IdEnding {
    /// Returns the lower-case ending.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the whole identifier when all 26 characters were given.
    #[must_use]
    pub fn full(&self) -> Option<Id> {
        self.0.parse().ok()
    }

    /// Tells whether `id` ends in this text.
    #[must_use]
    pub fn matches(&self, id: Id) -> bool {
        id.to_string().ends_with(&self.0)
    }
}

impl fmt::Display for IdEnding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for IdEnding {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let lower = text.to_ascii_lowercase();
        let alphabet = |c: char| c.is_ascii_digit() || (c.is_ascii_lowercase() && !"ilou".contains(c));
        let fits = (MIN_ENDING..=ID_CHARS).contains(&lower.len()) && lower.chars().all(alphabet);
        if fits {
            Ok(Self(lower))
        } else {
            Err(IdError::Malformed(text.to_owned()))
        }
    }
}

macro_rules! typed_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Id);

        impl $name {
            /// Returns a new identifier from the system clock.
            #[must_use]
            pub fn generate() -> Self {
                Self(Id::generate())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                text.parse().map(Self)
            }
        }
    };
}

typed_id!(
    /// Identifies a thread: one conversation, one sequence of events.
    ThreadId
);
typed_id!(
    /// Identifies a run: one execution in a tree of executions.
    RunId
);
typed_id!(
    /// Identifies one invocation of a verb; its events share it.
    CallId
);
typed_id!(
    /// Identifies one request for a person's approval.
    ApprovalId
);
typed_id!(
    /// Identifies one form that waits for a person.
    FormId
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_form_round_trips_and_keeps_order(a: [u8; 16], b: [u8; 16]) {
            let (a, b) = (Id::from_bytes(a), Id::from_bytes(b));
            prop_assert_eq!(a.to_string().len(), ID_CHARS);
            prop_assert_eq!(a.to_string().parse::<Id>().unwrap(), a);
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }
    }

    #[test]
    fn an_ending_needs_eight_characters_of_the_alphabet() {
        let id = Id::generate();
        let text = id.to_string();
        let ending: IdEnding = text
            .chars()
            .skip(ID_CHARS - 8)
            .collect::<String>()
            .to_uppercase()
            .parse()
            .unwrap();
        assert!(ending.matches(id));
        assert_eq!(text.parse::<IdEnding>().unwrap().full(), Some(id));
        assert!("abcdefg".parse::<IdEnding>().is_err());
        assert!("abcdefgu".parse::<IdEnding>().is_err());
    }
}
