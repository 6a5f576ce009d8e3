//! Grants: a verb and an address prefix in whole components, or one of the named rights.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// One grant.
///
/// `call:github/` permits every tool of `github`, `call:github/create_issue` one tool; `read:file:/src/` everything
/// below `/src`; a trailing `/` is optional and means nothing: comparison is by whole components, so `/src` never
/// covers `/src-evil`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grant {
    /// A verb on everything at or below a target.
    Act {
        /// `read`, `write`, `call` or `delegate`.
        verb: GrantVerb,
        /// The target's components; empty covers everything.
        target: Vec<String>,
    },
    /// May publish signed hypermedia.
    Publish,
    /// May run code behind a wall.
    Execute,
    /// May reach a host that the network rules would refuse.
    Net(String),
}

/// A verb that can be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GrantVerb {
    /// `read:`
    Read,
    /// `write:`
    Write,
    /// `call:`
    Call,
    /// `delegate:`
    Delegate,
}

impl GrantVerb {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Call, "call"),
        (Self::Delegate, "delegate"),
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Call => "call",
            Self::Delegate => "delegate",
        }
    }
}

/// Why a text is no grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no grant: expected call:SOURCE/[TOOL], read:ADDRESS, write:ADDRESS, delegate:TOOL, publish, execute or net:HOST"
)]
pub struct GrantError(String);

/// Splits a target into components. A scheme counts as a component, so `file:/a/b` is `file:`, `a`, `b`.
#[must_use]
pub fn components(target: &str) -> Vec<String> {
    let (scheme, rest) = match target.split_once(':') {
        Some((scheme, rest)) if !scheme.contains('/') => (Some(format!("{scheme}:")), rest),
        _ => (None, target),
    };
    scheme
        .into_iter()
        .chain(rest.split('/').filter(|c| !c.is_empty()).map(str::to_owned))
        .collect()
}

impl Grant {
    /// Returns a grant of `verb` on `target` and everything below it.
    #[must_use]
    pub fn act(verb: GrantVerb, target: &str) -> Self {
        Self::Act {
            verb,
            target: components(target),
        }
    }

    /// Tells whether this grant permits `verb` on `target`.
    #[must_use]
    pub fn covers(&self, verb: GrantVerb, target: &[String]) -> bool {
        matches!(self, Self::Act { verb: own, target: prefix } if *own == verb && target.starts_with(prefix))
    }

    /// Returns what both permit: the longer prefix of a comparable pair, else nothing.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Act { verb, target }, Self::Act { verb: v, target: t }) if verb == v => {
                if target.starts_with(t) {
                    Some(self.clone())
                } else {
                    t.starts_with(target).then(|| other.clone())
                }
            }
            (a, b) if a == b => Some(a.clone()),
            _ => None,
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Act { verb, target } => {
                write!(f, "{}:", verb.word())?;
                let mut rest = target.as_slice();
                if let Some((first, tail)) = rest.split_first()
                    && first.ends_with(':')
                {
                    f.write_str(first)?;
                    if first == "file:" {
                        f.write_str("/")?;
                    }
                    rest = tail;
                }
                f.write_str(&rest.join("/"))
            }
            Self::Publish => f.write_str("publish"),
            Self::Execute => f.write_str("execute"),
            Self::Net(host) => write!(f, "net:{host}"),
        }
    }
}

impl FromStr for Grant {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        let text = text.trim();
        match text {
            "publish" => return Ok(Self::Publish),
            "execute" => return Ok(Self::Execute),
            _ => {}
        }
        let (word, target) = text.split_once(':').ok_or_else(|| GrantError(text.to_owned()))?;
        if word == "net" && !target.is_empty() {
            return Ok(Self::Net(target.to_ascii_lowercase()));
        }
        GrantVerb::ALL
            .iter()
            .find(|(_, name)| *name == word)
            .map(|(verb, _)| Self::act(*verb, target))
            .filter(|grant| !matches!(grant, Self::Act { target, .. } if target.iter().any(|c| c == "..")))
            .ok_or_else(|| GrantError(text.to_owned()))
    }
}

impl Serialize for Grant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Grant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// A union of grants.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantSet(Vec<Grant>);

