//! The JSON values of a lab on several machines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::underlay::{Endpoint, Key, MachineTransport};

/// A machine that runs a part of the lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Name of the machine.
    pub name: String,
    /// Share of the lab's nodes, in proportion to the weights of the other machines.
    pub weight: u32,
    /// Maximum number of nodes.
    pub capacity: Option<u32>,
}

/// A file that is stored in pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// For a file of the scenario, its name in the scenario. For a result, its path within the folder.
    pub path: String,
    /// Size, bytes.
    pub bytes: u64,
}

/// The description of a lab to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabDescription {
    /// Version of Constel of the controller.
    pub version: String,
    /// Name of the lab.
    pub lab: String,
    /// Host name and process ID of the controller.
    pub by: (String, u32),
    /// The machines, in the sequence in which nodes are assigned to them.
    pub machines: Vec<Node>,
    /// The placement policy.
    pub place: String,
    /// Nodes with a given machine: `NODE=MACHINE`.
    pub pins: Vec<String>,
    /// Lab time to run, nanoseconds. Default: the scenario's.
    pub duration_ns: Option<u64>,
    /// Whether the scenario's traffic runs.
    pub traffic: bool,
    /// Whether the lab continues without machines that are lost in lab time.
    pub goes_on: bool,
    /// Whether the other machines then create these machines' nodes again.
    pub moves: bool,
    /// The transport of frames between the machines.
    pub between: MachineTransport,
    /// Whether these frames are encrypted.
    pub encrypted: bool,
    /// The scenario to run, then the files that it names.
    pub files: Vec<File>,
}

/// The progress of a machine's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The worker has read the order and listens for the other machines.
    Listening,
    /// The nodes, edges and routes of the part exist, and its servers listen.
    Ready,
    /// The start of lab time is known.
    Running,
    /// The part is down, and all its results are in the store.
    Ended,
}

impl Phase {
    /// Returns the phase as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Listening => "listening",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Ended => "ended",
        }
    }
}

/// A part that is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerReady {
    /// Number of nodes that exist.
    pub nodes: u64,
    /// A digest of the plan at lab time zero. It must be the same on all machines.
    pub plan: String,
    /// Digests of the images of its nodes, by their names in the scenario. They must be the same on all machines.
    pub images: BTreeMap<String, String>,
    /// The time at which the part was up, by the common clock of all machines, nanoseconds.
    pub at_ns: u64,
}

/// A machine's part of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// The revision at which the order was written.
    pub order: u64,
    /// The phase of the part.
    pub phase: Phase,
    /// The address where it listens for frames of other machines.
    pub address: Option<Endpoint>,
    /// The token that gives it the right to send: the revision at which its agent joined.
    pub token: u64,
    /// Upper bound of the error of its clock, nanoseconds.
    pub clock_error_ns: u64,
    /// Half of the round-trip time to the reference, nanoseconds: the shortest and the longest of the latest measurements.
    pub one_way_ns: (u64, u64),
    /// Details, once the part is up.
    pub standing: Option<WorkerReady>,
    /// The reason for an unrequested end.
    pub failure: Option<String>,
    /// The results.
    pub files: Vec<File>,
}

/// The addresses of the machines and the parameters of the frames between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderlaySettings {
    /// Number of the lab.
    pub number: u32,
    /// Session of its machines. Each session is larger than all earlier ones.
    pub session: u32,
    /// Head start of frames: how much earlier than due they are sent, nanoseconds.
    pub ahead_ns: u64,
    /// The address and the frame token of each machine, in the sequence of the order.
    pub machines: Vec<(Endpoint, u32)>,
    /// The key that encrypts frames between them, or `None` if these are not encrypted.
    pub key: Option<Key>,
}

/// The start of lab time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabStart {
    /// Lab time zero by the common clock of all machines, which is `CLOCK_MONOTONIC` of their reference, nanoseconds.
    pub zero_ns: u64,
}

/// The loss of a machine that the lab continues without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The revision at which the order was written.
    pub order: u64,
    /// Lab time by which all other machines know of the loss, nanoseconds.
    pub from_ns: u64,
    /// The reason, for users.
    pub why: String,
    /// The machine that noticed first.
    pub by: String,
}

/// The takeover of nodes: a machine has created again its share of a lost machine's nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takeover {
    /// The revision at which the order was written.
    pub order: u64,
    /// The token of the machine: the revision at which its agent joined. Its frames carry the token.
    pub token: u64,
    /// The reason if it failed.
    pub failure: Option<String>,
}

/// The return of a lost machine's nodes: they have their links again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodesReturned {
    /// The revision at which the order was written.
    pub order: u64,
    /// Lab time by which all machines know of the return, nanoseconds.
    pub from_ns: u64,
    /// The machines that have created their shares.
    pub ready: Vec<String>,
    /// The machine that wrote this.
    pub by: String,
}

/// A manual change that all machines apply at one lab time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeEntry {
    /// The revision at which the lab's order was written.
    pub order: u64,
    /// Lab time of the change, nanoseconds. All machines know of it by then.
    pub at_ns: u64,
    /// The change.
    pub what: serde_json::Value,
}

/// An event that all machines of a lab follow, in the sequence in which the store got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedEvent {
    /// The lab continues without a machine.
    Lost {
        /// Name of the machine.
        machine: String,
        /// The lab time and the reason.
        loss: Loss,
    },
    /// Nodes of a lost machine run on other machines.
    Back {
        /// Name of the lost machine.
        machine: String,
        /// The lab time, and the machines that run the nodes.
        back: NodesReturned,
    },
}

/// The end of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The reason, for users.
    pub why: String,
}
