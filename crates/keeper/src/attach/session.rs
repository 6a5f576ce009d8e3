//! The keeper's side of one attached face.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use pentad_model::approval::Approval;
use pentad_model::{Form, FormAnswer, IdEnding, Invocation, Refusal, RefusalKind};
use pentad_program::{Answer, Asker, Attendance, Environment};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::calls::{FaceCall, KeeperCall, Placed, PlacedStep, Said};
use super::desk::Desk;
use super::frame::{Role, Variables};
use super::link::{Answering, Incoming, Link};
use super::peer::Peer;

/// Answers the calls of one face.
pub(super) struct Session {
    pub desk: Arc<dyn Desk>,
    pub peer: Peer,
    pub role: Role,
    /// Ends what lives as long as the face: HTTP that it opened.
    pub attached: CancellationToken,
    environment: Mutex<Arc<Environment>>,
    /// The state of what is wanted for which this face was asked.
    asked: AtomicU64,
    asking: tokio::sync::Mutex<()>,
}

impl Session {
    pub fn new(
        desk: Arc<dyn Desk>,
        peer: Peer,
        role: Role,
        attached: CancellationToken,
        variables: Variables,
    ) -> Self {
        Self {
            desk,
            peer,
            role,
            attached,
            environment: Mutex::new(Arc::new(variables.into_environment())),
            asked: AtomicU64::new(u64::MAX),
            asking: tokio::sync::Mutex::new(()),
        }
    }

