//! The two kinds of datagrams. All integers are big-endian.

use crate::record::RECORD_BYTES;

/// Longest datagram, UDP payload.
pub const MAX_DATAGRAM: usize = HEAD + RECORD_BYTES;

const HEAD: usize = 20;
const DATA: u32 = 0x5649_5644;
const CONFIRM: u32 = 0x5649_5641;
/// Ranges of numbers in a confirmation, at most.
const RANGES: usize = 32;

/// A packet with a piece of the stream: `VIVD`, number (8 bytes), offset (8 bytes), bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    /// Of the packet; never used twice.
    pub number: u64,
    /// In the stream.
    pub offset: u64,
    /// At least one.
    pub bytes: &'a [u8],
}

/// What has arrived: `VIVA`, number of the packet that is confirmed (8 bytes), the stream up to where the receiver
/// has all (8 bytes), ranges of numbers, highest first (first and last, 8 bytes each).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmation {
    /// The packet that has just come.
    pub number: u64,
    /// All of the stream before this has come.
    pub offset: u64,
    /// Numbers that have come, both ends included.
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
    /// Reads one.
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

    /// Writes the head of one; the bytes follow.
    pub fn write_head(number: u64, offset: u64, out: &mut Vec<u8>) {
        out.extend(DATA.to_be_bytes());
        out.extend(number.to_be_bytes());
        out.extend(offset.to_be_bytes());
    }
}

impl Confirmation {
    /// Reads one. Ranges are in order, or it is none.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let pairs = datagram.get(HEAD..)?;
        if !is(datagram, CONFIRM) || pairs.len() % 16 != 0 || pairs.len() > RANGES * 16 {
            return None;
        }
        let mut ranges = Vec::with_capacity(pairs.len() / 16);
        let mut below = u64::MAX;
        for at in (0..pairs.len()).step_by(16) {
            let (first, last) = (number(pairs, at)?, number(pairs, at + 8)?);
            if first > last || last >= below {
                return None;
            }
            below = first;
            ranges.push((first, last));
        }
        Some(Self {
            number: number(datagram, 4)?,
            offset: number(datagram, 12)?,
            ranges,
        })
    }

    /// Writes one.
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
