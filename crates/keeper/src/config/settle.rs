//! Putting in place what an entry refers to, except for the variables of whoever calls.

use std::collections::{BTreeMap, BTreeSet};

use super::sections::{OauthEntry, ServerEntry};
use crate::template::{Lookup, Template, TemplateError};

impl ServerEntry {
    /// Returns the entry with its secrets and the output of its commands in place; references to variables stay.
    ///
    /// # Errors
    /// Fails when a secret is not set or a command fails.
    pub fn settled(&self, lookup: &dyn Lookup) -> Result<Self, TemplateError> {
        let one = |template: &Option<Template>| {
            let template = template.as_ref();
            template.map(|template| template.settled(lookup)).transpose()
        };
        let all = |templates: &BTreeMap<String, Template>| {
            let templates = templates.iter();
            templates
                .map(|(name, template)| Ok((name.clone(), template.settled(lookup)?)))
                .collect::<Result<_, _>>()
        };
        let oauth = self.oauth.as_ref().map(|oauth| {
            Ok(OauthEntry {
                client_id: one(&oauth.client_id)?,
                client_secret: one(&oauth.client_secret)?,
                ..oauth.clone()
            })
        });
        let args = self.args.iter().map(|arg| arg.settled(lookup));
        Ok(Self {
            command: one(&self.command)?,
            args: args.collect::<Result<_, _>>()?,
            url: one(&self.url)?,
            headers: all(&self.headers)?,
            oauth: oauth.transpose()?,
            env: all(&self.env)?,
            ..self.clone()
        })
    }

    /// Returns the names of the variables that the entry refers to.
    #[must_use]
    pub fn variables(&self) -> BTreeSet<String> {
        self.templates()
            .flat_map(|template| template.variables())
            .map(str::to_owned)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;
    use crate::secrets::{SecretName, SecretValue};

    /// Knows every secret, no variable, and how often a command ran.
    struct Once(std::cell::Cell<u32>);

    impl Lookup for Once {
        fn secret(&self, name: &SecretName) -> Option<SecretValue> {
            (name.as_str() != "gone").then(|| SecretValue::new(format!("<{name}>")))
        }
        fn variable(&self, _name: &str) -> Option<String> {
            None
        }
        fn command(&self, command: &str) -> Result<String, String> {
            self.0.set(self.0.get() + 1);
            Ok(format!("out of {command}\n"))
        }
    }

    struct Face;

    impl Lookup for Face {
        fn secret(&self, _name: &SecretName) -> Option<SecretValue> {
            None
        }
        fn variable(&self, name: &str) -> Option<String> {
            Some(format!("face's {name}"))
        }
        fn command(&self, _command: &str) -> Result<String, String> {
            Err("nothing is run any more".to_owned())
        }
    }

    fn entry(text: &str) -> ServerEntry {
        let config = Config::parse(text, Path::new("/h/config.toml")).unwrap();
        config.servers["x"].clone()
    }

    #[test]
    fn only_variables_are_left_open() {
        let command = entry(
            "[servers.x]\ncommand = \"${env:TOOL}\"\nargs = [\"${cmd:id}\", \"${secret:a} ${env:B}\"]\nshare = \"thread\"\n\
             env = { A = \"${secret:a}\", B = \"$${env:B}\" }\n",
        );
        let once = Once(std::cell::Cell::new(0));
        let settled = command.settled(&once).unwrap();
        assert_eq!(once.0.get(), 1);
        assert_eq!(settled.share, command.share);
        assert_eq!(settled.variables().into_iter().collect::<Vec<_>>(), ["B", "TOOL"]);
        let shown: Vec<String> = settled
            .templates()
            .map(|template| template.resolve(&Face).unwrap().reveal().to_owned())
            .collect();
        assert_eq!(
            shown,
            ["face's TOOL", "out of id", "<a> face's B", "<a>", "${env:B}"]
        );
        let url = entry(
            "[servers.x]\nurl = \"https://${env:HOST}/\"\nheaders = { K = \"${secret:k} ${env:K}\" }\n\
             oauth = { client_id = \"${secret:id}\", client_secret = \"${env:S}\", scopes = [\"a\"] }\n",
        );
        let settled = url.settled(&once).unwrap();
        assert!(
            settled
                .templates()
                .all(|template| template.resolve(&Face).is_ok())
        );
        assert_eq!(settled.oauth.unwrap().scopes, ["a"]);
        let gone = entry("[servers.x]\ncommand = \"a\"\nenv = { A = \"${secret:gone}\" }\n").settled(&once);
        assert_eq!(
            gone.unwrap_err().to_string(),
            "the secret 'gone' is not set; pentad secret set gone"
        );
    }
}
