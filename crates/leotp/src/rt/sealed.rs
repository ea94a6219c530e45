//! Sealed flows at the ends: a file sealed while it is served, records opened
//! while they are fetched.

use super::RunError;
use super::publish::open_regular;
use crate::Nanos;
use crate::core::{Available, Consumer, Meta, Sealing, Source};
use crate::seal::{FlowCipher, PLAIN, RECORD, TAG, records, sealed_len};
use crate::wire::Range;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A regular file served as a sealed flow; records are made on request.
///
/// The published content is the file at the time of opening. A part that has changed since is not
/// served: a second text under the same nonce would betray both, and the Consumer would accept a
/// mixture of two files. Changes are detected by the tags, which take 16 bytes of memory for
/// every 4,080 of the file.
#[derive(Debug)]
pub struct SealedFile {
    file: File,
    plain_len: u64,
    cipher: FlowCipher,
    meta: Vec<u8>,
    tags: Vec<[u8; TAG as usize]>,
    /// The record made last: consecutive packets come from one record.
    last: Option<(u64, Vec<u8>)>,
}

impl SealedFile {
    /// Opens the file and computes the digest of its sealed form. `salt` must be
    /// new for every call with the same key and flow id.
    ///
    /// # Errors
    /// The file's; [`io::ErrorKind::InvalidInput`] for anything but a regular file.
    pub fn open(path: &Path, key: &[u8; 32], flow: u64, salt: [u8; 16]) -> io::Result<Self> {
        Self::open_unless(path, key, flow, salt, &|| false)
    }

    /// As [`Self::open`], until `stop` returns true: large files take minutes.
    ///
    /// # Errors
    /// As [`Self::open`]; [`io::ErrorKind::Interrupted`] when it was stopped.
    pub fn open_unless(
        path: &Path,
        key: &[u8; 32],
        flow: u64,
        salt: [u8; 16],
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let file = open_regular(path)?;
        let plain_len = file.metadata()?.len();
        let mut s = Self {
            file,
            plain_len,
            cipher: FlowCipher::new(key, flow, &salt),
            meta: Vec::new(),
            tags: Vec::new(),
            last: None,
        };
        let mut hasher = blake3::Hasher::new();
        for r in 0..records(plain_len) {
            if stop() {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "stopped"));
            }
            let sealed = s.make(r)?;
            hasher.update(&sealed);
            s.tags.extend(tag(&sealed));
        }
        let meta = Meta {
            length: sealed_len(plain_len),
            digest: *hasher.finalize().as_bytes(),
            sealing: Sealing::Sealed(salt),
        };
        s.meta = meta.encode().to_vec();
        Ok(s)
    }

    /// Bytes of the file.
    pub const fn plain_len(&self) -> u64 {
        self.plain_len
    }

    /// Returns the record, if the file still has the published bytes: the tag is a keyed checksum
    /// of its text.
    fn as_published(&self, record: u64) -> Option<Vec<u8>> {
        let sealed = self.make(record).ok()?;
        let published = self.tags.get(usize::try_from(record).ok()?)?;
        (tag(&sealed).as_ref() == Some(published)).then_some(sealed)
    }

    fn make(&self, record: u64) -> io::Result<Vec<u8>> {
        let from = record * PLAIN;
        let mut plain = vec![0; (self.plain_len - from).min(PLAIN) as usize];
        self.file.read_exact_at(&mut plain, from)?;
        Ok(self
            .cipher
            .seal(record, record + 1 == records(self.plain_len), &plain))
    }
}

/// The tag that a sealed record ends with.
fn tag(sealed: &[u8]) -> Option<[u8; TAG as usize]> {
    sealed.last_chunk().copied()
}

impl Source for SealedFile {
    fn available(&self) -> Available {
        Available {
            end: sealed_len(self.plain_len),
            finished: true,
        }
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let record = at / RECORD;
            if self.last.as_ref().is_none_or(|l| l.0 != record) {
                let Some(bytes) = self.as_published(record) else {
                    return false;
                };
                self.last = Some((record, bytes));
            }
            let Some((_, bytes)) = &self.last else {
                return false;
            };
            let Some(rest) = bytes
                .get((at % RECORD) as usize..)
                .filter(|r| !r.is_empty())
            else {
                return false;
            };
            let n = rest.len().min(buf.len() - done);
            buf[done..done + n].copy_from_slice(&rest[..n]);
            done += n;
        }
        true
    }

    fn meta(&self) -> Option<Vec<u8>> {
        Some(self.meta.clone())
    }
}

