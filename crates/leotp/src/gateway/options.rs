//! The settings and counters of a gateway.

use super::control::LOST_NS;
use crate::core::Params;
use crate::rt::{InterceptOptions, RunError, Socket};
use std::net::IpAddr;
use std::time::Duration;

/// The gateway at the other end, for some destinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Destinations behind it: addresses and lengths of prefixes.
    pub prefixes: Vec<(IpAddr, u8)>,
    /// The gateway's address, which is the source of its own packets.
    pub address: IpAddr,
}

impl Peer {
    /// Returns how well a destination matches: the length of the longest prefix.
    pub(super) fn fits(&self, to: IpAddr) -> Option<u8> {
        let fit = |&(prefix, len)| fits(prefix, len, to).then_some(len);
        self.prefixes.iter().filter_map(fit).max()
    }
}

fn fits(prefix: IpAddr, len: u8, to: IpAddr) -> bool {
    let (a, b, bits) = match (prefix, to) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128u32),
        _ => return false,
    };
    let Some(beyond) = bits.checked_sub(u32::from(len)) else {
        return false;
    };
    let part = |x: u128| x.checked_shr(beyond).unwrap_or(0);
    part(a) == part(b)
}

/// How a gateway works.
#[derive(Debug, Clone)]
pub struct GatewayOptions {
    /// The connections to intercept; of these only connections to a peer's destinations are intercepted.
    pub intercept: InterceptOptions,
    /// The known gateways, each once; if several match, the longest prefix counts.
    pub peers: Vec<Peer>,
    /// Own address towards the peers; `None`: the kernel's choice.
    pub local: Option<IpAddr>,
    /// Own address as the peers know it, if it differs from the source address of packets (NAT).
    pub known_as: Option<IpAddr>,
    /// Secret that the gateways share: without it no other host can open or reset connections. Without a key a
    /// gateway does not start, unless `allow_no_key` is set.
    pub key: Option<[u8; 32]>,
    /// Whether to run without a key: any host that can send packets with a peer's address can then open
    /// connections from here to everywhere.
    pub allow_no_key: bool,
    /// Whether peers may open connections to this host itself: to loopback, and to its own addresses.
    pub allow_local: bool,
    /// Bytes of one direction that may wait for the network, and that may wait for TCP.
    pub buffer_bytes: u64,
    /// Largest number of connections at the same time.
    pub max_connections: usize,
    /// Largest number of connections of one client's address (for connections that a peer requests: of that
    /// peer, in total). The clients of one IPv6 /64 may have four times as many together.
    pub max_per_client: u32,
    /// The time after which a peer that confirms nothing is lost: its connections are reset.
    pub lost_after: Duration,
    /// Parameters of LEOTP.
    pub params: Params,
}

impl GatewayOptions {
    /// Returns the key, or zeros if none is needed.
    ///
    /// # Errors
    /// No key, or the publicly known key of zeros, unless that is allowed.
    pub(super) fn checked_key(&self) -> Result<[u8; 32], RunError> {
        match self.key {
            Some(key) if key != [0; 32] => Ok(key),
            Some(_) => Err(RunError::Options(String::from(
                "the key is all zeros, which everybody knows",
            ))),
            None if self.allow_no_key => Ok([0; 32]),
            None => Err(RunError::Options(String::from(
                "a gateway needs a key that its peers share: without one, every host that can send packets with a peer's \
                 address opens connections from here to everywhere",
            ))),
        }
    }

