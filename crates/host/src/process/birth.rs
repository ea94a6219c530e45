//! Creation of a process: `clone`, and the steps of the child until it executes its program.
//!
//! Until then the child shares the engine's memory, and the calling thread is suspended. So the child makes only system
//! calls, with arguments that were prepared before.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::OnceLock;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::child::Child;
use super::confine::{Prepared, Step};
use super::{deaf, errno, first};
use crate::error::{Context, Error, Result};

/// Maximum number of hierarchies of cgroups that a process is in: Linux has 15 controllers, and hosts have a few
/// hierarchies without controllers.
pub(super) const CGROUPS_MAX: usize = 24;

/// Relation of the child to the calling process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manners {
    /// Leader of a session of its own.
    Apart,
    /// As `Apart`, and killed when the calling thread ends.
    Attached,
    /// As `Attached`, and the kernel reaps its orphans.
    Init,
}

/// Returns the process namespace of this process.
fn home() -> Result<BorrowedFd<'static>> {
    static HOME: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(home) = HOME.get() {
        return Ok(home.as_fd());
    }
    let file = std::fs::File::open("/proc/self/ns/pid");
    let file = file.context(|| "open this process's own namespace".to_owned())?;
    Ok(HOME.get_or_init(|| file.into()).as_fd())
}

/// Makes children of the calling thread start in this process namespace from here on.
fn bear_children_in(pids: BorrowedFd<'_>) -> Result<()> {
    move_into_link_name_space(pids, Some(LinkNameSpaceType::ProcessID))
        .context(|| "start processes in a process namespace".to_owned())
}

/// A standard stream of the child.
pub(super) enum Stream {
    /// A file that the child opens, because it has few descriptors of its own. The path is one that no node can
    /// replace, possibly that of a descriptor of the engine.
    File(CString, c_int),
    /// A descriptor of the engine.
    Fd(OwnedFd),
}

/// All data of the child, prepared so that it only makes system calls.
pub(super) struct Plan<'a> {
    /// Tried one after the other until one exists.
    pub(super) programs: Vec<CString>,
    pub(super) argv: Vec<*const c_char>,
    pub(super) env: Vec<*const c_char>,
    pub(super) streams: [Option<Stream>; 3],
    /// The stream that becomes the controlling terminal of the child's session.
    pub(super) terminal: Option<RawFd>,
    /// Whether the child needs no descriptor of ours except the standard streams and the network namespace's. Then it
    /// need not copy the table, which in a lab of thousands of nodes has tens of thousands of descriptors, and close
    /// them again.
    pub(super) alone: bool,
    pub(super) cgroups: Vec<CString>,
    pub(super) netns: Option<RawFd>,
    /// Path of the mount namespace that it enters.
    pub(super) mounts: Option<&'a CStr>,
    /// The process namespace in which it starts.
    pub(super) pids: Option<BorrowedFd<'a>>,
    pub(super) dir: Option<&'a CStr>,
    /// Whether `dir` was requested explicitly, so that it must exist.
    pub(super) own_dir: bool,
    pub(super) deaf: bool,
    pub(super) manners: Manners,
    /// Host name of a node's process that is not in a container.
    pub(super) machine: Option<&'a CStr>,
    /// Host name of the first process of a container.
    pub(super) hostname: Option<&'a CStr>,
    /// The first process of the container that it joins.
    pub(super) first: Option<BorrowedFd<'a>>,
    /// The process's restricted rights; `None` to keep all of the engine's.
    pub(super) confined: Option<Prepared>,
}

/// Step at which the child failed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Session,
    Terminal,
    Cgroup,
    NetNs,
    Mounts,
    Proc,
    Parent,
    Dir,
    /// The working directory is not a folder that it can see.
    Outside,
    Streams,
    Deaf,
    /// A step of a container's first process, or of one that joins it.
    Container(&'static str),
    Machine,
    Confined(Step),
    Exec,
}

