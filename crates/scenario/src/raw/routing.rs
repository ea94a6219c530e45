//! `routing`: routing of packets.

use std::collections::BTreeMap;

use constel_units::{DataSize, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Name, NodeName};

/// Routing of packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Routing")]
pub struct RawRouting {
    /// The source of the routes. Default `computed`; left out when `daemon` is given.
    pub mode: Option<RoutingMode>,
    /// The routing software that runs in every node, instead of `mode`.
    pub daemon: Option<Software>,
    /// The routing protocol of the daemons. Only with `daemon`; default `ospf`.
    pub protocol: Option<RoutingProtocol>,
    /// The Internet protocols of the nodes.
    #[serde(default = "both_families")]
    #[schemars(length(min = 1, max = 2))]
    pub families: Vec<Family>,
    /// Autonomous systems, by name: each routes by itself with `protocol`. BGP joins them over every cable
    /// between two of them, and over the ground links of stations whose satellites belong to another system. At
    /// least two, of which exactly one has no `nodes`: all other nodes belong to it. Only with daemons;
    /// default: one for all.
    #[schemars(extend("minProperties" = 2))]
    pub systems: Option<BTreeMap<Name, RawSystem>>,
    /// The nodes that routes lead to. Only with `mode: computed`; default `ground`.
    pub destinations: Option<Destinations>,
    /// The metric of a path's length. Only with `mode: computed`; default `delay`.
    pub metric: Option<Metric>,
    /// Most next hops of a route (equal-cost multipath): nodes distribute flows among neighbours with the same
    /// number of hops to the destination, by addresses, protocol and ports. Only with `metric: hops`; default
    /// 1.
    #[schemars(range(min = 1, max = 16))]
    pub paths: Option<u8>,
    /// A CSV file of routes chosen beforehand, by a Python function or by your own controller. Columns: `t_s`
    /// (lab time), `node`, `destination`, `next` (the neighbour that receives the node's packets for the
    /// destination; empty: the packets are dropped). A row holds until the next one of its node and
    /// destination. A route exists while its whole path does: each hop has a link at that time, and the path
    /// reaches the destination. Relative to the scenario file. Only with `mode: computed`, instead of `metric`
    /// and `paths`, without `reaction`.
    #[schemars(length(min = 1))]
    pub choices: Option<String>,
    /// The forwarding engine of the nodes. Only with `mode: computed`; default `tables`.
    pub forwarding: Option<Forwarding>,
    /// Links that go down stay up this long after the routes have left them, so that no packet in transit is
    /// lost. Links that fail go down at once all the same. Shorter than `step`.
    /// Only with `mode: computed`; default `0 s`: links go down at once, routes follow.
    #[schemars(extend("x-minimum" = "0 s"))]
    pub drain: Option<TimeSpan>,
    /// Orbit-aware link state: nodes forward by the predicted sky, and learn of failures by messages that
    /// spread hop by hop. Only with `mode: computed`; default: all nodes know of a failure at the step in which
    /// it happens.
    pub reaction: Option<Reaction>,
    /// Pairs of nodes with several paths that share no node but these two, by name. For each path both nodes
    /// get one more address, named `<node>.<pair>.<path>`, and routes to it follow that path only. Only with
    /// `mode: computed` and without `reaction`; default: none.
    #[serde(default)]
    pub disjoint: BTreeMap<Name, RawDisjoint>,
    /// Timers of OSPF. Only with OSPF daemons; default `{hello: 1 s, dead: 4 s}`.
    pub ospf: Option<RawOspf>,
    /// Timers of the other protocols (IS-IS, Babel, BGP between autonomous systems). Default
    /// `{hello: 1 s, dead: 4 s}`.
    pub timers: Option<RawTimers>,
    /// Bidirectional Forwarding Detection (RFC 5880) on every link. Only with daemons; default: none.
    pub bfd: Option<Bfd>,
    /// Whether daemons that end are started again. Only with daemons; default: a dead daemon stays dead, and
    /// the run is not trustworthy.
    pub restart: Option<Restart>,
    /// How fast daemons are started. Only with daemons; default `{load: 16, pace: 0 s, memory: 512 MiB}`.
    pub start: Option<Start>,
    /// Whether the kernel notifies daemons at once of changes of interfaces, addresses and routes. The kernel
    /// offers each change to every listener of the host, so that thousands of daemons cost each other more than
    /// their protocol does. With `false` daemons poll every minute; failures in a lab happen in the links,
    /// which no kernel notices. Only with BIRD; default `true`.
    pub kernel_events: Option<bool>,
    /// The longest convergence time of the routes, from when the links are up, daemons' start included: if
    /// routes have not converged by then, the run ends. Only with daemons; default `120 s`.
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "24 h"))]
    pub within: Option<TimeSpan>,
    /// A file with your own template of the daemons' configuration, which replaces the supplied one (Jinja
    /// syntax). Only with daemons.
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

/// The source of the routes.
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
    /// No routing: addresses but no routes.
    None,
}

/// The metric of a path's length.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Its delay.
    #[default]
    Delay,
    /// Number of hops; among equals, delay.
    Hops,
}

