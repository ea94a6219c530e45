//! What is written about a lab on several machines, as JSON.

use std::collections::BTreeMap;

use constel_underlay::{Carriage, Endpoint, Key};
use serde::{Deserialize, Serialize};

/// A machine that takes a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its part of the lab, in proportion to the others' weights.
    pub weight: u32,
    /// Nodes that it takes at most.
    pub capacity: Option<u32>,
}

/// A file that is in the store in pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Its name: of a scenario's file as the scenario has it, of a result within its folder.
    pub path: String,
    /// Its length.
    pub bytes: u64,
}

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The version of Constel that leads.
    pub version: String,
    /// The lab.
    pub lab: String,
    /// Who leads: a host's name and a process there.
    pub by: (String, u32),
    /// The machines, in the order that places are dealt in.
    pub machines: Vec<Node>,
    /// How nodes are dealt to them.
    pub place: String,
    /// Nodes whose machine is decided, `NODE=MACHINE`.
    pub pins: Vec<String>,
    /// Lab time to run, nanoseconds, if not the scenario's.
    pub duration_ns: Option<u64>,
    /// Whether the scenario's traffic runs.
    pub traffic: bool,
    /// Whether the lab goes on without machines that are lost in lab time.
    pub goes_on: bool,
    /// Whether the others then make these machines' nodes anew.
    pub moves: bool,
    /// By what frames go between the machines.
    pub between: Carriage,
    /// Whether they are encrypted.
    pub encrypted: bool,
    /// The scenario, as it is to be run, then the files that it names.
    pub files: Vec<File>,
}

/// How far a machine's part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It has read the order and listens for the others.
    Listening,
    /// Its nodes, edges and routes stand, and its servers listen.
    Standing,
    /// It knows when lab time is zero.
    Running,
    /// It is down again; all that it left is in the store.
    Ended,
}

impl Phase {
    /// As in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Listening => "listening",
            Self::Standing => "standing",
            Self::Running => "running",
            Self::Ended => "ended",
        }
    }
}

/// A part that stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Nodes that are there.
    pub nodes: u64,
    /// A number made of the plan of lab time zero: the same everywhere.
    pub plan: String,
    /// Digests of the images of its nodes, by the scenario's names for them: the same wherever they are.
    pub images: BTreeMap<String, String>,
    /// What time it was by the clock that all machines have in common, nanoseconds.
    pub at_ns: u64,
}

/// A machine's part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Of which order: the number of the change that made it.
    pub order: u64,
    /// How far it is.
    pub phase: Phase,
    /// Where it listens for other machines' frames.
    pub address: Option<Endpoint>,
    /// By which right it sends: the number of the change by which its agent joined.
    pub token: u64,
    /// By so much its clock may be wrong, nanoseconds.
    pub clock_error_ns: u64,
    /// Half of the way to the reference and back, nanoseconds: the shortest and the longest that were measured lately.
    pub way_ns: (u64, u64),
    /// Once it stands.
    pub standing: Option<Standing>,
    /// Why it ended without being asked to.
    pub failure: Option<String>,
    /// What it left.
    pub files: Vec<File>,
}

/// Where the machines listen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ways {
    /// The lab's number.
    pub number: u32,
    /// Which life of its machines it is: larger than all before.
    pub session: u32,
    /// Frames leave so much before they are due, nanoseconds.
    pub ahead_ns: u64,
    /// Of each machine, in the order's order: its address and the token of its frames.
    pub machines: Vec<(Endpoint, u32)>,
    /// What frames between them are sealed with; `None`: they are not.
    pub key: Option<Key>,
}

/// When lab time is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Go {
    /// By the clock that all machines have in common: `CLOCK_MONOTONIC` of their reference, nanoseconds.
    pub zero_ns: u64,
}

/// A machine that the lab goes on without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Of which order: the number of the change that made it.
    pub order: u64,
    /// Lab time by which all others know of it, nanoseconds.
    pub from_ns: u64,
    /// Why, for people.
    pub why: String,
    /// The machine that noticed first.
    pub by: String,
}

/// That a machine has made anew what it was to take of one that is lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Took {
    /// Of which order: the number of the change that made it.
    pub order: u64,
    /// By which right: the number of the change by which its agent joined, which is on its frames.
    pub token: u64,
    /// Why it could not.
    pub failure: Option<String>,
}

/// That nodes of a lost machine have their links again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Back {
    /// Of which order: the number of the change that made it.
    pub order: u64,
    /// Lab time by which all know of it, nanoseconds.
    pub from_ns: u64,
    /// The machines that have made what they were to take.
    pub ready: Vec<String>,
    /// The machine that said so.
    pub by: String,
}

/// What all machines change by hand at one lab time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// Of which order of a lab: the number of the change that made it.
    pub order: u64,
    /// Lab time, nanoseconds: all have heard of it by then.
    pub at_ns: u64,
    /// What is changed.
    pub what: serde_json::Value,
}

/// What all machines of a lab go by, in the order in which it came into the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agreed {
    /// The lab goes on without a machine.
    Lost {
        /// The machine.
        machine: String,
        /// From when.
        loss: Loss,
    },
    /// Nodes of a machine that was lost are on others.
    Back {
        /// The machine that was lost.
        machine: String,
        /// From when, and who has them.
        back: Back,
    },
}

/// That a lab is to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Why, for people.
    pub why: String,
}
