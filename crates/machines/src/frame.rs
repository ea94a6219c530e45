//! A frame on its way from one machine to another: VXLAN (RFC 7348) in UDP, with what the other side must know behind it.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | VXLAN: flags `08`, 24 bits of the lab's number |
//! | n | the Ethernet frame, as the node sent it |
//! | 32 | trailer: from port, to port, sequence number, token (4 each), departure (8), `1`, zero, zero, zero, `CSTL` |
//!
//! Any tool that knows VXLAN shows the frame; the trailer is to it what padding behind a short frame is. Numbers are
//! big-endian. The departure is when the frame has passed all of its edge's stages and is due in the far node, in
//! nanoseconds of the lab's clock: the receiver waits until then, so that the way between the machines is not added.

use constel_link::PortId;

/// Bytes around a frame.
pub const OVERHEAD_BYTES: usize = HEAD_BYTES + TRAILER_BYTES;

const HEAD_BYTES: usize = 8;
const TRAILER_BYTES: usize = 32;
const VERSION: u8 = 1;
const MARK: [u8; 4] = *b"CSTL";
/// An Ethernet header.
const LEAST_FRAME_BYTES: usize = 14;

/// What a frame is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// The lab's number; 24 bits of it.
    pub lab: u32,
    /// The port that sent it.
    pub from: PortId,
    /// The port that it is for.
    pub to: PortId,
    /// Frames from the one machine to the other are numbered through.
    pub sequence: u32,
    /// By which right the sending machine sends for the node; grows with each owner.
    pub token: u32,
    /// When it is due in the far node, nanoseconds of the lab's clock.
    pub due_ns: u64,
}

/// Why bytes are no frame of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotOurs {
    /// Fewer bytes than the smallest has.
    #[error("too short")]
    Short,
    /// Not VXLAN, or bits that must be zero are not.
    #[error("not VXLAN")]
    Head,
    /// Without our trailer: another program's VXLAN.
    #[error("no trailer of ours")]
    Trailer,
    /// The other machine has another version of the trailer.
    #[error("version {0} of the trailer; ours is {VERSION}")]
    Version(u8),
}

/// Writes the datagram of a frame into `out`, in place of what was there.
pub fn pack(label: &Label, frame: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend([8, 0, 0, 0]);
    out.extend((label.lab << 8).to_be_bytes());
    out.extend(frame);
    for number in [label.from.0, label.to.0, label.sequence, label.token] {
        out.extend(number.to_be_bytes());
    }
    out.extend(label.due_ns.to_be_bytes());
    out.extend([VERSION, 0, 0, 0]);
    out.extend(MARK);
}

/// The frame in a datagram, and what it is told of.
///
/// # Errors
/// When it is none of ours.
pub fn unpack(datagram: &[u8]) -> Result<(Label, &[u8]), NotOurs> {
    if datagram.len() < OVERHEAD_BYTES + LEAST_FRAME_BYTES {
        return Err(NotOurs::Short);
    }
    let (head, rest) = datagram.split_at(HEAD_BYTES);
    let (frame, trailer) = rest.split_at(rest.len() - TRAILER_BYTES);
    if head[..4] != [8, 0, 0, 0] || head[7] != 0 {
        return Err(NotOurs::Head);
    }
    if trailer[28..] != MARK {
        return Err(NotOurs::Trailer);
    }
    if trailer[24] != VERSION {
        return Err(NotOurs::Version(trailer[24]));
    }
    if trailer[25..28] != [0; 3] {
        return Err(NotOurs::Trailer);
    }
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let short = |at: usize| number(&trailer[at..at + 4]) as u32;
    let label = Label {
        lab: number(&head[4..7]) as u32,
        from: PortId(short(0)),
        to: PortId(short(4)),
        sequence: short(8),
        token: short(12),
        due_ns: number(&trailer[16..24]),
    };
    Ok((label, frame))
}

/// What became of the frames between two machines, told from their numbers alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrivals {
    /// The number after the highest that came.
    next: Option<u32>,
    /// Which of the 64 numbers before it came: the lowest bit is the highest number.
    came: u64,
    /// Frames that came, without copies.
    pub arrived: u64,
    /// Numbers that were skipped and have not come since.
    pub missing: u64,
    /// Frames that came after one with a higher number.
    pub reordered: u64,
    /// Frames that came again, or so late that nobody remembers.
    pub stale: u64,
}