impl Stage {
    /// Returns a description of the failed step.
    pub(super) fn words(self, program: &str) -> String {
        match self {
            Stage::Container(what) => format!("{what} for {program}"),
            Stage::Confined(step) => format!("{} {program}", step.words()),
            Stage::Exec => format!("execute {program}"),
            Stage::Streams => format!("connect the streams of {program}"),
            Stage::Cgroup => format!("put {program} into the lab's cgroups"),
            Stage::NetNs => format!("put {program} into its network namespace"),
            Stage::Dir => format!("change the directory of {program}"),
            Stage::Outside => {
                format!("change the directory of {program}, which leads out of what it sees")
            }
            Stage::Deaf => format!("keep {program} from listening to netlink groups"),
            Stage::Session => format!("start a session for {program}"),
            Stage::Terminal => format!("give the terminal to {program}"),
            Stage::Mounts => format!("give {program} its view of the file system"),
            Stage::Proc => format!("mount /proc for {program}"),
            Stage::Machine => format!("give {program} the machine's name"),
            Stage::Parent => format!("bind the life of {program} to that of its parent"),
        }
    }
}

pub(super) enum Started {
    Running(Child),
    Failed(Stage, i32),
}

/// Data shared by the calling thread (which waits) and the child (until it executes).
struct Shared<'a> {
    plan: &'a Plan<'a>,
    failure: Option<(Stage, i32)>,
    /// Stack of a container's first process, separate from that of its mother process.
    stack: *mut c_void,
    pidfd: c_int,
}

const STACK_BYTES: usize = 64 * 1024;

/// Returns a stack for a child: 16-byte aligned, and far larger than needed.
fn stack() -> Vec<u128> {
    vec![0u128; STACK_BYTES / size_of::<u128>()]
}

/// Returns the top of a stack, which grows downwards.
fn top(stack: &mut [u128]) -> *mut c_void {
    stack.as_mut_ptr_range().end.cast()
}

