//! The gate: judges just before every effect, over parsed addresses and never over shell text.
//!
//! The order is contract (which the engine has checked), grants, policy. A policy's deny stands above its ask, that
//! above allow and standing grants, and those above the defaults. What is to be asked is asked once and remembered for
//! the scope that the person chose.

mod act;
mod answer;
mod defaults;
mod finding;
mod parse;
mod policy;

use std::sync::{Arc, PoisonError, RwLock};

use pentad_model::approval::{Approval, ApprovalState, Scope, Subject};
use pentad_model::event::{EventBody, NewEvent};
use pentad_model::grant::GrantVerb;
use pentad_model::text::{excerpt, suffix, visible};
use pentad_model::{Actor, ApprovalId, Refusal, RefusalKind, ThreadId, Timestamp};
use pentad_program::{ApprovalFilter, Store, StoreError};

pub use self::act::{Act, Authority, Permit, Reach, Reason, input_hash};
pub use self::answer::Decision;
pub use self::finding::{Finding, Question};
pub use self::parse::PolicyError;
pub use self::policy::Policy;
use self::policy::Ruling;
pub(crate) use self::policy::forbids;

/// How long an open question, or a person's no, is remembered.
pub const MAX_AGE_MILLIS: i64 = 24 * 60 * 60 * 1000;
/// Approvals that are looked through for a no or an earlier version.
const LOOK_BACK: usize = 500;

/// What the gate would say, without asking anybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may happen.
    Allowed(Reason),
    /// A person must approve.
    Asks,
    /// It may not happen.
    Denied(Refusal),
}

/// Reads the clock; tests give their own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Judges acts.
pub struct Gate {
    store: Arc<dyn Store>,
    policy: RwLock<Arc<Policy>>,
    now: Clock,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("policy", &self.policy())
            .finish_non_exhaustive()
    }
}

