//! The resolved scenario: every default filled in, every unit typed, every file read and hashed.
//!
//! An `Option` here never means "not given": `None` is itself a value, which its comment describes.

mod addresses;
mod beneath;
mod constellations;
mod expect;
mod failures;
mod ground;
mod information;
mod middlebox;
mod networks;
mod nodes;
mod programs;
mod routing;
mod rules;
mod sample;
mod spacecraft;
mod traffic;
mod transport;

use std::sync::Arc;

use constel_units::{TimeSpan, Utc};
use serde::Serialize;

use crate::deferred::DeferredNode;
use crate::raw::RawScenario;
pub use crate::raw::{
    Access, Bfd, Channel, Chief, ClockHold, ClockTime, Destination, Destinations, DriverChoice,
    ElevationStep, Family, Forwarding, HandoverKind, Metric, Name, NodeKind, Obstacle,
    OnMachineLoss, PathOf, PortCarrier, RangeStep, Reaction, RelativeElements, RelativeState,
    Restart, SampleMetric, Sampled, Shell, Software, StackTime, Start, Threads, TopologyScope,
    Volume, Walker, WalkerPattern, Waypoint,
};
use crate::source::Source;
pub use crate::text_file::TextFile;
pub use addresses::{Addresses, Block, BlockPair};
pub use constel_topology::FailureTime;
pub use constellations::{
    Chosen, Constellation, CrossShell, ElementSet, Gsl, Isl, Link, Orbits, PlusGrid, Positions,
    satellite_name,
};
pub use expect::{
    Agreement, Bounds, Delivery, EndedEarly, EventKind, EventNamed, EventSubject, Expectation,
    Expected, Measured, PrintedClock, PrintedTime, Window,
};
pub use failures::{Centre, Disruption, Failure, FailureTarget};
pub use ground::{Cable, Host, Station, Terminal};
pub use information::{
    Information, NodesNamed, SourcePosition, USER_FILE_BYTES, UserFile, is_user_file_name,
};
pub use middlebox::{BoxEnds, BoxForm, BoxRouter, BoxScenario, Machine, MachineCommand};
pub use networks::{Law, Medium, Network};
pub use nodes::{
    Capability, Checksums, Circle, Container, Health, NamedImage, NodeRule, NodeSelection,
    NodeSoftware, NodesOf, RestartPolicy, Runtime, Seccomp, StatePlace,
};
pub(crate) use nodes::{over, software, thousandths};
pub use programs::{Limit, Limits, Mount};
pub use routing::{
    AreaSize, ComputedRouting, DaemonRouting, Disjoint, Families, Igp, Mode, OspfExtra, Routing,
    System, Timers,
};
pub use rules::RuleFile;
pub use sample::Sampling;
pub use spacecraft::{Formation, FormationPreset, FormationSource};
pub use traffic::{Action, Flow, Http, Iperf3, Ping, PingTool, Run, Transport};
pub use transport::{
    Gateway, LeotpSettings, LeotpVariant, Midnodes, PathFunctions, Placement, SplitTcp, Transfer,
    TransferProtocol,
};

/// A scenario that can be planned. Made by [`resolve`](crate::resolve).
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Name of the scenario.
    pub name: Name,
    /// The author's words; may be empty.
    pub description: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// UTC at lab time zero.
    pub start: Utc,
    /// How long the lab runs; a positive whole multiple of `step`. For a lab without an end, this is the time that is computed ahead
    /// of time: an hour, rounded up.
    pub duration: TimeSpan,
    /// Whether the lab ends after `duration`.
    pub has_end: bool,
    /// Time between two topologies, 10 ms to 60 s.
    pub step: TimeSpan,
    /// When lab time starts to run.
    pub clock_hold: ClockHold,
    /// How time passes.
    pub clock_time: ClockTime,
    /// The effect of a lost machine on a lab that runs on several.
    pub on_machine_loss: OnMachineLoss,
    /// Constellations by name, then formations by name; may be none.
    pub constellations: Vec<Constellation>,
    /// Constellations whose satellites are no nodes, by name: networks use their links.
    pub beneath: Vec<Constellation>,
    /// Ground stations by name; from `stations` and from files of places. Names are unique among
    /// stations and Walker satellites.
    pub stations: Vec<Station>,
    /// Nodes on the ground that only have cables, by name.
    pub hosts: Vec<Host>,
    /// Cables between stations and hosts.
    pub cables: Vec<Cable>,
    /// Chosen satellites of stations with their times, from a file; they replace the policy where the file
    /// names one.
    pub choices: Option<TextFile>,
    /// Lasers and cables that are switched off and on, with their times, from a file.
    pub link_choices: Option<TextFile>,
    /// Further ports of nodes, and the edges between them, by name.
    pub networks: Vec<Network>,
    /// Links between shells.
    pub cross_shell: Vec<CrossShell>,
    /// Failures; names are unique.
    pub failures: Vec<Failure>,
    /// How packets find their way.
    pub routing: Routing,
    /// The blocks that addresses are taken from.
    pub addresses: Addresses,
    /// The driver that carries the frames.
    pub driver: DriverChoice,
    /// Frames leave at whole multiples of this; 0: each at its own time.
    pub grain: TimeSpan,
    /// Threads of the relay.
    pub threads: Threads,
    /// Whether the time that nodes' stacks take is deducted.
    pub stack_time: StackTime,
    /// Whether interfaces of nodes lose their carrier with their link.
    pub carrier: PortCarrier,
    /// How late frames may be at the 99th percentile in a run that is to be trusted.
    pub max_lateness: TimeSpan,
    /// The protocol functions of nodes on the path, for the flows that pass them.
    pub transport: PathFunctions,
    /// Files of the host that programs in nodes see, besides those that all see.
    pub mounts: Vec<Mount>,
    /// Resource limits.
    pub limits: Limits,
    /// Nodes that receive information about themselves and their surroundings.
    pub information: Vec<Information>,
    /// Images by names of the scenario's own, by name.
    pub images: Vec<NamedImage>,
    /// Rules about the software of nodes; [`software`](Self::software) returns the result.
    pub node_rules: Vec<NodeRule>,
    /// Flows and commands in order of their start; equal starts in the order of the file.
    pub traffic: Vec<Flow>,
    /// Metrics of interfaces, edges and used resources that are recorded while the lab runs.
    pub sampling: Option<Sampling>,
    /// Expectations that the finished run is checked against.
    pub expect: Vec<Expectation>,
    /// Every file that was read, the scenario itself first, the others by path.
    pub inputs: Vec<InputFile>,
    /// Node names that may be satellites of an element file, or satellites' names in that file; settled by
    /// [`settle_nodes`](Self::settle_nodes).
    pub deferred: Vec<DeferredNode>,
    /// The scenario file, for errors of later stages.
    pub source: Source,
    /// The keys and values of that file, with their defaults, and with a flow for each node or pair of nodes in place of
    /// the patterns in `traffic`.
    pub raw: Arc<RawScenario>,
}

/// A file that a scenario was made from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct InputFile {
    /// As the scenario names it; the scenario itself as the user named it.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256, 64 hexadecimal digits.
    pub sha256: String,
}
