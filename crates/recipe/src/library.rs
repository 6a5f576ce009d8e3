//! The packaged library: small tools over programs that most machines have.

use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::{Refusal, RefusalKind, ToolDocument};
use pentad_program::{
    Diagnostic, Environment, Readiness, Severity, SourceStatus, ToolCall, ToolFailure, ToolOutput, ToolSource,
};

use crate::file::Form;
use crate::imports::Imports;
use crate::launch::Launchers;
use crate::recipe::{InvalidRecipe, Place, Recipe};
use crate::root::RootFormat;
use crate::source::closure_hash;

/// Is the name of the library's source.
pub const LIBRARY: &str = "library";

macro_rules! packed {
    ($pack:literal, $name:literal) => {
        (
            concat!($pack, "/", $name),
            include_str!(concat!("../library/", $pack, "/", $name, ".md")),
        )
    };
}

/// Are the packaged tools, in byte order of their names.
const PACKED: [(&str, &str); 35] = [
    packed!("archive", "create"),
    packed!("archive", "extract"),
    packed!("archive", "list"),
    packed!("archive", "zip_extract"),
    packed!("archive", "zip_list"),
    packed!("git", "blame"),
    packed!("git", "branches"),
    packed!("git", "diff"),
    packed!("git", "files"),
    packed!("git", "log"),
    packed!("git", "show"),
    packed!("git", "status"),
    packed!("http", "download"),
    packed!("http", "get"),
    packed!("http", "headers"),
    packed!("http", "send_json"),
    packed!("search", "files"),
    packed!("search", "recent"),
    packed!("search", "text"),
    packed!("system", "disk"),
    packed!("system", "env_names"),
    packed!("system", "kernel"),
    packed!("system", "memory"),
    packed!("system", "ports"),
    packed!("system", "processes"),
    packed!("system", "sizes"),
    packed!("text", "count"),
    packed!("text", "frequencies"),
    packed!("text", "head"),
    packed!("text", "json"),
    packed!("text", "replace"),
    packed!("text", "sort"),
    packed!("text", "tail"),
    packed!("time", "convert"),
    packed!("time", "now"),
];

/// Offers the packaged tools.
pub struct Library {
    launchers: Arc<dyn Launchers>,
    tools: Vec<(Recipe, Arc<ToolDocument>)>,
    documents: Arc<[Arc<ToolDocument>]>,
    broken: Vec<(&'static str, InvalidRecipe)>,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library")
            .field("tools", &self.tools.len())
            .finish_non_exhaustive()
    }
}

impl Library {
    /// Reads the packaged tools.
    pub fn open(launchers: Arc<dyn Launchers>) -> Self {
        let (mut tools, mut broken) = (Vec::new(), Vec::new());
        for (name, text) in PACKED {
            let place = Place {
                path: None,
                format: RootFormat::Pentad,
            };
            match Recipe::read(name, place, Form::Markdown, text.as_bytes(), &Imports::default()) {
                Ok(recipe) => {
                    let mut document = recipe.document(LIBRARY);
                    if keeps_to_itself(&recipe) {
                        document.trusted = document.declared;
                    }
                    tools.push((recipe, Arc::new(document)));
                }
                Err(invalid) => broken.push((name, invalid)),
            }
        }
        let documents = tools.iter().map(|(_, document)| Arc::clone(document)).collect();
        Self {
            launchers,
            tools,
            documents,
            broken,
        }
    }

    /// Returns a packaged tool by `<pack>/<name>`.
    pub fn recipe(&self, name: &str) -> Option<&Recipe> {
        let at = self
            .tools
            .binary_search_by(|(recipe, _)| recipe.name.as_str().cmp(name))
            .ok()?;
        self.tools.get(at).map(|(recipe, _)| recipe)
    }
}

/// Tells whether a packaged tool's word that it changes nothing is enough to run it unasked.
///
/// Reading a file or an address is no change, but what may be read is for the gate to judge, and a repository's own
/// configuration can make a program run others. So only tools that take no path and reach nothing outside are trusted.
fn keeps_to_itself(recipe: &Recipe) -> bool {
    let takes_path = recipe
        .interface
        .parameters
        .iter()
        .any(|p| p.kind == pentad_template::ArgType::Path);
    recipe.fields.hints.open_world == Some(false) && !takes_path
}

#[async_trait]
impl ToolSource for Library {
    fn name(&self) -> &str {
        LIBRARY
    }

    fn documents(&self) -> Arc<[Arc<ToolDocument>]> {
        Arc::clone(&self.documents)
    }

    fn generation(&self) -> u64 {
        1
    }

    fn status(&self) -> SourceStatus {
        let diagnostics = self
            .broken
            .iter()
            .map(|(name, invalid)| Diagnostic {
                severity: Severity::Error,
                subject: format!("{LIBRARY}/{name}"),
                message: invalid.to_string(),
                next: None,
            })
            .collect();
        SourceStatus {
            source: LIBRARY.to_owned(),
            readiness: Readiness::Ready,
            tools: self.tools.len(),
            copies: 0,
            diagnostics,
        }
    }

    fn closure_hash(&self, document: &ToolDocument, _environment: Option<&Environment>) -> String {
        closure_hash(document)
    }

    async fn call(&self, call: ToolCall) -> Result<ToolOutput, ToolFailure> {
        let name = &call.document.tool.name;
        let Some(recipe) = self.recipe(name) else {
            let refusal = Refusal::new(
                RefusalKind::NotFound,
                name,
                format!("Tool \"{LIBRARY}/{name}\" is gone."),
            );
            return Err(refusal.into());
        };
        crate::call::call(recipe, self.launchers.as_ref(), call).await
    }
}
