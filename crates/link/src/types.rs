//! Parameters of an edge: delay, rate, queue and loss, in SI units and whole nanoseconds.

use std::fmt;
use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An instant or a span in nanoseconds. Instants are on whatever clock the caller uses for `now`
/// (the relay uses `CLOCK_MONOTONIC`; tests use virtual time).
pub type Nanos = u64;

/// One network interface of one node, numbered lab-wide from 0.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct PortId(pub u32);

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}", self.0)
    }
}

/// Piecewise-linear propagation delay: `delay(t) = delay_ns + slope * (t - t0_ns)`.
///
/// With the slope, the delay follows an orbit between two updates instead of jumping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Delay {
    /// Instant at which the delay is exactly `delay_ns`.
    pub t0_ns: Nanos,
    /// Delay at `t0_ns`, in nanoseconds.
    pub delay_ns: u64,
    /// Change of the delay in nanoseconds per second (negative when the ends approach).
    pub slope_ns_per_s: i64,
}

impl Delay {
    /// Delay 0.
    pub const ZERO: Delay = Delay {
        t0_ns: 0,
        delay_ns: 0,
        slope_ns_per_s: 0,
    };

    /// Returns a constant delay.
    #[must_use]
    pub const fn constant(delay_ns: u64) -> Delay {
        Delay {
            t0_ns: 0,
            delay_ns,
            slope_ns_per_s: 0,
        }
    }

    /// Returns the delay at `t`, in nanoseconds: exact integer arithmetic, rounded down, never below zero and never
    /// above `u64::MAX`. Also defined before `t0_ns` (the line is extended backwards).
    #[must_use]
    #[inline]
    pub fn at(&self, t: Nanos) -> u64 {
        if self.slope_ns_per_s == 0 {
            return self.delay_ns;
        }
        // The product of a slope and a time exceeds 64 bits, so it is computed in 128. `div_euclid` rounds negative
        // slopes down too.
        let elapsed = i128::from(t) - i128::from(self.t0_ns);
        let glide = (i128::from(self.slope_ns_per_s) * elapsed).div_euclid(1_000_000_000);
        let delay = i128::from(self.delay_ns) + glide;
        u64::try_from(delay.max(0)).unwrap_or(u64::MAX)
    }
}

/// Bound of the drop-tail queue in front of the service stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueLimit {
    /// Bytes that may wait. The frame in service does not count: with 0 bytes an edge still
    /// carries one frame at a time.
    pub bytes: u64,
}

/// Loss law of an impairment.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// No frame is lost.
    #[default]
    None,
    /// Each frame is lost independently.
    Bernoulli {
        /// Probability of losing a frame, `0.0..=1.0`.
        loss_ratio: f64,
    },
}

/// Delay, rate, queue and loss of one edge.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Impairment {
    /// Propagation delay, applied when a frame has left the service stage.
    pub delay: Delay,
    /// Service rate in bit/s over the bytes of the frame as the node sent it (Ethernet header
    /// included, no preamble or checksum). `None`: service takes no time and nothing ever queues.
    pub rate_bps: Option<NonZeroU64>,
    /// Limit of the frames that wait for service.
    pub queue: QueueLimit,
    /// Loss, drawn when a frame has been served (it used its air time).
    pub loss: Loss,
    /// Frames that arrive before this instant are dropped with cause `outage`. 0: up at once.
    pub up_from_ns: Nanos,
    /// Number of the profile, whose effects all edges of a kind share; 0: none. The table must have received the
    /// profile by [`EffectsChange::Profile`](crate::EffectsChange) before an edge refers to it.
    #[serde(default, skip_serializing_if = "is_none")]
    pub profile: u16,
}

fn is_none(profile: &u16) -> bool {
    *profile == 0
}

impl Impairment {
    /// Returns an impairment with a constant delay, no rate limit and no loss.
    #[must_use]
    pub const fn delay_only(delay_ns: u64) -> Impairment {
        Impairment {
            delay: Delay::constant(delay_ns),
            rate_bps: None,
            queue: QueueLimit { bytes: 0 },
            loss: Loss::None,
            up_from_ns: 0,
            profile: 0,
        }
    }
}

/// Cause of the drop of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropCause {
    /// The queue was full.
    Queue,
    /// The queue discipline dropped it before the queue was full.
    Aqm,
    /// The loss law dropped it.
    Loss,
    /// The edge was not up yet, or had failed.
    Outage,
    /// The port has no edge for the frame.
    NoEdge,
    /// The edge was removed or failed while the frame waited for service.
    Removed,
    /// A copy for a further edge could not be made because no frame buffer was free (dropped by the emulator).
    NoBuffer,
    /// The host did not keep up, and the frame was far too late (dropped by the emulator).
    Overload,
}

impl DropCause {
    /// Returns a short description.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            DropCause::Queue => "the queue was full",
            DropCause::Aqm => "by the queue discipline",
            DropCause::Loss => "by the loss law",
            DropCause::Outage => "the edge is down",
            DropCause::NoEdge => "no edge leads to its destination",
            DropCause::Removed => "the edge went down while it waited",
            DropCause::NoBuffer => "no buffer for a copy",
            DropCause::Overload => "the host does not keep up",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_is_exact_and_never_negative() {
        let d = Delay {
            t0_ns: 1_000_000_000,
            delay_ns: 5_000_000,
            slope_ns_per_s: -3,
        };
        assert_eq!(d.at(1_000_000_000), 5_000_000);
        assert_eq!(d.at(2_000_000_000), 4_999_997);
        assert_eq!(
            d.at(1_333_333_334),
            4_999_998,
            "rounded down, towards minus infinity"
        );
        assert_eq!(d.at(0), 5_000_003, "extended backwards");
        let falling = Delay {
            t0_ns: 0,
            delay_ns: 10,
            slope_ns_per_s: -10,
        };
        assert_eq!(falling.at(u64::MAX), 0);
        let rising = Delay {
            t0_ns: 0,
            delay_ns: u64::MAX,
            slope_ns_per_s: i64::MAX,
        };
        assert_eq!(rising.at(u64::MAX), u64::MAX);
        assert_eq!(Delay::constant(7).at(123), 7);
    }

    #[test]
    fn impairment_survives_json() {
        let i = Impairment {
            delay: Delay {
                t0_ns: 1,
                delay_ns: 2,
                slope_ns_per_s: -3,
            },
            rate_bps: NonZeroU64::new(64_000),
            queue: QueueLimit { bytes: 15_000 },
            loss: Loss::Bernoulli { loss_ratio: 0.25 },
            up_from_ns: 9,
            profile: 3,
        };
        let text = serde_json::to_string(&i).unwrap();
        assert_eq!(serde_json::from_str::<Impairment>(&text).unwrap(), i);
    }
}
