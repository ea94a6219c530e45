//! Rates that change over time: their definitions. `supply` serves frames at them.
//!
//! Every law is piecewise constant, so that service is exact to the bit: curves are constant for [`SLOT_NS`] at the
//! value of the slot's middle. Laws run on the same clock as everything else. `origin_ns` is the instant at which they
//! begin; before it they are continued backwards.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::Nanos;

/// Length of the slots in which curves are constant.
pub const SLOT_NS: u64 = 1_000_000;
/// Bytes per delivery opportunity of a Mahimahi trace: an IP packet of 1500 bytes and four bytes of the TUN device
/// (Netravali et al., "Mahimahi", ATC 2015; its `PACKET_SIZE`).
pub const OPPORTUNITY_BYTES: u32 = 1504;
/// The lowest mean rate of a law, bit/s: below it, serving one frame could take more than minutes.
pub const MIN_MEAN_BPS: u64 = 1_000;
/// The highest rate of a law, bit/s.
pub const MAX_BPS: u64 = 1_000_000_000_000;

/// A service rate as a function of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RateLaw {
    /// Alternates between a high and a low rate, high first.
    Square {
        /// High rate, bit/s.
        high_bps: u64,
        /// Low rate, bit/s, may be 0.
        low_bps: u64,
        /// Duration of the high rate.
        high_ns: u64,
        /// Duration of the low rate.
        low_ns: u64,
        /// Instant at which a high interval begins.
        origin_ns: Nanos,
    },
    /// `mean + amplitude * sin(2 pi t / period)`.
    Sine {
        /// Mean rate, bit/s.
        mean_bps: u64,
        /// Amplitude, bit/s, at most `mean_bps`.
        amplitude_bps: u64,
        /// Period, at least two slots.
        period_ns: u64,
        /// Instant at which the sine is 0 and rises.
        origin_ns: Nanos,
    },
    /// Around each handover the rate falls linearly to `low_bps` and rises again likewise; otherwise it is `high_bps`.
    VCurve {
        /// Rate away from handovers, bit/s.
        high_bps: u64,
        /// Rate at the handover, bit/s.
        low_bps: u64,
        /// Duration of the fall, and of the rise; at most half of the period.
        half_width_ns: u64,
        /// Time from one handover to the next.
        period_ns: u64,
        /// Instant of a handover.
        origin_ns: Nanos,
    },
    /// A recording of rates.
    Steps {
        /// Start of each step and its rate in bit/s. The first step starts at 0; starts rise by a slot or more.
        #[serde(with = "shared")]
        #[schemars(with = "Vec<(u64, u64)>")]
        steps: Arc<[(u64, u64)]>,
        /// Time after which the recording starts again; `None`: the last rate stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        period_ns: Option<u64>,
        /// Instant of the first step.
        origin_ns: Nanos,
    },
    /// A recording of delivery opportunities of [`OPPORTUNITY_BYTES`] each, as in Mahimahi. A frame has been served
    /// when the opportunity has come that carries its last byte. The rest of an opportunity goes to the next frame if
    /// one waits already; otherwise it is lost.
    Opportunities {
        /// Times in milliseconds from the beginning of the recording, and numbers of opportunities: rising, from 1 on.
        /// After the last one the recording starts again.
        #[serde(with = "shared")]
        #[schemars(with = "Vec<(u32, u32)>")]
        batches: Arc<[(u32, u32)]>,
        /// Instant at which the recording begins.
        origin_ns: Nanos,
    },
}

/// Recordings are shared between edges, and serialized as lists.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        list: &Arc<[T]>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        (**list).serialize(to)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<[T]>, D::Error> {
        Vec::deserialize(from).map(Arc::from)
    }
}

impl RateLaw {
    /// Returns the law that begins `by_ns` later.
    #[must_use]
    pub fn starting_later(mut self, by_ns: Nanos) -> RateLaw {
        match &mut self {
            RateLaw::Square { origin_ns, .. }
            | RateLaw::Sine { origin_ns, .. }
            | RateLaw::VCurve { origin_ns, .. }
            | RateLaw::Steps { origin_ns, .. }
            | RateLaw::Opportunities { origin_ns, .. } => {
                *origin_ns = origin_ns.saturating_add(by_ns);
            }
        }
        self
    }