impl GrantSet {
    /// Returns the set of these grants, sorted, without doubles and without grants that another one covers.
    #[must_use]
    pub fn new(grants: impl IntoIterator<Item = Grant>) -> Self {
        let mut all: Vec<Grant> = grants.into_iter().collect();
        all.sort();
        all.dedup();
        let kept = all
            .iter()
            .filter(|grant| match grant {
                Grant::Act { verb, target } => !all
                    .iter()
                    .any(|other| other != *grant && other.covers(*verb, target)),
                _ => true,
            })
            .cloned()
            .collect();
        Self(kept)
    }

    /// Returns the set that permits every read, write, call and delegation (but neither publishing nor executing).
    #[must_use]
    pub fn everything() -> Self {
        Self::new(GrantVerb::ALL.iter().map(|(verb, _)| Grant::act(*verb, "")))
    }

    /// Tells whether any grant permits `verb` on `target`.
    #[must_use]
    pub fn covers(&self, verb: GrantVerb, target: &[String]) -> bool {
        self.0.iter().any(|grant| grant.covers(verb, target))
    }

    /// Tells whether a named right is in the set.
    #[must_use]
    pub fn has(&self, right: &Grant) -> bool {
        self.0.contains(right)
    }

    /// Returns what both sets permit.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        Self::new(
            self.0
                .iter()
                .flat_map(|a| other.0.iter().filter_map(|b| a.intersect(b))),
        )
    }

    /// Returns the grants in order.
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }

    /// Tells whether nothing is granted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(texts: &[&str]) -> GrantSet {
        GrantSet::new(texts.iter().map(|t| t.parse::<Grant>().unwrap()))
    }

    #[test]
    fn s03_a_prefix_is_whole_components() {
        let grant: Grant = "read:file:/project".parse().unwrap();
        assert!(grant.covers(GrantVerb::Read, &components("file:/project/src/x")));
        assert!(grant.covers(GrantVerb::Read, &components("file:/project")));
        assert!(!grant.covers(GrantVerb::Read, &components("file:/project-evil/x")));
        assert!(!grant.covers(GrantVerb::Write, &components("file:/project/x")));
    }

    #[test]
    fn a06_a_hyphen_in_a_source_changes_nothing() {
        let grant: Grant = "call:my-server/".parse().unwrap();
        assert!(grant.covers(GrantVerb::Call, &components("my-server/do-it")));
        assert!(!grant.covers(GrantVerb::Call, &components("my/server")));
    }

    #[test]
    fn intersection_keeps_the_longer_prefix() {
        let both = set(&["call:github/", "read:file:/a/b", "execute"]).intersect(&set(&[
            "call:github/list",
            "call:gitlab/",
            "read:file:/a",
            "publish",
        ]));
        let text: Vec<String> = both.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["read:file:/a/b", "call:github/list"]);
    }

    #[test]
    fn grants_print_as_they_are_written() {
        for text in [
            "call:github",
            "call:github/a",
            "read:file:/a/b",
            "write:~/memory",
            "publish",
            "net:example.org",
        ] {
            assert_eq!(text.parse::<Grant>().unwrap().to_string(), text);
        }
        for text in ["", "github", "eat:x", "read:file:/a/../b", "net:"] {
            assert!(text.parse::<Grant>().is_err(), "{text}");
        }
    }

    fn grants() -> impl Strategy<Value = GrantSet> {
        let part = prop::sample::select(vec!["a", "b", "c"]);
        let one = (
            prop::sample::select(vec![GrantVerb::Read, GrantVerb::Call]),
            prop::collection::vec(part, 0..3),
        );
        prop::collection::vec(one, 0..5)
            .prop_map(|list| GrantSet::new(list.into_iter().map(|(verb, t)| Grant::act(verb, &t.join("/")))))
    }

    proptest! {
        #[test]
        fn a08_an_intersection_is_never_wider_and_never_narrower(
            a in grants(), b in grants(), t in prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 0..4)
        ) {
            let target = components(&t.join("/"));
            for verb in [GrantVerb::Read, GrantVerb::Call] {
                let both = a.covers(verb, &target) && b.covers(verb, &target);
                prop_assert_eq!(a.intersect(&b).covers(verb, &target), both);
            }
        }
    }
}
