//! Values with references: `${secret:NAME}`, `${env:NAME}`, `${cmd:…}`. Kept as written, resolved at the last moment.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

use crate::secrets::{SecretName, SecretValue};

/// Where a template was written; only our own configuration may run commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The home's own configuration.
    OwnConfig,
    /// An imported client configuration, a project file, a recipe.
    Foreign,
}

/// Why a template cannot be parsed or resolved. No variant holds a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A `${` without its `}`.
    #[error("a '${{' has no closing '}}'; write $${{ for a literal ${{")]
    Unclosed,
    /// A reference of no known kind.
    #[error(
        "'${{{reference}}}' is no reference; supported: ${{secret:NAME}}, ${{env:NAME}}, ${{cmd:COMMAND}}; write $${{ for a literal ${{"
    )]
    Unknown {
        /// What stands between the braces.
        reference: String,
    },
    /// A name with characters that names do not have.
    #[error("'{name}' is no name of {kind}: expected 1 to 64 of the characters A-Z a-z 0-9 _ . -")]
    BadName {
        /// What is named.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A command where none may be.
    #[error("${{cmd:…}} works in config.toml only; use ${{secret:NAME}} here")]
    CommandNotAllowed,
    /// A secret that nobody set.
    #[error("the secret '{name}' is not set; pentad secret set {name}")]
    MissingSecret {
        /// Its name.
        name: String,
    },
    /// A variable that is not set.
    #[error("the environment variable '{name}' is not set")]
    MissingVariable {
        /// Its name.
        name: String,
    },
    /// A command that failed.
    #[error("a ${{cmd:…}} failed: {reason}")]
    Command {
        /// Why.
        reason: String,
    },
}

/// One piece of a template.
#[derive(Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text as it is.
    Literal(String),
    /// A secret of this home.
    Secret(SecretName),
    /// An environment variable.
    Env(String),
    /// A command's standard output without its last line break.
    Command(String),
}

impl Piece {
    fn value(&self, lookup: &dyn Lookup) -> Result<String, TemplateError> {
        match self {
            Self::Literal(literal) => Ok(literal.clone()),
            Self::Secret(name) => {
                let value = lookup.secret(name).ok_or_else(|| TemplateError::MissingSecret {
                    name: name.to_string(),
                })?;
                Ok(value.reveal().to_owned())
            }
            Self::Env(name) => {
                let missing = || TemplateError::MissingVariable { name: name.clone() };
                lookup.variable(name).ok_or_else(missing)
            }
            Self::Command(command) => {
                let output = lookup
                    .command(command)
                    .map_err(|reason| TemplateError::Command { reason })?;
                Ok(output.strip_suffix('\n').unwrap_or(&output).to_owned())
            }
        }
    }
}

/// Supplies what references name.
pub trait Lookup {
    /// Returns a secret's value, if it is set.
    fn secret(&self, name: &SecretName) -> Option<SecretValue>;
    /// Returns a variable's value, if it is set.
    fn variable(&self, name: &str) -> Option<String>;
    /// Runs a command and returns its output.
    ///
    /// # Errors
    /// Returns why there is no output; never the output itself.
    fn command(&self, command: &str) -> Result<String, String>;
}

/// A parsed template.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Template {
    source: String,
    pieces: Vec<Piece>,
}

impl Template {
    /// Parses `text`.
    ///
    /// # Errors
    /// Refuses references of unknown kinds, malformed names, and commands outside our own configuration.
    pub fn parse(text: &str, origin: Origin) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(escaped) = before.strip_suffix('$') {
                literal.push_str(escaped);
                literal.push_str("${");
                rest = after;
                continue;
            }
            literal.push_str(before);
            let (reference, tail) = after.split_once('}').ok_or(TemplateError::Unclosed)?;
            let piece = reference_piece(reference, origin)?;
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(piece);
            rest = tail;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Self {
            source: text.to_owned(),
            pieces,
        })
    }

    /// Returns the text as it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the pieces in order.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns the names of the secrets it refers to.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretName> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Secret(name) => Some(name),
            Piece::Literal(_) | Piece::Env(_) | Piece::Command(_) => None,
        })
    }

    /// Returns the names of the variables it refers to.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Env(name) => Some(name.as_str()),
            Piece::Literal(_) | Piece::Secret(_) | Piece::Command(_) => None,
        })
    }

    /// Tells whether it refers to nothing.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, Piece::Literal(_)))
    }

    /// Returns the template with its secrets and the output of its commands in place; references to variables stay.
    ///
    /// # Errors
    /// Fails when a secret is not set or a command fails.
    pub fn settled(&self, lookup: &dyn Lookup) -> Result<Self, TemplateError> {
        let settle = |piece: &Piece| match piece {
            Piece::Literal(_) | Piece::Env(_) => Ok(piece.clone()),
            Piece::Secret(_) | Piece::Command(_) => piece.value(lookup).map(Piece::Literal),
        };
        Ok(Self {
            source: self.source.clone(),
            pieces: self.pieces.iter().map(settle).collect::<Result<_, _>>()?,
        })
    }

    /// Puts the values in.
    ///
    /// # Errors
    /// Fails when a secret or variable is not set or a command fails.
    pub fn resolve(&self, lookup: &dyn Lookup) -> Result<SecretValue, TemplateError> {
        let mut text = String::new();
        for piece in &self.pieces {
            text.push_str(&piece.value(lookup)?);
        }
        Ok(SecretValue::new(text))
    }
}

