//! Which hosts and origins are ours. The answer to DNS rebinding: a page elsewhere carries its own host.

use std::net::{IpAddr, SocketAddr};

/// The hosts that requests may carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    port: u16,
    bound: IpAddr,
    names: Vec<String>,
}

/// A host and, if given, its port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostPort {
    host: String,
    port: Option<u16>,
}

fn split(text: &str) -> Option<HostPort> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(inside) => {
            let (address, rest) = inside.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            (format!("[{address}]"), rest)
        }
        None => {
            let end = text.find(':').unwrap_or(text.len());
            let (host, rest) = text.split_at_checked(end)?;
            (host.to_owned(), rest)
        }
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || "-.[]:".contains(c);
    if host.is_empty() || !host.chars().all(legal) {
        return None;
    }
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        Some(digits) if digits.chars().all(|c| c.is_ascii_digit()) => Some(digits.parse().ok()?),
        _ => return None,
    };
    Some(HostPort {
        host: host.to_ascii_lowercase(),
        port,
    })
}

impl Hosts {
    /// Returns the hosts of a listener at `local`, and `names` besides.
    #[must_use]
    pub fn new(local: SocketAddr, names: &[String]) -> Self {
        Self {
            port: local.port(),
            bound: local.ip(),
            names: names.iter().map(|name| name.to_ascii_lowercase()).collect(),
        }
    }

    /// Tells whether a `Host` (or the authority of a request line) is ours: this machine's own names with our port, or
    /// a configured name, which a proxy may serve at any port.
    #[must_use]
    pub fn permits(&self, authority: &str) -> bool {
        let Some(HostPort { host, port }) = split(authority) else {
            return false;
        };
        let named = |name: &String| {
            *name == host || split(name).is_some_and(|own| own.host == host && own.port == port)
        };
        if self.names.iter().any(named) {
            return true;
        }
        let port_is_ours = port == Some(self.port) || (port.is_none() && self.port == 80);
        let bound = match self.bound {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let own = ["127.0.0.1", "localhost", "[::1]"].contains(&host.as_str());
        let bound = !self.bound.is_unspecified() && host == bound;
        port_is_ours && (own || bound)
    }

    /// Tells whether an `Origin` is ours. `null` never is.
    #[must_use]
    pub fn permits_origin(&self, origin: &str) -> bool {
        let (authority, secure) = match (origin.strip_prefix("http://"), origin.strip_prefix("https://")) {
            (Some(authority), _) => (authority, false),
            (None, Some(authority)) => (authority, true),
            (None, None) => return false,
        };
        if secure {
            // We speak plain HTTP; only a proxy under a configured name makes it https.
            let Some(HostPort { host, .. }) = split(authority) else {
                return false;
            };
            return self.names.contains(&host);
        }
        self.permits(authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(local: &str, names: &[&str]) -> Hosts {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Hosts::new(local.parse().unwrap(), &names)
    }

    #[test]
    fn s08_only_our_own_hosts_with_our_port() {
        let ours = hosts("127.0.0.1:7455", &[]);
        for host in ["127.0.0.1:7455", "localhost:7455", "LOCALHOST:7455", "[::1]:7455"] {
            assert!(ours.permits(host), "{host}");
        }
        for host in [
            "",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost",
            "evil.example",
            "evil.example:7455",
            "127.0.0.1.evil.example:7455",
            "localhost.:7455",
            "0.0.0.0:7455",
            "127.1:7455",
            "2130706433:7455",
            "127.0.0.1:7455@evil",
            "evil@127.0.0.1:7455",
            "127.0.0.1:7455:7455",
            "[::1",
            "[::1]x:7455",
            "localhost:07455x",
            "localhost:",
            "localhost :7455",
        ] {
            assert!(!ours.permits(host), "{host}");
        }
        assert!(hosts("127.0.0.1:80", &[]).permits("localhost"));
    }

    #[test]
    fn configured_and_bound_names_are_ours() {
        let lan = hosts("192.168.1.5:7455", &["Pentad.lan", "other.lan:99"]);
        for host in [
            "192.168.1.5:7455",
            "pentad.lan",
            "pentad.lan:443",
            "other.lan:99",
            "localhost:7455",
        ] {
            assert!(lan.permits(host), "{host}");
        }
        assert!(!lan.permits("other.lan:98"));
        let any = hosts("0.0.0.0:7455", &[]);
        assert!(!any.permits("0.0.0.0:7455") && !any.permits("192.168.1.5:7455"));
    }

    #[test]
    fn s08_origins_are_the_same_or_foreign() {
        let ours = hosts("127.0.0.1:7455", &["pentad.lan"]);
        for origin in [
            "http://127.0.0.1:7455",
            "http://localhost:7455",
            "https://pentad.lan",
            "http://pentad.lan",
        ] {
            assert!(ours.permits_origin(origin), "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://localhost:3000",
            "https://localhost:7455",
            "http://evil.example",
            "file://",
            "http://localhost:7455/",
            "chrome-extension://abc",
            "http://evil.example:7455",
        ] {
            assert!(!ours.permits_origin(origin), "{origin}");
        }
    }
}
