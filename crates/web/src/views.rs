//! What the page is told, as types; `web/src/types.ts` and `docs/reference/web.openapi.json` are made of them. Answers of labs are
//! those of `constel-api`.

use constel_api::answers::{LabRow, LinkShown};
use constel_api::summary::Summary;
use constel_api::{Event, manifest::Manifest};
use constel_link::PlaneReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is looked at.
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

/// All that no step changes: what the page asks for first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct World {
    /// The program's version.
    pub constel: String,
    /// What is looked at.
    pub mode: Mode,
    /// The lab, or the scenario.
    pub name: String,
    /// Its file, or the run's folder.
    pub file: String,
    /// The author's words; may be empty.
    pub description: String,
    /// UTC at lab time zero, milliseconds since 1970.
    pub start_ms: f64,
    /// Time between two topologies, nanoseconds.
    pub step_ns: f64,
    /// How long the scenario lasts, nanoseconds.
    pub duration_ns: f64,
    /// Whether links may be changed.
    pub may_write: bool,
    /// Whether shells may be opened.
    pub may_shell: bool,
    /// All nodes, by number.
    pub nodes: Vec<NodeView>,
    /// Kinds of links, by the number that steps give them.
    pub link_kinds: Vec<String>,
    /// What flies.
    pub constellations: Vec<ConstellationView>,
    /// The scenario's flows between two nodes.
    pub flows: Vec<FlowView>,
    /// What one should know before trusting what is shown.
    pub warnings: Vec<String>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// `satellite`, `spacecraft`, `ground` or `host`.
    pub kind: String,
    /// What a catalogue calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogue_name: Option<String>,
    /// Its catalogue number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norad_id: Option<u64>,
    /// The place of its constellation in [`World::constellations`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constellation: Option<u16>,
    /// Its shell, plane and slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<[u16; 3]>,
    /// Its address of management, by which the machine reaches it beside what is emulated; of labs that run.
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

/// One direction of a link, as the scenario has it.
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
    /// Whether frames pass; false while antennas turn.
    pub usable: bool,
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
    /// As the scenario has it at the instant.
    pub edges: Vec<EdgeView>,
    /// As the lab has it now: counters, queues, effects; only of the step that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LinkShown>,
}

/// A node at an instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeNow {
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
    /// Of a station: what it sees, highest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sky: Vec<Seen>,
    /// Of a station: its lowest mask, degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask_deg: Option<f64>,
}

/// A satellite above a station's horizon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Seen {
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

/// Where a satellite will fly in the course of one revolution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrackView {
    /// ITRF, kilometres, three numbers a point.
    pub itrf_km: Vec<f64>,
    /// Lab times of the points, seconds.
    pub t_s: Vec<f64>,
}

/// What happens on the time line.
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
    /// What ran.
    pub manifest: Manifest,
    /// What came out; absent where it did not come to its end.
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

/// What a flow is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// `ping`, twice a second: round trips in milliseconds.
    Ping,
    /// `iperf3` over TCP: throughput in Mbit/s.
    Tcp,
}

/// A flow that was started, and what it measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowNow {
    /// Its number.
    pub id: u32,
    /// What it is made of.
    pub tool: Tool,
    /// Where it begins.
    pub from: String,
    /// Where it leads.
    pub to: String,
    /// Round trips in milliseconds, or Mbit/s, in their order.
    pub samples: Vec<f64>,
    /// What else its tool said.
    pub words: Vec<String>,
    /// Whether it has ended.
    pub ended: bool,
}

/// What is not done, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// In words.
    pub error: String,
}

/// What the page's socket tells as text; steps come as bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum SocketTold {
    /// What happened in a running lab since the message before.
    Events {
        /// In their order.
        events: Vec<Event>,
    },
    /// A running lab, as it was when it was last asked.
    Now {
        /// Its row of `constel list`; null until it has answered.
        lab: Option<LabRow>,
        /// Its link plane; null until it has answered, and while it has none.
        health: Option<Box<PlaneReport>>,
        /// Whether it is down.
        ended: bool,
    },
    /// How much of their rate the links of a running lab carry, to those who want to know.
    Loads {
        /// Lab time of the later of the two looks, nanoseconds; null while the clock is held.
        t_ns: Option<u64>,
        /// Links that carried something between the two looks, in the order of their ports.
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

/// What a shell's socket tells as text; what its terminal shows comes as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum ShellTold {
    /// The shell has ended, and with it the socket.
    Ended {
        /// Its exit code; null where a signal, or the server, ended it.
        code: Option<i32>,
    },
    /// A message that is not understood, or a shell that cannot be.
    Refused {
        /// Why.
        error: String,
    },
}
