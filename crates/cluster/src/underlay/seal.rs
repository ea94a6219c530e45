//! Authenticated encryption of the datagrams between machines: ChaCha20-Poly1305 (RFC 8439).
//!
//! The frame is encrypted, and a tag of 16 bytes follows it. The head and the trailer around them stay readable, are covered
//! by the tag, and mark the frame as encrypted. Each machine has a separate key towards each other one, derived from the
//! lab's key. A nonce is the departure and the sequence number. Sequence numbers repeat after 2^32 frames, which is hours
//! later, when the departure is another one. A recorded datagram that is sent again counts as a copy, as without encryption.

use std::fmt;

use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Nonce, Tag};
use serde::{Deserialize, Serialize};

use crate::underlay::frame::{Around, HEAD_BYTES, SEALED, TRAILER_BYTES};

/// Number of bytes that encryption adds to a datagram.
pub const TAG_BYTES: usize = 16;

const KEY_BYTES: usize = 32;

/// A secret key that machines share: that of a lab for its frames, or that of a machine for pings and
/// requests. In JSON it has 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// Creates a key from random bytes, which must not be used for anything else.
    #[must_use]
    pub const fn new(random: [u8; KEY_BYTES]) -> Self {
        Self(random)
    }

    /// Returns the keyed hash of some bytes.
    pub(super) fn hash(&self, bytes: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(&self.0, bytes)
    }

    /// Returns a key for another purpose, which `context` names.
    pub(crate) fn derive(&self, context: &str) -> [u8; KEY_BYTES] {
        blake3::derive_key(context, &self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for Key {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const WRONG: &str = "a key is 64 digits of hexadecimal";
        let digits = |at: usize| text.get(2 * at..2 * at + 2);
        if text.len() != 2 * KEY_BYTES || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(WRONG);
        }
        let mut key = [0; KEY_BYTES];
        for (at, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(digits(at).ok_or(WRONG)?, 16).map_err(|_| WRONG)?;
        }
        Ok(Self(key))
    }
}

/// Encrypts the frames from one machine to another, or decrypts them there.
#[derive(Clone)]
pub struct Cipher(ChaCha20Poly1305);

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher")
    }
}

impl Cipher {
    /// Creates the cipher for frames from machine number `from` to machine `to`, in this run of the lab.
    #[must_use]
    pub fn new(key: &Key, from: usize, to: usize, session: u32) -> Self {
        // A key of its own for each direction and session: sequence numbers begin at zero in each, and a nonce must not
        // repeat under one key.
        let mut own = blake3::Hasher::new_derive_key("constel frames between machines");
        own.update(&key.0);
        own.update(&(from as u64).to_be_bytes());
        own.update(&(to as u64).to_be_bytes());
        own.update(&session.to_be_bytes());
        Self(ChaCha20Poly1305::new(own.finalize().as_bytes().into()))
    }

    /// Encrypts a datagram that [`pack`](crate::underlay::pack) wrote.
    pub fn seal(&self, datagram: &mut Vec<u8>) {
        let trailer_at = datagram.len() - TRAILER_BYTES;
        let mut trailer = [0; TRAILER_BYTES];
        trailer.copy_from_slice(&datagram[trailer_at..]);
        // Set before encryption, so that the flag is authenticated too.
        trailer[SEALED] = 1;
        datagram.truncate(trailer_at);
        let (head, frame) = datagram.split_at_mut(HEAD_BYTES);
        let around = around(head, &trailer);
        let nonce = nonce(&trailer);
        // The cipher refuses only messages of more than 256 GiB.
        let tag = self.0.encrypt_in_place_detached(&nonce, &around, frame);
        datagram.extend(tag.unwrap_or_default());
        datagram.extend(trailer);
    }

    /// Decrypts a datagram. It then equals the output of [`pack`](crate::underlay::pack) and has the returned length. Returns `None`
    /// if it is not encrypted, or not with this key; its content is then useless.
    #[must_use]
    pub fn open(&self, datagram: &mut [u8]) -> Option<usize> {
        let trailer_at = datagram.len().checked_sub(TRAILER_BYTES)?;
        let tag_at = trailer_at.checked_sub(TAG_BYTES)?;
        if tag_at < HEAD_BYTES {
            return None;
        }
        let (rest, end) = datagram.split_at_mut(trailer_at);
        let mut trailer = [0; TRAILER_BYTES];
        trailer.copy_from_slice(end);
        if trailer[SEALED] != 1 {
            return None;
        }
        let (rest, tag) = rest.split_at_mut(tag_at);
        let (head, frame) = rest.split_at_mut(HEAD_BYTES);
        let around = around(head, &trailer);
        let tag = Tag::from_slice(tag);
        // Header and trailer stay readable and are authenticated: a changed label makes the tag wrong.
        let opened = self
            .0
            .decrypt_in_place_detached(&nonce(&trailer), &around, frame, tag);
        opened.ok()?;
        trailer[SEALED] = 0;
        let end = tag_at + TRAILER_BYTES;
        datagram[tag_at..end].copy_from_slice(&trailer);
        Some(end)
    }
}

