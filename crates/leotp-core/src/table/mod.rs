//! Bounded state per flow and Consumer: entries are found, added, dropped and forgotten in O(1)
//! each, in a full table too.

mod quota;
mod recency;

pub use quota::Quota;
pub use recency::Recency;

use crate::params::Params;
use crate::{Nanos, Path};
use std::collections::HashMap;

/// The name of an entry. A name may outlive its entry and is then invalid, even if the slot has
/// been given to another entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotId {
    slot: u32,
    generation: u32,
}

/// Flow id, and path of its Data toward a Consumer.
pub(crate) type Key = (u64, Path);

struct Slot<T> {
    generation: u32,
    entry: Option<Entry<T>>,
}

struct Entry<T> {
    key: Key,
    seen: Nanos,
    value: T,
}

/// Entries by flow and path. A full table drops the entry that has been idle for longest.
pub(crate) struct FlowTable<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    index: HashMap<Key, SlotId>,
    quota: Quota,
    recency: Recency,
    max: usize,
    /// Entries that were examined to find one to drop: the work of a full table.
    #[cfg(test)]
    pub(crate) looked_at: u64,
}

impl<T> FlowTable<T> {
    pub(crate) fn new(p: &Params) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            index: HashMap::new(),
            quota: Quota::new(p.max_flows_per_peer, p.max_flows_per_prefix),
            recency: Recency::default(),
            max: p.max_flows as usize,
            #[cfg(test)]
            looked_at: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) const fn quota(&self) -> &Quota {
        &self.quota
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.index.keys()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let entries = self.slots.iter().filter_map(|s| s.entry.as_ref());
        entries.map(|e| &e.value)
    }

    pub(crate) fn find(&self, key: &Key) -> Option<SlotId> {
        self.index.get(key).copied()
    }

    fn entry(&mut self, id: SlotId) -> Option<&mut Entry<T>> {
        // The generation has changed if the slot now has another entry.
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.entry
            .as_mut()
            .filter(|_| slot.generation == id.generation)
    }

    pub(crate) fn get_mut(&mut self, id: SlotId) -> Option<&mut T> {
        self.entry(id).map(|e| &mut e.value)
    }

    /// Notes that a packet of the entry has passed at `now`; returns the time of the previous
    /// one.
    pub(crate) fn touch(&mut self, id: SlotId, now: Nanos) -> Option<Nanos> {
        let before = std::mem::replace(&mut self.entry(id)?.seen, now);
        self.recency.touch(id.slot);
        Some(before)
    }

    /// Whether an entry for `key` may be added.
    pub(crate) fn admits(&self, key: &Key) -> bool {
        self.quota.admits(key.1.dst.ip())
    }

    /// Returns the entry to drop before one more is added; the caller removes it.
    pub(crate) fn idlest_if_full(&mut self) -> Option<SlotId> {
        if self.index.len() < self.max {
            return None;
        }
        self.idlest().map(|(id, _)| id)
    }

    /// Returns an entry without a packet since `before`; the caller removes it.
    pub(crate) fn idle_since(&mut self, before: Nanos) -> Option<SlotId> {
        let (id, seen) = self.idlest()?;
        (seen < before).then_some(id)
    }

    fn idlest(&mut self) -> Option<(SlotId, Nanos)> {
        #[cfg(test)]
        {
            self.looked_at += 1;
        }
        // The list is in order of use, so the oldest is found without a search.
        let slot = self.recency.oldest()?;
        let Slot { generation, entry } = self.slots.get(slot as usize)?;
        let id = SlotId {
            slot,
            generation: *generation,
        };
        Some((id, entry.as_ref()?.seen))
    }

    /// Adds an entry for a `key` that has none.
    pub(crate) fn add(&mut self, now: Nanos, key: Key, value: T) -> SlotId {
        let entry = Some(Entry {
            key,
            seen: now,
            value,
        });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize].entry = entry;
                slot
            }
            None => {
                self.slots.push(Slot {
                    generation: 0,
                    entry,
                });
                (self.slots.len() - 1) as u32
            }
        };
        let id = SlotId {
            slot,
            generation: self.slots[slot as usize].generation,
        };
        self.index.insert(key, id);
        self.quota.add(key.1.dst.ip());
        self.recency.touch(slot);
        id
    }

    pub(crate) fn remove(&mut self, id: SlotId) -> Option<T> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let entry = slot.entry.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.index.remove(&entry.key);
        self.free.push(id.slot);
        self.recency.remove(id.slot);
        self.quota.release(entry.key.1.dst.ip());
        Some(entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> Key {
        let path = Path {
            src: ([10, 255, 0, 1], 5047).into(),
            dst: (n.to_be_bytes(), 1).into(),
        };
        (7, path)
    }

    fn add(t: &mut FlowTable<u32>, now: Nanos, n: u32) -> SlotId {
        if let Some(id) = t.idlest_if_full() {
            t.remove(id);
        }
        t.add(now, key(n), n)
    }

    #[test]
    fn the_idlest_goes_and_its_name_dies() {
        let p = Params {
            max_flows: 3,
            ..Params::default()
        };
        let mut t = FlowTable::new(&p);
        let ids: Vec<SlotId> = (0..3).map(|n| add(&mut t, 10 + u64::from(n), n)).collect();
        assert_eq!(t.touch(ids[0], 20), Some(10));
        let newcomer = add(&mut t, 21, 9);
        assert_eq!((t.find(&key(1)), t.len()), (None, 3));
        // The place is the newcomer's; the old name is not.
        assert_eq!(newcomer.slot, ids[1].slot);
        assert!(t.get_mut(ids[1]).is_none() && t.remove(ids[1]).is_none());
        assert_eq!(t.get_mut(newcomer).copied(), Some(9));
        assert_eq!(t.idle_since(13), Some(ids[2]));
        t.remove(ids[2]);
        assert_eq!(t.idle_since(13), None);
    }

    #[test]
    fn a_full_table_costs_the_same_per_entry_as_an_empty_one() {
        let p = Params::default();
        let (mut t, n) = (FlowTable::new(&p), 4 * p.max_flows);
        for i in 0..n {
            add(&mut t, u64::from(i), i);
        }
        assert_eq!(t.len(), p.max_flows as usize);
        // One look per newcomer. A search would take max_flows / 2.
        assert!(t.looked_at <= u64::from(n), "{}", t.looked_at);
        let before = t.looked_at;
        for _ in 0..100 {
            assert_eq!(t.idle_since(0), None);
        }
        assert_eq!(
            t.looked_at - before,
            100,
            "nothing to forget costs one look"
        );
    }
}
