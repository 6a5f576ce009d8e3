//! A person's answers: given to us, or brought by the client that a person sits at.

use pentad_model::approval::{Approval, ApprovalState, Scope};
use pentad_model::text::{excerpt, visible};
use pentad_model::{Actor, Caller, IdEnding, Refusal, RefusalKind};
use pentad_program::{ApprovalFilter, StoreError};

use super::Gate;

/// What a person decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Yes, for this scope.
    Grant(Scope),
    /// No.
    Deny,
}

impl Gate {
    /// Answers an open question, found by an ending of its id.
    ///
    /// # Errors
    /// Refuses everyone but a person, unknown and ambiguous ids, questions that are answered or too old, and a scope
    /// that the act does not allow.
    pub async fn answer(&self, id: &IdEnding, decision: Decision, by: &Actor) -> Result<Approval, Refusal> {
        let address = format!("approval:{id}");
        if !by.is_person() {
            return Err(Refusal::new(
                RefusalKind::Forbidden,
                address,
                format!("Only a person answers approvals; '{by}' may not."),
            )
            .next_step(format!("a person runs: pentad approvals grant {id}")));
        }
        let approval = self
            .store
            .find_approval(id)
            .await
            .map_err(|error| refusal(&address, &error))?;
        if self.is_too_old(&approval) {
            self.expire(&approval).await?;
            return Err(too_late(&address, ApprovalState::Expired));
        }
        if approval.state != ApprovalState::Open {
            return Err(too_late(&address, approval.state));
        }
        let state = match decision {
            Decision::Deny => ApprovalState::Denied,
            Decision::Grant(Scope::Always) if approval.run_at_most => return Err(run_at_most(&approval)),
            Decision::Grant(scope) => ApprovalState::Granted(scope),
        };
        self.store
            .answer(approval.id, state, by.clone().into(), (self.now)())
            .await
            .map_err(|error| refusal(&address, &error))
    }

    /// Records what the person behind a client answered when the client put the gate's question to them.
    ///
    /// The answer counts for the client's own question only, and is recorded as the client's word on that person's
    /// behalf. A scope that is wider than the approval allows is cut to what it allows: the person was not offered
    /// more, so what they meant is yes.
    ///
    /// # Errors
    /// Refuses everyone but the client that asked, and questions that are answered or too old.
    pub async fn answer_elicited(
        &self,
        question: &Approval,
        decision: Decision,
        client: &Caller,
    ) -> Result<Approval, Refusal> {
        let address = format!("approval:{}", question.id);
        let is_client = matches!(client.actor, Actor::Client(_));
        if !is_client || client.actor != question.subject.actor {
            let message = format!("'{}' did not ask this and cannot bring its answer.", client.actor);
            return Err(Refusal::new(RefusalKind::Forbidden, address, message)
                .next_step(format!("a person runs: pentad approvals grant {}", question.id)));
        }
        if self.is_too_old(question) {
            self.expire(question).await?;
            return Err(too_late(&address, ApprovalState::Expired));
        }
        let state = match decision {
            Decision::Deny => ApprovalState::Denied,
            Decision::Grant(scope) => ApprovalState::Granted(allowed(question, scope)),
        };
        let by = Caller {
            actor: client.actor.clone(),
            on_behalf_of: Some(client.on_behalf_of.clone().unwrap_or(Actor::User)),
        };
        self.store
            .answer(question.id, state, by, (self.now)())
            .await
            .map_err(|error| refusal(&address, &error))
    }

    /// Expires questions that nobody answered in time, and returns the open ones, newest first.
    ///
    /// # Errors
    /// Fails when the journal does.
    pub async fn open_approvals(&self, limit: usize) -> Result<Vec<Approval>, Refusal> {
        let filter = ApprovalFilter {
            state: Some(ApprovalState::Open.word().to_owned()),
            limit,
        };
        let listed = self
            .store
            .approvals(filter)
            .await
            .map_err(|error| refusal("approval:", &error))?;
        let mut open = Vec::with_capacity(listed.len());
        for approval in listed {
            if self.is_too_old(&approval) {
                self.expire(&approval).await?;
            } else {
                open.push(approval);
            }
        }
        Ok(open)
    }
}

/// Returns the widest scope within `asked` that an approval may be granted for.
const fn allowed(approval: &Approval, asked: Scope) -> Scope {
    match asked {
        Scope::Always if approval.run_at_most => Scope::Run,
        Scope::Once | Scope::Run | Scope::Always => asked,
    }
}

fn too_late(address: &str, state: ApprovalState) -> Refusal {
    Refusal::new(
        RefusalKind::Conflict,
        address,
        format!(
            "This approval is {} and cannot be answered any more.",
            state.word()
        ),
    )
    .next_step("repeating the call asks again where a person must still approve")
}

fn run_at_most(approval: &Approval) -> Refusal {
    let act = excerpt(&visible(&approval.subject.act), 300);
    Refusal::new(
        RefusalKind::Invalid,
        format!("approval:{}", approval.id),
        format!("'{act}' may destroy or runs foreign code: it can be granted once or for this thread's run, never for always."),
    )
    .supported([Scope::Once.word(), Scope::Run.word()])
}

/// Returns a refusal for a fault of the journal.
pub(super) fn refusal(subject: &str, error: &StoreError) -> Refusal {
    let kind = match error {
        StoreError::NotFound(_) => RefusalKind::NotFound,
        StoreError::Ambiguous { .. } => RefusalKind::BadRequest,
        StoreError::Conflict(_) => RefusalKind::Conflict,
        StoreError::Closed | StoreError::NotWritten(_) => RefusalKind::Unavailable,
        StoreError::Unusable(_) | StoreError::Corrupt(_) => RefusalKind::Internal,
    };
    Refusal::new(kind, subject, excerpt(&visible(&error.to_string()), 500))
}
