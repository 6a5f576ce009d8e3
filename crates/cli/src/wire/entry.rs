//! An entry of `[servers.NAME]` as its callers' variables make it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use pentad_keeper::config::{OauthEntry, ServerEntry};
use pentad_keeper::template::{Template, TemplateError};
use pentad_keeper::{Lookup, SecretName, SecretValue};
use pentad_mcp::{
    ByCaller, CommandLine, Definition, Endpoint, EndpointError, LoginSettings, Reach, Values, Way,
};
use pentad_model::{Refusal, RefusalKind};
use pentad_program::Environment;

use super::environment::Variables;

/// An entry with everything in place but the variables of whoever calls.
struct Entry {
    name: String,
    settled: ServerEntry,
    variables: Arc<Variables>,
}

/// Returns how the server of an entry is reached.
///
/// Secrets and commands are put in once. A program depends on its callers, too, by the variables that the configuration
/// declares: it inherits them.
///
/// # Errors
/// Says in a sentence what cannot be used; no secret is in it.
pub fn way(
    name: &str,
    entry: &ServerEntry,
    lookup: &dyn Lookup,
    variables: &Arc<Variables>,
) -> Result<Way, String> {
    let settled = entry.settled(lookup).map_err(|error| error.to_string())?;
    if let Some(url) = &settled.url
        && settled.variables().is_empty()
    {
        let endpoint = endpoint(url, &settled, &AsWritten).map_err(|why| why.to_string())?;
        return Ok(Reach::Url(endpoint).into());
    }
    Ok(Way::ByCaller(Arc::new(Entry {
        name: name.to_owned(),
        settled,
        variables: Arc::clone(variables),
    })))
}

impl ByCaller for Entry {
    fn definition(&self) -> Definition {
        let entry = &self.settled;
        match &entry.url {
            Some(url) => Definition::Url {
                url: resolve(url, &AsWritten).unwrap_or_default(),
                headers: entry
                    .headers
                    .keys()
                    .map(|name| name.to_ascii_lowercase())
                    .collect(),
            },
            None => Definition::Command(command_line(entry, &AsWritten).unwrap_or_default()),
        }
    }

    fn values(&self, environment: Option<&Environment>) -> Values {
        let from = environment.map_or_else(|| self.variables.own(), |environment| &environment.0);
        let mut names = self.settled.variables();
        if self.settled.url.is_none() {
            let inherited = self.variables.declared().into_iter();
            names.extend(inherited.filter(|name| !self.settled.env.contains_key(name)));
        }
        names
            .into_iter()
            .filter_map(|name| {
                // What is no text can stand in no configuration.
                let value = from.get(OsStr::new(&name))?.to_str()?.to_owned();
                Some((name, value))
            })
            .collect()
    }

    fn reach(&self, values: &Values) -> Result<Reach, Refusal> {
        let caller = OfCaller(values);
        let reach = match &self.settled.url {
            Some(url) => endpoint(url, &self.settled, &caller).map(Reach::Url),
            None => command_line(&self.settled, &caller).map(|mut line| {
                for declared in self.variables.declared() {
                    if let Some(value) = values.get(&declared) {
                        line.env.entry(declared).or_insert_with(|| value.clone());
                    }
                }
                Reach::Command(line)
            }),
        };
        reach.map_err(|why| self.refused(&why))
    }
}

impl Entry {
    fn refused(&self, why: &Unfit) -> Refusal {
        let server = &self.name;
        match why {
            Unfit::Template(TemplateError::MissingVariable { name }) => {
                let message = format!(
                    "The server '{server}' needs the environment variable {name}, which is not set here."
                );
                Refusal::new(RefusalKind::Invalid, name.as_str(), message).next_step(format!(
                    "set {name} where pentad is started, then repeat the call"
                ))
            }
            why => {
                let message = format!("The server '{server}' cannot be used: {why}.");
                Refusal::new(RefusalKind::Unavailable, server.as_str(), message)
                    .next_step("pentad doctor lists what is wrong")
            }
        }
    }
}

/// Why an entry makes no server. No value is in it.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// Leaves references to variables as a person wrote them; there are no others any more.
struct AsWritten;

impl Lookup for AsWritten {
    fn secret(&self, _name: &SecretName) -> Option<SecretValue> {
        None
    }

    fn variable(&self, name: &str) -> Option<String> {
        Some(format!("${{env:{name}}}"))
    }

    fn command(&self, _command: &str) -> Result<String, String> {
        Err(SETTLED.to_owned())
    }
}

/// The variables of one caller; there are no other references any more.
struct OfCaller<'a>(&'a Values);

impl Lookup for OfCaller<'_> {
    fn secret(&self, _name: &SecretName) -> Option<SecretValue> {
        None
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    fn command(&self, _command: &str) -> Result<String, String> {
        Err(SETTLED.to_owned())
    }
}

/// What is never read: commands ran when the entry was taken.
const SETTLED: &str = "commands run when the entry is taken";

fn resolve(template: &Template, lookup: &dyn Lookup) -> Result<String, TemplateError> {
    template.resolve(lookup).map(|value| value.reveal().to_owned())
}

fn resolve_all(
    templates: &BTreeMap<String, Template>,
    lookup: &dyn Lookup,
) -> Result<BTreeMap<String, String>, TemplateError> {
    templates
        .iter()
        .map(|(key, template)| Ok((key.clone(), resolve(template, lookup)?)))
        .collect()
}

