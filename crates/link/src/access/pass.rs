//! The passage of a frame: each part maps the instant at which a frame is ready to a later one.
//!
//! Gaps, turns and grants never map a later instant to an earlier one, so they keep the order of frames. Steps and
//! retransmission do not: a [`Passage`] holds a frame that would overtake until the one before it is out, as a link layer
//! does that delivers in order.

use super::draw::{For, Terminal};
use super::parts::{Access, Direction, Gap};
use super::slot::{Slot, next_turn};
use crate::types::Nanos;

/// Largest number of polls before a grant. At the largest load, 0.98, one frame in 10^35 waits that long.
const MOST_POLLS: u64 = 4_096;

/// The part that lost a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LostBy {
    /// The slot has no service, at least at this instant.
    Blockage,
    /// The gap at a handover.
    Handover,
    /// A gap within a slot.
    Relink,
    /// All transmissions failed.
    Transmission,
}

impl LostBy {
    /// Returns a short description.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            LostBy::Blockage => "something blocks the sky",
            LostBy::Handover => "the gap at a handover",
            LostBy::Relink => "the terminal lost its link",
            LostBy::Transmission => "all transmissions failed",
        }
    }
}

/// The fate of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The frame is lost.
    Lost(LostBy),
    /// The frame has passed; the delay of geometry follows.
    Out {
        /// Instant at which it leaves the access.
        at_ns: Nanos,
    },
}

impl Access {
    /// Returns the fate of a frame that is sent at `now`, without the order of frames, which [`Passage::send`] keeps.
    #[must_use]
    pub fn fate(&self, terminal: &Terminal, direction: Direction, now: Nanos) -> Fate {
        self.fate_in(&self.slot_at(terminal, now), terminal, direction, now)
    }

    fn fate_in(&self, slot: &Slot, terminal: &Terminal, direction: Direction, now: Nanos) -> Fate {
        if slot.blocked && !slot.partial {
            return Fate::Lost(LostBy::Blockage);
        }
        let mut at = now;
        let gaps = [
            (self.handover, slot.handover, LostBy::Handover),
            (self.relink, slot.relink, LostBy::Relink),
        ];
        for (gap, interval, cause) in gaps {
            if let Some((Gap { hold_ns, .. }, interval)) = gap.zip(interval)
                && interval.contains(at)
            {
                if !terminal.holds(hold_ns, at, interval.end_ns) {
                    return Fate::Lost(cause);
                }
                at = interval.end_ns;
            }
        }
        match self.service_from(slot, terminal, at) {
            Some(from_ns) => at = from_ns,
            None => return Fate::Lost(LostBy::Blockage),
        }
        let leg = self.leg(direction);
        at = next_turn(terminal, leg.turn_ns, at);
        // Draws belong to the turn and not to the frame: frames of one turn succeed or fail together.
        let turn = at;
        if let Some(grants) = leg.grants {
            // The request itself travels before the first poll that can answer it.
            at = at.saturating_add(grants.request_ns);
            at = self.next_grant(slot, terminal, direction, grants.period_ns, at);
        }
        if let Some(link) = leg.retransmission {
            let purpose = match direction {
                Direction::Up => For::UpTransmission,
                Direction::Down => For::DownTransmission,
            };
            let failures = failures(terminal.unit(purpose, turn), link.ratio, link.transmissions);
            if failures >= link.transmissions {
                return Fate::Lost(LostBy::Transmission);
            }
            at = at.saturating_add(link.again_ns.saturating_mul(u64::from(failures)));
        }
        let step_ns = match direction {
            // The step applies to the uplink alone, so that a round trip has it once.
            Direction::Up => slot.step_at(now),
            Direction::Down => 0,
        };
        let at_ns = at.saturating_add(leg.processing_ns).saturating_add(step_ns);
        // Frames in transit at a handover go to the satellite that the terminal leaves.
        let next_ns = slot.time.end_ns;
        if at_ns >= next_ns
            && self.handover.is_some()
            && self.slot_at(terminal, next_ns).handover.is_some()
        {
            return Fate::Lost(LostBy::Handover);
        }
        Fate::Out { at_ns }
    }

    /// Returns the first poll from `from` on at which the terminal gets the grant: polls come each `period_ns`, and the
    /// cell's load is the probability that another terminal gets it.
    fn next_grant(
        &self,
        slot: &Slot,
        terminal: &Terminal,
        direction: Direction,
        period_ns: u64,
        from: Nanos,
    ) -> Nanos {
        let purpose = match direction {
            Direction::Up => For::UpGrant,
            Direction::Down => For::DownGrant,
        };
        let first = next_turn(terminal, period_ns, from);
        let mut slot = *slot;
        let (mut load, mut until_ns) = self.load_at(terminal, &slot, first.min(slot.time.end_ns));
        for poll in 0..MOST_POLLS {
            let at = first.saturating_add(poll.saturating_mul(period_ns));
            // A poll of the next slot has that slot's load.
            if !slot.time.contains(at) {
                slot = self.slot_at(terminal, at);
                until_ns = at;
            }
            if at >= until_ns {
                (load, until_ns) = self.load_at(terminal, &slot, at);
            }
            // The instant of a poll is its index, so the same poll has the same result for every frame.
            if terminal.unit(purpose, at) >= load {
                return at;
            }
        }
        first.saturating_add(MOST_POLLS.saturating_mul(period_ns))
    }
}

/// Returns the number of transmissions that fail before one succeeds, at most `most`: the geometric law's quantile.
fn failures(place: f64, ratio: f64, most: u32) -> u32 {
    let (mut failed, mut tail) = (0, ratio);
    while failed < most && place < tail {
        failed += 1;
        tail *= ratio;
    }
    failed
}

/// One direction of a terminal's access, with the order of its frames.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    direction: Direction,
    last_out_ns: Nanos,
    /// The slot of the last frame: most frames are in the same one.
    slot: Option<Slot>,
}

impl Passage {
    /// Returns a direction that has carried no frame yet.
    #[must_use]
    pub fn new(direction: Direction) -> Passage {
        Passage {
            direction,
            last_out_ns: 0,
            slot: None,
        }
    }

    /// Returns the fate of the frame that is sent at `now`. Frames leave in the order in which they are sent. `access` and
    /// `terminal` are those of the frames before, otherwise the slot of the last frame is wrong.
    pub fn send(&mut self, access: &Access, terminal: &Terminal, now: Nanos) -> Fate {
        let slot = match self.slot {
            Some(slot) if slot.time.contains(now) => slot,
            _ => access.slot_at(terminal, now),
        };
        self.slot = Some(slot);
        match access.fate_in(&slot, terminal, self.direction, now) {
            Fate::Lost(cause) => Fate::Lost(cause),
            Fate::Out { at_ns } => {
                // The link layer delivers in order, so a frame that was quicker waits for the one before it.
                self.last_out_ns = self.last_out_ns.max(at_ns);
                Fate::Out {
                    at_ns: self.last_out_ns,
                }
            }
        }
    }
}
