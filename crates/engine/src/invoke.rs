//! The one path of every invocation.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pentad_catalog::Authority;
use pentad_model::event::NewEvent;
use pentad_model::invocation::Workspace;
use pentad_model::outcome::Product;
use pentad_model::select::Selection;
use pentad_model::thread::Thread;
use pentad_model::verb::{Format, Request};
use pentad_model::{
    Actor, CallId, Id, Invocation, Name, Outcome, Refusal, RefusalKind, RunId, Status, ThreadId, Timestamp,
    Verb,
};
use pentad_program::{Attendance, RunChange, StoreError};
use tokio::time::Instant;

use crate::{Engine, verbs, view};

/// Everything that one invocation knows about itself.
pub(crate) struct Context {
    /// The invocation's place in the journal.
    pub call: CallId,
    /// Who calls, where, in which run.
    pub caller: pentad_model::Caller,
    /// The resolved thread.
    pub thread: Thread,
    /// The run that invokes, when a run does.
    pub run: Option<RunId>,
    /// What it may do at all, and what of it without asking.
    pub authority: Authority,
    /// Where paths are resolved.
    pub workspace: Workspace,
    /// Cancellation and progress.
    pub attendance: Attendance,
    /// When it began.
    pub now: Timestamp,
    /// How long everything may take together, what a person is waited for included.
    pub limit: Duration,
    /// When that time is over.
    pub until: Instant,
    /// The event "called" while it waits to be written with whatever is recorded next.
    pub opening: Opening,
    /// How the run of this invocation ended; written in one transaction with its answer.
    pub settlement: Settlement,
}

/// An event that waits to be written; it goes when it was.
pub(crate) type Opening = Arc<Mutex<Option<NewEvent>>>;

/// A settlement that waits to be written.
pub(crate) type Settlement = Arc<Mutex<Option<(RunChange, NewEvent)>>>;

impl Context {
    /// Returns the agent whose memory and approvals apply.
    pub const fn agent(&self) -> &Name {
        &self.thread.agent
    }

    /// Returns how long acts may still take.
    pub fn time_left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Returns the same context with an attendance of its own: what outlives its caller is not cancelled by it.
    pub fn detached(&self) -> Self {
        Self {
            call: self.call,
            caller: self.caller.clone(),
            thread: self.thread.clone(),
            run: self.run,
            authority: self.authority.clone(),
            workspace: self.workspace.clone(),
            attendance: Attendance {
                environment: self.attendance.environment.clone(),
                ..Attendance::default()
            },
            now: self.now,
            limit: self.limit,
            until: self.until,
            opening: Opening::default(),
            settlement: Settlement::default(),
        }
    }
}

/// Turns a store's failure into a refusal that a caller can act on.
pub(crate) fn store_refusal(error: &StoreError) -> Refusal {
    match error {
        StoreError::NotFound(text) => Refusal::new(RefusalKind::NotFound, "journal", text.as_str()),
        StoreError::Ambiguous { ending, .. } => {
            Refusal::new(RefusalKind::BadRequest, ending.as_str(), format!("{error}."))
        }
        StoreError::Conflict(text) => Refusal::new(RefusalKind::Conflict, "journal", text.as_str()),
        StoreError::Unusable(_) | StoreError::NotWritten(_) | StoreError::Corrupt(_) | StoreError::Closed => {
            Refusal::new(RefusalKind::Unavailable, "journal", error.to_string())
                .next_step("pentad doctor says what is wrong with the home")
        }
    }
}

/// Returns the outcome of an invocation whose task ended without one.
pub(crate) fn crashed(verb: Verb, why: &str) -> Outcome {
    let refusal = Refusal::new(
        RefusalKind::Internal,
        verb.name(),
        format!("{verb} ended unexpectedly: {why}."),
    )
    .next_step("read activity: shows how far it came");
    unrecorded(verb, refusal)
}

/// Returns an outcome that no thread could be found for.
fn unrecorded(verb: Verb, refusal: Refusal) -> Outcome {
    Outcome {
        status: Status::from(&refusal),
        verb,
        call: CallId::generate(),
        thread: ThreadId(Id::from_bytes([0; 16])),
        run: None,
        text: refusal.to_text(),
        omitted: None,
        value: None,
        parts: Vec::new(),
        refusal: Some(refusal),
    }
}

impl Engine {
    /// Executes one invocation to its end.
    pub(crate) async fn run_invocation(
        self: &Arc<Self>,
        invocation: Invocation,
        attendance: Attendance,
    ) -> Outcome {
        let verb = invocation.verb;
        let request = Request::parse(verb, &invocation.arguments);
        let context = match self
            .open_context(&invocation, request.as_ref().ok(), attendance)
            .await
        {
            Ok(context) => context,
            Err(refusal) => return unrecorded(verb, refusal),
        };
        if let Err(error) = self.record_called(&context, verb, &invocation.arguments).await {
            return unrecorded(verb, store_refusal(&error));
        }
        let rendering = request
            .as_ref()
            .map_or_else(|_| Ok(Rendering::default()), Rendering::of);
        let result = match (request, &rendering) {
            (Err(refusal), _) => Err(refusal),
            (_, Err(refusal)) => Err(refusal.clone()),
            (Ok(request), Ok(_)) => self.act(&context, request).await,
        };
        let rendering = rendering.unwrap_or_default();
        let limit = self.view_limit(&context, invocation.view_bytes);
        let outcome = self.outcome(&context, verb, result, &rendering, limit);
        match self.record_returned(&context, &outcome).await {
            Ok(()) => outcome,
            // The act is done; its result is handed over, with the fault beside it.
            Err(error) => {
                tracing::error!(call = %context.call, %error, "a result could not be journaled");
                outcome
            }
        }
    }

