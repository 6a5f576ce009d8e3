//! The contract, method by method.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use pentad_model::approval::{Approval, ApprovalState, Scope as Reach, Subject};
use pentad_model::event::{Event, NewEvent};
use pentad_model::plan::Plan;
use pentad_model::run::Run;
use pentad_model::thread::Thread;
use pentad_model::{ApprovalId, Caller, IdEnding, Name, RunId, ThreadId, Timestamp};
use pentad_program::{
    ActivityFilter, ApprovalFilter, Attachment, BlobRef, Durability, EventPage, EventRange, NewRun,
    NewThread, RunChange, RunFilter, Store, StoreError, ThreadFilter, ThreadHit,
};

use crate::verify::{Checked, Look};
use crate::writer::Known;
use crate::{Journal, activity, approvals, attachments, events, plans, runs, settle, threads};

#[async_trait]
impl Store for Journal {
    async fn open_thread(&self, new: NewThread) -> Result<Thread, StoreError> {
        if let Some(key) = new.key.clone() {
            let found = self
                .read(move |connection| threads::with_key(connection, &key))
                .await?;
            if let Some(thread) = found {
                return Ok(thread);
            }
        }
        self.write(Durability::Crash, move |scope| threads::open(scope, &new))
            .await
    }

    async fn find_thread(&self, ending: &IdEnding) -> Result<Thread, StoreError> {
        let ending = ending.clone();
        self.read(move |connection| threads::find(connection, &ending))
            .await
    }

    async fn threads(&self, filter: ThreadFilter) -> Result<Vec<ThreadHit>, StoreError> {
        if filter.query.is_some() {
            self.catch_up().await?;
        }
        self.read(move |connection| threads::list(connection, &filter))
            .await
    }

    async fn title_thread(&self, thread: ThreadId, title: &str) -> Result<(), StoreError> {
        let title = title.to_owned();
        self.write(Durability::Crash, move |scope| {
            threads::set_title(scope, thread, &title)
        })
        .await
    }

    async fn append(&self, new: Vec<NewEvent>, durability: Durability) -> Result<Vec<Event>, StoreError> {
        self.write(durability, move |scope| events::append(scope, &new))
            .await
    }

    async fn events(
        &self,
        thread: ThreadId,
        range: EventRange,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        self.read(move |connection| events::of_thread(connection, thread, &range, limit))
            .await
    }

    async fn run_events(&self, run: RunId, after: u64, limit: usize) -> Result<EventPage, StoreError> {
        self.read(move |connection| events::of_run(connection, run, after, limit))
            .await
    }

    async fn feed(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.read(move |connection| activity::feed(connection, after, limit))
            .await
    }

    async fn activity(&self, filter: ActivityFilter) -> Result<Vec<Event>, StoreError> {
        self.read(move |connection| activity::list(connection, &filter))
            .await
    }

    async fn head(&self) -> Result<u64, StoreError> {
        self.read(activity::head).await
    }

    async fn changed(&self, after: u64) -> Result<u64, StoreError> {
        let Known { head, .. } = &self.inner.known;
        let poll = self.inner.options.poll;
        self.beyond(after, head, &self.inner.looking, poll, activity::head)
            .await
    }

    async fn promoted(&self, thread: ThreadId) -> Result<BTreeMap<String, String>, StoreError> {
        self.read(move |connection| events::promoted(connection, thread))
            .await
    }

    async fn verify(&self, thread: ThreadId) -> Result<Option<u64>, StoreError> {
        let mut checked = Checked::start(thread);
        loop {
            match self.read(move |connection| checked.next(connection)).await? {
                Look::Fits(further) => checked = further,
                Look::Whole => return Ok(None),
                Look::Broken(seq) => return Ok(Some(seq)),
            }
        }
    }

    async fn start_run(
        &self,
        run: NewRun,
        new: Vec<NewEvent>,
        durability: Durability,
    ) -> Result<(), StoreError> {
        self.write(durability, move |scope| {
            runs::start(scope, &run)?;
            events::append(scope, &new).map(|_| ())
        })
        .await
    }

    async fn change_run(
        &self,
        change: RunChange,
        new: Vec<NewEvent>,
        durability: Durability,
    ) -> Result<(), StoreError> {
        self.write(durability, move |scope| settle::change(scope, &change, &new))
            .await
    }

