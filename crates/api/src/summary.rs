//! The summary of a run: the document `summary.json`. Fields are added, never changed.

use std::collections::BTreeMap;

use constel_link::{ClassLateness, PlaneReport};
use constel_measure::flows::{Outcome, Rtt};
use constel_measure::quantiles::Quantiles;
use constel_measure::verdict::{Bounds, Fidelity, Software, SoftwareFailure, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the documents `summary.json` and `manifest.json`. Those without one are of the first.
pub const DOCUMENTS: u32 = 1;

pub(crate) fn first_version() -> u32 {
    1
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A run in numbers. Fields that an earlier version did not write are absent or empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Version of this document: [`DOCUMENTS`].
    #[serde(default = "first_version")]
    pub version: u32,
    /// Name of the lab.
    pub lab: String,
    /// Name of the scenario.
    pub scenario: String,
    /// The scenario's seed.
    pub seed: u64,
    /// Whether the user ended the run early.
    pub interrupted: bool,
    /// Lab time that passed, nanoseconds.
    pub lab_time_ns: u64,
    /// Size.
    pub size: Size,
    /// How long it took to bring the lab up and down.
    pub times: Times,
    /// Source of the routes with its timers: software, protocol and timers as text. Absent without daemons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<String>,
    /// Convergence of the routes.
    pub convergence: Convergence,
    /// Number of nodes with correct routes during lab time. Absent without daemons, and on several machines, because no
    /// process can read all kernels at one moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub converged: Option<Converged>,
    /// Messages about failures, if nodes learn of them by messages (`routing.reaction`). Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_state: Option<Messages>,
    /// Pairs with disjoint paths (`routing.disjoint`). Absent if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disjoint: Vec<DisjointRow>,
    /// The cost of routing daemons at two moments. Empty without daemons. For a lab on several machines, per machine.
    #[serde(default)]
    pub daemons: Vec<DaemonsRow>,
    /// Channels that members of a network share, one row a member; empty without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelRow>,
    /// Midnodes and proxies; empty without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transport: Vec<HelpersRow>,
    /// Changes of a station's satellite: the first 10,000.
    pub handovers: Vec<HandoverRow>,
    /// How many came after them; `events.ndjson` has all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub further_handovers: u64,
    /// All other events after which routes had to be computed again: failures and repairs of the scenario, manual changes of
    /// links, and daemons that died. The first 10,000.
    #[serde(default)]
    pub changes: Vec<ChangeRow>,
    /// How many came after them; `events.ndjson` has all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub further_changes: u64,
    /// Nodes whose programs changed the node's own network stack, in the order of the lab's nodes. Absent if none did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackRow>,
    /// The scenario's own traffic.
    pub flows: Vec<FlowRow>,
    /// Steps of lab time.
    pub steps: StepRows,
    /// The link plane.
    pub relay: PlaneReport,
    /// How late frames were, by class of edge: `isl`, `gsl`.
    #[serde(default)]
    pub lateness_by_class: Vec<ClassLateness>,
    /// Measurements on which the verdict is based.
    pub fidelity: Fidelity,
    /// Limits against which these are checked.
    #[serde(default)]
    pub bounds: Bounds,
    /// The plan of a machine, for a lab on several machines, one that waited for a live policy, and one whose scenario has choices in
    /// files. Absent otherwise. The replay of a live policy has the plan of its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plans: Option<Plans>,
    /// Programs that decided live. Absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyRow>,
    /// Frames from the other machines during lab time, on a machine of a lab on several; empty elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossed: Vec<CrossedRow>,
    /// The machines of a lab on several machines, in order. Empty otherwise. `relay`, `steps` and `lateness_by_class` then
    /// describe the machine with the latest frames, and `fidelity` describes all together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineRow>,
    /// Whether the figures are to be trusted: the fidelity of the emulator.
    pub verdict: Verdict,
    /// How the software in the lab ended, whatever the verdict.
    #[serde(default)]
    pub software: Software,
}

/// A node whose programs changed the network stack that Constel had set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackRow {
    /// The node.
    pub node: String,
    /// When that was first seen, lab time, nanoseconds; negative before the clock started.
    pub first_ns: i64,
    /// When the stack was as set up again, or the end of lab time, nanoseconds.
    pub last_ns: i64,
    /// How long something differed, all together, nanoseconds.
    pub changed_ns: u64,
    /// How often a new difference was seen.
    pub times: u64,
    /// The differences: the first 16 distinct ones.
    pub changed: Vec<String>,
    /// Whether Constel restores it (`restore` of the node).
    pub restored: bool,
    /// The differences that remained at the end of lab time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
}

