//! Whose the slots are: each thread has its own part of them, and gives those of others back over rings.

use std::ops::Range;

use super::spsc::{Consumer, Producer, ring};

/// One thread's part of the slots, and its ways to the other threads'.
#[derive(Debug)]
pub(crate) struct Homes {
    thread: usize,
    own: Range<u32>,
    /// Slots of each thread; the last one has what is left over.
    each: u32,
    /// By thread: where its slots are given back to, and where ours come back from. Empty where there is one thread.
    to: Vec<Option<Producer<u32>>>,
    from: Vec<Option<Consumer<u32>>>,
    /// Slots of our own that are in the hands of others.
    abroad: usize,
}

impl Homes {
    /// For so many threads and slots, one each.
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
                // Room for all there are: none ever waits.
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

    /// Whether there is one thread only.
    pub(crate) fn is_alone(&self) -> bool {
        self.to.is_empty()
    }

    /// True for one of our own; any other is on its way back to its thread from here on.
    #[inline]
    pub(crate) fn is_own_or_return(&mut self, slot: u32) -> bool {
        self.own.contains(&slot) || self.give_back(slot)
    }

    /// False.
    #[cold]
    fn give_back(&mut self, slot: u32) -> bool {
        let thread = (slot / self.each) as usize;
        let to = self.to.get_mut(thread.min(self.from.len() - 1));
        if let Some(to) = to.and_then(Option::as_mut) {
            let given = to.push(slot);
            debug_assert!(given.is_ok(), "there is room for all of a thread's slots");
        }
        false
    }

    /// Another thread has this slot from here on.
    pub(crate) fn goes(&mut self, slot: u32) {
        self.abroad += usize::from(self.own.contains(&slot));
    }

    /// Another thread has had this slot, and it is in our hands again, or for the first time.
    pub(crate) fn comes(&mut self, slot: u32) {
        self.abroad -= usize::from(self.own.contains(&slot));
    }

    /// One of our own that others are done with.
    pub(crate) fn returned(&mut self) -> Option<u32> {
        if self.abroad == 0 {
            return None;
        }
        let slot = self.from.iter_mut().flatten().find_map(Consumer::pop)?;
        self.abroad -= 1;
        Some(slot)
    }

    /// Whether so many of our own are away that it must be looked after them soon.
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
