//! What holds when the configuration is silent.

use std::net::{IpAddr, Ipv4Addr};

use super::period::Period;
use super::sections::{Http, KeeperRules, Limits};

/// The port of the HTTP face.
pub const PORT: u16 = 7455;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

impl Default for Http {
    fn default() -> Self {
        Self {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: PORT,
            hosts: Vec::new(),
            token: None,
        }
    }
}

impl Default for KeeperRules {
    fn default() -> Self {
        Self {
            idle_seconds: Period::seconds(600),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            view_bytes: 8 * KIB,
            client_view_bytes: 32 * KIB,
            capture_bytes: 256 * KIB,
            spill_bytes: 64 * MIB,
            attachment_bytes: 64 * MIB,
            memory_bytes: MIB,
            state_bytes: 2 * 1024 * MIB,
            body_bytes: 4 * MIB,
            active_runs: 64,
            detached_runs: 1024,
            call_seconds: Period::seconds(600),
            start_seconds: Period::seconds(60),
            idle_seconds: Period::seconds(600),
            approval_seconds: Period::seconds(7 * 86_400),
        }
    }
}
