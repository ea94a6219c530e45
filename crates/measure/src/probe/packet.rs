//! The format of a datagram: 16 bytes, then zeros up to the requested size. An answer is as long as its request.
//!
//! ```text
//! 0  u32  number of the probe, from 1, modulo 2^32
//! 4  u32  in answers: nanoseconds from its arrival to the answer's departure; 2^32 - 1 (4.29 s): so long or longer
//! 8  u64  in answers: when the probe arrived, CLOCK_MONOTONIC, nanoseconds; in questions 0
//! ```
//! All integers are big-endian. There is no sender field: the two ends have each other's address and port.

/// The length of the header, and so the minimum length of a datagram, bytes.
pub const HEAD: usize = 16;

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The lower half of the probe's number.
    pub seq: u32,
    /// The holding time of the responder, nanoseconds; the maximum value stands for this time or longer.
    pub held_ns: u32,
    /// The instant at which the probe arrived at its destination, `CLOCK_MONOTONIC`, nanoseconds; 0 in a request.
    pub arrived_ns: u64,
}

impl Head {
    /// Writes the header to the start of a datagram of at least [`HEAD`] bytes; a shorter datagram does not change.
    pub fn write(self, datagram: &mut [u8]) {
        let Some(head) = datagram.first_chunk_mut::<HEAD>() else {
            return;
        };
        head[..4].copy_from_slice(&self.seq.to_be_bytes());
        head[4..8].copy_from_slice(&self.held_ns.to_be_bytes());
        head[8..].copy_from_slice(&self.arrived_ns.to_be_bytes());
    }

    /// Returns the header of a datagram; `None` when it is too short to have one.
    #[must_use]
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h, rest @ ..] = *datagram.first_chunk::<HEAD>()?;
        Some(Self {
            seq: u32::from_be_bytes([a, b, c, d]),
            held_ns: u32::from_be_bytes([e, f, g, h]),
            arrived_ns: u64::from_be_bytes(rest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let head = Head {
            seq: 0x0102_0304,
            held_ns: 5,
            arrived_ns: 0x1122_3344_5566_7788,
        };
        let mut datagram = [0; HEAD + 4];
        head.write(&mut datagram);
        assert_eq!(datagram[..4], [1, 2, 3, 4]);
        assert_eq!(Head::read(&datagram), Some(head));
        assert_eq!(Head::read(&datagram[..HEAD - 1]), None);
        let mut short = [7; HEAD - 1];
        head.write(&mut short);
        assert_eq!(short, [7; HEAD - 1]);
    }
}
