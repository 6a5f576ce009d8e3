//! A login by a person at another device: the device authorization grant of RFC 8628.
//!
//! For machines without a browser. The person reads a page and a code here and opens the page elsewhere; this machine asks
//! the authorization server at its pace until the person has said yes or no.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oauth2::basic::{
    BasicErrorResponse, BasicErrorResponseType, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse,
};
use oauth2::{
    AuthType, ClientId, ClientSecret, DeviceAuthorizationUrl, DeviceCodeErrorResponseType, EndpointNotSet,
    EndpointSet, ErrorResponseType, RequestTokenError, Scope, StandardDeviceAuthorizationResponse,
    StandardErrorResponse, StandardRevocableToken, TokenResponse as _, TokenUrl,
};
use rmcp::transport::auth::{CredentialStore as _, OAuthClientConfig, OAuthTokenResponse, StoredCredentials};
use url::Url;

use super::super::config::ServerConfig;
use super::discovery::Discovery;
use super::kept::TokenStore;
use super::outbound::{Outbound, OutboundError};
use super::outcome::{LoginError, LoginResult, foreign, read_back, shown};
use super::registration::{REDIRECT, register};

/// The shortest time between two questions; a server may ask for more.
const SHORTEST_INTERVAL: u64 = 5;
/// The longest one; no code lasts longer.
const LONGEST_INTERVAL: u64 = 3_600;
/// The longest that a login is waited for, however long its code lasts.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);
/// The longest pause after questions that brought no answer, unless the server's own interval is longer.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// The longest code that a person is asked to type.
const MAX_USER_CODE: usize = 64;

type Client = oauth2::Client<
    BasicErrorResponse,
    OAuthTokenResponse,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointNotSet,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

/// What a person needs to grant the login elsewhere. It is for their eyes alone: who has the code can give the login away.
#[derive(Clone, PartialEq, Eq)]
pub struct DevicePrompt {
    /// The page to open.
    pub page: String,
    /// The code to type there.
    pub code: String,
    /// The page with the code in it, for links and QR codes.
    pub page_with_code: Option<String>,
    /// How long the code holds.
    pub holds: Duration,
}

/// A login that waits for a person at another device.
pub struct DeviceLogin(Box<Pending>);

struct Pending {
    discovery: Discovery,
    registered: OAuthClientConfig,
    client: Client,
    outbound: Outbound,
    resource: String,
    details: StandardDeviceAuthorizationResponse,
    prompt: DevicePrompt,
}

impl DeviceLogin {
    /// Finds out where to log in, registers this client if needed, and asks for a code.
    ///
    /// # Errors
    /// [`LoginError`] says what cannot be used and what to do; [`LoginError::NoDevice`] when the authorization server knows
    /// no codes.
    pub async fn begin(
        config: &ServerConfig,
        home_key: &[u8],
        cache_dir: &Path,
        tokens: Arc<dyn TokenStore>,
    ) -> Result<Self, LoginError> {
        let mut discovery = Discovery::of(config, home_key, cache_dir, tokens).await?;
        let endpoints = Endpoints::of(&discovery)?;
        let outbound = endpoints.outbound(&discovery)?;
        let registered = match discovery.known_client(REDIRECT) {
            Some(client) => client,
            None => register(&discovery, endpoints.registration.as_ref(), &outbound).await?,
        };
        let configured = discovery.manager.configure_client(registered.clone());
        configured.map_err(|error| discovery.failed(shown(&error)))?;
        let resource = resource(&discovery).await;
        let client = endpoints.client(&discovery, &registered);
        let details = codes(&discovery, &client, &outbound, &resource).await?;
        let details = paced(&details).ok_or_else(|| unusable(&discovery, UNREADABLE))?;
        let prompt = prompt(&details).map_err(|reason| unusable(&discovery, &reason))?;
        Ok(Self(Box::new(Pending {
            discovery,
            registered,
            client,
            outbound,
            resource,
            details,
            prompt,
        })))
    }

