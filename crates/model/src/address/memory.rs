//! Paths inside an agent's memory.

use std::fmt;

use crate::refusal::{Refusal, RefusalKind};

const MAX_COMPONENTS: usize = 16;
const MAX_BYTES: usize = 512;

/// A relative path of plain components; no `..`, no NUL. Limits (16 components, 512 bytes) are the reference's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MemoryPath {
    components: Vec<String>,
    directory: bool,
}

impl MemoryPath {
    /// Parses what follows `~/memory/`: `\` counts as `/`, empty and `.` components are dropped.
    ///
    /// # Errors
    /// Refuses `..`, NUL, more than 16 components and more than 512 bytes.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let refuse = |why: &str| {
            Err(Refusal::new(
                RefusalKind::BadRequest,
                format!("~/memory/{text}"),
                format!("This memory path {why}."),
            ))
        };
        if text.len() > MAX_BYTES {
            return refuse("is longer than 512 bytes");
        }
        if text.contains('\0') {
            return refuse("contains a NUL character");
        }
        let slashed = text.replace('\\', "/");
        let components: Vec<String> = slashed
            .split('/')
            .filter(|c| !c.is_empty() && *c != ".")
            .map(str::to_owned)
            .collect();
        if components.iter().any(|c| c == "..") {
            return refuse("contains '..'; memory paths cannot leave the memory");
        }
        if components.len() > MAX_COMPONENTS {
            return refuse("has more than 16 components");
        }
        let directory = components.is_empty() || slashed.ends_with('/') || slashed.ends_with("/.");
        Ok(Self {
            components,
            directory,
        })
    }

    /// Returns the components, outermost first; empty for the memory's root.
    #[must_use]
    pub fn components(&self) -> &[String] {
        &self.components
    }

    /// Tells whether the address asked for a directory: the root, or a trailing `/`.
    #[must_use]
    pub const fn is_directory(&self) -> bool {
        self.directory
    }

    /// Returns the path without a trailing `/`.
    #[must_use]
    pub fn relative(&self) -> String {
        self.components.join("/")
    }
}

impl fmt::Display for MemoryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.relative())?;
        if self.directory && !self.components.is_empty() {
            f.write_str("/")
        } else {
            Ok(())
        }
    }
}
