//! One slot of the scheduler: its load, delays, gaps and rates.

use super::draw::{For, Terminal};
use super::parts::{Access, Changes, Direction, Gap, HOURS};
use crate::types::Nanos;

/// Largest load of a slot: a poll serves the terminal at least once in fifty times.
const MOST_LOAD: f64 = 0.98;
/// Number of slots back to the last one whose state of blockage its own number decides. Beyond it the chain begins
/// again; a longer row of undecided slots has a probability below one in a million for every chain that changes its
/// state once in 200 slots.
const MOST_BACK: u64 = 4_096;
const HOUR_NS: f64 = 3.6e12;

/// An interval of time, from its first instant to the first one after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// First instant, nanoseconds.
    pub begin_ns: Nanos,
    /// First instant after it, nanoseconds.
    pub end_ns: Nanos,
}

impl Interval {
    /// Returns whether the interval contains the instant.
    #[must_use]
    pub fn contains(&self, t: Nanos) -> bool {
        (self.begin_ns..self.end_ns).contains(&t)
    }
}

/// A slot of the scheduler as a terminal has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// Number of the slot; slot 0 is the first that begins at or after the terminal's full minute of UTC.
    pub number: i64,
    /// The slot's time. It is cut off at instant 0.
    pub time: Interval,
    /// The cell's load, 0 to 0.98; 0 without a cell.
    pub load: f64,
    /// The slot's further delay, nanoseconds.
    pub step_ns: u64,
    /// The instant from which it has another one, and this one, nanoseconds.
    pub later_step: Option<(Nanos, u64)>,
    /// The gap at its beginning, if any.
    pub handover: Option<Interval>,
    /// The gap within it, if any.
    pub relink: Option<Interval>,
    /// Whether the slot is blocked. It has no service then, unless it is `partial`.
    pub blocked: bool,
    /// Whether a blocked slot has service in parts of its time.
    pub partial: bool,
}

impl Slot {
    /// Returns the further delay at an instant of the slot, nanoseconds.
    pub(super) fn step_at(&self, t: Nanos) -> u64 {
        match self.later_step {
            Some((from_ns, step_ns)) if t >= from_ns => step_ns,
            _ => self.step_ns,
        }
    }
}

impl Access {
    /// Returns the number of the slot at `t`.
    fn slot_number(&self, terminal: &Terminal, t: Nanos) -> i64 {
        let origin = i128::from(terminal.minute_ns) + i128::from(self.slots.phase_ns);
        let number = (i128::from(t) - origin).div_euclid(i128::from(self.slots.period_ns));
        // A u64 of nanoseconds has fewer slots than an i64 has numbers: periods are at least 1 ms.
        number as i64
    }

    /// Returns the beginning of a slot, which may be before instant 0, and its time.
    fn slot_time(&self, terminal: &Terminal, number: i64) -> (i128, Interval) {
        // Slots before instant 0 have negative numbers, so the arithmetic is signed.
        let period = i128::from(self.slots.period_ns);
        let origin = i128::from(terminal.minute_ns) + i128::from(self.slots.phase_ns);
        let begin = origin + i128::from(number) * period;
        let clip = |ns: i128| Nanos::try_from(ns.max(0)).unwrap_or(Nanos::MAX);
        let time = Interval {
            begin_ns: clip(begin),
            end_ns: clip(begin + period),
        };
        (begin, time)
    }

