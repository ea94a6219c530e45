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
#[schemars(rename = "Expectation")]
pub struct RawExpectation {
    /// The expectation's name in reports, unique in the scenario.
    pub name: Name,
    /// The requirement that it verifies, in the author's words; it is written to JUnit's properties.
    #[schemars(length(min = 1, max = 200))]
    pub requirement: Option<String>,
    /// The condition.
    #[serde(flatten)]
    pub what: RawExpected,
}

/// The condition of an expectation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawExpected {
    /// This flow gave a result. A `run` gives one if its program ended with 0, or was still running when its
    /// time was over.
    Succeeds(Name),
    /// In these nodes (names or patterns with `*` and `?`) daemons, helpers, containers or programs of a `run`
    /// ran, and none ended before its time. Either the nodes alone, or `nodes` with `from` and `until`. In nodes
    /// of each name or pattern at least one must run in that time.
    Alive(RawAlive),
    /// These programs were still running when their time was over: `run` flows, by names or patterns with `*` and `?`.
    StillRunning(
        #[schemars(length(min = 1, max = 10_000), inner(length(min = 1, max = 64)))] Vec<String>,
    ),
    /// A program ended before its time was over.
    EndedEarly(RawEndedEarly),
    /// A ping was answered in time.
    Reachable(RawReachable),
    /// Bounds of the share of a flow's packets that arrived.
    Delivery(RawDelivery),
    /// Bounds of a flow's payload throughput.
    Throughput(RawThroughput),
    /// A quantile of a ping's round-trip times.
    RoundTrip(RawRoundTrip),
    /// The outputs of several programs agree.
    Agreement(RawAgreement),
    /// A quantile of numbers that a program printed.
    Metric(RawMetric),
    /// One event came before another.
    Order(RawOrder),
}

/// A part of lab time: events in it, probes that were sent in it, lines that were printed in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Only from this lab time on. Default: from the beginning.
    #[schemars(extend("x-minimum" = "0 s"))]
    pub from: Option<TimeSpan>,
    /// Only before this lab time. Default: to the end.
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub until: Option<TimeSpan>,
}

impl Window {
    /// Whether it is all of the time.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.from.is_none() && self.until.is_none()
    }

    /// Whether an instant of lab time, nanoseconds, is in it.
    #[must_use]
    pub fn has(&self, t_ns: i64) -> bool {
        self.from.is_none_or(|from| t_ns >= from.ns())
            && self.until.is_none_or(|until| t_ns < until.ns())
    }

    /// Whether a time from `begin` on and before `end` is in it, in part at least.
    #[must_use]
    pub fn meets(&self, begin: TimeSpan, end: TimeSpan) -> bool {
        self.from.is_none_or(|from| end > from) && self.until.is_none_or(|until| begin < until)
    }

    /// Returns the window in words, to be appended; empty for all of the time.
    #[must_use]
    pub fn in_words(&self) -> String {
        let from = self.from.map_or(String::new(), |t| format!(" from {t}"));
        let until = self.until.map_or(String::new(), |t| format!(" until {t}"));
        from + &until
    }
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
        /// The part of the run.
        #[serde(flatten)]
        window: Window,
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
    #[schemars(range(min = 0, max = 255))]
    pub code: Option<u8>,
    /// The number of the signal that killed it, such as 11 for SIGSEGV. Default: any. Not with `code`.
    #[schemars(range(min = 1, max = 64))]
    pub signal: Option<u8>,
    /// The part of lab time that counts.
    #[serde(flatten)]
    pub window: Window,
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
    /// The part of lab time that counts.
    #[serde(flatten)]
    pub window: Window,
}

/// Bounds of the share of a flow's packets that arrived: `at_least`, `at_most`, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExpectDelivery")]
pub struct RawDelivery {
    /// A flow that counts its losses: `ping`, `iperf3` over UDP, `leotp`, `vivace`.
    pub flow: Name,
    /// Least share of the packets sent.
    pub at_least: Option<Ratio>,
    /// Largest share of the packets sent, for flows that a jammer or a partition must stop.
    pub at_most: Option<Ratio>,
    /// The part of lab time that counts.
    #[serde(flatten)]
    pub window: Window,
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
    pub at_least: Option<Ratio>,
    /// Largest share of agreeing keys. `at_least`, `at_most`, or both.
    pub at_most: Option<Ratio>,
    /// The column with the time of each line, which `from` and `until` need.
    pub time: Option<RawPrintedTime>,
    /// The part of lab time that counts.
    #[serde(flatten)]
    pub window: Window,
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
    #[schemars(range(min = -1e12, max = 1e12))]
    pub at_least: Option<f64>,
    /// The largest allowed value.
    #[schemars(range(min = -1e12, max = 1e12))]
    pub at_most: Option<f64>,
    /// The column with the time of each line, which `from` and `until` need.
    pub time: Option<RawPrintedTime>,
    /// The part of lab time that counts.
    #[serde(flatten)]
    pub window: Window,
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
    pub at_least: Option<DataRate>,
    /// No faster.
    pub at_most: Option<DataRate>,
    /// The part of lab time that counts.
    #[serde(flatten)]
    pub window: Window,
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
    #[schemars(extend("x-minimum" = "0 s"))]
    pub at_least: Option<TimeSpan>,
    /// The largest allowed time. `at_least`, `at_most`, or both.
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub at_most: Option<TimeSpan>,
    /// The part of lab time that counts.
    #[serde(flatten)]
    pub window: Window,
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
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub within: Option<TimeSpan>,
    /// The part of lab time that counts.
    #[serde(flatten)]
    pub window: Window,
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
    #[schemars(length(min = 1, max = 100))]
    pub about: Option<String>,
}
