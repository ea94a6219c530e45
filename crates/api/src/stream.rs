//! What a capture sends behind its answer.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How often whoever reads is looked after while nothing comes.
const LOOK: Duration = Duration::from_millis(100);

/// What comes next of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the file.
    Bytes(Vec<u8>),
    /// Nothing came within the time.
    Nothing,
    /// The lab ends.
    Ended,
}

/// Where captured frames come from, as a file.
pub trait CaptureSource: Send {
    /// What comes next, within this time.
    fn next(&mut self, within: Duration) -> Piece;

    /// What the file ends with.
    fn end(&mut self) -> Vec<u8>;
}

/// Sends a capture until the lab ends or the client has ended its own sending.
pub(crate) fn send(
    stream: &UnixStream,
    out: &mut impl io::Write,
    source: &mut dyn CaptureSource,
) -> io::Result<()> {
    loop {
        match source.next(LOOK) {
            Piece::Bytes(bytes) => out.write_all(&bytes)?,
            Piece::Nothing => out.flush()?,
            Piece::Ended => break,
        }
        if no_more(stream)? {
            break;
        }
    }
    out.write_all(&source.end())?;
    out.flush()
}

/// Whether the client has ended its sending, or has left.
fn no_more(stream: &UnixStream) -> io::Result<bool> {
    let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
    poll(&mut fds, Some(&Timespec::default()))?;
    let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    Ok(fds[0].revents().intersects(ended))
}
