//! Sealed flows at the ends: a file sealed while it is served, records opened
//! while they are fetched.

use super::RunError;
use crate::Nanos;
use crate::core::{Available, Consumer, Meta, Sealing, Source};
use crate::seal::{FlowCipher, PLAIN, RECORD, records, sealed_len};
use crate::wire::Range;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A regular file served as a sealed flow; records are made when asked for.
#[derive(Debug)]
pub struct SealedFile {
    file: File,
    plain_len: u64,
    cipher: FlowCipher,
    meta: Vec<u8>,
    /// The record made last: consecutive packets come from one record.
    last: Option<(u64, Vec<u8>)>,
}

impl SealedFile {
    /// Opens the file and computes the digest of its sealed form. `salt` must be
    /// new for every call with the same key and flow id.
    pub fn open(path: &Path, key: &[u8; 32], flow: u64, salt: [u8; 16]) -> io::Result<Self> {
        let file = File::open(path)?;
        let plain_len = file.metadata()?.len();
        let mut s = Self {
            file,
            plain_len,
            cipher: FlowCipher::new(key, flow, &salt),
            meta: Vec::new(),
            last: None,
        };
        let mut hasher = blake3::Hasher::new();
        for r in 0..records(plain_len) {
            hasher.update(&s.make(r)?);
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

    fn make(&self, record: u64) -> io::Result<Vec<u8>> {
        let from = record * PLAIN;
        let mut plain = vec![0; (self.plain_len - from).min(PLAIN) as usize];
        self.file.read_exact_at(&mut plain, from)?;
        Ok(self
            .cipher
            .seal(record, record + 1 == records(self.plain_len), &plain))
    }
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
                let Ok(bytes) = self.make(record) else {
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

/// Times one record is asked for again before the flow is given up.
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

    /// Takes what `c` has received and gives the plaintext of the next record,
    /// if it is there.
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
