//! What a run came to: the document `summary.json`. Fields are added, never changed.

use std::collections::BTreeMap;

use constel_link::{ClassLateness, PlaneReport};
use constel_observe::flows::{Outcome, Rtt};
use constel_observe::quantiles::Quantiles;
use constel_observe::verdict::{Bounds, Fidelity, Software, SoftwareFailure, Verdict};
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

/// A run in numbers. Whatever an earlier version did not write is absent or empty.
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
    /// Who makes routes, and how slowly: software, protocol and timers in words; absent without daemons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<String>,
    /// When routes stood.
    pub convergence: Convergence,
    /// How many nodes routed rightly during lab time; absent without daemons, and on several machines, where nobody sees all kernels at
    /// one moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub converged: Option<Converged>,
    /// Messages about failures where nodes hear of them by messages (`routing.reaction`); absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_state: Option<Messages>,
    /// Pairs with disjoint paths (`routing.disjoint`); absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disjoint: Vec<DisjointRow>,
    /// What routing daemons had cost, at two moments; empty without daemons. Of a lab on several machines, each machine's.
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
    /// Everything else after which routes had to be found anew: failures and repairs of the scenario, links set
    /// by hand, daemons that died. The first 10,000.
    #[serde(default)]
    pub changes: Vec<ChangeRow>,
    /// How many came after them; `events.ndjson` has all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub further_changes: u64,
    /// Nodes whose programs changed the node's own network stack, in the order of the lab's; absent where none did.
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
    /// What the verdict is made from.
    pub fidelity: Fidelity,
    /// What it is measured against.
    #[serde(default)]
    pub bounds: Bounds,
    /// What was planned, on a machine of a lab on several; absent elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plans: Option<Plans>,
    /// Frames from the other machines during lab time, on a machine of a lab on several; empty elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossed: Vec<CrossedRow>,
    /// The machines of a lab on several, in their order; empty elsewhere. `relay`, `steps` and `lateness_by_class` are then of
    /// the machine whose frames were latest, `fidelity` is of all together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineRow>,
    /// Whether the figures are to be trusted: the fidelity of the emulator.
    pub verdict: Verdict,
    /// How the software in the lab ended, whatever the verdict.
    #[serde(default)]
    pub software: Software,
}

/// A node whose programs changed what Constel had set up in the node's network stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackRow {
    /// The node.
    pub node: String,
    /// When that was first seen, lab time, nanoseconds; negative before the clock started.
    pub first_ns: i64,
    /// When it was as it was made again, or the end of lab time, nanoseconds.
    pub last_ns: i64,
    /// How long something differed, all together, nanoseconds.
    pub changed_ns: u64,
    /// How often a new difference was seen.
    pub times: u64,
    /// What differed: the first 16 different things.
    pub changed: Vec<String>,
    /// Whether Constel restores it (`restore` of the node).
    pub restored: bool,
    /// What differed at the end of lab time.
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
    /// What ended its part before its time; `null`: nothing that was not asked for.
    pub failure: Option<String>,
    /// The folder of what it left, within the results; `null`: it left nothing.
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

/// What a lab went on without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostRow {
    /// From when on its nodes had no links, lab time, nanoseconds: the same step on all other machines.
    pub from_ns: u64,
    /// Its nodes, in the order of the lab's; those that it had taken itself are among them.
    pub nodes: Vec<String>,
    /// Those that began anew on others; absent: none did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<MovedRow>,
}

/// Nodes of a lost machine that began anew on another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovedRow {
    /// That machine.
    pub to: String,
    /// From when on they had links again, lab time, nanoseconds: the same step on all machines.
    pub from_ns: u64,
    /// They, in the order of the lab's.
    pub nodes: Vec<String>,
}

/// What was planned: all machines of a lab plan the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plans {
    /// Plans, that of lab time zero included.
    pub steps: u64,
    /// A number made of them, 16 hexadecimal digits: edges, neighbours and, of lab time zero, routes.
    pub hash: String,
}

/// Messages about failures that nobody foresaw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Messages {
    /// Those that nodes made of what they noticed themselves.
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

/// What a member of a network with `medium: shared` did on its channel.
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
    /// Frames that it understood, whoever they were for.
    pub heard: u64,
    /// Frames that reached it and overlapped with another's.
    pub collisions: u64,
    /// Frames that reached it while it sent.
    pub deaf: u64,
    /// Frames that reached it with a wrong bit.
    pub noise: u64,
    /// Its own frames that did not fit in its queue.
    pub refused_full: u64,
    /// Its own frames that are longer than its slots.
    pub refused_long: u64,
}

/// A pair with disjoint paths, as its steps found it. Failures by hand count from the next step on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DisjointRow {
    /// Its name.
    pub name: String,
    /// The two nodes.
    pub between: [String; 2],
    /// Steps with so many paths: with none, one, and so on up to as many as were asked for. Lab time zero is a step.
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

/// Looks at all kernels during lab time: how many nodes' packets would have arrived at each of some destinations,
/// stations and satellites picked evenly. A node that had not is one whose routes were behind the topology.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Converged {
    /// Nodes looked at.
    pub nodes: usize,
    /// How often.
    pub looks: usize,
    /// Looks at which every node had converged.
    pub complete: usize,
    /// Fewest nodes converged at a look. A destination that nobody reaches, as in a handover, leaves none.
    pub least_nodes: usize,
    /// Smallest share of (node, destination) pairs whose packets would have arrived.
    pub least_right_ratio: f64,
    /// The same on the average over all looks.
    pub mean_right_ratio: f64,
}

