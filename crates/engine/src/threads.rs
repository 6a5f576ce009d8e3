//! Which thread an invocation belongs to.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use pentad_model::invocation::ThreadChoice;
use pentad_model::thread::Thread;
use pentad_model::verb::Request;
use pentad_model::{Actor, IdEnding, Invocation, Name, Refusal, RefusalKind, ThreadId, Timestamp};
use pentad_program::NewThread;

use crate::Engine;
use crate::invoke::store_refusal;

/// Threads that are remembered by their key, at most.
const KNOWN_THREADS: usize = 4096;

impl Engine {
    /// Finds the thread that the arguments or the adapter name, or opens the adapter's own.
    pub(crate) async fn resolve_thread(
        &self,
        invocation: &Invocation,
        request: Option<&Request>,
        now: Timestamp,
    ) -> Result<Thread, Refusal> {
        if let Some(ending) = request.and_then(Request::thread) {
            return self.find_thread(ending).await;
        }
        match &invocation.thread {
            ThreadChoice::Id(text) => {
                let bare = text.strip_prefix("thread:").unwrap_or(text);
                let ending = bare.parse::<IdEnding>().map_err(|e| {
                    Refusal::new(RefusalKind::BadRequest, text.as_str(), format!("{e}."))
                        .next_step("read thread: lists the threads with their ids")
                })?;
                self.find_thread(&ending).await
            }
            ThreadChoice::Key(key) => {
                let thread = self.open_thread(invocation, Some(key.clone()), None, now).await?;
                match request {
                    Some(Request::Plan(update)) => {
                        self.thread_of_plan(invocation, thread, update.plan.title.as_deref(), now)
                            .await
                    }
                    _ => Ok(thread),
                }
            }
        }
    }

    async fn find_thread(&self, ending: &IdEnding) -> Result<Thread, Refusal> {
        self.parts
            .store
            .find_thread(ending)
            .await
            .map_err(|e| store_refusal(&e).next_step("read thread: lists the threads with their ids"))
    }

    /// Clients keep one process for many chats: a plan of another title is another conversation's.
    async fn thread_of_plan(
        &self,
        invocation: &Invocation,
        thread: Thread,
        title: Option<&str>,
        now: Timestamp,
    ) -> Result<Thread, Refusal> {
        let known = self
            .parts
            .store
            .plan(thread.id)
            .await
            .map_err(|e| store_refusal(&e))?;
        match (known.and_then(|plan| plan.title), title) {
            (Some(old), Some(new)) if old != new => {
                self.open_thread(invocation, None, Some(new.to_owned()), now)
                    .await
            }
            _ => Ok(thread),
        }
    }

    async fn open_thread(
        &self,
        invocation: &Invocation,
        key: Option<String>,
        title: Option<String>,
        now: Timestamp,
    ) -> Result<Thread, Refusal> {
        let configured = match &invocation.caller.actor {
            Actor::Client(name) => self.client(name).and_then(|s| s.agent),
            Actor::Agent(name) => Some(name.clone()),
            _ => None,
        };
        let agent = invocation.agent.clone().or(configured).unwrap_or_else(Name::main);
        let key = key.map(|key| format!("{key}|{agent}"));
        if let Some(known) = key
            .as_ref()
            .and_then(|key| self.known_threads().get(key).cloned())
        {
            return Ok(known);
        }
        let new = NewThread {
            id: ThreadId::generate(),
            key: key.clone(),
            agent,
            opened_by: invocation.caller.actor.clone(),
            title,
            parent: None,
            cwd: Some(invocation.workspace.cwd.display().to_string()),
            at: now,
        };
        let thread = self
            .parts
            .store
            .open_thread(new)
            .await
            .map_err(|e| store_refusal(&e))?;
        if let Some(key) = key {
            let mut known = self.known_threads();
            if known.len() >= KNOWN_THREADS {
                known.clear();
            }
            known.insert(key, thread.clone());
        }
        Ok(thread)
    }

    fn known_threads(&self) -> MutexGuard<'_, HashMap<String, Thread>> {
        self.known_threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
