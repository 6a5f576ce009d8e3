//! What can go wrong with a request over HTTP, and what a person can do about it.

use std::error::Error;
use std::time::Duration;

use pentad_model::{Refusal, RefusalKind, text};
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{SseError, StreamableHttpError};

use super::super::config::Reach;
use super::super::connection::CallEnd;
use super::super::login::LoginNeed;
use super::super::start::{StartFailure, Strain};
use super::super::variant::Variant;

/// How much of a server's own words about a failure is shown.
const SHOWN_BYTES: usize = 300;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// No connection was made, so that nothing was sent.
    Unreachable(String),
    /// The connection broke after something was sent.
    Broken(String),
    /// The server does not know the session any more.
    SessionForgotten,
    /// The server wants to know who calls; with its challenge, if it sent one.
    LoginNeeded(Option<String>),
    /// The login does not reach far enough; with the server's challenge.
    ScopeNeeded {
        challenge: String,
        scope: Option<String>,
    },
    /// The login could not be renewed, for a reason that may pass.
    NotRenewed(String),
    /// The server, or something before it, has no time.
    Busy { status: u16, retry_after: Option<u64> },
    /// A gateway got no answer from the server.
    Gateway(u16),
    /// The server answered with a failure of HTTP.
    Status { status: u16, words: String },
    /// The answer is no message of the protocol.
    NotProtocol(String),
    /// The answer is larger than a message may be.
    TooLarge,
}

impl Trouble {
    /// Reads an error of the transport.
    pub fn of(error: &StreamableHttpError<reqwest::Error>) -> Self {
        use StreamableHttpError as E;
        match error {
            E::Client(error) if error.is_connect() => Self::Unreachable(cause(error)),
            E::Client(error) if error.is_builder() => Self::Unreachable(cause(error)),
            E::Client(error) => Self::Broken(cause(error)),
            E::Sse(error) => Self::of_stream(error),
            E::HttpStatus(error) => Self::of_status(
                error.status,
                error
                    .retry_after
                    .as_deref()
                    .and_then(|after| after.trim().parse().ok()),
                "",
            ),
            E::UnexpectedServerResponse(words) => match status_of(words) {
                Some((status, words)) => Self::of_status(status, None, words),
                None => Self::NotProtocol(shown(words)),
            },
            E::ResponseBodyTooLarge { .. } => Self::TooLarge,
            E::UnexpectedContentType(kind) => Self::NotProtocol(match kind {
                Some(kind) => format!("its answer is {}", shown(kind)),
                None => "its answer has no content type".to_owned(),
            }),
            E::AuthRequired(error) => Self::LoginNeeded(Some(error.www_authenticate_header.clone())),
            E::InsufficientScope(error) => Self::ScopeNeeded {
                challenge: error.www_authenticate_header.clone(),
                scope: error.required_scope.clone(),
            },
            E::Auth(AuthError::AuthorizationRequired) => Self::LoginNeeded(None),
            E::Auth(error) => Self::NotRenewed(shown(&error.to_string())),
            E::SessionExpired => Self::SessionForgotten,
            E::Deserialize(error) => Self::NotProtocol(shown(&error.to_string())),
            other => Self::Broken(shown(&other.to_string())),
        }
    }

    /// Reads an error in the middle of a stream of events.
    pub fn of_stream(error: &SseError) -> Self {
        let words = cause(error);
        if words.contains("exceeded the maximum size") {
            Self::TooLarge
        } else {
            Self::Broken(words)
        }
    }

    fn of_status(status: u16, retry_after: Option<u64>, words: &str) -> Self {
        match status {
            401 => Self::LoginNeeded(None),
            429 | 503 => Self::Busy { status, retry_after },
            502 | 504 => Self::Gateway(status),
            _ => Self::Status {
                status,
                words: shown(words),
            },
        }
    }

    /// Tells whether the server is there and answered something that leaves room for another way to ask.
    pub const fn is_an_answer(&self) -> bool {
        matches!(self, Self::Status { .. } | Self::NotProtocol(_))
    }

    /// Says how a call ended that met this trouble.
    pub fn call_end(&self, variant: &Variant) -> CallEnd {
        self.note(variant);
        match self {
            Self::Unreachable(_) => CallEnd::NotSent,
            Self::Broken(why) => CallEnd::Lost(Some(format!("its connection broke: {why}"))),
            Self::SessionForgotten => {
                CallEnd::Lost(Some("it does not know our session any more, HTTP 404".to_owned()))
            }
            Self::Gateway(status) => {
                CallEnd::Lost(Some(format!("a gateway got no answer from it, HTTP {status}")))
            }
            Self::LoginNeeded(_) | Self::ScopeNeeded { .. } => {
                CallEnd::Refused(Box::new(self.refusal(variant, RefusalKind::Forbidden)))
            }
            Self::NotRenewed(_) | Self::Busy { .. } => {
                CallEnd::Refused(Box::new(self.refusal(variant, RefusalKind::Unavailable)))
            }
            Self::Status { .. } | Self::NotProtocol(_) | Self::TooLarge => {
                let next = self.next(variant).map(|next| format!("; {next}"));
                CallEnd::Failed(format!("{}{}", self.text(variant), next.unwrap_or_default()))
            }
        }
    }

    /// Says how a start ended that met this trouble.
    pub fn start_failure(&self, variant: &Variant) -> StartFailure {
        self.note(variant);
        StartFailure {
            text: self.text(variant),
            next: self.next(variant),
            strain: match self {
                Self::LoginNeeded(_) | Self::ScopeNeeded { .. } => Strain::Free,
                Self::Busy {
                    retry_after: Some(seconds),
                    ..
                } => Strain::Pause(Duration::from_secs(*seconds)),
                _ => Strain::Counts,
            },
        }
    }

