//! Search for the edge whose next frame is due first: a timing wheel with exact deadlines.
//!
//! Slots of 4.096 us hold items as linked lists through arrays (no allocation per operation). A three-level bitmap
//! finds the next occupied slot in a few instructions. Items more than 268 ms ahead wait in a heap. Items of the
//! current slot are sorted in a small heap, so they come out in the order of their deadlines (then item numbers), never
//! early.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::types::Nanos;

/// log2 of the slot width in nanoseconds.
const SHIFT: u32 = 12;
// 65,536 slots of 4.096 us: deadlines up to 268 ms ahead are in slots.
const SLOTS: usize = 1 << 16;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Idle,
    Slot,
    Ready,
    Far,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    deadline: Nanos,
    next: u32,
    prev: u32,
    place: Position,
}

type Heap = BinaryHeap<Reverse<(Nanos, u32)>>;

/// Deadlines of items numbered from 0, at most one per item.
#[derive(Debug)]
pub struct Wheel {
    items: Vec<Item>,
    heads: Box<[u32]>,
    bits: Bitmap,
    /// Absolute number of the last slot whose items were moved to `ready`. All items in slot lists are later than this
    /// and earlier than `cursor + SLOTS`; all items in `far` are later still.
    cursor: u64,
    ready: Heap,
    far: Heap,
    /// Earliest deadline in the slot lists, if known.
    earliest: Option<Nanos>,
    in_slots: usize,
}

impl Wheel {
    /// An empty wheel.
    #[must_use]
    pub fn new() -> Wheel {
        Wheel {
            items: Vec::new(),
            heads: vec![NONE; SLOTS].into_boxed_slice(),
            bits: Bitmap::new(),
            cursor: 0,
            ready: Heap::new(),
            far: Heap::new(),
            earliest: None,
            in_slots: 0,
        }
    }

    /// Makes room for items `0..count`, so that later calls do not allocate.
    pub fn reserve_items(&mut self, count: usize) {
        let idle = Item {
            deadline: 0,
            next: NONE,
            prev: NONE,
            place: Position::Idle,
        };
        if self.items.len() < count {
            self.items.resize(count, idle);
        }
    }

    /// Gives the item a deadline, replacing its previous one.
    pub fn set(&mut self, item: u32, deadline: Nanos) {
        self.reserve_items(item as usize + 1);
        let Item {
            deadline: old,
            place,
            ..
        } = self.items[item as usize];
        if place != Position::Idle {
            if old == deadline {
                return;
            }
            self.remove(item);
        }
        self.items[item as usize].deadline = deadline;
        let slot = deadline >> SHIFT;
        // The slot's items have been moved to the sorted heap already, so this one joins them there.
        if slot <= self.cursor {
            self.items[item as usize].place = Position::Ready;
            push(
                &mut self.ready,
                &self.items,
                Position::Ready,
                deadline,
                item,
            );
        } else if slot - self.cursor < SLOTS as u64 {
            self.link(item, slot);
        } else {
            self.items[item as usize].place = Position::Far;
            push(&mut self.far, &self.items, Position::Far, deadline, item);
        }
    }

    /// Removes the item's deadline, if it has one.
    pub fn remove(&mut self, item: u32) {
        let Some(&Item { place, .. }) = self.items.get(item as usize) else {
            return;
        };
        if place == Position::Slot {
            self.unlink(item);
        }
        if place != Position::Idle {
            // Heaps keep a stale entry; `top` recognises it.
            self.items[item as usize].place = Position::Idle;
        }
    }

