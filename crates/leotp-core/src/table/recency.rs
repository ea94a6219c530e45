//! The order of last use, in O(1): a linked list of small numbers.

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
    listed: bool,
}

/// Small numbers in the order of their last use. Every operation takes constant time; memory is
/// 12 bytes for each number up to the largest.
#[derive(Debug, Clone)]
pub struct Recency {
    links: Vec<Link>,
    newest: u32,
    oldest: u32,
}

impl Default for Recency {
    fn default() -> Self {
        Self {
            links: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }
}

impl Recency {
    /// Makes `id`, below 2^32 - 1, the newest, whether it was listed or not.
    pub fn touch(&mut self, id: u32) {
        if self.newest == id {
            return;
        }
        self.remove(id);
        let at = id as usize;
        // The links are stored by number, so the list needs no allocation per entry.
        if self.links.len() <= at {
            let unlisted = Link {
                newer: NONE,
                older: NONE,
                listed: false,
            };
            self.links.resize(at + 1, unlisted);
        }
        let head = self.newest;
        self.links[at] = Link {
            newer: NONE,
            older: head,
            listed: true,
        };
        // `NONE` is beyond the vector, so an empty list has no head to update.
        match self.links.get_mut(head as usize) {
            Some(l) => l.newer = id,
            None => self.oldest = id,
        }
        self.newest = id;
    }

    /// Removes `id` from the list.
    pub fn remove(&mut self, id: u32) {
        let Some(l) = self.links.get_mut(id as usize).filter(|l| l.listed) else {
            return;
        };
        l.listed = false;
        let (newer, older) = (l.newer, l.older);
        // Closes the gap; a missing neighbour means that `id` was at that end of the list.
        match self.links.get_mut(newer as usize) {
            Some(n) => n.older = older,
            None => self.newest = older,
        }
        match self.links.get_mut(older as usize) {
            Some(o) => o.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// Returns the number used longest ago.
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain list.
        #[test]
        fn the_oldest_is_the_one_used_longest_ago(ops in prop::collection::vec((any::<bool>(), 0u32..12), 0..200)) {
            let (mut r, mut model) = (Recency::default(), Vec::new());
            for (touch, id) in ops {
                model.retain(|m| *m != id);
                if touch {
                    model.push(id);
                    r.touch(id);
                } else {
                    r.remove(id);
                }
                prop_assert_eq!(r.oldest(), model.first().copied());
            }
            while let Some(id) = r.oldest() {
                r.remove(id);
                prop_assert_eq!(id, model.remove(0));
            }
            prop_assert!(model.is_empty());
        }
    }
}
