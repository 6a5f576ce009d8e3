//! Where a command runs: turns words into the argument list of a process.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::ExpandError;
use crate::placeholder::Lookup;
use crate::value::Values;

/// Is the longest argument that Linux takes (32 pages of 4 KiB, the final NUL included).
pub const MAX_ARGUMENT_BYTES: usize = 128 * 1024 - 1;
/// Is the longest argument list: a quarter of the default stack limit, half of which stays for the environment.
pub const MAX_ARGUMENTS_BYTES: usize = 1024 * 1024;

/// Is the value that names the directory of the recipe's file; no caller can set it.
pub const RECIPE_DIR: &str = "recipe_dir";

/// Holds the programs that run scripts on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interpreters {
    /// Runs `.js` and `.mjs` files.
    pub javascript: Option<Vec<String>>,
    /// Runs `.sh` files.
    pub shell: Option<Vec<String>>,
}

impl Interpreters {
    /// Finds the interpreters in the directories of a `PATH`.
    pub fn find(path: &str) -> Self {
        let find = |name: &str| {
            std::env::split_paths(path)
                .map(|dir| dir.join(name))
                .find(|file| file.is_file())
                .map(|file| file.to_string_lossy().into_owned())
        };
        let javascript = find("node")
            .map(|node| vec![node])
            .or_else(|| find("bun").map(|bun| vec![bun]))
            .or_else(|| find("deno").map(|deno| vec![deno, "run".to_owned()]));
        Self {
            javascript,
            shell: find("bash").map(|bash| vec![bash]),
        }
    }

    /// Returns the words that go before a script, none if it is no script.
    fn before(&self, command: &str) -> Result<Vec<String>, ExpandError> {
        let extension = Path::new(command)
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        let (interpreter, choices) = match extension.to_ascii_lowercase().as_str() {
            "js" | "mjs" => (&self.javascript, "node, bun or deno"),
            "sh" => (&self.shell, "bash"),
            _ => return Ok(Vec::new()),
        };
        interpreter.clone().ok_or_else(|| ExpandError::NoInterpreter {
            script: command.to_owned(),
            choices,
        })
    }
}

/// Says where commands run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Site {
    /// Is the working directory; a relative command path counts from here.
    pub cwd: PathBuf,
    /// Is the home directory that `~` stands for.
    pub home: Option<PathBuf>,
    /// Is the directory of the recipe's file, the value of `{recipe_dir}`.
    pub recipe_dir: Option<PathBuf>,
    /// Are the programs that run scripts.
    pub interpreters: Interpreters,
}

impl Site {
    /// Turns the words of a command into an argument list that a process can be started with.
    pub fn argv(&self, words: Vec<String>) -> Result<Vec<String>, ExpandError> {
        let mut words = words.into_iter();
        let command = words
            .next()
            .filter(|word| !word.is_empty())
            .ok_or(ExpandError::EmptyCommand)?;
        let command = self.command_path(command);
        let mut argv = self.interpreters.before(&command)?;
        argv.push(command);
        argv.extend(words);
        check_sizes(&argv)?;
        Ok(argv)
    }

    fn command_path(&self, command: String) -> String {
        if let Some(home) = &self.home {
            if command == "~" {
                return home.to_string_lossy().into_owned();
            }
            if let Some(rest) = command.strip_prefix("~/") {
                return lexical(home, rest);
            }
        }
        if command.contains('/') && !command.starts_with('/') {
            return lexical(&self.cwd, &command);
        }
        command
    }
}

fn lexical(base: &Path, relative: &str) -> String {
    let mut path = PathBuf::new();
    for part in base.join(relative).components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    path.to_string_lossy().into_owned()
}

fn check_sizes(argv: &[String]) -> Result<(), ExpandError> {
    let command = || {
        argv.first()
            .map(|word| word.chars().take(80).collect())
            .unwrap_or_default()
    };
    let mut total = 0;
    for (index, word) in argv.iter().enumerate() {
        if word.contains('\0') {
            return Err(ExpandError::Nul {
                command: command(),
                index,
            });
        }
        if word.len() > MAX_ARGUMENT_BYTES {
            let (bytes, limit) = (word.len(), MAX_ARGUMENT_BYTES);
            return Err(ExpandError::ArgumentTooLong {
                command: command(),
                index,
                bytes,
                limit,
            });
        }
        total += word.len() + 1;
    }
    if total > MAX_ARGUMENTS_BYTES {
        let limit = MAX_ARGUMENTS_BYTES;
        return Err(ExpandError::ArgumentsTooLong {
            command: command(),
            bytes: total,
            limit,
        });
    }
    Ok(())
}

/// Finds values for a leaf: what the caller sent, then defaults, then defaults of declared arguments.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// Is the value of `{recipe_dir}`.
    pub recipe_dir: Option<&'a Value>,
    /// Are the caller's values.
    pub values: &'a Values,
    /// Are the defaults of the nodes around the leaf.
    pub defaults: &'a Values,
    /// Are the defaults of declared arguments.
    pub declared: &'a Values,
}

impl Lookup for Scope<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        if name == RECIPE_DIR {
            // An imported recipe brings its own directory as a default; callers cannot set it.
            return self.defaults.get(name).or(self.recipe_dir);
        }
        self.values
            .get(name)
            .or_else(|| self.defaults.get(name))
            .or_else(|| self.declared.get(name))
    }
}
