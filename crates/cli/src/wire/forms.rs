//! Forms that wait for a person, because several calls of their server were in flight and nobody knows whose they are.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pentad_keeper::attach::OpenForm;
use pentad_mcp::{Elicitor, LogLine, LogStream, Origin, ServerLog, misfits};
use pentad_model::text::excerpt;
use pentad_model::{Form, FormAnswer, FormId, IdEnding, Refusal, RefusalKind, Timestamp};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How many forms may wait.
const MAX_OPEN: usize = 32;
/// How long one waits, unless the calls that it may belong to end before.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// How much of a server's message is journaled.
const SHOWN_BYTES: usize = 300;

/// The forms of one home. They live in memory: a server does not wait for an answer across a restart.
pub struct OpenForms {
    waiting: Mutex<Vec<Waiting>>,
    log: Arc<dyn ServerLog>,
}

struct Waiting {
    open: OpenForm,
    reply: oneshot::Sender<FormAnswer>,
}

impl OpenForms {
    /// Returns an empty list whose forms are journaled in the runs that they may belong to.
    pub fn new(log: Arc<dyn ServerLog>) -> Self {
        Self {
            waiting: Mutex::default(),
            log,
        }
    }

    /// Returns the forms that wait, oldest first.
    pub fn all(&self) -> Vec<OpenForm> {
        self.lock().iter().map(|waiting| waiting.open.clone()).collect()
    }

    /// Answers one form; one that is refused goes on waiting.
    ///
    /// # Errors
    /// Refuses unknown and ambiguous endings, and values that do not fit.
    pub fn answer(&self, id: &IdEnding, answer: FormAnswer) -> Result<OpenForm, Refusal> {
        let mut waiting = self.lock();
        let found: Vec<usize> = waiting
            .iter()
            .enumerate()
            .filter(|(_, waiting)| id.matches(waiting.open.id.0))
            .map(|(at, _)| at)
            .collect();
        let at = match found.as_slice() {
            [at] => *at,
            [] => return Err(unknown(id)),
            several => {
                let text = format!("{} forms that wait end in '{id}'.", several.len());
                return Err(Refusal::new(RefusalKind::BadRequest, format!("form:{id}"), text)
                    .next_step("give more of the id; pentad approvals lists them"));
            }
        };
        if let FormAnswer::Accepted(values) = &answer
            && let Some(form) = waiting.get(at).map(|waiting| &waiting.open.form)
        {
            let wrong = misfits(form, values);
            if !wrong.is_empty() {
                let wrong: Vec<String> = wrong.iter().map(|misfit| format!("- {misfit}")).collect();
                let text = format!("The values do not fit the form:\n{}", wrong.join("\n"));
                return Err(Refusal::new(RefusalKind::Invalid, format!("form:{id}"), text)
                    .next_step(format!("pentad approvals show {id} shows its fields")));
            }
        }
        let Waiting { open, reply } = waiting.remove(at);
        // Whoever waited may have gone in this moment.
        reply.send(answer).map_err(|_| unknown(id))?;
        Ok(open)
    }

    async fn tell(&self, open: &OpenForm, callers: &[Origin]) {
        let text = format!(
            "a form waits for a person, since several calls are in flight: pentad approvals fill {}; fields: {}; the server says: {}",
            open.id,
            open.form.names(),
            excerpt(&open.form.message, SHOWN_BYTES)
        );
        for origin in callers {
            let line = LogLine {
                stream: LogStream::Form,
                level: "warning",
                text: text.clone(),
            };
            self.log.keep(&open.form.server, origin, vec![line]).await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown(id: &IdEnding) -> Refusal {
    let text = format!("No form that waits for a person ends in '{id}'.");
    Refusal::new(RefusalKind::NotFound, format!("form:{id}"), text)
        .next_step("pentad approvals lists them; one ends with the calls that it may belong to")
}

/// A form's place in the list, until whoever waits for it does so no more.
struct Place<'a>(&'a OpenForms, FormId);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.lock().retain(|waiting| waiting.open.id != self.1);
    }
}

#[async_trait]
impl Elicitor for OpenForms {
    async fn elicit(&self, form: &Form, callers: &[Origin]) -> FormAnswer {
        let (reply, answer) = oneshot::channel();
        let now = Timestamp::now();
        let open = OpenForm {
            id: FormId::generate(),
            form: form.clone(),
            runs: callers.iter().map(|origin| origin.run).collect(),
            asked_at: now,
            until: now.plus_millis(i64::try_from(PATIENCE.as_millis()).unwrap_or(i64::MAX)),
        };
        {
            let mut waiting = self.lock();
            if waiting.len() >= MAX_OPEN {
                return FormAnswer::unanswered(format!("{MAX_OPEN} forms wait for a person already"));
            }
            waiting.push(Waiting {
                open: open.clone(),
                reply,
            });
        }
        let _place = Place(self, open.id);
        self.tell(&open, callers).await;
        match timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => FormAnswer::unanswered("the home is closing"),
            Err(_) => FormAnswer::unanswered(format!(
                "no person filled it in within {} minutes",
                PATIENCE.as_secs() / 60
            )),
        }
    }
}

#[cfg(test)]
mod tests;
