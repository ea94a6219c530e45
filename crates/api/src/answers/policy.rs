//! States and answers of a live policy, step by step.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of the state that a policy receives.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum PolicyPart {
    /// The positions of all nodes.
    Positions,
    /// The satellites that stations could use.
    Stations,
    /// Delay, rate, queue and counters of every edge.
    Edges,
}

impl PolicyPart {
    /// Returns all parts.
    #[must_use]
    pub fn all() -> BTreeSet<Self> {
        BTreeSet::from([Self::Positions, Self::Stations, Self::Edges])
    }
}

/// To [`Write::Policy`](crate::Write::Policy), before the first state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyJoined {
    /// Names of all nodes, in the order of their numbers.
    pub nodes: Vec<String>,
    /// Length of a step, nanoseconds.
    pub step_ns: u64,
    /// The time for an answer, nanoseconds.
    pub within_ns: u64,
    /// Whether it may attach stations: not if the scenario has `ground.choices`.
    pub attachments: bool,
    /// Whether it may switch links: not if the scenario has `links.choices`.
    pub links: bool,
    /// Whether it may set routes: only if the scenario has `routing.choices`, with a file without rows.
    pub routes: bool,
}

/// The state before a step, for which a decision is due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyState {
    /// The step that the decision is for.
    pub step: u64,
    /// The lab time at which that step begins, nanoseconds.
    pub t_ns: u64,
    /// Answers of this policy that were too late so far. The decision before held.
    pub late: u64,
    /// Answers of this policy that were refused so far. The decision before held.
    pub refused: u64,
    /// ITRF positions in the step in force, metres, in the order of the nodes; `null` for a satellite without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions_m: Option<Vec<Option<[f64; 3]>>>,
    /// The stations, and the satellites that they could use in the step to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stations: Option<Vec<PolicyStation>>,
    /// The edges of the step in force, in the order of their ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<Vec<PolicyEdge>>,
}

/// A station, and the satellites that it could use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyStation {
    /// The station.
    pub station: String,
    /// The satellites of its antennas in the step in force.
    pub serving: Vec<String>,
    /// The satellites above its mask, within reach, whole and not hidden. Those without a free beam are included.
    pub candidates: Vec<PolicyCandidate>,
}

/// A satellite that a station could use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyCandidate {
    /// The satellite.
    pub satellite: String,
    /// Distance, metres.
    pub range_m: f64,
    /// Elevation above the station's horizon, degrees.
    pub elevation_deg: f64,
    /// Time above the station's mask from the step's beginning on, seconds; an estimate from its motion.
    pub remaining_s: f64,
    /// The satellite's links to the ground in the step in force.
    pub links: u32,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyEdge {
    /// The node that sends.
    pub from: String,
    /// Its port.
    pub port: String,
    /// The node that receives.
    pub to: String,
    /// One-way delay at the beginning of the step in force, nanoseconds.
    pub delay_ns: u64,
    /// Service rate, bit/s; `null`: service takes no time.
    pub rate_bps: Option<u64>,
    /// Bytes that wait for service now.
    pub queue_bytes: u64,
    /// Bytes that arrived so far, over all lives of the edge.
    pub delivered_bytes: u64,
    /// Throughput since the state before, bit/s; `null` in the first state and for a new edge.
    pub carried_bps: Option<f64>,
    /// Frames that the queue dropped so far, full or by its AQM.
    pub dropped_frames: u64,
}

/// The answer of a policy to a state. Stations, links and routes that are not named stay as they were decided before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyAnswer {
    /// The step of the state.
    pub step: u64,
    /// By station, the satellites to use, the most wanted first. Each antenna takes the first that it can use and that no other
    /// antenna of the station has. Without any the station has no link.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attachments: BTreeMap<String, Vec<String>>,
    /// Lasers and cables that are switched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<PolicyLink>,
    /// Next hops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<PolicyRoute>,
    /// The policy ends here on purpose, and its last decisions hold. A policy that leaves in any other way makes the run not
    /// trustworthy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leave: bool,
}

/// A laser or cable that is switched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyLink {
    /// One end's node name.
    pub a: String,
    /// The other end's node name.
    pub b: String,
    /// Whether it is on. It is up only if orbits and failures allow it.
    pub up: bool,
}

/// The next hop of a node for a destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyRoute {
    /// The node.
    pub node: String,
    /// The destination of the packets.
    pub destination: String,
    /// The neighbour that receives them; `null`: they are dropped.
    pub next: Option<String>,
}
