//! Asking within a session, approvals and forms alike: our own request to the client, while the call waits.

use std::time::Duration;

use async_trait::async_trait;
use pentad_model::approval::Approval;
use pentad_model::{Form, FormAnswer};
use pentad_program::{Answer, Asker};
use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotificationParam, ClientResult, ElicitRequest, ElicitRequestParams, RequestId, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use tokio::sync::{mpsc, oneshot};

use super::{foreign, form};

/// One question on its way to the client; whoever waits for it hangs up when nobody wants the answer any more.
#[derive(Debug)]
enum Put {
    /// One of ours.
    Approval(Box<Approval>, oneshot::Sender<Answer>),
    /// One of a connected server.
    Form(Box<Form>, oneshot::Sender<FormAnswer>),
}

/// Hands questions to the task that serves the request.
///
/// The engine works in a task of its own, but a question must be sent from the request's, where the transport knows
/// which request it belongs to.
#[derive(Debug)]
pub struct SessionAsker {
    questions: mpsc::Sender<Put>,
}

impl SessionAsker {
    pub fn new() -> (Self, Questions) {
        let (questions, taken) = mpsc::channel(1);
        (Self { questions }, Questions { taken, shown: None })
    }
}

#[async_trait]
impl Asker for SessionAsker {
    async fn ask(&self, approval: &Approval) -> Answer {
        let (reply, answer) = oneshot::channel();
        let put = Put::Approval(Box::new(approval.clone()), reply);
        // Without a task that serves it any more, the client is gone.
        if self.questions.send(put).await.is_err() {
            return Answer::Unanswered;
        }
        answer.await.unwrap_or(Answer::Unanswered)
    }

    async fn fill(&self, form: &Form) -> FormAnswer {
        let gone = || FormAnswer::unanswered("the client is gone");
        let (reply, answer) = oneshot::channel();
        let put = Put::Form(Box::new(form.clone()), reply);
        if self.questions.send(put).await.is_err() {
            return gone();
        }
        answer.await.unwrap_or_else(|_| gone())
    }
}

/// The questions of one call: those on their way, and the one that the client has before it.
#[derive(Debug)]
pub struct Questions {
    taken: mpsc::Receiver<Put>,
    shown: Option<RequestId>,
}

impl Questions {
    /// Puts one question after the other, until nobody can ask any more.
    pub async fn serve(&mut self, peer: &Peer<RoleServer>, limit: Duration) {
        while let Some(put) = self.taken.recv().await {
            self.put(peer, put, limit).await;
            self.withdraw(peer).await;
        }
    }

    async fn put(&mut self, peer: &Peer<RoleServer>, put: Put, limit: Duration) {
        // Nobody may wait any more: the call can have ended in the moment of the answer.
        match put {
            Put::Approval(approval, mut reply) => {
                let asked = form::form(&approval);
                let hung_up = reply.closed();
                if let Some(result) = elicit(peer, asked, limit, hung_up, &mut self.shown).await {
                    let _ = reply.send(read(&approval, result));
                }
            }
            Put::Form(form, mut reply) => {
                let answer = match foreign::params(&form) {
                    Ok(asked) => {
                        let hung_up = reply.closed();
                        match elicit(peer, asked, limit, hung_up, &mut self.shown).await {
                            Some(result) => foreign::answer(result),
                            None => return,
                        }
                    }
                    Err(why) => FormAnswer::unanswered(why),
                };
                let _ = reply.send(answer);
            }
        }
    }

    /// Takes back the question that nobody waits for any more, if there is one.
    pub async fn withdraw(&mut self, peer: &Peer<RoleServer>) {
        let Some(id) = self.shown.take() else { return };
        let void = CancelledNotificationParam::new(Some(id), Some("the call has ended".to_owned()));
        if let Err(error) = peer.notify_cancelled(void).await {
            tracing::debug!(%error, "the client could not be told that a question is void");
        }
    }
}

/// Shows one question and returns what the client said; nothing when whoever waits hung up. What stands in `shown`
/// afterwards was not answered, and nobody waits for it.
async fn elicit(
    peer: &Peer<RoleServer>,
    asked: ElicitRequestParams,
    limit: Duration,
    hung_up: impl Future<Output = ()>,
    shown: &mut Option<RequestId>,
) -> Option<Result<ClientResult, ServiceError>> {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(asked));
    let options = PeerRequestOptions::with_timeout(limit);
    let sent = match peer.send_request_with_option(request, options).await {
        Ok(sent) => sent,
        Err(error) => return Some(Err(error)),
    };
    *shown = Some(sent.id.clone());
    let result = tokio::select! {
        result = sent.await_response() => result,
        () = hung_up => return None,
    };
    *shown = None;
    Some(result)
}

fn read(approval: &Approval, result: Result<ClientResult, ServiceError>) -> Answer {
    match result {
        Ok(ClientResult::ElicitResult(result)) => form::answer(&result).unwrap_or_else(|| {
            tracing::warn!(approval = %approval.id, "the client accepted a question without a decision");
            Answer::Unanswered
        }),
        Ok(other) => {
            tracing::warn!(?other, approval = %approval.id, "the client answered something else than a question");
            Answer::Unanswered
        }
        // Too late, refused, or gone: the question stays open for a person elsewhere.
        Err(error) => {
            tracing::debug!(%error, approval = %approval.id, "a question was not answered");
            Answer::Unanswered
        }
    }
}
