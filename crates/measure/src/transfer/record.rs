//! Records: equal pieces of a stream, each with the time of its first sending and bytes that can be checked.
//!
//! A record is its time (8 bytes), its number (8 bytes), and bytes that are computed from the number. All integers
//! are little-endian.

use std::collections::VecDeque;

/// The length of a record: the payload of a LEOTP packet, and less than a TCP segment's on Ethernet.
pub const RECORD_BYTES: usize = 1400;

/// The number of records whose times are kept for retransmission. Only nodes along the path send older ones again.
const KEPT: usize = 1 << 20;

fn word(number: u64, at: usize) -> u64 {
    let x = number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ (at as u64).wrapping_mul(0xD1B5_4A32_D192_ED03);
    x ^ (x >> 29)
}

/// Writes record `number` with the timestamp `sent_ns`.
pub fn write(number: u64, sent_ns: u64, record: &mut [u8; RECORD_BYTES]) {
    let mut words = record.as_chunks_mut::<8>().0.iter_mut().enumerate();
    for (at, bytes) in words.by_ref() {
        let value = match at {
            0 => sent_ns,
            1 => number,
            _ => word(number, at),
        };
        *bytes = value.to_le_bytes();
    }
}

/// The sender's stream. Any part of it can be read any number of times; a record keeps the time of its first
/// reading.
#[derive(Debug, Default)]
pub struct Stamped {
    /// The record number of the first of `stamps`.
    first: u64,
    /// The times of first reading; 0 for a record that was not read yet.
    stamps: VecDeque<u64>,
}

impl Stamped {
    /// Fills `buf` with the stream's bytes from `offset` on. Records that are read for the first time get the time
    /// `now_ns`. Returns false when the first reading was too long ago for its time to be kept.
    pub fn read_at(&mut self, now_ns: u64, offset: u64, buf: &mut [u8]) -> bool {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let (number, skip) = (
                at / RECORD_BYTES as u64,
                (at % RECORD_BYTES as u64) as usize,
            );
            let Some(stamp) = self.stamp(now_ns, number) else {
                return false;
            };
            let mut record = [0; RECORD_BYTES];
            write(number, stamp, &mut record);
            let part = &record[skip..];
            let len = part.len().min(buf.len() - done);
            buf[done..done + len].copy_from_slice(&part[..len]);
            done += len;
        }
        true
    }

    fn stamp(&mut self, now_ns: u64, number: u64) -> Option<u64> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        if at >= self.stamps.len() + KEPT {
            // No sender reads that far ahead. Restarting here keeps the memory bounded.
            self.stamps.clear();
            self.first = number;
            self.stamps.push_back(now_ns);
            return Some(now_ns);
        }
        if at >= self.stamps.len() {
            self.stamps.resize(at + 1, 0);
        }
        let stamp = &mut self.stamps[at];
        if *stamp == 0 {
            *stamp = now_ns;
        }
        let stamp = *stamp;
        while self.stamps.len() > KEPT {
            self.stamps.pop_front();
            self.first += 1;
        }
        Some(stamp)
    }
}

/// A record that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// The number in the stream.
    pub number: u64,
    /// The time of the first sending.
    pub sent_ns: u64,
    /// The time at which it could be read.
    pub received_ns: u64,
}

/// The receiver's end of the stream: takes bytes in order, returns records, and counts damaged ones.
#[derive(Debug)]
pub struct Checker {
    part: Vec<u8>,
    number: u64,
    damaged: u64,
}

impl Default for Checker {
    fn default() -> Self {
        Self {
            part: Vec::with_capacity(RECORD_BYTES),
            number: 0,
            damaged: 0,
        }
    }
}

impl Checker {
    /// Takes the next bytes, which could be read at `now_ns`, and calls `each` for every whole and undamaged
    /// record.
    pub fn take(&mut self, now_ns: u64, mut bytes: &[u8], mut each: impl FnMut(Arrived)) {
        while !bytes.is_empty() {
            let need = RECORD_BYTES - self.part.len();
            let (head, rest) = bytes.split_at(need.min(bytes.len()));
            bytes = rest;
            self.part.extend_from_slice(head);
            let Ok(record) = <&[u8; RECORD_BYTES]>::try_from(self.part.as_slice()) else {
                return;
            };
            match check(self.number, record) {
                Some(sent_ns) => each(Arrived {
                    number: self.number,
                    sent_ns,
                    received_ns: now_ns,
                }),
                None => self.damaged += 1,
            }
            self.number += 1;
            self.part.clear();
        }
    }

    /// Returns the number of whole records, with damaged ones.
    pub const fn records(&self) -> u64 {
        self.number
    }

    /// Returns the number of records that differ from what was sent.
    pub const fn damaged(&self) -> u64 {
        self.damaged
    }
}

/// Returns when `record` was sent, or `None` if it is not record `number`.
fn check(number: u64, record: &[u8; RECORD_BYTES]) -> Option<u64> {
    let words = record.as_chunks::<8>().0;
    let sent_ns = u64::from_le_bytes(words[0]);
    let good = u64::from_le_bytes(words[1]) == number
        && words
            .iter()
            .enumerate()
            .skip(2)
            .all(|(at, bytes)| u64::from_le_bytes(*bytes) == word(number, at));
    good.then_some(sent_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_cut_gives_every_record_once(cuts in prop::collection::vec(1usize..4000, 1..40)) {
            let mut sender = Stamped::default();
            let mut checker = Checker::default();
            let (mut offset, mut seen) = (0u64, Vec::new());
            for (now, len) in cuts.iter().enumerate() {
                let mut buf = vec![0; *len];
                prop_assert!(sender.read_at(now as u64 + 1, offset, &mut buf));
                offset += *len as u64;
                checker.take(now as u64 + 1000, &buf, |arrived| seen.push(arrived));
            }
            prop_assert_eq!(seen.len() as u64, offset / RECORD_BYTES as u64);
            prop_assert_eq!(checker.damaged(), 0);
            for (number, arrived) in seen.iter().enumerate() {
                prop_assert_eq!(arrived.number, number as u64);
                prop_assert!(arrived.sent_ns < arrived.received_ns);
            }
        }

        #[test]
        fn any_changed_bit_is_found(bit in 64usize..RECORD_BYTES * 8) {
            let mut record = [0; RECORD_BYTES];
            write(0, 7, &mut record);
            record[bit / 8] ^= 1 << (bit % 8);
            let mut checker = Checker::default();
            checker.take(9, &record, |_| ());
            prop_assert_eq!(checker.damaged(), 1);
        }
    }

    #[test]
    fn a_record_keeps_its_first_time() {
        let mut sender = Stamped::default();
        let mut buf = [0; RECORD_BYTES];
        for now in [5, 6] {
            assert!(sender.read_at(now, 0, &mut buf));
            assert_eq!(check(0, &buf), Some(5));
        }
        assert!(sender.read_at(8, RECORD_BYTES as u64 * 3, &mut buf));
        assert_eq!(check(3, &buf), Some(8));
        assert!(sender.read_at(9, RECORD_BYTES as u64, &mut buf));
        assert_eq!(check(1, &buf), Some(9));
    }

    #[test]
    fn memory_is_bounded() {
        let mut sender = Stamped::default();
        let mut buf = [0; 8];
        for number in 0..KEPT as u64 + 10 {
            assert!(sender.read_at(1, number * RECORD_BYTES as u64, &mut buf));
        }
        assert_eq!(sender.stamps.len(), KEPT);
        assert!(!sender.read_at(1, 0, &mut buf));
    }
}
