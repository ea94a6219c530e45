//! The data that a capture sends after its answer.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Interval at which the reader is checked while no frame arrives.
const LOOK: Duration = Duration::from_millis(100);

/// The next result of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureItem {
    /// Bytes of the file.
    Bytes(Vec<u8>),
    /// No frame arrived within the time.
    Nothing,
    /// The lab ends.
    Ended,
}

/// A source of captured frames in the format of a file.
pub trait CaptureSource: Send {
    /// Returns the next piece within this time.
    fn next(&mut self, within: Duration) -> CaptureItem;

    /// Returns the end of the file.
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
            CaptureItem::Bytes(bytes) => out.write_all(&bytes)?,
            CaptureItem::Nothing => out.flush()?,
            CaptureItem::Ended => break,
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