    /// Returns what the person is told.
    #[must_use]
    pub fn prompt(&self) -> &DevicePrompt {
        &self.0.prompt
    }

    /// Asks the authorization server at its pace until the person has decided, and keeps the tokens. Between two questions
    /// it waits for what `pause` makes of the interval: `tokio::time::sleep`. Dropping the future cancels the login.
    ///
    /// # Errors
    /// [`LoginError`]; nothing is kept then. Without a `limit` it ends when the code does.
    pub async fn finish<P, F>(self, limit: Option<Duration>, pause: P) -> Result<LoginResult, LoginError>
    where
        P: Fn(Duration) -> F,
        F: Future<Output = ()>,
    {
        // Boxed: callers wait for much else at once.
        Box::pin(self.0.finish(limit, pause)).await
    }
}

impl Pending {
    async fn finish<P, F>(&self, limit: Option<Duration>, pause: P) -> Result<LoginResult, LoginError>
    where
        P: Fn(Duration) -> F,
        F: Future<Output = ()>,
    {
        let server = &self.discovery.server;
        let holds = self.prompt.holds.min(LONGEST_WAIT);
        let wait = limit.map_or(holds, |limit| limit.min(holds));
        let granted = tokio::time::timeout(wait, self.granted(pause)).await;
        let tokens = match granted {
            Ok(granted) => granted?,
            Err(_) if wait < self.prompt.holds => {
                return Err(LoginError::TimedOut {
                    server: server.clone(),
                    seconds: wait.as_secs(),
                });
            }
            Err(_) => return Err(LoginError::Expired(server.clone())),
        };
        self.keep(tokens).await
    }

    async fn granted<P, F>(&self, pause: P) -> Result<OAuthTokenResponse, LoginError>
    where
        P: Fn(Duration) -> F,
        F: Future<Output = ()>,
    {
        // Trouble that may pass is no answer, and is met with longer pauses.
        let ask = async |request| {
            let answer = self.outbound.send(request).await?;
            let status = answer.status();
            if status.is_server_error() || status.as_u16() == 429 {
                return Err(OutboundError::Busy(status.as_u16()));
            }
            Ok(answer)
        };
        self.client
            .exchange_device_access_token(&self.details)
            .add_extra_param("resource", self.resource.as_str())
            .set_max_backoff_interval(self.details.interval().max(LONGEST_BACKOFF))
            // The whole wait has its limit outside, which a silent server does not outlast.
            .request_async(&ask, pause, Some(LONGEST_WAIT))
            .await
            .map_err(|error| self.refused(&error))
    }

    fn refused(
        &self,
        error: &RequestTokenError<OutboundError, StandardErrorResponse<DeviceCodeErrorResponseType>>,
    ) -> LoginError {
        let server = self.discovery.server.clone();
        let RequestTokenError::ServerResponse(answer) = error else {
            return self.again(&reason(error));
        };
        // An authorization server that repeats the code in its words does not get it shown.
        let words = said(answer).replace(self.details.device_code().secret(), "[secret]");
        match answer.error() {
            DeviceCodeErrorResponseType::AccessDenied => LoginError::Denied {
                reason: format!("{words}; pentad connect {server} --login --device asks again"),
                server,
            },
            DeviceCodeErrorResponseType::ExpiredToken => LoginError::Expired(server),
            DeviceCodeErrorResponseType::Basic(kind) if forbids(kind) => LoginError::NoDeviceGrant {
                server,
                reason: words,
            },
            _ => self.again(&words),
        }
    }

    fn again(&self, reason: &str) -> LoginError {
        let server = &self.discovery.server;
        self.discovery.failed(format!(
            "{reason}; pentad connect {server} --login --device begins again"
        ))
    }