/// When every served station had a route to every other, by the kernels' tables.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Convergence {
    /// Seconds from the first edges to standing routes; absent when they never stood. On several machines that of the machine that
    /// took longest, by its own first edges.
    pub first_s: Option<f64>,
    /// Ordered pairs of stations walked, both families counted.
    pub pairs: usize,
    /// What it took; absent when nobody waited for routes, or no daemons made them. On several machines it is in the summary of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlRow>,
}

/// Frames on the links while routes were being found, counted by the link plane. From the first edges to standing
/// routes there is no traffic yet, so all are control messages (with IPv6, a few of neighbour and listener
/// discovery among them); later the scenario's traffic is among them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ControlRow {
    /// Frames on all links together.
    pub frames: u64,
    /// Their bytes, Ethernet headers included.
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
    /// How long after the handover all routes stood again, nanoseconds; absent when the run ended first, and where daemons make
    /// the routes on several machines in the summary of each: that of the lab has it from the looks of all.
    pub routes_stood_after_ns: Option<u64>,
    /// Probes of the scenario's pings to or from the station that it may have cost: sent less than a round trip
    /// before it, no later than when routes stood again, and never answered. Absent when no ping saw it, and with
    /// daemons on several machines: whose ping it was does not know then when routes stood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_probes: Option<u64>,
    /// Frames on the links from the handover until routes stood again; absent without daemons, and on several machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlRow>,
}

/// A change of the network other than a handover.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeRow {
    /// Lab time, nanoseconds.
    pub t_ns: u64,
    /// What changed.
    pub kind: ChangeKind,
    /// The scenario's failure by its name, or who did it.
    pub cause: String,
    /// The nodes, links or daemons that changed.
    pub objects: Vec<String>,
    /// How long after it all routes stood again, nanoseconds; absent as for handovers. After the death
    /// of a daemon, whose routes the kernel keeps for a while: until they stood for good, that is for the dead
    /// time of the protocol and 5 s more.
    pub routes_stood_after_ns: Option<u64>,
    /// Probes of all the scenario's pings that it may have cost, as for handovers, and absent where those are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_probes: Option<u64>,
    /// Frames on the links from then until routes stood again; absent without daemons, and on several machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlRow>,
}

/// What can make routes be found anew, besides handovers.
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
    /// The word that stands in the document.
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
    /// It gave none; `reason` says why.
    Failed,
    /// The run ended first.
    CutShort,
}

impl FlowStatus {
    /// The word that stands in the document.
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
        /// Its exit code, as a shell gives it: 128 and the number of the signal that killed it.
        exit: i32,
        /// Whether that was before the flow's time was over.
        early: bool,
    },
    /// Its time was over; it was still running and Constel ended it.
    AtItsTime,
    /// Its time was over while its node was down.
    NodeDown,
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
    /// What the tool measured.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Samples in `flows/NAME.csv`; 0 where the tool measures a whole only.
    #[serde(default)]
    pub samples: u64,
    /// Those of them that are marked: frames on the flow's way left late meanwhile. A probe, which may have been such a
    /// frame, is marked by any; a piece of a transfer's time when they were for more than a hundredth of it.
    #[serde(default)]
    pub marked_samples: u64,
    /// How late the latest frame on the flow's way left, nanoseconds; absent when none left later than the run's bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_worst_ns: Option<u64>,
    /// Whether the flow's own figures are to be trusted. `false`: the flow is affected, and the run is not trustworthy either.
    /// `true` also where others made the run untrustworthy. Absent where the link driver does not tell which frames were late,
    /// or the flow's path is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trustworthy: Option<bool>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// Nodes at its ends or on its paths whose programs had changed the node's own network stack while it ran; absent where
    /// none had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_stacks: Vec<String>,
    /// Handovers of its ends while it ran.
    pub handovers: usize,
    /// Distinct paths its packets took, by the kernels' routes, in the order seen; at most 1,000. None where daemons make the routes on
    /// several machines: nobody sees all kernels on the way at one moment.
    pub paths: Vec<Vec<String>>,
    /// Steps on other paths than these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unlisted_path_steps: u64,
    /// Sum of edge delays there and back along all paths; quantiles are at most 1/1024 too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_rtt: Option<Rtt>,
    /// The same for the shortest paths the topology had: no packet can be faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_rtt: Option<Rtt>,
}

impl FlowRow {
    /// Returns why the flow's own figures are not to be trusted, with its name; `None` when they are, or nothing tells.
    #[must_use]
    pub fn affected(&self) -> Option<String> {
        let is_affected = self.trustworthy == Some(false);
        let doubt = self.doubt.as_deref().unwrap_or_default();
        is_affected.then(|| format!("flow {} is affected: {doubt}", self.name))
    }

    /// Returns what failed of the flow's software; `None` when it gave a result or the run ended first.
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
    /// By what was measured.
    #[serde(flatten)]
    pub rows: BTreeMap<String, Quantiles>,
}

/// What all daemons of a lab, or of one of its machines, had cost at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonsRow {
    /// `routes-stand` (before traffic begins) or `end`.
    pub when: String,
    /// Which program: `bird`, `zebra`, `ospfd`, ...
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

/// What helpers of a kind came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HelpersRow {
    /// `leotp-midnode`, `leotp-gateway` or `split-tcp`.
    pub kind: String,
    /// Where they were.
    pub nodes: Vec<String>,
    /// Processor time of each, as it said itself at its end, seconds; absent when none said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<Quantiles>,
    /// Largest resident memory of each, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<Quantiles>,
}
