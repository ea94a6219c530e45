//! Authenticated mode: a flow of sealed records.
//!
//! The flow's bytes are records of 4,096 bytes, the size of a cache block: 4,080
//! of plaintext under ChaCha20-Poly1305 and 16 of tag; the last record is shorter.
//! Midnodes carry and cache them as any other bytes and need no key. A Consumer
//! with the key notices every forged, exchanged, cut or appended record and asks
//! for it again past the caches.
//!
//! The key of a flow is derived from the shared key, the flow id and a new salt for each
//! publication (in the flow's record). Nonces, which are record numbers, therefore never repeat
//! under one key, as long as the published content does not change:
//! [`SealedFile`](crate::rt::SealedFile) serves no part of a file that has changed. The last
//! record is marked as the last (the STREAM construction of Hoang et al.), so a flow cannot be
//! cut short.

#![forbid(unsafe_code)]

use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Nonce, Tag};

/// Bytes of a full record in the flow.
pub const RECORD: u64 = 4096;
/// Bytes of tag per record.
pub const TAG: u64 = 16;
/// Plaintext bytes of a full record.
pub const PLAIN: u64 = RECORD - TAG;

/// Seals and opens the records of one flow.
pub struct FlowCipher(ChaCha20Poly1305);

impl std::fmt::Debug for FlowCipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FlowCipher")
    }
}

fn nonce(record: u64, last: bool) -> Nonce {
    let mut n = [0; 12];
    n[..8].copy_from_slice(&record.to_be_bytes());
    n[11] = u8::from(last);
    n.into()
}

impl FlowCipher {
    /// The cipher of `flow` as published with `salt`, under a shared key.
    pub fn new(key: &[u8; 32], flow: u64, salt: &[u8; 16]) -> Self {
        let mut h = blake3::Hasher::new_derive_key("leotp 1 sealed flow");
        h.update(key).update(&flow.to_be_bytes()).update(salt);
        Self(ChaCha20Poly1305::new(h.finalize().as_bytes().into()))
    }

    /// Seals one record: at most [`PLAIN`] bytes, fewer only in the last.
    pub fn seal(&self, record: u64, last: bool, plain: &[u8]) -> Vec<u8> {
        let mut out = plain.to_vec();
        // The cipher refuses only messages of more than 256 GiB.
        if let Ok(tag) = self
            .0
            .encrypt_in_place_detached(&nonce(record, last), &[], &mut out)
        {
            out.extend_from_slice(&tag);
        }
        out
    }

    /// Opens one record; `None` when it is not the sealed one.
    pub fn open(&self, record: u64, last: bool, sealed: &[u8]) -> Option<Vec<u8>> {
        let at = sealed.len().checked_sub(TAG as usize)?;
        let mut out = sealed[..at].to_vec();
        let tag = Tag::from_slice(&sealed[at..]);
        self.0
            .decrypt_in_place_detached(&nonce(record, last), &[], &mut out, tag)
            .ok()?;
        Some(out)
    }
}

/// Bytes of the flow that seals `plain` bytes. An empty plaintext has one record.
pub const fn sealed_len(plain: u64) -> u64 {
    plain + records(plain) * TAG
}

/// Records of `plain` bytes.
pub const fn records(plain: u64) -> u64 {
    if plain == 0 { 1 } else { plain.div_ceil(PLAIN) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seals_and_refuses() {
        let c = FlowCipher::new(&[1; 32], 7, &[2; 16]);
        let s = c.seal(3, false, b"hello");
        assert_eq!(c.open(3, false, &s).as_deref(), Some(&b"hello"[..]));
        // Another place, another end, another flow, salt or key, a bit, a cut.
        assert_eq!(c.open(4, false, &s), None);
        assert_eq!(c.open(3, true, &s), None);
        for other in [
            FlowCipher::new(&[1; 32], 8, &[2; 16]),
            FlowCipher::new(&[1; 32], 7, &[3; 16]),
            FlowCipher::new(&[0; 32], 7, &[2; 16]),
        ] {
            assert_eq!(other.open(3, false, &s), None);
        }
        for i in 0..s.len() {
            let mut bad = s.clone();
            bad[i] ^= 1;
            assert_eq!(c.open(3, false, &bad), None);
            assert_eq!(c.open(3, false, &s[..i]), None);
        }
    }

    #[test]
    fn lengths() {
        assert_eq!(sealed_len(0), 16);
        assert_eq!(sealed_len(PLAIN), RECORD);
        assert_eq!(sealed_len(PLAIN + 1), RECORD + 17);
    }
}