    fn environment(&self) -> Arc<Environment> {
        Arc::clone(&self.environment.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks the face for the variables that configuration and recipes want by now, once for each change of them.
    async fn up_to_date_environment(&self, link: &Link) -> Arc<Environment> {
        let (state, names) = self.desk.wanted_variables();
        if self.asked.load(Ordering::Acquire) == state {
            return self.environment();
        }
        let _one_at_a_time = self.asking.lock().await;
        if self.asked.load(Ordering::Acquire) == state {
            return self.environment();
        }
        if !names.is_empty() {
            let ask = KeeperCall::Variables { names };
            let answer = link.call(&ask, &until(&self.attached)).await;
            let sent = answer
                .ok()
                .and_then(|value| serde_json::from_value::<Variables>(value).ok());
            if let Some(sent) = sent {
                let mut whole = self.environment().as_ref().clone();
                whole.0.extend(sent.into_environment().0);
                *self.environment.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(whole);
            }
        }
        self.asked.store(state, Ordering::Release);
        self.environment()
    }

    async fn invoke(
        &self,
        link: &Arc<Link>,
        incoming: Incoming,
        mut invocation: Invocation,
    ) -> Result<Value, Refusal> {
        self.peer.own(self.role, &mut invocation);
        let attendance = Attendance {
            cancel: incoming.cancel,
            progress: incoming.progress,
            asker: self.asker(link, incoming.id),
            environment: Some(self.up_to_date_environment(link).await),
        };
        to_value(&self.desk.invoke(invocation, attendance).await)
    }

    /// Returns how to reach the person behind a call: through their client, or at the terminal of their own shell.
    fn asker(&self, link: &Arc<Link>, call: u64) -> Option<Arc<dyn Asker>> {
        let approves = self.peer.may_be_asked(self.role);
        (approves || (self.role == Role::Shell && self.peer.is_person_at_terminal())).then(|| {
            Arc::new(OverLink {
                link: Arc::clone(link),
                call,
                attached: self.attached.clone(),
                approves,
                reached: AtomicBool::new(approves),
            }) as _
        })
    }

    async fn act(&self, link: &Arc<Link>, incoming: Incoming, call: FaceCall) -> Result<Value, Refusal> {
        let desk = &self.desk;
        match call {
            FaceCall::Invoke(invocation) => self.invoke(link, incoming, *invocation).await,
            FaceCall::InputSchema { tool } => to_value(&desk.input_schema(&tool).await),
            FaceCall::Explain {
                mut invocation,
                tool,
                input,
            } => {
                self.peer.own(self.role, &mut invocation);
                let environment = Some(self.up_to_date_environment(link).await);
                to_value(&desk.explain(&invocation, &tool, input, environment).await?)
            }
            FaceCall::Answer { id, answer } => {
                self.peer.require_person("answering an approval")?;
                let id = ending(&id)?;
                to_value(&desk.answer(&id, answer, &self.peer.calling.actor).await?)
            }
            FaceCall::Forms {} => to_value(&desk.forms().await?),
            FaceCall::AnswerForm { id, answer } => {
                self.peer.require_person("filling in a form")?;
                let id = ending(&id)?;
                to_value(&desk.answer_form(&id, answer, &self.peer.calling.actor).await?)
            }
            FaceCall::AttachFile { file, name } => to_value(&desk.attach(&file, name).await?),
            FaceCall::FindThread { ending: text } => to_value(&desk.find_thread(&ending(&text)?).await?),
            FaceCall::Head {} => to_value(&desk.head().await?),
            FaceCall::Activity(filter) => to_value(&Placed::all(desk.activity(filter).await?)),
            FaceCall::Follow { after, limit } => tokio::select! {
                events = desk.follow(after, limit) => to_value(&Placed::all(events?)),
                () = incoming.cancel.cancelled() => Ok(Value::Array(Vec::new())),
            },
            FaceCall::FollowSteps { after, limit } => tokio::select! {
                steps = desk.follow_steps(after, limit) => to_value(&PlacedStep::all(steps?)),
                () = incoming.cancel.cancelled() => Ok(Value::Array(Vec::new())),
            },
            FaceCall::Statuses {} => to_value(&desk.statuses().await?),
            FaceCall::OpenAgain { server } => {
                self.peer.require_no_agent("starting a server that failed")?;
                let environment = Some(self.up_to_date_environment(link).await);
                tokio::select! {
                    status = desk.open_again(&server, environment) => to_value(&status?),
                    () = incoming.cancel.cancelled() => Err(canceled(&server)),
                }
            }
            FaceCall::ServeHttp(ask) => {
                self.peer.require_no_agent("serving HTTP")?;
                let environment = Some(self.up_to_date_environment(link).await);
                to_value(&desk.serve_http(ask, environment, self.attached.clone()).await?)
            }
        }
    }
}

/// A call to the face that ends with its connection.
fn until(cancel: &CancellationToken) -> Attendance {
    Attendance {
        cancel: cancel.clone(),
        ..Attendance::default()
    }
}

/// What nobody reads: the face went away.
fn canceled(subject: &str) -> Refusal {
    Refusal::new(RefusalKind::Unavailable, subject, "The call was canceled.")
}

fn ending(text: &str) -> Result<IdEnding, Refusal> {
    text.parse()
        .map_err(|error| Refusal::new(RefusalKind::BadRequest, text, format!("{error}.")))
}

fn to_value(value: &impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| {
        Refusal::new(
            RefusalKind::Internal,
            "keeper",
            format!("The answer cannot be written: {error}."),
        )
    })
}

#[async_trait]
impl Answering for Session {
    async fn answer(&self, link: &Arc<Link>, mut incoming: Incoming) -> Result<Value, Refusal> {
        let call = incoming.call.take();
        match serde_json::from_value::<FaceCall>(call) {
            Ok(call) => self.act(link, incoming, call).await,
            Err(error) => Err(Refusal::new(
                RefusalKind::BadRequest,
                "keeper",
                format!("The keeper does not know this call: {error}."),
            )
            .next_step("pentad stop ends the keeper; the next command starts one of its own build")),
        }
    }
}

/// Puts questions before whoever is behind one call of a face.
#[derive(Debug)]
struct OverLink {
    link: Arc<Link>,
    call: u64,
    attached: CancellationToken,
    /// Whether approvals may be put there: a shell answers them with a command of its own.
    approves: bool,
    /// False once the face said that it reached nobody.
    reached: AtomicBool,
}

impl OverLink {
    /// Puts a question to the face; nothing when the face cannot answer it, or has gone.
    async fn put(&self, ask: KeeperCall) -> Option<Value> {
        let withdrawn = self.attached.child_token();
        let _when_nobody_waits = withdrawn.clone().drop_guard();
        let link = Arc::clone(&self.link);
        // In a task of its own, so that a question nobody waits for any more is taken back at the face. It ends with the
        // face's answer to that, or with the connection.
        let asking = tokio::spawn(async move { link.call(&ask, &until(&withdrawn)).await });
        asking.await.ok()?.ok()
    }
}

#[async_trait]
impl Asker for OverLink {
    async fn ask(&self, approval: &Approval) -> Answer {
        if !self.approves {
            return Answer::Unanswered;
        }
        let ask = KeeperCall::Approve {
            call: self.call,
            approval: Box::new(approval.clone()),
        };
        let said = self.put(ask).await;
        let said = said
            .and_then(|value| serde_json::from_value(value).ok())
            .unwrap_or(Said::NOTHING);
        self.reached.store(said.person, Ordering::Release);
        said.answer
    }

    fn reaches_a_person(&self) -> bool {
        self.reached.load(Ordering::Acquire)
    }

    async fn fill(&self, form: &Form) -> FormAnswer {
        let ask = KeeperCall::Fill {
            call: self.call,
            form: Box::new(form.clone()),
        };
        self.put(ask)
            .await
            .and_then(|value| serde_json::from_value(value).ok())
            .unwrap_or_else(|| FormAnswer::unanswered("the face that called has gone, or knows no forms"))
    }
}