    /// Returns the mean rate in the long run in bit/s, rounded down. For a recording that does not start again, this is
    /// the last rate.
    #[must_use]
    pub fn mean_bps(&self) -> u64 {
        let weighted = |parts: &mut dyn Iterator<Item = (u64, u64)>| {
            // At 1 Tbit/s the product of rate and time exceeds 64 bits after 18 ms.
            let (mut bits, mut span) = (0u128, 0u128);
            for (bps, ns) in parts {
                bits += u128::from(bps) * u128::from(ns);
                span += u128::from(ns);
            }
            u64::try_from(bits / span.max(1)).unwrap_or(u64::MAX)
        };
        match self {
            RateLaw::Square {
                high_bps,
                low_bps,
                high_ns,
                low_ns,
                ..
            } => weighted(&mut [(*high_bps, *high_ns), (*low_bps, *low_ns)].into_iter()),
            // A sine adds nothing over whole periods.
            RateLaw::Sine { mean_bps, .. } => *mean_bps,
            RateLaw::VCurve {
                high_bps,
                low_bps,
                half_width_ns,
                period_ns,
                ..
            } => {
                // The rate is linear within the dip, so its mean there is the middle of both rates.
                let dip = half_width_ns.saturating_mul(2).min(*period_ns);
                let middle = low_bps + high_bps.saturating_sub(*low_bps) / 2;
                weighted(&mut [(middle, dip), (*high_bps, period_ns - dip)].into_iter())
            }
            RateLaw::Steps {
                steps, period_ns, ..
            } => match period_ns {
                // A recording that does not repeat keeps its last rate, which decides in the long run.
                None => steps.last().map_or(0, |s| s.1),
                Some(period) => {
                    // Each step lasts until the next one, and the last until the recording repeats.
                    let ends = steps.iter().skip(1).map(|s| s.0).chain([*period]);
                    let parts = steps.iter().zip(ends);
                    weighted(&mut parts.map(|(&(at, bps), end)| (bps, end.saturating_sub(at))))
                }
            },
            RateLaw::Opportunities { batches, .. } => {
                let count: u128 = batches.iter().map(|b| u128::from(b.1)).sum();
                // As in Mahimahi, whose recordings repeat after their last opportunity: the last instant is the period.
                let bits = count * u128::from(OPPORTUNITY_BYTES) * 8 * 1000;
                let span_ms = batches.last().map_or(1, |b| u128::from(b.0).max(1));
                u64::try_from(bits / span_ms).unwrap_or(u64::MAX)
            }
        }
    }

    pub(crate) fn check(&self, errors: &mut Vec<String>) {
        // Errors of other effects may be in the list already.
        let before = errors.len();
        let mut must = |holds: bool, what: &str| {
            if !holds {
                errors.push(what.into());
            }
        };
        match self {
            RateLaw::Square {
                high_bps,
                low_bps,
                high_ns,
                low_ns,
                ..
            } => {
                must(
                    high_bps >= low_bps,
                    "a square wave's high rate is below its low one",
                );
                must(*high_bps <= MAX_BPS, "a rate is above 1 Tbit/s");
                must(
                    // Each piece of a law costs a step of the service, so pieces have a least length.
                    *high_ns >= SLOT_NS && *low_ns >= SLOT_NS,
                    "a square wave's times are at least 1 ms each",
                );
            }
            RateLaw::Sine {
                mean_bps,
                amplitude_bps,
                period_ns,
                ..
            } => {
                must(
                    amplitude_bps <= mean_bps,
                    "a sine's amplitude is above its mean: rates below zero do not exist",
                );
                must(*mean_bps <= MAX_BPS / 2, "a rate is above 1 Tbit/s");
                must(
                    *period_ns >= 2 * SLOT_NS,
                    "a sine's period is at least 2 ms",
                );
            }
            RateLaw::VCurve {
                high_bps,
                low_bps,
                half_width_ns,
                period_ns,
                ..
            } => {
                must(
                    high_bps >= low_bps,
                    "a V-curve's high rate is below its low one",
                );
                must(*high_bps <= MAX_BPS, "a rate is above 1 Tbit/s");
                must(
                    *half_width_ns >= SLOT_NS,
                    "a V-curve falls for at least 1 ms",
                );
                must(
                    half_width_ns.saturating_mul(2) <= *period_ns,
                    "a V-curve falls and rises for longer than its period",
                );
            }
            RateLaw::Steps {
                steps, period_ns, ..
            } => check_steps(steps, *period_ns, &mut must),
            RateLaw::Opportunities { batches, .. } => check_opportunities(batches, &mut must),
        }
        // The mean of invalid parameters has no meaning.
        if errors.len() == before && self.mean_bps() < MIN_MEAN_BPS {
            errors.push(format!(
                "a rate of {} bit/s in the long run: at least 1 kbit/s (a link without service is \
                 one that fails)",
                self.mean_bps()
            ));
        }
    }
}

