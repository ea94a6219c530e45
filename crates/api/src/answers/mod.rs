//! Replies of a lab, one type for each request.

mod apply;
mod link;
mod loads;
mod middlebox;
mod paths;
mod policy;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use constel_link::PlaneReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use apply::{Applied, ChangeWord, ScenarioChange, StationsSet};
pub use link::{
    BriefEffects, DelayRange, DelaySet, DelaysSet, EdgeSet, EdgeShown, LinkSet, LinkShown,
    MemberSet, MemberShown, NetworkShown, NodesSet, RoutesAfter,
};
pub use loads::{EdgeLoad, EdgeRate, Loads};
pub use middlebox::{BoxShown, DirectionCounters, RuleShown, RulesChanged, ViaShown, WireShown};
pub use paths::{Hop, NextHop, Optimum, Paths, Route, Routes, Walked};
pub use policy::{
    PolicyAnswer, PolicyCandidate, PolicyEdge, PolicyJoined, PolicyLink, PolicyPart, PolicyRoute,
    PolicyState, PolicyStation,
};

/// To [`Read::Version`](crate::Read::Version).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The protocol: [`PROTOCOL`](crate::PROTOCOL) of the lab.
    pub protocol: u32,
    /// The program, as `constel --version` has it.
    pub constel: String,
}

/// The state of a lab.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabState {
    /// Being brought up.
    #[default]
    Starting,
    /// Up.
    Running,
    /// Being taken down.
    Stopping,
    /// The process has ended, and `clean` must remove what it left behind.
    Dead,
}

impl LabState {
    /// Returns the state as in replies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Dead => "dead",
        }
    }
}

/// A lab in `constel list`, as its process recorded it, whether that process is alive or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListedLab {
    /// Its name.
    pub lab: String,
    /// The actual state.
    pub state: LabState,
    /// The scenario file, as the user named it. `null` if its process died before it recorded the name.
    pub scenario: Option<String>,
    /// Process ID, dead or alive.
    pub pid: Option<u32>,
    /// How many nodes it has.
    pub nodes: usize,
    /// How many directed edges it had at lab time zero.
    pub edges: usize,
}

/// To [`Read::State`](crate::Read::State).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LabRow {
    /// Its name.
    pub lab: String,
    /// State of the lab.
    pub state: LabState,
    /// The scenario file, as the user named it.
    pub scenario: String,
    /// The process that runs it.
    pub pid: u32,
    /// How many nodes it has; 0 until they are being made.
    pub nodes: usize,
    /// How many directed edges carry frames now.
    pub edges: usize,
    /// Lab time, nanoseconds; `None` while the clock is held.
    pub t_ns: Option<u64>,
}

/// To [`Read::Show`](crate::Read::Show).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shown {
    /// As `state` answers.
    #[serde(flatten)]
    pub lab: LabRow,
    /// Every node, by number; absent until the first edges are up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_list: Option<Vec<NodeShown>>,
    /// Access to nodes outside the emulated network. Absent if no network has `management`, and whenever `node_list` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub management: Option<ManagementShown>,
    /// The link plane. Absent until it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<PlaneReport>,
}

/// To [`Read::Scenario`](crate::Read::Scenario).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScenarioShown {
    /// The file, as the user named it.
    pub file: String,
    /// The folder beside which other files are looked for, from the root.
    pub folder: PathBuf,
    /// Text of the file that was run, with the changed values (`--set`).
    pub text: String,
    /// The folder that receives the results, from the root.
    pub results: PathBuf,
}

/// Access from this machine to nodes outside the emulated network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ManagementShown {
    /// The machine's interface.
    pub interface: String,
    /// The machine's address.
    pub host: Ipv4Addr,
    /// First address and length of the prefix that all addresses are of.
    pub subnet: String,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeShown {
    /// Its name.
    pub name: String,
    /// `satellite`, `ground` or `host`.
    pub kind: String,
    /// For a satellite of an element file or ephemeris: its name there, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogue_name: Option<String>,
    /// For a satellite of an element file: its catalogue number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norad_id: Option<u64>,
    /// IPv4 address of the node itself.
    pub ipv4: Ipv4Addr,
    /// IPv6 address of the node itself.
    pub ipv6: Ipv6Addr,
    /// Edges that leave it now.
    pub links: usize,
    /// The address by which this machine reaches it outside the emulated network. Absent if none of its networks has
    /// `management`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub management: Option<Ipv4Addr>,
    /// For a node without network stack, which only forwards: its packet counters. Absent for other nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarding: Option<Forwarding>,
    /// `failed`, `stopped`, `paused` or `removed`, if it is so by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The resources that its programs use. Absent for nodes without a cgroup of their own: containers and nodes with limits
    /// have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<NodeUsage>,
}

