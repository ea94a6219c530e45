//! `expect`: expectations of a run; `constel test` reports whether they hold.

use constel_units::{DataRate, Ratio, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EventKind, Name};

/// An expectation that `constel test` judges. It is exactly one of `succeeds`, `alive`, `still_running`,
/// `ended_early`, `reachable`, `delivery`, `throughput`, `round_trip`, `agreement`, `metric` and `order`. An
/// expectation without a measurement fails. A part of the time (`from`, `until`) must overlap the time of the flows
/// that the expectation is about. Some figures have no times, and therefore no parts: `delivery` over `iperf3`,
/// `leotp` and `vivace`, and `throughput` of `http`. `succeeds` and `still_running` are about all of a flow's
/// time. Expectations are judged whatever the run's verdict, unless the
/// verdict's reasons concern data that the expectation needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "Expectation",
    extend("oneOf" = [
        {"required": ["succeeds"]}, {"required": ["alive"]}, {"required": ["still_running"]}, {"required": ["ended_early"]},
        {"required": ["reachable"]}, {"required": ["delivery"]}, {"required": ["throughput"]}, {"required": ["round_trip"]},
        {"required": ["agreement"]}, {"required": ["metric"]}, {"required": ["order"]}
    ])
)]
pub struct RawExpectation {
    /// The expectation's name in reports, unique in the scenario.
    pub name: Name,
    /// The requirement that it verifies, in the author's words; it is written to JUnit's properties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub requirement: Option<String>,
    /// This flow gave a result. A `run` gives one if its program ended with 0, or was still running when its
    /// time was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeds: Option<Name>,
    /// In these nodes (names or patterns with `*` and `?`) daemons, helpers, containers or programs of a `run`
    /// ran, and none ended before its time. Either the nodes alone, or `nodes` with `from` and `until`. In nodes
    /// of each name or pattern at least one must run in that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alive: Option<RawAlive>,
    /// These programs were still running when their time was over: `run` flows, by names or patterns with `*` and `?`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10_000), inner(length(min = 1, max = 64)))]
    pub still_running: Option<Vec<String>>,
    /// A program ended before its time was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<RawEndedEarly>,
    /// A ping was answered in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reachable: Option<RawReachable>,
    /// Bounds of the share of a flow's packets that arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<RawDelivery>,
    /// Bounds of a flow's payload throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<RawThroughput>,
    /// A quantile of a ping's round-trip times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<RawRoundTrip>,
    /// The outputs of several programs agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<RawAgreement>,
    /// A quantile of numbers that a program printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<RawMetric>,
    /// One event came before another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<RawOrder>,
}

