//! Which ports of the relay a box uses. The interfaces come first; then each slot has four: both ends of the edge forward,
//! and of the one in reverse. A rule has a slot as long as it stays the same.

use constel_link::PortId;
use constel_rules::{Direction, MAX_RULES};

/// Interfaces of a box.
pub(crate) const INTERFACES: u32 = 2;
/// Every rule may be changed once while all of the old ones still have frames under way; and what no rule takes has a slot.
pub(crate) const SLOTS: u32 = 2 * MAX_RULES as u32 + 1;
/// The slot of what no rule takes.
pub(crate) const UNMATCHED: Slot = Slot(0);
const PORTS_OF_SLOT: u32 = 4;
/// Ports of a box.
pub(crate) const PORTS: u32 = INTERFACES + PORTS_OF_SLOT * SLOTS;

const _: () = assert!(PORTS <= 1 << 16, "the relay's ports have 16 bits");

/// The two edges of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    /// All but [`UNMATCHED`].
    pub(crate) fn of_rules() -> impl DoubleEndedIterator<Item = Slot> {
        (1..SLOTS).map(Slot)
    }

    /// The two ports of the edge in a direction.
    pub(crate) fn edge(self, direction: Direction) -> (PortId, PortId) {
        let first = INTERFACES + PORTS_OF_SLOT * self.0;
        let first = match direction {
            Direction::Forward => first,
            Direction::Reverse => first + 2,
        };
        (PortId(first), PortId(first + 1))
    }

    /// Where what is known of a direction stands in a list of all slots.
    pub(crate) fn place(self, direction: Direction) -> usize {
        2 * self.0 as usize + usize::from(direction == Direction::Reverse)
    }
}

/// On which interface frames go out that reach a port, counted from 1.
pub(crate) fn out_of_ports() -> Vec<u8> {
    let mut out = vec![0; PORTS as usize];
    for slot in std::iter::once(UNMATCHED).chain(Slot::of_rules()) {
        out[slot.edge(Direction::Forward).1.0 as usize] = 2;
        out[slot.edge(Direction::Reverse).1.0 as usize] = 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_edges_share_a_port() {
        let mut seen = vec![false; PORTS as usize];
        for slot in std::iter::once(UNMATCHED).chain(Slot::of_rules()) {
            for direction in Direction::BOTH {
                let (from, to) = slot.edge(direction);
                for port in [from, to] {
                    assert!(!std::mem::replace(&mut seen[port.0 as usize], true));
                }
            }
        }
        assert!(!seen[0] && !seen[1], "those are the interfaces'");
        assert_eq!(
            seen.iter().filter(|seen| **seen).count(),
            PORTS as usize - 2
        );
        let out = out_of_ports();
        assert_eq!(out[UNMATCHED.edge(Direction::Forward).1.0 as usize], 2);
        assert_eq!(out[UNMATCHED.edge(Direction::Forward).0.0 as usize], 0);
    }
}
