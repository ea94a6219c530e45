//! The effects of one edge at work: which law stands where.

use std::sync::Arc;

use crate::effects::Effects;
use crate::jitter::{JitterOrder, JitterState};
use crate::loss::{LossLaw, LossState};
use crate::rng::Rng;
use crate::types::{Delay, Impairment, Nanos};

/// What happens to a frame when it comes out of its edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// It comes out twice.
    pub duplicate: bool,
    /// Its ECN field says "congestion experienced".
    pub congestion: bool,
    /// One bit is to be flipped; which one is this number modulo the bits there are.
    pub corrupt: Option<u64>,
}

/// A frame's way after service.
pub(crate) struct Fate {
    pub(crate) delay_ns: u64,
    /// Held back so much longer, out of order.
    pub(crate) held_back_ns: Option<u64>,
    /// It comes out when its delay is over, before others if they take longer.
    pub(crate) overtakes: bool,
    pub(crate) marks: Marks,
}

// Numbers of the laws' generators; they are part of what a seed means.
const LOSS: u64 = 1;
const JITTER: u64 = 2;
const REORDER: u64 = 3;
const DUPLICATE: u64 = 4;
const CORRUPT: u64 = 5;
/// Of the queue discipline, which keeps its own.
pub(crate) const DISCIPLINE: u64 = 6;

#[derive(Clone, Debug)]
pub(crate) struct Laws {
    /// As the plan has it, without what the effects replace.
    pub(crate) base: Impairment,
    pub(crate) set: Arc<Effects>,
    loss: LossState,
    jitter: JitterState,
    reorder: Rng,
    duplicate: Rng,
    corrupt: Rng,
}

impl Laws {
    pub(crate) fn new(set: Arc<Effects>, edge: &Rng, base: Impairment) -> Laws {
        Laws {
            base,
            set,
            loss: LossState::new(edge.stream(LOSS)),
            jitter: JitterState::new(edge.stream(JITTER)),
            reorder: edge.stream(REORDER),
            duplicate: edge.stream(DUPLICATE),
            corrupt: edge.stream(CORRUPT),
        }
    }

    /// Other effects from now on. A law that stays the same goes on where it stands; one that
    /// changes starts from its beginning.
    pub(crate) fn change(&mut self, set: Arc<Effects>, edge: &Rng) {
        let fresh = Laws::new(set, edge, self.base);
        if self.set.loss != fresh.set.loss {
            self.loss = fresh.loss;
        }
        if self.set.jitter != fresh.set.jitter {
            self.jitter = fresh.jitter;
        }
        self.set = fresh.set;
    }

    /// Whether the law takes a frame of so many bytes; `None` when the impairment decides.
    pub(crate) fn loses(&mut self, len_bytes: u32) -> Option<bool> {
        match self.set.loss.as_ref()? {
            LossLaw::None | LossLaw::Bernoulli { .. } => None,
            law => Some(self.loss.next(law, len_bytes)),
        }
    }

    /// What becomes of a frame served at `t` that is not lost.
    pub(crate) fn fate(&mut self, t: Nanos, delay: &Delay) -> Fate {
        let mut delay_ns = delay.at(t);
        if let Some(jitter) = &self.set.jitter {
            delay_ns = delay_ns.saturating_add_signed(self.jitter.extra_ns(jitter, t));
        }
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
