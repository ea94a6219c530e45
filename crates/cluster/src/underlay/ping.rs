//! A request between two machines, and its reply: one datagram each, of equal length.
//!
//! | bytes | content |
//! |---|---|
//! | 4 | `CSTP` |
//! | 1 | version, `2` |
//! | 1 | `0`: a request; `1`: a reply |
//! | 2 | zero |
//! | 8 | key: the number that the receiver of the request has put into the store; requests with another key get no reply |
//! | 8 | nonce of the request, returned in the reply |
//! | 8 | `t2`: when the request arrived, nanoseconds of the replying machine's clock; zero in a request |
//! | 8 | `t3`: when the reply left; zero in a request |
//! | 8 | lead of the replying machine's wall clock over that clock, signed; zero in a request |
//!
//! Numbers are big-endian. A reply is no longer than its request, so it cannot be used to amplify an attack.

/// Length of a request, and of a reply.
pub const PING_BYTES: usize = 48;

/// The first bytes of each.
pub const PING_MARK: [u8; 4] = *b"CSTP";
const VERSION: u8 = 2;

/// A request or a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ping {
    /// A request for the time.
    Question {
        /// The key of the receiver of the request.
        key: u64,
        /// A random number of the sender.
        nonce: u64,
    },
    /// A reply with the time.
    Answer {
        /// The key of the replying machine.
        key: u64,
        /// The nonce of the request.
        nonce: u64,
        /// The time when the request arrived, nanoseconds of the replying machine's clock.
        t2_ns: u64,
        /// The time when the reply left, by the same clock.
        t3_ns: u64,
        /// The replying machine's wall clock minus that clock, nanoseconds.
        wall_ahead_ns: i64,
    },
}

impl Ping {
    /// Returns the datagram.
    #[must_use]
    pub fn pack(&self) -> [u8; PING_BYTES] {
        let (kind, numbers) = match *self {
            Self::Question { key, nonce } => (0, [key, nonce, 0, 0, 0]),
            Self::Answer {
                key,
                nonce,
                t2_ns,
                t3_ns,
                wall_ahead_ns,
            } => (1, [key, nonce, t2_ns, t3_ns, wall_ahead_ns.cast_unsigned()]),
        };
        let mut bytes = [0; PING_BYTES];
        bytes[..4].copy_from_slice(&PING_MARK);
        bytes[4..6].copy_from_slice(&[VERSION, kind]);
        for (place, number) in bytes[8..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// Parses a datagram. Returns `None` if any bit differs from what [`pack`](Self::pack) would write.
    #[must_use]
    pub fn unpack(datagram: &[u8]) -> Option<Self> {
        let bytes: &[u8; PING_BYTES] = datagram.try_into().ok()?;
        if bytes[..4] != PING_MARK || bytes[4] != VERSION || bytes[6..8] != [0; 2] {
            return None;
        }
        let number = |at: usize| {
            let number = bytes[at..at + 8].iter();
            number.fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let (key, nonce, t2_ns, t3_ns) = (number(8), number(16), number(24), number(32));
        let ahead = number(40);
        match bytes[5] {
            // A request is as long as an answer, so that an attacker cannot use this machine to amplify traffic to a
            // forged address.
            0 if t2_ns == 0 && t3_ns == 0 && ahead == 0 => Some(Self::Question { key, nonce }),
            1 => Some(Self::Answer {
                key,
                nonce,
                t2_ns,
                t3_ns,
                wall_ahead_ns: ahead.cast_signed(),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(numbers in any::<[u64; 4]>(), wall_ahead_ns in any::<i64>()) {
            let [key, nonce, t2_ns, t3_ns] = numbers;
            for ping in [Ping::Question { key, nonce }, Ping::Answer { key, nonce, t2_ns, t3_ns, wall_ahead_ns }] {
                prop_assert_eq!(Ping::unpack(&ping.pack()), Some(ping));
            }
        }

        /// Each accepted datagram equals the encoding of its content, so no two datagrams mean the same.
        #[test]
        fn nothing_else_is_read(
            numbers in any::<[u64; 4]>(),
            wall_ahead_ns in any::<i64>(),
            is_answer in any::<bool>(),
            changes in prop::collection::vec((0_usize..PING_BYTES, any::<u8>()), 0..4),
            length in 0_usize..80,
        ) {
            let [key, nonce, t2_ns, t3_ns] = numbers;
            let ping = match is_answer {
                true => Ping::Answer { key, nonce, t2_ns, t3_ns, wall_ahead_ns },
                false => Ping::Question { key, nonce },
            };
            let mut bytes = ping.pack().to_vec();
            for (place, byte) in changes {
                bytes[place] = byte;
            }
            if length < 60 {
                if let Some(read) = Ping::unpack(&bytes) {
                    prop_assert_eq!(read.pack().to_vec(), bytes);
                }
            } else {
                bytes.resize(length, 0);
                prop_assert_eq!(Ping::unpack(&bytes), None);
            }
        }
    }
}
