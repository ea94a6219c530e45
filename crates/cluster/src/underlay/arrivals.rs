//! Counters of the frames between two machines, derived from their sequence numbers in bounded memory.

/// Number of remembered sequence numbers: at 200,000 frames per second, those of the last 20 ms. A frame that is displaced
/// by more cannot be distinguished from a copy.
pub const WINDOW: u32 = 4_096;

const WORDS: usize = WINDOW as usize / 64;

/// The arrival of a frame, relative to earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalOrder {
    /// No later frame had arrived.
    InOrder,
    /// A later frame had arrived before it.
    Overtaken,
    /// This frame had arrived before.
    Again,
    /// The number is too old to be remembered, or precedes the first one that arrived.
    Forgotten,
    /// The number is at least [`WINDOW`] ahead of all others, and the number before it has not just arrived. Such a jump is
    /// accepted when the next number follows, as in RTP (RFC 3550, A.1). Otherwise a single wrong number would make all
    /// correct ones count as forgotten.
    Astray,
}

/// The sequence numbers that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrivals {
    /// The number after the highest that arrived, or `None` if none has.
    next: Option<u32>,
    /// Count of numbers from the first that arrived to the highest, as far as they are remembered.
    span: u32,
    /// The number that would confirm a jump.
    leap: Option<u32>,
    /// A bit for each remembered number, at the number modulo [`WINDOW`]: whether it arrived.
    bits: Box<[u64; WORDS]>,
    /// Frames that arrived, without copies.
    pub arrived: u64,
    /// Numbers that were skipped and have not arrived since.
    pub missing: u64,
    /// Frames that arrived after one with a higher number.
    pub reordered: u64,
    /// Frames that arrived again.
    pub copies: u64,
    /// Frames that arrived too late to be remembered. They also count as missing, unless they were copies or before the
    /// first.
    pub forgotten: u64,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self::new()
    }
}

impl Arrivals {
    /// Creates empty counters. Numbers before the first one that arrives do not count as missing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            next: None,
            span: 0,
            leap: None,
            bits: Box::new([0; WORDS]),
            arrived: 0,
            missing: 0,
            reordered: 0,
            copies: 0,
            forgotten: 0,
        }
    }

    /// Records the arrival of a frame with this number.
    pub fn came(&mut self, sequence: u32) -> ArrivalOrder {
        // Numbers wrap around, so a distance below half the range means ahead. Senders begin at zero.
        let ahead = sequence.wrapping_sub(self.next.unwrap_or_default());
        let is_leap = ahead >= WINDOW && (self.next.is_none() || ahead < 1 << 31);
        // Before the first frame every number is ahead of zero, so the first one is tested as well.
        if is_leap && self.leap != Some(sequence) {
            self.leap = Some(sequence.wrapping_add(1));
            return ArrivalOrder::Astray;
        }
        // A confirmed jump continues from the new number; the numbers in between count as missing.
        let next = *self.next.get_or_insert(sequence);
        let ahead = sequence.wrapping_sub(next);
        if ahead < 1 << 31 {
            self.leap = None;
            // The bits of the skipped numbers are still those of numbers one window earlier.
            self.skip(next, ahead);
            self.set(sequence);
            self.span = self
                .span
                .saturating_add(ahead)
                .saturating_add(1)
                .min(WINDOW);
            self.next = Some(sequence.wrapping_add(1));
            // Skipped numbers count as missing until they arrive.
            self.missing += u64::from(ahead);
            self.arrived += 1;
            return ArrivalOrder::InOrder;
        }
        let behind = next.wrapping_sub(sequence) - 1;
        // The bit of such an old number now belongs to a newer one.
        if behind >= self.span {
            self.forgotten += 1;
            return ArrivalOrder::Forgotten;
        }
        // The underlay may duplicate datagrams, but a node must get each frame once.
        if self.has(sequence) {
            self.copies += 1;
            return ArrivalOrder::Again;
        }
        self.set(sequence);
        // It was counted as missing when a higher number arrived.
        self.missing -= 1;
        self.reordered += 1;
        self.arrived += 1;
        ArrivalOrder::Overtaken
    }

    /// Clears the bits of `count` numbers from `next` on, which older numbers have used before.
    fn skip(&mut self, next: u32, count: u32) {
        if count >= WINDOW {
            self.bits.fill(0);
            return;
        }
        for number in 0..count {
            let (word, bit) = place(next.wrapping_add(number));
            self.bits[word] &= !bit;
        }
    }

    fn set(&mut self, sequence: u32) {
        let (word, bit) = place(sequence);
        self.bits[word] |= bit;
    }

    fn has(&self, sequence: u32) -> bool {
        let (word, bit) = place(sequence);
        self.bits[word] & bit != 0
    }
}

