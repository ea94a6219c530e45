//! `link`: the effect of a kind of link on frames, in each direction.

use constel_link::{Effects, JitterOrder, Reorder};
use constel_units::{DataRate, DataSize, Ratio, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::aqm::RawAqm;
use super::constellations::no_time;

/// Adds the keys that links and the paths of a box have in common: effects with one value, or values that need no
/// other key. The first argument is a further option of serde.
macro_rules! with_effects {
    (($($skip:tt)*) $(#[$attribute:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$attribute])*
        pub struct $name {
            $($own)*
            /// Some frames are held back, so that others overtake them. No other key changes their order.
            pub reorder: Option<RawReorder>,
            /// Chance that a frame arrives twice.
            #[serde(default = "no_loss" $($skip)*)]
            pub duplicate: Ratio,
            /// Chance that one bit of a frame, after its Ethernet header, is flipped.
            #[serde(default = "no_loss" $($skip)*)]
            pub corrupt: Ratio,
        }

        impl $name {
            /// The effects of these keys.
            pub(crate) fn effects(&self) -> Effects {
                let some = |ratio: Ratio| Some(ratio.get()).filter(|ratio| *ratio > 0.0);
                Effects {
                    reorder: self.reorder.as_ref().map(|reorder| Reorder {
                        ratio: reorder.chance.get(),
                        extent_ns: reorder.by.ns().unsigned_abs(),
                    }),
                    duplicate_ratio: some(self.duplicate),
                    corrupt_ratio: some(self.corrupt),
                    ..Effects::default()
                }
            }
        }
    };
}
pub(super) use with_effects;

with_effects! {
()
/// The effect of a kind of link on frames, in each direction: a queue, service at a rate, then propagation,
/// with loss, jitter and damage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Link")]
pub struct RawLink {
    /// Bits per second on the wire, Ethernet header included. With `rate_law`, the nominal rate that
    /// plans show.
    #[schemars(extend("x-minimum" = "1 kbit/s", "x-maximum" = "400 Gbit/s"))]
    pub rate: DataRate,
    /// A rate that changes over time, at which frames are served instead of `rate`.
    pub rate_law: Option<RawRateLaw>,
    /// Largest packet, headers of IP included: the MTU of the ports at its ends. At least 1280 B with IPv6. The
    /// drivers carry at most: relay 1998 B, edt 3392 B, netem 1500 B.
    #[serde(default = "default_mtu")]
    #[schemars(extend("x-minimum" = "576 B", "x-maximum" = "9000 B"))]
    pub mtu: DataSize,
    /// Framing bytes that each frame takes on the link in addition to its own; at most 64 KiB.
    #[schemars(extend("x-minimum" = "0 B", "x-maximum" = "64 KiB"))]
    pub overhead: Option<DataSize>,
    /// Bytes that may wait to be sent; a frame that does not fit is dropped (drop tail).
    #[serde(default = "default_queue")]
    #[schemars(extend("x-minimum" = "1514 B", "x-maximum" = "1 GiB"))]
    pub queue: DataSize,
    /// Frames that may wait to be sent, besides the limit in bytes. Without it there is no such limit.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub queue_frames: Option<u32>,
    /// Queue discipline. Without it the queue is first in, first out, and drops at its limits only.
    pub aqm: Option<RawAqm>,
    /// Chance that a frame is lost, each frame by itself.
    #[serde(default = "no_loss")]
    pub loss: Ratio,
    /// A loss law with memory, instead of `loss`.
    pub loss_law: Option<RawLossLaw>,
    /// Delay in addition to the light time, in each direction: processing, framing, refraction. By default
    /// light travels in a straight line at the vacuum speed, and nodes take no time. The air's refraction would
    /// add about 8 ns at the zenith, 19 ns at 25 deg and 80 ns at 5 deg of elevation (2.4 m of excess path at
    /// the zenith, ITU-R P.834).
    #[serde(default = "no_time")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub extra_delay: TimeSpan,
    /// A recording of delays, instead of the light time and `extra_delay`.
    pub delay_trace: Option<RawDelayTrace>,
    /// Random addition to the delay of each frame. Frames stay in order.
    pub jitter: Option<RawJitter>,
}
}

impl RawLink {
    /// A link with this rate and nothing else.
    pub(crate) fn of_rate(rate: DataRate) -> RawLink {
        RawLink {
            rate,
            rate_law: None,
            mtu: default_mtu(),
            overhead: None,
            queue: default_queue(),
            queue_frames: None,
            aqm: None,
            loss: no_loss(),
            loss_law: None,
            extra_delay: no_time(),
            delay_trace: None,
            jitter: None,
            reorder: None,
            duplicate: no_loss(),
            corrupt: no_loss(),
        }
    }
}

fn default_mtu() -> DataSize {
    DataSize::from_bytes(1500)
}

fn default_queue() -> DataSize {
    DataSize::from_bytes(128 * 1024)
}

pub(super) fn no_loss() -> Ratio {
    Ratio::from_ratio(0.0).expect("zero is a ratio")
}

/// A rate as a function of lab time. Exactly one of its keys is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RateLaw")]
pub enum RawRateLaw {
    /// Alternately high and low, high first.
    Square(RawSquare),
    /// A sine around a mean, in slots of 1 ms.
    Sine(RawSine),
    /// A dip around each handover of a regular schedule, in slots of 1 ms.
    VCurve(RawVCurve),
    /// A recording of rates: a file with the header `t_s,rate_mbps` (or `t_ms`; `rate_bps`,
    /// `rate_kbps`, `rate_gbps`), and a time and the rate from it on in each line.
    Csv(RawRateFile),
    /// A recording of delivery opportunities in Mahimahi's format: each line has the millisecond at which 1504
    /// bytes can be sent. After the last it starts again.
    Mahimahi(RawFile),
}

/// Alternately high and low.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Square")]
pub struct RawSquare {
    /// The high rate.
    #[schemars(extend("x-minimum" = "1 kbit/s", "x-maximum" = "400 Gbit/s"))]
    pub high: DataRate,
    /// The low rate, at most `high`.
    #[schemars(extend("x-minimum" = "0 bit/s", "x-maximum" = "400 Gbit/s"))]
    pub low: DataRate,
    /// Duration of the high rate.
    #[schemars(extend("x-minimum" = "1 ms", "x-maximum" = "1 d"))]
    pub high_for: TimeSpan,
    /// Duration of the low rate.
    #[schemars(extend("x-minimum" = "1 ms", "x-maximum" = "1 d"))]
    pub low_for: TimeSpan,
}

/// A sine around a mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Sine")]
pub struct RawSine {
    /// In the middle.
    #[schemars(extend("x-minimum" = "1 kbit/s", "x-maximum" = "400 Gbit/s"))]
    pub mean: DataRate,
    /// From the mean up, and down; at most `mean`.
    #[schemars(extend("x-minimum" = "0 bit/s", "x-maximum" = "400 Gbit/s"))]
    pub amplitude: DataRate,
    /// Duration of a whole wave.
    #[schemars(extend("x-minimum" = "2 ms", "x-maximum" = "1 d"))]
    pub period: TimeSpan,
}

/// A dip around each handover.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "VCurve")]
pub struct RawVCurve {
    /// Away from handovers.
    #[schemars(extend("x-minimum" = "1 kbit/s", "x-maximum" = "400 Gbit/s"))]
    pub high: DataRate,
    /// The rate at a handover; at most `high`.
    #[schemars(extend("x-minimum" = "0 bit/s", "x-maximum" = "400 Gbit/s"))]
    pub low: DataRate,
    /// How long the rate falls before a handover, and how long it rises after it.
    #[schemars(extend("x-minimum" = "1 ms", "x-maximum" = "1 h"))]
    pub ramp: TimeSpan,
    /// From one handover to the next, at least twice `ramp`.
    #[schemars(extend("x-minimum" = "2 ms", "x-maximum" = "1 d"))]
    pub every: TimeSpan,
    /// Lab time of a handover.
    #[serde(default = "no_time")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 d"))]
    pub at: TimeSpan,
}

/// A recording of rates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RateFile")]
pub struct RawRateFile {
    /// The file, relative to the scenario file.
    #[schemars(length(min = 1))]
    pub file: String,
    /// Whether it starts again at its end; otherwise the last rate stays.
    #[serde(default = "yes")]
    pub repeat: bool,
}

pub(super) fn yes() -> bool {
    true
}

/// A file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "File")]
pub struct RawFile {
    /// The file, relative to the scenario file.
    #[schemars(length(min = 1))]
    pub file: String,
}

/// A loss law. Exactly one of its keys is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LossLaw")]
pub enum RawLossLaw {
    /// Chance that a bit is wrong, each by itself. A frame with any wrong bit, its Ethernet header's included, is lost.
    BitErrors(Ratio),
    /// Two states with a loss ratio each (Gilbert 1960, Elliott 1963).
    GilbertElliott(RawGilbertElliott),
    /// Four states (Salsano, Ludovici, Ordine 2009): 1 received in a gap, 2 received in a burst, 3
    /// lost in a burst, 4 lost alone.
    FourState(RawFourState),
    /// The last frames of every group of this many.
    Periodic(RawPeriodic),
    /// Exactly these frames, in rising order.
    Pattern(#[schemars(length(min = 1, max = 100_000))] Vec<RawFrames>),
    /// A recording: a file with 0 (arrived) or 1 (lost) in each line; after the last it starts again.
    Trace(RawFile),
}

/// Parameters of the Gilbert-Elliott law.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GilbertElliott")]
pub struct RawGilbertElliott {
    /// Chance of going from good to bad after a frame.
    pub good_to_bad: Ratio,
    /// Chance of going from bad to good after a frame.
    pub bad_to_good: Ratio,
    /// Chance of losing a frame in the good state.
    #[serde(default = "no_loss")]
    pub loss_good: Ratio,
    /// Chance of losing a frame in the bad state.
    #[serde(default = "all")]
    pub loss_bad: Ratio,
}

fn all() -> Ratio {
    Ratio::from_ratio(1.0).expect("one is a ratio")
}

/// Parameters of the 4-state law: chances from state to state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FourState")]
pub struct RawFourState {
    /// From gap to burst.
    pub p13: Ratio,
    /// From burst back to the gap.
    pub p31: Ratio,
    /// From lost to received, within the burst.
    pub p32: Ratio,
    /// From received to lost, within the burst.
    pub p23: Ratio,
    /// A single loss within the gap.
    pub p14: Ratio,
}

/// The last `burst` of every `every` frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Periodic")]
pub struct RawPeriodic {
    /// Length of the period in frames.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub every: u32,
    /// Frames lost per period, at most `every`.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub burst: u32,
}

fn one() -> u32 {
    1
}

/// Frames by number, counted from 1 on each edge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Frames")]
pub struct RawFrames {
    /// The first one.
    #[schemars(range(min = 1, max = 4_000_000_000u32))]
    pub first: u32,
    /// The last one; default: the first.
    #[schemars(range(min = 1, max = 4_000_000_000u32))]
    pub last: Option<u32>,
}

/// A recording of delays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DelayTrace")]
pub struct RawDelayTrace {
    /// The file: milliseconds in each line. After its last line it starts
    /// again.
    #[schemars(length(min = 1))]
    pub file: String,
    /// Time from one line to the next.
    #[schemars(extend("x-minimum" = "100 us", "x-maximum" = "1 h"))]
    pub interval: TimeSpan,
}

/// Random addition to the delay of each frame. Exactly one law is given, besides `half_life` and `order`. A
/// frame does not arrive before it was sent, so the sum of delay and addition is at least 0, and a law that
/// subtracts more than the delay has another mean and spread. Such a law is refused on links of a fixed delay (a
/// cable, a path, a matrix). On links that follow positions `check` warns, with the least delay at 0 s. A law with a
/// normal part has no bound: `normal` is compared with two deviations (2.3 % of frames would still be early),
/// `pareto_normal` with one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Jitter")]
pub struct RawJitter {
    /// Time in which the correlation halves; without it, frames are independent. Not with `trace`, which has a
    /// correlation of its own.
    #[schemars(extend("x-exclusive-minimum" = "0 s", "x-maximum" = "1 h"))]
    pub half_life: Option<TimeSpan>,
    /// The treatment of a frame that would arrive before one that was sent earlier.
    #[serde(default)]
    pub order: JitterOrder,
    /// The law.
    #[serde(flatten)]
    pub law: RawJitterLaw,
}

/// The law of a jitter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawJitterLaw {
    /// Uniformly distributed, up to this time less or more.
    Uniform(#[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))] TimeSpan),
    /// Normal around 0 with this deviation.
    Normal(#[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))] TimeSpan),
    /// Pareto with tail index 3, mean 0 and this deviation.
    Pareto(#[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))] TimeSpan),
    /// A quarter normal, three quarters Pareto, with this deviation.
    ParetoNormal(#[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))] TimeSpan),
    /// A measured distribution: its quantiles at equal steps of probability, the first at 0 and the
    /// last at 1, not falling.
    Quantiles(#[schemars(length(min = 2, max = 10_000))] Vec<TimeSpan>),
    /// A recording of additions.
    Trace(RawDelayTrace),
}

/// Some frames are held back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Reorder")]
pub struct RawReorder {
    /// Chance of holding a frame back.
    pub chance: Ratio,
    /// How long.
    #[schemars(extend("x-exclusive-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub by: TimeSpan,
}
