//! The sending rate (sections 4 and 5): each monitor interval has a rate and gives a utility; the rate moves
//! towards higher utility.
//!
//! ```text
//!  u(x) = x^0.9 - 900 x dRTT/dt - 11.35 x L        x in Mbit/s, L the share of packets lost
//!
//!  starting: x doubles in each interval, until u falls
//!  probing:  one interval at x (1 + 0.05), one at x (1 - 0.05), in random order
//!            g = (u+ - u-) / (2 * 0.05 x)           the gradient of the utility
//!            x += m(t) g                            at most (0.05 + 0.1 k) x
//! ```
//!
//! `m` grows while the direction stays the same (confidence amplifier). `k` grows with each step that the bound has
//! shortened (dynamic change boundary).

use crate::transfer::record::RECORD_BYTES;

/// Exponent t of the utility (equation 1).
const EXPONENT: f64 = 0.9;
/// Coefficient b, for the gradient of the RTT.
const LATENCY: f64 = 900.0;
/// Coefficient c, for loss: utility falls when more than about 5 % are lost.
const LOSS: f64 = 11.35;
/// Probing step.
const EPSILON: f64 = 0.05;
/// Theta 0: converts the gradient to Mbit/s.
const CONVERSION: f64 = 1.0;
/// Omega 0 and delta of the change boundary.
const BOUNDARY: f64 = 0.05;
const BOUNDARY_STEP: f64 = 0.1;
/// Gradients of the RTT below this are noise (section 5, "low-pass filter").
const GRADIENT_NOISE: f64 = 0.01;
/// The lowest rate, Mbit/s. The paper has none.
const LEAST: f64 = 0.1;
/// The first rate, Mbit/s: about ten packets in 100 ms. The paper gives none.
const FIRST: f64 = 1.0;

/// The measurements of a monitor interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Monitored {
    /// The number of packets confirmed.
    pub confirmed: u64,
    /// The number of packets lost.
    pub lost: u64,
    /// The time of sending and the round-trip time of each confirmed packet, seconds.
    pub rtts: Vec<(f64, f64)>,
}

impl Monitored {
    fn loss_ratio(&self) -> f64 {
        let sent = self.confirmed + self.lost;
        if sent == 0 {
            return 0.0;
        }
        self.lost as f64 / sent as f64
    }

    /// Returns the slope of the regression line of round-trip times over time.
    fn gradient(&self) -> f64 {
        let n = self.rtts.len() as f64;
        if self.rtts.len() < 2 {
            return 0.0;
        }
        let mean = |get: fn(&(f64, f64)) -> f64| self.rtts.iter().map(get).sum::<f64>() / n;
        let (t, r) = (mean(|p| p.0), mean(|p| p.1));
        let (mut up, mut down) = (0.0, 0.0);
        for (at, rtt) in &self.rtts {
            up += (at - t) * (rtt - r);
            down += (at - t) * (at - t);
        }
        let slope = if down > 0.0 { up / down } else { 0.0 };
        if slope.abs() < GRADIENT_NOISE {
            0.0
        } else {
            slope
        }
    }

    /// Returns the utility of sending at `rate` Mbit/s (equation 1).
    pub fn utility(&self, rate: f64) -> f64 {
        rate.powf(EXPONENT) - LATENCY * rate * self.gradient() - LOSS * rate * self.loss_ratio()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Doubling the rate; with the rate and the utility of the interval before, once known.
    Starting { before: Option<(f64, f64)> },
    /// Probing: the order of the two intervals, how many have begun, and their utilities once known.
    Probing {
        first_up: bool,
        begun: u8,
        utilities: [Option<f64>; 2],
    },
}

/// The controller of the sending rate: chooses the rate of each monitor interval.
#[derive(Debug, Clone)]
pub struct RateControl {
    rate: f64,
    phase: Phase,
    /// The direction of the last step, and the number of consecutive steps in it.
    direction: f64,
    steps: u32,
    /// The k of the change boundary.
    boundary: u32,
    random: u64,
}

/// The purpose of an interval, to be returned with its result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The rate, Mbit/s.
    rate: f64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Start,
    /// The first or the second interval of a pair.
    Probe(u8),
    /// An interval between decisions, whose result is not used.
    Wait,
}