fn command_line(entry: &ServerEntry, lookup: &dyn Lookup) -> Result<CommandLine, Unfit> {
    let home_dir = std::env::var_os("HOME").map(PathBuf::from);
    let program = entry.command.as_ref().map(|command| resolve(command, lookup));
    Ok(CommandLine {
        program: program.transpose()?.unwrap_or_default(),
        args: entry
            .args
            .iter()
            .map(|arg| resolve(arg, lookup))
            .collect::<Result<_, _>>()?,
        env: resolve_all(&entry.env, lookup)?,
        cwd: entry
            .cwd
            .as_ref()
            .map(|cwd| pentad_keeper::doctor::expand_tilde(cwd, home_dir.as_deref())),
    })
}

fn endpoint(url: &Template, entry: &ServerEntry, lookup: &dyn Lookup) -> Result<Endpoint, Unfit> {
    let url = resolve(url, lookup)?;
    let headers = resolve_all(&entry.headers, lookup)?;
    let mut endpoint = Endpoint::new(&url, &headers)?;
    if let Some(oauth) = &entry.oauth {
        endpoint.login = login(oauth, lookup)?;
    }
    Ok(endpoint)
}

fn login(oauth: &OauthEntry, lookup: &dyn Lookup) -> Result<LoginSettings, TemplateError> {
    let optional = |template: &Option<Template>| {
        template
            .as_ref()
            .map(|template| resolve(template, lookup))
            .transpose()
    };
    Ok(LoginSettings {
        client_id: optional(&oauth.client_id)?,
        client_secret: optional(&oauth.client_secret)?,
        client_metadata_url: oauth.client_metadata_url.clone(),
        scopes: oauth.scopes.clone(),
        redirect_port: oauth.redirect_port,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pentad_keeper::Config;

    use super::*;

    struct NoSecrets;

    impl Lookup for NoSecrets {
        fn secret(&self, _name: &SecretName) -> Option<SecretValue> {
            None
        }
        fn variable(&self, _name: &str) -> Option<String> {
            None
        }
        fn command(&self, _command: &str) -> Result<String, String> {
            Err("none".to_owned())
        }
    }

    fn made(section: &str, declared: &[&str]) -> Result<Way, String> {
        let text = format!("[servers.x]\n{section}\n");
        let config = Config::parse(&text, Path::new("/h/config.toml")).unwrap();
        let declared = declared.iter().map(|name| (*name).to_owned()).collect();
        way(
            "x",
            &config.servers["x"],
            &NoSecrets,
            &Variables::of_process(declared),
        )
    }

    fn callers(section: &str, declared: &[&str]) -> Arc<dyn ByCaller> {
        match made(section, declared).unwrap() {
            Way::ByCaller(callers) => callers,
            Way::Fixed(_) => panic!("the same for everybody"),
        }
    }

    fn face(pairs: &[(&str, &str)]) -> Environment {
        let pairs = pairs.iter();
        Environment(
            pairs
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
        )
    }

    #[test]
    fn only_what_an_entry_refers_to_and_what_is_declared_counts() {
        let entry = "command = \"tool\"\nargs = [\"${env:A}\"]\nenv = { B = \"x\", C = \"${env:C}\" }";
        let found = callers(entry, &["B", "D"]);
        let sent = face(&[("A", "1"), ("B", "2"), ("C", "3"), ("D", "4"), ("E", "5")]);
        let values = found.values(Some(&sent));
        assert_eq!(values.keys().collect::<Vec<_>>(), ["A", "C", "D"]);
        let Reach::Command(line) = found.reach(&values).unwrap() else {
            panic!("no command")
        };
        assert_eq!(line.args, ["1"]);
        let env = [("B", "x"), ("C", "3"), ("D", "4")];
        assert_eq!(
            line.env,
            env.map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into()
        );
        // What is declared may be missing; what is referred to may not.
        let values = found.values(Some(&face(&[("A", "1")])));
        let refused = found.reach(&values).unwrap_err();
        assert_eq!(refused.subject, "C");
        let Definition::Command(line) = found.definition() else {
            panic!("no command")
        };
        assert_eq!(
            (line.args[0].as_str(), line.env["C"].as_str()),
            ("${env:A}", "${env:C}")
        );
        assert!(!line.env.contains_key("D"), "whoever calls brings it");
    }

    #[test]
    fn a_url_inherits_nothing_and_is_fixed_without_references() {
        let plain = made("url = \"https://a.example/mcp\"", &["D"]).unwrap();
        assert!(matches!(plain, Way::Fixed(Reach::Url(_))));
        let entry = "url = \"${env:BASE}/mcp\"\nheaders = { X-Key = \"${env:KEY}\" }";
        let found = callers(entry, &["D"]);
        let sent = face(&[("BASE", "https://b.example"), ("KEY", "k"), ("D", "4")]);
        let values = found.values(Some(&sent));
        assert_eq!(values.keys().collect::<Vec<_>>(), ["BASE", "KEY"]);
        let Reach::Url(endpoint) = found.reach(&values).unwrap() else {
            panic!("no url")
        };
        assert_eq!(endpoint.shown(), "https://b.example/mcp");
        let bad = face(&[("BASE", "canary-no-url"), ("KEY", "k")]);
        let refused = found.reach(&found.values(Some(&bad))).unwrap_err();
        assert!(!refused.to_text().contains("canary"), "{refused}");
        assert!(made("url = \"ftp://a.example\"", &[]).is_err());
    }
}
