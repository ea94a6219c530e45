//! The scenario file as the user writes it.
//!
//! These types are the one source of truth for the file format: the JSON schema, the validation
//! of a file, the error messages' lists of allowed keys, and the reference page all come from
//! them. Doc comments here are read by users, so they say meaning and unit; defaults and bounds
//! are in attributes, from which schema and page print them.

mod addresses;
mod aqm;
mod constellations;
mod destination;
mod disruptions;
mod driver;
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

pub use addresses::{RawAddresses, RawBlocks};
pub use aqm::*;
pub use constellations::{
    GslPolicy, HandoverKind, IslPattern, RawCrossShell, RawElevationStep, RawPair,
};
pub use constellations::{
    RawConstellation, RawElements, RawEphemeris, RawGsl, RawHandover, RawIsl, RawShell, RawWalker,
    WalkerPattern,
};
pub use destination::{Destination, DestinationError, PathOf};
pub use disruptions::{RawDisturbance, RawJamming, RawPartition};
pub use driver::{DriverChoice, RawLinks, StackTime, Threads};
pub use expect::{
    RawAgreement, RawAlive, RawDelivery, RawEndedEarly, RawEventNamed, RawExpectation, RawMetric,
    RawOrder, RawPrintedClock, RawPrintedTime, RawReachable, RawRoundTrip, RawThroughput,
};
pub use failures::{
    AllStations, RawEclipse, RawFailedLink, RawFailedPlane, RawFailure, RawPolar, RawRegion,
    RegionHits,
};
pub use ground::{
    RawCable, RawCity, RawGround, RawHost, RawObstacle, RawPlaces, RawStation, RawWaypoint,
};
pub use images::RawImage;
pub use information::{NodeKind, RawInformation, RawUserFile, TopologyScope};
pub use kinds::{Name, NameError, OrNone};
pub use link::*;
pub use middlebox::{
    RawBox, RawBoxScenario, RawCommand, RawMachine, RawMachineRun, RawRouter, RawRouterPort,
    RawRouterRoute, RawSettings,
};
pub use networks::{
    ChannelAccess, NetworkMedium, RawChannel, RawCrosslink, RawLaw, RawNetwork, RawRangeStep,
};
pub use node_name::NodeName;
pub use nodes::{
    Capability, Environment, RawCapabilities, RawCircle, RawHealth, RawNode, RawNodes, RawOverride,
    RawShare, RawStop, RawVolume, RestartPolicy, Runtime, Seccomp, StatePlace, StopSignal,
};
pub use preset::Preset;
pub use programs::{RawLimits, RawMount, RawNodeLimits};
pub use radio::{Polarization, RawCarrier, RawModcod, RawRadio};
pub use routing::{
    Destinations, Family, Forwarding, Metric, RawAreas, RawBfd, RawDisjoint, RawGroundTimers,
    RawOspf, RawReaction, RawRestart, RawRouting, RawStart, RawSystem, RawTimers, RoutingMode,
    RoutingProtocol, Software,
};
pub use rules::{
    OneOrMore, PassOrDrop, PathPreset, RawAction, RawMatch, RawPath, RawRule, RawRuleFile,
};
pub use sample::{RawSample, SampleMetric};
pub(crate) use spacecraft::numbered;
pub use spacecraft::{FormationPreset, RawChief, RawFormation, RawRelative, RawRelativeElements};
pub use terminals::RawTerminal;
pub use traffic::{PingTool, Protocol, RawFlow, RawHttp, RawIperf3, RawPing, RawRun};
pub use transfer::{LeotpVariant, RawLeotp, RawTcp, RawVivace};
pub use transport::{RawMidnodes, RawSplitTcp, RawTransport};
pub use via::{RawPlace, RawRain, RawVia, SkyName};
pub use weather::{RawRecording, RawWeather};

