//! A flow's metadata record: its length and the digest of its bytes.
//!
//! The record is fetched like any other bytes of the flow, at
//! [`META_BASE`](crate::wire::META_BASE), so that loss repair and caches work for it unchanged.

/// Bytes of the record.
pub const META_LEN: u64 = 64;
const MAGIC: &[u8; 4] = b"LTM1";

/// How the flow's bytes are protected beyond the digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sealing {
    /// No protection: the digest finds faults, not attackers.
    Open,
    /// Records sealed with an AEAD; the flow's key is derived from the salt. See `leotp::seal`.
    Sealed([u8; 16]),
}

/// Length and digest of a finished flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Bytes of the flow as transferred.
    pub length: u64,
    /// BLAKE3 of these bytes.
    pub digest: [u8; 32],
    /// Whether the bytes are sealed records, and with which salt.
    pub sealing: Sealing,
}

impl Meta {
    /// Returns the record's bytes.
    pub fn encode(&self) -> [u8; META_LEN as usize] {
        let mut b = [0; META_LEN as usize];
        b[..4].copy_from_slice(MAGIC);
        b[8..16].copy_from_slice(&self.length.to_be_bytes());
        b[16..48].copy_from_slice(&self.digest);
        if let Sealing::Sealed(salt) = self.sealing {
            b[4] = 1;
            b[48..].copy_from_slice(&salt);
        }
        b
    }

    /// Parses a record; `None` when it is not one.
    pub fn decode(b: &[u8]) -> Option<Self> {
        let b: &[u8; META_LEN as usize] = b.try_into().ok()?;
        // Reserved bytes must be zero, so that they can have a meaning later.
        if &b[..4] != MAGIC || b[5..8] != [0; 3] {
            return None;
        }
        let salt: [u8; 16] = b[48..].try_into().ok()?;
        let sealing = match b[4] {
            // An open flow has no salt: each record has a single encoding.
            0 if salt == [0; 16] => Sealing::Open,
            1 => Sealing::Sealed(salt),
            _ => return None,
        };
        let length = u64::from_be_bytes(b[8..16].try_into().ok()?);
        (length <= crate::wire::META_BASE).then_some(Self {
            length,
            digest: b[16..48].try_into().ok()?,
            sealing,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_refusal() {
        for sealing in [Sealing::Open, Sealing::Sealed([7; 16])] {
            let m = Meta {
                length: 1 << 40,
                digest: [9; 32],
                sealing,
            };
            assert_eq!(Meta::decode(&m.encode()), Some(m));
            for i in [0, 5, 8] {
                let mut b = m.encode();
                b[i] ^= 0x80;
                assert_eq!(Meta::decode(&b), None, "byte {i}");
            }
        }
        assert_eq!(Meta::decode(&[]), None);
    }
}