impl Plan<'_> {
    pub(super) fn start(&self) -> Result<Started> {
        let is_first = self.hostname.is_some();
        let (mut outer, mut inner) = (stack(), Vec::new());
        if is_first {
            inner = stack();
        }
        let mut shared = Shared {
            plan: self,
            failure: None,
            stack: top(&mut inner),
            pidfd: -1,
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
        // SAFETY: the stacks are ours alone; the calling thread stays suspended (CLONE_VFORK) until the child has executed
        // or exited, so `shared` and everything it refers to outlive the child's use of them. The child runs `child` or
        // `mother`, which make system calls only. CLONE_PIDFD stores into `pidfd`.
        let pid = unsafe {
            libc::clone(
                if is_first { mother } else { child },
                top(&mut outer),
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
                    "start a process (the lab's init has ended, or its container's first process, or memory has)"
                }
                libc::EAGAIN => "start a process (no more are allowed)",
                _ => "start a process",
            };
            return Err(Error::os(what, std::io::Error::from_raw_os_error(failed)));
        }
        // SAFETY: the kernel has just opened this descriptor for us.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let mut born = Child::new(pid as u32, pidfd);
        // SAFETY: `shared` is live; volatile, since the compiler cannot see the child's writes.
        let (failure, first) = unsafe {
            let failure = (&raw const shared.failure).read_volatile();
            (failure, (&raw const shared.pidfd).read_volatile())
        };
        if is_first {
            // The mother process has ended, whether or not it could create the child.
            born.wait()?;
            if first >= 0 {
                // SAFETY: opened by the kernel in the table that the mother shared with us.
                let pidfd = unsafe { OwnedFd::from_raw_fd(first) };
                born = Child::new(number_of(&pidfd)?, pidfd);
            }
        }
        // A thread whose children start in another namespace could not start threads.
        back?;
        match failure {
            None => Ok(Started::Running(born)),
            Some((stage, errno)) => {
                // It has exited: reap it.
                born.wait()?;
                Ok(Started::Failed(stage, errno))
            }
        }
    }

    /// The child's steps. Returns only on failure.
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
        // The child is the leader of a group of its own, which gets its own signals, also from a terminal.
        call!(Stage::Session, libc::setsid());
        if self.manners != Manners::Apart {
            call!(
                Stage::Parent,
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)
            );
        }
        if let Some(fd) = self.netns {
            call!(Stage::NetNs, libc::setns(fd, libc::CLONE_NEWNET));
        }
        if let Some(first) = self.first {
            let joined = libc::CLONE_NEWUTS | libc::CLONE_NEWIPC;
            let stage = Stage::Container("enter the container");
            call!(stage, libc::setns(first.as_raw_fd(), joined));
        }
        if let Some(machine) = self.machine {
            call!(Stage::Machine, libc::unshare(libc::CLONE_NEWUTS));
            let length = machine.to_bytes().len();
            call!(Stage::Machine, libc::sethostname(machine.as_ptr(), length));
        }
        if self.alone {
            // SAFETY: as above. From here on the table of descriptors is the child's own, with the standard streams.
            // Older kernels do not have this call, and copy the whole table.
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
        // Before the mounts, which may hide these files.
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
        if let Some(terminal) = self.terminal {
            call!(Stage::Terminal, libc::ioctl(terminal, libc::TIOCSCTTY, 0));
        }
        if let Err(failure) = self.go_in() {
            return failure;
        }
        // Before any path of the node is used: it may lead to `/proc/self/fd`. The engine's namespaces, sockets and
        // locks must not live on in its children either, even if some code opened them without O_CLOEXEC.
        let mut kept = [-1; CGROUPS_MAX + 1];
        kept[..CGROUPS_MAX].copy_from_slice(&groups);
        kept[CGROUPS_MAX] = self.first.map_or(-1, |first| first.as_raw_fd());
        close_all_but(kept);
        if let Some(hostname) = self.hostname
            && let Err((what, errno)) = first::set_up(hostname)
        {
            return (Stage::Container(what), errno);
        }
        if let Err(failure) = self.go_to_dir() {
            return failure;
        }
        default_signals();
        if self.manners == Manners::Init {
            // SAFETY: as above.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        }
        if self.deaf
            && let Err(errno) = deaf::enter()
        {
            return (Stage::Deaf, errno);
        }
        // Last: from here on the child competes for a processor with all others of its group, and the calling thread
        // waits for it.
        for fd in groups.into_iter().filter(|fd| *fd >= 0) {
            call!(
                Stage::Cgroup,
                libc::write(fd, c"0".as_ptr().cast(), 1) as c_int
            );
        }
        if let Err(failure) = self.confine() {
            return failure;
        }
        // No descriptor of ours remains at a number that a program's path or interpreter could name.
        close_all_but([-1; CGROUPS_MAX + 1]);
        let mut why = libc::ENOENT;
        for program in &self.programs {
            // SAFETY: as above.
            unsafe { libc::execve(program.as_ptr(), self.argv.as_ptr(), self.env.as_ptr()) };
            match errno() {
                libc::ENOENT | libc::ENOTDIR => {}
                // A later program of that name may be executable.
                libc::EACCES => why = libc::EACCES,
                errno => return (Stage::Exec, errno),
            }
        }
        (Stage::Exec, why)
    }

    /// In the child: enters the namespace of control groups, and gives up rights.
    fn confine(&self) -> std::result::Result<(), (Stage, i32)> {
        // SAFETY: system calls on numbers.
        let entered = unsafe {
            match self.first {
                Some(first) => libc::setns(first.as_raw_fd(), libc::CLONE_NEWCGROUP),
                None if self.hostname.is_some() => libc::unshare(libc::CLONE_NEWCGROUP),
                None => 0,
            }
        };
        if entered < 0 {
            let what = "make a namespace of control groups";
            return Err((Stage::Container(what), errno()));
        }
        let Some(confined) = &self.confined else {
            return Ok(());
        };
        let taken_on = confined.take_on();
        taken_on.map_err(|(step, errno)| (Stage::Confined(step), errno))?;
        if self.manners != Manners::Attached {
            return Ok(());
        }
        // A change of the user clears this setting, so it is set again.
        // SAFETY: as above.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
            0.. => Ok(()),
            _ => Err((Stage::Parent, errno())),
        }
    }

    /// In the child: enters its view of the file system, and mounts `/proc` for an init.
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
        Ok(())
    }

    fn go_to_dir(&self) -> std::result::Result<(), (Stage, i32)> {
        let Some(dir) = self.dir else { return Ok(()) };
        // SAFETY: a system call on a live string.
        let there = match unsafe { libc::chdir(dir.as_ptr()) } {
            0.. if is_inside() => return Ok(()),
            0.. => (Stage::Outside, libc::EACCES),
            _ => (Stage::Dir, errno()),
        };
        // SAFETY: as above.
        match self.own_dir || unsafe { libc::chdir(c"/".as_ptr()) } < 0 {
            true => Err(there),
            false => Ok(()),
        }
    }
}

