//! A command in a node with captured output: for many nodes at a time.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::process::Uid;

use super::callers::owned_pipe;
use super::child::{Child, Exit};
use super::exec::{Entry, ExecContext, spawn_in};
use super::spawn::Stdio;
use crate::error::{Context, Result};

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// How it ended.
    pub exit: Exit,
    /// Bytes of standard output.
    pub stdout: Vec<u8>,
    /// Bytes of standard error.
    pub stderr: Vec<u8>,
    /// Whether one of them was longer than the part that was kept.
    pub cut: bool,
}

/// Runs the command in the node without input, keeps at most `most_bytes` of each of its output streams, and waits
/// until it ends, but not for processes that it leaves behind. It ends with the calling thread.
///
/// # Errors
/// As [`run_inside`](super::run_inside).
pub fn run_captured(entry: &Entry, argv: &[OsString], most_bytes: usize) -> Result<Captured> {
    let owner = match &entry.within {
        ExecContext::View(_) => rustix::process::geteuid(),
        ExecContext::Container { confinement, .. } => Uid::from_raw(confinement.uid),
    };
    let (out, out_writer) = owned_pipe(owner)?;
    let (err, err_writer) = owned_pipe(owner)?;
    let child = spawn_in(entry, argv)
        .stdin(Stdio::Null)
        .stdout(Stdio::Fd(OwnedFd::from(out_writer)))
        .stderr(Stdio::Fd(OwnedFd::from(err_writer)))
        .start()?;
    let mut streams = [
        Stream::new(OwnedFd::from(out), most_bytes)?,
        Stream::new(OwnedFd::from(err), most_bytes)?,
    ];
    let exit = read_until_end(&child, &mut streams)?;
    let cut = streams.iter().any(|stream| stream.cut);
    let [stdout, stderr] = streams.map(|stream| stream.kept);
    Ok(Captured {
        exit,
        stdout,
        stderr,
        cut,
    })
}

fn read_until_end(child: &Child, streams: &mut [Stream; 2]) -> Result<Exit> {
    loop {
        let exit = {
            let ended = PollFd::from_borrowed_fd(child.as_fd(), PollFlags::IN);
            let open = streams.iter().filter(|stream| !stream.over);
            let open = open.map(|stream| PollFd::new(&stream.from, PollFlags::IN));
            let mut fds: Vec<PollFd<'_>> = std::iter::once(ended).chain(open).collect();
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context(|| "wait for a command".to_owned()),
            }
            child.try_wait()?
        };
        for stream in streams.iter_mut() {
            stream.take()?;
        }
        if let Some(exit) = exit {
            return Ok(exit);
        }
    }
}

/// One of its streams.
struct Stream {
    from: File,
    kept: Vec<u8>,
    most_bytes: usize,
    cut: bool,
    over: bool,
}

impl Stream {
    fn new(from: OwnedFd, most_bytes: usize) -> Result<Stream> {
        rustix::fs::fcntl_setfl(&from, OFlags::NONBLOCK).context(|| "set a pipe up".to_owned())?;
        Ok(Stream {
            from: from.into(),
            kept: Vec::new(),
            most_bytes,
            cut: false,
            over: false,
        })
    }

    /// Reads the available bytes.
    fn take(&mut self) -> Result<()> {
        let mut buffer = [0; 16 << 10];
        while !self.over {
            match self.from.read(&mut buffer) {
                Ok(0) => self.over = true,
                Ok(n) => {
                    let room = self.most_bytes - self.kept.len();
                    self.cut |= n > room;
                    self.kept.extend(&buffer[..n.min(room)]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context(|| "read a command's output".to_owned()),
            }
        }
        Ok(())
    }
}
