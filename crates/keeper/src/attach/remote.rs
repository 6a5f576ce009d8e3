//! The face's side: a desk that is somewhere else.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::approval::Approval;
use pentad_model::step::Step;
use pentad_model::{
    Actor, Event, FormAnswer, IdEnding, Invocation, Outcome, Refusal, RefusalKind, ThreadId, Verb,
};
use pentad_program::{ActivityFilter, Answer, Attachment, Attendance, Environment, SourceStatus, Verbs};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::calls::{FaceCall, KeeperCall, Placed, PlacedStep, Said};
use super::desk::{Desk, Explanation, HttpAsk, HttpReady, OpenForm};
use super::find::{FindError, Launch, find};
use super::frame::{Attach, Variables};
use super::link::{self, Answering, Incoming, Link, LinkError};
use crate::home::Home;

/// Returns the variables of this process that have one of these names.
pub type OwnVariables = dyn Fn(&[String]) -> Variables + Send + Sync;

/// What a face brings along.
pub struct RemoteParts {
    /// The home.
    pub home: Home,
    /// The folder for sockets whose path in the home would be too long.
    pub runtime_dir: Option<PathBuf>,
    /// The first message.
    pub attach: Attach,
    /// How a keeper is started when there is none; without it, one must be there.
    pub launch: Option<Launch>,
    /// Reads this process's variables.
    pub variables: Arc<OwnVariables>,
    /// Tells a person what they should know.
    pub notice: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The keeper of a home, attached to when it is first needed, and again when it was away.
pub struct Remote {
    parts: RemoteParts,
    current: Mutex<Option<Attached>>,
    end: CancellationToken,
}

struct Attached {
    link: Arc<Link>,
    pid: u32,
    serving: JoinHandle<()>,
}

impl Remote {
    /// Returns a desk that has not attached yet.
    #[must_use]
    pub fn new(parts: RemoteParts) -> Self {
        Self {
            parts,
            current: Mutex::new(None),
            end: CancellationToken::new(),
        }
    }

    /// Starts a keeper like this when there is none any more.
    #[must_use]
    pub fn or_start(mut self, launch: Launch) -> Self {
        self.parts.launch = Some(launch);
        self
    }

    /// Attaches, if that is not done, and returns the keeper's process.
    ///
    /// # Errors
    /// Fails when there is no keeper and none can be started.
    pub async fn attach(&self) -> Result<u32, FindError> {
        self.attached().await.map(|(_, pid)| pid)
    }

    /// Waits until the keeper that this face is attached to has gone.
    pub async fn gone(&self) {
        let gone = self
            .current
            .lock()
            .await
            .as_ref()
            .map(|at| at.link.gone().clone());
        if let Some(gone) = gone {
            gone.cancelled().await;
        }
    }

    /// Leaves the keeper; what this face called and has not ended is cancelled there.
    pub async fn close(&self) {
        self.end.cancel();
        if let Some(attached) = self.current.lock().await.take() {
            // It ends because `end` was cancelled.
            let _ = attached.serving.await;
        }
    }

    async fn attached(&self) -> Result<(Arc<Link>, u32), FindError> {
        let mut current = self.current.lock().await;
        if let Some(attached) = current.as_ref()
            && !attached.link.gone().is_cancelled()
        {
            return Ok((Arc::clone(&attached.link), attached.pid));
        }
        let parts = &self.parts;
        let runtime_dir = parts.runtime_dir.as_deref();
        let found = find(&parts.home, runtime_dir, &parts.attach, parts.launch.as_ref()).await?;
        if let Some(notice) = &found.notice {
            (parts.notice)(notice);
        }
        let answering = Arc::new(FaceSide(Arc::clone(&parts.variables)));
        let (link, serving) = link::start(found.read, found.write, answering, self.end.clone());
        let attached = Attached {
            link: Arc::clone(&link),
            pid: found.pid,
            serving: tokio::spawn(serving),
        };
        *current = Some(attached);
        Ok((link, found.pid))
    }

