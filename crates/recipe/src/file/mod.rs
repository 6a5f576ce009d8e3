//! Tool files: JSON or Markdown with front matter.

mod body;
mod front_matter;

use serde_json::{Map, Value};

pub use body::Lambda;
pub(crate) use body::template_fence;
pub(crate) use front_matter::{end_of_front_matter, key_line};

use crate::note::Note;

/// Is the largest tool file that is read.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;

/// Says how a tool file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// A JSON object.
    Json,
    /// Markdown with front matter and a fence.
    Markdown,
}

impl Form {
    /// Returns the form that a file extension stands for.
    pub fn of_extension(extension: &str) -> Option<Self> {
        match extension {
            "json" => Some(Self::Json),
            "md" => Some(Self::Markdown),
            _ => None,
        }
    }

    /// Returns the extension of files of this form.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Markdown => "md",
        }
    }

    /// Guesses the form of a text: an object is JSON, everything else Markdown.
    pub fn of_text(text: &str) -> Self {
        if text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
            Self::Json
        } else {
            Self::Markdown
        }
    }
}

/// Says why a file is no tool file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The file is too long.
    #[error(
        "The file has {bytes} bytes; a tool file has at most {MAX_FILE_BYTES}. Move long text into a file beside it, reached as {{recipe_dir}}/…"
    )]
    TooLarge {
        /// Is its length.
        bytes: usize,
    },
    /// The file is no UTF-8 text.
    #[error("The file is not UTF-8 text (byte {at}).")]
    NotText {
        /// Is the first bad byte.
        at: usize,
    },
    /// The file is no JSON.
    #[error("Not valid JSON: {message}")]
    Json {
        /// Says where and why.
        message: String,
    },
    /// The JSON is no object.
    #[error("JSON recipe must be an object")]
    NotObject,
    /// Nothing says what to run.
    #[error("recipe must define template")]
    NoTemplate,
    /// The Markdown has no front matter.
    #[error("Markdown recipe must start with frontmatter")]
    NoFrontMatter,
    /// The Markdown has nothing to run.
    #[error("Markdown recipe has no executable recipe/template fence")]
    NoFence,
    /// A JSON fence is no JSON.
    #[error(
        "Markdown recipe has no executable recipe/template fence: the {info} fence is not valid JSON: {message}"
    )]
    FenceJson {
        /// Is what stands after the backticks.
        info: String,
        /// Says where and why.
        message: String,
    },
}

/// Holds a tool file as it is written, before any field is judged.
#[derive(Debug, Clone, PartialEq)]
pub struct RawFile {
    /// Are the fields.
    pub fields: Map<String, Value>,
    /// Is the first paragraph outside fences.
    pub prose: String,
    /// Is the code of a lambda fence.
    pub lambda: Option<Lambda>,
    /// Are remarks about the writing.
    pub notes: Vec<Note>,
}

impl RawFile {
    /// Reads the bytes of a file.
    pub fn read(form: Form, bytes: &[u8]) -> Result<Self, FileError> {
        if bytes.len() > MAX_FILE_BYTES {
            return Err(FileError::TooLarge { bytes: bytes.len() });
        }
        let text = std::str::from_utf8(bytes).map_err(|error| FileError::NotText {
            at: error.valid_up_to(),
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let raw = match form {
            Form::Json => read_json(text)?,
            Form::Markdown => read_markdown(text)?,
        };
        let runs =
            raw.lambda.is_some() || raw.fields.contains_key("template") || raw.fields.contains_key("source");
        if runs { Ok(raw) } else { Err(FileError::NoTemplate) }
    }
}

fn read_json(text: &str) -> Result<RawFile, FileError> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(fields)) => Ok(RawFile {
            fields,
            prose: String::new(),
            lambda: None,
            notes: Vec::new(),
        }),
        Ok(_) => Err(FileError::NotObject),
        Err(error) => Err(FileError::Json {
            message: error.to_string(),
        }),
    }
}

fn read_markdown(text: &str) -> Result<RawFile, FileError> {
    let (front, rest) = front_matter::split(text).ok_or(FileError::NoFrontMatter)?;
    let mut notes = Vec::new();
    let mut fields = front_matter::read(front, &mut notes);
    let body = body::read(rest);
    if let Some(lambda) = body.lambda {
        if body.template.is_some() || fields.contains_key("template") {
            notes.push(Note::error("A tool file has a template or a lambda, not both."));
        }
        return Ok(RawFile {
            fields,
            prose: body.prose,
            lambda: Some(lambda),
            notes,
        });
    }
    match body.template {
        Some(fence) => fence.merge_into(&mut fields)?,
        None if fields.contains_key("template") || fields.contains_key("source") => {}
        None => return Err(FileError::NoFence),
    }
    Ok(RawFile {
        fields,
        prose: body.prose,
        lambda: None,
        notes,
    })
}