/// The forwarding engine of the nodes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Forwarding {
    /// Each node's kernel, by its own table.
    #[default]
    Tables,
    /// One program at all ports, by one map that all nodes share: it is faster and changes at once. Packets
    /// that are not plain transit are forwarded by the kernels' tables, which follow. Firewall rules of a node
    /// do not see its transit.
    Map,
}

/// Routing software.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Software {
    /// BIRD 2: one process per node. Supports `ospf` and `babel`.
    Bird,
    /// FRRouting: zebra and one process per protocol in every node. Supports `ospf` and `isis`. Except with
    /// `ospf` over IPv4, a satellite must serve one station at a time: `gsl.beams: 1`.
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
    /// OpenFabric, a reduced IS-IS for dense fabrics. Refused: with FRR 8.4.4 routes never converged.
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

/// The nodes that routes lead to.
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

/// How nodes learn of unforeseen failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Reaction")]
pub struct Reaction {
    /// Time from a failure or repair until the nodes at the link's ends detect it.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 h"))]
    pub detect: TimeSpan,
    /// Time from receiving a message until it is forwarded and the routes of the node follow.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 h"))]
    pub processing: TimeSpan,
    /// The largest number of hops of a message. Nodes beyond continue to forward as predicted, which can make
    /// loops. Default: messages reach all nodes.
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
    /// The number of paths: at every step those of least total delay, path 1 the shortest. If fewer exist, the
    /// last paths have no route.
    #[schemars(range(min = 2, max = 8))]
    pub paths: u8,
}

/// An autonomous system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "System")]
pub struct RawSystem {
    /// The system's number, which no other system has.
    #[schemars(range(min = 1, max = 4_294_967_294u32))]
    pub asn: u32,
    /// The system's hosts and stations. Left out in the one system to which all other nodes belong, satellites
    /// among them.
    #[schemars(length(min = 1))]
    pub nodes: Option<Vec<Name>>,
    /// The system's route reflectors (RFC 4456): its border routers then have sessions with these instead of
    /// with each other.
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
    /// Time without a hello after which a neighbour is dead. More than `hello`.
    #[serde(default = "four_seconds")]
    #[schemars(extend("x-minimum" = "2 s", "x-maximum" = "65535 s"))]
    pub dead: TimeSpan,
    /// Time after which an unacknowledged packet is sent again. Longer than any link's round-trip time.
    #[serde(default = "two_seconds")]
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "65535 s"))]
    pub retransmit: TimeSpan,
    /// Time for which BIRD gathers changes before it calculates routes. FRR delays a calculation by up to this
    /// time while changes follow each other, and an LSA by a tenth of it; at most 50 s there.
    #[serde(default = "one_second")]
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "65535 s"))]
    pub tick: TimeSpan,
    /// Other timers for ground links, whose handovers are repaired when their dead time ends; default: the same
    /// as those of lasers.
    pub ground: Option<RawGroundTimers>,
    /// Divides every shell into areas: groups of neighbouring planes, totally stubby, and two rows of
    /// satellites through all planes as their backbone. Shells are then networks of their own, joined by
    /// stations that are gateways. Only with `daemon: bird`; several shells exclude cables and `systems`;
    /// default: one area for everything.
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
    /// Time without a hello after which a neighbour is dead. More than `hello`.
    #[schemars(extend("x-minimum" = "2 s", "x-maximum" = "65535 s"))]
    pub dead: TimeSpan,
    /// Time after which an unacknowledged packet is sent again.
    #[serde(default = "two_seconds")]
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "65535 s"))]
    pub retransmit: TimeSpan,
}

/// How large OSPF's areas are; one of the two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Areas")]
pub struct RawAreas {
    /// The largest number of planes in an area.
    #[schemars(range(min = 1))]
    pub planes: Option<u16>,
    /// The largest number of satellites in an area, in whole planes, but at least one plane.
    #[schemars(range(min = 1))]
    pub satellites: Option<u32>,
}

/// How fast daemons are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Start")]
pub struct Start {
    /// The next daemon is started when at most this number of tasks per processor run or wait for it: the
    /// daemons started before have then done their immediate work. Tasks of other programs count, but delay the
    /// start by at most 50 ms each time.
    #[serde(default = "sixteen")]
    #[schemars(range(min = 1, max = 100_000))]
    pub load: u32,
    /// The least time between two starts. Most of a daemon's work comes later than its start, when hellos have
    /// been exchanged: daemons that are started faster than the machine can serve them all do that work at
    /// once.
    #[serde(default = "at_once")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "60 s"))]
    pub pace: TimeSpan,
    /// Memory that must stay free; with less the run ends.
    #[serde(default = "half_a_gib")]
    pub memory: DataSize,
}

impl Default for Start {
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
    /// Time without a hello after which a neighbour is dead; a whole multiple of `hello`, at least twice as
    /// long. Babel decides by the hellos themselves and has no such time.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Bfd")]
pub struct Bfd {
    /// Time between two packets, in each direction.
    #[serde(default = "bfd_interval")]
    #[schemars(extend("x-minimum" = "10 ms", "x-maximum" = "60 s"))]
    pub interval: TimeSpan,
    /// The number of packets that may be missing.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Restart")]
pub struct Restart {
    /// Wait before the first start; twice as long before each that follows.
    #[serde(default = "one_second")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 h"))]
    pub after: TimeSpan,
    /// Longest wait. A daemon that has run for this time counts as healthy: the next wait is `after` again.
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
