//! The ports of the relay that a box uses. The interfaces come first; then each slot has four ports: both ends of
//! its forward edge and of its reverse edge. A rule has one slot as long as it does not change.

use constel_link::PortId;
use constel_link::rules::{Direction, MAX_RULES};

/// The largest number of interfaces of a box, with those of its router.
const INTERFACES: u32 = 16;
/// The number of slots. Each rule can be changed once while all old versions still have frames in flight, and two
/// slots belong to no rule.
pub(crate) const SLOTS: u32 = 2 * MAX_RULES as u32 + 2;
/// The slot of frames that match no rule.
pub(crate) const UNMATCHED: Slot = Slot(0);
/// The slot of frames to and from the box's own router.
pub(crate) const ROUTER: Slot = Slot(1);
const PORTS_OF_SLOT: u32 = 4;
/// The number of ports of a box.
pub(crate) const PORTS: u32 = INTERFACES + PORTS_OF_SLOT * SLOTS;

const _: () = assert!(PORTS <= 1 << 16, "the relay's ports have 16 bits");

/// The two edges of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    /// Returns all slots except [`UNMATCHED`] and [`ROUTER`].
    pub(crate) fn of_rules() -> impl DoubleEndedIterator<Item = Slot> {
        (2..SLOTS).map(Slot)
    }

    /// Returns the two ports of the edge in a direction.
    pub(crate) fn edge(self, direction: Direction) -> (PortId, PortId) {
        let first = INTERFACES + PORTS_OF_SLOT * self.0;
        let first = match direction {
            Direction::Forward => first,
            Direction::Reverse => first + 2,
        };
        (PortId(first), PortId(first + 1))
    }

    /// Returns the slot and the direction of the edge that a port belongs to.
    pub(crate) fn of(port: PortId) -> Option<(Slot, Direction)> {
        let port = port.0.checked_sub(INTERFACES)?;
        let direction = match port % PORTS_OF_SLOT {
            0 | 1 => Direction::Forward,
            _ => Direction::Reverse,
        };
        Some((Slot(port / PORTS_OF_SLOT), direction))
    }

    /// Returns the index of a direction in a list of all slots.
    pub(crate) fn place(self, direction: Direction) -> usize {
        2 * self.0 as usize + usize::from(direction == Direction::Reverse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_edges_share_a_port() {
        let mut seen = vec![false; PORTS as usize];
        for slot in [UNMATCHED, ROUTER].into_iter().chain(Slot::of_rules()) {
            for direction in Direction::BOTH {
                let (from, to) = slot.edge(direction);
                for port in [from, to] {
                    assert_eq!(Slot::of(port), Some((slot, direction)));
                    assert!(!std::mem::replace(&mut seen[port.0 as usize], true));
                }
            }
        }
        let own = seen[..INTERFACES as usize].iter();
        assert!(own.clone().all(|seen| !seen), "those are the interfaces'");
        assert_eq!(
            seen.iter().filter(|seen| **seen).count(),
            (PORTS - INTERFACES) as usize
        );
    }
}