/// Returns the bytes that are not encrypted, but covered by the tag.
fn around(head: &[u8], trailer: &[u8; TRAILER_BYTES]) -> Around {
    let mut around = [0; HEAD_BYTES + TRAILER_BYTES];
    around[..HEAD_BYTES].copy_from_slice(head);
    around[HEAD_BYTES..].copy_from_slice(trailer);
    around
}

/// Returns the nonce: the departure and the sequence number.
fn nonce(trailer: &[u8; TRAILER_BYTES]) -> Nonce {
    let mut nonce = [0; 12];
    // The due time and the sequence number: 96 bits that no two frames of one direction and session share.
    nonce[..8].copy_from_slice(&trailer[20..28]);
    nonce[8..].copy_from_slice(&trailer[8..12]);
    nonce.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::underlay::frame::{FrameError, Label, pack, unpack};
    use constel_link::PortId;
    use proptest::prelude::*;

    fn key(byte: u8) -> Key {
        Key::new([byte; KEY_BYTES])
    }

    fn label(sequence: u32, due_ns: u64) -> Label {
        Label {
            lab: 7,
            from: PortId(1),
            to: PortId(2),
            sequence,
            token: 4,
            session: 6,
            due_ns,
        }
    }

    #[test]
    fn a_key_is_read_as_it_is_written_and_nothing_else() {
        let key = Key::new(std::array::from_fn(|at| at as u8 * 7));
        let text = serde_json::to_string(&key).unwrap();
        assert!(text.starts_with("\"00070e15"), "{text}");
        assert_eq!(serde_json::from_str::<Key>(&text).unwrap(), key);
        for wrong in ["\"00\"", "1", &format!("\"{}\"", "g".repeat(64))] {
            assert!(serde_json::from_str::<Key>(wrong).is_err(), "{wrong}");
        }
        assert_eq!(format!("{key:?}"), "Key");
    }

    #[test]
    fn only_who_it_is_for_opens_it_and_nothing_of_it_is_told() {
        let frame = [0x61; 100];
        let mut plain = Vec::new();
        pack(&label(3, 5), &frame, &mut plain);
        let ways = [(0, 1, 6), (1, 0, 6), (0, 2, 6), (0, 1, 7)];
        let ciphers = ways.map(|(from, to, session)| Cipher::new(&key(1), from, to, session));
        let mut sealed = plain.clone();
        ciphers[0].seal(&mut sealed);
        assert_eq!(sealed.len(), plain.len() + TAG_BYTES);
        assert!(!sealed.windows(4).any(|four| four == [0x61; 4]));
        // A receiver without encryption does not accept it.
        assert_eq!(unpack(&sealed), Err(FrameError::Trailer));
        let other = Cipher::new(&key(2), 0, 1, 6);
        for cipher in ciphers[1..].iter().chain([&other]) {
            assert_eq!(cipher.open(&mut sealed.clone()), None);
        }
        assert_eq!(ciphers[0].open(&mut plain.clone()), None, "not sealed");
        let length = ciphers[0].open(&mut sealed).unwrap();
        assert_eq!(sealed[..length], plain);
        // A frame looks quite different when it is encrypted again.
        let mut again = Vec::new();
        pack(&label(4, 5), &frame, &mut again);
        let mut first = plain;
        for datagram in [&mut again, &mut first] {
            ciphers[0].seal(datagram);
        }
        let same = again.iter().zip(&first).filter(|(a, b)| a == b);
        assert!(same.count() < 60);
    }

    proptest! {
        #[test]
        fn what_is_sealed_is_opened(
            frame in prop::collection::vec(any::<u8>(), 14..2_000),
            sequence in any::<u32>(),
            due_ns in any::<u64>(),
        ) {
            let cipher = Cipher::new(&key(9), 3, 1, 2);
            let mut datagram = Vec::new();
            pack(&label(sequence, due_ns), &frame, &mut datagram);
            let plain = datagram.clone();
            cipher.seal(&mut datagram);
            let length = cipher.open(&mut datagram).unwrap();
            prop_assert_eq!(&datagram[..length], &plain[..]);
        }

        /// Tests any change, cut or extension.
        #[test]
        fn what_is_changed_is_not_opened(
            at in any::<prop::sample::Index>(),
            flip in 1_u8..,
            cut in 0_usize..80,
            grown in 0_usize..20,
        ) {
            let cipher = Cipher::new(&key(9), 3, 1, 2);
            let mut datagram = Vec::new();
            pack(&label(1, 2), &[5; 60], &mut datagram);
            cipher.seal(&mut datagram);
            let mut changed = datagram.clone();
            changed[at.index(datagram.len())] ^= flip;
            prop_assert_eq!(cipher.open(&mut changed), None);
            let mut other = datagram.clone();
            other.truncate(datagram.len() - cut);
            other.resize(other.len() + grown, 0);
            prop_assume!(other != datagram);
            prop_assert_eq!(cipher.open(&mut other), None);
        }

        #[test]
        fn no_datagram_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Cipher::new(&key(9), 3, 1, 2).open(&mut bytes), None);
        }
    }
}