    /// Takes the earliest item due by `now`, which then has no deadline.
    pub fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, u32)> {
        self.advance(now >> SHIFT);
        let (deadline, item) = top(&mut self.ready, &self.items, Position::Ready)?;
        if deadline > now {
            return None;
        }
        self.ready.pop();
        self.items[item as usize].place = Position::Idle;
        Some((deadline, item))
    }

    /// Returns the earliest deadline.
    pub fn next_deadline(&mut self) -> Option<Nanos> {
        if let Some((deadline, _)) = top(&mut self.ready, &self.items, Position::Ready) {
            return Some(deadline);
        }
        // Items in `ready` come before those in slots, and those before the items in `far`.
        if self.in_slots == 0 {
            return top(&mut self.far, &self.items, Position::Far).map(|(deadline, _)| deadline);
        }
        if self.earliest.is_none() {
            let slot = self.next_slot()?;
            // Only the first occupied slot is searched: later slots contain later deadlines.
            let mut at = self.heads[slot as usize & (SLOTS - 1)];
            let mut earliest = Nanos::MAX;
            while at != NONE {
                let item = &self.items[at as usize];
                earliest = earliest.min(item.deadline);
                at = item.next;
            }
            self.earliest = Some(earliest);
        }
        self.earliest
    }

    /// Moves every item up to this slot to the sorted heap.
    fn advance(&mut self, target: u64) {
        if target <= self.cursor {
            return;
        }
        while self.in_slots > 0 {
            let Some(slot) = self.next_slot() else { break };
            if slot > target {
                break;
            }
            self.cursor = slot;
            let mut at = self.heads[slot as usize & (SLOTS - 1)];
            while at != NONE {
                let next = self.items[at as usize].next;
                let item = &mut self.items[at as usize];
                item.place = Position::Ready;
                let deadline = item.deadline;
                push(&mut self.ready, &self.items, Position::Ready, deadline, at);
                self.in_slots -= 1;
                at = next;
            }
            self.heads[slot as usize & (SLOTS - 1)] = NONE;
            self.bits.clear(slot as usize & (SLOTS - 1));
            self.earliest = None;
        }
        // The window has moved: items in `far` may now belong into a slot.
        self.cursor = target;
        while let Some((deadline, item)) = top(&mut self.far, &self.items, Position::Far) {
            let slot = deadline >> SHIFT;
            if slot > self.cursor && slot - self.cursor >= SLOTS as u64 {
                break;
            }
            self.far.pop();
            if slot <= self.cursor {
                self.items[item as usize].place = Position::Ready;
                push(
                    &mut self.ready,
                    &self.items,
                    Position::Ready,
                    deadline,
                    item,
                );
            } else {
                self.link(item, slot);
            }
        }
    }

    /// Returns the absolute number of the first occupied slot after the cursor.
    fn next_slot(&self) -> Option<u64> {
        // Slot numbers wrap around at SLOTS: search to the end of the array, then from its beginning.
        let start = (self.cursor + 1) as usize & (SLOTS - 1);
        let found = self
            .bits
            .first_from(start)
            .or_else(|| self.bits.first_from(0))?;
        let ahead = found.wrapping_sub(start) & (SLOTS - 1);
        Some(self.cursor + 1 + ahead as u64)
    }

    fn link(&mut self, item: u32, slot: u64) {
        let index = slot as usize & (SLOTS - 1);
        let head = self.heads[index];
        let entry = &mut self.items[item as usize];
        entry.place = Position::Slot;
        entry.prev = NONE;
        entry.next = head;
        let deadline = entry.deadline;
        if head == NONE {
            self.bits.set(index);
        } else {
            self.items[head as usize].prev = item;
        }
        self.heads[index] = item;
        if self.in_slots == 0 {
            self.earliest = Some(deadline);
        } else {
            self.earliest = self.earliest.map(|e| e.min(deadline));
        }
        self.in_slots += 1;
    }

    fn unlink(&mut self, item: u32) {
        let Item {
            deadline,
            next,
            prev,
            ..
        } = self.items[item as usize];
        if next != NONE {
            self.items[next as usize].prev = prev;
        }
        if prev == NONE {
            let index = (deadline >> SHIFT) as usize & (SLOTS - 1);
            self.heads[index] = next;
            if next == NONE {
                self.bits.clear(index);
            }
        } else {
            self.items[prev as usize].next = next;
        }
        self.in_slots -= 1;
        // The next earliest deadline is computed on demand, because most removals are followed by a new deadline.
        if self.earliest == Some(deadline) {
            self.earliest = None;
        }
    }
}

impl Default for Wheel {
    fn default() -> Self {
        Wheel::new()
    }
}

/// Returns the first valid entry and removes stale ones before it.
fn top(heap: &mut Heap, items: &[Item], place: Position) -> Option<(Nanos, u32)> {
    while let Some(&Reverse((deadline, item))) = heap.peek() {
        let it = &items[item as usize];
        if it.place == place && it.deadline == deadline {
            return Some((deadline, item));
        }
        heap.pop();
    }
    None
}

/// Adds an entry. If stale entries outnumber the items, all of them are removed.
fn push(heap: &mut Heap, items: &[Item], place: Position, deadline: Nanos, item: u32) {
    if heap.len() > 2 * items.len() + 64 {
        heap.retain(|&Reverse((deadline, item))| {
            let it = &items[item as usize];
            it.place == place && it.deadline == deadline
        });
    }
    heap.push(Reverse((deadline, item)));
}

/// A set of slot numbers that finds the first one from a number on in constant time.
#[derive(Debug)]
struct Bitmap {
    leaf: Box<[u64]>,
    mid: [u64; SLOTS / 4096],
    root: u64,
}

impl Bitmap {
    fn new() -> Bitmap {
        Bitmap {
            leaf: vec![0; SLOTS / 64].into_boxed_slice(),
            mid: [0; SLOTS / 4096],
            root: 0,
        }
    }

