//! What an agent and the process that runs a part say to each other: a line of JSON each, on the process's standard input and
//! output.
//!
//! The process ends its part when its input ends: without its agent, nobody knows whether the machine may still send.

use std::collections::BTreeMap;

use constel_underlay::Endpoint;
use serde::{Deserialize, Serialize};

use super::model::{Order, Ways};

/// By what name the order is in the folder that the process is given; files of the scenario are beside it by their numbers.
pub const ORDER_FILE: &str = "order.json";

/// The folder of what it leaves, there.
pub const RESULTS: &str = "results";

/// What an agent says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToPart {
    /// Where all listen.
    Ways(Ways),
    /// What is known now; four times a second.
    Beat(Beat),
    /// Lab time zero, by the clock that all machines have in common, nanoseconds.
    Go(u64),
    /// The lab goes on without this machine.
    Lost(Lost),
    /// Nodes of a lost machine have their links again.
    Back(Back),
    /// What all machines change by hand at one lab time.
    Change(Changing),
    /// End in good order.
    End,
}

/// What is known now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// The machines' common clock less this machine's `CLOCK_MONOTONIC`, nanoseconds.
    pub ahead_ns: i64,
    /// How often this clock or the reference's was found to have jumped against the other.
    pub clock_jumps: u64,
    /// Until when the machine may send for its nodes, `CLOCK_BOOTTIME`, nanoseconds.
    pub until_ns: u64,
}

/// A machine that the lab goes on without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Its place in the order.
    pub machine: usize,
    /// Lab time by which all others know of it, nanoseconds.
    pub from_ns: u64,
}

/// Nodes of a lost machine that others have made anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Back {
    /// The lost machine's place in the order.
    pub machine: usize,
    /// Lab time by which all know of it, nanoseconds.
    pub from_ns: u64,
    /// Places of the machines that have made what they were to take.
    pub ready: Vec<usize>,
}

/// What all machines change by hand at one lab time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Changing {
    /// The place of the machine that was asked.
    pub by: usize,
    /// Which of its orders it is.
    pub number: u64,
    /// Lab time, nanoseconds.
    pub at_ns: u64,
    /// What is changed, in words that are the process's own.
    pub what: serde_json::Value,
}

/// What the process says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromPart {
    /// It listens there.
    Listening(Endpoint),
    /// The lab has this name on its machine.
    Called(String),
    /// Its part stands: so many nodes, a number made of the plan of lab time zero, and what they are made of.
    Standing {
        /// Nodes.
        nodes: u64,
        /// The number.
        plan: String,
        /// Digests of the images of its nodes, by the scenario's names for them.
        images: BTreeMap<String, String>,
    },
    /// These machines, by their places, are to make anew what a lost one had.
    Takers {
        /// The lost one's place.
        machine: usize,
        /// Theirs.
        takers: Vec<usize>,
    },
    /// What this machine was to take of a lost one is made, without links.
    Took {
        /// The lost one's place.
        machine: usize,
        /// Why it could not be made.
        failure: Option<String>,
    },
    /// Somebody asked this machine for a change that all are to make.
    Order {
        /// Which of its orders it is.
        number: u64,
        /// The change.
        what: serde_json::Value,
    },
    /// For people.
    Say(String),
    /// It is down again; what it left is in its folder.
    Ended {
        /// Why it ended without being asked to.
        failure: Option<String>,
    },
}

/// What the process is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The order.
    pub order: Order,
    /// The scenario's text, and the files that it names, by what it calls them.
    pub files: Vec<(String, Vec<u8>)>,
}

/// Reads what an agent has put into a folder.
///
/// # Errors
/// When something is not there.
pub fn read(folder: &std::path::Path) -> std::io::Result<Given> {
    let text = std::fs::read(folder.join(ORDER_FILE))?;
    let order: Order = serde_json::from_slice(&text)?;
    let files = order.files.iter().enumerate().map(|(number, file)| {
        let bytes = std::fs::read(folder.join(number.to_string()))?;
        Ok((file.path.clone(), bytes))
    });
    let files = files.collect::<std::io::Result<_>>()?;
    Ok(Given { order, files })
}