/// A machine of a lab on several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineRow {
    /// Its name.
    pub machine: String,
    /// Nodes that it had.
    pub nodes: usize,
    /// Whether its own figures are to be trusted; `null`: it left none.
    pub trustworthy: Option<bool>,
    /// The reason for a premature end of its part. `null` if it ended on request.
    pub failure: Option<String>,
    /// Folder of its results, within the results of the lab. `null` without results.
    pub results: Option<String>,
    /// Frames that came to it from each of the others during lab time; absent: none did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossed: Vec<CrossedRow>,
    /// That the lab went on without it; absent, unless it was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostRow>,
}

/// Frames from one other machine of a lab on several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CrossedRow {
    /// That machine.
    pub from: String,
    /// Frames that came and were taken.
    pub arrived: u64,
    /// Frames that were sent and did not come, or were refused.
    pub lost: u64,
    /// Datagrams that were refused: forged, of another run, or for nodes that are elsewhere.
    pub refused: u64,
    /// Datagrams that came again.
    pub copies: u64,
    /// Frames that came after their instant.
    pub late: u64,
}

/// The loss of a machine that the lab continued without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostRow {
    /// From when on its nodes had no links, lab time, nanoseconds: the same step on all other machines.
    pub from_ns: u64,
    /// Nodes of the machine, in the order of the lab's nodes, with those that it had taken over itself.
    pub nodes: Vec<String>,
    /// Nodes that were created again on other machines. Absent if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<MovedRow>,
}

/// Nodes of a lost machine that were created again on another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovedRow {
    /// That machine.
    pub to: String,
    /// From when on they had links again, lab time, nanoseconds: the same step on all machines.
    pub from_ns: u64,
    /// The nodes, in the order of the lab's nodes.
    pub nodes: Vec<String>,
}

/// The plan, which is the same on all machines of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plans {
    /// Plans, that of lab time zero included.
    pub steps: u64,
    /// A number made of them, 16 hexadecimal digits: edges, neighbours and, of lab time zero, routes.
    pub hash: String,
}

/// Messages about unexpected failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Messages {
    /// Messages that nodes created about changes that they detected themselves.
    pub originated: u64,
    /// Times that one was sent over one direction of a link.
    pub sent: u64,
}

/// How large the lab was.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Size {
    /// Nodes.
    pub nodes: usize,
    /// Nodes that are containers.
    #[serde(default)]
    pub containers: usize,
    /// Interfaces.
    pub ports: usize,
    /// Directed edges at lab time zero.
    pub edges: usize,
    /// Kernel and engine memory per node without daemons, bytes.
    pub memory_per_node_bytes: u64,
}

/// Wall-clock seconds of a run's stages.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// Nodes, ports, addresses, link plane attached.
    pub nodes_s: f64,
    /// First edges and, where Constel computes them, first routes.
    pub edges_s: f64,
    /// Daemons started.
    pub daemons_s: f64,
    /// Programs of containers started.
    #[serde(default)]
    pub containers_s: f64,
    /// Part of the daemons' time in which the next start waited for the machine.
    pub daemons_held_back_s: f64,
    /// From the first stage to lab time zero, convergence included.
    pub bring_up_s: f64,
    /// Everything removed, the kernel's own clean-up included.
    pub take_down_s: f64,
}

