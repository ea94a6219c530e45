//! The first process of an engine's container: the socket that it connects to, and the messages.

use std::fs::{self, Permissions};
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use constel_host::node_file::{self, OpenMode};
use constel_host::process::{Child, Exit, Foreign};
use constel_host::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Signal, pidfd_send_signal};

use super::crew::Made;

/// Maximum time until it starts a program, or reports why it cannot.
const BEGINS_WITHIN: Duration = Duration::from_secs(30);

/// The socket to which the first process of one container connects.
pub(super) struct Meeting {
    listener: UnixListener,
    path: PathBuf,
}

impl Meeting {
    /// Listens at this path until a process has connected.
    pub(super) fn arrange(path: &Path) -> Result<Self> {
        let what = || format!("make the socket {}", path.display());
        let listener = UnixListener::bind(path).map_err(|e| Error::os(what(), e))?;
        let meeting = Self {
            listener,
            path: path.to_owned(),
        };
        // The image's programs may run as any user. The folder of the socket belongs to root.
        let all = Permissions::from_mode(0o666);
        let set = fs::set_permissions(path, all);
        set.and_then(|()| meeting.listener.set_nonblocking(true))
            .map_err(|e| Error::os(what(), e))?;
        Ok(meeting)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the process of that number, which `process` holds.
    pub(super) fn meet(
        self,
        pid: u32,
        process: BorrowedFd<'_>,
        within: Duration,
    ) -> Result<UnixStream> {
        let end = Instant::now() + within;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let peer = socket_peercred(&stream).map(|peer| peer.pid.as_raw_nonzero());
                    match peer {
                        Ok(number) if u32::try_from(number.get()) == Ok(pid) => {
                            let set = stream.set_nonblocking(false);
                            let what = "wait for a container's first process";
                            set.map_err(|e| Error::os(what, e))?;
                            return Ok(stream);
                        }
                        _ => {
                            let why = "the engine runs on another machine, or another process connected first";
                            return Err(Error::Conflict(why.to_owned()));
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    return Err(Error::os("wait for a container's first process", error));
                }
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || is_readable(process, Duration::ZERO) {
                let what = "the container's first process did not come to where it is awaited";
                return Err(Error::Conflict(what.to_owned()));
            }
            // The end of the process is noticed within this interval.
            is_readable(self.listener.as_fd(), left.min(Duration::from_millis(100)));
        }
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.path));
    }
}

fn is_readable(fd: BorrowedFd<'_>, within: Duration) -> bool {
    let timeout = Timespec {
        tv_sec: within.as_secs() as i64,
        tv_nsec: within.subsec_nanos().into(),
    };
    let mut polls = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    matches!(poll(&mut polls, Some(&timeout)), Ok(1..))
}

/// A container's first process, in touch with us.
#[derive(Debug)]
pub(super) struct First {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pid: u32,
    process: OwnedFd,
    stream: UnixStream,
    stays: bool,
    made: Made,
}

/// A message from the first process.
enum FirstMessage {
    CannotStart(io::Error),
    Runs,
    Ended(Exit),
    /// No more messages: it became the program, or has ended.
    Closed,
}