    /// Returns the destinations of the peers, for the rules that intercept connections: connections to other
    /// destinations pass unchanged.
    pub(super) fn destinations(&self) -> Vec<(IpAddr, u8)> {
        let all = self.peers.iter().flat_map(|peer| &peer.prefixes);
        let mut all: Vec<(IpAddr, u8)> = all.copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether a peer may call this gateway by the address `ip`.
    pub(super) fn is_called(&self, ip: IpAddr) -> bool {
        self.known_as == Some(ip) || self.local.map_or_else(|| is_here(ip), |local| local == ip)
    }

    /// Whether a peer may have a connection opened to `ip`.
    pub(super) fn may_open(&self, ip: IpAddr) -> bool {
        self.allow_local || !is_here(ip)
    }
}

/// Whether `ip` is this host: loopback, "any address", or an address of an interface.
fn is_here(ip: IpAddr) -> bool {
    // To an address of its own a host would send from that same address, and to no other.
    ip.is_loopback()
        || ip.is_unspecified()
        || Socket::source_for((ip, 9).into()).is_ok_and(|source| source == ip)
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            intercept: InterceptOptions {
                name: String::from("gateway"),
                ..InterceptOptions::default()
            },
            peers: Vec::new(),
            local: None,
            known_as: None,
            key: None,
            allow_no_key: false,
            allow_local: false,
            buffer_bytes: 4 << 20,
            max_connections: 1024,
            max_per_client: 256,
            lost_after: Duration::from_nanos(LOST_NS),
            params: Params::default(),
        }
    }
}

/// Counters of a gateway since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct GatewayStats {
    /// Connections intercepted from clients.
    pub taken: u64,
    /// Connections opened to servers.
    pub opened: u64,
    /// Connections refused because of a bound, or because the destination is this host
    /// itself.
    pub refused: u64,
    /// Datagrams from peers' addresses that are of another version of the gateways' protocol, or
    /// report one.
    pub other_version: u64,
    /// Connections to servers that failed.
    pub unanswered: u64,
    /// Connections that ended with a reset.
    pub reset: u64,
    /// Connections that ended in order.
    pub ended: u64,
    /// Bytes from TCP into flows.
    pub to_flows_bytes: u64,
    /// Bytes from flows into TCP.
    pub to_tcp_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn without_a_key_only_on_demand() {
        let with = |key, allow_no_key| {
            let o = GatewayOptions {
                key,
                allow_no_key,
                ..GatewayOptions::default()
            };
            o.checked_key().ok()
        };
        assert_eq!(with(None, false), None);
        assert_eq!(with(None, true), Some([0; 32]));
        assert_eq!(with(Some([1; 32]), false), Some([1; 32]));
        assert_eq!(with(Some([0; 32]), true), None);
    }

    #[test]
    fn this_host_is_no_destination() {
        let o = GatewayOptions::default();
        for own in ["127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::"] {
            let own = own.parse().unwrap();
            assert!(!o.may_open(own), "{own}");
        }
        // An address for documentation, which no host has.
        let other = "192.0.2.77".parse().unwrap();
        assert!(o.may_open(other) && !o.is_called(other));
        let o = GatewayOptions {
            allow_local: true,
            known_as: Some(other),
            local: Some([10, 0, 0, 1].into()),
            ..o
        };
        assert!(o.may_open(Ipv4Addr::LOCALHOST.into()));
        assert!(o.is_called(other) && o.is_called([10, 0, 0, 1].into()));
        assert!(!o.is_called(Ipv4Addr::LOCALHOST.into()), "bound to another");
    }

    #[test]
    fn the_longest_prefix_counts() {
        let peer = |prefix: &str, len| Peer {
            prefixes: vec![(prefix.parse().unwrap(), len)],
            address: Ipv4Addr::LOCALHOST.into(),
        };
        let to = |s: &str| s.parse::<IpAddr>().unwrap();
        assert_eq!(peer("10.1.0.0", 16).fits(to("10.1.2.3")), Some(16));
        assert_eq!(peer("10.1.0.0", 16).fits(to("10.2.2.3")), None);
        assert_eq!(peer("0.0.0.0", 0).fits(to("10.2.2.3")), Some(0));
        assert_eq!(peer("0.0.0.0", 0).fits(to("fd00::1")), None);
        assert_eq!(peer("fd00::", 8).fits(to("fd12::1")), Some(8));
        assert_eq!(peer("10.1.0.1", 32).fits(to("10.1.0.1")), Some(32));
        assert_eq!(peer("10.1.0.1", 33).fits(to("10.1.0.1")), None);
    }
}
