//! `routing`: how packets find their way.

use std::collections::BTreeMap;

use constel_units::{DataSize, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Name, NodeName};

/// How packets find their way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Routing")]
pub struct RawRouting {
    /// Who makes the routes. Default `computed`; left out when `daemon` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RoutingMode>,
    /// Which routing software runs in every node, instead of `mode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<Software>,
    /// Which routing protocol the daemons speak. Only with `daemon`; default `ospf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<RoutingProtocol>,
    /// Which Internet protocols the nodes speak.
    #[serde(default = "both_families")]
    #[schemars(length(min = 1, max = 2))]
    pub families: Vec<Family>,
    /// Autonomous systems, by name: each routes by itself with `protocol`, and BGP joins them over every cable
    /// between two of them, and over the ground links of stations whose satellites are another's. At least two, of which exactly one has no `nodes`: all others are its own. Only with
    /// daemons; default: one for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minProperties" = 2))]
    pub systems: Option<BTreeMap<Name, RawSystem>>,
    /// Which nodes can be reached. Only with `mode: computed`; default `ground`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destinations: Option<Destinations>,
    /// What makes a path short. Only with `mode: computed`; default `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// Most next hops of a route (equal-cost multipath): nodes share flows among neighbours that are equally
    /// many hops from the destination, by addresses, protocol and ports. Only with `metric: hops`; default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub paths: Option<u8>,
    /// A CSV file of which way packets take when, chosen beforehand: by a function in Python, by a controller of your own.
    /// Columns: `t_s` (lab time), `node`, `destination`, `next` (the neighbour that the node hands packets for the destination to; empty:
    /// nobody). A row holds until the next one of its node and destination. A route stands where its whole way does: each hop has a link at
    /// that time, and it arrives. Relative to the scenario file. Only with `mode: computed`, instead of `metric` and `paths`, without `reaction`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub choices: Option<String>,
    /// What forwards in the nodes. Only with `mode: computed`; default `tables`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarding: Option<Forwarding>,
    /// New path first, old link later: links that go stay this long after the routes lead round them, so that
    /// nothing on its way is lost; links that fail go at once all the same. Shorter than `step`. Only with
    /// `mode: computed`; default `0 s`: links go at once, routes follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 s"))]
    pub drain: Option<TimeSpan>,
    /// Orbit-aware link state: nodes forward by the sky as foreseen, and hear of failures by messages that spread hop by
    /// hop. Only with `mode: computed`; default: all nodes know of a failure at the step in which it happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reaction: Option<RawReaction>,
    /// Pairs of nodes with several paths that share no node but these two, by name. For each path both nodes get one more
    /// address, called `<node>.<pair>.<path>`, and routes to it stand along that path only. Only with `mode: computed`
    /// and without `reaction`; default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub disjoint: BTreeMap<Name, RawDisjoint>,
    /// Timers of OSPF. Only where daemons speak OSPF; default `{hello: 1 s, dead: 4 s}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ospf: Option<RawOspf>,
    /// Timers of the other protocols (IS-IS, Babel, BGP between autonomous systems). Default
    /// `{hello: 1 s, dead: 4 s}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timers: Option<RawTimers>,
    /// Bidirectional Forwarding Detection (RFC 5880) on every link. Only with daemons; default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bfd: Option<RawBfd>,
    /// Daemons that end are started again. Only with daemons; default: a dead daemon stays dead, and the run
    /// is not to be trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<RawRestart>,
    /// How fast daemons are started. Only with daemons; default `{load: 16, pace: 0 s, memory: 512 MiB}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<RawStart>,
    /// Whether daemons hear at once from their kernel what changes in interfaces, addresses and routes. The kernel
    /// offers each change to every listener of the host, so that thousands of daemons cost each other more than their
    /// protocol does. With `false` they look themselves, every minute; failures in a lab happen in the links,
    /// which no kernel notices. Only with BIRD; default `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_events: Option<bool>,
    /// Routes that do not stand so long after the links are up, daemons' start included, never will: the run ends.
    /// Only with daemons; default `120 s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "24 h"))]
    pub within: Option<TimeSpan>,
    /// A file with your own template of the daemons' configuration, in place of the one shipped (Jinja syntax).
    /// Only with daemons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

impl Default for RawRouting {
    fn default() -> Self {
        Self {
            mode: None,
            daemon: None,
            protocol: None,
            systems: None,
            families: both_families(),
            destinations: None,
            metric: None,
            paths: None,
            choices: None,
            forwarding: None,
            drain: None,
            reaction: None,
            disjoint: BTreeMap::new(),
            ospf: None,
            timers: None,
            bfd: None,
            restart: None,
            start: None,
            kernel_events: None,
            within: None,
            template: None,
        }
    }
}

fn both_families() -> Vec<Family> {
    vec![Family::Ipv4, Family::Ipv6]
}

/// Who makes the routes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[schemars(extend("x-instead" = {
    "ospf": "protocols are spoken by daemons: in place of `mode`, write `daemon: bird` or `daemon: frr` with `protocol: ospf`",
    "isis": "protocols are spoken by daemons: in place of `mode`, write `daemon: frr` with `protocol: isis`",
    "babel": "protocols are spoken by daemons: in place of `mode`, write `daemon: bird` with `protocol: babel`",
    "bgp": "BGP joins autonomous systems: in place of `mode`, write `daemon: bird` or `daemon: frr` with `systems`",
    "frr": "in place of `mode`, write `daemon: frr`",
}))]
pub enum RoutingMode {
    /// Constel: shortest paths, written into the kernels at every step.
    #[default]
    Computed,
    /// BIRD in every node: OSPFv2 for IPv4, OSPFv3 for IPv6. Short for `daemon: bird`.
    Bird,
    /// Nobody: addresses but no routes.
    None,
}