/// Checks the steps of a recording. `must` takes a condition and the error if it does not hold.
fn check_steps(steps: &[(u64, u64)], period_ns: Option<u64>, must: &mut impl FnMut(bool, &str)) {
    must(
        steps.first().is_some_and(|s| s.0 == 0),
        "a rate recording needs a rate for its beginning",
    );
    must(
        steps
            .windows(2)
            .all(|w| w[1].0 >= w[0].0.saturating_add(SLOT_NS)),
        "a rate recording's times rise by at least 1 ms",
    );
    must(
        steps.iter().all(|s| s.1 <= MAX_BPS),
        "a rate is above 1 Tbit/s",
    );
    if let (Some(period), Some(last)) = (period_ns, steps.last()) {
        must(
            period >= last.0.saturating_add(SLOT_NS),
            "a rate recording's period ends at least 1 ms after its last step",
        );
    }
}

/// Checks the batches of a recording, as [`check_steps`].
fn check_opportunities(batches: &[(u32, u32)], must: &mut impl FnMut(bool, &str)) {
    must(
        batches.first().is_some_and(|b| b.0 > 0),
        "a recording of opportunities has at least one, from 1 ms on",
    );
    must(
        batches.windows(2).all(|w| w[0].0 < w[1].0),
        "a recording of opportunities goes upwards",
    );
    must(
        batches.iter().all(|b| b.1 > 0),
        "a recording names only the times at which there are opportunities",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(law: &RateLaw) -> usize {
        let mut errors = Vec::new();
        law.check(&mut errors);
        errors.len()
    }

    fn steps(steps: &[(u64, u64)], period_ns: Option<u64>) -> RateLaw {
        RateLaw::Steps {
            steps: steps.into(),
            period_ns,
            origin_ns: 0,
        }
    }

    #[test]
    fn means_are_weighted_by_time() {
        let square = RateLaw::Square {
            high_bps: 10_000_000,
            low_bps: 0,
            high_ns: 3 * SLOT_NS,
            low_ns: SLOT_NS,
            origin_ns: 5,
        };
        assert_eq!(square.mean_bps(), 7_500_000);
        let curve = RateLaw::VCurve {
            high_bps: 100_000,
            low_bps: 50_000,
            half_width_ns: 10 * SLOT_NS,
            period_ns: 40 * SLOT_NS,
            origin_ns: 0,
        };
        assert_eq!(curve.mean_bps(), 87_500);
        let recording = [(0, 4_000), (SLOT_NS, 8_000)];
        assert_eq!(steps(&recording, Some(4 * SLOT_NS)).mean_bps(), 7_000);
        assert_eq!(steps(&recording, None).mean_bps(), 8_000);
        let trace = RateLaw::Opportunities {
            batches: [(1, 1), (2, 3)].as_slice().into(),
            origin_ns: 0,
        };
        assert_eq!(trace.mean_bps(), 2 * 1504 * 8 * 1000);
        for law in [square, curve, trace] {
            assert_eq!(wrong(&law), 0);
            let text = serde_json::to_string(&law).unwrap();
            assert_eq!(serde_json::from_str::<RateLaw>(&text).unwrap(), law);
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(wrong(&steps(&[(0, 500)], None)), 1, "too slow");
        assert_eq!(wrong(&steps(&[(0, 5_000)], None)), 0);
        assert_eq!(wrong(&steps(&[], None)), 1);
        assert_eq!(wrong(&steps(&[(1, 5_000)], None)), 1);
        assert_eq!(wrong(&steps(&[(0, 5_000), (10, 7_000)], None)), 1);
        assert_eq!(wrong(&steps(&[(0, 5_000)], Some(10))), 1);
        assert_eq!(wrong(&steps(&[(0, MAX_BPS + 1)], None)), 1);
        let sine = |mean_bps, amplitude_bps, period_ns| RateLaw::Sine {
            mean_bps,
            amplitude_bps,
            period_ns,
            origin_ns: 0,
        };
        assert_eq!(wrong(&sine(5_000, 5_000, SLOT_NS * 2)), 0);
        assert_eq!(wrong(&sine(5_000, 5_001, SLOT_NS)), 2);
        let trace = |batches: &[(u32, u32)]| RateLaw::Opportunities {
            batches: batches.into(),
            origin_ns: 0,
        };
        assert_eq!(wrong(&trace(&[(0, 1)])), 1);
        assert_eq!(wrong(&trace(&[(2, 1), (2, 1)])), 1);
        assert_eq!(wrong(&trace(&[(2, 0)])), 1);
        assert_eq!(wrong(&trace(&[])), 1);
        assert_eq!(wrong(&trace(&[(60_000, 1)])), 1, "200 bit/s");
    }
}