/// Nodes in which no program ends before its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
#[schemars(rename = "ExpectAlive")]
pub enum RawAlive {
    /// The nodes: names or patterns with `*` and `?`.
    Nodes(#[schemars(length(min = 1, max = 10_000), inner(length(min = 1, max = 64)))] Vec<String>),
    /// The nodes, and a part of the run.
    During {
        /// The nodes: names or patterns with `*` and `?`.
        #[schemars(length(min = 1, max = 10_000), inner(length(min = 1, max = 64)))]
        nodes: Vec<String>,
        /// Only programs that ended at this lab time or later. Default: the start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-minimum" = "0 s"))]
        from: Option<TimeSpan>,
        /// Only programs that ended before this lab time. Default: the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-exclusive-minimum" = "0 s"))]
        until: Option<TimeSpan>,
    },
}

/// A program ended before its time was over: with `code`, by `signal`, or in any way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExpectEndedEarly")]
pub struct RawEndedEarly {
    /// A `run`.
    pub flow: Name,
    /// The program's exit code. Default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 255))]
    pub code: Option<u8>,
    /// The number of the signal that killed it, such as 11 for SIGSEGV. Default: any. Not with `code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub signal: Option<u8>,
    /// It ended at this lab time or later. Default: the flow's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 s"))]
    pub from: Option<TimeSpan>,
    /// It ended before this lab time. Default: the flow's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub until: Option<TimeSpan>,
}

/// A ping was answered in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExpectReachable")]
pub struct RawReachable {
    /// A `ping`.
    pub flow: Name,
    /// From the flow's start, or from `from`, to the first answer.
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub within: TimeSpan,
    /// Only answers to requests sent from this lab time on. Default: the flow's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 s"))]
    pub from: Option<TimeSpan>,
    /// Only answers to requests sent before this lab time. Default: the flow's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub until: Option<TimeSpan>,
}

/// Bounds of the share of a flow's packets that arrived: `at_least`, `at_most`, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExpectDelivery")]
pub struct RawDelivery {
    /// A flow that counts its losses: `ping`, `iperf3` over UDP, `leotp`, `vivace`.
    pub flow: Name,
    /// Least share of the packets sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<Ratio>,
    /// Largest share of the packets sent, for flows that a jammer or a partition must stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Ratio>,
    /// Only packets that a `ping` sent from this lab time on. Default: from its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 s"))]
    pub from: Option<TimeSpan>,
    /// Only packets that a `ping` sent before this lab time. Default: up to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub until: Option<TimeSpan>,
}

/// The outputs of several programs agree. Each program is a `run` that prints lines of comma-separated values
/// below a line of names, without quotes. Lines with the same `key` are compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExpectAgreement")]
pub struct RawAgreement {
    /// The flows, by names or patterns with `*` and `?`; at least two.
    #[schemars(length(min = 1, max = 10_000), inner(length(min = 1, max = 64)))]
    pub flows: Vec<String>,
    /// The column by which lines belong together, such as the number of a cycle.
    #[schemars(length(min = 1, max = 100))]
    pub key: String,
    /// The column whose values must be equal.
    #[schemars(length(min = 1, max = 100))]
    pub value: String,
    /// Least share of agreeing keys, among the keys for which each flow has a value. If there are no such keys,
    /// the expectation fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<Ratio>,
    /// Largest share of agreeing keys. `at_least`, `at_most`, or both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Ratio>,
    /// The column with the time of each line, which `from` and `until` need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<RawPrintedTime>,
    /// Only lines of this lab time or later. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 s"))]
    pub from: Option<TimeSpan>,
    /// Only lines before this lab time. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub until: Option<TimeSpan>,
}

/// A quantile of numbers that a program printed, as lines of comma-separated values below a line of names,
/// without quotes: at least `at_least`, at most `at_most`, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExpectMetric")]
pub struct RawMetric {
    /// A `run`.
    pub flow: Name,
    /// The column with the numbers.
    #[schemars(length(min = 1, max = 100))]
    pub column: String,
    /// The quantile, nearest rank: `50 %` is the median, `0 %` the least, `100 %` the largest.
    pub quantile: Ratio,
    /// The least allowed value, in the column's own unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1e12, max = 1e12))]
    pub at_least: Option<f64>,
    /// The largest allowed value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1e12, max = 1e12))]
    pub at_most: Option<f64>,
    /// The column with the time of each line, which `from` and `until` need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<RawPrintedTime>,
    /// Only lines of this lab time or later. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 s"))]
    pub from: Option<TimeSpan>,
    /// Only lines before this lab time. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub until: Option<TimeSpan>,
}

/// The time of a line that a program prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExpectTime")]
pub struct RawPrintedTime {
    /// The column with the time, in seconds.
    #[schemars(length(min = 1, max = 100))]
    pub column: String,
    /// The zero of the seconds: `lab` time zero, or the `unix` epoch.
    #[serde(default)]
    pub clock: RawPrintedClock,
}

/// The zero of a column of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ExpectClock")]
pub enum RawPrintedClock {
    /// Lab time zero.
    #[default]
    Lab,
    /// 1970-01-01T00:00:00Z, as `date +%s` and `time.time()` give it.
    Unix,
}

/// Bounds of a flow's payload throughput: `at_least`, `at_most`, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExpectThroughput")]
pub struct RawThroughput {
    /// A flow that carries payload.
    pub flow: Name,
    /// Over the flow's life, or from `from` to `until`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<DataRate>,
    /// No faster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<DataRate>,
    /// Only from this lab time on; not with `http`, which measures the transfer as a whole. Default: the flow's
    /// start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 s"))]
    pub from: Option<TimeSpan>,
    /// Only before this lab time. Default: the flow's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub until: Option<TimeSpan>,
}

/// A quantile of a ping's round-trip times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExpectRoundTrip")]
pub struct RawRoundTrip {
    /// A `ping`.
    pub flow: Name,
    /// The quantile, nearest rank: `50 %` is the median, `100 %` the largest.
    pub quantile: Ratio,
    /// The least allowed time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 s"))]
    pub at_least: Option<TimeSpan>,
    /// The largest allowed time. `at_least`, `at_most`, or both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub at_most: Option<TimeSpan>,
    /// Only requests sent from this lab time on. Default: the flow's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 s"))]
    pub from: Option<TimeSpan>,
    /// Only requests sent before this lab time. Default: the flow's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub until: Option<TimeSpan>,
}

/// One event came before another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExpectOrder")]
pub struct RawOrder {
    /// The earlier one: the first of its kind.
    pub first: RawEventNamed,
    /// The later one: the first of its kind after `first`.
    pub then: RawEventNamed,
    /// The longest time from the earlier event to the later one, in lab time. Default: any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub within: Option<TimeSpan>,
    /// Only events of this lab time or later. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 s"))]
    pub from: Option<TimeSpan>,
    /// Only events before this lab time. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub until: Option<TimeSpan>,
}

/// An event, given by its kind and its subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "EventNamed")]
pub struct RawEventNamed {
    /// As in `events.ndjson`.
    pub kind: EventKind,
    /// A name in the event: of a failure, node, link (`A - B`) or flow of this scenario. Default: any. Not with kinds
    /// that concern the lab as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub about: Option<String>,
}