/// Number of requests for one record before the flow is given up.
const MAX_REFETCH: u32 = 8;

/// Opens the records of a flow in order; a forged one is fetched again past the
/// caches.
#[derive(Debug)]
pub struct Opener {
    key: [u8; 32],
    flow: u64,
    cipher: Option<FlowCipher>,
    record: u64,
    bytes: Vec<u8>,
    waiting: bool,
    tries: u32,
    refetched: u64,
    done: bool,
}

impl Opener {
    /// An opener at the start of `flow`.
    pub const fn new(key: [u8; 32], flow: u64) -> Self {
        Self {
            key,
            flow,
            cipher: None,
            record: 0,
            bytes: Vec::new(),
            waiting: false,
            tries: 0,
            refetched: 0,
            done: false,
        }
    }

    /// Whether the last record has been opened.
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// Records that had to be fetched again.
    pub const fn refetched(&self) -> u64 {
        self.refetched
    }

    /// Takes the bytes that `c` has received and returns the plaintext of the next record, if it
    /// is complete.
    ///
    /// # Errors
    /// A record that is forged however often it is requested, or a flow that has been cut short.
    pub fn next(&mut self, now: Nanos, c: &mut Consumer) -> Result<Option<Vec<u8>>, RunError> {
        let Some(&Meta {
            length,
            sealing: Sealing::Sealed(salt),
            ..
        }) = c.meta()
        else {
            return Ok(None);
        };
        let cipher = self
            .cipher
            .get_or_insert_with(|| FlowCipher::new(&self.key, self.flow, &salt));
        let start = self.record * RECORD;
        let n = length.saturating_sub(start).min(RECORD) as usize;
        if self.done || n == 0 {
            // A flow without even an empty last record has been cut.
            return if self.done {
                Ok(None)
            } else {
                Err(RunError::Forged(self.record))
            };
        }
        if self.waiting {
            let Some(fresh) = c.take_fresh() else {
                return Ok(None);
            };
            self.bytes[..n].copy_from_slice(&fresh);
            self.waiting = false;
        }
        while self.bytes.len() < n {
            match c.read() {
                Some(b) => self.bytes.extend(b),
                None => return Ok(None),
            }
        }
        let last = start + n as u64 == length;
        match cipher.open(self.record, last, &self.bytes[..n]) {
            Some(plain) => {
                self.bytes.drain(..n);
                (self.record, self.tries, self.done) = (self.record + 1, 0, last);
                Ok(Some(plain))
            }
            None if self.tries == MAX_REFETCH => Err(RunError::Forged(self.record)),
            None => {
                self.tries += 1;
                self.refetched += 1;
                self.waiting = true;
                c.refetch(
                    now,
                    Range {
                        start,
                        end: start + n as u64,
                    },
                );
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(s: &mut SealedFile, record: u64, len: usize) -> Option<Vec<u8>> {
        let mut buf = vec![0; len];
        s.read_at(record * RECORD, &mut buf).then_some(buf)
    }

    #[test]
    fn a_file_that_changes_is_never_sealed_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let full = RECORD as usize;
        std::fs::write(&path, vec![1; 2 * PLAIN as usize + 10]).unwrap();
        let mut s = SealedFile::open(&path, &[1; 32], 7, [2; 16]).unwrap();
        let first = read(&mut s, 0, full).unwrap();
        let second = read(&mut s, 1, full).unwrap();
        // One byte of the first record changes, and the file grows.
        std::fs::File::options()
            .write(true)
            .open(&path)
            .and_then(|f| {
                f.write_all_at(b"2", 100)?;
                f.set_len(4 * PLAIN)
            })
            .unwrap();
        assert_eq!(read(&mut s, 0, full), None, "a second text under one nonce");
        assert_eq!(read(&mut s, 1, full), Some(second));
        assert!(read(&mut s, 2, 10 + TAG as usize).is_some());
        assert_eq!(s.available().end, 2 * RECORD + 10 + TAG, "as published");
        // The original content may come back.
        let mut f = std::fs::File::create(&path).unwrap();
        f.write_all(&vec![1; 2 * PLAIN as usize + 10]).unwrap();
        assert_eq!(read(&mut s, 0, full), Some(first));
        // Cut short: the text is missing.
        f.set_len(PLAIN).unwrap();
        assert_eq!(read(&mut s, 1, full), None);
    }
}
