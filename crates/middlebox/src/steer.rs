//! The choice of the rule's edge for each frame, called by the relay's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use constel_drivers::relay::{Steer, Steered};
use constel_link::rules::{Classifier, Direction, Head, Interface, Rules};
use constel_link::{Nanos, PortId};

use crate::joined::{BoxPart, Joined};
use crate::ports::{ROUTER, SLOTS, Slot, UNMATCHED};

/// The arrival times of frames, for each slot and direction.
#[derive(Debug)]
pub(crate) struct Seen(Vec<FirstAndLast>);

/// On `CLOCK_MONOTONIC`; 0 without frames.
#[derive(Debug, Default)]
struct FirstAndLast {
    first: AtomicU64,
    last: AtomicU64,
}

impl Seen {
    pub(crate) fn new() -> Seen {
        Seen((0..2 * SLOTS).map(|_| FirstAndLast::default()).collect())
    }

    /// Returns when the first and the last frame arrived.
    pub(crate) fn get(&self, slot: Slot, direction: Direction) -> Option<(Nanos, Nanos)> {
        let at = &self.0[slot.place(direction)];
        let (first, last) = (
            at.first.load(Ordering::Relaxed),
            at.last.load(Ordering::Relaxed),
        );
        (first > 0).then_some((first, last))
    }

    /// Resets a slot that now belongs to another rule.
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

/// The classifiers of both directions, and the edge of each rule.
pub(crate) struct ByRules {
    ways: [Way; 2],
    joined: Arc<Joined>,
    seen: Arc<Seen>,
    /// The interfaces, in order; those of the box's router come after them and are `None`.
    interfaces: Vec<Option<Interface>>,
}

struct Way {
    direction: Direction,
    classifier: Classifier,
    slots: Arc<Vec<Slot>>,
}

impl ByRules {
    /// Creates the choice for rules with these slots.
    pub(crate) fn new(
        rules: &Rules,
        slots: Vec<Slot>,
        (joined, seen, names): (&Arc<Joined>, &Arc<Seen>, &[String]),
    ) -> ByRules {
        let slots = Arc::new(slots);
        let way = |direction| Way {
            direction,
            classifier: Classifier::new(rules, direction),
            slots: Arc::clone(&slots),
        };
        ByRules {
            ways: Direction::BOTH.map(way),
            joined: Arc::clone(joined),
            seen: Arc::clone(seen),
            interfaces: names.iter().map(|name| Interface::named(name)).collect(),
        }
    }

    /// Returns the slot of the matching rule and its direction. If the direction is not known, the first rule that
    /// matches in either counts.
    fn choose(&self, head: &Head, direction: Option<Direction>) -> (Slot, Direction) {
        let find = |way: &Way| {
            way.classifier
                .find(head)
                .map(|place| (place, way.direction))
        };
        let asked = self.ways.iter();
        let asked =
            asked.filter(|way| direction.is_none_or(|direction| way.direction == direction));
        // For equal indices the first is taken, which is the forward direction.
        let found = asked.filter_map(find).min_by_key(|(place, _)| *place);
        let known = direction.unwrap_or(Direction::Forward);
        let Some((place, direction)) = found else {
            return (UNMATCHED, known);
        };
        let slot = self.ways[0].slots.get(place).copied();
        (slot.unwrap_or(UNMATCHED), direction)
    }
}

impl Steer for ByRules {
    fn steer(&mut self, now: Nanos, at: u8, addresses: &mut [u8; 12], rest: &mut [u8]) -> Steered {
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = *addresses;
        let (smac, dmac) = ([s0, s1, s2, s3, s4, s5], [d0, d1, d2, d3, d4, d5]);
        let mut head = Head::behind(smac, dmac, rest);
        let Some((out, whose)) = self.joined.way(now, at, &head, rest) else {
            // An interface's port has no edges, so that the relay drops the frame.
            let port = PortId(u32::from(at));
            return Steered { port, out: at };
        };
        let interface = |at: u8| self.interfaces.get(usize::from(at)).copied().flatten();
        head.input = interface(at);
        head.output = interface(out).filter(|_| out != at);
        let (slot, direction) = match whose {
            BoxPart::Routers => (ROUTER, Direction::Forward),
            BoxPart::Rules(direction) => self.choose(&head, direction),
        };
        self.seen.note(slot, direction, now);
        let port = slot.edge(direction).0;
        Steered { port, out }
    }
}
