//! The messages between an agent and the worker process of a part: one line of JSON each, on the worker's standard input and
//! output.
//!
//! The worker ends its part when its input ends, because without its agent it cannot know whether the machine may still
//! send.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::model::{LabDescription, UnderlaySettings};
use crate::underlay::Endpoint;

/// Name of the order's file in the worker's folder. The files of the scenario are beside it and have numbers as names.
pub const ORDER_FILE: &str = "order.json";

/// Name of the folder for results in the worker's folder.
pub const RESULTS: &str = "results";

/// A message from the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToWorker {
    /// The addresses of all machines.
    Ways(UnderlaySettings),
    /// The current state, four times a second.
    Beat(Heartbeat),
    /// Lab time zero by the common clock of all machines, nanoseconds.
    Go(u64),
    /// The lab continues without this machine.
    Lost(MachineLost),
    /// Nodes of a lost machine have their links again.
    Back(NodesReturnedMessage),
    /// A manual change that all machines apply at one lab time.
    Change(ChangeMessage),
    /// The worker must end in an orderly way.
    End,
}

/// The current state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The machines' common clock minus this machine's `CLOCK_MONOTONIC`, nanoseconds.
    pub ahead_ns: i64,
    /// Number of times that this clock or the reference's jumped against the other.
    pub clock_jumps: u64,
    /// The `CLOCK_BOOTTIME` until which the machine may send for its nodes, nanoseconds.
    pub until_ns: u64,
}

/// A machine that the lab continues without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineLost {
    /// Index of the machine in the order.
    pub machine: usize,
    /// Lab time by which all other machines know of the loss, nanoseconds.
    pub from_ns: u64,
}

/// Nodes of a lost machine that others have created again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodesReturnedMessage {
    /// Index of the lost machine in the order.
    pub machine: usize,
    /// Lab time by which all machines know of the return, nanoseconds.
    pub from_ns: u64,
    /// Indices of the machines that have created their shares.
    pub ready: Vec<usize>,
}

/// A manual change that all machines apply at one lab time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeMessage {
    /// Index of the machine that received the change.
    pub by: usize,
    /// Number of the change on that machine.
    pub number: u64,
    /// Lab time of the change, nanoseconds.
    pub at_ns: u64,
    /// The change, in the worker's own format.
    pub what: serde_json::Value,
}

/// A message from the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromWorker {
    /// The address where it listens.
    Listening(Endpoint),
    /// The lab's name on this machine.
    Called(String),
    /// The part is up: number of nodes, digest of the plan at lab time zero, and digests of the images.
    Standing {
        /// Number of nodes.
        nodes: u64,
        /// Digest of the plan.
        plan: String,
        /// Digests of the images of its nodes, by their names in the scenario.
        images: BTreeMap<String, String>,
    },
    /// The machines, as indices into the order, that must create a lost machine's nodes again.
    Takers {
        /// Index of the lost machine.
        machine: usize,
        /// Indices of the machines that take its nodes over.
        takers: Vec<usize>,
    },
    /// This machine has created its share of a lost machine's nodes, without links.
    Took {
        /// Index of the lost machine.
        machine: usize,
        /// The reason if it failed.
        failure: Option<String>,
    },
    /// This machine received a change that all must apply.
    Order {
        /// Number of the change on this machine.
        number: u64,
        /// The change.
        what: serde_json::Value,
    },
    /// A message for users.
    Say(String),
    /// The part is down, and its results are in its folder.
    Ended {
        /// The reason for an unrequested end.
        failure: Option<String>,
    },
}

/// The input of the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerInput {
    /// The order.
    pub order: LabDescription,
    /// The text of the scenario and the files that it names, each with its name in the scenario.
    pub files: Vec<(String, Vec<u8>)>,
}

/// Reads the folder that an agent has prepared.
///
/// # Errors
/// If a file is missing.
pub fn read(folder: &std::path::Path) -> std::io::Result<WorkerInput> {
    let text = std::fs::read(folder.join(ORDER_FILE))?;
    let order: LabDescription = serde_json::from_slice(&text)?;
    let files = order.files.iter().enumerate().map(|(number, file)| {
        let bytes = std::fs::read(folder.join(number.to_string()))?;
        Ok((file.path.clone(), bytes))
    });
    let files = files.collect::<std::io::Result<_>>()?;
    Ok(WorkerInput { order, files })
}
