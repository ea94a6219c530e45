//! Starting a process inside a namespace without copying the engine.
//!
//! `fork` in an engine with a large address space costs milliseconds per child, for page tables
//! that `exec` throws away. The child here shares the engine's memory until it executes (as with
//! `vfork`, the calling thread waits), so starting costs the same at any size. Between the two it
//! makes nothing but system calls on arguments that were prepared before.

use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int, c_void};
use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use super::child::Child;
use super::marks::{LAB_VARIABLE, NODE_VARIABLE, OWNER_VARIABLE};
use super::{c_string, deaf, find_command};
use crate::cgroup::LabCgroup;
use crate::enclosure::View;
use crate::error::{Context, Error, Result};
use crate::ident::ProcessIdent;
use crate::netns::NetNs;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A process is in so many hierarchies of cgroups at most: cgroup2 and cgroup v1's `cpu`, `memory` and `pids`.
const CGROUPS_MAX: usize = 4;

/// Where a standard stream goes.
#[derive(Debug, Default)]
pub enum Stdio {
    /// `/dev/null`.
    #[default]
    Null,
    /// The engine's own.
    Inherit,
    /// A new or emptied file.
    Create(PathBuf),
    /// The end of a file, which is made if need be.
    Append(PathBuf),
    /// Any descriptor: a pipe, a file already open.
    Fd(OwnedFd),
}

/// A process to be started on behalf of a lab.
#[derive(Debug)]
pub struct Spawn<'a> {
    lab: &'a str,
    node: Option<&'a str>,
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    netns: Option<&'a NetNs>,
    cgroups: Vec<&'a LabCgroup>,
    place: Place<'a>,
    dir: Option<PathBuf>,
    stdio: [Stdio; 3],
    deaf: bool,
    owner: Option<&'a ProcessIdent>,
    manners: Manners,
}

/// Whose processes and files the process sees.
#[derive(Clone, Copy, Debug, Default)]
enum Place<'a> {
    /// The calling process's.
    #[default]
    Host,
    /// A node's.
    View(&'a View),
    /// A process namespace that begins with it, and the mount namespace in which it mounts its `/proc`.
    Init(BorrowedFd<'a>),
}

/// How it lives beside the calling process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manners {
    /// Leader of a session of its own.
    Apart,
    /// In the caller's session and process group, so that they share a terminal; killed when the calling thread ends.
    Attached,
    /// Apart, and killed when the calling thread ends; its orphans are buried by the kernel.
    Init,
}

