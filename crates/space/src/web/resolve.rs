//! From host names to addresses that may be used.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::{AddressVerdict, judge_address};

/// Looks host names up.
#[async_trait]
pub trait HostResolver: Send + Sync {
    /// Returns the addresses of a host.
    ///
    /// # Errors
    /// Fails when the name is unknown or the look-up does.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's own look-up.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl HostResolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0))
            .await?
            .map(|address| address.ip())
            .collect())
    }
}

/// A host whose addresses may not be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{host} has the address {address}, which is {what}")]
pub(super) struct Closed {
    pub(super) host: String,
    pub(super) address: IpAddr,
    pub(super) what: &'static str,
}

/// Looks a name up within a limit and keeps the public addresses.
pub(super) async fn public_addresses(
    resolver: &dyn HostResolver,
    host: &str,
    limit: Duration,
) -> Result<Vec<IpAddr>, Box<dyn std::error::Error + Send + Sync>> {
    let found = all_addresses(resolver, host, limit).await?;
    let mut closed = None;
    let mut public = Vec::new();
    for address in found {
        match judge_address(address) {
            AddressVerdict::Public => public.push(address),
            AddressVerdict::Closed(what) => {
                closed.get_or_insert_with(|| Closed {
                    host: host.to_owned(),
                    address,
                    what,
                });
            }
        }
    }
    match closed {
        Some(closed) if public.is_empty() => Err(closed.into()),
        _ => Ok(public),
    }
}

async fn all_addresses(resolver: &dyn HostResolver, host: &str, limit: Duration) -> io::Result<Vec<IpAddr>> {
    let found = tokio::time::timeout(limit, resolver.resolve(host))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(found)
}

/// The look-up inside a client's connector: what it returns is what is connected to, so a name that changes its
/// address between a check and the connection gains nothing.
pub(super) struct ConnectorResolver {
    pub(super) resolver: Arc<dyn HostResolver>,
    pub(super) limit: Duration,
    pub(super) public_only: bool,
}

impl Resolve for ConnectorResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (resolver, limit, public_only) = (Arc::clone(&self.resolver), self.limit, self.public_only);
        Box::pin(async move {
            let host = name.as_str();
            let found = if public_only {
                public_addresses(resolver.as_ref(), host, limit).await?
            } else {
                all_addresses(resolver.as_ref(), host, limit).await?
            };
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}
