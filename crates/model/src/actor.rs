//! Who acts, and on whose behalf.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Longest name of a client, agent or trigger in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// A name of `[A-Za-z0-9_.-]{1,64}` that is neither `.` nor `..`.
///
/// Agents, clients, triggers, channels and named runs use it: it is safe in a path, an address and a log line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no name: expected 1 to 64 of the characters A-Z a-z 0-9 _ . -")]
pub struct NameError(String);

impl Name {
    /// Returns the name's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the nearest legal name: other characters become `-`, the rest is cut at 64; `fallback` if nothing is left.
    #[must_use]
    pub fn sanitised(text: &str, fallback: &Self) -> Self {
        let legal: String = text
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || "_.-".contains(c) {
                    c
                } else {
                    '-'
                }
            })
            .take(MAX_NAME_BYTES)
            .collect();
        let trimmed = legal.trim_matches(|c| c == '-' || c == '.');
        trimmed.parse().unwrap_or_else(|_| fallback.clone())
    }

    /// Returns the name of the agent that exists in every home.
    #[must_use]
    pub fn main() -> Self {
        Self("main".to_owned())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let fits = (1..=MAX_NAME_BYTES).contains(&text.len()) && text.chars().all(legal);
        if fits && text != "." && text != ".." {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError(text.to_owned()))
        }
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// Who acts. Every journal entry carries one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// A person at a terminal or in the browser.
    User,
    /// A program that speaks MCP or HTTP, or an agent's shell, by name.
    Client(Name),
    /// One of our own agents, by name.
    Agent(Name),
    /// Pentad itself: recovery, settlement, retention.
    System,
    /// A trigger, by name.
    Trigger(Name),
}

impl Actor {
    /// Tells whether a person acts: only a person approves, trusts and reveals.
    #[must_use]
    pub const fn is_person(&self) -> bool {
        matches!(self, Self::User)
    }

    /// Tells whether what is returned goes to a model, which needs contracts before calls and bounded views.
    #[must_use]
    pub const fn is_model(&self) -> bool {
        matches!(self, Self::Client(_) | Self::Agent(_))
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str("user"),
            Self::Client(name) => write!(f, "client:{name}"),
            Self::Agent(name) => write!(f, "agent:{name}"),
            Self::System => f.write_str("system"),
            Self::Trigger(name) => write!(f, "trigger:{name}"),
        }
    }
}

/// Why a text is no actor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no actor: expected user, system, client:NAME, agent:NAME or trigger:NAME")]
pub struct ActorError(String);

impl FromStr for Actor {
    type Err = ActorError;

    fn from_str(text: &str) -> Result<Self, ActorError> {
        let wrong = || ActorError(text.to_owned());
        match text.split_once(':') {
            None if text == "user" => Ok(Self::User),
            None if text == "system" => Ok(Self::System),
            Some((kind, name)) => {
                let name = name.parse().map_err(|_| wrong())?;
                match kind {
                    "client" => Ok(Self::Client(name)),
                    "agent" => Ok(Self::Agent(name)),
                    "trigger" => Ok(Self::Trigger(name)),
                    _ => Err(wrong()),
                }
            }
            None => Err(wrong()),
        }
    }
}

impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Actor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// Who calls: the actor, and on whose behalf when that is someone else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Who acts.
    pub actor: Actor,
    /// For whom, when not for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<Actor>,
}

impl From<Actor> for Caller {
    fn from(actor: Actor) -> Self {
        Self {
            actor,
            on_behalf_of: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_round_trip_as_text() {
        for text in [
            "user",
            "system",
            "client:claude-code",
            "agent:main",
            "trigger:daily.report",
        ] {
            assert_eq!(text.parse::<Actor>().unwrap().to_string(), text);
        }
        for text in ["", "root", "client:", "client:a b", "agent:..", "user:x"] {
            assert!(text.parse::<Actor>().is_err(), "{text}");
        }
    }

    #[test]
    fn foreign_client_names_become_legal() {
        let fallback: Name = "mcp".parse().unwrap();
        assert_eq!(
            Name::sanitised("Claude Code (beta)", &fallback).as_str(),
            "Claude-Code--beta"
        );
        assert_eq!(Name::sanitised("日本", &fallback), fallback);
        assert_eq!(Name::sanitised("..", &fallback), fallback);
    }
}