    async fn keep(&self, tokens: OAuthTokenResponse) -> Result<LoginResult, LoginError> {
        let Self {
            discovery,
            registered,
            ..
        } = self;
        // What is not said was granted as asked for (RFC 6749, 5.1).
        let scopes = tokens.scopes().map_or_else(
            || discovery.scopes.clone(),
            |scopes| scopes.iter().map(|scope| scope.to_string()).collect(),
        );
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let credentials = StoredCredentials::new(
            registered.client_id.clone(),
            Some(tokens),
            scopes,
            Some(now.as_secs()),
        )
        .with_issuer(discovery.metadata.issuer.clone());
        let saved = discovery.keeping(registered).save(credentials).await;
        saved.map_err(|error| discovery.failed(shown(&error)))?;
        let result = read_back(&discovery.tokens, &discovery.server, &discovery.url).await?;
        discovery.board.note(None);
        Ok(result)
    }
}

/// What is shown of an answer that is none: its text may hold a code or a token.
const UNREADABLE: &str = "the authorization server's answer was not understood";

/// Where the authorization server takes what.
struct Endpoints {
    device: Url,
    token: Url,
    registration: Option<Url>,
}

impl Endpoints {
    fn of(discovery: &Discovery) -> Result<Self, LoginError> {
        let named = discovery
            .metadata
            .additional_fields
            .get("device_authorization_endpoint");
        let Some(device) = named.and_then(|named| named.as_str()) else {
            return Err(LoginError::NoDevice(discovery.server.clone()));
        };
        let parse = |text: &str| {
            Url::parse(text).map_err(|error| LoginError::NoAuthorization {
                server: discovery.server.clone(),
                reason: foreign(&format!("'{text}' is no URL: {error}")),
            })
        };
        let registration = discovery.metadata.registration_endpoint.as_deref();
        Ok(Self {
            device: parse(device)?,
            token: parse(&discovery.metadata.token_endpoint)?,
            registration: registration.map(parse).transpose()?,
        })
    }

    fn outbound(&self, discovery: &Discovery) -> Result<Outbound, LoginError> {
        let mut asked = vec![self.device.clone(), self.token.clone()];
        asked.extend(self.registration.clone());
        Outbound::new(&discovery.url, &asked).map_err(|error| LoginError::NoAuthorization {
            server: discovery.server.clone(),
            reason: foreign(&error.to_string()),
        })
    }

    fn client(&self, discovery: &Discovery, registered: &OAuthClientConfig) -> Client {
        let mut client = oauth2::Client::new(ClientId::new(registered.client_id.clone()))
            .set_device_authorization_url(DeviceAuthorizationUrl::from_url(self.device.clone()))
            .set_token_uri(TokenUrl::from_url(self.token.clone()));
        if let Some(secret) = &registered.client_secret {
            client = client.set_client_secret(ClientSecret::new(secret.clone()));
        }
        let methods = discovery
            .metadata
            .additional_fields
            .get("token_endpoint_auth_methods_supported")
            .and_then(|methods| methods.as_array());
        let takes = |wanted: &str| {
            methods.is_some_and(|methods| methods.iter().any(|method| method.as_str() == Some(wanted)))
        };
        // The same choice as that of the protocol library, which renews the tokens.
        if takes("client_secret_post") && !takes("client_secret_basic") {
            client = client.set_auth_type(AuthType::RequestBody);
        }
        client
    }
}

/// Returns the resource that the tokens are for. The protocol library knows what the server's metadata calls it and says
/// so in the page of a browser's login alone, which is made here for this one value.
async fn resource(discovery: &Discovery) -> String {
    let page = discovery.manager.get_authorization_url(&[]).await.ok();
    page.and_then(|page| Url::parse(&page).ok())
        .and_then(|page| {
            let mut pairs = page.query_pairs();
            pairs.find_map(|(key, value)| (key == "resource").then(|| value.into_owned()))
        })
        .unwrap_or_else(|| discovery.url.to_string())
}

