//! `aqm` of a link: queue disciplines and their parameters.

use constel_units::{DataSize, Ratio, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::link::yes;

/// A queue discipline. Exactly one of its keys is given. Parameters have defaults if the algorithm defines
/// them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Aqm")]
pub enum RawAqm {
    /// Controlled Delay, RFC 8289.
    Codel(RawCodel),
    /// Flow Queue CoDel, RFC 8290; flows by IPv4 and IPv6 5-tuple.
    FqCodel(RawFqCodel),
    /// Random Early Detection (Floyd and Jacobson 1993).
    Red(RawRed),
    /// Proportional Integral controller Enhanced, RFC 8033.
    Pie(RawPie),
    /// NIST Net's Derivative Random Drop: the chance of a drop rises linearly with the number of waiting
    /// frames, from 0 at `min_frames` to 95 % at `max_frames` and above.
    Drd(RawDrd),
    /// First in, first out; a packet that waited longer than a threshold is marked (RFC 8257, section 3.1),
    /// never dropped, if its sender supports ECN.
    CeThreshold(RawCeThreshold),
}

/// Parameters of marking by a threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CeThreshold")]
pub struct RawCeThreshold {
    /// Time in the queue above which a packet is marked.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub above: TimeSpan,
}

/// Parameters of CoDel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Codel")]
pub struct RawCodel {
    /// Acceptable standing delay.
    #[serde(default = "codel_target")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub target: TimeSpan,
    /// Time in which the delay must have been acceptable once.
    #[serde(default = "codel_interval")]
    #[schemars(extend("x-minimum" = "1 us", "x-maximum" = "100 s"))]
    pub interval: TimeSpan,
    /// Mark packets instead of dropping them, if their senders support ECN.
    #[serde(default)]
    pub ecn: bool,
}

/// Parameters of FQ-CoDel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FqCodel")]
pub struct RawFqCodel {
    /// Acceptable standing delay.
    #[serde(default = "codel_target")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub target: TimeSpan,
    /// Time in which the delay must have been acceptable once.
    #[serde(default = "codel_interval")]
    #[schemars(extend("x-minimum" = "1 us", "x-maximum" = "100 s"))]
    pub interval: TimeSpan,
    /// Queues that flows are hashed to.
    #[serde(default = "fq_flows")]
    #[schemars(range(min = 1, max = 65_536))]
    pub flows: u32,
    /// Bytes that a queue may send per round.
    #[serde(default = "fq_quantum")]
    #[schemars(extend("x-minimum" = "1 B", "x-maximum" = "1 MiB"))]
    pub quantum: DataSize,
    /// Mark packets instead of dropping them, if their senders support ECN.
    #[serde(default)]
    pub ecn: bool,
}

/// Parameters of RED.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Red")]
pub struct RawRed {
    /// Average queue up to which no packet is dropped.
    #[schemars(extend("x-minimum" = "0 B", "x-maximum" = "1 GiB"))]
    pub min: DataSize,
    /// Average queue at which `probability` is reached; more than `min`.
    #[schemars(extend("x-minimum" = "1 B", "x-maximum" = "1 GiB"))]
    pub max: DataSize,
    /// Chance of a drop at `max`.
    #[serde(default = "red_probability")]
    #[schemars(extend("x-exclusive-minimum" = "0 %"))]
    pub probability: Ratio,
    /// Weight of a new value in the average.
    #[serde(default = "red_weight")]
    #[schemars(extend("x-exclusive-minimum" = "0 %"))]
    pub weight: Ratio,
    /// From `max` to twice that the chance rises to 1 gradually, instead of jumping to 1.
    #[serde(default = "yes")]
    pub gentle: bool,
    /// Mark packets instead of dropping them, if their senders support ECN.
    #[serde(default)]
    pub ecn: bool,
    /// Length of a typical frame, by which the average decreases while the link is idle.
    #[serde(default = "red_frame")]
    #[schemars(extend("x-minimum" = "1 B", "x-maximum" = "64 KiB"))]
    pub frame: DataSize,
}

/// Parameters of PIE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Pie")]
pub struct RawPie {
    /// Target delay.
    #[serde(default = "pie_time")]
    #[schemars(extend("x-minimum" = "1 us", "x-maximum" = "10 s"))]
    pub target: TimeSpan,
    /// Time between two updates of the drop probability.
    #[serde(default = "pie_time")]
    #[schemars(extend("x-minimum" = "1 ms", "x-maximum" = "10 s"))]
    pub update: TimeSpan,
    /// A burst of this length passes after the queue was short.
    #[serde(default = "pie_burst")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "100 s"))]
    pub burst: TimeSpan,
    /// Mark packets instead of dropping them, if their senders support ECN.
    #[serde(default)]
    pub ecn: bool,
}

/// Parameters of DRD.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Drd")]
pub struct RawDrd {
    /// Up to this number of waiting frames no frame is dropped.
    #[schemars(range(min = 0, max = 10_000_000))]
    pub min_frames: u32,
    /// From this number on 95 % are dropped; more than `min_frames`.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_frames: u32,
    /// Below `max_frames`, mark packets instead of dropping them, if their senders support ECN.
    #[serde(default)]
    pub ecn: bool,
}

fn codel_target() -> TimeSpan {
    TimeSpan::from_ns(5_000_000)
}

fn codel_interval() -> TimeSpan {
    TimeSpan::from_ns(100_000_000)
}

fn fq_flows() -> u32 {
    1024
}

fn fq_quantum() -> DataSize {
    DataSize::from_bytes(1514)
}

fn red_probability() -> Ratio {
    Ratio::from_ratio(0.1).expect("a ratio")
}

fn red_weight() -> Ratio {
    Ratio::from_ratio(0.002).expect("a ratio")
}

fn red_frame() -> DataSize {
    DataSize::from_bytes(1000)
}

fn pie_time() -> TimeSpan {
    TimeSpan::from_ns(15_000_000)
}

fn pie_burst() -> TimeSpan {
    TimeSpan::from_ns(150_000_000)
}
