//! A command in a node on behalf of the caller: `constel exec` and `constel shell`.
//!
//! The command must start in the lab's process namespace, which a running process cannot enter itself. So it is a
//! child, in a session of its own. The caller stays while it runs: it passes signals on, copies input and output, and
//! ends with the same result.

use std::ffi::OsString;
use std::path::PathBuf;

use rustix::process::{Signal, pidfd_send_signal};

use super::callers::{Callers, Carrying};
use super::child::{Child, Exit};
use super::confine::Confinement;
use super::spawn::Spawn;
use crate::cgroup::LabCgroup;
use crate::enclosure::{Inside, View};
use crate::error::{Context, Error, Result};
use crate::ident::ProcessIdent;
use crate::netns::NetNs;

/// Node to enter, and identity of the command.
#[derive(Debug)]
pub struct Entry {
    /// Lab name, for the mark.
    pub lab: String,
    /// Node name, for the mark.
    pub node: String,
    /// The process that runs the lab ([`crate::claim::LabRecord::owner`]): when it is gone, cleaning up ends the
    /// command too.
    pub owner: ProcessIdent,
    /// The node's network namespace: open it with [`NetNs::open`] on the path that the engine provides
    /// ([`NetNs::proc_path`]).
    pub netns: NetNs,
    /// View or container of the node.
    pub within: ExecContext,
    /// The lab's cgroups, whose limits apply.
    pub cgroups: Vec<LabCgroup>,
    /// Variables in addition to the caller's own environment.
    pub env: Vec<(OsString, OsString)>,
}

/// View and rights of a command in a node.
#[derive(Debug)]
pub enum ExecContext {
    /// The view of the node's programs ([`View::open`]). The command has the caller's rights and environment.
    View(View),
    /// The node's container ([`Inside::open`]).
    Container {
        /// The container.
        inside: Inside,
        /// Rights of programs there.
        confinement: Confinement,
        /// Working directory of programs.
        workdir: PathBuf,
    },
}

impl ExecContext {
    /// Returns the file system view.
    #[must_use]
    pub fn view(&self) -> &View {
        match self {
            ExecContext::View(view) => view,
            ExecContext::Container { inside, .. } => inside.view(),
        }
    }
}

/// Signals that are passed to the command when the caller receives them.
const PASSED_ON: [i32; 6] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Signals for the caller itself: the command has ended, its terminal has another size, it continues after a stop.
const OWN: [i32; 3] = [libc::SIGCHLD, libc::SIGWINCH, libc::SIGCONT];

/// Runs the command in the node with the caller's streams and, if the node has it, working directory, and waits until
/// it ends. The command has a session and a process group of its own and, if the caller has a terminal, a terminal of
/// the node; a container gets copies of the caller's streams. It ends with the calling thread.
///
/// # Errors
/// [`Error::Program`] for a command that does not exist, [`Error::Os`] with the step that failed.
pub fn run_inside(entry: Entry, argv: &[OsString]) -> Result<Exit> {
    if argv.is_empty() {
        return Err(Error::Invalid("no command to execute was given".into()));
    }
    // Before there is a child whose end could be missed, or a thread that could receive a signal.
    let signals = blocked()?;
    let mut callers = Callers::look(&entry)?;
    let child = callers.give(spawn_in(&entry, argv)).start();
    // An open descriptor would keep the node's namespaces after the lab goes down.
    drop(entry);
    let child = child?;
    let carrying = callers.carry()?;
    let exit = wait(&child, &signals, &carrying);
    carrying.end();
    exit
}

/// Prepares a command in the node, by default with the caller's streams.
pub(super) fn spawn_in<'a>(entry: &'a Entry, argv: &[OsString]) -> Spawn<'a> {
    let spawn = Spawn::new(&entry.lab, argv)
        .attached()
        .owner(&entry.owner)
        .node(&entry.node)
        .netns(&entry.netns);
    let spawn = match &entry.within {
        ExecContext::View(view) => spawn.view(view),
        ExecContext::Container {
            inside,
            confinement,
            workdir,
        } => {
            let spawn = spawn.beside(inside, confinement).dir(workdir);
            let terminal = std::env::var_os("TERM");
            terminal
                .into_iter()
                .fold(spawn, |spawn, term| spawn.env("TERM", term))
        }
    };
    let spawn = entry.cgroups.iter().fold(spawn, Spawn::cgroup);
    let variables = entry.env.iter().cloned();
    variables.fold(spawn, |spawn, (key, value)| spawn.env(key, value))
}

/// Blocks the signals that the caller waits for.
fn blocked() -> Result<libc::sigset_t> {
    // SAFETY: plain values on our stack, initialised by the calls.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in PASSED_ON.into_iter().chain(OWN) {
            libc::sigaddset(&raw mut set, signal);
        }
        if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(Error::last_os("block signals"));
        }
        Ok(set)
    }
}

fn wait(child: &Child, signals: &libc::sigset_t, carrying: &Carrying) -> Result<Exit> {
    loop {
        // A stopped command may be continued in the node; the caller only handles its end.
        if let Some(exit) = child.try_wait()? {
            return Ok(exit);
        }
        // SAFETY: a mask that is live, and a place for the answer.
        let (signal, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            (libc::sigwaitinfo(signals, &raw mut info), info)
        };
        match signal {
            libc::SIGWINCH => carrying.resize(),
            libc::SIGCONT => carrying.go_on(),
            signal if PASSED_ON.contains(&signal) => {
                let Some(signal) = Signal::from_named_raw(signal) else {
                    continue;
                };
                // A signal from a terminal is for the whole job, one from a process is for the command.
                match info.si_code {
                    libc::SI_KERNEL => child.signal(signal)?,
                    _ => match pidfd_send_signal(child, signal) {
                        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                        Err(error) => return Err(error).context(|| "pass a signal on".to_owned()),
                    },
                }
            }
            _ => {}
        }
    }
}