/// The activity of a member of a network with `medium: shared` on its channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelRow {
    /// The network.
    pub network: String,
    /// The member.
    pub node: String,
    /// Frames it began to send.
    pub sent: u64,
    /// How long it took the channel, ns.
    pub airtime_ns: u64,
    /// Frames that it received correctly, for any destination.
    pub received: u64,
    /// Frames that reached it and overlapped with another's.
    pub collisions: u64,
    /// Frames that reached it while it sent.
    pub missed_while_sending: u64,
    /// Frames that reached it with a wrong bit.
    pub noise: u64,
    /// Frames of its own that did not fit in its queue.
    pub refused_full: u64,
    /// Frames of its own that are longer than its slots.
    pub refused_long: u64,
}

/// A pair with disjoint paths, as its steps found it. Failures by hand count from the next step on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DisjointRow {
    /// Its name.
    pub name: String,
    /// The two nodes.
    pub between: [String; 2],
    /// Number of steps by number of paths: with none, one, and so on up to the requested number. Lab time zero is a step.
    pub steps_by_paths: Vec<usize>,
    /// The paths, in order of delay.
    pub paths: Vec<DisjointPathRow>,
}

/// One path of a pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DisjointPathRow {
    /// Steps at which its nodes were others than before.
    pub changes: usize,
    /// One-way delay at the beginning of the steps that had it, quantiles at most 1/1024 too large; absent when none had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ns: Option<Quantiles>,
}

/// A program that decided live. The folder `choices` of the results has the decisions, as files of `ground.choices`,
/// `links.choices` and `routing.choices`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyRow {
    /// Its name.
    pub name: String,
    /// The time that it had for an answer, nanoseconds.
    pub within_ns: u64,
    /// Steps that it was to decide.
    pub steps: u64,
    /// Steps that it decided in time.
    pub decided: u64,
    /// Steps without an answer in time. The decisions before held, and the run is not trustworthy.
    pub late: u64,
    /// Answers that were refused. The decisions before held, and the run is not trustworthy.
    pub refused: u64,
    /// Changes that it decided: stations, links and routes.
    pub changes: u64,
    /// Time from a state to its answer, of answers in time. Absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_ns: Option<Quantiles>,
    /// Time that collecting a state took. Absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_ns: Option<Quantiles>,
    /// Whether it stayed until the end of the lab or left on purpose.
    pub stayed: bool,
}

/// Samples of all kernels during lab time: the number of nodes whose packets would have arrived at each of some
/// destinations, which are evenly chosen stations and satellites. A node without correct routes is behind the topology.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Converged {
    /// Nodes sampled.
    pub nodes: usize,
    /// Number of samples.
    pub samples: usize,
    /// Samples in which every node had converged.
    pub complete: usize,
    /// Smallest number of converged nodes in a sample. If a destination is unreachable for all, as in a handover, the number
    /// is 0.
    pub least_nodes: usize,
    /// Smallest ratio of (node, destination) pairs whose packets would have arrived.
    pub least_right_ratio: f64,
    /// The mean of this ratio over all samples.
    pub mean_right_ratio: f64,
}

/// The time when every served station had a route to every other one, by the kernels' tables.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Convergence {
    /// Seconds from the first edges to converged routes. Absent if they never converged. On several machines, the value of
    /// the slowest machine, from its own first edges on.
    pub first_s: Option<f64>,
    /// Ordered pairs of stations that were checked, counting both address families.
    pub pairs: usize,
    /// Control traffic until then. Absent if the lab did not wait for routes, or no daemons made them. On several machines,
    /// it is in the summary of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlRow>,
}

/// Frames on the links during convergence, counted by the link plane. From the first edges to converged routes there is no
/// other traffic yet, so all are control messages (with IPv6, a few of neighbour and listener discovery among them). Later
/// counts include the scenario's traffic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ControlRow {
    /// Frames on all links together.
    pub frames: u64,
    /// Bytes of these frames, with Ethernet headers.
    pub bytes: u64,
    /// Frames per direction of a link.
    pub frames_per_edge: Quantiles,
    /// Bytes per direction of a link.
    pub bytes_per_edge: Quantiles,
}

