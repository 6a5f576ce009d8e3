//! The body of a Markdown tool file: prose and fences.

use serde_json::{Map, Value};

use super::FileError;

/// Holds authored source code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lambda {
    /// Names the language, such as `js` or `python`.
    pub runtime: String,
    /// Is the code.
    pub source: String,
}

/// Holds a fence that says what to run, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) info: String,
    pub(crate) text: String,
    /// Is the line of the opening backticks, counted in the text that was read.
    pub(crate) open_line: usize,
    /// Is the line of the closing backticks, or one past the end.
    pub(crate) close_line: usize,
}

pub(super) struct Body {
    pub(super) prose: String,
    pub(super) template: Option<Fence>,
    pub(super) lambda: Option<Lambda>,
}

pub(super) fn read(text: &str) -> Body {
    let (fences, prose) = scan(text);
    let lambda = fences.iter().find_map(|fence| {
        let mut words = fence.info.split_whitespace();
        let runtime = words.next()?;
        words.any(|word| word == "lambda").then(|| Lambda {
            runtime: runtime.to_owned(),
            source: fence.text.clone(),
        })
    });
    Body {
        prose,
        template: fences.into_iter().find(Fence::runs),
        lambda,
    }
}

/// Returns the fence that says what a recipe runs.
pub(crate) fn template_fence(text: &str) -> Option<Fence> {
    scan(text).0.into_iter().find(Fence::runs)
}

fn scan(text: &str) -> (Vec<Fence>, String) {
    let mut fences = Vec::new();
    let mut paragraph: Vec<&str> = Vec::new();
    let mut prose_done = false;
    let mut open: Option<(usize, usize, String, Vec<&str>)> = None;
    let mut count = 0;
    for (number, line) in text.lines().enumerate() {
        count = number + 1;
        let trimmed = line.trim();
        let ticks = trimmed.len() - trimmed.trim_start_matches('`').len();
        match &mut open {
            Some((width, start, info, lines)) => {
                if ticks >= *width && ticks == trimmed.len() {
                    fences.push(finish(info, lines, *start, number));
                    open = None;
                } else {
                    lines.push(line);
                }
            }
            None if ticks >= 3 => {
                let info = trimmed.trim_start_matches('`').trim().to_ascii_lowercase();
                open = Some((ticks, number, info, Vec::new()));
                prose_done |= !paragraph.is_empty();
            }
            None if trimmed.is_empty() => prose_done |= !paragraph.is_empty(),
            None if !prose_done && !trimmed.starts_with('#') => paragraph.push(trimmed),
            None => {}
        }
    }
    if let Some((_, start, info, lines)) = open {
        fences.push(finish(&info, &lines, start, count));
    }
    (fences, paragraph.join(" "))
}

fn finish(info: &str, lines: &[&str], open_line: usize, close_line: usize) -> Fence {
    Fence {
        info: info.to_owned(),
        text: lines.join("\n"),
        open_line,
        close_line,
    }
}

impl Fence {
    fn runs(&self) -> bool {
        let lambda = self.info.split_whitespace().any(|word| word == "lambda");
        !lambda
            && ["recipe", "template", "command", "json"]
                .iter()
                .any(|word| self.info.contains(word))
    }

    /// Tells whether the text must be JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.info.contains("json") || self.info.contains("recipe")
    }

    pub(super) fn merge_into(self, fields: &mut Map<String, Value>) -> Result<(), FileError> {
        let text = self.text.trim();
        if self.is_json() || text.starts_with(['{', '[', '"']) {
            match serde_json::from_str::<Value>(text) {
                Ok(Value::Object(inner)) if inner.contains_key("template") => {
                    fields.extend(inner);
                    return Ok(());
                }
                Ok(other) => {
                    fields.insert("template".to_owned(), other);
                    return Ok(());
                }
                Err(error) if self.is_json() => {
                    return Err(FileError::FenceJson {
                        info: self.info,
                        message: error.to_string(),
                    });
                }
                Err(_) => {}
            }
        }
        fields.insert("template".to_owned(), Value::String(text.to_owned()));
        Ok(())
    }
}
