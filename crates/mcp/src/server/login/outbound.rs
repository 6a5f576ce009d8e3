//! Requests to the addresses that a server names for its logins: never to places that the server has no business with.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, redirect};
use url::{Host, Url};

/// How long one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// Longest answer.
const MAX_ANSWER: usize = 1 << 20;

/// Why a request brought no answer. No variant holds a part of a request.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    /// The address may not be asked.
    #[error("{0}")]
    Address(String),
    /// The request could not be sent, or its answer not be read.
    #[error("the authorization server could not be reached: {0}")]
    Unreachable(String),
    /// The answer is longer than any that is expected.
    #[error("the answer is longer than {MAX_ANSWER} bytes")]
    TooLong,
    /// The authorization server is in trouble, which may pass.
    #[error("the authorization server answered with status {0}")]
    Busy(u16),
}

/// What kind of network an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Public,
    Private,
    Loopback,
    /// Link-local, which is where clouds keep the credentials of machines, and everything that is no one machine.
    Never,
}

impl Reach {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => embedded(address).map_or_else(|| Self::of_v6(address), Self::of_v4),
        }
    }

    const fn of_v4(address: Ipv4Addr) -> Self {
        let [first, second, ..] = address.octets();
        if address.is_loopback() {
            Self::Loopback
        } else if address.is_private() || (first == 100 && second >= 64 && second < 128) {
            Self::Private
        } else if first == 0 || first >= 224 || address.is_link_local() {
            Self::Never
        } else {
            Self::Public
        }
    }

    const fn of_v6(address: Ipv6Addr) -> Self {
        if address.is_loopback() {
            Self::Loopback
        } else if address.is_unique_local() {
            Self::Private
        } else if address.is_unspecified() || address.is_multicast() || address.is_unicast_link_local() {
            Self::Never
        } else {
            Self::Public
        }
    }

    /// Returns what the server's own address says; a name says nothing, whatever it resolves to.
    fn of_host(url: &Url) -> Option<Self> {
        match url.host()? {
            Host::Ipv4(address) => Some(Self::of(address.into())),
            Host::Ipv6(address) => Some(Self::of(address.into())),
            Host::Domain(name) => is_localhost(name).then_some(Self::Loopback),
        }
    }

    /// Tells whether a server at `base` may name such an address.
    fn is_open_to(self, base: Option<Self>) -> bool {
        match self {
            Self::Public => true,
            Self::Private | Self::Loopback => base == Some(self),
            Self::Never => false,
        }
    }
}

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// Returns the IPv4 address inside a mapped or translated one.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [first, second, zeros @ .., high, low] = address.segments();
    let translated = first == 0x64 && second == 0xff9b && zeros == [0; 4];
    address
        .to_ipv4_mapped()
        .or_else(|| translated.then(|| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))))
}

/// Sends requests to the endpoints of one authorization server.
pub struct Outbound {
    http: Client,
}

impl Outbound {
    /// Creates the client for the endpoints that the server at `base` names.
    ///
    /// # Errors
    /// Fails when an endpoint is less protected than the server itself or lies where the server may not lead, or when
    /// the TLS library cannot be used.
    pub fn new(base: &Url, endpoints: &[Url]) -> Result<Self, OutboundError> {
        for endpoint in endpoints {
            check(base, endpoint)?;
        }
        let base_reach = Reach::of_host(base);
        let hosts = endpoints.iter().filter_map(Url::host_str).map(str::to_owned);
        let mut builder = Client::builder()
            .user_agent(concat!("pentad/", env!("CARGO_PKG_VERSION")))
            // A code or a secret goes where the metadata said, and nowhere else.
            .redirect(redirect::Policy::none())
            .referer(false)
            .timeout(REQUEST_LIMIT)
            .dns_resolver(Filtered {
                base: base_reach,
                hosts: hosts.collect(),
            });
        if base_reach == Some(Reach::Loopback) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| unreachable(&error))?;
        Ok(Self { http })
    }

    /// Sends a request and reads its answer.
    ///
    /// # Errors
    /// Fails when there is no answer, or one that is too long.
    pub async fn send(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, OutboundError> {
        let request = request.try_into().map_err(|error| unreachable(&error))?;
        let mut answer = self
            .http
            .execute(request)
            .await
            .map_err(|error| unreachable(&error))?;
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| unreachable(&error))? {
            if piece.len() > MAX_ANSWER - body.len() {
                return Err(OutboundError::TooLong);
            }
            body.extend_from_slice(&piece);
        }
        let mut whole = http::Response::new(body);
        *whole.status_mut() = answer.status();
        *whole.headers_mut() = answer.headers().clone();
        Ok(whole)
    }
}