impl Interval {
    /// Returns the rate in bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.rate * 1e6 / 8.0
    }
}

impl RateControl {
    /// Creates a controller that starts slowly. `seed` determines the order of probes.
    pub fn new(seed: u64) -> Self {
        Self {
            rate: FIRST,
            phase: Phase::Starting { before: None },
            direction: 0.0,
            steps: 0,
            boundary: 0,
            random: seed | 1,
        }
    }

    /// Returns the rate between decisions, Mbit/s.
    pub fn rate_mbps(&self) -> f64 {
        self.rate
    }

    /// Returns the next interval.
    pub fn next_interval(&mut self) -> Interval {
        match &mut self.phase {
            Phase::Starting { .. } => Interval {
                rate: self.rate,
                kind: Kind::Start,
            },
            Phase::Probing {
                first_up, begun, ..
            } if *begun < 2 => {
                let which = *begun;
                *begun += 1;
                let up = *first_up == (which == 0);
                let factor = if up { 1.0 + EPSILON } else { 1.0 - EPSILON };
                Interval {
                    rate: self.rate * factor,
                    kind: Kind::Probe(which),
                }
            }
            Phase::Probing { .. } => Interval {
                rate: self.rate,
                kind: Kind::Wait,
            },
        }
    }

    /// Takes an interval's result. Results must come in the order of the intervals.
    pub fn result(&mut self, interval: Interval, seen: &Monitored) {
        let utility = seen.utility(interval.rate);
        match (&mut self.phase, interval.kind) {
            (Phase::Starting { before }, Kind::Start) => match *before {
                // Several intervals may have had the same rate: the first one counts.
                Some((rate, _)) if rate >= interval.rate => {}
                Some((rate, at)) if utility < at => {
                    self.rate = rate;
                    self.probe();
                }
                _ => {
                    *before = Some((interval.rate, utility));
                    self.rate = interval.rate * 2.0;
                }
            },
            (
                Phase::Probing {
                    first_up,
                    utilities,
                    ..
                },
                Kind::Probe(which),
            ) => {
                utilities[usize::from(which)] = Some(utility);
                if let [Some(a), Some(b)] = *utilities {
                    let (up, down) = if *first_up { (a, b) } else { (b, a) };
                    self.step((up - down) / (2.0 * EPSILON * self.rate));
                    self.probe();
                }
            }
            _ => {}
        }
    }

    fn probe(&mut self) {
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.phase = Phase::Probing {
            first_up: self.random >> 63 == 0,
            begun: 0,
            utilities: [None; 2],
        };
    }

    /// Makes one step along the gradient.
    fn step(&mut self, gradient: f64) {
        if gradient * self.direction > 0.0 {
            self.steps += 1;
        } else {
            (self.direction, self.steps, self.boundary) = (gradient.signum(), 1, 0);
        }
        let steps = f64::from(self.steps);
        let amplifier = if self.steps <= 3 {
            steps
        } else {
            2.0 * steps - 3.0
        };
        let wanted = amplifier * CONVERSION * gradient;
        let bound = (BOUNDARY + BOUNDARY_STEP * f64::from(self.boundary)) * self.rate;
        if wanted.abs() > bound {
            self.boundary += 1;
        } else {
            // The smallest boundary that would have allowed this step.
            let need = (wanted.abs() / self.rate - BOUNDARY) / BOUNDARY_STEP;
            self.boundary = need.ceil().max(0.0) as u32;
        }
        self.rate = (self.rate + wanted.clamp(-bound, bound)).max(LEAST);
    }
}

/// The minimum number of packets in an interval: with fewer, loss and gradient mean little. The paper does not give
/// it.
pub(super) const LEAST_PACKETS: u64 = 5;

/// The bytes that count as a packet in the rate: payload only, as everywhere in `transfer`.
pub(super) const PACKET_BYTES: f64 = RECORD_BYTES as f64;