/// Asks for the codes of one login.
async fn codes(
    discovery: &Discovery,
    client: &Client,
    outbound: &Outbound,
    resource: &str,
) -> Result<StandardDeviceAuthorizationResponse, LoginError> {
    let ask = |request| outbound.send(request);
    let answer: Result<StandardDeviceAuthorizationResponse, RequestTokenError<_, BasicErrorResponse>> =
        client
            .exchange_device_code()
            .add_scopes(discovery.scopes.iter().cloned().map(Scope::new))
            .add_extra_param("resource", resource)
            .request_async(&ask)
            .await;
    answer.map_err(|error| match &error {
        RequestTokenError::ServerResponse(answer) if forbids(answer.error()) => LoginError::NoDeviceGrant {
            server: discovery.server.clone(),
            reason: said(answer),
        },
        _ => unusable(discovery, &reason(&error)),
    })
}

/// Returns the failure of a login for which there is no code that can be used.
fn unusable(discovery: &Discovery, reason: &str) -> LoginError {
    let server = &discovery.server;
    discovery.failed(format!(
        "{reason}; pentad connect {server} --login, without --device, logs in with a browser on this machine"
    ))
}

/// Raises the interval to the shortest one that is kept here, whatever the server says; `None` when the details cannot be
/// written down and read again.
fn paced(details: &StandardDeviceAuthorizationResponse) -> Option<StandardDeviceAuthorizationResponse> {
    let interval = details.interval().as_secs();
    let mut value = serde_json::to_value(details).ok()?;
    let field = value.get_mut("interval")?;
    *field = interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL).into();
    serde_json::from_value(value).ok()
}

/// Takes from the details what a person sees. The text of an authorization server is foreign: it is refused where it could
/// do more than be read.
fn prompt(details: &StandardDeviceAuthorizationResponse) -> Result<DevicePrompt, String> {
    let code = details.user_code().secret();
    let readable = !code.trim().is_empty() && code.len() <= MAX_USER_CODE && foreign(code) == *code;
    if !readable || code.contains(['\n', '\t']) {
        return Err("the authorization server gave a code that nobody can type".to_owned());
    }
    let page = page(details.verification_uri().as_str())
        .ok_or("the authorization server gave a page that no browser should open")?;
    let complete = details.verification_uri_complete();
    Ok(DevicePrompt {
        page,
        code: code.clone(),
        page_with_code: complete.and_then(|complete| self::page(complete.secret())),
        holds: details.expires_in(),
    })
}

/// Returns an address of the web in its normal form, which has no control characters and no invisible ones.
fn page(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let of_the_web = matches!(url.scheme(), "https" | "http") && url.host().is_some();
    (of_the_web && url.username().is_empty() && url.password().is_none()).then(|| url.to_string())
}

/// Tells whether an authorization server says that this client may not log in by code.
fn forbids(kind: &BasicErrorResponseType) -> bool {
    matches!(
        kind,
        BasicErrorResponseType::UnauthorizedClient
            | BasicErrorResponseType::UnsupportedGrantType
            | BasicErrorResponseType::InvalidClient
    )
}

/// Returns the words of a refusal.
fn said<T: ErrorResponseType + fmt::Display>(answer: &StandardErrorResponse<T>) -> String {
    let kind = answer.error().to_string();
    foreign(&match answer.error_description() {
        Some(description) => format!("{kind} ({description})"),
        None => kind,
    })
}

/// Returns what went wrong with a question, without any of its answer that was not understood.
fn reason<T: ErrorResponseType + fmt::Display>(
    error: &RequestTokenError<OutboundError, StandardErrorResponse<T>>,
) -> String {
    match error {
        RequestTokenError::ServerResponse(answer) => said(answer),
        RequestTokenError::Request(error) => foreign(&error.to_string()),
        RequestTokenError::Parse(..) => UNREADABLE.to_owned(),
        RequestTokenError::Other(words) => foreign(words),
    }
}
