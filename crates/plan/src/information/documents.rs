//! The documents as types. Their doc comments are the schema's descriptions.

use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `node.json`: identity of the node. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Version of all documents here.
    pub version: u32,
    /// The lab.
    pub lab: String,
    /// Its name.
    pub name: String,
    /// Number in the lab, from 0.
    pub number: u32,
    /// `satellite`, `ground` or `host`.
    pub class: String,
    /// For a satellite: its shell, plane and slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<Seat>,
    /// For a satellite of an element file or ephemeris: its name there, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogue_name: Option<String>,
    /// For a satellite of an element file: its catalogue number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norad_id: Option<u64>,
    /// IPv4 address of the node itself, on `lo`. Absent if the lab has no IPv4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address of the node itself, on `lo`. Absent if the lab has no IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6Addr>,
    /// UTC at lab time zero, RFC 3339.
    pub start: String,
    /// Time between two topologies, nanoseconds.
    pub step_ns: u64,
    /// The scenario's seed.
    pub seed: u64,
}

/// A satellite's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Seat {
    /// Name of the constellation.
    pub constellation: String,
    /// Number of the shell in it, from 0.
    pub shell: u16,
    /// Number of the plane in the shell, from 0.
    pub plane: u16,
    /// Number of the satellite in the plane, from 0, in the direction of flight.
    pub slot: u16,
}

/// `ports.json`: the node's interfaces. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ports {
    /// Version of all documents here.
    pub version: u32,
    /// In the order of their indexes.
    pub ports: Vec<Port>,
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Port {
    /// Name in the node: `isl0`, `gsl0`, `eth0`, ...
    pub name: String,
    /// Interface index in the node.
    pub ifindex: u32,
    /// `isl`, `gsl`, `cable`, or a network's.
    pub kind: String,
    /// `point-to-point`: one far end at most, ever; `served`: several, which come and go.
    pub medium: String,
    /// MAC address.
    pub mac: String,
    /// MTU: largest packet, bytes above Ethernet.
    pub mtu_bytes: u32,
    /// IPv4 address and prefix length. Absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<String>,
    /// Link-local IPv6 address. Absent if the lab has no IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6_link_local: Option<Ipv6Addr>,
    /// For a laser, its direction: `fore`, `aft`, `east`, `west` or `cross`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub laser: Option<String>,
    /// OSPF area of the port's link by the scenario's `areas`. Absent without `areas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area: Option<u16>,
}

/// `peers.json`: the neighbours of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Peers {
    /// Version of all documents here.
    pub version: u32,
    /// Rises with every change of the node's links.
    pub revision: u64,
    /// Lab time since which it is so, nanoseconds; 0 until lab time runs.
    pub t_ns: u64,
    /// By port, then by the far node's number.
    pub peers: Vec<Peer>,
}

/// The far end of one of the node's links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Peer {
    /// The node's own port.
    pub port: String,
    /// The far node.
    pub node: String,
    /// `satellite`, `ground` or `host`.
    pub class: String,
    /// IPv4 address of the far node itself. Absent if the lab has no IPv4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address of the far node itself. Absent if the lab has no IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6Addr>,
    /// The far port.
    pub far: End,
}

/// A port at the other end of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct End {
    /// Its name.
    pub port: String,
    /// MAC address.
    pub mac: String,
    /// IPv4 address. Absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Ipv4Addr>,
    /// Link-local IPv6 address. Absent if the lab has no IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6_link_local: Option<Ipv6Addr>,
}

/// `topology.json`: nodes and links within the node's scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Topology {
    /// Version of all documents here.
    pub version: u32,
    /// How much of the topology it is.
    pub scope: Scope,
    /// Rises with every change of it.
    pub revision: u64,
    /// Lab time since which it is so, nanoseconds; 0 until lab time runs.
    pub t_ns: u64,
    /// By number.
    pub nodes: Vec<TopologyNode>,
    /// Links that are up.
    pub links: Vec<Link>,
}

/// The part of the topology that a node receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The node, its neighbours, and the links to them.
    Neighbourhood,
    /// All nodes and links of the lab.
    All,
}

/// A node of a topology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyNode {
    /// Its name.
    pub name: String,
    /// `satellite`, `ground` or `host`.
    pub class: String,
    /// IPv4 address of the node itself. Absent if the lab has no IPv4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address of the node itself. Absent if the lab has no IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6Addr>,
}

