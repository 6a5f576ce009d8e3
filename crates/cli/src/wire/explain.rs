//! Saying what a call would do, without doing any of it.

use std::sync::Arc;

use pentad_catalog::gate::{Act, Reach, Reason, input_hash};
use pentad_catalog::{Authority, Catalog, Entry, Gate, Resolution, Verdict, Visibility, unfit};
use pentad_model::grant::GrantVerb;
use pentad_model::tool::ToolKind;
use pentad_model::{Invocation, Name, Refusal, RefusalKind, ThreadId};
use pentad_recipe::{Job, Launchers, Library, RecipeSource};
use pentad_template::{Interpreters, Site};
use serde_json::{Map, Value, json};

use pentad_keeper::attach::Explanation;
use pentad_program::Environment;

/// Knows tools through the catalog, and recipes through their sources.
pub struct CatalogContracts {
    pub catalog: Arc<Catalog>,
    pub recipes: Arc<RecipeSource>,
    pub library: Arc<Library>,
    pub launchers: Arc<dyn Launchers>,
    pub gate: Arc<Gate>,
}

impl CatalogContracts {
    fn find(&self, tool: &str) -> Result<Entry, Refusal> {
        let tool = tool.strip_prefix("~/tools/").unwrap_or(tool);
        match self.catalog.resolve(tool, &Visibility::everything()) {
            Resolution::Found(entry) => Ok(entry),
            other => Err(other.refusal(tool).unwrap_or_else(|| {
                Refusal::new(
                    RefusalKind::NotFound,
                    tool,
                    format!("'{tool}' is no tool that can be explained."),
                )
            })),
        }
    }

    fn commands(
        &self,
        entry: &Entry,
        invocation: &Invocation,
        input: &Value,
        environment: Option<Arc<Environment>>,
    ) -> Result<Vec<(String, Value)>, Refusal> {
        let document = &entry.document;
        if document.kind != ToolKind::Recipe {
            return Ok(Vec::new());
        }
        let name = document.tool.name.as_str();
        let recipe = match document.tool.source.as_str() {
            pentad_recipe::LIBRARY => self.library.recipe(name).cloned().map(Arc::new),
            _ => self.recipes.recipe(name),
        };
        let Some(recipe) = recipe else {
            return Ok(Vec::new());
        };
        let job = Job {
            run: pentad_model::RunId::generate(),
            run_dir: invocation.workspace.cwd.clone(),
            workspace: invocation.workspace.clone(),
            caller: invocation.caller.clone(),
            env: recipe.fields.env.clone(),
            environment,
            leaves_processes: false,
        };
        let opened = self.launchers.open(&job)?;
        let site = Site {
            cwd: invocation.workspace.cwd.clone(),
            home: opened.home.clone(),
            interpreters: Interpreters::find(&opened.path),
            ..Site::default()
        };
        let explained = recipe.explain(input, &site)?;
        Ok(explained.iter().map(|e| (e.command(), e.to_value())).collect())
    }

    fn verdict(
        &self,
        entry: &Entry,
        invocation: &Invocation,
        input: &Map<String, Value>,
        environment: Option<&Environment>,
    ) -> String {
        let document = &entry.document;
        let act = Act {
            verb: GrantVerb::Call,
            target: document.tool.to_string(),
            reach: Reach::Own,
            right: None,
            caller: invocation.caller.clone(),
            agent: invocation.agent.clone().unwrap_or_else(Name::main),
            thread: ThreadId::generate(),
            run: invocation.run,
            read_only_trusted: document.is_trusted_read_only(),
            destructive: document.is_destructive(),
            input_hash: input_hash(input).unwrap_or_default(),
            closure_hash: entry.source.closure_hash(document, environment),
            question: String::new(),
        };
        match self.gate.would_ask(&act, &Authority::everything()) {
            Verdict::Allowed(Reason::Person) => "allowed: a person calls it".to_owned(),
            Verdict::Allowed(reason) => format!("allowed ({reason:?})").to_lowercase(),
            Verdict::Asks => "asks a person first, unless one has approved it".to_owned(),
            Verdict::Denied(refusal) => format!("denied: {}", refusal.message),
        }
    }
}

impl CatalogContracts {
    /// Returns the input schema of a tool, if it is known without starting anything.
    pub fn input_schema(&self, tool: &str) -> Option<Value> {
        self.find(tool).ok().map(|entry| entry.document.input.clone())
    }

    /// Says what a call would do, without doing any of it.
    ///
    /// # Errors
    /// Refuses unknown tools and input that does not fit.
    pub fn explain(
        &self,
        invocation: &Invocation,
        tool: &str,
        input: Map<String, Value>,
        environment: Option<Arc<Environment>>,
    ) -> Result<Explanation, Refusal> {
        let entry = self.find(tool)?;
        let errors = self.catalog.validate(&entry.document, &input);
        if !errors.is_empty() {
            return Err(unfit(&entry.document.tool, &errors));
        }
        let verdict = self.verdict(&entry, invocation, &input, environment.as_deref());
        let value = Value::Object(input);
        let commands = self.commands(&entry, invocation, &value, environment)?;
        let name = entry.document.tool.to_string();
        let cwd = invocation.workspace.cwd.display().to_string();
        let mut text = format!("{name}: {}\n", entry.document.summary);
        for (command, _) in &commands {
            text.push_str(&format!("  {command}\n"));
        }
        if commands.is_empty() {
            text.push_str(&format!("  sends the input to {}\n", entry.document.tool.source));
        }
        text.push_str(&format!("folder: {cwd}\ngate: {verdict}\nNothing was run.\n"));
        let commands: Vec<Value> = commands.into_iter().map(|(_, value)| value).collect();
        Ok(Explanation {
            text,
            value: json!({"tool": name, "commands": commands, "cwd": cwd, "input": value, "gate": verdict}),
        })
    }
}
