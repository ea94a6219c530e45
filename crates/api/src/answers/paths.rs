//! Routes, and where they lead.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Catalogued;

/// To [`Read::Routes`](crate::Read::Routes): the main table of a node's kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Routes {
    /// The node.
    pub node: String,
    /// Sorted by destination.
    pub routes: Vec<Route>,
    /// Lab time, nanoseconds; `None` while the clock is held.
    pub t_ns: Option<u64>,
    /// Catalogue names of the satellites named above. Absent if none is from a catalogue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub catalogued: Vec<Catalogued>,
}

/// One route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// The prefix, as `10.0.0.2/32`.
    pub destination: String,
    /// The node with this address. `null` for wider prefixes and for addresses of no node.
    pub to: Option<String>,
    /// `unicast`, `unreachable` or `blackhole`.
    pub kind: String,
    /// Next hops. Empty unless `unicast`.
    pub hops: Vec<NextHop>,
    /// Source address of the node's own packets, if the route has one.
    pub source: Option<IpAddr>,
    /// The kernel's priority: the least wins.
    pub metric: u32,
    /// Origin of the route: `bird`, `zebra`, `kernel`; `constel` for computed routes; otherwise the kernel's number.
    pub protocol: String,
}

/// A next hop of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextHop {
    /// The address they are handed to.
    pub gateway: Option<IpAddr>,
    /// The node's port they leave by.
    pub port: Option<String>,
    /// The node with the gateway's address.
    pub via: Option<String>,
}

/// To [`Read::Path`](crate::Read::Path).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Paths {
    /// Source node.
    pub from: String,
    /// Destination: the node, or the ends of disjoint paths, as requested.
    pub to: String,
    /// Lab time of the edges walked over, nanoseconds.
    pub t_ns: u64,
    /// By the kernels' tables: one for each family, and each of several disjoint paths.
    pub kernel: Vec<Walked>,
    /// The path of minimum delay over the present edges. `null` if no path exists.
    pub optimum: Option<Optimum>,
    /// Lab time of the tables, nanoseconds.
    pub tables_t_ns: u64,
    /// Catalogue names of the satellites named above. Absent if none is from a catalogue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub catalogued: Vec<Catalogued>,
}

impl Paths {
    /// The first of the walks that does not arrive.
    #[must_use]
    pub fn lost(&self) -> Option<&Walked> {
        self.kernel.iter().find(|walked| !walked.arrived)
    }
}

/// A walk by the kernels' tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Walked {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// The address that packets are sent to.
    pub address: IpAddr,
    /// Whether they arrive.
    pub arrived: bool,
    /// The end of the path, as text for users.
    pub end: String,
    /// One-way delay, nanoseconds. `null` if packets do not arrive.
    pub delay_ns: Option<u64>,
    /// The nodes of the path, as far as it leads.
    pub hops: Vec<Hop>,
    /// Number of the disjoint path, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<u8>,
}

/// The path of minimum delay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Optimum {
    /// One-way delay, nanoseconds.
    pub delay_ns: u64,
    /// The nodes of the path.
    pub hops: Vec<Hop>,
}

/// From one node to the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// The node.
    pub from: String,
    /// Its port.
    pub from_port: String,
    /// The next node.
    pub to: String,
    /// That node's port.
    pub to_port: String,
    /// Delay of the edge between them, nanoseconds.
    pub delay_ns: u64,
    /// How many next hops the route has; the first was followed.
    #[serde(default = "one")]
    pub next_hops: u8,
}

fn one() -> u8 {
    1
}