    /// Returns the slot at `t`.
    #[must_use]
    pub fn slot_at(&self, terminal: &Terminal, t: Nanos) -> Slot {
        let number = self.slot_number(terminal, t);
        let (begin, time) = self.slot_time(terminal, number);
        let index = number as u64;
        let blocked = self.blocked(terminal, number);
        let partial = self.blockage.and_then(|chain| chain.partial);
        let first = (For::Step, For::LongStep);
        Slot {
            number,
            time,
            load: self.load(terminal, index, begin),
            step_ns: self.step_ns(terminal, index, first),
            later_step: self.later_step(terminal, index, begin, time),
            handover: self.handover.and_then(|gap| {
                let length = gap_ns(&gap, terminal, (For::Handover, For::HandoverLength), index)?;
                Some(clipped(begin, length, time))
            }),
            relink: self.relink.and_then(|gap| {
                let length = gap_ns(&gap, terminal, (For::Relink, For::RelinkLength), index)?;
                let later = terminal.unit(For::RelinkStart, index) * self.slots.period_ns as f64;
                Some(clipped(begin + later as i128, length, time))
            }),
            blocked,
            partial: blocked
                && partial.is_some_and(|part| terminal.unit(For::Partial, index) < part.ratio),
        }
    }

    /// Returns the load of a slot that begins at `begin`.
    fn load(&self, terminal: &Terminal, index: u64, begin: i128) -> f64 {
        let Some(cell) = &self.cell else { return 0.0 };
        let since = (begin - i128::from(terminal.minute_ns)) as f64 / HOUR_NS;
        let hour = (terminal.hour + since).rem_euclid(HOURS as f64);
        let before = (hour as usize).min(HOURS - 1);
        // The curve is piecewise linear between full hours, and 24 h follows 23 h.
        let part = hour - before as f64;
        let curve = &cell.load_by_hour;
        let median = curve[before] + part * (curve[(before + 1) % HOURS] - curve[before]);
        if median <= 0.0 {
            return 0.0;
        }
        around(median, cell.spread * terminal.normal(For::Load, index))
    }

    /// Returns the load at an instant of a slot, and the instant until which it holds.
    pub(super) fn load_at(&self, terminal: &Terminal, slot: &Slot, t: Nanos) -> (f64, Nanos) {
        let end_ns = slot.time.end_ns;
        let changes = self.cell.as_ref().and_then(|cell| cell.changes);
        let Some(Changes { every_ns, spread }) = changes.filter(|_| slot.load > 0.0) else {
            return (slot.load, end_ns);
        };
        // The instant of a change is its index, so no state is kept between frames.
        let until_ns = next_turn(terminal, every_ns, t.saturating_add(1));
        let moved = spread * terminal.normal(For::LoadChange, until_ns);
        (around(slot.load, moved), until_ns.min(end_ns))
    }

    /// Returns the delay that a slot draws again, with its first instant.
    fn later_step(
        &self,
        terminal: &Terminal,
        index: u64,
        begin: i128,
        time: Interval,
    ) -> Option<(Nanos, u64)> {
        let step = self.step?;
        if terminal.unit(For::StepChange, index) >= step.change_ratio {
            return None;
        }
        let into = terminal.unit(For::StepChangeStart, index) * self.slots.period_ns as f64;
        let from_ns = clipped(begin + into as i128, 0, time).begin_ns;
        let later = (For::LaterStep, For::LaterLongStep);
        Some((from_ns, self.step_ns(terminal, index, later)))
    }

    fn step_ns(&self, terminal: &Terminal, index: u64, (place, long): (For, For)) -> u64 {
        let Some(step) = &self.step else { return 0 };
        let place = terminal.unit(place, index);
        if terminal.unit(long, index) < step.long_ratio {
            // Some slots have a long delay, from a range of their own.
            let width = step.long_most_ns.saturating_sub(step.long_least_ns);
            step.long_least_ns
                .saturating_add((place * width as f64) as u64)
        } else {
            (place * step.spread_ns as f64) as u64
        }
    }

    /// Returns whether a slot has no service. The numbers decide some slots alone, whatever the slot before: below
    /// `begin_ratio` a slot is blocked, from `1 - end_ratio` on it is free. All others are as the slot before. The
    /// chain therefore needs no state.
    fn blocked(&self, terminal: &Terminal, number: i64) -> bool {
        let Some(chain) = &self.blockage else {
            return false;
        };
        for back in 0..MOST_BACK {
            let index = (number as u64).wrapping_sub(back);
            let place = terminal.unit(For::Blockage, index);
            if place < chain.begin_ratio {
                return true;
            }
            if place >= 1.0 - chain.end_ratio {
                return false;
            }
        }
        false
    }

