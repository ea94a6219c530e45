//! A frame between machines: VXLAN (RFC 7348) in UDP, followed by data for the receiver.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | VXLAN: flags `08`, 24 bits of the lab's number |
//! | n | the Ethernet frame, as the node sent it |
//! | 36 | trailer: from port, to port, sequence number, token, session (4 each), departure (8), `1`, zero (1: sealed, see [`Cipher`](crate::underlay::Cipher)), zero, zero, `CSTL` |
//!
//! Any tool that understands VXLAN shows the frame, and treats the trailer like padding behind a short frame. Numbers are
//! big-endian. The departure is when the frame has passed all of its edge's stages and is due in the far node, in
//! nanoseconds of the lab's clock. The receiver waits until then, so the delay between the machines is not added.

use constel_link::PortId;

/// Number of bytes around a frame.
pub const OVERHEAD_BYTES: usize = HEAD_BYTES + TRAILER_BYTES;

pub(crate) const HEAD_BYTES: usize = 8;
pub(crate) const TRAILER_BYTES: usize = 36;
/// The bytes around a frame.
pub(crate) type Around = [u8; OVERHEAD_BYTES];
/// Index of the trailer's byte that marks an encrypted frame.
pub(crate) const SEALED: usize = 29;
const VERSION: u8 = 1;
const MARK: [u8; 4] = *b"CSTL";
/// Length of an Ethernet header.
const LEAST_FRAME_BYTES: usize = 14;

/// The data that accompanies a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// Number of the lab. 24 bits are used.
    pub lab: u32,
    /// Source port.
    pub from: PortId,
    /// Destination port.
    pub to: PortId,
    /// Sequence number of frames from one machine to the other, from 0 in each session.
    pub sequence: u32,
    /// The token that gives the machine the right to send for the node. It increases with each owner.
    pub token: u32,
    /// The run of the lab. All machines have the same.
    pub session: u32,
    /// The instant at which it is due in the far node, nanoseconds of the lab's clock.
    pub due_ns: u64,
}

/// The reason why bytes are not a frame of Constel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Shorter than the smallest frame.
    #[error("too short")]
    Short,
    /// Not VXLAN, or bits that must be zero are set.
    #[error("not VXLAN")]
    Head,
    /// No trailer of Constel: VXLAN of another program.
    #[error("no trailer of ours")]
    Trailer,
    /// The other machine uses another version of the trailer.
    #[error("version {0} of the trailer; ours is {VERSION}")]
    Version(u8),
}

/// Writes the datagram of a frame into `out` and replaces its content.
pub fn pack(label: &Label, frame: &[u8], out: &mut Vec<u8>) {
    out.clear();
    // The header of VXLAN (RFC 7348): the flag of a valid network identifier, which is the number of the lab.
    out.extend([8, 0, 0, 0]);
    out.extend((label.lab << 8).to_be_bytes());
    out.extend(frame);
    for number in [
        label.from.0,
        label.to.0,
        label.sequence,
        label.token,
        label.session,
    ] {
        out.extend(number.to_be_bytes());
    }
    out.extend(label.due_ns.to_be_bytes());
    out.extend([VERSION, 0, 0, 0]);
    out.extend(MARK);
}

/// Returns the frame in a datagram, and its label.
///
/// # Errors
/// If it is not a frame of Constel.
pub fn unpack(datagram: &[u8]) -> Result<(Label, &[u8]), FrameError> {
    if datagram.len() < OVERHEAD_BYTES + LEAST_FRAME_BYTES {
        return Err(FrameError::Short);
    }
    let (head, rest) = datagram.split_at(HEAD_BYTES);
    let (frame, trailer) = rest.split_at(rest.len() - TRAILER_BYTES);
    if head[..4] != [8, 0, 0, 0] || head[7] != 0 {
        return Err(FrameError::Head);
    }
    if trailer[32..] != MARK {
        return Err(FrameError::Trailer);
    }
    if trailer[28] != VERSION {
        return Err(FrameError::Version(trailer[28]));
    }
    // An encrypted frame also ends here if no cipher has opened it and cleared the byte.
    if trailer[29..32] != [0; 3] {
        return Err(FrameError::Trailer);
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
        session: short(16),
        due_ns: number(&trailer[20..28]),
    };
    Ok((label, frame))
}

#[cfg(test)]
mod tests {
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
            session: 6,
            due_ns: 5,
        };
        let mut out = vec![9; 3];
        pack(&label, &[0xee; 14], &mut out);
        assert_eq!(out[..8], [8, 0, 0, 0, 0xa0, 0xb0, 0xc0, 0]);
        assert_eq!(out[8..22], [0xee; 14]);
        let trailer = [
            0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 5, 1,
            0, 0, 0,
        ];
        assert_eq!(out[22..54], trailer);
        assert_eq!(&out[54..], b"CSTL");
        assert_eq!(out.len(), 14 + OVERHEAD_BYTES);
        assert_eq!(unpack(&out[..57]), Err(FrameError::Short));
        for (place, error) in [
            (0, FrameError::Head),
            (7, FrameError::Head),
            (54, FrameError::Trailer),
            (51, FrameError::Trailer),
            (50, FrameError::Version(9)),
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
            numbers in any::<[u32; 5]>(),
            due_ns in any::<u64>(),
            frame in prop::collection::vec(any::<u8>(), 14..2_000),
        ) {
            let [from, to, sequence, token, session] = numbers;
            let label = Label { lab, from: PortId(from), to: PortId(to), sequence, token, session, due_ns };
            let mut out = Vec::new();
            pack(&label, &frame, &mut out);
            prop_assert_eq!(unpack(&out), Ok((label, frame.as_slice())));
        }

        #[test]
        fn no_datagram_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack(&bytes);
        }

        /// Takes a valid frame with some bytes changed, or with another length. The result is refused, or equals the
        /// encoding of its content.
        #[test]
        fn what_is_damaged_is_refused_or_means_what_it_says(
            numbers in any::<[u32; 5]>(),
            frame in prop::collection::vec(any::<u8>(), 14..80),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
            cut in 0_usize..4,
            grown in 0_usize..4,
        ) {
            let [from, to, sequence, token, session] = numbers;
            let label = Label {
                lab: from & 0x00ff_ffff, from: PortId(from), to: PortId(to), sequence, token, session, due_ns: u64::from(to),
            };
            let mut bytes = Vec::new();
            pack(&label, &frame, &mut bytes);
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            bytes.truncate(bytes.len() - cut);
            bytes.resize(bytes.len() + grown, 0);
            if let Ok((read, frame)) = unpack(&bytes) {
                let mut again = Vec::new();
                pack(&read, frame, &mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
