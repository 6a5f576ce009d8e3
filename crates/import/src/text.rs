//! A value as a client wrote it: literal text, and references in that client's own syntax.

use std::collections::BTreeMap;
use std::fmt;

use pentad_keeper::template::is_variable_name;

use crate::client::Surroundings;

/// A piece of a value.
#[derive(Clone, PartialEq, Eq)]
pub enum Word {
    /// Text as it is.
    Literal(String),
    /// An environment variable.
    Variable(String),
    /// Something that the client asks its person for, by id.
    Asked(String),
}

/// A value of a client's configuration.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Text(pub Vec<Word>);

impl Text {
    /// Returns a text without references.
    #[must_use]
    pub fn literal(text: impl Into<String>) -> Self {
        Self(vec![Word::Literal(text.into())])
    }

    /// Returns the text when it has no references.
    #[must_use]
    pub fn as_literal(&self) -> Option<String> {
        let mut out = String::new();
        for word in &self.0 {
            match word {
                Word::Literal(text) => out.push_str(text),
                Word::Variable(_) | Word::Asked(_) => return None,
            }
        }
        Some(out)
    }
}

/// Shows references, never literals: clients' files are full of keys.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Text(")?;
        for word in &self.0 {
            match word {
                Word::Literal(text) => write!(f, "<{} bytes>", text.len())?,
                Word::Variable(name) => write!(f, "${{env:{name}}}")?,
                Word::Asked(id) => write!(f, "${{input:{id}}}")?,
            }
        }
        f.write_str(")")
    }
}

/// How a client writes references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum References {
    /// Not at all.
    None,
    /// `${NAME}` and `${NAME:-default}`.
    Shell,
    /// `${env:NAME}`, `${input:id}`, `${userHome}`, `${workspaceFolder}` and so on.
    Editor,
    /// `{env:NAME}` and `{file:path}`.
    Braces,
}

/// What references may mean in one file.
#[derive(Debug, Clone)]
pub struct Meaning<'a> {
    /// How they are written.
    pub references: References,
    /// The person's surroundings.
    pub around: &'a Surroundings,
    /// The folder that `${workspaceFolder}` means, when there is one for the file.
    pub folder: Option<&'a str>,
}

impl Meaning<'_> {
    /// Reads a value. The error says which reference has no counterpart.
    ///
    /// # Errors
    /// Fails when a reference cannot be carried over.
    pub fn read(&self, raw: &str) -> Result<Text, String> {
        let open = match self.references {
            References::None => return Ok(Text::literal(raw)),
            References::Shell | References::Editor => "${",
            References::Braces => "{",
        };
        let mut words = Vec::new();
        let mut rest = raw;
        while let Some((before, after)) = rest.split_once(open) {
            push(&mut words, before);
            match after
                .split_once('}')
                .map(|(name, tail)| (self.reference(name), tail))
            {
                Some((Ok(Some(word)), tail)) => {
                    match word {
                        Word::Literal(text) => push(&mut words, &text),
                        word => words.push(word),
                    }
                    rest = tail;
                }
                Some((Err(why), _)) => return Err(why),
                Some((Ok(None), _)) | None => {
                    push(&mut words, open);
                    rest = after;
                }
            }
        }
        push(&mut words, rest);
        Ok(Text(words))
    }

    /// Returns what stands for a reference; `None` when it is no reference but text.
    fn reference(&self, name: &str) -> Result<Option<Word>, String> {
        match self.references {
            References::None => Ok(None),
            References::Shell => Ok(self.shell(name)),
            References::Editor => self.editor(name),
            References::Braces => match name.split_once(':') {
                Some(("env", variable)) if is_variable_name(variable) => {
                    Ok(Some(Word::Variable(variable.to_owned())))
                }
                Some(("file", _)) => Err("it takes a value from a file with {file:…}".to_owned()),
                _ => Ok(None),
            },
        }
    }

    /// A default stands for a variable that is not set now: references of ours have none.
    fn shell(&self, text: &str) -> Option<Word> {
        let (name, default) = match text.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (text, None),
        };
        if !is_variable_name(name) {
            return None;
        }
        // Claude Code sets it for its servers alone.
        if let ("CLAUDE_PROJECT_DIR", Some(folder)) = (name, self.folder) {
            return Some(Word::Literal(folder.to_owned()));
        }
        let Some(default) = default else {
            return Some(Word::Variable(name.to_owned()));
        };
        Some(match self.around.variable(name) {
            Some(_) => Word::Variable(name.to_owned()),
            None => Word::Literal(default.to_owned()),
        })
    }

    fn editor(&self, name: &str) -> Result<Option<Word>, String> {
        let literal = |text: &str| Ok(Some(Word::Literal(text.to_owned())));
        match name.split_once(':') {
            Some(("env", variable)) if is_variable_name(variable) => {
                return Ok(Some(Word::Variable(variable.to_owned())));
            }
            Some(("input", id)) => return Ok(Some(Word::Asked(id.to_owned()))),
            Some((kind, _)) => {
                return Err(format!(
                    "it uses ${{{}:…}}",
                    pentad_model::text::excerpt(kind, 20)
                ));
            }
            None => {}
        }
        match name {
            "userHome" => literal(&self.around.home_dir.to_string_lossy()),
            "pathSeparator" | "/" => literal("/"),
            "workspaceFolder" | "workspaceRoot" => match self.folder {
                Some(folder) => literal(folder),
                None => Err(format!(
                    "it uses ${{{name}}}, which differs from window to window"
                )),
            },
            _ if is_variable_name(name) => Err(format!("it uses ${{{name}}}")),
            _ => Ok(None),
        }
    }
}