/// What makes a path short.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Its delay.
    #[default]
    Delay,
    /// How many hops it has; among equals, its delay.
    Hops,
}

/// What forwards in the nodes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Forwarding {
    /// Each node's kernel, by its own table.
    #[default]
    Tables,
    /// One program at all ports, by one map that all nodes share: faster, and changed at once. What is not plain
    /// transit the kernels forward by their tables, which follow. Firewall rules of a node do not see its transit.
    Map,
}

/// Routing software.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Software {
    /// BIRD 2: one process a node. Speaks `ospf` and `babel`.
    Bird,
    /// FRRouting: zebra and one process per protocol in every node. Speaks `ospf` and `isis`. But
    /// for `ospf` over IPv4, a satellite must serve one station at a time: `gsl.beams: 1`.
    Frr,
}

/// A routing protocol within an autonomous system.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RoutingProtocol {
    /// OSPFv2 for IPv4 (RFC 2328), OSPFv3 for IPv6 (RFC 5340).
    #[default]
    Ospf,
    /// IS-IS, level 2, wide metrics, both families in one topology (RFC 1195, RFC 5308).
    Isis,
    /// OpenFabric, a cut-down IS-IS for dense fabrics. Refused: with FRR 8.4.4 routes never stood.
    Openfabric,
    /// Babel (RFC 8966).
    Babel,
}

/// An Internet protocol.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// Which nodes can be reached.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Destinations {
    /// Ground stations. Satellites forward but are no destinations: far fewer routes.
    #[default]
    Ground,
    /// Every node.
    All,
}

/// How nodes hear of what nobody foresaw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Reaction")]
pub struct RawReaction {
    /// From a failure or repair until the nodes at the link's ends notice.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 h"))]
    pub detect: TimeSpan,
    /// From hearing a message until it is sent on and the node's routes follow.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 h"))]
    pub processing: TimeSpan,
    /// Messages end so many hops from where they began. Nodes beyond forward as foreseen, which can make loops. Default:
    /// they reach everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub reach: Option<u8>,
}

/// Two nodes with several disjoint paths between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Disjoint")]
pub struct RawDisjoint {
    /// The two nodes; each can be a destination.
    #[schemars(length(min = 2, max = 2))]
    pub between: Vec<NodeName>,
    /// How many paths: at every step those of least total delay, path 1 the shortest.
    /// Where there are fewer, the last ones lead nowhere.
    #[schemars(range(min = 2, max = 8))]
    pub paths: u8,
}

/// An autonomous system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "System")]
pub struct RawSystem {
    /// Its number, unlike all others'.
    #[schemars(range(min = 1, max = 4_294_967_294u32))]
    pub asn: u32,
    /// Its hosts and stations. Left out in the one system to which all other nodes belong, satellites among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub nodes: Option<Vec<Name>>,
    /// Its route reflectors (RFC 4456): its border routers then talk to these instead of to each other.
    #[serde(default)]
    pub reflectors: Vec<Name>,
}

/// Timers of OSPF, whole seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Ospf")]
pub struct RawOspf {
    /// Time between two hello packets.
    #[serde(default = "one_second")]
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "65535 s"))]
    pub hello: TimeSpan,
    /// A neighbour not heard for so long is dead. More than `hello`.
    #[serde(default = "four_seconds")]
    #[schemars(extend("x-minimum" = "2 s", "x-maximum" = "65535 s"))]
    pub dead: TimeSpan,
    /// An unacknowledged packet is sent again after so long. Longer than any link's round trip.
    #[serde(default = "two_seconds")]
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "65535 s"))]
    pub retransmit: TimeSpan,
    /// By how long BIRD gathers changes before it calculates routes. FRR holds a calculation back by up to so long
    /// while changes follow each other, and an LSA by a tenth of it; at most 50 s there.
    #[serde(default = "one_second")]
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "65535 s"))]
    pub tick: TimeSpan,
    /// Other timers for ground links, whose handovers are repaired when their dead time ends; default: the same
    /// as those of lasers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ground: Option<RawGroundTimers>,
    /// Cuts every shell into areas: groups of neighbouring planes, totally stubby, and two rows of satellites
    /// through all planes as their backbone. Shells are then networks of their own, joined by stations that are
    /// gateways. Only with `daemon: bird`; several shells stand neither beside cables nor `systems`; default: one area for
    /// everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub areas: Option<RawAreas>,
}

