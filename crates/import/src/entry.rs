//! `[servers.NAME]` made from what a client had: references in our syntax, secrets in the store.

use std::time::Duration;

use pentad_keeper::config::{Period, ServerEntry};
use pentad_keeper::template::{Origin, Piece};
use pentad_keeper::{SecretName, Template};
use toml_edit::{Array, InlineTable, Table, value};

use crate::dialect::{ForeignServer, Launch, Stays};
use crate::names::{legal_secret, secret_word};
use crate::secrecy::{Under, find};
use crate::text::{Inputs, Text, Word};
use crate::vault::Vault;

/// A server as it will stand in our configuration; every text is a template without secret values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// The program.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its variables.
    pub env: Vec<(String, String)>,
    /// Its folder.
    pub cwd: Option<String>,
    /// The endpoint.
    pub url: Option<String>,
    /// Headers of each request.
    pub headers: Vec<(String, String)>,
    /// Whether it is switched off.
    pub disabled: bool,
    /// Longest first start.
    pub start_timeout: Option<Duration>,
    /// Longest call.
    pub call_timeout: Option<Duration>,
}

/// Makes entries of one file.
pub struct Maker<'a> {
    /// What the file asks for.
    pub inputs: &'a Inputs,
    /// Where values go.
    pub vault: &'a mut Vault,
    /// The server's name in our configuration.
    pub server: &'a str,
}

impl Maker<'_> {
    /// Makes the entry of a server.
    ///
    /// # Errors
    /// Says what cannot be written in our configuration.
    pub fn entry(&mut self, server: &ForeignServer) -> Result<Entry, Stays> {
        let mut entry = Entry {
            disabled: server.disabled,
            start_timeout: server.start_timeout,
            call_timeout: server.call_timeout,
            ..Entry::default()
        };
        match &server.launch {
            Launch::Command {
                program,
                args,
                env,
                cwd,
            } => {
                entry.command = Some(self.template(Under::Nothing, "command", program)?);
                entry.args = self.args(args)?;
                entry.env = self.pairs(env)?;
                entry.cwd.clone_from(cwd);
                let bad = entry
                    .env
                    .iter()
                    .find(|(name, _)| !pentad_keeper::template::is_variable_name(name));
                if bad.is_some() {
                    return Err(Stays("a name in its env is no name of a variable".to_owned()));
                }
            }
            Launch::Url { url, headers } => {
                let web = |text: &str| text.starts_with("https://") || text.starts_with("http://");
                if !matches!(url.0.first(), Some(Word::Literal(text)) if web(text)) {
                    return Err(Stays(
                        "its url does not begin with https:// or http://".to_owned(),
                    ));
                }
                entry.url = Some(self.template(Under::Nothing, "url", url)?);
                entry.headers = self.pairs(headers)?;
            }
        }
        Ok(entry)
    }

    fn args(&mut self, args: &[Text]) -> Result<Vec<String>, Stays> {
        let mut option: Option<String> = None;
        let mut out = Vec::new();
        for arg in args {
            let literal = arg.as_literal();
            let is_option = literal.as_ref().is_some_and(|text| text.starts_with('-'));
            let (under, word) = match option.as_deref() {
                Some(name) if !is_option => (Under::Name(name), name),
                _ => (Under::Nothing, "argument"),
            };
            out.push(self.template(under, word, arg)?);
            option = literal.filter(|text| is_option && !text.contains('='));
        }
        Ok(out)
    }

    fn pairs(&mut self, pairs: &[(String, Text)]) -> Result<Vec<(String, String)>, Stays> {
        let mut out: Vec<(String, String)> = Vec::new();
        for (name, text) in pairs {
            let value = self.template(Under::Name(name), name, text)?;
            out.retain(|(known, _)| known != name);
            out.push((name.clone(), value));
        }
        Ok(out)
    }

    /// Writes one value as a template of ours.
    fn template(&mut self, under: Under<'_>, word: &str, text: &Text) -> Result<String, Stays> {
        let full = || Stays("there is no free name for one of its secrets".to_owned());
        let mut out = String::new();
        for piece in &text.0 {
            match piece {
                Word::Literal(literal) => self.literal(under, word, literal, &mut out)?,
                Word::Variable(name) if pentad_keeper::template::is_variable_name(name) => {
                    reference(&mut out, "env", name)?;
                }
                Word::Variable(_) => return Err(Stays("it takes a variable whose name is none".to_owned())),
                Word::Asked(id) => {
                    let question = self
                        .inputs
                        .get(id)
                        .map_or(id.as_str(), |input| input.question.as_str());
                    let name = self.vault.ask(&legal_secret(id), question).ok_or_else(full)?;
                    reference(&mut out, "secret", name.as_str())?;
                }
            }
        }
        match Template::parse(&out, Origin::Foreign) {
            Ok(_) => Ok(out),
            Err(_) => Err(Stays(format!(
                "its {word} cannot be written as a value of config.toml"
            ))),
        }
    }

    fn literal(
        &mut self,
        under: Under<'_>,
        word: &str,
        literal: &str,
        out: &mut String,
    ) -> Result<(), Stays> {
        let full = || Stays("there is no free name for one of its secrets".to_owned());
        let mut at = 0;
        for found in find(under, literal) {
            let mut range = found.range;
            let before = literal.get(at..range.start).ok_or_else(full)?;
            // A dollar just before a reference of ours would make it text, so it goes with the secret.
            let plain = before.trim_end_matches('$');
            range.start -= before.len() - plain.len();
            out.push_str(&plain.replace("${", "$${"));
            let secret = literal.get(range.clone()).ok_or_else(full)?;
            let named = match &found.hint {
                Some(hint) => secret_word(self.server, hint),
                None => secret_word(self.server, word.trim_start_matches('-')),
            };
            let name = self.vault.keep(&named, secret).ok_or_else(full)?;
            reference(out, "secret", name.as_str())?;
            at = range.end;
        }
        out.push_str(&literal.get(at..).ok_or_else(full)?.replace("${", "$${"));
        Ok(())
    }
}