/// A scenario: what flies, what stands on the ground, which software runs, for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Scenario")]
pub struct RawScenario {
    /// Version of the scenario format. This Constel reads version 1.
    #[schemars(extend("enum" = [1]))]
    pub constel: u32,
    /// Name of the scenario; also the lab's name unless `--name` gives another.
    pub name: Name,
    /// What the scenario is for, in the author's words.
    #[serde(default)]
    pub description: String,
    /// Seed of every random choice. The same scenario and seed give the same lab.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// UTC at lab time zero, RFC 3339 with `Z`.
    pub start: Utc,
    /// How long the lab runs after lab time zero. A whole number of steps.
    #[schemars(extend("x-exclusive-minimum" = "0 s", "x-maximum" = "366 d"))]
    pub duration: TimeSpan,
    /// Time between two topologies. Between them delays glide along the orbits.
    #[serde(default = "default_step")]
    #[schemars(extend("x-minimum" = "10 ms", "x-maximum" = "60 s"))]
    pub step: TimeSpan,
    /// When lab time starts to run.
    #[serde(default)]
    pub clock: RawClock,
    /// What flies: constellations by name. A satellite is called `<constellation>-p<plane>-s<slot>`. A lab may have none:
    /// then its nodes are joined by cables alone.
    #[serde(default)]
    pub constellations: BTreeMap<Name, RawConstellation>,
    /// Craft that fly together: formations by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spacecraft: BTreeMap<Name, RawFormation>,
    /// Links between shells.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub cross_shell: Vec<RawCrossShell>,
    /// What stands on the ground.
    #[serde(default)]
    pub ground: RawGround,
    /// Further ports of nodes, and the edges between them: networks by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub networks: BTreeMap<Name, RawNetwork>,
    /// Rain at stations.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub weather: Vec<RawWeather>,
    /// What was measured of links, laid over the ground links of stations.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub recordings: Vec<RawRecording>,
    /// What breaks.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub failures: Vec<RawFailure>,
    /// How packets find their way.
    #[serde(default)]
    pub routing: RawRouting,
    /// The blocks that addresses are taken from.
    #[serde(default)]
    pub addresses: RawAddresses,
    /// How links are made real.
    #[serde(default)]
    pub links: RawLinks,
    /// What nodes on the way do for the flows that pass them.
    #[serde(default)]
    pub transport: RawTransport,
    /// Files and folders of the host that programs in nodes see at another place, or could not see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub mounts: Vec<RawMount>,
    /// How much programs in nodes may take.
    #[serde(default)]
    pub limits: RawLimits,
    /// Nodes whose programs are told who they are, what they are linked with, and what changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub information: Vec<RawInformation>,
    /// Images by names of the scenario's own, each with where it comes from and which it is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<Name, RawImage>,
    /// What nodes are made of: the host's programs, or container images.
    #[serde(default)]
    pub nodes: RawNodes,
    /// Software that runs in the nodes at stated times, in this order where times are equal.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub traffic: Vec<RawFlow>,
    /// What is written down of interfaces and edges while the lab runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<RawSample>,
    /// What becomes of a lab on several machines when one of them is lost; `end` unless given.
    #[serde(default, skip_serializing_if = "OnMachineLoss::is_default")]
    pub on_machine_loss: OnMachineLoss,
    /// What must have come true when a run is over; `constel test` judges it, `constel run` does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub expect: Vec<RawExpectation>,
}

fn default_seed() -> u64 {
    1
}

fn default_step() -> TimeSpan {
    TimeSpan::from_ns(1_000_000_000)
}

/// When lab time starts to run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Clock")]
pub struct RawClock {
    /// What lab time zero waits for.
    #[serde(default)]
    pub hold: ClockHold,
}

/// What lab time zero waits for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ClockHold {
    /// The sky stands still at lab time zero until every route stands, so that two runs see the
    /// same sky at the same moment of their traffic.
    #[default]
    UntilRoutesStand,
    /// Lab time runs as soon as the links are up; routes form under a moving sky.
    None,
}

/// What becomes of a lab on several machines when one of them is lost in lab time: its agent was killed, frozen or cut off from
/// the store for longer than a lease, or its part ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum OnMachineLoss {
    /// The lab ends on all machines.
    #[default]
    End,
    /// Its nodes lose all their links, from the same step on for all other machines, and the lab goes on without them. The verdict
    /// names machine and nodes.
    Continue,
    /// As `continue`, and then the others make its nodes anew, each a part of them, and all of these have their links back with one
    /// step. Memory, files, open connections and running programs are gone with the machine. What is pinned to it, and what no other
    /// machine has room for, stays lost.
    Move,
}

impl OnMachineLoss {
    /// Whether it is what goes without saying.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
