//! An open home as a desk: what its own face and attached faces ask of it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use pentad_catalog::{Catalog, Decision};
use pentad_engine::EngineHandle;
use pentad_keeper::attach::{Desk, Explanation, HttpAsk, HttpReady, OpenForm};
use pentad_keeper::config::ServerEntry;
use pentad_keeper::{Config, Home};
use pentad_model::approval::Approval;
use pentad_model::step::Step;
use pentad_model::{
    Actor, Event, FormAnswer, IdEnding, Invocation, Outcome, Refusal, RefusalKind, ThreadId, Timestamp,
};
use pentad_process::Spawner;
use pentad_program::{
    ActivityFilter, Answer, Attachment, Attendance, Environment, RunStore, SourceStatus, Store, StoreError,
    ToolSource as _, Verbs,
};
use pentad_recipe::RecipeSource;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::environment::Variables;
use super::explain::CatalogContracts;
use super::forms::OpenForms;
use super::http;
use super::reload::Followers;
use super::servers::Servers;

/// The desk of this process.
pub struct LocalDesk {
    pub home: Home,
    /// The configuration as it is in force; replaced when the file changes.
    pub config: Arc<Mutex<Arc<Config>>>,
    /// What of a changed configuration is not in force.
    pub outdated: Arc<Mutex<Option<String>>>,
    /// Takes changed files into force.
    pub followers: Arc<Followers>,
    pub verbs: EngineHandle,
    pub store: Arc<dyn Store>,
    /// The same journal's runs.
    pub runs: Arc<dyn RunStore>,
    pub contracts: CatalogContracts,
    pub catalog: Arc<Catalog>,
    pub recipes: Arc<RecipeSource>,
    pub servers: Arc<Servers>,
    pub forms: Arc<OpenForms>,
    pub variables: Arc<Variables>,
    pub spawner: Arc<Spawner>,
    /// The tasks that serve HTTP.
    pub serving: TaskTracker,
    /// The names that faces are asked for.
    pub wanted: Mutex<Option<Wanted>>,
}

/// Names of variables, and what they were gathered from.
pub struct Wanted {
    recipes: u64,
    config: Arc<Config>,
    names: Vec<String>,
}

impl LocalDesk {
    /// Returns the configuration in force.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn names(&self, config: &Config) -> Vec<String> {
        let mut names = config.env.names.clone();
        names.extend(config.servers.values().flat_map(ServerEntry::variables));
        let token = config.http.token.iter().flat_map(|token| token.variables());
        names.extend(token.map(str::to_owned));
        let found = self.recipes.discovery().entries;
        let recipes = found.iter().filter_map(|entry| entry.recipe.as_ref().ok());
        names.extend(recipes.flat_map(|recipe| recipe.fields.env.iter().cloned()));
        names.sort();
        names.dedup();
        names
    }
}

fn refused(error: &StoreError) -> Refusal {
    let kind = match error {
        StoreError::NotFound(_) => RefusalKind::NotFound,
        StoreError::Ambiguous { .. } => RefusalKind::BadRequest,
        StoreError::Conflict(_) => RefusalKind::Conflict,
        _ => RefusalKind::Unavailable,
    };
    Refusal::new(kind, "journal", error.to_string())
}

#[async_trait]
impl Verbs for LocalDesk {
    async fn invoke(&self, invocation: Invocation, attendance: Attendance) -> Outcome {
        self.verbs.invoke(invocation, attendance).await
    }
}

#[async_trait]
impl Desk for LocalDesk {
    async fn input_schema(&self, tool: &str) -> Option<Value> {
        self.contracts.input_schema(tool)
    }

    async fn explain(
        &self,
        invocation: &Invocation,
        tool: &str,
        input: Map<String, Value>,
        environment: Option<Arc<Environment>>,
    ) -> Result<Explanation, Refusal> {
        self.contracts.explain(invocation, tool, input, environment)
    }

    async fn answer(&self, id: &IdEnding, answer: Answer, by: &Actor) -> Result<Approval, Refusal> {
        let decision = match answer {
            Answer::Granted(scope) => Decision::Grant(scope),
            Answer::Denied => Decision::Deny,
            Answer::Unanswered => {
                let text = "An approval is answered with a grant or a denial.";
                return Err(Refusal::new(RefusalKind::BadRequest, "answer", text));
            }
        };
        self.verbs.0.gate().answer(id, decision, by).await
    }

