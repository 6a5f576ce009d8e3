//! One GET with redirects followed by hand, every hop judged.
//!
//! Two clients exist: one whose connector uses public addresses only, and one for hosts that the caller was granted.
//! They never share connections, so a granted connection cannot serve a caller without the grant.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pentad_model::Grant;
use pentad_model::refusal::{Refusal, RefusalKind};
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use reqwest::{Certificate, Client, Response, redirect};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use url::{Host, Url};

use super::address::{AddressVerdict, judge_address};
use super::policy::WebPolicy;
use super::resolve::{Closed, ConnectorResolver, public_addresses};
use crate::scene::Scene;

const ACCEPTED: &str = "text/html, text/markdown, text/plain, application/json, */*;q=0.5";

/// Fetches pages.
pub(crate) struct WebClient {
    policy: WebPolicy,
    public: OnceCell<Client>,
    granted: OnceCell<Client>,
}

/// A response whose body is still to come.
pub(crate) struct WebResponse {
    response: Response,
    url: Url,
    stall: Duration,
    until: Instant,
}

impl WebClient {
    pub(crate) const fn new(policy: WebPolicy) -> Self {
        Self {
            policy,
            public: OnceCell::const_new(),
            granted: OnceCell::const_new(),
        }
    }

    pub(crate) const fn policy(&self) -> &WebPolicy {
        &self.policy
    }

    /// Judges a URL as opening it would, without connecting.
    pub(crate) async fn check(&self, scene: &Scene, url: &Url) -> Result<(), Refusal> {
        if self.judge(scene, url)? {
            return Ok(());
        }
        if let Some(Host::Domain(host)) = url.host() {
            public_addresses(self.policy.resolver.as_ref(), host, self.policy.connect_limit)
                .await
                .map_err(|error| match error.downcast_ref::<Closed>() {
                    Some(closed) => closed_refusal(url, host, closed),
                    None => unreachable_host(url, &error.to_string()),
                })?;
        }
        Ok(())
    }

    /// Opens a URL, following redirects; each hop is judged anew.
    pub(crate) async fn open(&self, scene: &Scene, url: Url) -> Result<WebResponse, Refusal> {
        let until = Instant::now() + self.policy.download_limit;
        let mut url = url;
        for _ in 0..=self.policy.redirects {
            let granted = self.judge(scene, &url)?;
            let response = self.send(scene, &url, granted).await?;
            let Some(target) = redirect_of(&response, &url)? else {
                return Ok(WebResponse {
                    response,
                    url,
                    stall: self.policy.stall_limit,
                    until,
                });
            };
            url = target;
        }
        let message = format!(
            "{url} is one redirect too many; {} are followed.",
            self.policy.redirects
        );
        Err(Refusal::new(RefusalKind::Unavailable, url.as_str(), message))
    }

    /// Tells whether the host is granted; refuses literal addresses that are closed.
    fn judge(&self, scene: &Scene, url: &Url) -> Result<bool, Refusal> {
        if !matches!(url.scheme(), "http" | "https") {
            let message = format!("{url} is no address of the web.");
            return Err(Refusal::new(RefusalKind::BadRequest, url.as_str(), message));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let message = "A URL with a user name or password in it is not read.";
            return Err(Refusal::new(
                RefusalKind::BadRequest,
                url.host_str().unwrap_or(""),
                message,
            ));
        }
        let (host, literal) = match url.host() {
            Some(Host::Domain(host)) => (host.trim_end_matches('.').to_ascii_lowercase(), None),
            Some(Host::Ipv4(v4)) => (v4.to_string(), Some(IpAddr::V4(v4))),
            Some(Host::Ipv6(v6)) => (v6.to_string(), Some(IpAddr::V6(v6))),
            None => {
                let message = "This URL names no host.";
                return Err(Refusal::new(RefusalKind::BadRequest, url.as_str(), message));
            }
        };
        let granted = scene.grants.has(&Grant::Net(host.clone()))
            || (host.contains(':') && scene.grants.has(&Grant::Net(format!("[{host}]"))));
        if granted {
            return Ok(true);
        }
        if let Some(address) = literal
            && let AddressVerdict::Closed(what) = judge_address(address)
        {
            let closed = Closed {
                host: host.clone(),
                address,
                what,
            };
            return Err(closed_refusal(url, &host, &closed));
        }
        Ok(false)
    }

    async fn send(&self, scene: &Scene, url: &Url, granted: bool) -> Result<Response, Refusal> {
        let client = self.client(granted).await?;
        let request = client.get(url.clone()).header(ACCEPT, ACCEPTED).send();
        let limited = tokio::time::timeout(self.policy.page_limit, request);
        let answer = tokio::select! {
            () = scene.attendance.cancel.cancelled() => return Err(canceled(url)),
            answer = limited => answer,
        };
        match answer {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(refusal_of(url, &error)),
            Err(_) => Err(too_slow(url, self.policy.page_limit)),
        }
    }

