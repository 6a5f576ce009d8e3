//! A store that keeps approvals in memory, with the meaning that [`Store`] documents.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use pentad_model::approval::{Approval, ApprovalState, Scope, Subject};
use pentad_model::event::{Event, NewEvent};
use pentad_model::plan::Plan;
use pentad_model::run::Run;
use pentad_model::thread::Thread;
use pentad_model::{ApprovalId, Caller, IdEnding, Name, RunId, ThreadId, Timestamp};
use pentad_program::{
    ActivityFilter, ApprovalFilter, Attachment, BlobRef, Durability, EventPage, EventRange, NewRun,
    NewThread, RunChange, RunFilter, Store, StoreError, ThreadFilter, ThreadHit,
};

#[derive(Default)]
pub(super) struct FakeStore {
    pub(super) approvals: Mutex<Vec<Approval>>,
    pub(super) events: Mutex<Vec<NewEvent>>,
    pub(super) answers: Mutex<Vec<Caller>>,
}

type Answer<T> = Result<T, StoreError>;

fn closed<T>() -> Answer<T> {
    Err(StoreError::Closed)
}

#[async_trait]
impl Store for FakeStore {
    async fn ask(&self, approval: Approval, events: Vec<NewEvent>) -> Answer<Approval> {
        let mut all = self.approvals.lock().unwrap();
        let open = all
            .iter()
            .find(|a| a.state == ApprovalState::Open && a.subject == approval.subject);
        if let Some(open) = open {
            return Ok(open.clone());
        }
        all.push(approval.clone());
        self.events.lock().unwrap().extend(events);
        Ok(approval)
    }

    async fn answer(
        &self,
        id: ApprovalId,
        state: ApprovalState,
        by: Caller,
        at: Timestamp,
    ) -> Answer<Approval> {
        let mut all = self.approvals.lock().unwrap();
        let approval = all.iter_mut().find(|a| a.id == id).unwrap();
        if approval.state != ApprovalState::Open {
            return Err(StoreError::Conflict("answered already".to_owned()));
        }
        approval.state = state;
        approval.answered_by = Some(by.actor.clone());
        self.answers.lock().unwrap().push(by);
        approval.answered_at = Some(at);
        Ok(approval.clone())
    }

    async fn use_approval(&self, subject: &Subject, thread: ThreadId) -> Answer<Option<Approval>> {
        let mut all = self.approvals.lock().unwrap();
        let found = all.iter_mut().find(|a| {
            let own = &a.subject;
            let same = own.actor == subject.actor
                && own.agent == subject.agent
                && own.act == subject.act
                && own.closure_hash == subject.closure_hash;
            same && match a.state {
                ApprovalState::Granted(Scope::Always) => true,
                ApprovalState::Granted(Scope::Run) => a.thread == thread,
                ApprovalState::Granted(Scope::Once) => own.input_hash == subject.input_hash,

                _ => false,
            }
        });
        Ok(found.map(|a| {
            if a.state == ApprovalState::Granted(Scope::Once) {
                a.state = ApprovalState::Used;
            }
            a.clone()
        }))
    }

    async fn find_approval(&self, ending: &IdEnding) -> Answer<Approval> {
        let all = self.approvals.lock().unwrap();
        all.iter()
            .find(|a| ending.matches(a.id.0))
            .cloned()
            .ok_or_else(|| StoreError::NotFound(format!("there is no approval:{ending}")))
    }

    async fn approvals(&self, filter: ApprovalFilter) -> Answer<Vec<Approval>> {
        let all = self.approvals.lock().unwrap();
        let fits = |a: &&Approval| {
            filter
                .state
                .as_deref()
                .is_none_or(|state| a.state.word() == state)
        };
        Ok(all
            .iter()
            .rev()
            .filter(fits)
            .take(filter.limit)
            .cloned()
            .collect())
    }

    async fn open_thread(&self, _: NewThread) -> Answer<Thread> {
        closed()
    }
    async fn find_thread(&self, _: &IdEnding) -> Answer<Thread> {
        closed()
    }
    async fn threads(&self, _: ThreadFilter) -> Answer<Vec<ThreadHit>> {
        closed()
    }
    async fn title_thread(&self, _: ThreadId, _: &str) -> Answer<()> {
        closed()
    }
    async fn append(&self, _: Vec<NewEvent>, _: Durability) -> Answer<Vec<Event>> {
        closed()
    }
    async fn events(&self, _: ThreadId, _: EventRange, _: usize) -> Answer<EventPage> {
        closed()
    }
    async fn run_events(&self, _: RunId, _: u64, _: usize) -> Answer<EventPage> {
        closed()
    }
    async fn feed(&self, _: u64, _: usize) -> Answer<Vec<Event>> {
        closed()
    }
    async fn activity(&self, _: ActivityFilter) -> Answer<Vec<Event>> {
        closed()
    }
    async fn head(&self) -> Answer<u64> {
        closed()
    }
    async fn changed(&self, _: u64) -> Answer<u64> {
        closed()
    }
    async fn promoted(&self, _: ThreadId) -> Answer<BTreeMap<String, String>> {
        closed()
    }
    async fn verify(&self, _: ThreadId) -> Answer<Option<u64>> {
        closed()
    }
    async fn start_run(&self, _: NewRun, _: Vec<NewEvent>, _: Durability) -> Answer<()> {
        closed()
    }
    async fn change_run(&self, _: RunChange, _: Vec<NewEvent>, _: Durability) -> Answer<()> {
        closed()
    }
    async fn run(&self, _: RunId) -> Answer<Run> {
        closed()
    }
    async fn find_run(&self, _: &Name) -> Answer<Run> {
        closed()
    }
    async fn runs(&self, _: RunFilter) -> Answer<Vec<Run>> {
        closed()
    }
    async fn set_plan(&self, _: ThreadId, _: Plan, _: Vec<NewEvent>) -> Answer<()> {
        closed()
    }
    async fn plan(&self, _: ThreadId) -> Answer<Option<Plan>> {
        closed()
    }
    async fn put_blob(&self, _: Bytes) -> Answer<BlobRef> {
        closed()
    }
    async fn put_file(&self, _: &std::path::Path) -> Answer<BlobRef> {
        closed()
    }
    async fn blob(&self, _: &str, _: u64) -> Answer<Bytes> {
        closed()
    }
    async fn blob_path(&self, _: &str) -> Answer<std::path::PathBuf> {
        closed()
    }
    async fn put_attachment(&self, _: Attachment) -> Answer<Attachment> {
        closed()
    }
    async fn attachment(&self, _: &str) -> Answer<Attachment> {
        closed()
    }
}
