//! The data for the page, as types. `web/src/types.ts` and `docs/reference/web.openapi.json` are generated from them.
//! Replies of labs are those of `constel-api`.

use constel_api::answers::{LabRow, LinkShown};
use constel_api::summary::Summary;
use constel_api::{Event, manifest::Manifest};
use constel_link::PlaneReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The source of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A scenario, of which all is computed.
    Plan,
    /// A running lab.
    Lab,
    /// A run that has ended, from its results.
    Run,
    /// A box: rules instead of nodes.
    Box,
}

/// Data that no step changes, which the page requests first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct World {
    /// The program's version.
    pub constel: String,
    /// Source of the view.
    pub mode: Mode,
    /// The lab, or the scenario.
    pub name: String,
    /// Scenario file, or folder of the run.
    pub file: String,
    /// The author's words; may be empty.
    pub description: String,
    /// UTC at lab time zero, milliseconds since 1970.
    pub start_ms: f64,
    /// Time between two topologies, nanoseconds.
    pub step_ns: f64,
    /// How long the scenario lasts, nanoseconds.
    pub duration_ns: f64,
    /// Bound on the 99th percentile of frames' lateness (`links.max_lateness`), nanoseconds; 0 for a box.
    pub max_lateness_ns: f64,
    /// The scenario's networks.
    pub networks: Vec<NetworkView>,
    /// Whether links may be changed.
    pub may_write: bool,
    /// Whether shells may be opened.
    pub may_shell: bool,
    /// All nodes, by number.
    pub nodes: Vec<NodeView>,
    /// Kinds of links, by the number that steps give them.
    pub link_kinds: Vec<String>,
    /// The constellations.
    pub constellations: Vec<ConstellationView>,
    /// The scenario's flows between two nodes.
    pub flows: Vec<FlowView>,
    /// Warnings that a user should know before trusting the view.
    pub warnings: Vec<String>,
}

/// A network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkView {
    /// Its name.
    pub name: String,
    /// The members.
    pub members: Vec<MemberView>,
}

/// A member of a network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemberView {
    /// The node's number.
    pub node: usize,
    /// The number of the port, as steps have it.
    pub port: u32,
    /// Whether it is absent when the lab starts.
    pub away: bool,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// `satellite`, `spacecraft`, `ground` or `host`.
    pub kind: String,
    /// Name in a catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogue_name: Option<String>,
    /// Catalogue number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norad_id: Option<u64>,
    /// The place of its constellation in [`World::constellations`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constellation: Option<u16>,
    /// Shell, plane and slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<[u16; 3]>,
    /// Management address, by which the machine reaches the node outside the emulated network. Only for running labs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub management: Option<String>,
}

/// A constellation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConstellationView {
    /// Its name.
    pub name: String,
    /// How many satellites it has.
    pub satellites: usize,
    /// The least elevation at which any station uses it, degrees; absent where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask_deg: Option<f64>,
}

/// A flow of the scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowView {
    /// Its name.
    pub name: String,
    /// Its client.
    pub from: String,
    /// Its server.
    pub to: String,
}

/// One direction of a link at an instant, with the changes by hand in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EdgeView {
    /// `NODE/PORT`.
    pub from: String,
    /// `NODE/PORT`.
    pub to: String,
    /// `isl`, `gsl`, `cable` or `network`.
    pub kind: String,
    /// Nanoseconds.
    pub delay_ns: u64,
    /// Bits per second; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Whether frames pass; false while antennas turn, and for a link that is down by hand.
    pub usable: bool,
    /// `up`, `antennas turn`, `failed by hand` or, if an end is not in its network, `member absent`.
    pub state: String,
}

/// A link at an instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkView {
    /// One end.
    pub a: String,
    /// The other.
    pub b: String,
    /// Lab time of the step, nanoseconds.
    pub t_ns: f64,
    /// Whether frames pass.
    pub up: bool,
    /// Why, in the words of `constel link`.
    pub why: String,
    /// The edges of the link at the instant, with the changes by hand in force.
    pub edges: Vec<EdgeView>,
    /// As the lab has it now: counters, queues, effects; only of the step that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LinkShown>,
}

/// A node at an instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// Lab time, nanoseconds.
    pub t_ns: f64,
    /// WGS84 latitude, degrees; absent where it has no position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latitude_deg: Option<f64>,
    /// Longitude, degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longitude_deg: Option<f64>,
    /// Height above the ellipsoid, kilometres.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height_km: Option<f64>,
    /// The links it has, by their far ends.
    pub links: Vec<EdgeView>,
    /// For a station: the visible satellites, highest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sky: Vec<VisibleSatellite>,
    /// For a station: its lowest mask, degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask_deg: Option<f64>,
}

/// A satellite above a station's horizon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VisibleSatellite {
    /// Its name.
    pub name: String,
    /// Its number.
    pub node: usize,
    /// From north over east, degrees.
    pub azimuth_deg: f64,
    /// Above the horizon, degrees.
    pub elevation_deg: f64,
    /// Kilometres.
    pub range_km: f64,
    /// Whether it is used.
    pub up: bool,
    /// Why, in the words of `constel link`.
    pub why: String,
}