    /// Returns the rate of a direction at `t` in bit/s, and the instant until which it holds; `None` if the leg has no
    /// rate of its own. `sky` is the factor of signal and rain ([`Sky::factor`](super::Sky::factor)), 1 in the zenith
    /// of a clear sky. The rate is at least 1 bit/s.
    #[must_use]
    pub fn rate(
        &self,
        terminal: &Terminal,
        direction: Direction,
        t: Nanos,
        sky: f64,
    ) -> Option<(u64, Nanos)> {
        let rate = self.leg(direction).rate?;
        let (share, until_ns) = self.share(terminal, direction, t)?;
        let bps = rate.alone_bps as f64 * share * sky;
        Some(((bps as u64).max(1), until_ns))
    }

    /// Returns the share of the rate of a terminal that is alone in its cell, and the instant until which it holds; `None`
    /// if the leg has no rate of its own. With a spread of rates it may exceed 1.
    #[must_use]
    pub fn share(
        &self,
        terminal: &Terminal,
        direction: Direction,
        t: Nanos,
    ) -> Option<(f64, Nanos)> {
        let rate = self.leg(direction).rate?;
        // Service computes this for each frame, so that only the numbers that matter are drawn.
        let number = self.slot_number(terminal, t);
        let (begin, time) = self.slot_time(terminal, number);
        let index = number as u64;
        let load = self.load(terminal, index, begin);
        let purpose = match direction {
            Direction::Up => For::UpRate,
            Direction::Down => For::DownRate,
        };
        let spread = (rate.spread * terminal.normal(purpose, index)).exp();
        // The cell shares its capacity: the terminal has what the modelled load leaves.
        Some(((1.0 - load) * spread, time.end_ns))
    }
}

/// Returns a load whose odds differ from those of another one by a factor, which is given by its logarithm.
fn around(load: f64, log_factor: f64) -> f64 {
    // The odds of a load have a logarithm that may be any number, so its spread needs no bounds.
    let odds = load / (1.0 - load).max(1.0 - MOST_LOAD);
    let odds = odds * log_factor.exp();
    (odds / (1.0 + odds)).min(MOST_LOAD)
}

/// Returns the first turn from `at` on; turns come each `every_ns`, and each terminal has its own.
pub(super) fn next_turn(terminal: &Terminal, every_ns: u64, at: Nanos) -> Nanos {
    if every_ns == 0 {
        return at;
    }
    // Terminals of one cell take turns at different instants of the frame.
    let phase = (terminal.unit(For::Phase, every_ns) * every_ns as f64) as u64;
    let into = (at % every_ns + every_ns - phase % every_ns) % every_ns;
    match into {
        0 => at,
        _ => at.saturating_add(every_ns - into),
    }
}

/// Returns the length of the slot's gap, if it has one.
fn gap_ns(
    gap: &Gap,
    terminal: &Terminal,
    (exists, length): (For, For),
    index: u64,
) -> Option<i128> {
    if terminal.unit(exists, index) >= gap.ratio {
        return None;
    }
    // Log-normal: the median is exact, and long gaps are rare.
    let factor = (gap.spread * terminal.normal(length, index)).exp();
    Some((gap.median_ns as f64 * factor) as i128)
}

/// Returns the interval from `begin` on, within the slot's time: a gap over the end of its slot would let frames of the
/// next slot overtake those that wait for its end.
fn clipped(begin: i128, length: i128, slot: Interval) -> Interval {
    let clip = |ns: i128| {
        let ns = Nanos::try_from(ns.max(0)).unwrap_or(Nanos::MAX);
        ns.clamp(slot.begin_ns, slot.end_ns)
    };
    Interval {
        begin_ns: clip(begin),
        end_ns: clip(begin.saturating_add(length)),
    }
}
