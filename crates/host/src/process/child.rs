//! Running children: waited for by descriptor, never by number.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result};

/// Time within which a killed process must end; after it, it is in uninterruptible sleep.
pub(super) const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// A signal of this number killed it.
    Signal(i32),
    /// It is gone, and the process that [reaped](Foreign) it does not report how.
    Unknown,
}

impl Exit {
    /// Exit code 0.
    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }

    /// Returns the code that a shell shows: the exit code, or 128 + the signal; 255 if unknown.
    pub fn shell_code(self) -> i32 {
        match self {
            Exit::Code(c) => c,
            Exit::Signal(s) => 128 + s,
            Exit::Unknown => 255,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(c) => write!(f, "exit code {c}"),
            Exit::Signal(s) => write!(f, "killed by signal {s}"),
            Exit::Unknown => f.write_str("nobody says how"),
        }
    }
}

/// A process that another process started for us, and reaps.
pub trait Foreign: fmt::Debug + Send + Sync {
    /// Returns how it ended; called once its descriptor is readable.
    fn exit(&self) -> Exit;

    /// Sends it a signal; no effect if it has ended.
    ///
    /// # Errors
    /// When the kernel refuses the signal.
    fn signal(&self, signal: Signal) -> Result<()>;
}

/// A process that we started, leader of its own session and process group, or one started by [another
/// process](Foreign). Dropping it neither ends nor reaps the process.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    pidfd: OwnedFd,
    name: String,
    exit: std::sync::OnceLock<Exit>,
    foreign: Option<Box<dyn Foreign>>,
}

impl Child {
    pub(super) fn new(pid: u32, pidfd: OwnedFd) -> Child {
        Child {
            pid,
            pidfd,
            name: String::new(),
            exit: std::sync::OnceLock::new(),
            foreign: None,
        }
    }

    /// Returns a process that another process started. The descriptor becomes readable when it has ended. Its number is
    /// that of a process that receives signals for it.
    pub fn foreign(pid: u32, name: String, ended: OwnedFd, foreign: Box<dyn Foreign>) -> Child {
        Child {
            foreign: Some(foreign),
            ..Child::new(pid, ended).named(name)
        }
    }

    pub(super) fn named(mut self, name: String) -> Child {
        self.name = name;
        self
    }

    /// Returns the process number. Once the process has been reaped, the number may belong to another process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the first word of the command.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a descriptor that becomes readable when the process ends.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// [`Error::Os`] when waiting for it fails.
    pub fn wait(&self) -> Result<Exit> {
        Ok(self
            .reap(WaitIdOptions::EXITED)?
            .expect("a blocking wait ends with an exit"))
    }

    /// Returns how it ended, or `None` while it runs.
    ///
    /// # Errors
    /// [`Error::Os`] when waiting for it fails.
    pub fn try_wait(&self) -> Result<Option<Exit>> {
        self.reap(WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
    }

    /// Waits until it ends, at most `timeout`.
    ///
    /// # Errors
    /// [`Error::Os`] when waiting for it fails.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Option<Exit>> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(e) = self.try_wait()? {
                return Ok(Some(e));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            wait_readable(self.pidfd(), left)?;
        }
    }

    /// Sends a signal to it and to its process group (its own children, unless they left it). No effect once it has
    /// been reaped.
    ///
    /// # Errors
    /// [`Error::Os`] when the kernel refuses the signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        if self.exit.get().is_some() {
            return Ok(());
        }
        if let Some(foreign) = &self.foreign {
            return foreign.signal(signal);
        }
        // Not reaped yet, so the number is still its own.
        let group = Pid::from_raw(self.pid as i32).expect("a child's number is not 0");
        match kill_process_group(group, signal) {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            r => r.context(|| format!("signal {} ({})", self.name, self.pid)),
        }
    }

    /// Requests its end (SIGTERM), and after `grace` forces it (SIGKILL). Waits until it has ended.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it does not die of SIGKILL within 10 s; [`Error::Os`] when it cannot be signalled or waited
    /// for.
    pub fn terminate(&self, grace: Duration) -> Result<Exit> {
        self.signal(Signal::TERM)?;
        if let Some(e) = self.wait_timeout(grace)? {
            return Ok(e);
        }
        self.signal(Signal::KILL)?;
        self.wait_timeout(KILLED_WITHIN)?.ok_or_else(|| {
            Error::Conflict(format!(
                "{} ({}) was killed, and does not die",
                self.name, self.pid
            ))
        })
    }

    fn reap(&self, options: WaitIdOptions) -> Result<Option<Exit>> {
        if let Some(e) = self.exit.get() {
            return Ok(Some(*e));
        }
        if let Some(foreign) = &self.foreign {
            let at_once = options.contains(WaitIdOptions::NOHANG);
            let wait = if at_once { Some(Duration::ZERO) } else { None };
            while !is_readable(self.pidfd(), wait)? {
                if at_once {
                    return Ok(None);
                }
            }
            let exit = foreign.exit();
            return Ok(Some(*self.exit.get_or_init(|| exit)));
        }
        let status = loop {
            match waitid(WaitId::PidFd(self.pidfd.as_fd()), options) {
                Err(rustix::io::Errno::INTR) => {}
                // Another thread has just reaped it.
                Err(rustix::io::Errno::CHILD) if self.exit.get().is_some() => {
                    return Ok(self.exit.get().copied());
                }
                r => break r.context(|| format!("wait for {} ({})", self.name, self.pid))?,
            }
        };
        Ok(status.map(|s| {
            let exit = match s.exit_status() {
                Some(code) => Exit::Code(code),
                None => Exit::Signal(s.terminating_signal().unwrap_or(0)),
            };
            *self.exit.get_or_init(|| exit)
        }))
    }
}

/// Calls `then` once, in a thread of that name, when the process of this descriptor has ended.
///
/// # Errors
/// When the system starts no thread.
pub fn when_ended(
    process: OwnedFd,
    name: &str,
    then: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    let watch = move || {
        let mut watched = [PollFd::new(&process, PollFlags::IN)];
        // Any error but an interruption means that the descriptor is watched no longer.
        while poll(&mut watched, None) == Err(rustix::io::Errno::INTR) {}
        then();
    };
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(watch).map(drop)
}

/// Waits until the descriptor is readable, or for `timeout`, or for a signal.
fn wait_readable(fd: BorrowedFd<'_>, timeout: Duration) -> Result<()> {
    is_readable(fd, Some(timeout)).map(drop)
}

/// Returns whether the descriptor is readable, after at most `timeout` or at a signal; `None`: waits without a limit.
fn is_readable(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> Result<bool> {
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: timeout.subsec_nanos() as _,
    });
    let mut polls = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    match poll(&mut polls, timeout.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e).context(|| "wait for a process".into()),
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl AsRawFd for Child {
    fn as_raw_fd(&self) -> i32 {
        self.pidfd.as_raw_fd()
    }
}