    async fn open_context(
        &self,
        invocation: &Invocation,
        request: Option<&Request>,
        attendance: Attendance,
    ) -> Result<Context, Refusal> {
        let now = Timestamp::now();
        let thread = self.resolve_thread(invocation, request, now).await?;
        let settings = match &invocation.caller.actor {
            Actor::Client(name) => self.client(name),
            _ => None,
        };
        let standing = settings.map(|s| s.grants).unwrap_or_default();
        let mut authority = Authority {
            standing,
            ..Authority::everything()
        };
        if let Some(run) = invocation.run {
            let run = self.parts.store.run(run).await.map_err(|e| store_refusal(&e))?;
            authority = authority.child(Some(&run.grants));
        }
        let cancel = attendance.cancel.child_token();
        let stopping = self.stopping.clone();
        let limit = invocation.deadline.map_or(self.parts.limits.call, |deadline| {
            Duration::from_millis(u64::try_from(deadline.0 - now.0).unwrap_or(0)).min(self.parts.limits.call)
        });
        let linked = cancel.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stopping.cancelled() => linked.cancel(),
                () = linked.cancelled() => {}
            }
        });
        Ok(Context {
            call: CallId::generate(),
            caller: invocation.caller.clone(),
            thread,
            run: invocation.run,
            authority,
            workspace: invocation.workspace.clone(),
            attendance: Attendance { cancel, ..attendance },
            now,
            limit,
            until: Instant::now() + limit,
            opening: Opening::default(),
            settlement: Settlement::default(),
        })
    }

    async fn act(self: &Arc<Self>, context: &Context, request: Request) -> Result<Product, Refusal> {
        let result = match request {
            Request::Read(read) => verbs::read::read(self, context, &read).await,
            Request::Write(write) => verbs::write::write(self, context, &write).await,
            Request::Call(call) => verbs::call::call(self, context, call).await,
            Request::Delegate(delegate) => verbs::delegate::delegate(self, context, *delegate).await,
            Request::Plan(update) => verbs::plan::plan(self, context, update.plan).await,
        };
        context.attendance.cancel.cancel();
        result
    }

    fn view_limit(&self, context: &Context, asked: Option<u64>) -> usize {
        let limits = &self.parts.limits;
        let own = match context.caller.actor {
            Actor::User | Actor::System => limits.person_view_bytes,
            Actor::Client(_) => limits.client_view_bytes,
            Actor::Agent(_) | Actor::Trigger(_) => limits.view_bytes,
        };
        asked
            .and_then(|n| usize::try_from(n).ok())
            .map_or(own, |n| n.clamp(256, limits.person_view_bytes))
    }

    fn outcome(
        &self,
        context: &Context,
        verb: Verb,
        result: Result<Product, Refusal>,
        rendering: &Rendering,
        limit: usize,
    ) -> Outcome {
        let (status, mut product, refusal) = match result {
            Ok(product) => (
                if product.failed {
                    Status::Failed
                } else {
                    Status::Ok
                },
                product,
                None,
            ),
            Err(refusal) => {
                let refusal = self.parts.redactor.refusal(refusal);
                (
                    Status::from(&refusal),
                    Product::text(refusal.to_text(), String::new()),
                    Some(refusal),
                )
            }
        };
        if rendering.format == Format::Json && refusal.is_none() {
            product.text = product
                .value
                .as_ref()
                .map_or_else(|| "null".to_owned(), |v| format!("{v:#}"));
        }
        product.text = self.parts.redactor.text(product.text);
        product.value = product.value.map(|value| self.parts.redactor.value(value));
        let (text, omitted) = match view::bounded(&product, &rendering.selection, limit) {
            Ok(view) => view,
            Err(refusal) => return self.outcome(context, verb, Err(refusal), &Rendering::default(), limit),
        };
        // A model has the text before it; the value beside it only where it is small and no repetition of a page.
        let value_fits = !context.caller.actor.is_model()
            || (verb != Verb::Read
                && product
                    .value
                    .as_ref()
                    .is_none_or(|v| v.to_string().len() <= view::SMALL_VALUE_BYTES));
        Outcome {
            status,
            verb,
            call: context.call,
            thread: context.thread.id,
            run: product.run,
            text,
            omitted,
            value: product.value.filter(|_| value_fits),
            parts: product.parts,
            refusal,
        }
    }
}

/// How a result is turned into text: the format and the part that the caller asked for.
#[derive(Debug, Default)]
struct Rendering {
    format: Format,
    selection: Selection,
}

impl Rendering {
    fn of(request: &Request) -> Result<Self, Refusal> {
        match request {
            Request::Read(read) => Ok(Self {
                format: read.format,
                selection: Selection::parse(&read.options)?,
            }),
            _ => Ok(Self::default()),
        }
    }
}

/// Returns a path made absolute against the workspace and normalised by its text; opening it is another matter.
pub(crate) fn lexical(cwd: &Path, path: &str) -> std::path::PathBuf {
    let mut out = std::path::PathBuf::new();
    for part in cwd.join(path).components() {
        match part {
            std::path::Component::ParentDir => {
                out.pop();
            }
            std::path::Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}