impl Gate {
    /// Returns the gate of a home.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, policy: Policy, now: Clock) -> Self {
        Self {
            store,
            policy: RwLock::new(Arc::new(policy)),
            now,
        }
    }

    /// Returns the policy in force.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a changed policy into force, for every run and at once.
    ///
    /// # Errors
    /// A text that cannot be parsed changes nothing: the policy before it stays in force.
    pub fn reload(&self, text: &str) -> Result<(), PolicyError> {
        let policy = Arc::new(Policy::parse(text)?);
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
        Ok(())
    }

    /// Says what [`Self::judge`] would say, apart from approvals: for lists and hits. Creates nothing.
    #[must_use]
    pub fn would_ask(&self, act: &Act, authority: &Authority) -> Verdict {
        weigh(act, authority, &self.policy())
    }

    /// Says the same with the approvals of `granted` (listed once for many acts) taken into account.
    #[must_use]
    pub fn would_ask_after(&self, act: &Act, authority: &Authority, granted: &[Approval]) -> Verdict {
        let verdict = self.would_ask(act, authority);
        if verdict != Verdict::Asks {
            return verdict;
        }
        let subject = act.subject();
        let usable = |approval: &&Approval| permits(approval, &subject, act.thread);
        granted.iter().find(usable).map_or(Verdict::Asks, |approval| {
            Verdict::Allowed(Reason::Approved(approval.id))
        })
    }

    /// Judges one act that is about to happen. A permit holds for this act now, not for a later one.
    ///
    /// # Errors
    /// Refuses what grants or policy do not permit; with `ApprovalRequired` and the approval's address what a person
    /// must approve first.
    pub async fn judge(&self, act: &Act, authority: &Authority) -> Result<Permit, Refusal> {
        match self.consider(act, authority).await? {
            Finding::Permitted(permit) => Ok(permit),
            Finding::Open(question) => Err(question.refusal),
        }
    }

    /// Judges like [`Self::judge`], and hands out the open question where a person must approve first, so that
    /// whoever can reach a person puts it to them.
    ///
    /// # Errors
    /// Refuses what grants or policy do not permit, and what a person denied.
    pub async fn consider(&self, act: &Act, authority: &Authority) -> Result<Finding, Refusal> {
        match self.would_ask(act, authority) {
            Verdict::Allowed(reason) => Ok(Finding::Permitted(Permit { reason })),
            Verdict::Denied(refusal) => Err(refusal),
            Verdict::Asks => self.ask(act).await,
        }
    }

    async fn ask(&self, act: &Act) -> Result<Finding, Refusal> {
        let subject = act.subject();
        let usable = self.store.use_approval(&subject, act.thread).await;
        if let Some(approval) = usable.map_err(|e| store_refusal(act, &e))? {
            return Ok(Finding::Permitted(Permit {
                reason: Reason::Approved(approval.id),
            }));
        }
        if let Some(denied) = self.remembered_no(act).await? {
            return Err(denied);
        }
        let changed = self.was_approved_otherwise(act).await?;
        let approval = self.open(act, changed).await?;
        let refusal = approval_refusal(act, &approval, changed);
        Ok(Finding::Open(Box::new(Question { approval, refusal })))
    }

    /// A no is remembered for this act with this input in this thread, so that repeating it is no way to wear a
    /// person down.
    async fn remembered_no(&self, act: &Act) -> Result<Option<Refusal>, Refusal> {
        let denied = self.listed(act, ApprovalState::Denied).await?;
        let subject = act.subject();
        let since = (self.now)().plus_millis(-MAX_AGE_MILLIS);
        let found = denied.iter().find(|approval| {
            approval.subject == subject
                && approval.thread == act.thread
                && approval.answered_at.is_some_and(|at| at >= since)
        });
        Ok(found.map(|approval| {
            let text = shown(act);
            Refusal::new(
                RefusalKind::Forbidden,
                text.clone(),
                format!("A person denied '{text}' (approval:{}).", approval.id),
            )
            .next_step("do without it, or ask the person what they want instead; do not repeat the call")
        }))
    }

    /// Tells whether the act was approved for something that would no longer run.
    async fn was_approved_otherwise(&self, act: &Act) -> Result<bool, Refusal> {
        let subject = act.subject();
        let granted = self.listed(act, ApprovalState::Granted(Scope::Always)).await?;
        Ok(granted.iter().any(|approval| {
            let own = &approval.subject;
            is_same_act(own, &subject) && own.closure_hash != subject.closure_hash
        }))
    }

    async fn listed(&self, act: &Act, state: ApprovalState) -> Result<Vec<Approval>, Refusal> {
        let filter = ApprovalFilter {
            state: Some(state.word().to_owned()),
            limit: LOOK_BACK,
        };
        self.store
            .approvals(filter)
            .await
            .map_err(|e| store_refusal(act, &e))
    }

    async fn open(&self, act: &Act, changed: bool) -> Result<Approval, Refusal> {
        let first = self.put(act, changed).await?;
        if !self.is_too_old(&first) {
            return Ok(first);
        }
        self.expire(&first).await?;
        self.put(act, changed).await
    }

    async fn put(&self, act: &Act, changed: bool) -> Result<Approval, Refusal> {
        let at = (self.now)();
        let id = ApprovalId::generate();
        let question = if changed {
            format!("{}\nIt was approved before, and has changed since.", act.question)
        } else {
            act.question.clone()
        };
        let approval = Approval {
            id,
            thread: act.thread,
            run: act.run,
            subject: act.subject(),
            question,
            run_at_most: act.destructive || act.right.is_some(),
            state: ApprovalState::Open,
            answered_by: None,
            created_at: at,
            answered_at: None,
        };
        let asked = NewEvent {
            thread: act.thread,
            at,
            caller: act.caller.clone(),
            call: None,
            run: act.run,
            body: EventBody::Approval {
                approval: id,
                state: ApprovalState::Open,
                act: act.text(),
            },
        };
        self.store
            .ask(approval, vec![asked])
            .await
            .map_err(|e| store_refusal(act, &e))
    }

    pub(super) fn is_too_old(&self, approval: &Approval) -> bool {
        approval.state == ApprovalState::Open
            && approval.created_at.plus_millis(MAX_AGE_MILLIS) < (self.now)()
    }

    pub(super) async fn expire(&self, approval: &Approval) -> Result<(), Refusal> {
        let at = (self.now)();
        match self
            .store
            .answer(approval.id, ApprovalState::Expired, Actor::System.into(), at)
            .await
        {
            // Somebody else answered or expired it first: it is not open any more, which is all that was wanted.
            Ok(_) | Err(StoreError::Conflict(_)) => Ok(()),
            Err(error) => Err(answer::refusal(&format!("approval:{}", approval.id), &error)),
        }
    }
}

fn is_same_act(a: &Subject, b: &Subject) -> bool {
    a.actor == b.actor && a.agent == b.agent && a.act == b.act
}

