//! The receiving end: the stream in order, and a confirmation for each packet.

use std::collections::BTreeMap;

use super::packet::{Confirmation, Data};

/// The number of ranges of packet numbers kept for confirmations; older ranges have been confirmed many times.
const RANGES: usize = 32;
/// The largest number of bytes kept out of order. Packets beyond it are not confirmed, and so are sent again.
const MAX_KEPT: usize = 80 << 20;
/// Bytes that a kept piece takes besides its own: its place in the map, and its allocation. Without them pieces of one byte
/// would take a hundred times the bound.
const PIECE_BYTES: usize = 96;

/// The receiver of a stream.
#[derive(Debug, Default)]
pub struct Receiver {
    /// The ranges of received numbers: first to last, both included.
    ranges: BTreeMap<u64, u64>,
    /// Pieces that wait for earlier ones, by offset.
    kept: BTreeMap<u64, Vec<u8>>,
    kept_bytes: usize,
    offset: u64,
}

impl Receiver {
    /// Returns the offset before which the whole stream has arrived.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes a received packet. `ready` gets the bytes that are next in order. The returned confirmation is to be
    /// sent back.
    pub fn handle(
        &mut self,
        data: &Data<'_>,
        mut ready: impl FnMut(&[u8]),
    ) -> Option<Confirmation> {
        if data.offset > self.offset && self.kept_bytes + taken(data.bytes) > MAX_KEPT {
            return None;
        }
        self.note(data.number);
        self.place(data, &mut ready);
        Some(Confirmation {
            number: data.number,
            offset: self.offset,
            ranges: self.ranges.iter().rev().map(|(a, b)| (*a, *b)).collect(),
        })
    }

    fn note(&mut self, number: u64) {
        if let Some((_, last)) = self.ranges.range(..=number).next_back()
            && *last >= number
        {
            return;
        }
        let (mut first, mut last) = (number, number);
        if let Some((a, b)) = self.ranges.range(..number).next_back()
            && *b + 1 == number
        {
            first = *a;
        }
        if let Some(next) = number.checked_add(1)
            && let Some(b) = self.ranges.remove(&next)
        {
            last = b;
        }
        self.ranges.insert(first, last);
        while self.ranges.len() > RANGES {
            self.ranges.pop_first();
        }
    }

    fn place(&mut self, data: &Data<'_>, ready: &mut impl FnMut(&[u8])) {
        let end = data.offset + data.bytes.len() as u64;
        if end <= self.offset {
            return;
        }
        if data.offset > self.offset {
            let longer = self
                .kept
                .get(&data.offset)
                .is_none_or(|k| k.len() < data.bytes.len());
            if longer {
                let before = self.kept.insert(data.offset, data.bytes.to_vec());
                self.kept_bytes += taken(data.bytes) - before.map_or(0, |b| taken(&b));
            }
            return;
        }
        ready(&data.bytes[(self.offset - data.offset) as usize..]);
        self.offset = end;
        while let Some(first) = self.kept.first_entry()
            && *first.key() <= self.offset
        {
            let (at, bytes) = first.remove_entry();
            self.kept_bytes -= taken(&bytes);
            let end = at + bytes.len() as u64;
            if end > self.offset {
                ready(&bytes[(self.offset - at) as usize..]);
                self.offset = end;
            }
        }
    }
}

/// Returns the memory that a kept piece takes, bytes.
fn taken(piece: &[u8]) -> usize {
    piece.len() + PIECE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender of single bytes with gaps between them: each is kept at its own place.
    #[test]
    fn small_pieces_are_bounded_by_the_memory_that_they_take() {
        let mut receiver = Receiver::default();
        let accepted = (1..).take_while(|number| {
            let data = Data {
                number: *number,
                offset: 2 * number,
                bytes: &[7],
            };
            receiver.handle(&data, |_| ()).is_some()
        });
        assert_eq!(accepted.count(), MAX_KEPT / (1 + PIECE_BYTES));
        // The stream goes on, and the memory is free again.
        let stream = vec![7; 2 * (MAX_KEPT / PIECE_BYTES)];
        let mut ready = 0;
        let whole = Data {
            number: 0,
            offset: 0,
            bytes: &stream,
        };
        assert!(
            receiver
                .handle(&whole, |bytes| ready += bytes.len())
                .is_some()
        );
        assert_eq!((receiver.kept_bytes, receiver.kept.len()), (0, 0));
        assert_eq!(receiver.offset(), ready as u64);
    }
}
