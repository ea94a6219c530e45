//! Starting a process inside a namespace without copying the engine.
//!
//! `fork` in an engine with a large address space costs milliseconds per child, for page tables that `exec` discards.
//! The child here shares the engine's memory until it executes (as with `vfork`, the calling thread waits), so starting
//! costs the same at any size. Until then it makes only system calls, with arguments that were prepared before.

use std::ffi::{CString, OsStr, OsString, c_char, c_int};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::ptr;

use super::birth::{CGROUPS_MAX, Manners, Plan, Stage, Started, Stream};
use super::child::Child;
use super::confine::{Confinement, Prepared};
use super::marks::{LAB_VARIABLE, NODE_VARIABLE, OWNER_VARIABLE};
use super::{c_string, find_command};
use crate::cgroup::LabCgroup;
use crate::enclosure::{Inside, View};
use crate::error::{Context, Error, Result};
use crate::ident::ProcessIdent;
use crate::netns::NetNs;
use crate::node_file::{self, OpenMode};

/// Target of a standard stream.
#[derive(Debug, Default)]
pub enum Stdio {
    /// `/dev/null`.
    #[default]
    Null,
    /// The engine's own stream.
    Inherit,
    /// A new or emptied file, opened as in [`node_file`]: never an object that another process put in its place.
    Create(PathBuf),
    /// Append to a file, which is created if needed; opened in the same way.
    Append(PathBuf),
    /// Any descriptor: a pipe, or an open file.
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
    place: Surroundings<'a>,
    dir: Option<PathBuf>,
    stdio: [Stdio; 3],
    terminal: Option<RawFd>,
    deaf: bool,
    owner: Option<&'a ProcessIdent>,
    manners: Manners,
    confinement: Option<&'a Confinement>,
}