impl<'a> Spawn<'a> {
    /// `argv[0]` is the command: a path, or a name to be found along the child's `PATH`.
    ///
    /// The environment starts with the engine's `PATH`, `HOME`, `LANG`, `TERM` and `TZ`, and
    /// always carries our mark (`CONSTEL_LAB`, `CONSTEL_NODE`, `CONSTEL_OWNER`: the calling process).
    pub fn new<S: Into<OsString>>(lab: &'a str, argv: impl IntoIterator<Item = S>) -> Spawn<'a> {
        let env = ["PATH", "HOME", "LANG", "TERM", "TZ"]
            .into_iter()
            .filter_map(|k| Some((k.into(), std::env::var_os(k)?)))
            .collect();
        Spawn {
            lab,
            node: None,
            argv: argv.into_iter().map(Into::into).collect(),
            env,
            netns: None,
            cgroups: Vec::new(),
            place: Place::Host,
            dir: None,
            stdio: Default::default(),
            deaf: false,
            owner: None,
            manners: Manners::Apart,
        }
    }

    /// The process hears no announcements of the kernel: binding a netlink socket, which joins its groups, fails with
    /// `EPERM`. Costs its other system calls next to nothing.
    pub fn deaf(mut self) -> Self {
        self.deaf = true;
        self
    }

    /// Which node the process belongs to.
    pub fn node(mut self, name: &'a str) -> Self {
        self.node = Some(name);
        self
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let (key, value) = (key.into(), value.into());
        self.env.retain(|(k, _)| *k != key);
        self.env.push((key, value));
        self
    }

    /// Runs in this network namespace instead of the calling thread's.
    pub fn netns(mut self, ns: &'a NetNs) -> Self {
        self.netns = Some(ns);
        self
    }

    /// Starts in this cgroup, with everything it will start; one in each hierarchy.
    pub fn cgroup(mut self, group: &'a LabCgroup) -> Self {
        assert!(self.cgroups.len() < CGROUPS_MAX, "one in each hierarchy");
        self.cgroups.push(group);
        self
    }

    /// Sees processes and files as the node of this view does.
    pub fn view(mut self, view: &'a View) -> Self {
        self.place = Place::View(view);
        self
    }

    /// Becomes the init of a process namespace of its own, whose `/proc` it mounts in this mount namespace; it ends
    /// with the calling thread.
    pub(crate) fn init_in(mut self, mounts: BorrowedFd<'a>) -> Self {
        self.place = Place::Init(mounts);
        self.manners = Manners::Init;
        // The caller's might be unmounted meanwhile, but for this.
        self.dir = Some("/".into());
        self
    }

    /// Shares the caller's terminal, session, process group, streams and environment; killed when the calling thread
    /// ends.
    pub(super) fn attached(mut self) -> Self {
        self.manners = Manners::Attached;
        self.stdio = [Stdio::Inherit, Stdio::Inherit, Stdio::Inherit];
        self.env = std::env::vars_os().collect();
        self
    }

    /// Who answers for it, if not the calling process.
    pub(super) fn owner(mut self, owner: &'a ProcessIdent) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Working directory; by default the caller's, or `/` where the process does not see that.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Standard input; by default `/dev/null`.
    pub fn stdin(mut self, s: Stdio) -> Self {
        self.stdio[0] = s;
        self
    }

    /// Standard output; by default `/dev/null`.
    pub fn stdout(mut self, s: Stdio) -> Self {
        self.stdio[1] = s;
        self
    }

    /// Standard error; by default `/dev/null`.
    pub fn stderr(mut self, s: Stdio) -> Self {
        self.stdio[2] = s;
        self
    }

    /// Starts the process, as leader of a session of its own, with all signals at their defaults
    /// and no descriptor of the engine beyond the standard streams. Returns once it executes the
    /// command.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a command that does not exist, [`Error::Os`] for whatever kept the
    /// child from executing it, naming the step. No process is left in either case.
    pub fn start(self) -> Result<Child> {
        let name = self.argv.first().cloned().unwrap_or_default();
        let mut env = self.env;
        env.retain(|(k, _)| k != LAB_VARIABLE && k != NODE_VARIABLE && k != OWNER_VARIABLE);
        env.push((LAB_VARIABLE.into(), self.lab.into()));
        let owner = match self.owner {
            Some(owner) => owner.mark(),
            None => ProcessIdent::current()?.mark(),
        };
        env.push((OWNER_VARIABLE.into(), owner.into()));
        env.extend(self.node.map(|n| (NODE_VARIABLE.into(), n.into())));
        let search = env
            .iter()
            .find(|(k, _)| k == "PATH")
            .map_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"), |(_, v)| v);
        let program = find_command(&name, search)?;
        let env = env
            .iter()
            .map(|(k, v)| {
                let mut kv = k.clone();
                kv.push("=");
                kv.push(v);
                c_string(kv)
            })
            .collect::<Result<Vec<_>>>()?;
        let argv = self.argv.iter().map(c_string).collect::<Result<Vec<_>>>()?;
        let [i, o, e] = self.stdio;
        let streams = [prepare(i, 0)?, prepare(o, 1)?, prepare(e, 2)?];
        let cgroups = self
            .cgroups
            .into_iter()
            .map(|group| c_string(group.procs()));
        let cgroups = cgroups.collect::<Result<Vec<_>>>()?;
        let mounts = match self.place {
            Place::Host => None,
            Place::View(view) => Some(view.mounts()),
            Place::Init(mounts) => Some(mounts),
        };
        let mounts = mounts.map(namespace_path).transpose()?;
        let own_dir = self.dir.is_some();
        let dir = match self.dir {
            Some(dir) => Some(dir),
            None if mounts.is_some() => std::env::current_dir().ok(),
            None => None,
        };
        let dir = dir.map(c_string).transpose()?;
        let plan = Plan {
            program: c_string(&program)?,
            argv: pointers(&argv),
            env: pointers(&env),
            alone: !streams.iter().any(|s| matches!(s, Some(Stream::Fd(_)))),
            streams,
            cgroups,
            netns: self.netns.map(|n| n.fd().as_raw_fd()),
            mounts: mounts.as_deref(),
            pids: match self.place {
                Place::View(view) => Some(view.pids()),
                Place::Host | Place::Init(_) => None,
            },
            dir: dir.as_deref(),
            own_dir,
            deaf: self.deaf,
            manners: self.manners,
        };
        match plan.start()? {
            Started::Running(child) => Ok(child.named(name.to_string_lossy().into_owned())),
            Started::Failed(stage, errno) => {
                let what = stage.words(&program.display().to_string());
                Err(Error::os(what, std::io::Error::from_raw_os_error(errno)))
            }
        }
    }
}

/// Where the child opens a mount namespace that the engine holds: its own table of descriptors is closed by then.
fn namespace_path(fd: BorrowedFd<'_>) -> Result<CString> {
    let (pid, fd) = (std::process::id(), fd.as_raw_fd());
    c_string(format!("/proc/{pid}/fd/{fd}"))
}

/// The process namespace of this process.
fn home() -> Result<BorrowedFd<'static>> {
    static HOME: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(home) = HOME.get() {
        return Ok(home.as_fd());
    }
    let file = std::fs::File::open("/proc/self/ns/pid");
    let file = file.context(|| "open this process's own namespace".to_owned())?;
    Ok(HOME.get_or_init(|| file.into()).as_fd())
}

/// From here on children of the calling thread are born into this process namespace.
fn bear_children_in(pids: BorrowedFd<'_>) -> Result<()> {
    move_into_link_name_space(pids, Some(LinkNameSpaceType::ProcessID))
        .context(|| "start processes in a process namespace".to_owned())
}

/// A stream before there is a child.
enum Stream {
    /// Opened by the child, which has few descriptors of its own; tried before, so that errors name the file.
    File(CString, c_int),
    /// Known only by its number in the engine.
    Fd(OwnedFd),
}

/// Prepares a stream; `None` leaves the engine's own in place.
fn prepare(s: Stdio, number: i32) -> Result<Option<Stream>> {
    let tried = |path: &Path, how: &mut OpenOptions, flags: c_int| {
        how.open(path)
            .context(|| format!("open {}", path.display()))?;
        Ok::<_, Error>(Some(Stream::File(c_string(path)?, flags)))
    };
    match s {
        Stdio::Inherit => Ok(None),
        Stdio::Null => {
            let flags = if number == 0 {
                libc::O_RDONLY
            } else {
                libc::O_WRONLY
            };
            Ok(Some(Stream::File(c"/dev/null".to_owned(), flags)))
        }
        Stdio::Create(p) => tried(
            &p,
            OpenOptions::new().write(true).create(true).truncate(true),
            libc::O_WRONLY,
        ),
        Stdio::Append(p) => tried(
            &p,
            OpenOptions::new().append(true).create(true),
            libc::O_WRONLY | libc::O_APPEND,
        ),
        // Below 3 it could be overwritten while the others are put in place.
        Stdio::Fd(fd) if fd.as_raw_fd() < 3 => {
            let up = rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 3)
                .context(|| "duplicate a descriptor".into())?;
            Ok(Some(Stream::Fd(up)))
        }
        Stdio::Fd(fd) => Ok(Some(Stream::Fd(fd))),
    }
}

