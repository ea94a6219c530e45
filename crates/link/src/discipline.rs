//! Queue disciplines and their parameters, for the queue in front of the service. `aqm` implements them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::Nanos;

/// Rule that decides which frames wait, are dropped or are marked. All disciplines also have limits in bytes and
/// frames. The frame in service does not count as waiting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Discipline {
    /// First in, first out. Frames that do not fit are dropped.
    DropTail,
    /// Controlled Delay (RFC 8289).
    Codel(CodelParams),
    /// Flow Queue CoDel (RFC 8290).
    FqCodel {
        /// CoDel's parameters for each flow's queue.
        codel: CodelParams,
        /// Number of queues that flows are hashed to, at least 1.
        flows: u32,
        /// Bytes that a queue may send per round, at least 1.
        quantum_bytes: u32,
    },
    /// Random Early Detection (Floyd and Jacobson 1993), average and thresholds in bytes.
    Red(RedParams),
    /// Proportional Integral controller Enhanced (RFC 8033), delay by time stamps.
    Pie(PieParams),
    /// NIST Net's Derivative Random Drop (Carson and Santay 2003). The drop probability depends on the number of
    /// waiting frames: 0 up to `min_frames`, then linear up to 0.95 at `max_frames`, and 0.95 above.
    Drd {
        /// Largest number of waiting frames at which nothing is dropped.
        min_frames: u64,
        /// Number of waiting frames from which on 0.95 are dropped; more than `min_frames`.
        max_frames: u64,
        /// Mark instead of dropping while fewer than `max_frames` wait.
        ecn: bool,
    },
    /// First in, first out, and a mark (never a drop) for every frame that waited too long. This is the step function
    /// of DCTCP (RFC 8257, section 3.1), with a threshold in time as `ce_threshold` of Linux's fq.
    CeThreshold {
        /// Time in the queue above which a frame is marked.
        above_ns: Nanos,
    },
}

/// Parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodelParams {
    /// Acceptable standing delay; RFC 8289: 5 ms.
    pub target_ns: Nanos,
    /// Time for which the delay must exceed the target before frames are dropped; RFC 8289: 100 ms. At least 1.
    pub interval_ns: Nanos,
    /// Mark instead of dropping.
    pub ecn: bool,
}

/// Parameters of RED.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedParams {
    /// Average queue up to which nothing is dropped.
    pub min_bytes: u64,
    /// Average queue at which `max_ratio` is reached; more than `min_bytes`.
    pub max_bytes: u64,
    /// Probability at `max_bytes`, above 0, up to 1.
    pub max_ratio: f64,
    /// Weight of a new value in the average, above 0, up to 1.
    pub weight: f64,
    /// Whether the probability rises linearly to 1 between `max_bytes` and twice that, instead of jumping to 1.
    pub gentle: bool,
    /// Mark instead of dropping, except where the probability is 1.
    pub ecn: bool,
    /// Length of a typical frame, which determines how fast the average falls while the link is idle; at least 1.
    pub frame_bytes: u32,
}

/// Parameters of PIE. The gains are those of RFC 8033 (0.125/s and 1.25/s).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PieParams {
    /// Delay that the controller aims at; RFC 8033: 15 ms. At least 1.
    pub target_ns: Nanos,
    /// Time between two updates of the probability; RFC 8033: 15 ms. At least 1 ms.
    pub update_ns: Nanos,
    /// Length of a burst that passes without drops after the queue was short; RFC 8033: 150 ms.
    pub burst_ns: Nanos,
    /// Mark instead of dropping while the probability is below 0.1.
    pub ecn: bool,
}

impl Default for CodelParams {
    fn default() -> CodelParams {
        CodelParams {
            target_ns: 5_000_000,
            interval_ns: 100_000_000,
            ecn: false,
        }
    }
}

impl Default for PieParams {
    fn default() -> PieParams {
        PieParams {
            target_ns: 15_000_000,
            update_ns: 15_000_000,
            burst_ns: 150_000_000,
            ecn: false,
        }
    }
}

impl Discipline {
    pub(crate) fn check(&self, errors: &mut Vec<String>) {
        let mut must = |holds: bool, what: &str| {
            if !holds {
                errors.push(what.into());
            }
        };
        match self {
            Discipline::DropTail | Discipline::CeThreshold { .. } => {}
            Discipline::Codel(codel) => must(codel.interval_ns > 0, "CoDel's interval is 0"),
            Discipline::FqCodel {
                codel,
                flows,
                quantum_bytes,
            } => {
                must(codel.interval_ns > 0, "CoDel's interval is 0");
                must(
                    (1..=65_536).contains(flows),
                    "FQ-CoDel has 1 to 65,536 flow queues",
                );
                must(*quantum_bytes > 0, "FQ-CoDel's quantum is 0");
            }
            Discipline::Red(red) => {
                must(
                    red.min_bytes < red.max_bytes,
                    "RED's lower threshold is not below its upper one",
                );
                // NaN satisfies neither comparison, so it is refused too.
                must(
                    red.max_ratio > 0.0 && red.max_ratio <= 1.0,
                    "RED's probability is not above 0 and at most 1",
                );
                must(
                    red.weight > 0.0 && red.weight <= 1.0,
                    "RED's weight is not above 0 and at most 1",
                );
                must(red.frame_bytes > 0, "RED's typical frame has no bytes");
            }
            Discipline::Pie(pie) => {
                must(pie.target_ns > 0, "PIE's target is 0");
                must(
                    pie.update_ns >= 1_000_000,
                    "PIE looks more often than once in 1 ms",
                );
            }
            Discipline::Drd {
                min_frames,
                max_frames,
                ..
            } => must(
                min_frames < max_frames,
                "DRD's lower threshold is not below its upper one",
            ),
        }
    }
}
