//! Streams that archives are read from, with or without seeking.

use std::io::{self, Read, Seek, SeekFrom};

/// A stream that an archive is read from.
pub trait Tape: Read {
    /// Skips bytes.
    ///
    /// # Errors
    /// If the bytes cannot be read, or the stream is shorter.
    fn skip(&mut self, bytes: u64) -> io::Result<()>;
}

/// An archive that can only be read sequentially.
#[derive(Debug)]
pub struct Stream<R>(pub R);

impl<R: Read> Read for Stream<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl<R: Read> Tape for Stream<R> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        match io::copy(&mut (&mut self.0).take(bytes), &mut io::sink())? {
            skipped if skipped == bytes => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// An archive with seeking.
#[derive(Debug)]
pub struct Seekable<R>(pub R);

impl<R: Read> Read for Seekable<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl<R: Read + Seek> Tape for Seekable<R> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let by = i64::try_from(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        self.0.seek(SeekFrom::Current(by)).map(|_| ())
    }
}