    /// Calls the keeper. What was not sent, and what may be repeated, is sent once more to the next keeper.
    async fn call(
        &self,
        call: &FaceCall,
        attendance: &Attendance,
        may_repeat: bool,
    ) -> Result<Value, CallError> {
        let mut repeated = false;
        loop {
            let (link, _) = self.attached().await?;
            match link.call(call, attendance).await {
                Err(LinkError::NotSent) if !repeated => {}
                Err(LinkError::Interrupted) if may_repeat && !repeated => {}
                Err(error) => return Err(CallError::Link(error)),
                Ok(value) => return Ok(value),
            }
            repeated = true;
        }
    }

    async fn ask<T: DeserializeOwned>(&self, call: FaceCall, may_repeat: bool) -> Result<T, Refusal> {
        let value = self.call(&call, &Attendance::default(), may_repeat).await?;
        read(value)
    }
}

/// Why a call has no answer.
enum CallError {
    Find(FindError),
    Link(LinkError),
}

impl From<FindError> for CallError {
    fn from(error: FindError) -> Self {
        Self::Find(error)
    }
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Link(error) => error.into(),
            CallError::Find(FindError::Refused(refusal)) => *refusal,
            CallError::Find(error) => {
                let text = error.to_string();
                let (message, next) = text.split_once("\nNext: ").unwrap_or((text.as_str(), ""));
                let refusal = Self::new(RefusalKind::Unavailable, "keeper", format!("{message}."));
                if next.is_empty() {
                    refusal.next_step("pentad doctor says what is wrong; --in-process works without a keeper")
                } else {
                    refusal.next_step(next)
                }
            }
        }
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, Refusal> {
    serde_json::from_value(value).map_err(|error| {
        Refusal::new(
            RefusalKind::Internal,
            "keeper",
            format!("The keeper's answer cannot be read: {error}."),
        )
        .next_step("pentad stop ends it; the next command starts one of this build")
    })
}

/// The outcome of an invocation that the keeper did not live to answer.
fn interrupted(verb: Verb) -> Outcome {
    let message = format!(
        "The keeper ended while this {verb} was in flight (interrupted): it may or may not have happened."
    );
    let refusal = Refusal::new(RefusalKind::Unavailable, "keeper", message)
        .next_step("read activity: shows how far it came; repeat it only if it did not happen");
    Outcome::unrecorded(verb, refusal)
}

#[async_trait]
impl Verbs for Remote {
    async fn invoke(&self, invocation: Invocation, attendance: Attendance) -> Outcome {
        let verb = invocation.verb;
        let call = FaceCall::Invoke(Box::new(invocation));
        match self.call(&call, &attendance, verb == Verb::Read).await {
            Ok(value) => read(value).unwrap_or_else(|refusal| Outcome::unrecorded(verb, refusal)),
            Err(CallError::Link(LinkError::Interrupted)) => interrupted(verb),
            Err(error) => Outcome::unrecorded(verb, error.into()),
        }
    }
}

#[async_trait]
impl Desk for Remote {
    async fn input_schema(&self, tool: &str) -> Option<Value> {
        let call = FaceCall::InputSchema {
            tool: tool.to_owned(),
        };
        self.ask(call, true).await.ok().flatten()
    }

    async fn explain(
        &self,
        invocation: &Invocation,
        tool: &str,
        input: Map<String, Value>,
        _environment: Option<Arc<Environment>>,
    ) -> Result<Explanation, Refusal> {
        let call = FaceCall::Explain {
            invocation: Box::new(invocation.clone()),
            tool: tool.to_owned(),
            input,
        };
        self.ask(call, true).await
    }

    /// Answers an approval; `by` is whoever the keeper finds at this end.
    async fn answer(&self, id: &IdEnding, answer: Answer, _by: &Actor) -> Result<Approval, Refusal> {
        let id = id.to_string();
        self.ask(FaceCall::Answer { id, answer }, false).await
    }

    async fn forms(&self) -> Result<Vec<OpenForm>, Refusal> {
        self.ask(FaceCall::Forms {}, true).await
    }

    /// Answers a form; `by` is whoever the keeper finds at this end.
    async fn answer_form(&self, id: &IdEnding, answer: FormAnswer, _by: &Actor) -> Result<OpenForm, Refusal> {
        let id = id.to_string();
        self.ask(FaceCall::AnswerForm { id, answer }, false).await
    }

