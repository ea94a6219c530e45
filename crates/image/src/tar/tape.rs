//! What archives are read from: onwards, or in jumps.

use std::io::{self, Read, Seek, SeekFrom};

/// What an archive is read from.
pub trait Tape: Read {
    /// Leaves bytes out.
    ///
    /// # Errors
    /// When they cannot be read, or there are fewer.
    fn skip(&mut self, bytes: u64) -> io::Result<()>;
}

/// An archive that can only be read onwards.
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

/// An archive that can be jumped in.
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
