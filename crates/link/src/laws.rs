//! State of the effects of one edge: the random generators and states of its laws.

use std::sync::Arc;

use crate::access::{AccessState, Fate as Sent};
use crate::effects::Effects;
use crate::jitter::{JitterOrder, JitterState};
use crate::loss::{LossLaw, LossState};
use crate::rng::Rng;
use crate::supply::Supply;
use crate::types::{Delay, Impairment, Nanos, PortId};

/// Effects applied to a frame when it comes out of its edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Whether the frame comes out twice.
    pub duplicate: bool,
    /// Whether its ECN field is set to "congestion experienced".
    pub congestion: bool,
    /// Whether one bit is flipped: the bit with this number modulo the number of bits.
    pub corrupt: Option<u64>,
}

/// Decisions about a frame after its service.
pub(crate) struct Fate {
    pub(crate) delay_ns: u64,
    /// Additional time for which the frame is held back, out of order.
    pub(crate) held_back_ns: Option<u64>,
    /// Whether the frame comes out when its delay is over, even before frames sent earlier.
    pub(crate) overtakes: bool,
    pub(crate) marks: Marks,
}

// Numbers of the laws' generators. Changing them would change the random numbers of existing seeds.
const LOSS: u64 = 1;
const JITTER: u64 = 2;
const REORDER: u64 = 3;
const DUPLICATE: u64 = 4;
const CORRUPT: u64 = 5;
/// Number of the generator of the queue discipline, which has its own state.
pub(crate) const DISCIPLINE: u64 = 6;

/// An edge's ends and its lab's seed, from which random numbers follow that both directions of a link share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) lab_seed: u64,
    pub(crate) from: PortId,
    pub(crate) to: PortId,
}

#[derive(Clone, Debug)]
pub(crate) struct Laws {
    /// The plan's impairment, without the fields that the effects replace.
    pub(crate) base: Impairment,
    pub(crate) set: Arc<Effects>,
    ends: Ends,
    access: Option<AccessState>,
    loss: LossState,
    jitter: JitterState,
    reorder: Rng,
    duplicate: Rng,
    corrupt: Rng,
}

impl Laws {
    pub(crate) fn new(set: Arc<Effects>, edge: &Rng, ends: Ends, base: Impairment) -> Laws {
        let access = set.access.as_ref();
        Laws {
            base,
            access: access
                .and_then(|own| AccessState::new(own, ends.lab_seed, (ends.from, ends.to))),
            ends,
            set,
            loss: LossState::new(edge.stream(LOSS)),
            jitter: JitterState::new(edge.stream(JITTER)),
            reorder: edge.stream(REORDER),
            duplicate: edge.stream(DUPLICATE),
            corrupt: edge.stream(CORRUPT),
        }
    }

    /// Replaces the effects. A law that stays the same keeps its state; a law that changes starts again.
    pub(crate) fn change(&mut self, set: Arc<Effects>, edge: &Rng) {
        let fresh = Laws::new(set, edge, self.ends, self.base);
        if self.set.loss != fresh.set.loss {
            self.loss = fresh.loss;
        }
        if self.set.jitter != fresh.set.jitter {
            self.jitter = fresh.jitter;
        }
        let same = |state: &AccessState| state.is_of(fresh.set.access.as_ref());
        if !self.access.as_ref().is_some_and(same) {
            self.access = fresh.access;
        }
        self.set = fresh.set;
    }

    /// Returns whether the law loses a frame of `len_bytes`; `None` if the impairment's own loss applies.
    pub(crate) fn loses(&mut self, len_bytes: u32) -> Option<bool> {
        match self.set.loss.as_ref()? {
            // `Effects::over` has put these laws into the impairment, and the edge draws that loss itself.
            LossLaw::None | LossLaw::Bernoulli { .. } => None,
            law => Some(self.loss.next(law, len_bytes)),
        }
    }

    /// Returns the instant at which a frame served at `end_ns` leaves the access; without an access, `end_ns`. `None`: the
    /// frame is lost there.
    pub(crate) fn leaves(&mut self, end_ns: Nanos) -> Option<Nanos> {
        let Some(access) = &mut self.access else {
            return Some(end_ns);
        };
        match access.send(end_ns) {
            Sent::Out { at_ns } => Some(at_ns),
            Sent::Lost(_) => None,
        }
    }

    /// Returns the rate that serves the edge, where it is not that of its impairment.
    pub(crate) fn supply(&self) -> Option<Supply<'_>> {
        if let Some(law) = &self.set.rate_law {
            return Some(Supply::Law(law));
        }
        let access = self.access.as_ref().filter(|access| access.has_rate())?;
        // A rate that was set by hand is the link's rate, and not one to be shared.
        if self.set.rate_bps.is_some() {
            return None;
        }
        let alone_bps = self.base.rate_bps?;
        Some(Supply::Share { alone_bps, access })
    }

    /// Returns the delay and marks of a frame served at `t` that is not lost.
    pub(crate) fn fate(&mut self, t: Nanos, delay: &Delay) -> Fate {
        let mut delay_ns = delay.at(t);
        if let Some(jitter) = &self.set.jitter {
            delay_ns = delay_ns.saturating_add_signed(self.jitter.extra_ns(jitter, t));
        }
        // Each effect draws from its own generator even if others are off, so switching one on does not change the
        // others' draws.
        let held_back_ns = self
            .set
            .reorder
            .filter(|r| self.reorder.chance(r.ratio))
            .map(|r| r.extent_ns);
        let mut marks = Marks::default();
        if let Some(ratio) = self.set.duplicate_ratio {
            marks.duplicate = self.duplicate.chance(ratio);
        }
        if let Some(ratio) = self.set.corrupt_ratio
            && self.corrupt.chance(ratio)
        {
            marks.corrupt = Some(self.corrupt.next_u64());
        }
        let jitter = self.set.jitter.as_ref();
        Fate {
            delay_ns,
            held_back_ns,
            overtakes: jitter.is_some_and(|jitter| jitter.order == JitterOrder::Overtake),
            marks,
        }
    }
}
