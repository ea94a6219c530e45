//! Sets of paths that share a destination's packets. There are few different sets, because nodes have few neighbours.
//! Each set is stored once, as long as the table exists, and has a number, so that a change of a route stays one store.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::transit::NeighbourRoute;

/// Sets in the first list; each further list has room for twice as many.
const FIRST: usize = 64;
/// Number of lists, for over a hundred million sets.
const LISTS: usize = 21;

type List = Box<[OnceLock<Box<[NeighbourRoute]>>]>;

/// All sets of paths.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    lists: [OnceLock<List>; LISTS],
    numbers: Mutex<HashMap<Box<[NeighbourRoute]>, u32>>,
}

/// Returns the list of a set, and its index in it.
fn place(number: u32) -> (usize, usize) {
    // List k begins at FIRST * (2^k - 1), because the lists before it have FIRST * (1 + 2 + ... + 2^(k-1)) places.
    let from_first = number as usize / FIRST + 1;
    let list = from_first.ilog2() as usize;
    (list, number as usize - FIRST * ((1 << list) - 1))
}

impl Shared {
    /// Returns the number of a set; `None`: there is no room for another one.
    pub(crate) fn number(&self, ways: &[NeighbourRoute]) -> Option<u32> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = numbers.get(ways) {
            return Some(*number);
        }
        let number = numbers.len() as u32;
        let (list, at) = place(number);
        // Lists are never moved or resized, so `ways` reads them without the lock.
        let room = || (0..FIRST << list).map(|_| OnceLock::new()).collect();
        let list = self.lists.get(list)?.get_or_init(room);
        list[at].get_or_init(|| ways.into());
        numbers.insert(ways.into(), number);
        Some(number)
    }

    /// Returns the set with this number.
    pub(crate) fn ways(&self, number: u32) -> &[NeighbourRoute] {
        let (list, at) = place(number);
        let list = self.lists.get(list).and_then(OnceLock::get);
        let ways = list.and_then(|list| list.get(at)?.get());
        ways.map_or(&[], AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use crate::PortId;

    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let mut next = (0, 0);
        for number in 0..10_000 {
            assert_eq!(place(number), next);
            next.1 += 1;
            if next.1 == FIRST << next.0 {
                next = (next.0 + 1, 0);
            }
        }
        let (list, _) = place(100_000_000);
        assert!(list < LISTS);
    }

    #[test]
    fn a_set_is_kept_once_and_found_again() {
        let shared = Shared::default();
        let set = |n: u32| {
            [n, n + 1].map(|n| NeighbourRoute {
                port: PortId(n),
                far_port: PortId(n + 7),
            })
        };
        for round in 0..2 {
            for n in 0..1000 {
                assert_eq!(shared.number(&set(n)), Some(n), "round {round}");
            }
        }
        for n in 0..1000 {
            assert_eq!(shared.ways(n), set(n));
        }
        assert!(shared.ways(1000).is_empty() && shared.ways(u32::MAX).is_empty());
    }
}
