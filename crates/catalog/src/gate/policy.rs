//! What a person wrote down in `policy.toml`.
//!
//! Forbidding and permitting match differently on purpose: a prohibition that misses a spelling is a hole, a
//! permission that takes in one too many is a hole too. [`Forbidden`] therefore compares without case and takes a
//! prohibited call to prohibit the delegation as well; [`Permitted`] compares exactly.

use pentad_model::Actor;
use pentad_model::grant::{Grant, GrantSet, GrantVerb};
use unicode_normalization::UnicodeNormalization;

use super::act::Act;
use super::parse::{self, PolicyError};

/// For whom a rule holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Whom {
    /// Everyone.
    Anyone,
    /// Every actor of a kind, such as `client:*`.
    Kind(&'static str),
    /// One actor.
    One(Actor),
}

impl Whom {
    fn includes(&self, actor: &Actor) -> bool {
        match self {
            Self::Anyone => true,
            Self::Kind(kind) => kind_of(actor) == *kind,
            Self::One(one) => one == actor,
        }
    }
}

const fn kind_of(actor: &Actor) -> &'static str {
    match actor {
        Actor::User => "user",
        Actor::Client(_) => "client",
        Actor::Agent(_) => "agent",
        Actor::System => "system",
        Actor::Trigger(_) => "trigger",
    }
}

/// Rules that forbid, or that ask: matched in doubt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Forbidden(pub(super) Vec<Grant>);

impl Forbidden {
    fn matches(&self, act: &Act, target: &[String]) -> bool {
        self.0.iter().any(|rule| match rule {
            Grant::Act { .. } => forbids(rule, act.verb, target),
            named => act.right.as_ref() == Some(named),
        })
    }
}

/// Tells whether a prohibition takes in a target: whole components, without case, compatibility forms unified.
pub(crate) fn forbids(rule: &Grant, verb: GrantVerb, target: &[String]) -> bool {
    let Grant::Act {
        verb: own,
        target: prefix,
    } = rule
    else {
        return false;
    };
    let same_verb = *own == verb || (*own == GrantVerb::Call && verb == GrantVerb::Delegate);
    same_verb && prefix.len() <= target.len() && prefix.iter().zip(target).all(|(a, b)| is_alike(a, b))
}

fn is_alike(a: &str, b: &str) -> bool {
    if a.is_ascii() && b.is_ascii() {
        return a.eq_ignore_ascii_case(b);
    }
    let folded = |text: &str| text.nfkc().collect::<String>().to_lowercase();
    folded(a) == folded(b)
}

/// Rules that allow: matched exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Permitted(pub(super) Vec<Grant>);

impl Permitted {
    fn matches(&self, act: &Act, target: &[String]) -> bool {
        let act_covered = self.0.iter().any(|rule| rule.covers(act.verb, target));
        act_covered && act.right.as_ref().is_none_or(|right| self.0.contains(right))
    }
}

/// The rules for some actors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) whom: Whom,
    pub(super) deny: Forbidden,
    pub(super) ask: Forbidden,
    pub(super) allow: Permitted,
}

/// What the rules say about one act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ruling {
    Deny(String),
    Ask,
    Allow,
    Silent,
}

/// A parsed policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    pub(super) rules: Vec<Rule>,
    broken: Option<String>,
}

impl Policy {
    /// Parses the text of `policy.toml`.
    ///
    /// # Errors
    /// Names the line of a syntax error, an unknown key or a malformed rule. Keep the policy that was in force, or use
    /// [`Self::broken`] where there was none: a file that cannot be read must not allow anything.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        Ok(Self {
            rules: parse::rules(text)?,
            broken: None,
        })
    }

    /// Returns the policy of a home whose file cannot be read: only a person may act until it is repaired.
    #[must_use]
    pub fn broken(error: &PolicyError) -> Self {
        Self {
            rules: Vec::new(),
            broken: Some(error.to_string()),
        }
    }

    /// Returns what is denied to an actor, for [`crate::Visibility::denied`].
    #[must_use]
    pub fn denied_for(&self, actor: &Actor) -> GrantSet {
        GrantSet::new(
            self.rules
                .iter()
                .filter(|rule| rule.whom.includes(actor))
                .flat_map(|rule| rule.deny.0.iter().cloned()),
        )
    }

    /// Deny stands above ask, ask above allow, in whichever order and rule they were written.
    pub(super) fn ruling(&self, act: &Act) -> Ruling {
        let actor = &act.caller.actor;
        if let Some(error) = &self.broken {
            return if actor.is_person() {
                Ruling::Silent
            } else {
                Ruling::Deny(format!("{error}; until it is repaired only a person may act"))
            };
        }
        let target = act.components();
        let theirs = || self.rules.iter().filter(|rule| rule.whom.includes(actor));
        if theirs().any(|rule| rule.deny.matches(act, &target)) {
            return Ruling::Deny("policy.toml denies it".to_owned());
        }
        if theirs().any(|rule| rule.ask.matches(act, &target)) {
            return Ruling::Ask;
        }
        if theirs().any(|rule| rule.allow.matches(act, &target)) {
            return Ruling::Allow;
        }
        Ruling::Silent
    }
}
