//! Network namespaces, held by file descriptors only.
//!
//! A namespace without a name under `/run/netns` lives exactly as long as a descriptor, a process or a socket refers to
//! it. When the engine is killed, its nodes are removed too.

use std::fs::File;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::error::{Context, Error, Result};

/// A network namespace, kept alive by a file descriptor (and by nothing else).
#[derive(Debug)]
pub struct NetNs {
    fd: OwnedFd,
}

impl NetNs {
    /// Creates an empty namespace. Its only interface is `lo`, down.
    ///
    /// # Errors
    /// As [`NetNs::create_many`].
    pub fn new() -> Result<NetNs> {
        Self::create_many(1, None).map(|mut v| v.remove(0))
    }

    /// Creates `n` namespaces on a few helper threads.
    ///
    /// With a `template`, each is created from inside it, so with
    /// `net.core.devconf_inherit_init_net = 3` it copies the template's `conf/{all,default}`
    /// settings (see [`crate::template::NodeTemplate`], which also checks that it did).
    ///
    /// # Errors
    /// [`Error::Os`] when the kernel refuses one (rights, memory, descriptors); none of them remains then.
    pub fn create_many(n: usize, template: Option<&NetNs>) -> Result<Vec<NetNs>> {
        // A namespace costs about 0.6 ms, mostly under shared locks; more than a few threads would only wait for each
        // other.
        let workers = thread::available_parallelism()
            .map_or(1, |p| p.get())
            .min(4)
            .min(n.max(1));
        let mut out = Vec::with_capacity(n);
        thread::scope(|s| {
            let handles: Vec<_> = (0..workers)
                .map(|w| {
                    let share = n / workers + usize::from(w < n % workers);
                    s.spawn(move || create_here(share, template))
                })
                .collect();
            // Join all before reporting, so that an error does not leave threads running.
            let parts: Vec<_> = handles.into_iter().map(|h| h.join()).collect();
            for part in parts {
                out.extend(part.unwrap_or_else(|p| std::panic::resume_unwind(p))?);
            }
            Ok(out)
        })
    }

    /// Returns the namespace of the calling thread.
    ///
    /// # Errors
    /// As [`NetNs::open`].
    pub fn current() -> Result<NetNs> {
        Self::open("/proc/thread-self/ns/net")
    }

    /// Returns the namespace of a process.
    ///
    /// # Errors
    /// As [`NetNs::open`]: when there is no such process.
    pub fn of_process(pid: u32) -> Result<NetNs> {
        Self::open(format!("/proc/{pid}/ns/net"))
    }

    /// Opens a namespace file: `/proc/<pid>/ns/net`, `/run/netns/<name>`, or the
    /// [`NetNs::proc_path`] of a namespace held by another process.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the file exists but is not a network namespace.
    pub fn open(path: impl AsRef<Path>) -> Result<NetNs> {
        let path = path.as_ref();
        let what = || format!("open network namespace {}", path.display());
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .context(what)?;
        // SAFETY: NS_GET_NSTYPE takes no argument and only reads the kernel object behind `fd`.
        let kind = unsafe { libc::ioctl(fd.as_raw_fd(), libc::NS_GET_NSTYPE as _) };
        if kind != libc::CLONE_NEWNET {
            return Err(Error::Invalid(format!(
                "{} is not a network namespace",
                path.display()
            )));
        }
        Ok(NetNs { fd })
    }

    /// Returns the descriptor, for netlink requests that move or create devices elsewhere.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns a second handle of the same namespace.
    ///
    /// # Errors
    /// [`Error::Os`] when no descriptor is left.
    pub fn try_clone(&self) -> Result<NetNs> {
        let fd = self
            .fd
            .try_clone()
            .context(|| "duplicate a namespace descriptor".into())?;
        Ok(NetNs { fd })
    }

    /// Returns a path under which *another* process can open this namespace while we live: `/proc/<our pid>/fd/<fd>`.
    /// Must not be used after `self` is dropped.
    pub fn proc_path(&self) -> PathBuf {
        PathBuf::from(format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.fd.as_raw_fd()
        ))
    }

    /// Returns the kernel's inode number of the namespace: equal for two handles of one namespace.
    ///
    /// # Errors
    /// [`Error::Os`] when the kernel does not report it.
    pub fn inode(&self) -> Result<u64> {
        Ok(rustix::fs::fstat(&self.fd)
            .context(|| "stat a namespace".into())?
            .st_ino)
    }

    /// Runs `f` on a fresh thread inside the namespace and waits for it (about 30 us more than
    /// calling it). A panic of `f` is passed on.
    ///
    /// # Errors
    /// [`Error::Os`] when no thread can be started or the namespace cannot be entered; `f` has not run then.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|s| {
            let h = thread::Builder::new()
                .name("in-netns".into())
                .spawn_scoped(s, || self.enter_for_good().map(|()| f()))
                .context(|| "start a thread".into())?;
            h.join().unwrap_or_else(|p| std::panic::resume_unwind(p))
        })
    }

    /// Moves the calling thread into the namespace until the guard is dropped: for worker threads that switch between
    /// many namespaces (a few microseconds per switch).
    ///
    /// # Errors
    /// [`Error::Os`] when the kernel refuses; the thread is where it was.
    pub fn enter(&self) -> Result<Entered> {
        let home = NetNs::current()?;
        self.enter_for_good()?;
        Ok(Entered {
            home,
            _thread_bound: PhantomData,
        })
    }

    /// Moves the calling thread into the namespace permanently. For threads that stay in one namespace, or switch
    /// directly from one to the next.
    ///
    /// # Errors
    /// [`Error::Os`] when the kernel refuses; the thread is where it was.
    pub fn enter_for_good(&self) -> Result<()> {
        move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))
            .context(|| "enter a network namespace".into())
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for NetNs {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// The calling thread is in another namespace while this lives; see [`NetNs::enter`].
#[derive(Debug)]
pub struct Entered {
    home: NetNs,
    // The guard restores *this* thread, so it must not be sent to another.
    _thread_bound: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Err(e) = self.home.enter_for_good() {
            // A worker left in the wrong namespace would configure the wrong node, so it must not continue. This cannot
            // happen while we hold the descriptor and CAP_SYS_ADMIN.
            panic!("cannot leave a network namespace: {e}");
        }
    }
}

/// Creates namespaces on the calling thread, which ends in the last one: call it on a helper thread only.
fn create_here(n: usize, template: Option<&NetNs>) -> Result<Vec<NetNs>> {
    let mut out = Vec::with_capacity(n);
    for _ in 0..n {
        if let Some(t) = template {
            t.enter_for_good()?;
        }
        // SAFETY: a network namespace is no memory or file table that other threads rely on; the
        // flag concerns the calling (helper) thread only.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
            .context(|| "create a network namespace".into())?;
        let file = File::open("/proc/thread-self/ns/net")
            .context(|| "open a new network namespace".into())?;
        out.push(NetNs { fd: file.into() });
    }
    Ok(out)
}