fn reference_piece(reference: &str, origin: Origin) -> Result<Piece, TemplateError> {
    let unknown = || TemplateError::Unknown {
        reference: pentad_model::text::excerpt(reference, 80),
    };
    let (kind, name) = reference.split_once(':').ok_or_else(unknown)?;
    match kind {
        "secret" => {
            let bad = |_| TemplateError::BadName {
                kind: "a secret",
                name: pentad_model::text::excerpt(name, 80),
            };
            name.parse().map(Piece::Secret).map_err(bad)
        }
        "env" if is_variable_name(name) => Ok(Piece::Env(name.to_owned())),
        "env" => Err(TemplateError::BadName {
            kind: "a variable",
            name: pentad_model::text::excerpt(name, 80),
        }),
        "cmd" if origin == Origin::Foreign => Err(TemplateError::CommandNotAllowed),
        "cmd" if !name.trim().is_empty() => Ok(Piece::Command(name.to_owned())),
        _ => Err(unknown()),
    }
}

/// Tells whether `name` may name an environment variable.
#[must_use]
pub fn is_variable_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=128).contains(&name.len())
        && name.chars().all(legal)
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// Shows references, never literals: people paste keys into configuration.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template(")?;
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => write!(f, "<{} bytes>", text.len())?,
                Piece::Secret(name) => write!(f, "${{secret:{name}}}")?,
                Piece::Env(name) => write!(f, "${{env:{name}}}")?,
                Piece::Command(_) => f.write_str("${cmd:…}")?,
            }
        }
        f.write_str(")")
    }
}

/// Parses with [`Origin::OwnConfig`]: only our own configuration is deserialized.
impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text, Origin::OwnConfig).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Fixed;

    impl Lookup for Fixed {
        fn secret(&self, name: &SecretName) -> Option<SecretValue> {
            (name.as_str() == "key").then(|| SecretValue::new("s3cret".to_owned()))
        }
        fn variable(&self, name: &str) -> Option<String> {
            (name == "USER").then(|| "ada".to_owned())
        }
        fn command(&self, command: &str) -> Result<String, String> {
            Ok(format!("<{command}>\n"))
        }
    }

    fn own(text: &str) -> Result<Template, TemplateError> {
        Template::parse(text, Origin::OwnConfig)
    }

    #[test]
    fn references_are_resolved_late_and_never_shown() {
        let template = own("Bearer ${secret:key} ${env:USER} ${cmd:pass show x} $${env:USER} $5").unwrap();
        assert_eq!(
            template.resolve(&Fixed).unwrap().reveal(),
            "Bearer s3cret ada <pass show x> ${env:USER} $5"
        );
        assert_eq!(
            format!("{template:?}"),
            "Template(<7 bytes>${secret:key}<1 bytes>${env:USER}<1 bytes>${cmd:…}<15 bytes>)"
        );
        assert!(!format!("{:?}", template.resolve(&Fixed).unwrap()).contains("s3cret"));
    }

    #[test]
    fn wrong_references_say_what_is_supported() {
        insta::assert_snapshot!(own("${HOME}").unwrap_err(), @"'${HOME}' is no reference; supported: ${secret:NAME}, ${env:NAME}, ${cmd:COMMAND}; write $${ for a literal ${");
        assert_eq!(own("a ${secret:x").unwrap_err(), TemplateError::Unclosed);
        assert!(own("${secret:a b}").is_err());
        assert!(own("${env:A=B}").is_err());
        assert_eq!(
            Template::parse("${cmd:id}", Origin::Foreign).unwrap_err(),
            TemplateError::CommandNotAllowed
        );
        let missing = own("${secret:gone}").unwrap().resolve(&Fixed).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "the secret 'gone' is not set; pentad secret set gone"
        );
    }

    proptest! {
        #[test]
        fn text_without_references_is_kept(text in "[^$]{0,40}") {
            let template = own(&text).unwrap();
            prop_assert!(template.is_literal());
            let resolved = template.resolve(&Fixed).unwrap();
            prop_assert_eq!(resolved.reveal(), text.as_str());
        }

        #[test]
        fn no_text_panics(text in "[${}:a-z]{0,30}") {
            let _ = own(&text);
        }
    }
}