/// The resources that the programs of a node use. A value is absent if the host does not count it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeUsage {
    /// Processor time since the node was created, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Memory now, also of files in memory and of the page cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Bytes read from block devices since the node was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written to block devices since the node was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Processes and threads now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
}

/// The packet counters of a node without network stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Forwarding {
    /// Went on. A super-frame of TCP counts as one.
    pub forwarded: u64,
    /// Packets that were answered: pings, and packets for which an ICMP error was sent.
    pub answered: u64,
    /// Packets that were dropped, by cause. Causes that did not occur are absent. Packets for which an ICMP error was sent
    /// are also in `answered`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dropped: BTreeMap<String, u64>,
}

/// A node without a network stack, with its packet counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeForwarding {
    /// Its name.
    pub node: String,
    /// Packet counters.
    #[serde(flatten)]
    pub forwarding: Forwarding,
}

/// To [`Write::UserFile`](crate::Write::UserFile).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserFileSet {
    /// The node.
    pub node: String,
    /// The file.
    pub name: String,
    /// How long it is, bytes; absent: it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
}

/// To [`Write::Command`](crate::Write::Command).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandSent {
    /// The node.
    pub node: String,
    /// The number of the node's event that it is.
    pub seq: u64,
}

/// Catalogue name of a satellite. It accompanies replies and events that name the satellite, in the order of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Catalogued {
    /// Name of the node.
    pub node: String,
    /// Name in the element file or ephemeris, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogue_name: Option<String>,
    /// Catalogue number, if it comes from an element file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norad_id: Option<u64>,
}

/// To [`Write::Capture`](crate::Write::Capture).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capturing {
    /// The captured object, as named in the request.
    pub of: String,
    /// The interfaces of the file, in their order.
    pub interfaces: Vec<String>,
}

/// The reply to [`Write::Enter`](crate::Write::Enter): the access to a node, by its runtime. It is valid as long as the
/// lab's process lives, for processes of the same host with the same privileges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "runtime", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NodeAccess {
    /// Namespaces: the network's is the node's, that of processes the lab's.
    Netns {
        /// The node.
        node: String,
        /// A path of the namespace, as `nsenter --net=PATH` takes it.
        netns: PathBuf,
        /// A path of the mount namespace in which its programs are.
        mounts: PathBuf,
        /// A path of the process namespace into which they are born.
        pids: PathBuf,
        /// The control groups that they are in.
        cgroups: Vec<PathBuf>,
    },
    /// A container, Constel's own or an engine's: all its namespaces are its own.
    Oci {
        /// The node.
        node: String,
        /// A path of the network namespace.
        netns: PathBuf,
        /// A path of the mount namespace.
        mounts: PathBuf,
        /// A path of the process namespace.
        pids: PathBuf,
        /// The number of its first process, as the host has it; the other namespaces are that one's.
        first: u32,
        /// The control groups that its programs are in.
        cgroups: Vec<PathBuf>,
        /// Restrictions of its programs.
        confinement: Confinement,
        /// Their environment.
        env: Vec<(String, String)>,
        /// Working directory.
        workdir: PathBuf,
    },
}

/// Restrictions and identity of a container's programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confinement {
    /// User.
    pub uid: u32,
    /// First group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
    /// The capabilities that they can have. Bit N is the capability with the kernel's number N.
    pub capabilities: u64,
    /// Those that users other than root have.
    pub ambient: u64,
    /// Whether system calls that reach beyond the container are refused.
    pub filtered: bool,
    /// Whether nothing that they execute has more rights.
    pub no_new_privileges: bool,
}
