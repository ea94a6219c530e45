//! The transport and the addresses of frames between machines.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::underlay::frame::OVERHEAD_BYTES;
use crate::underlay::seal::TAG_BYTES;

/// The transport of frames between machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachineTransport {
    /// UDP: works over any IP network. Frames longer than the MTU are fragmented.
    Udp,
    /// Ethernet without IP: works within one segment, and never fragments.
    Ethernet,
}

/// The EtherType of raw frames: the second one that IEEE 802 reserves for local experiments.
pub const ETHER_TYPE: u16 = 0x88b6;

/// The headers of IP and UDP.
const UDP_V4_BYTES: usize = 20 + 8;
const UDP_V6_BYTES: usize = 40 + 8;

impl MachineTransport {
    /// Returns the transport as in JSON and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Ethernet => "ethernet",
        }
    }

    /// Returns the MTU that an interface needs so that frames of `frame_bytes` bytes (with their Ethernet header) are not
    /// fragmented. `is_v6` selects IPv6 for UDP.
    #[must_use]
    pub fn mtu_for(self, frame_bytes: usize, sealed: bool, is_v6: bool) -> usize {
        let tag = if sealed { TAG_BYTES } else { 0 };
        let headers = match (self, is_v6) {
            (Self::Udp, false) => UDP_V4_BYTES,
            (Self::Udp, true) => UDP_V6_BYTES,
            (Self::Ethernet, _) => 0,
        };
        frame_bytes + OVERHEAD_BYTES + tag + headers
    }
}

/// A destination of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Endpoint {
    /// Address and port of a UDP socket.
    Udp(SocketAddr),
    /// Address of an interface on the machines' Ethernet.
    Ethernet([u8; 6]),
}

impl Endpoint {
    /// Returns the transport that reaches it.
    #[must_use]
    pub fn transport(self) -> MachineTransport {
        match self {
            Self::Udp(_) => MachineTransport::Udp,
            Self::Ethernet(_) => MachineTransport::Ethernet,
        }
    }

    /// Returns whether both are the same destination. An IPv6 address has further fields, which do not matter here.
    #[must_use]
    pub fn is_at(self, other: Self) -> bool {
        match (self, other) {
            (Self::Udp(a), Self::Udp(b)) => (a.ip(), a.port()) == (b.ip(), b.port()),
            (a, b) => a == b,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) => address.fmt(f),
            Self::Ethernet(mac) => f.write_str(&constel_link::rules::words::mac_text(*mac)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart_and_shown() {
        let ethernet = Endpoint::Ethernet([2, 0, 0, 0, 0xab, 1]);
        assert_eq!(ethernet.to_string(), "02:00:00:00:ab:01");
        let udp = |text: &str| Endpoint::Udp(text.parse().unwrap());
        let [plain, scoped] = ["[fd00::1]:7", "[fd00::1%3]:7"].map(udp);
        assert!(plain.is_at(scoped) && !plain.is_at(ethernet));
        assert!(!plain.is_at(udp("[fd00::1]:8")));
        assert!(ethernet.is_at(ethernet));
    }

    #[test]
    fn what_an_interface_needs_is_the_frame_and_what_is_around_it() {
        assert_eq!(
            MachineTransport::Ethernet.mtu_for(1_514, false, false),
            1_558
        );
        assert_eq!(
            MachineTransport::Ethernet.mtu_for(1_514, true, false),
            1_574
        );
        assert_eq!(MachineTransport::Udp.mtu_for(1_514, false, false), 1_586);
        assert_eq!(MachineTransport::Udp.mtu_for(1_514, false, true), 1_606);
    }
}
