//! Which network addresses pages may come from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressVerdict {
    /// Anybody may reach it.
    Public,
    /// Only this machine or its network may, or nobody; the word says which.
    Closed(&'static str),
}

/// Ranges of IPv4 that are not public.
const CLOSED_V4: &[(Ipv4Addr, u32, &str)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8, "unspecified"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared by a carrier"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "a cloud's metadata"),
    (
        Ipv4Addr::new(169, 254, 0, 0),
        16,
        "link-local or a cloud's metadata",
    ),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "benchmarking"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

/// Ranges of IPv6 inside the global unicast space that are not public.
const CLOSED_V6: &[(Ipv6Addr, u32, &str)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "a protocol's own"),
    (
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0),
        32,
        "documentation",
    ),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "a relay"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "documentation"),
];

/// Judges an address. IPv4 inside IPv6 (mapped, compatible, NAT64) is judged as IPv4.
#[must_use]
pub fn judge_address(address: IpAddr) -> AddressVerdict {
    match address {
        IpAddr::V4(v4) => judge_v4(v4),
        IpAddr::V6(v6) => judge_v6(v6),
    }
}

fn judge_v4(address: Ipv4Addr) -> AddressVerdict {
    let bits = address.to_bits();
    CLOSED_V4
        .iter()
        .find(|(net, length, _)| (bits ^ net.to_bits()) >> (32 - length) == 0)
        .map_or(AddressVerdict::Public, |(_, _, what)| {
            AddressVerdict::Closed(what)
        })
}

fn judge_v6(address: Ipv6Addr) -> AddressVerdict {
    let segments = address.segments();
    let embedded = |[high, low]: [u16; 2]| Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressVerdict::Closed("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressVerdict::Closed("loopback"),
        // Mapped, translated, compatible and NAT64 addresses end at an IPv4 host.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0, 0, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => judge_v4(embedded([high, low])),
        [first, ..] if first & 0xe000 == 0x2000 => {
            let bits = address.to_bits();
            CLOSED_V6
                .iter()
                .find(|(net, length, _)| (bits ^ net.to_bits()) >> (128 - length) == 0)
                .map_or(AddressVerdict::Public, |(_, _, what)| {
                    AddressVerdict::Closed(what)
                })
        }
        [first, ..] if first & 0xfe00 == 0xfc00 => AddressVerdict::Closed("private"),
        [first, ..] if first & 0xffc0 == 0xfe80 => AddressVerdict::Closed("link-local"),
        [first, ..] if first & 0xff00 == 0xff00 => AddressVerdict::Closed("multicast"),
        _ => AddressVerdict::Closed("reserved"),
    }
}