    async fn client(&self, granted: bool) -> Result<&Client, Refusal> {
        let cell = if granted { &self.granted } else { &self.public };
        cell.get_or_try_init(|| async {
            let policy = self.policy.clone();
            crate::blocking::blocking(move || build(&policy, !granted)).await
        })
        .await
    }
}

fn build(policy: &WebPolicy, public_only: bool) -> Result<Client, Refusal> {
    let broken = |message: String| Refusal::new(RefusalKind::Internal, "https://", message);
    // The first provider of a process stays; a second installation is refused, which is no fault.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let roots = policy
        .extra_roots
        .iter()
        .map(|pem| Certificate::from_pem(pem))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| broken(format!("An extra certificate could not be read: {error}.")))?;
    let mut builder = Client::builder()
        .user_agent(&policy.user_agent)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .referer(false)
        .connect_timeout(policy.connect_limit)
        .pool_idle_timeout(Duration::from_secs(30))
        .dns_resolver(Arc::new(ConnectorResolver {
            resolver: Arc::clone(&policy.resolver),
            limit: policy.connect_limit,
            public_only,
        }));
    if !roots.is_empty() {
        builder = builder.tls_certs_merge(roots);
    }
    builder
        .build()
        .map_err(|error| broken(format!("The web client could not be made: {error}.")))
}

fn redirect_of(response: &Response, url: &Url) -> Result<Option<Url>, Refusal> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else {
        return Ok(None);
    };
    let target = location.to_str().ok().and_then(|text| url.join(text).ok());
    target.map(Some).ok_or_else(|| {
        let message = format!("{url} redirects to something that is no URL.");
        Refusal::new(RefusalKind::Unavailable, url.as_str(), message)
    })
}

fn closed_refusal(url: &Url, host: &str, closed: &Closed) -> Refusal {
    let message = format!("{url} is not read: {closed}.");
    Refusal::new(RefusalKind::Forbidden, url.as_str(), message)
        .next_step(format!("a person can grant net:{host} where this is meant"))
}

fn unreachable_host(url: &Url, reason: &str) -> Refusal {
    let message = format!("{url} could not be reached: {}.", reason.trim_end_matches('.'));
    Refusal::new(RefusalKind::Unavailable, url.as_str(), message)
}

fn too_slow(url: &Url, limit: Duration) -> Refusal {
    let message = format!("{url} did not answer within {} s.", limit.as_secs());
    Refusal::new(RefusalKind::Timeout, url.as_str(), message)
}

fn canceled(url: &Url) -> Refusal {
    Refusal::new(RefusalKind::Timeout, url.as_str(), "The read was cancelled.")
}

fn refusal_of(url: &Url, error: &reqwest::Error) -> Refusal {
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(closed) = cause.downcast_ref::<Closed>() {
            let host = url.host_str().unwrap_or("").trim_end_matches('.').to_owned();
            return closed_refusal(url, &host, closed);
        }
        reason = cause.to_string();
        source = cause.source();
    }
    if error.is_timeout() {
        let message = format!("{url} did not answer in time: {reason}.");
        return Refusal::new(RefusalKind::Timeout, url.as_str(), message);
    }
    unreachable_host(url, &reason)
}

impl WebResponse {
    /// Returns the address that answered in the end.
    pub(crate) const fn url(&self) -> &Url {
        &self.url
    }

    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// Returns the whole content type, with its parameters.
    pub(crate) fn content_type(&self) -> Option<String> {
        let value = self.response.headers().get(CONTENT_TYPE)?;
        value.to_str().ok().map(str::to_owned)
    }

    /// Returns the media type without parameters, in lower case.
    pub(crate) fn mime(&self) -> Option<String> {
        let whole = self.content_type()?;
        let plain = whole.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        (!plain.is_empty()).then_some(plain)
    }

    /// Returns the size that the server announced.
    pub(crate) fn announced_bytes(&self) -> Option<u64> {
        let value = self.response.headers().get(CONTENT_LENGTH)?;
        value.to_str().ok()?.parse().ok()
    }

    /// Returns the next bytes of the body, decompressed.
    pub(crate) async fn chunk(&mut self, scene: &Scene) -> Result<Option<Bytes>, Refusal> {
        let until = self.until.min(Instant::now() + self.stall);
        let answer = tokio::select! {
            () = scene.attendance.cancel.cancelled() => return Err(canceled(&self.url)),
            answer = tokio::time::timeout_at(until, self.response.chunk()) => answer,
        };
        match answer {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(refusal_of(&self.url, &error)),
            Err(_) => {
                let message = format!("{} stopped sending; the download was given up.", self.url);
                Err(Refusal::new(RefusalKind::Timeout, self.url.as_str(), message))
            }
        }
    }

    /// Reads the whole body, at most `cap` bytes; `None` when there are more.
    pub(crate) async fn body(&mut self, scene: &Scene, cap: u64) -> Result<Option<Vec<u8>>, Refusal> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk(scene).await? {
            if body.len() as u64 + chunk.len() as u64 > cap {
                return Ok(None);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Some(body))
    }
}