fn push(words: &mut Vec<Word>, text: &str) {
    if text.is_empty() {
        return;
    }
    match words.last_mut() {
        Some(Word::Literal(before)) => before.push_str(text),
        _ => words.push(Word::Literal(text.to_owned())),
    }
}

/// What a client would ask its person for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The question.
    pub question: String,
}

/// The inputs of a file by id.
pub type Inputs = BTreeMap<String, Input>;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn around() -> Surroundings {
        Surroundings {
            home_dir: "/home/ada".into(),
            folder: "/p".into(),
            variables: [("SET".to_owned(), "x".to_owned())].into(),
            macos: false,
        }
    }

    fn read(references: References, folder: Option<&str>, raw: &str) -> Result<Text, String> {
        let around = around();
        let meaning = Meaning {
            references,
            around: &around,
            folder,
        };
        meaning.read(raw)
    }

    fn words(words: &[Word]) -> Result<Text, String> {
        Ok(Text(words.to_vec()))
    }

    fn literal(text: &str) -> Word {
        Word::Literal(text.to_owned())
    }

    fn variable(name: &str) -> Word {
        Word::Variable(name.to_owned())
    }

    #[test]
    fn each_client_s_references_are_understood() {
        use References::{Braces, Editor, None, Shell};
        assert_eq!(read(None, Option::None, "${X}"), words(&[literal("${X}")]));
        assert_eq!(
            read(Shell, Option::None, "a ${X} ${SET:-b} ${UNSET:-c}/d $E ${1} ${"),
            words(&[
                literal("a "),
                variable("X"),
                literal(" "),
                variable("SET"),
                literal(" c/d $E ${1} ${")
            ])
        );
        assert_eq!(
            read(
                Editor,
                Some("/w"),
                "${env:X}${input:key}${workspaceFolder}/${userHome}"
            ),
            words(&[
                variable("X"),
                Word::Asked("key".to_owned()),
                literal("/w//home/ada")
            ])
        );
        assert_eq!(
            read(Braces, Option::None, "{env:X} {a} {"),
            words(&[variable("X"), literal(" {a} {")])
        );
        for (references, raw) in [
            (Editor, "${workspaceFolder}"),
            (Editor, "${file:/x}"),
            (Editor, "${command:x}"),
            (Editor, "${fileDirname}"),
            (Braces, "{file:/x}"),
        ] {
            assert!(read(references, Option::None, raw).is_err(), "{raw}");
        }
    }

    proptest! {
        #[test]
        fn text_without_references_is_kept(raw in "[^$ {]{0,40}", which in 0..4) {
            let references = [References::None, References::Shell, References::Editor, References::Braces];
            let text = read(references[usize::try_from(which).unwrap()], None, &raw).unwrap();
            prop_assert_eq!(text.as_literal(), Some(raw));
        }
    }
}