    /// Keeps in mind that a person has to log in, for those who only look.
    fn note(&self, variant: &Variant) {
        let (challenge, more) = match self {
            Self::LoginNeeded(challenge) => (challenge.clone(), false),
            Self::ScopeNeeded { challenge, .. } => (Some(challenge.clone()), true),
            _ => return,
        };
        if !brings_credentials(variant) {
            variant.login.note(Some(LoginNeed { challenge, more }));
        }
    }

    fn refusal(&self, variant: &Variant, kind: RefusalKind) -> Refusal {
        let refusal = Refusal::new(
            kind,
            &variant.config.name,
            format!("{}.", sentence(self.text(variant))),
        );
        match self.next(variant) {
            Some(next) => refusal.next_step(next),
            None => refusal,
        }
    }

    fn text(&self, variant: &Variant) -> String {
        let name = &variant.config.name;
        let text = match self {
            Self::Unreachable(why) => {
                format!("server '{name}' cannot be reached at {}: {why}", address(variant))
            }
            Self::Broken(why) => format!("the connection to server '{name}' broke: {why}"),
            Self::SessionForgotten => {
                format!("server '{name}' does not know our session any more (HTTP 404)")
            }
            Self::LoginNeeded(_) if brings_credentials(variant) => {
                format!("server '{name}' does not accept the configured Authorization header (HTTP 401)")
            }
            Self::LoginNeeded(_) => format!("server '{name}' asks for a login (HTTP 401)"),
            Self::ScopeNeeded {
                scope: Some(scope), ..
            } => {
                format!(
                    "the login at server '{name}' does not reach far enough (HTTP 403): it asks for the scope '{}'",
                    shown(scope)
                )
            }
            Self::ScopeNeeded { .. } => {
                format!("the login at server '{name}' does not reach far enough (HTTP 403)")
            }
            Self::NotRenewed(why) => format!("the login at server '{name}' could not be renewed: {why}"),
            Self::Busy { status: 429, .. } => format!("server '{name}' gets too many requests (HTTP 429)"),
            Self::Busy { status, .. } => {
                format!("server '{name}' is not available for the moment (HTTP {status})")
            }
            Self::Gateway(status) => format!("a gateway got no answer from server '{name}' (HTTP {status})"),
            Self::Status { status, words } => match words.as_str() {
                "" => format!("server '{name}' answered HTTP {status}"),
                words => format!("server '{name}' answered HTTP {status}: {words}"),
            },
            Self::NotProtocol(why) => format!("server '{name}' does not speak the protocol: {why}"),
            Self::TooLarge => format!(
                "server '{name}' sent a message of more than {} bytes (max_message_bytes)",
                variant.config.limits.max_message_bytes
            ),
        };
        variant.mask().apply(text)
    }

    fn next(&self, variant: &Variant) -> Option<String> {
        let name = &variant.config.name;
        match self {
            Self::Unreachable(_) => Some(format!(
                "check that the server runs and that url in [servers.{name}] is right"
            )),
            Self::LoginNeeded(_) if brings_credentials(variant) => Some(format!(
                "a person renews the Authorization header in [servers.{name}]"
            )),
            Self::LoginNeeded(_) | Self::ScopeNeeded { .. } => Some(format!(
                "a person runs pentad connect {name} --login, then repeat the call"
            )),
            Self::NotRenewed(_) => Some(format!(
                "repeat the call; if that does not help, a person runs pentad connect {name} --login"
            )),
            Self::Busy {
                retry_after: Some(seconds),
                ..
            } => Some(format!("repeat the call in {seconds} s")),
            Self::Busy { .. } => Some("repeat the call later".to_owned()),
            Self::Status {
                status: 300..=399, ..
            } => Some(format!(
                "put the address that it leads to into url in [servers.{name}]: redirects to other places are not followed, since headers and tokens would go there"
            )),
            Self::Status {
                status: 404 | 405, ..
            }
            | Self::NotProtocol(_) => Some(format!(
                "check that url in [servers.{name}] is the server's MCP endpoint, which often ends in /mcp"
            )),
            _ => None,
        }
    }
}

fn brings_credentials(variant: &Variant) -> bool {
    matches!(&variant.reach, Reach::Url(endpoint) if endpoint.brings_credentials())
}

fn address(variant: &Variant) -> String {
    match &variant.reach {
        Reach::Url(endpoint) => endpoint.shown(),
        Reach::Command(line) => line.program.clone(),
    }
}

/// Begins with a capital letter, as a sentence of a refusal does.
fn sentence(text: String) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => text,
    }
}

fn shown(words: &str) -> String {
    text::excerpt(&text::visible(words.trim()), SHOWN_BYTES)
}

/// Reads the status that the transport wrote before the body of an answer.
fn status_of(words: &str) -> Option<(u16, &str)> {
    let rest = words.strip_prefix("HTTP ")?;
    let (status, body) = rest.split_once(':').unwrap_or((rest, ""));
    let number = status.split(' ').next()?.parse().ok()?;
    Some((number, body))
}

/// Says what lies at the bottom of an error: the errors above it only repeat that a request failed, and name its URL,
/// whose query may carry a key.
fn cause(error: &(dyn Error + 'static)) -> String {
    if let Some(error) = error.downcast_ref::<reqwest::Error>()
        && error.is_timeout()
    {
        return "it took too long".to_owned();
    }
    let mut bottom = error;
    while let Some(cause) = bottom.source() {
        bottom = cause;
    }
    match bottom.downcast_ref::<reqwest::Error>() {
        Some(_) => "the request failed".to_owned(),
        None => shown(&bottom.to_string()),
    }
}
