//! Which rule's edge a frame takes: the relay's thread asks here for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use constel_drivers::relay::Steer;
use constel_link::{Nanos, PortId};
use constel_rules::{Classifier, Direction, Head, Rules};

use crate::ports::{SLOTS, Slot, UNMATCHED};

/// When frames of each slot and direction came.
#[derive(Debug)]
pub(crate) struct Seen(Vec<FirstAndLast>);

/// On `CLOCK_MONOTONIC`; 0: none came.
#[derive(Debug, Default)]
struct FirstAndLast {
    first: AtomicU64,
    last: AtomicU64,
}

impl Seen {
    pub(crate) fn new() -> Seen {
        Seen((0..2 * SLOTS).map(|_| FirstAndLast::default()).collect())
    }

    /// When the first and the last frame came.
    pub(crate) fn get(&self, slot: Slot, direction: Direction) -> Option<(Nanos, Nanos)> {
        let at = &self.0[slot.place(direction)];
        let (first, last) = (
            at.first.load(Ordering::Relaxed),
            at.last.load(Ordering::Relaxed),
        );
        (first > 0).then_some((first, last))
    }

    /// Another rule has this slot now.
    pub(crate) fn clear(&self, slot: Slot) {
        for direction in Direction::BOTH {
            let at = &self.0[slot.place(direction)];
            at.first.store(0, Ordering::Relaxed);
            at.last.store(0, Ordering::Relaxed);
        }
    }

    fn note(&self, slot: Slot, direction: Direction, now: Nanos) {
        let at = &self.0[slot.place(direction)];
        if at.first.load(Ordering::Relaxed) == 0 {
            at.first.store(now, Ordering::Relaxed);
        }
        at.last.store(now, Ordering::Relaxed);
    }
}

/// The classifiers of both directions, and where each rule's edge begins.
pub(crate) struct ByRules {
    ways: [Way; 2],
    seen: Arc<Seen>,
}

struct Way {
    direction: Direction,
    classifier: Classifier,
    slots: Arc<Vec<Slot>>,
}

impl ByRules {
    /// For rules whose slots are these.
    pub(crate) fn new(rules: &Rules, slots: Vec<Slot>, seen: &Arc<Seen>) -> ByRules {
        let slots = Arc::new(slots);
        let way = |direction| Way {
            direction,
            classifier: Classifier::new(rules, direction),
            slots: Arc::clone(&slots),
        };
        ByRules {
            ways: Direction::BOTH.map(way),
            seen: Arc::clone(seen),
        }
    }
}

impl Steer for ByRules {
    fn steer(
        &mut self,
        now: Nanos,
        at: PortId,
        addresses: &mut [u8; 12],
        rest: &mut [u8],
    ) -> PortId {
        let Some(way) = self.ways.get(at.0 as usize) else {
            return at;
        };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = *addresses;
        let head = Head::behind([s0, s1, s2, s3, s4, s5], [d0, d1, d2, d3, d4, d5], rest);
        let found = way.classifier.find(&head);
        let slot = found.and_then(|place| way.slots.get(place).copied());
        let slot = slot.unwrap_or(UNMATCHED);
        self.seen.note(slot, way.direction, now);
        slot.edge(way.direction).0
    }
}