impl Default for RawOspf {
    fn default() -> Self {
        Self {
            hello: one_second(),
            dead: four_seconds(),
            retransmit: two_seconds(),
            tick: one_second(),
            ground: None,
            areas: None,
        }
    }
}

/// Timers of OSPF on ground links, whole seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GroundTimers")]
pub struct RawGroundTimers {
    /// Time between two hello packets.
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "65535 s"))]
    pub hello: TimeSpan,
    /// A neighbour not heard for so long is dead. More than `hello`.
    #[schemars(extend("x-minimum" = "2 s", "x-maximum" = "65535 s"))]
    pub dead: TimeSpan,
    /// An unacknowledged packet is sent again after so long.
    #[serde(default = "two_seconds")]
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "65535 s"))]
    pub retransmit: TimeSpan,
}

/// How large OSPF's areas are; one of the two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Areas")]
pub struct RawAreas {
    /// So many planes at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub planes: Option<u16>,
    /// As many planes as have so many satellites at most, but no less than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub satellites: Option<u32>,
}

/// How fast daemons are started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Start")]
pub struct RawStart {
    /// The next daemon is started when no more tasks than this, for each processor, run or wait for it: those
    /// started before have done what they had to do for now. Other programs count, but hold it up by no more
    /// than 50 ms each time.
    #[serde(default = "sixteen")]
    #[schemars(range(min = 1, max = 100_000))]
    pub load: u32,
    /// At least so long between two starts. What a daemon has to do comes later than its start, when hellos have gone
    /// both ways: those that are started faster than the machine can serve them then all do it at once.
    #[serde(default = "at_once")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "60 s"))]
    pub pace: TimeSpan,
    /// So much memory stays free, or the run ends.
    #[serde(default = "half_a_gib")]
    pub memory: DataSize,
}

impl Default for RawStart {
    fn default() -> Self {
        Self {
            load: sixteen(),
            pace: at_once(),
            memory: half_a_gib(),
        }
    }
}

fn at_once() -> TimeSpan {
    TimeSpan::from_ns(0)
}

fn sixteen() -> u32 {
    16
}

fn half_a_gib() -> DataSize {
    DataSize::from_bytes(512 << 20)
}

fn two_seconds() -> TimeSpan {
    TimeSpan::from_ns(2_000_000_000)
}

/// Timers of protocols other than OSPF, whole seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Timers")]
pub struct RawTimers {
    /// Time between two hello packets; keepalives of BGP.
    #[serde(default = "one_second")]
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "600 s"))]
    pub hello: TimeSpan,
    /// A neighbour not heard for so long is dead; a whole multiple of `hello`, at least twice as long. Babel
    /// decides by the hellos themselves and takes no such time.
    #[serde(default = "four_seconds")]
    #[schemars(extend("x-minimum" = "2 s", "x-maximum" = "6000 s"))]
    pub dead: TimeSpan,
}

impl Default for RawTimers {
    fn default() -> Self {
        Self {
            hello: one_second(),
            dead: four_seconds(),
        }
    }
}

/// Bidirectional Forwarding Detection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Bfd")]
pub struct RawBfd {
    /// Time between two packets, both ways.
    #[serde(default = "bfd_interval")]
    #[schemars(extend("x-minimum" = "10 ms", "x-maximum" = "60 s"))]
    pub interval: TimeSpan,
    /// How many may be missing.
    #[serde(default = "bfd_multiplier")]
    #[schemars(range(min = 2, max = 255))]
    pub multiplier: u8,
}

fn bfd_interval() -> TimeSpan {
    TimeSpan::from_ns(300_000_000)
}

fn bfd_multiplier() -> u8 {
    3
}

/// How daemons that end are started again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Restart")]
pub struct RawRestart {
    /// Wait before the first start; twice as long before each that follows.
    #[serde(default = "one_second")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 h"))]
    pub after: TimeSpan,
    /// Longest wait. A daemon that has run for so long counts as sound: the next wait is `after` again.
    #[serde(default = "thirty_seconds")]
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "1 h"))]
    pub at_most: TimeSpan,
}

fn thirty_seconds() -> TimeSpan {
    TimeSpan::from_ns(30_000_000_000)
}

fn one_second() -> TimeSpan {
    TimeSpan::from_ns(1_000_000_000)
}

fn four_seconds() -> TimeSpan {
    TimeSpan::from_ns(4_000_000_000)
}
