//! What separates a lab's programs from the host: processes of their own, and each node's own view of the file system.
//!
//! An [`Enclosure`] is a process namespace of the lab, with an init of its own, and a mount namespace from which those
//! of the nodes are copied. A program in a [`View`] sees and signals the lab's processes only; `/tmp`, `/run` and
//! `/dev/shm` are its node's, `/sys` can only be read, and of `/proc/sys` only `net`, which is its node's, can be written.
//! All else is the host's: programs run as who they are and may write what that user may. It keeps honest programs
//! apart; it is no boundary against a hostile root.
//!
//! A [`Room`] is made of a container image: its programs see the image's files, and nothing of the host but what they are
//! shown. Their process namespaces lie within the lab's.
//!
//! When the init ends, whatever ends it, the kernel kills every process of the lab; the init itself ends with the
//! thread that made the enclosure.

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

/// The init of a lab. It does nothing, and since it ignores SIGCHLD the kernel buries orphans for it.
const INIT: [&str; 2] = ["sleep", "infinity"];

/// A lab's process namespace, and what its nodes' views have in common.
#[derive(Debug)]
pub struct Enclosure {
    init: Child,
    pids: Arc<OwnedFd>,
    template: OwnedFd,
    /// From which rooms are made; once there is one.
    bare: OnceLock<OwnedFd>,
    /// What every node sees of the host although its place is hidden.
    shown: Vec<Shown>,
}

impl Enclosure {
    /// Encloses the lab; its init carries the lab's mark, and ends with the calling thread. Every node will see `shown`.
    ///
    /// # Errors
    /// [`Error::Os`] naming the step that the kernel refused, [`Error::Invalid`] where there is no `sleep`; nothing is
    /// left then.
    pub fn new(lab: &str, shown: Vec<Shown>) -> Result<Enclosure> {
        let template = mounts::template()?;
        let init = Spawn::new(lab, INIT).init_in(template.as_fd()).start()?;
        // Ended at once if what follows fails: it is nobody's yet.
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

    /// The number of its init, as the host has it.
    pub fn init_pid(&self) -> u32 {
        self.init.pid()
    }

    /// How its init ended, and every process of the lab with it; `None` as long as it lives.
    ///
    /// # Errors
    /// [`Error::Os`] when the kernel does not say.
    pub fn ended(&self) -> Result<Option<Exit>> {
        self.init.try_wait()
    }

    /// Kills every process of the lab, and waits until none is left.
    ///
    /// # Errors
    /// [`Error::Conflict`] when some are still there after `within`: those that sleep where no signal reaches them, or
    /// that their parents outside do not bury.
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
        // Reported by whoever called `kill` before; this is for ways out that did not come by there.
        drop(self.kill(Duration::from_secs(1)));
    }
}

/// Opens a namespace's file.
fn open_namespace(path: &str) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .context(|| format!("open namespace {path}"))
}
