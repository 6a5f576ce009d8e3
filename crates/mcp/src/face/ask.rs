//! How a face reaches the person behind its client: in the session, through the result, or not at all.

mod carry;
mod foreign;
mod form;
mod session;
mod state;

use std::sync::Arc;
use std::time::Duration;

use pentad_model::{Invocation, Refusal};
use pentad_program::Asker;
use rmcp::RoleServer;
use rmcp::model::{ClientCapabilities, InputRequiredResult, InputResponses, ProtocolVersion};
use rmcp::service::{Peer, RequestContext};

use self::carry::Carrier;
use self::session::{Questions, SessionAsker};
pub use self::state::StateKey;
use self::state::context_of;
use super::FaceOptions;

/// What a repeated request brought back; empty on a first one.
#[derive(Debug, Default)]
pub(super) struct Returned {
    pub state: Option<String>,
    pub responses: Option<InputResponses>,
}

/// The way to the person behind one call.
#[derive(Debug)]
pub(super) enum Way {
    /// Nobody can be asked.
    None,
    /// The server asks the client while the call waits, as revisions with a session do.
    Session {
        asker: Arc<SessionAsker>,
        questions: Questions,
        limit: Duration,
    },
    /// The question goes back as the result, and its answer comes with the repeated call.
    Result {
        carrier: Arc<Carrier>,
        key: StateKey,
        context: Vec<u8>,
        limit: Duration,
    },
}

impl Way {
    /// Chooses the way for one call by what its client offers, and takes in what it brought back.
    ///
    /// # Errors
    /// Refuses a state that is not ours for this very call.
    pub(super) fn of(
        context: &RequestContext<RoleServer>,
        options: &FaceOptions,
        invocation: &Invocation,
        returned: &Returned,
    ) -> Result<Self, Refusal> {
        let Some(version) = context.protocol_version() else {
            return Ok(Self::None);
        };
        if !version.has_initialize() {
            return Self::by_result(context, options, invocation, returned);
        }
        let knows_forms = version.as_str() >= ProtocolVersion::V_2025_06_18.as_str();
        if !knows_forms || !offers_forms(context.client_capabilities().as_ref()) {
            return Ok(Self::None);
        }
        let (asker, questions) = SessionAsker::new();
        Ok(Self::Session {
            asker: Arc::new(asker),
            questions,
            limit: options.limits.ask,
        })
    }

    fn by_result(
        context: &RequestContext<RoleServer>,
        options: &FaceOptions,
        invocation: &Invocation,
        returned: &Returned,
    ) -> Result<Self, Refusal> {
        let bound = context_of(invocation);
        let given = match &returned.state {
            None => None,
            Some(state) => {
                let seal = options.state_key.as_ref().and_then(StateKey::seal);
                let approval = seal.ok_or_else(state::unusable)?.open(state, &bound)?;
                carry::given(approval, returned.responses.as_ref())?
            }
        };
        let offered = offers_forms(context.client_capabilities().as_ref());
        Ok(match &options.state_key {
            Some(key) if offered => Self::Result {
                carrier: Arc::new(Carrier::new(given)),
                key: key.clone(),
                context: bound,
                limit: options.limits.answer,
            },
            _ => Self::None,
        })
    }

    /// Returns what the engine asks.
    pub(super) fn asker(&self) -> Option<Arc<dyn Asker>> {
        match self {
            Self::None => None,
            Self::Session { asker, .. } => Some(Arc::clone(asker) as _),
            Self::Result { carrier, .. } => Some(Arc::clone(carrier) as _),
        }
    }

    /// Puts the questions of the engine to the client; never returns, since the call's end ends it.
    ///
    /// It must run in the request's own task: that is how a transport knows to which request a question belongs.
    pub(super) async fn serve(&mut self, peer: &Peer<RoleServer>) {
        if let Self::Session { questions, limit, .. } = self {
            questions.serve(peer, *limit).await;
        }
        std::future::pending::<()>().await;
    }

    /// Takes back what the client still has before it, once the call has ended.
    pub(super) async fn close(&mut self, peer: &Peer<RoleServer>) {
        if let Self::Session { questions, .. } = self {
            questions.withdraw(peer).await;
        }
    }

    /// Returns the result that asks, when the call ended with a question that was not answered yet.
    pub(super) fn question(&self) -> Option<InputRequiredResult> {
        match self {
            Self::None | Self::Session { .. } => None,
            Self::Result {
                carrier,
                key,
                context,
                limit,
            } => {
                let approval = carrier.open_question()?;
                let state = key.seal()?.seal(approval.id, context, *limit);
                Some(carry::input_required(&approval, state))
            }
        }
    }
}

/// A capability without modes means forms, as it did before there were modes.
fn offers_forms(capabilities: Option<&ClientCapabilities>) -> bool {
    capabilities
        .and_then(|offered| offered.elicitation.as_ref())
        .is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}