impl ControlRow {
    /// Sums up (frames, bytes) of every edge; `None` without edges.
    #[must_use]
    pub fn of(edges: &[(u64, u64)]) -> Option<Self> {
        let quantiles = |get: fn(&(u64, u64)) -> u64| {
            Quantiles::of(&mut edges.iter().map(|e| get(e) as f64).collect::<Vec<_>>())
        };
        Some(Self {
            frames: edges.iter().map(|(frames, _)| frames).sum(),
            bytes: edges.iter().map(|(_, bytes)| bytes).sum(),
            frames_per_edge: quantiles(|(frames, _)| *frames)?,
            bytes_per_edge: quantiles(|(_, bytes)| *bytes)?,
        })
    }
}

/// One change of a station's satellite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HandoverRow {
    /// Lab time, nanoseconds.
    pub t_ns: u64,
    /// The station.
    pub station: String,
    /// The satellite it left.
    pub from: Option<String>,
    /// The satellite it went to.
    pub to: Option<String>,
    /// The port of its terminal; absent where the station has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Time from the handover until all routes had converged again, nanoseconds. Absent if the run ended earlier. For a lab
    /// on several machines with daemons it is absent in the summary of each machine. The summary of the lab has it, from the
    /// samples of all machines.
    pub converged_after_ns: Option<u64>,
    /// Probes of the scenario's pings to or from the station that the handover may have cost: sent less than a round-trip
    /// time before it, no later than routes had converged again, and never answered. Absent if no ping was active. With
    /// daemons on several machines it is absent too, because the machine of the ping does not know when routes had
    /// converged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_probes: Option<u64>,
    /// Frames on the links from the handover until routes had converged again. Absent without daemons, and on several
    /// machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlRow>,
}

/// A change of the network other than a handover.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeRow {
    /// Lab time, nanoseconds.
    pub t_ns: u64,
    /// Kind of the change.
    pub kind: ChangeKind,
    /// Name of the scenario's failure, or the origin of the change.
    pub cause: String,
    /// The nodes, links or daemons that changed.
    pub objects: Vec<String>,
    /// Time until all routes had converged again, nanoseconds. Absent as for handovers. After the death of a daemon, whose
    /// routes the kernel keeps for a while, it lasts until they had converged for good: the dead time of the protocol and 5
    /// s more.
    pub converged_after_ns: Option<u64>,
    /// Probes of all the scenario's pings that it may have cost, as for handovers, and absent where those are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_probes: Option<u64>,
    /// Frames on the links from then until routes had converged again. Absent without daemons, and on several machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlRow>,
}

/// The kind of a change, other than a handover, after which routes are computed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// A failure of the scenario began.
    Failure,
    /// It ended.
    Repair,
    /// A link was failed or healed by hand.
    LinkSet,
    /// A routing daemon ended.
    DaemonDied,
}

impl ChangeKind {
    /// Returns the kind as in the document.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Repair => "repair",
            Self::LinkSet => "link-set",
            Self::DaemonDied => "daemon-died",
        }
    }
}

/// How a flow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowStatus {
    /// It gave a result.
    Ok,
    /// It gave no result. `reason` contains the reason.
    Failed,
    /// The run ended first.
    CutShort,
}

impl FlowStatus {
    /// Returns the status as in the document.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::CutShort => "cut-short",
        }
    }
}

/// How a flow's client ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub enum ClientEnd {
    /// It ended by itself, or something in the lab ended it.
    ByItself {
        /// When that was seen, lab time, nanoseconds.
        t_ns: u64,
        /// Exit code as a shell reports it: 128 plus the number of the signal that killed it.
        exit: i32,
        /// Whether that was before the flow's time was over.
        early: bool,
    },
    /// Constel ended it because its time was over.
    AtItsTime,
    /// Its time was over while its node was down.
    NodeDown,
    /// It was removed from the scenario while the lab ran.
    Removed,
    /// The run ended before its time was over; it was still running.
    CutShort,
    /// It could not be started.
    NotStarted,
}

