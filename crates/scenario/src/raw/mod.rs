//! The scenario file as the user writes it.
//!
//! These types are the one source of truth for the file format: the JSON schema, the validation of a file, the
//! error messages' lists of allowed keys, and the reference page all come from them. Users read the doc
//! comments here, so the comments give meaning and unit; defaults and bounds are in attributes, from which
//! schema and page print them.

mod access;
mod addresses;
mod aqm;
mod constellations;
mod destination;
mod disruptions;
mod driver;
mod events;
mod expect;
mod failures;
mod ground;
mod images;
mod information;
mod kinds;
mod link;
mod middlebox;
mod networks;
mod node_name;
mod nodes;
mod preset;
mod programs;
mod radio;
mod routing;
mod rules;
mod sample;
mod spacecraft;
mod terminals;
mod traffic;
mod transfer;
mod transport;
mod via;
mod weather;

use std::collections::BTreeMap;

use constel_units::{TimeSpan, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use access::{AccessPart, RawAccess, RawAccessParts, RawCell, RawGap, RawLeg};
pub use addresses::{RawAddresses, RawBlocks};
pub use aqm::*;
pub(crate) use constellations::TWO_WEEKS;
pub use constellations::{
    ElevationStep, HandoverKind, IslPattern, RawCrossShell, RawPair, RawPolicy,
};
pub use constellations::{
    RawConstellation, RawElements, RawEphemeris, RawGsl, RawHandover, RawIsl, RawOrbits, Shell,
    Walker, WalkerPattern,
};
pub use destination::{Destination, DestinationError, PathOf};
pub use disruptions::{RawDisturbance, RawJamming, RawPartition};
pub use driver::{DriverChoice, PortCarrier, RawLinks, StackTime, Threads};
pub use events::{EventKind, EventSubject};
pub use expect::{
    RawAgreement, RawAlive, RawDelivery, RawEndedEarly, RawEventNamed, RawExpectation, RawExpected,
    RawMetric, RawOrder, RawPrintedClock, RawPrintedTime, RawReachable, RawRoundTrip,
    RawThroughput, Window,
};
pub use failures::{
    AllStations, RawEclipse, RawFailedLink, RawFailedPlane, RawFailure, RawPolar, RawRegion,
    RawTarget, RegionHits,
};
pub use ground::{
    Obstacle, RawCable, RawCity, RawGround, RawHost, RawPlaces, RawStation, Waypoint,
};
pub use images::RawImage;
pub use information::{NodeKind, RawInformation, RawUserFile, TopologyScope};
pub use kinds::{Name, NameError, OrNone};
pub use link::*;
pub use middlebox::{
    RawBox, RawBoxScenario, RawCommand, RawMachine, RawMachineRun, RawRouter, RawRouterPort,
    RawRouterRoute, RawSettings,
};
pub use networks::{Access, Channel, NetworkMedium, RangeStep, RawCrosslink, RawLaw, RawNetwork};
pub use node_name::NodeName;
pub use nodes::{
    Capability, Checksums, Environment, RawCapabilities, RawCircle, RawHealth, RawNode, RawNodes,
    RawOverride, RawShare, RawStop, RestartPolicy, Runtime, Seccomp, StatePlace, StopSignal,
    Volume,
};
pub use preset::Preset;
pub use programs::{RawLimits, RawMount, RawNodeLimits};
pub use radio::{Polarization, RawCarrier, RawModcod, RawRadio};
pub use routing::{
    Bfd, Destinations, Family, Forwarding, Metric, RawAreas, RawDisjoint, RawGroundTimers, RawOspf,
    RawRouting, RawSystem, RawTimers, Reaction, Restart, RoutingMode, RoutingProtocol, Software,
    Start,
};
pub use rules::{
    OneOrMore, PassOrDrop, PathPreset, RawAction, RawMatch, RawPath, RawRule, RawRuleFile,
};
pub use sample::{RawSample, SampleMetric, Sampled};
pub(crate) use spacecraft::numbered;
pub use spacecraft::{
    Chief, FormationPreset, RawFormation, RawPositions, RelativeElements, RelativeState,
};
pub use terminals::RawTerminal;
pub use traffic::{PingTool, Protocol, RawFlow, RawHttp, RawIperf3, RawKind, RawPing, RawRun};
pub use transfer::{LeotpVariant, RawLeotp, RawTcp, RawVivace};
pub use transport::{RawMidnodes, RawSplitTcp, RawTransport};
pub use via::{RawPlace, RawRain, RawVia, SkyName};
pub use weather::{RawRainfall, RawRecording, RawWeather};

/// A scenario: constellations, the nodes on the ground, the software that runs, and the duration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Scenario")]
pub struct RawScenario {
    /// Version of the scenario format. This Constel reads version 1.
    #[schemars(extend("enum" = [1]))]
    pub constel: u32,
    /// Name of the scenario; also the lab's name unless `--name` gives another.
    pub name: Name,
    /// The purpose of the scenario, in the author's words.
    #[serde(default)]
    pub description: String,
    /// Seed of every random choice. Two runs of a scenario with one seed are the same lab.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// UTC at lab time zero, RFC 3339 with `Z`.
    pub start: Utc,
    /// How long the lab runs after lab time zero. A whole number of steps. Without it the lab has no end: `constel up` starts
    /// it, and `check` and `plan` consider its first hour.
    #[schemars(extend("x-exclusive-minimum" = "0 s", "x-maximum" = "366 d"))]
    pub duration: Option<TimeSpan>,
    /// Time between two topologies. Between them delays change smoothly along the orbits.
    #[serde(default = "default_step")]
    #[schemars(extend("x-minimum" = "10 ms", "x-maximum" = "60 s"))]
    pub step: TimeSpan,
    /// The start of lab time.
    #[serde(default)]
    pub clock: RawClock,
    /// Constellations by name. The names of satellites are `<constellation>-p<plane>-s<slot>`. A lab may have
    /// none: then its nodes are joined by cables alone.
    #[serde(default)]
    pub constellations: BTreeMap<Name, RawConstellation>,
    /// Spacecraft in formation: formations by name.
    #[serde(default)]
    pub spacecraft: BTreeMap<Name, RawFormation>,
    /// Links between shells.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub cross_shell: Vec<RawCrossShell>,
    /// Stations, hosts and cables on the ground.
    #[serde(default)]
    pub ground: RawGround,
    /// Further ports of nodes, and the edges between them: networks by name.
    #[serde(default)]
    pub networks: BTreeMap<Name, RawNetwork>,
    /// Rain at stations.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub weather: Vec<RawWeather>,
    /// Measurements of links, which replace or add to properties of the ground links of stations.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub recordings: Vec<RawRecording>,
    /// Failures.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub failures: Vec<RawFailure>,
    /// Routing of packets.
    #[serde(default)]
    pub routing: RawRouting,
    /// The blocks that addresses are taken from.
    #[serde(default)]
    pub addresses: RawAddresses,
    /// The driver of the links and its settings.
    #[serde(default)]
    pub links: RawLinks,
    /// Protocol functions of nodes on the path (LEOTP Midnodes, gateways, TCP proxies), for the flows that pass
    /// them.
    #[serde(default)]
    pub transport: RawTransport,
    /// Files and folders of the host that programs in nodes see at another place, or that would otherwise be
    /// hidden from them.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub mounts: Vec<RawMount>,
    /// Resource limits of programs in nodes.
    #[serde(default)]
    pub limits: RawLimits,
    /// Nodes whose programs receive information about themselves, their links, and changes.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub information: Vec<RawInformation>,
    /// Images by names of the scenario's own, each with its source and identity.
    #[serde(default)]
    pub images: BTreeMap<Name, RawImage>,
    /// The software of nodes: the host's programs, or container images.
    #[serde(default)]
    pub nodes: RawNodes,
    /// Software that runs in the nodes at stated times, in this order where times are equal.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub traffic: Vec<RawFlow>,
    /// Metrics of interfaces, edges and used resources that are recorded while the lab runs.
    pub sample: Option<RawSample>,
    /// Effect of a lost machine on a lab that runs on several. Default: `end`.
    #[serde(default)]
    pub on_machine_loss: OnMachineLoss,
    /// Expectations that the finished run is checked against; `constel test` judges them, `constel run` does
    /// not.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub expect: Vec<RawExpectation>,
}

fn default_seed() -> u64 {
    1
}

fn default_step() -> TimeSpan {
    TimeSpan::from_ns(1_000_000_000)
}

/// The clock of the lab.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Clock")]
pub struct RawClock {
    /// The condition for the start of lab time zero.
    #[serde(default)]
    pub hold: ClockHold,
    /// How time passes. `--time` replaces it.
    #[serde(default)]
    pub time: ClockTime,
}

/// How time passes in a lab.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ClockTime {
    /// As on the host's clock.
    #[default]
    Real,
    /// `constel run` starts the lab in a guest kernel whose clock stands still while any program computes. Results are
    /// the same on any host.
    Virtual,
}

/// The condition for the start of lab time zero.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ClockHold {
    /// The sky rests at lab time zero until all routes have converged. Two runs therefore have the same sky at
    /// the same moment of their traffic.
    #[default]
    UntilRoutesConverge,
    /// Lab time runs as soon as the links are up; routes form under a moving sky.
    None,
}

/// The effect of a lost machine on a lab that runs on several. A machine is lost in lab time if its agent was
/// killed, frozen, or cut off from the store for longer than a lease, or if its part of the lab ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum OnMachineLoss {
    /// The lab ends on all machines.
    #[default]
    End,
    /// The machine's nodes lose all their links, from one step on for all other machines, and the lab continues
    /// without them. The verdict names the machine and the nodes.
    Continue,
    /// As `continue`; then the other machines create the lost nodes again, each a part of them, and all of
    /// these have their links back within one step. Memory, files, open connections and running programs are
    /// lost with the machine. Nodes that are pinned to the machine, and nodes that no other machine has room
    /// for, stay lost.
    Move,
}