/// A link of a topology; `a` has the lower number of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// One end's node.
    pub a: String,
    /// Its port.
    pub a_port: String,
    /// The other end's node.
    pub b: String,
    /// Its port.
    pub b_port: String,
    /// `isl`, `gsl`, `cable`, or a network's.
    pub kind: String,
}

/// `orbit.json`: the positions of the node, or of all nodes, from now on. Only with `ahead`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Orbit {
    /// Version of all documents here.
    pub version: u32,
    /// Whether it is about the node alone, or about all nodes of the lab.
    pub scope: Scope,
    /// Rises with each new document.
    pub revision: u64,
    /// Lab time at which it was written, nanoseconds.
    pub t_ns: u64,
    /// Lab time until which it looks ahead, nanoseconds.
    pub to_ns: u64,
    /// Time between two positions, nanoseconds.
    pub every_ns: u64,
    /// By number.
    pub nodes: Vec<Track>,
}

/// The positions of a node over time. Between two positions 5 s apart, a straight line differs from a low orbit by 26 m at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Track {
    /// The node.
    pub node: String,
    /// `satellite`, `ground` or `host`.
    pub class: String,
    /// In order of time; the first may be before the document's time.
    pub places: Vec<Place>,
}

/// A position at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Lab time, nanoseconds.
    pub t_ns: u64,
    /// Position in the frame that turns with the Earth (ITRF), metres.
    pub itrf_m: [f64; 3],
}

/// `contacts.json`: the links of the node, or of all nodes, that are and will be. Only with `ahead`. Failures are not foreseen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contacts {
    /// Version of all documents here.
    pub version: u32,
    /// Whether it is about the node's links, or about all links of the lab.
    pub scope: Scope,
    /// Rises with each new document.
    pub revision: u64,
    /// Lab time at which it was written, nanoseconds.
    pub t_ns: u64,
    /// Lab time until which it looks ahead, nanoseconds.
    pub to_ns: u64,
    /// In order of their beginning, then of their ports.
    pub contacts: Vec<ComingContact>,
}

/// A time in which a link carries frames; `a` has the lower port number of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComingContact {
    /// One end's node.
    pub a: String,
    /// Its port.
    pub a_port: String,
    /// The other end's node.
    pub b: String,
    /// Its port.
    pub b_port: String,
    /// `isl`, `gsl`, `cable`, or a network's.
    pub kind: String,
    /// Lab time of its beginning, nanoseconds; before the document's time if it is in progress.
    pub from_ns: u64,
    /// Lab time of its end, nanoseconds, not part of it; absent if it goes on beyond the time that is foreseen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_ns: Option<u64>,
    /// Least delay of one direction, nanoseconds, as far as it is foreseen.
    pub delay_min_ns: u64,
    /// Greatest delay of one direction, nanoseconds.
    pub delay_max_ns: u64,
}

/// A line of `events`: an event for the node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Number of the event, from 1 without gaps, so that a reader notices missed events.
    pub seq: u64,
    /// Lab time, nanoseconds; absent before lab time runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_ns: Option<u64>,
    /// The event. The `kind` and the fields of the event are beside the other fields.
    #[serde(flatten)]
    pub what: InformationEvent,
}

/// The events for a node, by `kind`. The files already contain the change when the event arrives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum InformationEvent {
    /// Links of the node appeared or disappeared: `peers.json` and, of the neighbourhood, `topology.json` are new.
    Peers {
        /// Of `peers.json`.
        revision: u64,
        /// Links that appeared.
        added: Vec<LinkEnd>,
        /// Links that disappeared.
        removed: Vec<LinkEnd>,
    },
    /// Links of the lab appeared or disappeared, and `topology.json` is new. Only sent to nodes that receive the whole
    /// topology.
    Topology {
        /// Of `topology.json`.
        revision: u64,
    },
    /// `orbit.json` and `contacts.json` are new: a part of the time that they looked ahead has passed.
    Ahead {
        /// Of both.
        revision: u64,
    },
    /// A file of `user` is new, or another.
    User {
        /// Its name.
        name: String,
    },
    /// A file of `user` is gone.
    UserGone {
        /// Its name.
        name: String,
    },
    /// Data that a user sent to the node by `constel info send`. It is in no file.
    Command {
        /// Anything.
        data: serde_json::Value,
    },
    /// Lab time runs.
    Clock {
        /// Lab time zero by the machine's `CLOCK_MONOTONIC`, nanoseconds.
        zero_ns: u64,
    },
    /// The lab is being taken down.
    Stopping,
}

/// An end of a link, as the node knows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct LinkEnd {
    /// The node's own port.
    pub port: String,
    /// The far node.
    pub node: String,
}
