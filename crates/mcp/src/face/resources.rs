//! The space as resources: what can be read by address can be read by URI, through the same verb.

mod list;
mod reply;
mod uri;

use pentad_model::{Refusal, Verb};
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, ReadResourceRequestParams, ReadResourceResponse};
use rmcp::service::RequestContext;

pub(super) use self::list::{entries, templates};
use self::uri::Target;
use super::ask::Returned;
use super::call::Ended;
use super::handler::Face;

impl Face {
    /// Reads one resource: the verb `read`, judged and journaled like any other.
    pub(super) async fn read_by_uri(
        &self,
        request: ReadResourceRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let refused = |refusal: &Refusal| reply::error(&uri, refusal);
        let target = Target::parse(&uri).map_err(|refusal| refused(&refusal))?;
        let returned = Returned {
            state: request.request_state,
            responses: request.input_responses,
        };
        let mime = target.mime();
        match self
            .run_verb(Verb::Read, target.arguments(), &returned, context)
            .await
        {
            Ended::Outcome(outcome) => match reply::contents(&uri, mime, *outcome) {
                Ok(result) => Ok(ReadResourceResponse::Complete(result)),
                Err(refusal) => Err(refused(&refusal)),
            },
            Ended::Asks(question) => Ok(ReadResourceResponse::InputRequired(question)),
            Ended::Refused(refusal) => Err(refused(&refusal)),
            Ended::Misused(refusal) => Err(super::reply::error(ErrorCode::INVALID_PARAMS, &refusal)),
        }
    }
}