impl First {
    pub(super) fn new(
        pid: u32,
        process: OwnedFd,
        stream: UnixStream,
        stays: bool,
        made: Made,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                pid,
                process,
                stream,
                stays,
                made,
            }),
        }
    }

    /// Its number.
    pub(super) fn pid(&self) -> u32 {
        self.shared.pid
    }

    /// Whether it outlives the program.
    pub(super) fn stays(&self) -> bool {
        self.shared.stays
    }

    /// Whether it has not ended.
    pub(super) fn lives(&self) -> bool {
        !is_readable(self.shared.process.as_fd(), Duration::ZERO)
    }

    /// The container that it is the first process of.
    pub(super) fn made(&self) -> &Made {
        &self.shared.made
    }

    /// Has it go to a network namespace, where it waits as long as this exists; it was started as a lender.
    pub(super) fn go(&self, netns: BorrowedFd<'_>) -> Result<()> {
        let what = "bring a container into a node's network";
        let shared = &self.shared;
        let sent = shared.send([netns, netns]);
        match sent.and_then(|()| shared.hear(Some(BEGINS_WITHIN))) {
            Ok(FirstMessage::Runs) => Ok(()),
            Ok(FirstMessage::CannotStart(error)) | Err(error) => Err(Error::os(what, error)),
            Ok(FirstMessage::Ended(_) | FirstMessage::Closed) => {
                Err(Error::Conflict(format!("{what}: it ended meanwhile")))
            }
        }
    }

    /// Requests it to start the program of that name, whose output is appended to these files.
    pub(super) fn begin(&self, name: &str, stdout: &Path, stderr: &Path) -> Result<Child> {
        let open = |path: &Path| node_file::open(path, OpenMode::Append);
        let shared = &self.shared;
        let what = || format!("start {name}");
        shared
            .send([open(stdout)?.as_fd(), open(stderr)?.as_fd()])
            .map_err(|e| Error::os(what(), e))?;
        match (shared.hear(Some(BEGINS_WITHIN)), shared.stays) {
            (Ok(FirstMessage::CannotStart(why)), _) => Err(Error::os(what(), why)),
            (Ok(FirstMessage::Runs), true) | (Ok(FirstMessage::Closed), false) => {
                let ended = match shared.stays {
                    true => shared.stream.as_fd().try_clone_to_owned(),
                    false => shared.process.try_clone(),
                };
                let ended = ended.map_err(|e| Error::os(what(), e))?;
                let foreign = Watched(Arc::clone(shared));
                Ok(Child::foreign(
                    shared.pid,
                    name.to_owned(),
                    ended,
                    Box::new(foreign),
                ))
            }
            (Ok(_), _) => Err(Error::Conflict(format!(
                "{}: its container has ended",
                what()
            ))),
            (Err(error), _) => Err(Error::os(what(), error)),
        }
    }
}

impl Shared {
    fn send(&self, files: [BorrowedFd<'_>; 2]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        // Without this flag, a closed connection would raise SIGPIPE.
        let flags = SendFlags::NOSIGNAL;
        sendmsg(&self.stream, &[IoSlice::new(b"S")], &mut control, flags)?;
        Ok(())
    }

    /// Returns its next message.
    fn hear(&self, within: Option<Duration>) -> io::Result<FirstMessage> {
        self.stream.set_read_timeout(within)?;
        let mut said = [0; 5];
        let mut filled = 0;
        while filled < said.len() {
            match (&self.stream).read(&mut said[filled..]) {
                Ok(0) => return Ok(FirstMessage::Closed),
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It ended before it had read the request.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(FirstMessage::Closed);
                }
                Err(error) => return Err(error),
            }
        }
        let [letter, a, b, c, d] = said;
        let number = i32::from_ne_bytes([a, b, c, d]);
        match letter {
            b'E' => Ok(FirstMessage::CannotStart(io::Error::from_raw_os_error(
                number,
            ))),
            b'R' => Ok(FirstMessage::Runs),
            b'D' => Ok(FirstMessage::Ended(exit_of(number))),
            _ => Err(io::Error::other("the container's first process babbles")),
        }
    }
}

/// Returns the exit of a process from its wait(2) status.
fn exit_of(status: i32) -> Exit {
    match status & 0x7f {
        0 => Exit::Code(status >> 8 & 0xff),
        signal => Exit::Signal(signal),
    }
}

/// The program of a container, as one of our own is watched.
#[derive(Debug)]
struct Watched(Arc<Shared>);

impl Foreign for Watched {
    fn exit(&self) -> Exit {
        let shared = &self.0;
        if shared.stays
            && let Ok(FirstMessage::Ended(exit)) = shared.hear(Some(BEGINS_WITHIN))
        {
            return exit;
        }
        // The container has ended. Like shells, engines report a signal as 128 plus its number.
        let code = shared.made.exit_code().ok();
        match code.and_then(|code| i32::try_from(code).ok()) {
            Some(code @ 129..=192) => Exit::Signal(code - 128),
            Some(code) => Exit::Code(code),
            // The engine is gone, and the lab goes on.
            None => Exit::Unknown,
        }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        match pidfd_send_signal(&self.0.process, signal) {
            Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
            Err(error) => Err(Error::os("signal a container", error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_as_wait_says_them() {
        assert_eq!(exit_of(3 << 8), Exit::Code(3));
        assert_eq!(exit_of(9), Exit::Signal(9));
        assert_eq!(exit_of(11 | 0x80), Exit::Signal(11));
        assert_eq!(exit_of(0), Exit::Code(0));
    }
}
