//! What a gateway is told, and what it counts.

use crate::core::Params;
use crate::rt::InterceptOptions;
use std::net::IpAddr;

/// The gateway at the other end, for some destinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Destinations behind it: addresses and lengths of prefixes.
    pub prefixes: Vec<(IpAddr, u8)>,
    /// Its address, which its own packets have as source.
    pub address: IpAddr,
}

impl Peer {
    /// How well a destination fits: the length of the longest prefix.
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
    /// Which connections it takes.
    pub intercept: InterceptOptions,
    /// The gateways it knows, each once; of several that fit, the longest prefix counts.
    pub peers: Vec<Peer>,
    /// Own address towards the peers; `None`: the kernel's choice.
    pub local: Option<IpAddr>,
    /// Secret that the gateways share; all zeros is none.
    pub key: [u8; 32],
    /// Bytes of one direction that may wait for the network, and that may wait for TCP.
    pub buffer_bytes: u64,
    /// Connections at the same time, at most.
    pub max_connections: usize,
    /// Of one client's address (of one peer, for those that it asks for: all).
    pub max_per_client: usize,
    /// Parameters of LEOTP.
    pub params: Params,
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
            key: [0; 32],
            buffer_bytes: 4 << 20,
            max_connections: 1024,
            max_per_client: 256,
            params: Params::default(),
        }
    }
}

/// What a gateway has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct GatewayStats {
    /// Connections taken from clients.
    pub taken: u64,
    /// Connections opened to servers.
    pub opened: u64,
    /// Connections refused because of a bound, or because no peer has the destination.
    pub refused: u64,
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
