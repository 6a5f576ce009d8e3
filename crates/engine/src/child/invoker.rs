//! Verbs that runs invoke: the same way in as for everybody else.

use std::sync::Weak;

use async_trait::async_trait;
use pentad_model::invocation::{ThreadChoice, Workspace};
use pentad_model::run::{Run, RunError};
use pentad_model::step::Repeat;
use pentad_model::verb::{Request, Verb};
use pentad_model::{Invocation, Outcome};
use pentad_program::{ActFailure, Attempt, Invoke};
use pentad_run::Invoker;

use crate::Engine;

/// Executes the verbs of runs.
pub(crate) struct EngineInvoker {
    pub(crate) engine: Weak<Engine>,
}

#[async_trait]
impl Invoker for EngineInvoker {
    fn repeat(&self, run: &Run, invoke: &Invoke) -> Repeat {
        match invoke.verb {
            Verb::Read => Repeat::Safe,
            Verb::Call => self
                .engine
                .upgrade()
                .map_or(Repeat::Never, |engine| engine.repeat_of_call(run, invoke)),
            // A plan is replaced as a whole.
            Verb::Plan => Repeat::Safe,
            Verb::Write | Verb::Delegate => Repeat::Never,
        }
    }

    async fn invoke(&self, run: &Run, invoke: Invoke, attempt: Attempt) -> Result<Outcome, ActFailure> {
        let engine = self.engine.upgrade().ok_or(ActFailure::Interrupted)?;
        let invocation = Invocation {
            caller: run.caller.clone(),
            agent: None,
            thread: ThreadChoice::Id(run.thread.to_string()),
            run: Some(run.id),
            workspace: run.terms.workspace.clone().unwrap_or_else(|| Workspace {
                cwd: "/".into(),
                project_root: None,
                trusted: false,
            }),
            verb: invoke.verb,
            arguments: invoke.arguments,
            deadline: None,
            view_bytes: None,
        };
        let canceled = attempt.attendance.cancel.clone();
        let outcome = engine.run_invocation(invocation, attempt.attendance).await;
        if canceled.is_cancelled() && outcome.status != pentad_model::Status::Ok {
            return Err(ActFailure::Failed(RunError {
                code: "canceled".to_owned(),
                message: "It was canceled.".to_owned(),
            }));
        }
        Ok(outcome)
    }
}

impl Engine {
    /// Tells what becomes of a `call` that is interrupted: what a person trusts to change nothing more is repeated.
    fn repeat_of_call(&self, run: &Run, invoke: &Invoke) -> Repeat {
        let Ok(Request::Call(call)) = Request::parse(Verb::Call, &invoke.arguments) else {
            return Repeat::Safe;
        };
        let visible = pentad_catalog::Visibility::of(run.grants.clone());
        match self.parts.catalog.resolve(&call.tool, &visible) {
            pentad_catalog::Resolution::Found(entry) => {
                let trusted = entry.document.trusted;
                if trusted.read_only == Some(true) || trusted.idempotent == Some(true) {
                    Repeat::Safe
                } else {
                    Repeat::Never
                }
            }
            // It will be refused, and refusing is no act.
            _ => Repeat::Safe,
        }
    }
}
