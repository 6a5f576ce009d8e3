//! The grammar of `policy.toml`.
//!
//! ```toml
//! deny = ["call:github/delete_repo"]
//! ask = ["write:~/memory/"]
//! allow = ["call:github/"]
//!
//! [[rule]]
//! actor = "client:*"
//! deny = ["read:file:/etc"]
//! ```

use std::ops::Range;

use pentad_model::grant::Grant;
use pentad_model::text::{excerpt, visible};
use strsim::damerau_levenshtein;
use toml_edit::{Document, Item, Table, Value};

use super::policy::{Forbidden, Permitted, Rule, Whom};

/// Most rules of one file.
const MAX_RULES: usize = 1_000;
const LISTS: [&str; 3] = ["deny", "ask", "allow"];
const KINDS: [&str; 3] = ["client", "agent", "trigger"];

/// Why a policy cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy.toml line {line}: {message}")]
pub struct PolicyError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

struct Source<'a>(&'a str);

impl Source<'_> {
    fn error(&self, span: Option<Range<usize>>, message: impl Into<String>) -> PolicyError {
        let at = span.map_or(0, |span| span.start.min(self.0.len()));
        let line = 1 + self.0.bytes().take(at).filter(|byte| *byte == b'\n').count();
        PolicyError {
            line,
            message: message.into(),
        }
    }

    fn check_keys(&self, table: &Table, known: &[&str]) -> Result<(), PolicyError> {
        for (name, item) in table {
            if known.contains(&name) {
                continue;
            }
            let span = table
                .key(name)
                .and_then(toml_edit::Key::span)
                .or_else(|| item.span());
            let near = known
                .iter()
                .map(|key| (damerau_levenshtein(name, key), *key))
                .filter(|(distance, key)| *distance <= 2.max(key.len() / 2))
                .min()
                .map_or_else(
                    || format!("expected {}", known.join(", ")),
                    |(_, key)| format!("did you mean '{key}'?"),
                );
            let name = excerpt(&visible(name), 80);
            return Err(self.error(span, format!("unknown key '{name}'; {near}")));
        }
        Ok(())
    }

    fn grants(&self, table: &Table, key: &str) -> Result<Vec<Grant>, PolicyError> {
        let Some(item) = table.get(key) else {
            return Ok(Vec::new());
        };
        let Some(list) = item.as_array() else {
            return Err(self.error(item.span(), format!("'{key}' must be a list of rules")));
        };
        list.iter().map(|value| self.grant(value)).collect()
    }

    fn grant(&self, value: &Value) -> Result<Grant, PolicyError> {
        let Some(text) = value.as_str() else {
            return Err(self.error(value.span(), "a rule must be a text such as \"call:github/\""));
        };
        let shown = excerpt(&visible(text), 120);
        if text.contains('*') {
            return Err(self.error(
                value.span(),
                format!("'{shown}' has a '*': rules are prefixes of whole components, \"call:github/\" covers all of github"),
            ));
        }
        text.parse::<Grant>()
            .map_err(|error| self.error(value.span(), excerpt(&visible(&error.to_string()), 300)))
    }

    fn rule(&self, table: &Table, whom: Whom) -> Result<Rule, PolicyError> {
        Ok(Rule {
            whom,
            deny: Forbidden(self.grants(table, "deny")?),
            ask: Forbidden(self.grants(table, "ask")?),
            allow: Permitted(self.grants(table, "allow")?),
        })
    }

    fn whom(&self, item: Option<&Item>) -> Result<Whom, PolicyError> {
        let Some(item) = item else {
            return Ok(Whom::Anyone);
        };
        let expected =
            "'actor' must be user, client:NAME, client:*, agent:NAME, agent:*, trigger:NAME, trigger:* or *";
        let Some(text) = item.as_str() else {
            return Err(self.error(item.span(), expected));
        };
        if text == "*" {
            return Ok(Whom::Anyone);
        }
        if let Some(kind) = text.strip_suffix(":*") {
            return KINDS
                .iter()
                .find(|known| **known == kind)
                .map(|kind| Whom::Kind(kind))
                .ok_or_else(|| self.error(item.span(), expected));
        }
        text.parse()
            .map(Whom::One)
            .map_err(|_| self.error(item.span(), expected))
    }
}

pub(super) fn rules(text: &str) -> Result<Vec<Rule>, PolicyError> {
    let source = Source(text);
    let document = Document::parse(text).map_err(|error| {
        let first = error.message().lines().next().unwrap_or("not TOML").to_owned();
        source.error(error.span(), first)
    })?;
    let root = document.as_table();
    source.check_keys(root, &["deny", "ask", "allow", "rule"])?;
    let mut rules = vec![source.rule(root, Whom::Anyone)?];
    if let Some(item) = root.get("rule") {
        let Some(tables) = item.as_array_of_tables() else {
            return Err(source.error(item.span(), "write rules for an actor below [[rule]]"));
        };
        for table in tables {
            source.check_keys(table, &["actor", "deny", "ask", "allow"])?;
            if !LISTS.iter().any(|list| table.contains_key(list)) {
                return Err(source.error(table.span(), "this [[rule]] has no deny, ask or allow"));
            }
            rules.push(source.rule(table, source.whom(table.get("actor"))?)?);
        }
    }
    let total: usize = rules
        .iter()
        .map(|rule| rule.deny.0.len() + rule.ask.0.len() + rule.allow.0.len())
        .sum();
    if total > MAX_RULES {
        return Err(source.error(None, format!("{total} rules; at most {MAX_RULES} are allowed")));
    }
    Ok(rules)
}