/// The processes and files that the process sees.
#[derive(Clone, Copy, Debug, Default)]
enum Surroundings<'a> {
    /// Those of the calling process.
    #[default]
    Host,
    /// Those of a node.
    View(&'a View),
    /// A process namespace that begins with it, and the mount namespace in which it mounts its `/proc`.
    Init(BorrowedFd<'a>),
    /// A new container in this view, with this host name.
    First(&'a View, &'a str),
    /// An existing container.
    Container(&'a Inside),
}

impl<'a> Spawn<'a> {
    /// Prepares a process. `argv[0]` is the command: a path, or a name to be found along the child's `PATH`.
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
            place: Surroundings::Host,
            dir: None,
            stdio: Default::default(),
            terminal: None,
            deaf: false,
            owner: None,
            manners: Manners::Apart,
            confinement: None,
        }
    }

    /// Makes the process receive no announcements of the kernel: binding a netlink socket, which joins its groups,
    /// fails with `EPERM`. The cost for its other system calls is negligible.
    pub fn deaf(mut self) -> Self {
        self.deaf = true;
        self
    }

    /// Sets the node that the process belongs to.
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

    /// Starts in this cgroup, with all processes that it will start; one in each hierarchy.
    pub fn cgroup(mut self, group: &'a LabCgroup) -> Self {
        assert!(self.cgroups.len() < CGROUPS_MAX, "one in each hierarchy");
        self.cgroups.push(group);
        self
    }

    /// Makes the process see processes and files as the node of this view does. Its host name is the [node's
    /// name](Self::node).
    pub fn view(mut self, view: &'a View) -> Self {
        self.place = Surroundings::View(view);
        self
    }

    /// Makes the process the first of a container. It sees files as this view does, and has its own namespaces of
    /// processes, host name, System V's and POSIX's queues and control groups, and the rights of the confinement. When
    /// it ends, all processes that it left behind there end. Its environment consists of the variables set from here
    /// on, and its working directory is `/` by default.
    pub fn first_of(
        mut self,
        view: &'a View,
        hostname: &'a str,
        confinement: &'a Confinement,
    ) -> Self {
        self.place = Surroundings::First(view, hostname);
        self.contained(confinement)
    }

    /// Makes the process join the first process of a container, with the container's environment and working directory.
    pub fn beside(mut self, inside: &'a Inside, confinement: &'a Confinement) -> Self {
        self.place = Surroundings::Container(inside);
        self.contained(confinement)
    }

    fn contained(mut self, confinement: &'a Confinement) -> Self {
        self.confinement = Some(confinement);
        self.dir = Some("/".into());
        self.env.clear();
        self
    }

    /// Makes the process the init of its own process namespace, whose `/proc` it mounts in this mount namespace; it
    /// ends with the calling thread.
    pub(crate) fn init_in(mut self, mounts: BorrowedFd<'a>) -> Self {
        self.place = Surroundings::Init(mounts);
        self.manners = Manners::Init;
        // The caller's working directory would keep its mount busy.
        self.dir = Some("/".into());
        self
    }

    /// Makes it share the caller's streams and environment; killed when the calling thread ends.
    pub(super) fn attached(mut self) -> Self {
        self.manners = Manners::Attached;
        self.stdio = [Stdio::Inherit, Stdio::Inherit, Stdio::Inherit];
        self.env = std::env::vars_os().collect();
        self
    }

    /// Marks the stream of that number as the terminal of its session.
    pub(super) fn terminal(mut self, number: RawFd) -> Self {
        self.terminal = Some(number);
        self
    }

    /// Sets the owner, by default the calling process.
    pub(super) fn owner(mut self, owner: &'a ProcessIdent) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Sets the working directory; by default the caller's, or `/` if the process cannot see that.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Sets standard input; by default `/dev/null`.
    pub fn stdin(mut self, s: Stdio) -> Self {
        self.stdio[0] = s;
        self
    }

    /// Sets standard output; by default `/dev/null`.
    pub fn stdout(mut self, s: Stdio) -> Self {
        self.stdio[1] = s;
        self
    }

    /// Sets standard error; by default `/dev/null`.
    pub fn stderr(mut self, s: Stdio) -> Self {
        self.stdio[2] = s;
        self
    }

    /// Starts the process, as leader of a session of its own, with all signals at their defaults and no descriptor of
    /// the engine except the standard streams. Returns once it executes the command.
    ///
    /// # Errors
    /// [`Error::Program`] for a command that does not exist or cannot be executed, [`Error::Os`] with the step at which
    /// the child failed. No process remains in either case.
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
        // A container's files are visible inside only.
        let programs = match self.place {
            Surroundings::First(..) | Surroundings::Container(_) => candidates(&name, search),
            _ => vec![find_command(&name, search)?],
        };
        let shown = match programs.as_slice() {
            [program] => program.display().to_string(),
            _ => format!("{} (found along {})", name.display(), search.display()),
        };
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
        // Open until the child has opened them again.
        let mut held = Vec::new();
        let streams = [
            prepare(i, 0, &mut held)?,
            prepare(o, 1, &mut held)?,
            prepare(e, 2, &mut held)?,
        ];
        let cgroups = self
            .cgroups
            .into_iter()
            .map(|group| c_string(group.procs()));
        let cgroups = cgroups.collect::<Result<Vec<_>>>()?;
        let mounts = match self.place {
            Surroundings::Host => None,
            Surroundings::View(view) => Some(view.mounts()),
            Surroundings::Init(mounts) => Some(mounts),
            Surroundings::First(view, _) => Some(view.mounts()),
            Surroundings::Container(inside) => Some(inside.view().mounts()),
        };
        let hostname = match self.place {
            Surroundings::First(_, hostname) => Some(c_string(hostname)?),
            _ => None,
        };
        // A node's name is at most as long as a label of the domain name system; the kernel permits one byte more.
        let machine = match self.place {
            Surroundings::View(_) => self.node.map(c_string).transpose()?,
            _ => None,
        };
        let first = match self.place {
            Surroundings::Container(inside) => Some(inside.first()),
            _ => None,
        };
        let mounts = mounts.map(descriptor_path).transpose()?;
        let own_dir = self.dir.is_some();
        let dir = match self.dir {
            Some(dir) => Some(dir),
            None if mounts.is_some() => std::env::current_dir().ok(),
            None => None,
        };
        let dir = dir.map(c_string).transpose()?;
        let plan = Plan {
            programs: programs.iter().map(c_string).collect::<Result<_>>()?,
            argv: pointers(&argv),
            env: pointers(&env),
            alone: first.is_none() && !streams.iter().any(|s| matches!(s, Some(Stream::Fd(_)))),
            streams,
            terminal: self.terminal,
            cgroups,
            netns: self.netns.map(|n| n.fd().as_raw_fd()),
            mounts: mounts.as_deref(),
            pids: match self.place {
                Surroundings::View(view) | Surroundings::First(view, _) => Some(view.pids()),
                Surroundings::Container(inside) => Some(inside.view().pids()),
                Surroundings::Host | Surroundings::Init(_) => None,
            },
            dir: dir.as_deref(),
            own_dir,
            deaf: self.deaf,
            manners: self.manners,
            machine: machine.as_deref(),
            hostname: hostname.as_deref(),
            first,
            confined: self.confinement.map(Prepared::new),
        };
        if plan.hostname.is_some() && !plan.alone {
            let reason = "the streams of a container's first process are files";
            return Err(Error::Invalid(reason.to_owned()));
        }
        let started = plan.start()?;
        drop(held);
        match started {
            Started::Running(child) => Ok(child.named(name.to_string_lossy().into_owned())),
            Started::Failed(stage, errno) => {
                let (what, why) = (
                    stage.words(&shown),
                    std::io::Error::from_raw_os_error(errno),
                );
                Err(match stage {
                    Stage::Exec => Error::Program {
                        said: format!("{what}: {why}"),
                        missing: matches!(errno, libc::ENOENT | libc::ENOTDIR),
                    },
                    _ => Error::os(what, why),
                })
            }
        }
    }
}