    async fn run(&self, id: RunId) -> Result<Run, StoreError> {
        self.read(move |connection| runs::get(connection, id)).await
    }

    async fn find_run(&self, name: &Name) -> Result<Run, StoreError> {
        let name = name.clone();
        self.read(move |connection| runs::find(connection, &name)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<Run>, StoreError> {
        if filter.query.is_some() {
            self.catch_up().await?;
        }
        self.read(move |connection| runs::list(connection, &filter)).await
    }

    async fn set_plan(&self, thread: ThreadId, plan: Plan, new: Vec<NewEvent>) -> Result<(), StoreError> {
        self.write(Durability::Power, move |scope| {
            plans::set(scope, thread, &plan)?;
            events::append(scope, &new).map(|_| ())
        })
        .await
    }

    async fn plan(&self, thread: ThreadId) -> Result<Option<Plan>, StoreError> {
        self.read(move |connection| plans::get(connection, thread)).await
    }

    async fn ask(&self, approval: Approval, new: Vec<NewEvent>) -> Result<Approval, StoreError> {
        self.write(Durability::Power, move |scope| {
            approvals::ask(scope, &approval, &new)
        })
        .await
    }

    async fn answer(
        &self,
        id: ApprovalId,
        state: ApprovalState,
        by: Caller,
        at: Timestamp,
    ) -> Result<Approval, StoreError> {
        self.write(Durability::Power, move |scope| {
            approvals::answer(scope, id, state, &by, at)
        })
        .await
    }

    async fn use_approval(
        &self,
        subject: &Subject,
        thread: ThreadId,
    ) -> Result<Option<Approval>, StoreError> {
        let wanted = subject.clone();
        let found = self
            .read(move |connection| approvals::granted(connection, &wanted, thread))
            .await?;
        // Only a grant that is used up needs the writer and a sync.
        if found
            .as_ref()
            .is_none_or(|a| a.state != ApprovalState::Granted(Reach::Once))
        {
            return Ok(found);
        }
        let (subject, at) = (subject.clone(), Timestamp::now());
        self.write(Durability::Power, move |scope| {
            approvals::spend(scope, &subject, thread, at)
        })
        .await
    }

    async fn find_approval(&self, ending: &IdEnding) -> Result<Approval, StoreError> {
        let ending = ending.clone();
        self.read(move |connection| approvals::find(connection, &ending))
            .await
    }

    async fn approvals(&self, filter: ApprovalFilter) -> Result<Vec<Approval>, StoreError> {
        self.read(move |connection| approvals::list(connection, &filter))
            .await
    }

    async fn put_blob(&self, bytes: Bytes) -> Result<BlobRef, StoreError> {
        self.file(move |blobs| blobs.put(&bytes)).await
    }

    async fn put_file(&self, path: &Path) -> Result<BlobRef, StoreError> {
        let path = path.to_owned();
        self.file(move |blobs| blobs.put_file(&path)).await
    }

    async fn blob(&self, hash: &str, cap: u64) -> Result<Bytes, StoreError> {
        let hash = hash.to_owned();
        self.file(move |blobs| blobs.get(&hash, cap)).await
    }

    async fn blob_path(&self, hash: &str) -> Result<PathBuf, StoreError> {
        let hash = hash.to_owned();
        self.file(move |blobs| blobs.path(&hash)).await
    }

    async fn put_attachment(&self, attachment: Attachment) -> Result<Attachment, StoreError> {
        let hash = attachments::blob_of(&attachment.cid)?;
        let bytes = self.file(move |blobs| blobs.size(&hash)).await?;
        if bytes != attachment.bytes {
            return Err(StoreError::Conflict(format!(
                "attachment {} has {bytes} bytes, not {}",
                attachment.cid, attachment.bytes
            )));
        }
        self.write(Durability::Crash, move |scope| {
            attachments::put(scope, &attachment)
        })
        .await
    }

    async fn attachment(&self, cid: &str) -> Result<Attachment, StoreError> {
        let cid = cid.to_owned();
        self.read(move |connection| attachments::get(connection, &cid))
            .await
    }
}