/// The least-delay path of a pair over the scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesView {
    /// From.
    pub from: String,
    /// To.
    pub to: String,
    /// Lab times, seconds.
    pub t_s: Vec<f64>,
    /// One-way delay, milliseconds; null without a path.
    pub delay_ms: Vec<Option<f64>>,
    /// Links; 0 without a path.
    pub hops: Vec<u16>,
    /// Places at which the path leads over other nodes than at the sample before.
    pub changed: Vec<usize>,
}

/// The future track of a satellite over one revolution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrackView {
    /// ITRF, kilometres, three numbers a point.
    pub itrf_km: Vec<f64>,
    /// Lab times of the points, seconds.
    pub t_s: Vec<f64>,
}

/// The events of the time line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// In their order.
    pub events: Vec<Event>,
    /// How far they are known, nanoseconds of lab time.
    pub until_ns: f64,
    /// Whether that is all.
    pub complete: bool,
}

/// A run that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunView {
    /// The manifest of the run.
    pub manifest: Manifest,
    /// The summary. Absent if the run did not finish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
}

/// Columns of a table of numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Columns {
    /// Their names.
    pub names: Vec<String>,
    /// Each column's values; null where a cell is empty or no number.
    pub columns: Vec<Vec<Option<f64>>>,
}

/// The tool of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// `ping`, twice a second: round trips in milliseconds.
    Ping,
    /// `iperf3` over TCP: throughput in Mbit/s.
    Tcp,
}

/// A started flow with its measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowNow {
    /// Its number.
    pub id: u32,
    /// Tool of the flow.
    pub tool: Tool,
    /// Source node.
    pub from: String,
    /// Destination node.
    pub to: String,
    /// Round trips in milliseconds, or Mbit/s, in their order.
    pub samples: Vec<f64>,
    /// Other output of its tool.
    pub words: Vec<String>,
    /// Whether it has ended.
    pub ended: bool,
}

/// A draft of a scenario: its errors, or its plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DraftView {
    /// In the order of their lines; empty for a valid scenario.
    pub errors: Vec<DraftError>,
    /// The plan; absent if there are errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<DraftPlan>>,
}

/// An error of a draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DraftError {
    /// Line of the text, from 1; 0 if no line causes it alone.
    pub line: u32,
    /// The error in words.
    pub message: String,
    /// The reason, what was probably meant, the allowed values and the next step, as far as there are any.
    pub help: Vec<String>,
}

/// The plan of a draft.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DraftPlan {
    /// Data that no step changes.
    pub world: World,
    /// The first step as hexadecimal digits, in the format of binary messages on the page's socket.
    pub step_hex: String,
    /// Directed edges at lab time zero.
    pub edges: usize,
    /// Lab time that was sampled for `stations` and `flows`, seconds.
    pub sampled_s: f64,
    /// All stations.
    pub stations: Vec<DraftStation>,
    /// All flows between two nodes.
    pub flows: Vec<DraftFlow>,
    /// Values that are valid but probably a mistake.
    pub warnings: Vec<String>,
}

/// A station of a draft.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DraftStation {
    /// Its name.
    pub station: String,
    /// Time without a usable ground link, seconds.
    pub dark_s: f64,
    /// Changes of its satellites.
    pub handovers: u64,
}

/// A flow of a draft.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DraftFlow {
    /// Its name.
    pub flow: String,
    /// One end.
    pub from: String,
    /// The other.
    pub to: String,
    /// Share of the flow's time with a path; `null` if no part of it was sampled.
    pub path_ratio: Option<f64>,
    /// Least one-way delay at lab time zero, nanoseconds; absent without a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ns: Option<u64>,
    /// The nodes of that path, in their order.
    pub nodes: Vec<String>,
}

/// A refused request with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// The message.
    pub error: String,
}

/// Text messages on the page's socket. Steps come as bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum SocketMessage {
    /// Events of a running lab since the previous message.
    Events {
        /// In their order.
        events: Vec<Event>,
    },
    /// The latest state of a running lab.
    Now {
        /// Row of the lab in `constel list`. `null` before its first reply.
        lab: Option<LabRow>,
        /// Link plane of the lab. `null` before its first reply, and until the plane exists.
        health: Option<Box<PlaneReport>>,
        /// Whether it is down.
        ended: bool,
    },
    /// Utilisation of the links of a running lab, for browsers that requested it.
    Loads {
        /// Lab time of the later of the two samples, nanoseconds. `null` while the clock is held.
        t_ns: Option<u64>,
        /// Links with traffic between the two samples, in the order of their ports.
        links: Vec<LinkLoad>,
    },
    /// A message that is not understood, or a step that cannot be.
    Refused {
        /// Why.
        error: String,
    },
}

/// How much of its rate a link carries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkLoad {
    /// The lower of its ports.
    pub a: u32,
    /// The other.
    pub b: u32,
    /// Share of the rate, from 0 to 1, of the busier of its directions.
    pub load: f64,
}

/// Text messages on a shell's socket. The output of its terminal comes as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum ShellMessage {
    /// The shell has ended, and with it the socket.
    Ended {
        /// Exit code. `null` if a signal, or the server, ended it.
        code: Option<i32>,
    },
    /// A message that is not understood, or a shell that cannot be.
    Refused {
        /// Why.
        error: String,
    },
}
