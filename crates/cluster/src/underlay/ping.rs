//! A request between two machines, and its reply: one datagram each, of equal length.
//!
//! | bytes | content |
//! |---|---|
//! | 4 | `CSTP` |
//! | 1 | version, `3` |
//! | 1 | `0`: a request; `1`: a reply |
//! | 2 | zero |
//! | 8 | nonce of the request, returned in the reply |
//! | 8 | `t2`: when the request arrived, nanoseconds of the replying machine's clock; zero in a request |
//! | 8 | `t3`: when the reply left; zero in a request |
//! | 8 | lead of the replying machine's wall clock over that clock, signed; zero in a request |
//! | 32 | keyed hash (BLAKE3) of all bytes before it |
//!
//! Numbers are big-endian. The key of the hash is that of the replying machine, which others read in the store and which never
//! travels with a ping. Neither a request nor a reply can therefore be forged from the network. The nonce binds a reply to its
//! request. A reply that an attacker delays has a longer round trip, and the error bound of the offset grows by as much. A
//! reply is no longer than its request, so it cannot be used to amplify an attack.

use crate::underlay::seal::Key;

/// Length of the part that the hash covers.
const SAID_BYTES: usize = 40;

/// Length of a request, and of a reply.
pub const PING_BYTES: usize = SAID_BYTES + 32;

/// The first bytes of each.
pub const PING_MARK: [u8; 4] = *b"CSTP";
const VERSION: u8 = 3;

/// A request or a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ping {
    /// A request for the time.
    Question {
        /// A random number of the sender.
        nonce: u64,
    },
    /// A reply with the time.
    Answer {
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
    /// Returns the datagram, authenticated by the key of the replying machine.
    #[must_use]
    pub fn pack(&self, key: &Key) -> [u8; PING_BYTES] {
        let (kind, numbers) = match *self {
            Self::Question { nonce } => (0, [nonce, 0, 0, 0]),
            Self::Answer {
                nonce,
                t2_ns,
                t3_ns,
                wall_ahead_ns,
            } => (1, [nonce, t2_ns, t3_ns, wall_ahead_ns.cast_unsigned()]),
        };
        let mut bytes = [0; PING_BYTES];
        bytes[..4].copy_from_slice(&PING_MARK);
        bytes[4..6].copy_from_slice(&[VERSION, kind]);
        for (place, number) in bytes[8..SAID_BYTES].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        let hash = key.hash(&bytes[..SAID_BYTES]);
        bytes[SAID_BYTES..].copy_from_slice(hash.as_bytes());
        bytes
    }

    /// Parses a datagram. Returns `None` if any bit differs from what [`pack`](Self::pack) would write with this key.
    #[must_use]
    pub fn unpack(datagram: &[u8], key: &Key) -> Option<Self> {
        let bytes: &[u8; PING_BYTES] = datagram.try_into().ok()?;
        if bytes[..4] != PING_MARK || bytes[4] != VERSION || bytes[6..8] != [0; 2] {
            return None;
        }
        let hash: [u8; blake3::OUT_LEN] = bytes[SAID_BYTES..].try_into().ok()?;
        // Hashes are compared in constant time.
        if key.hash(&bytes[..SAID_BYTES]) != hash {
            return None;
        }
        let number = |at: usize| {
            let number = bytes[at..at + 8].iter();
            number.fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let (nonce, t2_ns, t3_ns, ahead) = (number(8), number(16), number(24), number(32));
        match bytes[5] {
            // A request is as long as an answer, so that an attacker cannot use this machine to amplify traffic to a
            // forged address.
            0 if t2_ns == 0 && t3_ns == 0 && ahead == 0 => Some(Self::Question { nonce }),
            1 => Some(Self::Answer {
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

    fn ping(is_answer: bool, [nonce, t2_ns, t3_ns]: [u64; 3], wall_ahead_ns: i64) -> Ping {
        match is_answer {
            true => Ping::Answer {
                nonce,
                t2_ns,
                t3_ns,
                wall_ahead_ns,
            },
            false => Ping::Question { nonce },
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked_with_its_key_only(
            is_answer in any::<bool>(),
            numbers in any::<[u64; 3]>(),
            wall_ahead_ns in any::<i64>(),
            keys in any::<[[u8; 32]; 2]>(),
        ) {
            let ping = ping(is_answer, numbers, wall_ahead_ns);
            let [own, other] = keys.map(Key::new);
            prop_assert_eq!(Ping::unpack(&ping.pack(&own), &own), Some(ping));
            prop_assume!(own != other);
            prop_assert_eq!(Ping::unpack(&ping.pack(&own), &other), None);
        }

        /// No datagram is read but the one that was written: a changed time or nonce needs the key.
        #[test]
        fn nothing_else_is_read(
            is_answer in any::<bool>(),
            numbers in any::<[u64; 3]>(),
            wall_ahead_ns in any::<i64>(),
            changes in prop::collection::vec((0_usize..PING_BYTES, any::<u8>()), 0..4),
            length in 0_usize..2 * PING_BYTES,
        ) {
            let key = Key::new([7; 32]);
            let written = ping(is_answer, numbers, wall_ahead_ns).pack(&key);
            let mut bytes = written.to_vec();
            for (place, byte) in changes {
                bytes[place] = byte;
            }
            prop_assert_eq!(Ping::unpack(&bytes, &key).is_some(), bytes == written);
            if length != PING_BYTES {
                bytes.resize(length, 0);
                prop_assert_eq!(Ping::unpack(&bytes, &key), None);
            }
        }
    }

    /// With the key, too, no two datagrams mean the same.
    #[test]
    fn a_request_has_no_times() {
        let key = Key::new([7; 32]);
        let mut bytes = ping(true, [1, 2, 3], 4).pack(&key);
        bytes[5] = 0;
        let hash = key.hash(&bytes[..SAID_BYTES]);
        bytes[SAID_BYTES..].copy_from_slice(hash.as_bytes());
        assert_eq!(Ping::unpack(&bytes, &key), None);
    }
}