    async fn attach(&self, file: &Path, name: Option<String>) -> Result<Attachment, Refusal> {
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        // Attachments are named by their content: attaching twice is attaching once.
        self.ask(FaceCall::AttachFile { file, name }, true).await
    }

    async fn find_thread(&self, ending: &IdEnding) -> Result<ThreadId, Refusal> {
        let ending = ending.to_string();
        self.ask(FaceCall::FindThread { ending }, true).await
    }

    async fn head(&self) -> Result<u64, Refusal> {
        self.ask(FaceCall::Head {}, true).await
    }

    async fn activity(&self, filter: ActivityFilter) -> Result<Vec<Event>, Refusal> {
        let placed: Vec<Placed> = self.ask(FaceCall::Activity(filter), true).await?;
        Ok(placed.into_iter().map(Placed::event).collect())
    }

    async fn follow(&self, after: u64, limit: usize) -> Result<Vec<Event>, Refusal> {
        let call = FaceCall::Follow { after, limit };
        match self.call(&call, &Attendance::default(), false).await {
            Ok(value) => Ok(read::<Vec<Placed>>(value)?
                .into_iter()
                .map(Placed::event)
                .collect()),
            // Whoever follows does not start a keeper that was stopped.
            Err(CallError::Link(LinkError::Interrupted)) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    async fn follow_steps(&self, after: u64, limit: usize) -> Result<Vec<Step>, Refusal> {
        let call = FaceCall::FollowSteps { after, limit };
        match self.call(&call, &Attendance::default(), false).await {
            Ok(value) => Ok(read::<Vec<PlacedStep>>(value)?
                .into_iter()
                .map(PlacedStep::step)
                .collect()),
            Err(CallError::Link(LinkError::Interrupted)) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Serves HTTP with the variables of this process, which the keeper asks for.
    async fn serve_http(
        &self,
        ask: HttpAsk,
        _environment: Option<Arc<Environment>>,
        _closing: CancellationToken,
    ) -> Result<HttpReady, Refusal> {
        self.ask(FaceCall::ServeHttp(ask), false).await
    }

    /// Does nothing: a keeper catches up when it is attached to.
    async fn catch_up(&self) {}

    async fn statuses(&self) -> Result<Vec<SourceStatus>, Refusal> {
        self.ask(FaceCall::Statuses {}, true).await
    }

    async fn open_again(
        &self,
        server: &str,
        _environment: Option<Arc<Environment>>,
    ) -> Result<SourceStatus, Refusal> {
        let server = server.to_owned();
        self.ask(FaceCall::OpenAgain { server }, true).await
    }

    fn wanted_variables(&self) -> (u64, Vec<String>) {
        (0, Vec::new())
    }

    fn outdated(&self) -> Option<String> {
        None
    }

    async fn is_busy(&self) -> bool {
        false
    }
}

/// Answers what the keeper asks of a face.
struct FaceSide(Arc<OwnVariables>);

#[async_trait]
impl Answering for FaceSide {
    async fn answer(&self, link: &Arc<Link>, incoming: Incoming) -> Result<Value, Refusal> {
        let unknown = |error: serde_json::Error| {
            Refusal::new(
                RefusalKind::BadRequest,
                "face",
                format!("This face does not know the call: {error}."),
            )
        };
        let answer = match serde_json::from_value(incoming.call).map_err(unknown)? {
            KeeperCall::Variables { names } => serde_json::to_value((self.0)(&names)),
            KeeperCall::Approve { call, approval } => {
                let said = match link.asker_of(call) {
                    Some(asker) => tokio::select! {
                        answer = asker.ask(&approval) => Said {
                            answer,
                            person: asker.reaches_a_person(),
                        },
                        () = incoming.cancel.cancelled() => Said::NOTHING,
                    },
                    None => Said::NOTHING,
                };
                serde_json::to_value(said)
            }
            KeeperCall::Fill { call, form } => {
                let answer = match link.asker_of(call) {
                    Some(asker) => tokio::select! {
                        answer = asker.fill(&form) => answer,
                        () = incoming.cancel.cancelled() => FormAnswer::unanswered("the form was taken back"),
                    },
                    None => FormAnswer::unanswered("nobody is behind the call who could be asked"),
                };
                serde_json::to_value(answer)
            }
        };
        answer.map_err(unknown)
    }
}