    async fn forms(&self) -> Result<Vec<OpenForm>, Refusal> {
        Ok(self.forms.all())
    }

    async fn answer_form(&self, id: &IdEnding, answer: FormAnswer, by: &Actor) -> Result<OpenForm, Refusal> {
        if !by.is_person() {
            let text = format!("A form is filled in by a person, and this is {by}.");
            return Err(Refusal::new(RefusalKind::Forbidden, format!("form:{id}"), text)
                .next_step("a person runs pentad approvals in a terminal of their own"));
        }
        if matches!(answer, FormAnswer::Unanswered { .. }) {
            let text = "A form is answered with values or declined.";
            return Err(Refusal::new(RefusalKind::BadRequest, format!("form:{id}"), text));
        }
        self.forms.answer(id, answer)
    }

    async fn attach(&self, file: &Path, name: Option<String>) -> Result<Attachment, Refusal> {
        let cap = self.config().limits.attachment_bytes;
        pentad_space::attach_file(&*self.store, file, name.as_deref(), cap, Timestamp::now()).await
    }

    async fn find_thread(&self, ending: &IdEnding) -> Result<ThreadId, Refusal> {
        let found = self.store.find_thread(ending).await;
        found.map(|thread| thread.id).map_err(|error| refused(&error))
    }

    async fn head(&self) -> Result<u64, Refusal> {
        self.store.head().await.map_err(|error| refused(&error))
    }

    async fn activity(&self, filter: ActivityFilter) -> Result<Vec<Event>, Refusal> {
        self.store.activity(filter).await.map_err(|error| refused(&error))
    }

    async fn follow(&self, after: u64, limit: usize) -> Result<Vec<Event>, Refusal> {
        loop {
            // Steps have places of their own: it is the journal's end that is waited beyond, not the last event.
            let head = self.head().await?;
            let events = self
                .store
                .feed(after, limit)
                .await
                .map_err(|error| refused(&error))?;
            if !events.is_empty() {
                return Ok(events);
            }
            match self.store.changed(head.max(after)).await {
                Ok(_) => {}
                Err(StoreError::Closed) => return Ok(Vec::new()),
                Err(error) => return Err(refused(&error)),
            }
        }
    }

    async fn follow_steps(&self, after: u64, limit: usize) -> Result<Vec<Step>, Refusal> {
        loop {
            let head = self.head().await?;
            let steps = self.runs.step_feed(after, limit).await;
            let steps = steps.map_err(|error| refused(&error))?;
            if !steps.is_empty() {
                return Ok(steps);
            }
            match self.store.changed(head.max(after)).await {
                Ok(_) => {}
                Err(StoreError::Closed) => return Ok(Vec::new()),
                Err(error) => return Err(refused(&error)),
            }
        }
    }

    async fn serve_http(
        &self,
        ask: HttpAsk,
        environment: Option<Arc<Environment>>,
        closing: CancellationToken,
    ) -> Result<HttpReady, Refusal> {
        http::serve(self, ask, environment, closing).await
    }

    async fn catch_up(&self) {
        self.followers.catch_up().await;
    }

    async fn statuses(&self) -> Result<Vec<SourceStatus>, Refusal> {
        Ok(self.catalog.statuses())
    }

    async fn open_again(
        &self,
        server: &str,
        environment: Option<Arc<Environment>>,
    ) -> Result<SourceStatus, Refusal> {
        let config = self.config();
        let environment = environment.as_deref();
        self.servers
            .open_again(server, &config, &self.catalog, environment)
            .await
    }

    fn wanted_variables(&self) -> (u64, Vec<String>) {
        let (generation, config) = (self.recipes.generation(), self.config());
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        match wanted.as_mut() {
            Some(known) if known.recipes == generation && Arc::ptr_eq(&known.config, &config) => {
                (state_of(&known.names), known.names.clone())
            }
            _ => {
                let names = self.names(&config);
                *wanted = Some(Wanted {
                    recipes: generation,
                    config,
                    names: names.clone(),
                });
                (state_of(&names), names)
            }
        }
    }

    fn outdated(&self) -> Option<String> {
        self.outdated
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn is_busy(&self) -> bool {
        self.verbs.0.has_live_runs().await
    }
}

/// Returns a number that differs for different names.
fn state_of(names: &[String]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    names.hash(&mut hasher);
    // The greatest number stands for a face that was never asked.
    hasher.finish() >> 1
}