fn place(sequence: u32) -> (usize, u64) {
    let place = sequence % WINDOW;
    (place as usize / 64, 1 << (place % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_far_behind_is_forgotten() {
        let mut told = Arrivals::new();
        for number in [10, 9, 10 + WINDOW - 1, 10, 11] {
            told.came(number);
        }
        // 9 is before the first one. 10 is the oldest remembered number and a copy. 11 is late.
        assert_eq!(
            (told.arrived, told.copies, told.forgotten, told.reordered),
            (3, 1, 1, 1)
        );
        assert_eq!(told.missing, u64::from(WINDOW) - 3);
        assert_eq!(told.came(10 + WINDOW), ArrivalOrder::InOrder);
        assert_eq!(told.came(10), ArrivalOrder::Forgotten);
        assert_eq!(told.came(11), ArrivalOrder::Again);
        // The numbers that take over these bits are new.
        assert_eq!(told.came(9 + 3 * WINDOW), ArrivalOrder::Astray);
        assert_eq!(told.came(10 + 3 * WINDOW), ArrivalOrder::InOrder);
        assert_eq!(told.came(11 + 2 * WINDOW), ArrivalOrder::Overtaken);
        assert_eq!(told.came(11 + 2 * WINDOW), ArrivalOrder::Again);
    }

    proptest! {
        /// Compares with a model that remembers everything, for numbers that wrap around, are lost, doubled or displaced, or
        /// have gaps.
        #[test]
        fn losses_and_disorder_are_told_from_numbers(
            first in any::<u32>(),
            fates in prop::collection::vec((0_u32..6_000, 0_u32..60, 0_u8..10), 1..400),
            gap in prop_oneof![Just(1_u32), 1_u32..200],
        ) {
            let mut arrivals: Vec<(u32, u32)> = Vec::new();
            for (number, (far, near, fate)) in (0_u32..).zip(&fates) {
                let number = number * gap;
                let late = match fate { 1 => *near, 3 => *far, _ => 0 };
                let copies = match fate { 0 => 0, 2 | 3 => 2, _ => 1 };
                arrivals.extend((0..copies).map(|copy| (number + late * copy.max(u32::from(*fate != 3)), number)));
            }
            arrivals.sort_by_key(|(at, _)| *at);
            let numbers: Vec<u32> = arrivals.into_iter().map(|(_, number)| number).collect();
            let Some(begins) = numbers.first().copied() else { return Ok(()) };
            let (mut seen, mut told) = (BTreeSet::new(), Arrivals::new());
            let mut expected = (0, 0, 0);
            // A first number far from zero is accepted when the next one follows.
            told.leap = Some(first.wrapping_add(begins));
            let mut leap = None;
            for number in numbers {
                let highest = seen.last().copied();
                let came = match highest {
                    None => ArrivalOrder::InOrder,
                    Some(highest) if number > highest + WINDOW && leap != Some(number) => {
                        leap = Some(number + 1);
                        ArrivalOrder::Astray
                    }
                    Some(highest) if number > highest => {
                        leap = None;
                        ArrivalOrder::InOrder
                    }
                    Some(highest) if number < begins || highest - number >= WINDOW => ArrivalOrder::Forgotten,
                    Some(_) if seen.contains(&number) => ArrivalOrder::Again,
                    Some(_) => ArrivalOrder::Overtaken,
                };
                prop_assert_eq!(told.came(first.wrapping_add(number)), came);
                match came {
                    ArrivalOrder::InOrder | ArrivalOrder::Overtaken => { seen.insert(number); }
                    ArrivalOrder::Again => expected.1 += 1,
                    ArrivalOrder::Forgotten => expected.2 += 1,
                    ArrivalOrder::Astray => {}
                }
                expected.0 += u64::from(came == ArrivalOrder::Overtaken);
            }
            let range = u64::from(seen.last().unwrap() - begins) + 1;
            prop_assert_eq!(told.arrived, seen.len() as u64);
            prop_assert_eq!(told.missing, range - seen.len() as u64);
            prop_assert_eq!((told.reordered, told.copies, told.forgotten), expected);
        }
    }
}
