//! Ownership of slots: each thread has its own part of them, and returns those of other threads over rings.

use std::ops::Range;

use super::spsc::{Consumer, Producer, ring};

/// One thread's part of the slots, and its rings to the other threads.
#[derive(Debug)]
pub(crate) struct Homes {
    thread: usize,
    own: Range<u32>,
    /// Number of slots of each thread; the last one also has the remainder.
    each: u32,
    /// By thread: rings on which its slots are returned, and rings on which ours come back. Empty if there is one
    /// thread.
    to: Vec<Option<Producer<u32>>>,
    from: Vec<Option<Consumer<u32>>>,
    /// Number of own slots that other threads hold.
    abroad: usize,
}

impl Homes {
    /// Creates the parts of all threads.
    pub(crate) fn all(threads: usize, slots: u32) -> Vec<Homes> {
        let each = slots / threads as u32;
        let part = |thread: usize| {
            let start = thread as u32 * each;
            let end = if thread + 1 == threads {
                slots
            } else {
                start + each
            };
            start..end
        };
        let mut homes: Vec<Homes> = (0..threads)
            .map(|thread| Homes {
                thread,
                own: part(thread),
                each,
                to: Vec::new(),
                from: Vec::new(),
                abroad: 0,
            })
            .collect();
        if threads == 1 {
            return homes;
        }
        for home in 0..threads {
            for user in 0..threads {
                // The ring has room for all slots, so returning one never waits.
                let ring = (home != user).then(|| ring(homes[home].own.len()));
                let (to, from) = ring.unzip();
                homes[user].to.push(to);
                homes[home].from.push(from);
            }
        }
        homes
    }

    pub(crate) fn thread(&self) -> usize {
        self.thread
    }

    pub(crate) fn own(&self) -> Range<u32> {
        self.own.clone()
    }

    /// Returns whether there is one thread only.
    pub(crate) fn is_alone(&self) -> bool {
        self.to.is_empty()
    }

    /// Returns true for an own slot. Any other slot is sent back to its thread.
    #[inline]
    pub(crate) fn is_own_or_return(&mut self, slot: u32) -> bool {
        self.own.contains(&slot) || self.give_back(slot)
    }

    /// Sends a slot back to its thread. Always returns false.
    #[cold]
    fn give_back(&mut self, slot: u32) -> bool {
        // The last thread also has the remainder of the division.
        let thread = (slot / self.each) as usize;
        let to = self.to.get_mut(thread.min(self.from.len() - 1));
        if let Some(to) = to.and_then(Option::as_mut) {
            let given = to.push(slot);
            debug_assert!(given.is_ok(), "there is room for all of a thread's slots");
        }
        false
    }

    /// Records that another thread has this slot from here on.
    pub(crate) fn goes(&mut self, slot: u32) {
        self.abroad += usize::from(self.own.contains(&slot));
    }

    /// Records that this thread has the slot, after another had it.
    pub(crate) fn comes(&mut self, slot: u32) {
        self.abroad -= usize::from(self.own.contains(&slot));
    }

    /// Returns an own slot that another thread has returned.
    pub(crate) fn returned(&mut self) -> Option<u32> {
        if self.abroad == 0 {
            return None;
        }
        let slot = self.from.iter_mut().flatten().find_map(Consumer::pop)?;
        self.abroad -= 1;
        Some(slot)
    }

    /// Returns whether returned slots must be collected soon, because more than an eighth of our own is away.
    pub(crate) fn are_scarce(&self) -> bool {
        self.abroad > self.own.len() / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_one_home_and_finds_it_again() {
        for threads in 1..=5usize {
            let mut homes = Homes::all(threads, 103);
            assert_eq!(homes[0].is_alone(), threads == 1);
            let all: Vec<u32> = homes.iter().flat_map(Homes::own).collect();
            assert_eq!(all, (0..103).collect::<Vec<_>>());
            let parts: Vec<Range<u32>> = homes.iter().map(Homes::own).collect();
            // Everybody has used everybody's slots.
            for (home, part) in parts.iter().enumerate() {
                homes[home].abroad = (threads - 1) * part.len();
                for (user, other) in homes.iter_mut().enumerate() {
                    for slot in part.clone() {
                        assert_eq!(other.is_own_or_return(slot), home == user);
                    }
                }
                for _ in 1..threads {
                    for _ in part.clone() {
                        let slot = homes[home].returned().unwrap();
                        assert!(part.contains(&slot));
                    }
                }
                assert_eq!(homes[home].returned(), None);
            }
        }
    }
}
