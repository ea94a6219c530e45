//! Queue disciplines: what may be asked of the queue in front of the service. How they work is in
//! `aqm`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::Nanos;

/// Who waits, who is dropped, who is marked. Limits in bytes and frames hold besides, for all of
/// them; the frame in service does not count as waiting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Discipline {
    /// First in, first out; what does not fit is dropped.
    DropTail,
    /// Controlled Delay (RFC 8289).
    Codel(CodelParams),
    /// Flow Queue CoDel (RFC 8290).
    FqCodel {
        /// Of each flow's queue.
        codel: CodelParams,
        /// Number of queues that flows are hashed to, at least 1.
        flows: u32,
        /// Bytes a queue may send per round, at least 1.
        quantum_bytes: u32,
    },
    /// Random Early Detection (Floyd and Jacobson 1993), average and thresholds in bytes.
    Red(RedParams),
    /// Proportional Integral controller Enhanced (RFC 8033), delay by time stamps.
    Pie(PieParams),
    /// NIST Net's Derivative Random Drop (Carson and Santay 2003): by the number of frames that
    /// wait, 0 up to `min_frames`, then in a straight line up to 0.95 at `max_frames`, and 0.95
    /// above.
    Drd {
        /// Up to this many waiting frames nothing is dropped.
        min_frames: u64,
        /// From this many on 0.95 are dropped; more than `min_frames`.
        max_frames: u64,
        /// Mark instead of dropping, as long as fewer than `max_frames` wait.
        ecn: bool,
    },
    /// First in, first out, and a mark (never a drop) for every frame that waited too long: the step
    /// that DCTCP wants (RFC 8257, section 3.1), by time as `ce_threshold` of Linux's fq has it.
    CeThreshold {
        /// Time in the queue above which a frame is marked.
        above_ns: Nanos,
    },
}

/// Parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodelParams {
    /// Standing delay that is fine; RFC 8289: 5 ms.
    pub target_ns: Nanos,
    /// Time in which it must have been seen; RFC 8289: 100 ms. At least 1.
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
    /// From `max_bytes` to twice that the probability rises to 1, instead of jumping there.
    pub gentle: bool,
    /// Mark instead of dropping, where the probability is not 1.
    pub ecn: bool,
    /// Length of a typical frame, by which the average falls while the link is idle; at least 1.
    pub frame_bytes: u32,
}

/// Parameters of PIE. The gains are those of RFC 8033 (0.125/s and 1.25/s).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PieParams {
    /// Delay to be kept; RFC 8033: 15 ms. At least 1.
    pub target_ns: Nanos,
    /// Time between two looks; RFC 8033: 15 ms. At least 1 ms.
    pub update_ns: Nanos,
    /// A burst of this length passes after the queue was short; RFC 8033: 150 ms.
    pub burst_ns: Nanos,
    /// Mark instead of dropping, as long as the probability is below 0.1.
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
