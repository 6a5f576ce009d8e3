//! The address of a server that runs elsewhere, and what is sent along to it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use reqwest::header::{HeaderName, HeaderValue};
use url::{Host, Url};

/// Headers that the protocol or the transport sets itself.
const OURS: [&str; 12] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "transfer-encoding",
];
/// What the headers of tool parameters begin with.
const PARAMETER_PREFIX: &str = "mcp-param-";

/// Why an address cannot be used. No variant holds a value of a header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The text is no URL of the web.
    #[error("the url cannot be used: {0}; write it like https://host/mcp")]
    Url(String),
    /// Credentials in a URL end up in logs of proxies and servers.
    #[error("the url has a user name or password in it; put them into a header, with ${{secret:NAME}}")]
    UserInfo,
    /// A header of this name cannot be sent.
    #[error("'{0}' names no header; use letters, digits and -")]
    HeaderName(String),
    /// The value has characters that no header may have.
    #[error("the value of header '{0}' has characters that a header cannot carry, such as a line end")]
    HeaderValue(String),
    /// The protocol sets this header itself.
    #[error("the header '{0}' is set by the protocol itself; remove it")]
    Reserved(String),
}

/// Where a server is reached over HTTP, with the headers that a person configured for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
    headers: BTreeMap<String, HeaderValue>,
    /// How a person logs in to it.
    pub login: LoginSettings,
}

/// What a person configured about logging in to a server.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct LoginSettings {
    /// The id under which this client is known to the authorization server; without it the client registers itself.
    pub client_id: Option<String>,
    /// The secret that belongs to the id.
    pub client_secret: Option<String>,
    /// The URL of a client metadata document, used where the authorization server takes one as an id.
    pub client_metadata_url: Option<String>,
    /// What to ask for; without it, what the server says it needs.
    pub scopes: Vec<String>,
    /// The port of the redirect, for clients that were registered with one; any free one without it.
    pub redirect_port: Option<u16>,
}

impl Endpoint {
    /// Parses an address and its headers.
    ///
    /// # Errors
    /// Says what cannot be used, without showing any value.
    pub fn new(url: &str, headers: &BTreeMap<String, String>) -> Result<Self, EndpointError> {
        let url = Url::parse(url.trim()).map_err(|error| EndpointError::Url(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(EndpointError::Url(format!(
                "'{}' is not http or https",
                url.scheme()
            )));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EndpointError::UserInfo);
        }
        let mut parsed = BTreeMap::new();
        for (name, value) in headers {
            let (name, value) = header(name, value)?;
            parsed.insert(name, value);
        }
        let mut url = url;
        url.set_fragment(None);
        Ok(Self {
            url,
            headers: parsed,
            login: LoginSettings::default(),
        })
    }

    /// Returns the address.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the address as people may see it: without its query, which often carries a key.
    #[must_use]
    pub fn shown(&self) -> String {
        let mut url = self.url.clone();
        if url.query().is_some() {
            url.set_query(Some("…"));
        }
        url.to_string().replace("%E2%80%A6", "…")
    }

    /// Returns the names of the configured headers, in lower case and in order.
    pub fn header_names(&self) -> impl Iterator<Item = &str> {
        self.headers.keys().map(String::as_str)
    }

    /// Tells whether the person configured the credentials themselves.
    pub(super) fn brings_credentials(&self) -> bool {
        self.headers.contains_key("authorization")
    }

    /// Tells whether what is sent to this server crosses a network in the clear.
    pub(super) fn is_in_the_clear(&self) -> bool {
        self.url.scheme() == "http" && !self.is_loopback()
    }

    /// Tells whether the server runs on this machine.
    pub(super) fn is_loopback(&self) -> bool {
        match self.url.host() {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
    }

    pub(super) fn headers(&self) -> HashMap<HeaderName, HeaderValue> {
        self.headers
            .iter()
            .filter_map(|(name, value)| Some((name.parse().ok()?, value.clone())))
            .collect()
    }

    /// Returns the texts that must never be shown.
    pub(super) fn confidential(&self) -> Vec<String> {
        let values = self.headers.values().filter_map(|value| value.to_str().ok());
        let mut texts: Vec<String> = values
            .flat_map(|value| {
                // `Bearer abc` is confidential as a whole and by its last word.
                let word = value.rsplit(' ').next().unwrap_or(value);
                [value.to_owned(), word.to_owned()]
            })
            .collect();
        texts.extend(self.url.query_pairs().map(|(_, value)| value.into_owned()));
        texts.extend(self.login.client_secret.clone());
        texts
    }
}

fn header(name: &str, value: &str) -> Result<(String, HeaderValue), EndpointError> {
    let parsed: HeaderName = name
        .parse()
        .map_err(|_| EndpointError::HeaderName(name.to_owned()))?;
    if OURS.contains(&parsed.as_str()) || parsed.as_str().starts_with(PARAMETER_PREFIX) {
        return Err(EndpointError::Reserved(parsed.to_string()));
    }
    let mut value: HeaderValue = value
        .trim()
        .parse()
        .map_err(|_| EndpointError::HeaderValue(parsed.to_string()))?;
    // Keeps the value out of every `Debug` of a request.
    value.set_sensitive(true);
    Ok((parsed.to_string(), value))
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", &self.shown())
            .field("headers", &self.headers.keys())
            .field("login", &self.login)
            .finish()
    }
}

impl fmt::Debug for LoginSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginSettings")
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret.as_ref().map(|_| "[secret]"))
            .field("client_metadata_url", &self.client_metadata_url)
            .field("scopes", &self.scopes)
            .field("redirect_port", &self.redirect_port)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str, headers: &[(&str, &str)]) -> Result<Endpoint, EndpointError> {
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Endpoint::new(url, &headers)
    }

    #[test]
    fn what_cannot_be_used_is_named_without_its_value() {
        let refused = [
            endpoint("not a url", &[]),
            endpoint("file:///etc/passwd", &[]),
            endpoint("https://me:canary@a.example/", &[]),
            endpoint("https://a.example", &[("bad name", "canary")]),
            endpoint("https://a.example", &[("X-Key", "canary\r\nHost: b")]),
            endpoint("https://a.example", &[("Mcp-Session-Id", "canary")]),
            endpoint("https://a.example", &[("Mcp-Param-x", "canary")]),
        ]
        .map(|made| made.unwrap_err().to_string())
        .join("\n");
        insta::assert_snapshot!(refused);
    }

    #[test]
    fn s13_neither_headers_nor_the_query_are_shown() {
        let made = endpoint(
            "https://a.example/mcp?key=canary-1#part",
            &[("Authorization", "Bearer canary-2"), ("x-api-key", "canary-3")],
        )
        .unwrap();
        let shown = format!("{made:?} {}", made.shown());
        assert!(!shown.contains("canary"), "{shown}");
        assert_eq!(made.shown(), "https://a.example/mcp?…");
        assert_eq!(made.url().fragment(), None);
        let confidential = made.confidential();
        for text in ["canary-1", "Bearer canary-2", "canary-2", "canary-3"] {
            assert!(confidential.iter().any(|kept| kept == text), "{text}");
        }
    }

    #[test]
    fn only_http_to_another_machine_is_in_the_clear() {
        for (url, clear) in [
            ("http://127.0.0.1:8080/mcp", false),
            ("http://[::1]/mcp", false),
            ("http://localhost/mcp", false),
            ("http://10.0.0.7/mcp", true),
            ("https://a.example/mcp", false),
        ] {
            assert_eq!(endpoint(url, &[]).unwrap().is_in_the_clear(), clear, "{url}");
        }
    }
}
