//! Conditions of a rule on a frame.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::rules::head::Head;
use crate::rules::interface::Interface;
use crate::rules::prefix::Prefix;
use crate::rules::rule::Direction;

/// Conditions of a rule on a frame. One entry of each list must match; an empty list matches everything. A field that a
/// frame does not have (a port of ARP) is matched by an empty list only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Match {
    /// Interface at which it came in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input: Vec<Interface>,
    /// Interface at which it goes out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<Interface>,
    /// Source address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub src: Vec<Prefix>,
    /// Destination address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dst: Vec<Prefix>,
    /// Protocol of IP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protocol: Vec<u8>,
    /// Source port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sport: Vec<RangeInclusive<u16>>,
    /// Destination port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dport: Vec<RangeInclusive<u16>>,
    /// DSCP or complete traffic class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class: Vec<TrafficClass>,
    /// VLAN of the outermost tag.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vlan: Vec<Vlan>,
    /// Source or destination address of Ethernet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mac: Vec<[u8; 6]>,
    /// Source address of Ethernet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub smac: Vec<[u8; 6]>,
    /// Destination address of Ethernet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dmac: Vec<[u8; 6]>,
    /// EtherType, behind one VLAN tag.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ethertype: Vec<u16>,
}

/// Traffic classes: all with the same DSCP, or a single one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrafficClass {
    /// The upper six bits, 0 to 63.
    Dscp(u8),
    /// All eight bits, including ECN's.
    Whole(u8),
}

impl TrafficClass {
    /// Returns the range of traffic classes.
    #[must_use]
    pub fn range(self) -> RangeInclusive<u8> {
        match self {
            // The two lowest bits are ECN, which a DSCP leaves open (RFC 3168, section 5).
            TrafficClass::Dscp(dscp) => dscp << 2..=dscp << 2 | 3,
            TrafficClass::Whole(class) => class..=class,
        }
    }
}

/// A VLAN, or frames without a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vlan {
    /// Frames without a tag.
    Untagged,
    /// The VLAN with this number, 0 to 4,095.
    Id(u16),
}

fn any<T>(wanted: &[T], takes: impl FnMut(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(takes)
}

impl Match {
    /// Returns whether the frame matches. [`Classifier`](crate::rules::Classifier) gives the same result for many rules
    /// at once.
    #[must_use]
    pub fn takes(&self, head: &Head) -> bool {
        let ip = head.ip.as_ref();
        let address = |wanted: &[Prefix], of: Option<IpAddr>| {
            any(wanted, |prefix| of.is_some_and(|of| prefix.contains(of)))
        };
        let port = |wanted: &[RangeInclusive<u16>], of: Option<u16>| {
            any(wanted, |range| of.is_some_and(|of| range.contains(&of)))
        };
        let mac = |wanted: &[[u8; 6]], of: [u8; 6]| any(wanted, |mac| *mac == of);
        let interface = |wanted: &[Interface], of| any(wanted, |one| Some(*one) == of);
        interface(&self.input, head.input)
            && interface(&self.output, head.output)
            && address(&self.src, ip.map(|ip| ip.src))
            && address(&self.dst, ip.map(|ip| ip.dst))
            && any(&self.protocol, |p| ip.is_some_and(|ip| ip.protocol == *p))
            && port(&self.sport, head.ports.map(|ports| ports.0))
            && port(&self.dport, head.ports.map(|ports| ports.1))
            && any(&self.class, |c| {
                ip.is_some_and(|ip| c.range().contains(&ip.class))
            })
            && any(&self.vlan, |vlan| match vlan {
                Vlan::Untagged => head.vlan.is_none(),
                Vlan::Id(id) => head.vlan == Some(*id),
            })
            // `mac` is either end; an empty list is true for both.
            && (mac(&self.mac, head.smac) || mac(&self.mac, head.dmac))
            && mac(&self.smac, head.smac)
            && mac(&self.dmac, head.dmac)
            && any(&self.ethertype, |kind| *kind == head.ethertype)
    }

    /// Returns the match for frames of a direction. A rule is written for frames that go forward, so in reverse source
    /// and destination are exchanged.
    #[must_use]
    pub fn seen(&self, direction: Direction) -> Match {
        let mut seen = self.clone();
        if direction == Direction::Reverse {
            // A rule describes forward frames. In the reverse direction source and destination have changed places.
            std::mem::swap(&mut seen.input, &mut seen.output);
            std::mem::swap(&mut seen.src, &mut seen.dst);
            std::mem::swap(&mut seen.sport, &mut seen.dport);
            std::mem::swap(&mut seen.smac, &mut seen.dmac);
        }
        // The other conditions do not depend on the direction.
        seen
    }
}