fn reference(out: &mut String, kind: &str, name: &str) -> Result<(), Stays> {
    if out.ends_with('$') {
        return Err(Stays("a dollar sign stands just before a reference".to_owned()));
    }
    out.push_str(&format!("${{{kind}:{name}}}"));
    Ok(())
}

impl Entry {
    /// Returns the entry as a table of `config.toml`.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new();
        let text = |text: &str| value(text);
        if let Some(command) = &self.command {
            table.insert("command", text(command));
        }
        if !self.args.is_empty() {
            table.insert(
                "args",
                value(self.args.iter().map(String::as_str).collect::<Array>()),
            );
        }
        if let Some(url) = &self.url {
            table.insert("url", text(url));
        }
        for (key, pairs) in [("env", &self.env), ("headers", &self.headers)] {
            if !pairs.is_empty() {
                let mut inline = InlineTable::new();
                for (name, value) in pairs {
                    inline.insert(name, value.as_str().into());
                }
                table.insert(key, value(inline));
            }
        }
        if let Some(cwd) = &self.cwd {
            table.insert("cwd", text(cwd));
        }
        for (key, period) in [
            ("start_timeout", self.start_timeout),
            ("call_timeout", self.call_timeout),
        ] {
            if let Some(period) = period {
                table.insert(key, value(Period(period).to_string()));
            }
        }
        if self.disabled {
            table.insert("disabled", value(true));
        }
        table
    }

    /// Tells whether a configured server is this one: the same program or endpoint with the same values.
    #[must_use]
    pub fn is_same_as(&self, other: &ServerEntry, vault: &Vault) -> bool {
        let own = |text: &String| {
            Template::parse(text, Origin::Foreign)
                .map_or_else(|_| text.clone(), |template| said(&template, vault))
        };
        let theirs = |template: &Template| said(template, vault);
        let pairs = |pairs: &[(String, String)]| {
            let mut pairs: Vec<(String, String)> = pairs
                .iter()
                .map(|(name, text)| (name.clone(), own(text)))
                .collect();
            pairs.sort();
            pairs
        };
        let their_pairs = |map: &std::collections::BTreeMap<String, Template>| -> Vec<(String, String)> {
            map.iter()
                .map(|(name, text)| (name.clone(), theirs(text)))
                .collect()
        };
        self.command.as_ref().map(own) == other.command.as_ref().map(theirs)
            && self.args.iter().map(own).eq(other.args.iter().map(theirs))
            && self.url.as_ref().map(own) == other.url.as_ref().map(theirs)
            && self.cwd.as_deref() == other.cwd.as_deref().and_then(std::path::Path::to_str)
            && pairs(&self.env) == their_pairs(&other.env)
            && pairs(&self.headers) == their_pairs(&other.headers)
    }
}

/// Returns what a template says with the known secrets put in, for comparing only.
fn said(template: &Template, vault: &Vault) -> String {
    let secret = |name: &SecretName| match vault.get(name) {
        Some(value) => value.reveal().to_owned(),
        None => format!("\0secret:{name}\0"),
    };
    template
        .pieces()
        .iter()
        .map(|piece| match piece {
            Piece::Literal(text) => text.clone(),
            Piece::Secret(name) => secret(name),
            Piece::Env(name) => format!("\0env:{name}\0"),
            Piece::Command(command) => format!("\0cmd:{command}\0"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use pentad_keeper::SecretValue;
    use pentad_keeper::template::Lookup;
    use proptest::prelude::*;

    use super::*;

    struct Known<'v>(&'v Vault);

    impl Lookup for Known<'_> {
        fn secret(&self, name: &SecretName) -> Option<SecretValue> {
            self.0.get(name).cloned()
        }
        fn variable(&self, name: &str) -> Option<String> {
            Some(format!("<{name}>"))
        }
        fn command(&self, _: &str) -> Result<String, String> {
            Err("no".to_owned())
        }
    }

    proptest! {
        #[test]
        fn a_value_means_the_same_after_the_move(
            name in "(API_TOKEN|HOST|DB_URL)",
            literal in "[ -~é]{0,60}",
            variable in proptest::option::of("[A-Z]{1,5}"),
        ) {
            let (mut vault, inputs) = (Vault::default(), Inputs::new());
            let mut words = vec![Word::Literal(literal.clone())];
            words.extend(variable.clone().map(Word::Variable));
            let mut maker = Maker { inputs: &inputs, vault: &mut vault, server: "x" };
            let template = maker.template(Under::Name(&name), &name, &Text(words));
            if let Ok(template) = template {
                let template = Template::parse(&template, Origin::Foreign).unwrap();
                let resolved = template.resolve(&Known(&vault)).unwrap();
                let expected = format!("{literal}{}", variable.map(|v| format!("<{v}>")).unwrap_or_default());
                prop_assert_eq!(resolved.reveal(), expected.as_str());
            } else {
                prop_assert!(literal.ends_with('$') && variable.is_some());
            }
        }
    }
}