/// A NULL-terminated array of pointers into `strings`, which must outlive it.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr())
        .chain([ptr::null()])
        .collect()
}

/// All the child needs, prepared so that it only makes system calls.
struct Plan<'a> {
    program: CString,
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    streams: [Option<Stream>; 3],
    /// The child needs no descriptor of ours but the standard streams and the network namespace's: it is spared a
    /// copy of the table, which in a lab of thousands of nodes has tens of thousands of them, and closing them again.
    alone: bool,
    cgroups: Vec<CString>,
    netns: Option<RawFd>,
    /// A path of the mount namespace it goes to.
    mounts: Option<&'a CStr>,
    /// The process namespace it is born into.
    pids: Option<BorrowedFd<'a>>,
    dir: Option<&'a CStr>,
    /// Whether `dir` was asked for, so that it must be there.
    own_dir: bool,
    deaf: bool,
    manners: Manners,
}

/// How far the child came.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Session,
    Cgroup,
    NetNs,
    Mounts,
    Proc,
    Parent,
    Dir,
    Streams,
    Deaf,
    Exec,
}

impl Stage {
    /// What could not be done.
    fn words(self, program: &str) -> String {
        match self {
            Stage::Exec => format!("execute {program}"),
            Stage::Streams => format!("connect the streams of {program}"),
            Stage::Cgroup => format!("put {program} into the lab's cgroups"),
            Stage::NetNs => format!("put {program} into its network namespace"),
            Stage::Dir => format!("change the directory of {program}"),
            Stage::Deaf => format!("keep {program} from listening to netlink groups"),
            Stage::Session => format!("start a session for {program}"),
            Stage::Mounts => format!("give {program} its view of the file system"),
            Stage::Proc => format!("mount /proc for {program}"),
            Stage::Parent => format!("bind the life of {program} to that of its parent"),
        }
    }
}