fn check(base: &Url, endpoint: &Url) -> Result<(), OutboundError> {
    let protected = match endpoint.scheme() {
        "https" => true,
        "http" => base.scheme() == "http",
        _ => false,
    };
    let refused = |why: &str| {
        let mut shown = endpoint.clone();
        shown.set_query(None);
        Err(OutboundError::Address(format!("'{shown}' {why}")))
    };
    if !protected {
        return refused("is not protected by https");
    }
    if endpoint.host().is_none() || !endpoint.username().is_empty() || endpoint.password().is_some() {
        return refused("is no address to log in at");
    }
    match Reach::of_host(endpoint) {
        Some(reach) if !reach.is_open_to(Reach::of_host(base)) => {
            refused("lies in a network to which this server may not lead")
        }
        _ => Ok(()),
    }
}

fn unreachable(error: &reqwest::Error) -> OutboundError {
    let mut words = String::new();
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    // The outermost text has the address in it, which may have a code in its query; the last says what happened.
    while let Some(error) = cause {
        cause = error.source();
        if cause.is_none() {
            words = error.to_string();
        }
    }
    if error.is_timeout() {
        words = format!("there was no answer within {} s", REQUEST_LIMIT.as_secs());
    }
    OutboundError::Unreachable(words)
}

/// Resolves the names of the endpoints, and keeps only addresses to which the server may lead.
struct Filtered {
    base: Option<Reach>,
    /// Other names are those of a proxy, which a person configured.
    hosts: Vec<String>,
}

impl Resolve for Filtered {
    fn resolve(&self, name: Name) -> Resolving {
        let base = self.base;
        let is_endpoint = self.hosts.iter().any(|host| host == name.as_str());
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let open: Vec<SocketAddr> = found
                .filter(|address| !is_endpoint || Reach::of(address.ip()).is_open_to(base))
                .collect();
            if open.is_empty() {
                return Err(format!(
                    "'{}' lies in a network to which this server may not lead",
                    name.as_str()
                )
                .into());
            }
            Ok(Box::new(open.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_server_leads_to_public_places_and_to_its_own_kind_of_network() {
        let public = url("https://a.example/mcp");
        for (endpoint, open) in [
            ("https://auth.example/device", true),
            ("https://9.9.9.9/device", true),
            ("http://auth.example/device", false),
            ("https://me:canary@auth.example/device", false),
            ("https://127.0.0.1/device", false),
            ("https://localhost/device", false),
            ("https://10.0.0.1/device", false),
            ("https://100.64.0.1/device", false),
            ("https://169.254.169.254/device", false),
            ("https://[::1]/device", false),
            ("https://[::ffff:10.0.0.1]/device", false),
            ("https://[64:ff9b::7f00:1]/device", false),
            ("https://[fe80::1]/device", false),
            ("https://[fd00::1]/device", false),
            ("file:///etc/passwd", false),
        ] {
            assert_eq!(check(&public, &url(endpoint)).is_ok(), open, "{endpoint}");
        }
        let local = url("http://127.0.0.1:1/mcp");
        assert!(check(&local, &url("http://localhost:2/device")).is_ok());
        assert!(check(&local, &url("http://10.0.0.1/device")).is_err());
        let office = url("http://10.0.0.7/mcp");
        assert!(check(&office, &url("http://10.0.0.8/device")).is_ok());
        assert!(check(&office, &url("http://169.254.169.254/device")).is_err());
    }

    #[tokio::test]
    async fn what_a_name_resolves_to_is_filtered_too() {
        let public = Filtered {
            base: None,
            hosts: vec!["localhost".to_owned()],
        };
        assert!(public.resolve("localhost".parse().unwrap()).await.is_err());
        let local = Filtered {
            base: Some(Reach::Loopback),
            ..public
        };
        assert!(local.resolve("localhost".parse().unwrap()).await.is_ok());
    }
}
