//! The gate, and the person behind a client: what must be approved is asked while the call waits, once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pentad_catalog::gate::{Act, Decision, Finding, Question};
use pentad_model::approval::{Approval, ApprovalState};
use pentad_model::{Actor, ApprovalId, Refusal, RefusalKind};
use pentad_program::{Answer, Asker};

use crate::Engine;
use crate::acts::canceled;
use crate::invoke::Context;

/// The questions that calls are waiting for now.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    lines: Mutex<HashMap<ApprovalId, Arc<Line>>>,
}

/// The calls that wait for one approval: whoever holds the lock asks. True when a person was asked and said nothing.
type Line = tokio::sync::Mutex<bool>;

/// A call's place in a line; the last one to leave takes the line away.
struct Place<'a> {
    asking: &'a Asking,
    approval: ApprovalId,
    line: Arc<Line>,
}

impl Asking {
    fn join(&self, approval: ApprovalId) -> Place<'_> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = Arc::clone(lines.entry(approval).or_default());
        Place {
            asking: self,
            approval,
            line,
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.asking.lines.lock().unwrap_or_else(PoisonError::into_inner);
        // The map's own and ours: nobody else stands in this line, and nobody joins while the map is locked.
        if Arc::strong_count(&self.line) <= 2 {
            lines.remove(&self.approval);
        }
    }
}

/// Why a wait ended without what was waited for.
enum Cut {
    /// The call was canceled.
    Canceled,
    /// The call's time is over.
    Late,
}

impl Engine {
    /// Asks the gate whether an act may happen now, and the person behind the caller where the gate wants one.
    ///
    /// Nobody to ask, and nobody who answers in the call's time, leave the refusal with the approval's address.
    /// Calls that wait for the same approval ask once: the others look at what came of it.
    pub(crate) async fn judge(&self, context: &Context, act: &Act) -> Result<(), Refusal> {
        // Agents and triggers wait for a person elsewhere, whoever their calls came through.
        let is_client = matches!(context.caller.actor, Actor::Client(_));
        let asker = match &context.attendance.asker {
            Some(asker) if is_client => asker,
            _ => return self.parts.gate.judge(act, &context.authority).await.map(drop),
        };
        let mut question = match self.parts.gate.consider(act, &context.authority).await? {
            Finding::Permitted(_) => return Ok(()),
            Finding::Open(question) => question,
        };
        loop {
            let place = self.asking.join(question.approval.id);
            let mut silent = match bounded(context, place.line.lock()).await {
                Ok(silent) => silent,
                Err(Cut::Canceled) => return Err(canceled()),
                Err(Cut::Late) => return Err(question.refusal),
            };
            // Whoever stood before us may have got the answer, and may have used it up.
            let next = match self.parts.gate.consider(act, &context.authority).await? {
                Finding::Permitted(_) => return Ok(()),
                Finding::Open(next) => next,
            };
            if next.approval.id != question.approval.id {
                question = next;
                continue;
            }
            if *silent && asker.reaches_a_person() {
                return Err(next.refusal);
            }
            match self.ask(context, act, asker, *next, &mut silent).await? {
                Finding::Permitted(_) => return Ok(()),
                // A call that came meanwhile has used the answer up: this one asks for itself.
                Finding::Open(next) => question = next,
            }
        }
    }

    /// Puts one question to the person, records what they said, and judges again while the others still wait.
    async fn ask(
        &self,
        context: &Context,
        act: &Act,
        asker: &Arc<dyn Asker>,
        question: Question,
        silent: &mut bool,
    ) -> Result<Finding, Refusal> {
        let asked = tokio::select! {
            biased;
            answer = bounded(context, asker.ask(&question.approval)) => answer,
            () = self.answered_elsewhere(question.approval.id) => {
                return self.parts.gate.consider(act, &context.authority).await;
            }
        };
        let decision = match asked {
            Ok(Answer::Granted(scope)) => Decision::Grant(scope),
            Ok(Answer::Denied) => Decision::Deny,
            Ok(Answer::Unanswered) => {
                *silent = asker.reaches_a_person();
                return Err(question.refusal);
            }
            Err(Cut::Canceled) => return Err(canceled()),
            Err(Cut::Late) => return Err(question.refusal),
        };
        self.record_answer(context, &question.approval, decision).await?;
        self.parts.gate.consider(act, &context.authority).await
    }

    /// Returns when an approval is not open any more: a person may answer it in a shell while the client still shows it.
    async fn answered_elsewhere(&self, approval: ApprovalId) {
        let store = &self.parts.store;
        let watched = async {
            let ending = approval.to_string().parse().ok()?;
            loop {
                let head = store.head().await.ok()?;
                if store.find_approval(&ending).await.ok()?.state != ApprovalState::Open {
                    return Some(());
                }
                store.changed(head).await.ok()?;
            }
        };
        // A journal that cannot be watched leaves the client's own answer.
        if watched.await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    async fn record_answer(
        &self,
        context: &Context,
        approval: &Approval,
        decision: Decision,
    ) -> Result<(), Refusal> {
        let recorded = self
            .parts
            .gate
            .answer_elicited(approval, decision, &context.caller);
        match recorded.await {
            Ok(_) => Ok(()),
            // Somebody answered elsewhere while the question was open: theirs is the answer.
            Err(refusal) if refusal.kind == RefusalKind::Conflict => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }
}

async fn bounded<T>(context: &Context, wait: impl Future<Output = T>) -> Result<T, Cut> {
    tokio::select! {
        // What was answered in the last moment counts.
        biased;
        done = wait => Ok(done),
        () = context.attendance.cancel.cancelled() => Err(Cut::Canceled),
        () = tokio::time::sleep_until(context.until) => Err(Cut::Late),
    }
}
