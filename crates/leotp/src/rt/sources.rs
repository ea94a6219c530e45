//! Sockets that send with the addresses of other hosts, a bounded number of them.

use crate::core::Recency;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Source addresses with an open socket, at most.
const MAX: usize = 1024;

/// A socket for each source address. A new one replaces the one used longest ago, in constant
/// time.
pub(super) struct Sources<S> {
    index: HashMap<SocketAddr, u32>,
    slots: Vec<Option<(SocketAddr, S)>>,
    free: Vec<u32>,
    recency: Recency,
}

impl<S> Sources<S> {
    pub(super) fn new() -> Self {
        Self {
            index: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            recency: Recency::default(),
        }
    }

    /// Returns the socket of `src`, which `open` makes if `src` has no socket yet.
    pub(super) fn get(&mut self, src: SocketAddr, open: impl FnOnce() -> Option<S>) -> Option<&S> {
        let slot = match self.index.get(&src) {
            Some(&slot) => slot,
            None => {
                if self.index.len() >= MAX {
                    self.close_idlest();
                }
                self.add(src, open()?)
            }
        };
        self.recency.touch(slot);
        self.slots[slot as usize].as_ref().map(|(_, s)| s)
    }

    fn add(&mut self, src: SocketAddr, socket: S) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = Some((src, socket));
        self.index.insert(src, slot);
        slot
    }

    fn close_idlest(&mut self) {
        let Some(slot) = self.recency.oldest() else {
            return;
        };
        self.recency.remove(slot);
        if let Some((src, _)) = self.slots[slot as usize].take() {
            self.index.remove(&src);
            self.free.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_used_longest_ago_is_closed() {
        let source = |n: u16| SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 1));
        let mut s = Sources::new();
        for n in 0..MAX as u16 {
            assert_eq!(s.get(source(n), || Some(n)), Some(&n));
        }
        // The first is used again, so the second goes.
        assert_eq!(s.get(source(0), || None), Some(&0));
        assert_eq!(s.get(source(5000), || Some(5000)), Some(&5000));
        assert_eq!(s.get(source(0), || None), Some(&0));
        assert_eq!(s.get(source(1), || None), None);
        // A socket that could not be opened leaves no entry.
        assert_eq!(s.get(source(1), || Some(7)), Some(&7));
        for n in 0..10_000 {
            s.get(source(n), || Some(n));
            assert!(s.index.len() <= MAX && s.slots.len() <= MAX);
        }
    }
}
