//! The two kinds of datagrams. All integers are big-endian.

use crate::transfer::record::RECORD_BYTES;

/// The longest datagram, bytes of UDP payload.
pub const MAX_DATAGRAM: usize = HEAD + RECORD_BYTES;

const HEAD: usize = 20;
const DATA: u32 = 0x5649_5644;
const CONFIRM: u32 = 0x5649_5641;
/// The largest number of ranges in a confirmation.
const RANGES: usize = 32;

/// A packet with a piece of the stream: `VIVD`, number (8 bytes), offset (8 bytes), bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    /// The number of the packet, which is never used twice.
    pub number: u64,
    /// The offset in the stream.
    pub offset: u64,
    /// The payload, at least one byte.
    pub bytes: &'a [u8],
}

/// The acknowledgement of received packets: `VIVA`, the number of the packet that is confirmed (8 bytes), the
/// offset up to which the receiver has the whole stream (8 bytes), and ranges of numbers, highest first (first and
/// last, 8 bytes each).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmation {
    /// The number of the packet that has just arrived.
    pub number: u64,
    /// The offset before which the whole stream has arrived.
    pub offset: u64,
    /// The ranges of numbers that have arrived, both ends included.
    pub ranges: Vec<(u64, u64)>,
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

fn is(bytes: &[u8], kind: u32) -> bool {
    bytes.get(..4) == Some(&kind.to_be_bytes())
}

impl<'a> Data<'a> {
    /// Parses a data packet; `None` if it is not valid.
    pub fn read(datagram: &'a [u8]) -> Option<Self> {
        let bytes = datagram.get(HEAD..).filter(|b| !b.is_empty())?;
        let offset = number(datagram, 12)?;
        offset.checked_add(bytes.len() as u64)?;
        is(datagram, DATA).then_some(Self {
            number: number(datagram, 4)?,
            offset,
            bytes,
        })
    }

    /// Writes the header of a data packet; the payload must follow.
    pub fn write_head(number: u64, offset: u64, out: &mut Vec<u8>) {
        out.extend(DATA.to_be_bytes());
        out.extend(number.to_be_bytes());
        out.extend(offset.to_be_bytes());
    }
}

impl Confirmation {
    /// Parses a confirmation; `None` if it is not valid or its ranges are not in order.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let pairs = datagram.get(HEAD..)?;
        if !is(datagram, CONFIRM) || pairs.len() % 16 != 0 || pairs.len() > RANGES * 16 {
            return None;
        }
        let mut ranges = Vec::with_capacity(pairs.len() / 16);
        let mut below = None;
        for at in (0..pairs.len()).step_by(16) {
            let (first, last) = (number(pairs, at)?, number(pairs, at + 8)?);
            if first > last || below.is_some_and(|below| last >= below) {
                return None;
            }
            below = Some(first);
            ranges.push((first, last));
        }
        Some(Self {
            number: number(datagram, 4)?,
            offset: number(datagram, 12)?,
            ranges,
        })
    }

    /// Writes a confirmation.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(CONFIRM.to_be_bytes());
        out.extend(self.number.to_be_bytes());
        out.extend(self.offset.to_be_bytes());
        for (first, last) in self.ranges.iter().take(RANGES) {
            out.extend(first.to_be_bytes());
            out.extend(last.to_be_bytes());
        }
    }
}