/// One flow's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowRow {
    /// Its name.
    pub name: String,
    /// `ping`, `iperf3-tcp`, `iperf3-udp`, `http`, `leotp`, `tcp`, `vivace` or `run`.
    pub kind: String,
    /// Client's node.
    pub from: String,
    /// Server's node; absent for `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Start, lab time, nanoseconds.
    pub at_ns: u64,
    /// How it ended.
    pub status: FlowStatus,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How its client ended; absent in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<ClientEnd>,
    /// Measurements of the tool.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Samples in `flows/NAME.csv`; 0 where the tool measures a whole only.
    #[serde(default)]
    pub samples: u64,
    /// Flagged samples: frames on the flow's path were late during them. A probe may have been such a frame, so any late
    /// frame flags it. A sample of a transfer is flagged if frames were late for more than one hundredth of its duration.
    #[serde(default)]
    pub marked_samples: u64,
    /// Largest lateness of a frame on the flow's path, nanoseconds. Absent if no frame was later than the run's bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_worst_ns: Option<u64>,
    /// Whether the flow's measurements are trustworthy. `false`: the flow is affected, and the run is not trustworthy
    /// either. `true` is possible in an untrustworthy run if other flows caused that. Absent if the link driver does not
    /// report which frames were late, or if the flow's path is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trustworthy: Option<bool>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// Nodes at its ends or on its paths whose programs had changed the node's own network stack while it ran. Absent if
    /// no node did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_stacks: Vec<String>,
    /// Handovers of its ends while it ran.
    pub handovers: usize,
    /// Distinct paths of its packets by the kernels' routes, in the order seen. At most 1,000. Empty if daemons make the
    /// routes on several machines, because no process can read all kernels on the path at one moment.
    pub paths: Vec<Vec<String>>,
    /// Steps on other paths than these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unlisted_path_steps: u64,
    /// Sum of edge delays there and back along all paths; quantiles are at most 1/1024 too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_rtt: Option<Rtt>,
    /// The round-trip times of the shortest paths of the topology: no packet can be faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_rtt: Option<Rtt>,
}

impl FlowRow {
    /// Returns the reason why the flow's measurements are not trustworthy, with its name. Returns `None` if they are, or if
    /// that is unknown.
    #[must_use]
    pub fn affected(&self) -> Option<String> {
        let is_affected = self.trustworthy == Some(false);
        let doubt = self.doubt.as_deref().unwrap_or_default();
        is_affected.then(|| format!("flow {} is affected: {doubt}", self.name))
    }

    /// Returns the failure of the flow's software, or `None` if it gave a result or the run ended first.
    #[must_use]
    pub fn failure(&self) -> Option<SoftwareFailure> {
        let is_failed = self.status == FlowStatus::Failed;
        let reason = self.reason.as_deref().unwrap_or_default();
        is_failed.then(|| SoftwareFailure {
            node: self.from.clone(),
            flow: Some(self.name.clone()),
            reason: format!("flow {} failed: {reason}", self.name),
        })
    }
}

/// Quantiles of a run's steps, at most 1/1024 too large; counts, least, largest and mean are exact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRows {
    /// How many.
    pub count: usize,
    /// By measured quantity.
    #[serde(flatten)]
    pub rows: BTreeMap<String, Quantiles>,
}

/// The cost of all daemons of a lab, or of one of its machines, up to one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonsRow {
    /// `routes-converged` (before traffic begins) or `end`.
    pub when: String,
    /// Name of the program: `bird`, `zebra`, `ospfd`, ...
    pub program: String,
    /// The machine that they were on, in the summary of a lab on several; absent elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// How many were running.
    pub count: usize,
    /// Processor time of all together since they started, seconds.
    pub cpu_total_s: f64,
    /// Processor time per daemon, seconds; the kernel counts in steps of 10 ms.
    pub cpu_s: Quantiles,
    /// Memory per daemon that is its own alone (`RssAnon`), bytes.
    pub private_bytes: Quantiles,
    /// Memory per daemon that is present, shared pages included (`VmRSS`), bytes.
    pub resident_bytes: Quantiles,
    /// IP packets per node sent by the node itself that are no ICMP, in nodes that sent neither TCP nor UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_packets: Option<Quantiles>,
}

/// The cost of helper programs of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HelpersRow {
    /// `leotp-midnode`, `leotp-gateway` or `split-tcp`.
    pub kind: String,
    /// Nodes where they ran.
    pub nodes: Vec<String>,
    /// Processor time of each, as reported at its end, seconds. Absent if none reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<Quantiles>,
    /// Largest resident memory of each, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<Quantiles>,
}