    fn set(&mut self, i: usize) {
        self.leaf[i >> 6] |= 1 << (i & 63);
        self.mid[i >> 12] |= 1 << ((i >> 6) & 63);
        self.root |= 1 << (i >> 12);
    }

    fn clear(&mut self, i: usize) {
        self.leaf[i >> 6] &= !(1 << (i & 63));
        // A bit of an upper level stands for a whole word of the level below.
        if self.leaf[i >> 6] == 0 {
            self.mid[i >> 12] &= !(1 << ((i >> 6) & 63));
            if self.mid[i >> 12] == 0 {
                self.root &= !(1 << (i >> 12));
            }
        }
    }

    fn first_from(&self, i: usize) -> Option<usize> {
        if let Some(bit) = first_bit(self.leaf[i >> 6], i & 63) {
            return Some((i & !63) | bit);
        }
        // The rest of this word is empty. On the level above, each bit stands for one of the words behind it.
        let mid = i >> 12;
        if let Some(word) = first_bit(self.mid[mid], ((i >> 6) & 63) + 1) {
            return Some(self.in_leaf((mid << 6) | word));
        }
        let mid = first_bit(self.root, mid + 1)?;
        Some(self.in_leaf((mid << 6) | self.mid[mid].trailing_zeros() as usize))
    }

    fn in_leaf(&self, word: usize) -> usize {
        (word << 6) | self.leaf[word].trailing_zeros() as usize
    }
}

/// Returns the lowest set bit at or above `from` (0..=64).
fn first_bit(word: u64, from: usize) -> Option<usize> {
    if from >= 64 {
        return None;
    }
    let rest = word & (u64::MAX << from);
    (rest != 0).then(|| rest.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn comes_out_in_order_and_never_early() {
        let mut wheel = Wheel::new();
        let far = 3_000_000_000;
        for (item, deadline) in [(0, 5000), (1, 4097), (2, 4096), (3, far), (4, 100)] {
            wheel.set(item, deadline);
        }
        assert_eq!(wheel.next_deadline(), Some(100));
        assert_eq!(wheel.pop_due(99), None);
        assert_eq!(wheel.pop_due(100), Some((100, 4)));
        assert_eq!(wheel.next_deadline(), Some(4096));
        assert_eq!(wheel.pop_due(4095), None);
        assert_eq!(wheel.pop_due(4999), Some((4096, 2)));
        assert_eq!(wheel.pop_due(4999), Some((4097, 1)));
        assert_eq!(wheel.pop_due(4999), None);
        assert_eq!(wheel.pop_due(5000), Some((5000, 0)));
        assert_eq!(wheel.next_deadline(), Some(far));
        assert_eq!(wheel.pop_due(far - 1), None);
        assert_eq!(wheel.pop_due(far), Some((far, 3)));
        assert_eq!(wheel.next_deadline(), None);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Set(u32, u64),
        Remove(u32),
        Pass(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        let span = prop_oneof![0u64..20_000, 0u64..2_000_000, 0u64..1_000_000_000];
        prop_oneof![
            4 => (0u32..12, span.clone()).prop_map(|(i, d)| Op::Set(i, d)),
            1 => (0u32..12).prop_map(Op::Remove),
            2 => span.prop_map(Op::Pass),
        ]
    }

    proptest! {
        /// Against an ordered set: same next deadline after every step, same pops.
        #[test]
        fn equals_an_ordered_set(start in 0u64..1 << 50, ops in prop::collection::vec(op(), 1..200)) {
            let mut wheel = Wheel::new();
            let mut set = BTreeSet::new();
            let mut of = [None; 12];
            let mut now = start;
            for op in ops {
                match op {
                    Op::Set(item, ahead) => {
                        if let Some(old) = of[item as usize].replace(now + ahead) {
                            set.remove(&(old, item));
                        }
                        set.insert((now + ahead, item));
                        wheel.set(item, now + ahead);
                    }
                    Op::Remove(item) => {
                        if let Some(old) = of[item as usize].take() {
                            set.remove(&(old, item));
                        }
                        wheel.remove(item);
                    }
                    Op::Pass(span) => {
                        now += span;
                        while set.first().is_some_and(|&(d, _)| d <= now) {
                            let expected = set.pop_first();
                            of[expected.unwrap().1 as usize] = None;
                            prop_assert_eq!(wheel.pop_due(now), expected);
                        }
                        prop_assert_eq!(wheel.pop_due(now), None);
                    }
                }
                prop_assert_eq!(wheel.next_deadline(), set.first().map(|&(d, _)| d));
            }
        }
    }
}