/// In the child, whose table of descriptors is its own: closes all except the standard streams and these; -1 stands for
/// none.
fn close_all_but(mut kept: [RawFd; CGROUPS_MAX + 1]) {
    kept.sort_unstable();
    let mut from = 3;
    for fd in kept.into_iter().filter(|fd| *fd >= 3) {
        close_range(from, fd - 1);
        from = fd + 1;
    }
    close_range(from, RawFd::MAX);
}

/// Closes a range of descriptors, both ends included.
fn close_range(from: RawFd, to: RawFd) {
    if from > to {
        return;
    }
    // SAFETY: a system call on numbers.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
    if closed >= 0 {
        return;
    }
    // Kernels before 5.9 do not have this call.
    // SAFETY: plain values on our stack, and system calls on numbers.
    unsafe {
        let mut most: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut most);
        let end = RawFd::try_from(most.rlim_cur).unwrap_or(RawFd::MAX);
        for fd in from..=to.min(end) {
            libc::close(fd);
        }
    }
}

/// Returns whether the working directory is below the root. For one that is not, the kernel returns a text instead of a
/// path.
fn is_inside() -> bool {
    let mut path = [0u8; libc::PATH_MAX as usize];
    // The system call itself: the C library's `getcwd` would search for the directory.
    // SAFETY: the buffer has the given length.
    let said = unsafe { libc::syscall(libc::SYS_getcwd, path.as_mut_ptr(), path.len()) };
    said > 0 && path[0] == b'/'
}

extern "C" fn child(arg: *mut c_void) -> c_int {
    // SAFETY: `arg` is the `Shared` of the suspended calling thread, which does not use it until then.
    let shared = unsafe { &mut *arg.cast::<Shared<'_>>() };
    let failure = shared.plan.carry_out();
    // SAFETY: a valid place; volatile, since the reader is another task.
    unsafe {
        (&raw mut shared.failure).write_volatile(Some(failure));
        // Not `exit`: the engine's exit handlers are not ours to run.
        libc::_exit(127)
    }
}

/// Runs in the process namespace of the lab, for a moment: it creates a container's first process, as a child of the
/// calling thread. The calling thread cannot do that itself: it is in a different process namespace than its children
/// start in, and the kernel creates a new one only inside the caller's own.
extern "C" fn mother(arg: *mut c_void) -> c_int {
    // SAFETY: `arg` is the `Shared` of the suspended calling thread, which does not use it until then.
    let shared = unsafe { &mut *arg.cast::<Shared<'_>>() };
    let flags = libc::CLONE_VM
        | libc::CLONE_VFORK
        | libc::CLONE_FILES
        | libc::CLONE_PARENT
        | libc::CLONE_NEWPID
        | libc::CLONE_PIDFD
        | libc::SIGCHLD;
    // SAFETY: as in `Plan::start`. This process is suspended until its child has executed or exited.
    unsafe {
        let stack = shared.stack;
        let pidfd = &raw mut shared.pidfd;
        if libc::clone(child, stack, flags, arg, pidfd) < 0 {
            let failure = (Stage::Container("make a process namespace"), errno());
            (&raw mut shared.failure).write_volatile(Some(failure));
        }
        libc::_exit(0)
    }
}

/// Returns the number of a process in this process's namespace.
pub(crate) fn number_of(pidfd: &OwnedFd) -> Result<u32> {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let text = std::fs::read_to_string(&path).context(|| format!("read {path}"))?;
    let number = text.lines().find_map(|line| line.strip_prefix("Pid:"));
    number
        .and_then(|number| number.trim().parse().ok())
        .ok_or_else(|| Error::Protocol {
            what: "ask for the number of a process".to_owned(),
            detail: text.clone(),
        })
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

/// Sets all signals to their defaults and unblocks them (Rust programs ignore SIGPIPE, and a child would inherit that).
pub(super) fn default_signals() {
    // By system call: the C library would refuse its own two signals, which may be ignored as well. All zero means
    // "default action, no flags, empty mask", in the kernel's layout on every machine.
    let default = [0u64; 4];
    // SAFETY: plain values on our stack. KILL and STOP return an error that does not matter. In a child that shares our
    // memory, the table of handlers is its own.
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
