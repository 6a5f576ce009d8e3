//! What an open home does for those who attach.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::approval::Approval;
use pentad_model::invocation::Workspace;
use pentad_model::step::Step;
use pentad_model::{
    Actor, Event, Form, FormAnswer, FormId, IdEnding, Invocation, Name, Refusal, RunId, ThreadId, Timestamp,
};
use pentad_program::{ActivityFilter, Answer, Attachment, Environment, SourceStatus, Verbs};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// What a tool would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// For a person: the words of each command, its folder and environment names, and what the gate says.
    pub text: String,
    /// The same as data.
    pub value: Value,
}

/// A form that waits for a person, because it belongs to no single call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenForm {
    /// Names it.
    pub id: FormId,
    /// What is asked.
    pub form: Form,
    /// The runs, one of which it is about.
    pub runs: Vec<RunId>,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When it is not waited for any more.
    pub until: Timestamp,
}

/// How HTTP should be served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpAsk {
    /// The address to listen at, in place of the configured one.
    pub bind: Option<IpAddr>,
    /// The port, in place of the configured one; 0 takes any.
    pub port: Option<u16>,
    /// Clients that get tokens besides those of the configuration.
    #[serde(default)]
    pub clients: Vec<Name>,
    /// No tokens: everybody on this machine is a client.
    #[serde(default)]
    pub insecure_loopback: bool,
    /// Where requests work that name no workspace.
    pub workspace: Workspace,
}

/// Where HTTP is served, and who may use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpReady {
    /// Where.
    pub url: String,
    /// The generated tokens by who they stand for; empty without tokens.
    pub tokens: Vec<(String, String)>,
}

/// An open home: the one way in, and what a person's commands need besides.
#[async_trait]
pub trait Desk: Verbs {
    /// Returns the input schema of a tool by name or `source/name`, if it is known without starting anything.
    async fn input_schema(&self, tool: &str) -> Option<Value>;

    /// Says what a call would do with these variables, without doing any of it.
    ///
    /// # Errors
    /// Refuses unknown tools and input that does not fit.
    async fn explain(
        &self,
        invocation: &Invocation,
        tool: &str,
        input: Map<String, Value>,
        environment: Option<Arc<Environment>>,
    ) -> Result<Explanation, Refusal>;

    /// Answers an approval; the gate refuses everyone but a person.
    ///
    /// # Errors
    /// Refuses unknown and answered approvals, and callers that are no person.
    async fn answer(&self, id: &IdEnding, answer: Answer, by: &Actor) -> Result<Approval, Refusal>;

    /// Returns the forms that wait for a person, oldest first.
    ///
    /// # Errors
    /// Refuses when the desk is somewhere else and cannot be reached.
    async fn forms(&self) -> Result<Vec<OpenForm>, Refusal>;

    /// Answers a form that waits for a person, and returns it.
    ///
    /// # Errors
    /// Refuses unknown forms, values that do not fit, and callers that are no person.
    async fn answer_form(&self, id: &IdEnding, answer: FormAnswer, by: &Actor) -> Result<OpenForm, Refusal>;

    /// Keeps a copy of a file as an attachment.
    ///
    /// # Errors
    /// Refuses what is too large or cannot be read.
    async fn attach(&self, file: &Path, name: Option<String>) -> Result<Attachment, Refusal>;

    /// Finds a thread by an ending of its id.
    ///
    /// # Errors
    /// Refuses unknown and ambiguous endings.
    async fn find_thread(&self, ending: &IdEnding) -> Result<ThreadId, Refusal>;

    /// Returns the journal's newest position.
    ///
    /// # Errors
    /// Refuses when the journal cannot be read.
    async fn head(&self) -> Result<u64, Refusal>;

    /// Returns events over all threads, newest first.
    ///
    /// # Errors
    /// Refuses when the journal cannot be read.
    async fn activity(&self, filter: ActivityFilter) -> Result<Vec<Event>, Refusal>;

    /// Returns events after a position, oldest first; waits for the first when there is none yet. Empty at the end of
    /// the journal's life.
    ///
    /// # Errors
    /// Refuses when the journal cannot be read.
    async fn follow(&self, after: u64, limit: usize) -> Result<Vec<Event>, Refusal>;

    /// Returns steps of runs after a position, oldest first; waits for the first when there is none yet. Empty at the end
    /// of the journal's life.
    ///
    /// # Errors
    /// Refuses when the journal cannot be read.
    async fn follow_steps(&self, after: u64, limit: usize) -> Result<Vec<Step>, Refusal>;

    /// Serves HTTP until `closing`. What comes in that way has these variables; without any, those of this process.
    ///
    /// # Errors
    /// Refuses addresses that are in use or that would be open to other machines.
    async fn serve_http(
        &self,
        ask: HttpAsk,
        environment: Option<Arc<Environment>>,
        closing: CancellationToken,
    ) -> Result<HttpReady, Refusal>;

    /// Takes into force what was saved before this was called: whoever attaches finds what was written just before.
    async fn catch_up(&self);

    /// Returns where each source of tools stands.
    ///
    /// # Errors
    /// Refuses when the desk is somewhere else and cannot be reached.
    async fn statuses(&self) -> Result<Vec<SourceStatus>, Refusal>;

    /// Starts a server although it failed too often to be tried by itself, with these variables; without any, with those of
    /// this process. Returns where it stands then.
    ///
    /// # Errors
    /// Refuses unknown servers, and says why one could not be started.
    async fn open_again(
        &self,
        server: &str,
        environment: Option<Arc<Environment>>,
    ) -> Result<SourceStatus, Refusal>;

    /// Returns the names of the variables that configuration and recipes ask of a face, and a number that changes with
    /// them.
    fn wanted_variables(&self) -> (u64, Vec<String>);

    /// Says what of the configuration has changed and is taken by the next keeper only.
    fn outdated(&self) -> Option<String>;

    /// Tells whether runs are in progress that nobody waits for.
    async fn is_busy(&self) -> bool;
}
