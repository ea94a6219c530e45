//! Isolation of a lab's programs from the host: a process namespace of the lab, and each node's own view of the file
//! system.
//!
//! An [`Enclosure`] is a process namespace of the lab, with an init of its own, and a mount namespace from which those
//! of the nodes are copied. A program in a [`View`] sees and signals the lab's processes only. `/tmp`, `/run` and
//! `/dev/shm` belong to its node, `/sys` is read-only, and of `/proc/sys` only `net`, which belongs to the node, is
//! writable. All other files are the host's: programs run with their user's identity and may write what that user may.
//! The enclosure keeps well-behaved programs apart; it is no security boundary against a hostile root.
//!
//! A [`Room`] is made of a container image: its programs see the image's files, and no files of the host except those
//! shown to them. Their process namespaces lie within the lab's.
//!
//! When the init ends, for any reason, the kernel kills every process of the lab. The init itself ends with the thread
//! that made the enclosure.

pub(crate) mod mounts;
mod room;
mod view;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;

use crate::error::{Context, Error, Result};
use crate::process::{Child, Exit, Spawn};

pub use mounts::{Memory, mount_memory};
pub use room::{Inside, Room};
pub use view::{NODE_FOLDER, Shown, View, is_own};

/// The init of a lab. It does nothing; because it ignores SIGCHLD, the kernel reaps orphans for it.
const INIT: [&str; 2] = ["sleep", "infinity"];

/// A lab's process namespace, and the parts common to its nodes' views.
#[derive(Debug)]
pub struct Enclosure {
    init: Child,
    pids: Arc<OwnedFd>,
    template: OwnedFd,
    /// Template of rooms, once there is one.
    bare: OnceLock<OwnedFd>,
    /// Files of the host that every node sees although their places are hidden.
    shown: Vec<Shown>,
}

impl Enclosure {
    /// Encloses the lab. Its init carries the lab's mark, and ends with the calling thread. Every node will see
    /// `shown`.
    ///
    /// # Errors
    /// [`Error::Os`] with the step that the kernel refused, [`Error::Invalid`] if there is no `sleep`; nothing remains
    /// then.
    pub fn new(lab: &str, shown: Vec<Shown>) -> Result<Enclosure> {
        let template = mounts::template()?;
        let init = Spawn::new(lab, INIT).init_in(template.as_fd()).start()?;
        // If a later step fails, the init must be ended here: it has no owner yet.
        let made = Self::around(&init, &template);
        match made {
            Ok(pids) => Ok(Enclosure {
                init,
                pids: Arc::new(pids),
                template,
                bare: OnceLock::new(),
                shown,
            }),
            Err(error) => {
                init.terminate(Duration::ZERO)?;
                Err(error)
            }
        }
    }

    fn around(init: &Child, template: &OwnedFd) -> Result<OwnedFd> {
        let pids = open_namespace(&format!("/proc/{}/ns/pid", init.pid()))?;
        mounts::protect(template.as_fd())?;
        Ok(pids)
    }

    /// Returns the process number of its init on the host.
    pub fn init_pid(&self) -> u32 {
        self.init.pid()
    }

    /// Returns how its init ended, and with it every process of the lab; `None` while it lives.
    ///
    /// # Errors
    /// [`Error::Os`] when the kernel does not report it.
    pub fn ended(&self) -> Result<Option<Exit>> {
        self.init.try_wait()
    }

    /// Kills every process of the lab, and waits until none is left.
    ///
    /// # Errors
    /// [`Error::Conflict`] when some remain after `within`: processes in uninterruptible sleep, or not reaped by their
    /// parents outside.
    pub fn kill(&self, within: Duration) -> Result<()> {
        self.init.signal(Signal::KILL)?;
        match self.init.wait_timeout(within)? {
            Some(_) => Ok(()),
            None => Err(Error::Conflict(format!(
                "processes of the lab were killed, and do not die (its init is {})",
                self.init.pid()
            ))),
        }
    }
}

impl Drop for Enclosure {
    fn drop(&mut self) {
        // A caller of `kill` has reported errors already; this is for paths on which `kill` was not called.
        drop(self.kill(Duration::from_secs(1)));
    }
}

/// Opens a namespace's file.
fn open_namespace(path: &str) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .context(|| format!("open namespace {path}"))
}