enum Started {
    Running(Child),
    Failed(Stage, i32),
}

/// Shared between the calling thread (which waits) and the child (until it executes).
struct Shared<'a> {
    plan: &'a Plan<'a>,
    failure: Option<(Stage, i32)>,
}

impl Plan<'_> {
    fn start(&self) -> Result<Started> {
        const STACK_BYTES: usize = 64 * 1024;
        let mut stack = vec![0u128; STACK_BYTES / size_of::<u128>()];
        let mut shared = Shared {
            plan: self,
            failure: None,
        };
        let mut pidfd: c_int = -1;
        let home = self.pids.map(|_| home()).transpose()?;
        if let Some(pids) = self.pids {
            bear_children_in(pids)?;
        }
        // A signal handler of the engine must not run in the child, on the engine's memory.
        let old_mask = block_signals();
        let mut flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        if self.alone {
            flags |= libc::CLONE_FILES;
        }
        if self.manners == Manners::Init {
            flags |= libc::CLONE_NEWPID;
        }
        // SAFETY: the stack is ours alone, 16-byte aligned and far larger than `child` needs; the
        // calling thread stays suspended (CLONE_VFORK) until the child has executed or exited, so
        // `shared` and everything it refers to outlive the child's use of them. The child runs
        // `child`, which makes system calls only. CLONE_PIDFD stores into `pidfd`.
        let pid = unsafe {
            libc::clone(
                child,
                stack.as_mut_ptr().add(stack.len()).cast::<c_void>(),
                flags,
                (&raw mut shared).cast::<c_void>(),
                &raw mut pidfd,
            )
        };
        let failed = errno();
        restore_signals(&old_mask);
        let back = home.map_or(Ok(()), bear_children_in);
        if pid < 0 {
            let what = match failed {
                libc::ENOMEM if self.pids.is_some() => {
                    "start a process (the lab's init has ended, or memory has)"
                }
                libc::EAGAIN => "start a process (no more are allowed)",
                _ => "start a process",
            };
            return Err(Error::os(what, std::io::Error::from_raw_os_error(failed)));
        }
        // SAFETY: the kernel has just opened this descriptor for us.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let child = Child::new(pid as u32, pidfd);
        // A thread whose children are born elsewhere could not start threads.
        back?;
        // SAFETY: `shared` is live; volatile, since the compiler cannot see the child's writes.
        match unsafe { (&raw const shared.failure).read_volatile() } {
            None => Ok(Started::Running(child)),
            Some((stage, errno)) => {
                // It has exited: reap it.
                child.wait()?;
                Ok(Started::Failed(stage, errno))
            }
        }
    }

    /// In the child. Returns only on failure.
    fn carry_out(&self) -> (Stage, i32) {
        macro_rules! call {
            ($stage:expr, $e:expr) => {
                // SAFETY: a system call whose pointers are live and whose descriptors are open in
                // the calling thread, which waits for us.
                if unsafe { $e } < 0 {
                    return ($stage, errno());
                }
            };
        }
        if self.manners != Manners::Attached {
            call!(Stage::Session, libc::setsid());
        }
        if self.manners != Manners::Apart {
            call!(
                Stage::Parent,
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)
            );
        }
        if let Some(fd) = self.netns {
            call!(Stage::NetNs, libc::setns(fd, libc::CLONE_NEWNET));
        }
        if self.alone {
            // SAFETY: as above. From here on the table of descriptors is the child's own, with the standard streams.
            // Older kernels lack the call, and copy them all.
            let own = unsafe {
                libc::syscall(
                    libc::SYS_close_range,
                    3,
                    u32::MAX,
                    libc::CLOSE_RANGE_UNSHARE,
                )
            };
            if own < 0 {
                call!(Stage::Streams, libc::unshare(libc::CLONE_FILES));
            }
        }
        // Before the mounts, which may hide all these files.
        let mut groups = [-1; CGROUPS_MAX];
        for (group, path) in groups.iter_mut().zip(&self.cgroups) {
            // SAFETY: as above.
            *group = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
            if *group < 0 {
                return (Stage::Cgroup, errno());
            }
        }
        for (to, from) in (0..).zip(&self.streams) {
            let from = match from {
                None => continue,
                Some(Stream::Fd(fd)) => fd.as_raw_fd(),
                Some(Stream::File(path, flags)) => {
                    // SAFETY: as above.
                    let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
                    if fd < 0 {
                        return (Stage::Streams, errno());
                    }
                    fd
                }
            };
            call!(Stage::Streams, libc::dup2(from, to));
        }
        if let Err(failure) = self.go_in() {
            return failure;
        }
        // Namespaces, sockets and locks of the engine must not live on in its children, whoever
        // opened them without O_CLOEXEC. Older kernels lack the call or the flag.
        // SAFETY: as above.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                3,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
        }
        default_signals();
        if self.manners == Manners::Init {
            // SAFETY: as above.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        }
        if self.deaf && deaf::enter() < 0 {
            return (Stage::Deaf, errno());
        }
        // Last: from here on it waits for a processor with all the others of its group, and the calling thread for it.
        for fd in groups.into_iter().filter(|fd| *fd >= 0) {
            call!(
                Stage::Cgroup,
                libc::write(fd, c"0".as_ptr().cast(), 1) as c_int
            );
        }
        call!(
            Stage::Exec,
            libc::execve(self.program.as_ptr(), self.argv.as_ptr(), self.env.as_ptr())
        );
        (Stage::Exec, 0)
    }

    /// In the child: its own view of the file system, and its place there.
    fn go_in(&self) -> std::result::Result<(), (Stage, i32)> {
        if let Some(path) = self.mounts {
            // SAFETY: system calls on a path that is live in the calling thread, which waits, and on the descriptor that
            // the first of them opens. The child's root and working directory are its own.
            unsafe {
                let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
                if fd < 0 || libc::setns(fd, libc::CLONE_NEWNS) < 0 {
                    return Err((Stage::Mounts, errno()));
                }
                libc::close(fd);
            }
        }
        if self.manners == Manners::Init {
            let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
            let (proc, at) = (c"proc".as_ptr(), c"/proc".as_ptr());
            // SAFETY: all strings are static; no data argument.
            if unsafe { libc::mount(proc, at, proc, flags, ptr::null()) } < 0 {
                return Err((Stage::Proc, errno()));
            }
        }
        let Some(dir) = self.dir else { return Ok(()) };
        // SAFETY: system calls on live strings.
        let failed = unsafe {
            libc::chdir(dir.as_ptr()) < 0 && (self.own_dir || libc::chdir(c"/".as_ptr()) < 0)
        };
        if failed {
            return Err((Stage::Dir, errno()));
        }
        Ok(())
    }
}