/// Returns the possible paths of a command: the path itself, or one in each folder of a search path.
fn candidates(name: &OsStr, search: &OsStr) -> Vec<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return vec![name.into()];
    }
    std::env::split_paths(search)
        .map(|folder| folder.join(name))
        .collect()
}

/// Returns a path by which the child opens a descriptor of the engine: its own table of descriptors is closed by then.
pub(super) fn descriptor_path(fd: BorrowedFd<'_>) -> Result<CString> {
    let (pid, fd) = (std::process::id(), fd.as_raw_fd());
    c_string(format!("/proc/{pid}/fd/{fd}"))
}

/// Prepares a stream; `None` leaves the engine's own in place.
fn prepare(s: Stdio, number: i32, held: &mut Vec<OwnedFd>) -> Result<Option<Stream>> {
    // The file is opened once here. The child opens it by this descriptor, because the path may name another file by
    // then.
    let mut file = |path: &Path, how: OpenMode, flags: c_int| {
        let fd = OwnedFd::from(node_file::open(path, how)?);
        let again = descriptor_path(fd.as_fd())?;
        held.push(fd);
        Ok::<_, Error>(Some(Stream::File(again, flags)))
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
        Stdio::Create(path) => file(&path, OpenMode::Create, libc::O_WRONLY),
        Stdio::Append(path) => file(&path, OpenMode::Append, libc::O_WRONLY | libc::O_APPEND),
        // A descriptor below 3 could be overwritten while the others are put in place.
        Stdio::Fd(fd) if fd.as_raw_fd() < 3 => {
            let up = rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 3)
                .context(|| "duplicate a descriptor".into())?;
            Ok(Some(Stream::Fd(up)))
        }
        Stdio::Fd(fd) => Ok(Some(Stream::Fd(fd))),
    }
}

/// Returns a NULL-terminated array of pointers into `strings`, which must outlive it.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr())
        .chain([ptr::null()])
        .collect()
}