/// What [`Store::use_approval`] promises, without using anything up.
fn permits(approval: &Approval, subject: &Subject, thread: ThreadId) -> bool {
    let own = &approval.subject;
    is_same_act(own, subject)
        && own.closure_hash == subject.closure_hash
        && match approval.state {
            ApprovalState::Granted(Scope::Always) => true,
            ApprovalState::Granted(Scope::Run) => approval.thread == thread,
            ApprovalState::Granted(Scope::Once) => own.input_hash == subject.input_hash,
            ApprovalState::Open
            | ApprovalState::Used
            | ApprovalState::Denied
            | ApprovalState::Expired
            | ApprovalState::Void => false,
        }
}

fn weigh(act: &Act, authority: &Authority, policy: &Policy) -> Verdict {
    if let Some(refusal) = malformed(act) {
        return Verdict::Denied(refusal);
    }
    let person = act.caller.actor.is_person();
    if !person && let Some(refusal) = ungranted(act, authority) {
        return Verdict::Denied(refusal);
    }
    match policy.ruling(act) {
        Ruling::Deny(why) => Verdict::Denied(denied(act, &why)),
        _ if person => Verdict::Allowed(Reason::Person),
        Ruling::Ask => Verdict::Asks,
        Ruling::Allow => Verdict::Allowed(Reason::Policy),
        Ruling::Silent if is_standing(act, authority) => Verdict::Allowed(Reason::Standing),
        Ruling::Silent if defaults::allows(act) => Verdict::Allowed(Reason::Default),
        Ruling::Silent => Verdict::Asks,
    }
}

/// A path that still has `.` or `..` was not resolved by whoever opens it: its prefix proves nothing.
fn malformed(act: &Act) -> Option<Refusal> {
    let unresolved =
        act.verb != GrantVerb::Call && act.components().iter().any(|part| part == ".." || part == ".");
    unresolved.then(|| {
        let text = shown(act);
        Refusal::new(
            RefusalKind::BadRequest,
            text.clone(),
            format!("'{text}' contains '.' or '..'; name the resolved path."),
        )
    })
}

fn ungranted(act: &Act, authority: &Authority) -> Option<Refusal> {
    if !authority.grants.covers(act.verb, &act.components()) {
        return Some(if act.verb == GrantVerb::Call {
            crate::resolve::unknown_tool(&act.target, &[])
        } else {
            let text = shown(act);
            Refusal::new(
                RefusalKind::Forbidden,
                text.clone(),
                format!("Your grants do not cover '{text}'."),
            )
            .next_step("read ~/self shows your grants")
        });
    }
    let right = act.right.as_ref()?;
    let held = authority.grants.has(right) || authority.standing.has(right);
    (!held).then(|| {
        Refusal::new(
            RefusalKind::Forbidden,
            shown(act),
            format!(
                "'{}' needs the grant '{right}', which you do not have.",
                shown(act)
            ),
        )
        .next_step(format!(
            "a person may add \"{right}\" to the grants of this client or agent in config.toml"
        ))
    })
}

fn is_standing(act: &Act, authority: &Authority) -> bool {
    authority.standing.covers(act.verb, &act.components())
        && act
            .right
            .as_ref()
            .is_none_or(|right| authority.standing.has(right))
}

fn shown(act: &Act) -> String {
    excerpt(&visible(&act.text()), 300)
}

fn denied(act: &Act, why: &str) -> Refusal {
    let text = shown(act);
    Refusal::new(
        RefusalKind::Forbidden,
        text.clone(),
        format!("'{text}' is not permitted: {why}."),
    )
    .next_step("a person may change policy.toml; there is no way around it by other tools")
}

fn approval_refusal(act: &Act, approval: &Approval, changed: bool) -> Refusal {
    let text = shown(act);
    let id = approval.id.to_string();
    let scopes = if approval.run_at_most {
        "[--run]"
    } else {
        "[--run|--always]"
    };
    let changed = if changed {
        " It was approved before, and has changed since."
    } else {
        ""
    };
    Refusal::new(
        RefusalKind::ApprovalRequired,
        text.clone(),
        format!("'{text}' waits for a person's approval: approval:{id}.{changed}"),
    )
    .next_step(format!(
        "a person runs: pentad approvals grant {} {scopes}",
        suffix(&id, 8)
    ))
    .next_step("then repeat the call")
}

fn store_refusal(act: &Act, error: &StoreError) -> Refusal {
    answer::refusal(&shown(act), error)
}

#[cfg(test)]
mod fake_store;
#[cfg(test)]
mod tests;