/// The calling thread's error number.
fn errno() -> i32 {
    // SAFETY: always a valid pointer to the calling thread's own variable.
    unsafe { *libc::__errno_location() }
}

extern "C" fn child(arg: *mut c_void) -> c_int {
    // SAFETY: `arg` is the `Shared` of the suspended calling thread; nobody else touches it.
    let shared = unsafe { &mut *arg.cast::<Shared<'_>>() };
    let failure = shared.plan.carry_out();
    // SAFETY: a valid place; volatile, since the reader is another task.
    unsafe {
        (&raw mut shared.failure).write_volatile(Some(failure));
        // Not `exit`: the engine's exit handlers are not ours to run.
        libc::_exit(127)
    }
}

fn block_signals() -> libc::sigset_t {
    // SAFETY: plain values on our stack; the masks are initialised by the calls.
    unsafe {
        let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        old
    }
}

fn restore_signals(old: &libc::sigset_t) {
    // SAFETY: a mask that `block_signals` got from the kernel.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, old, ptr::null_mut());
    }
}

/// All signals at their defaults and unblocked (Rust programs ignore SIGPIPE, and a child would
/// inherit that).
pub(super) fn default_signals() {
    // By system call: the C library would refuse its own two signals, which may be ignored as well.
    // All zero is "default action, no flags, empty mask", in the kernel's layout on every machine.
    let default = [0u64; 4];
    // SAFETY: plain values on our stack. KILL and STOP answer with an error that does not matter.
    // In a child that shares our memory the table of handlers is its own.
    unsafe {
        for signal in 1..=64 {
            let none = ptr::null_mut::<c_void>();
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                none,
                8usize,
            );
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}
