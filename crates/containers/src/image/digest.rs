//! Digests: the names of content.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Digest as _;
use sha2::Sha256;

use crate::image::error::Fault;

/// The SHA-256 digest of content. Its text is `sha256:` and 64 lower-case hexadecimal digits.
///
/// ```
/// use constel_containers::image::Digest;
///
/// let empty = Digest::of(b"");
/// assert!(empty.to_string().starts_with("sha256:e3b0c442"));
/// assert_eq!(empty.to_string().parse::<Digest>().unwrap(), empty);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of bytes in memory.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the first twelve digits, for output.
    #[must_use]
    pub fn short(&self) -> String {
        self.hex()[..12].to_owned()
    }

    /// Returns the name of a file or folder of this content: `sha256-` and the digits.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("sha256-{}", self.hex())
    }

    /// Parses a [file name](Self::file_name).
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        name.strip_prefix("sha256-").and_then(from_hex).map(Self)
    }
}

fn from_hex(hex: &str) -> Option<[u8; 32]> {
    let digits = hex.as_bytes();
    let lower = |d: &u8| d.is_ascii_digit() || (b'a'..=b'f').contains(d);
    if digits.len() != 64 || !digits.iter().all(lower) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&hex[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let hex = text.strip_prefix("sha256:").and_then(from_hex);
        hex.map(Self)
            .ok_or_else(|| Fault::BadDigest(crate::image::error::shown(text.as_bytes())))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Counts and digests the bytes that are read through it.
pub(crate) struct Digesting<R> {
    inner: R,
    hasher: Sha256,
    bytes: u64,
}

impl<R: Read> Digesting<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner,
            hasher: Sha256::new(),
            bytes: 0,
        }
    }

    /// Returns the number of bytes that were read so far.
    pub(crate) fn count(&self) -> u64 {
        self.bytes
    }

    /// Returns the underlying reader, and the digest and number of all bytes that were read.
    pub(crate) fn finish(self) -> (R, Digest, u64) {
        (
            self.inner,
            Digest(self.hasher.finalize().into()),
            self.bytes,
        )
    }
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(into)?;
        self.hasher.update(&into[..n]);
        self.bytes += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_spelling_is_a_digest() {
        let good = Digest::of(b"x");
        assert_eq!(Digest::from_file_name(&good.file_name()), Some(good));
        let upper = good.to_string().to_uppercase();
        let long = format!("{good}0");
        for bad in ["", "sha256:", "sha512:00", "sha256:../x", &upper, &long] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
        let signed = format!("sha256:{}", "+1".repeat(32));
        assert!(signed.parse::<Digest>().is_err());
    }
}