impl Arrivals {
    /// Nothing has come. Numbers before the first that comes are not missed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A frame with this number has come. Whether it is to be delivered: not, if it came before.
    pub fn came(&mut self, sequence: u32) -> bool {
        let next = *self.next.get_or_insert_with(|| {
            // All before the first have come, as far as anybody is concerned.
            self.came = u64::MAX;
            sequence
        });
        // Numbers wrap round: what is less than half a round ahead is ahead.
        let ahead = sequence.wrapping_sub(next);
        if ahead < 1 << 31 {
            let skipped = u64::from(ahead);
            self.came = if skipped < 63 {
                self.came << (skipped + 1) | 1
            } else {
                1
            };
            self.missing += skipped;
            self.next = Some(sequence.wrapping_add(1));
            self.arrived += 1;
            return true;
        }
        let behind = next.wrapping_sub(sequence) - 1;
        if behind >= 64 || self.came >> behind & 1 == 1 {
            self.stale += 1;
            return false;
        }
        self.came |= 1 << behind;
        self.missing -= 1;
        self.reordered += 1;
        self.arrived += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_are_where_the_table_says() {
        let label = Label {
            lab: 0xa0b0c0,
            from: PortId(1),
            to: PortId(2),
            sequence: 3,
            token: 4,
            due_ns: 5,
        };
        let mut out = vec![9; 3];
        pack(&label, &[0xee; 14], &mut out);
        assert_eq!(out[..8], [8, 0, 0, 0, 0xa0, 0xb0, 0xc0, 0]);
        assert_eq!(out[8..22], [0xee; 14]);
        let trailer = [
            0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 1, 0, 0, 0,
        ];
        assert_eq!(out[22..50], trailer);
        assert_eq!(&out[50..], b"CSTL");
        assert_eq!(out.len(), 14 + OVERHEAD_BYTES);
        assert_eq!(unpack(&out[..53]), Err(NotOurs::Short));
        for (place, error) in [
            (0, NotOurs::Head),
            (7, NotOurs::Head),
            (50, NotOurs::Trailer),
            (46, NotOurs::Version(9)),
        ] {
            let mut wrong = out.clone();
            wrong[place] = 9;
            assert_eq!(unpack(&wrong), Err(error), "{place}");
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            lab in 0_u32..1 << 24,
            numbers in any::<[u32; 4]>(),
            due_ns in any::<u64>(),
            frame in prop::collection::vec(any::<u8>(), 14..2_000),
        ) {
            let [from, to, sequence, token] = numbers;
            let label = Label { lab, from: PortId(from), to: PortId(to), sequence, token, due_ns };
            let mut out = Vec::new();
            pack(&label, &frame, &mut out);
            prop_assert_eq!(unpack(&out), Ok((label, frame.as_slice())));
        }

        #[test]
        fn no_datagram_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack(&bytes);
        }

        /// Against one that remembers everything: numbers that wrap round, lost, doubled and displaced by less than 64.
        #[test]
        fn losses_and_disorder_are_told_from_numbers(
            first in any::<u32>(),
            fates in prop::collection::vec((0_u32..60, 0_u8..10), 1..400),
        ) {
            let mut arrivals: Vec<(u32, u32)> = Vec::new();
            for (number, (displaced, fate)) in (0_u32..).zip(&fates) {
                let late = if *fate == 1 { *displaced } else { 0 };
                let copies = match fate { 0 => 0, 2 => 2, _ => 1 };
                arrivals.extend((0..copies).map(|_| (number + late, number)));
            }
            arrivals.sort_by_key(|(at, _)| *at);
            let numbers: Vec<u32> = arrivals.into_iter().map(|(_, number)| number).collect();
            let Some(begins) = numbers.first().copied() else { return Ok(()) };
            let (mut seen, mut told) = (BTreeSet::new(), Arrivals::new());
            let (mut reordered, mut stale) = (0, 0);
            for number in numbers {
                let is_before = number < begins;
                let is_new = !is_before && !seen.contains(&number);
                let highest = seen.last().copied();
                prop_assert_eq!(told.came(first.wrapping_add(number)), is_new);
                if is_new {
                    reordered += u64::from(highest.is_some_and(|highest| number < highest));
                    seen.insert(number);
                } else {
                    stale += 1;
                }
            }
            let range = u64::from(seen.last().unwrap() - begins) + 1;
            prop_assert_eq!(told.arrived, seen.len() as u64);
            prop_assert_eq!(told.missing, range - seen.len() as u64);
            prop_assert_eq!((told.reordered, told.stale), (reordered, stale));
        }
    }
}
