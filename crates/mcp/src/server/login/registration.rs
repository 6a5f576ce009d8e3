//! Making this client known to an authorization server as one that logs in by code (RFC 7591).

use rmcp::transport::auth::OAuthClientConfig;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::discovery::{CLIENT_NAME, Discovery};
use super::outbound::Outbound;
use super::outcome::{LoginError, foreign};

/// The redirect that is named where one has to be. Nobody is ever sent there: a login by code has no way back.
pub const REDIRECT: &str = "http://127.0.0.1/callback";

/// What an authorization server answers.
#[derive(Deserialize)]
struct Registered {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
}

/// Registers this client. The protocol library registers for logins in a browser alone, and an authorization server may
/// hold a client to the grants that it named.
///
/// # Errors
/// [`LoginError::Unregistered`] with what the authorization server answered.
pub async fn register(
    discovery: &Discovery,
    endpoint: Option<&Url>,
    outbound: &Outbound,
) -> Result<OAuthClientConfig, LoginError> {
    let failed = |reason: &str| LoginError::Unregistered {
        server: discovery.server.clone(),
        reason: foreign(reason),
    };
    let endpoint = endpoint.ok_or_else(|| failed("it names no registration_endpoint"))?;
    let mut wanted = json!({
        "client_name": CLIENT_NAME,
        "application_type": "native",
        "grant_types": ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
        "response_types": [],
        "redirect_uris": [REDIRECT],
        "token_endpoint_auth_method": "none",
    });
    if !discovery.scopes.is_empty() {
        wanted["scope"] = discovery.scopes.join(" ").into();
    }
    let request = http::Request::post(endpoint.as_str())
        .header("content-type", "application/json")
        .header("accept", "application/json")
        .body(wanted.to_string().into_bytes())
        .map_err(|error| failed(&error.to_string()))?;
    let answer = outbound
        .send(request)
        .await
        .map_err(|error| failed(&error.to_string()))?;
    if !answer.status().is_success() {
        let words = String::from_utf8_lossy(answer.body());
        return Err(failed(&format!("status {}: {words}", answer.status().as_u16())));
    }
    // An answer that is not understood may still hold a secret, and is not shown.
    let registered: Registered =
        serde_json::from_slice(answer.body()).map_err(|_| failed("its answer was not understood"))?;
    let mut client = OAuthClientConfig::new(registered.client_id, REDIRECT);
    // Some servers write an empty secret for a client that has none.
    client.client_secret = registered.client_secret.filter(|secret| !secret.is_empty());
    Ok(client)
}
