//! A command in a node on behalf of whoever called: `constel exec` and `constel shell`.
//!
//! The command is born into the lab's process namespace, which a running process cannot enter itself. So it is a child
//! that shares the caller's terminal, and the caller stays for it: passes signals on, stops when it stops, ends as it
//! ends.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use super::child::{Child, Exit};
use super::confine::Confinement;
use super::spawn::Spawn;
use crate::cgroup::LabCgroup;
use crate::enclosure::{Inside, View};
use crate::error::{Context, Error, Result};
use crate::ident::ProcessIdent;
use crate::netns::NetNs;

/// Where to enter, and as what.
#[derive(Debug)]
pub struct Entry {
    /// Lab name, for the mark.
    pub lab: String,
    /// Node name, for the mark.
    pub node: String,
    /// The process that runs the lab ([`crate::claim::LabRecord::owner`]): when it is gone,
    /// cleaning up ends this one too.
    pub owner: ProcessIdent,
    /// The node's network namespace: open it with [`NetNs::open`] on the path that the engine
    /// gives ([`NetNs::proc_path`]).
    pub netns: NetNs,
    /// What the node's programs see.
    pub within: Within,
    /// The lab's cgroups, whose limits it is under.
    pub cgroups: Vec<LabCgroup>,
    /// Variables beside the caller's own environment.
    pub env: Vec<(OsString, OsString)>,
}

/// What a command in a node sees, and what it may do.
#[derive(Debug)]
pub enum Within {
    /// What the node's programs see of the host ([`View::open`]). The command has the caller's rights and environment.
    View(View),
    /// The container that the node is ([`Inside::open`]).
    Container {
        /// What is in it.
        inside: Inside,
        /// What programs may do there.
        confinement: Confinement,
        /// Where they begin.
        workdir: PathBuf,
    },
}

impl Within {
    /// What is seen there.
    #[must_use]
    pub fn view(&self) -> &View {
        match self {
            Within::View(view) => view,
            Within::Container { inside, .. } => inside.view(),
        }
    }
}

/// Signals that are the command's, when somebody sends them to the caller.
const PASSED_ON: [i32; 6] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Whose process group a command is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The caller's, with whatever else is in it: the other commands of a pipe, the script that calls it. Where there is nothing else,
    /// as for who types a command that reads and writes there, its own.
    Callers,
    /// Its own, to which the terminal talks while it runs, if it talked to the caller's. A shell that starts jobs needs one:
    /// the caller's has no number in the lab's process namespace, and there dash ends with an error of its own in place of the exit
    /// code it was told.
    Own,
}

/// Runs the command in the node with the caller's streams, terminal and, where the node has it, working directory, and
/// waits for its end. It ends with the calling thread.
///
/// # Errors
/// [`Error::Invalid`] for a command that does not exist, [`Error::Os`] naming the step that kept it from running.
pub fn run_inside(entry: Entry, argv: &[OsString], group: Group) -> Result<Exit> {
    if argv.is_empty() {
        return Err(Error::Invalid("no command to execute was given".into()));
    }
    // Before there is a child whose end could be missed.
    let signals = blocked()?;
    let terminal = has_terminal();
    let in_front = terminal && (group == Group::Own || is_alone());
    let spawn = spawn_in(&entry, argv);
    let spawn = if in_front { spawn.in_front() } else { spawn };
    let child = spawn.start();
    // Holding the node's namespaces would keep them when the lab goes down.
    drop(entry);
    let exit = child.and_then(|child| wait(&child, &signals, in_front));
    // A shell that ends leaves it to its own group, and cannot name ours from inside to give it back; nor does who could not be started.
    if terminal {
        // SAFETY: a number of our own.
        give_terminal_to(unsafe { libc::getpgrp() });
    }
    exit
}

/// A command to be started in the node, in the caller's session and with its streams.
pub(super) fn spawn_in<'a>(entry: &'a Entry, argv: &[OsString]) -> Spawn<'a> {
    let spawn = Spawn::new(&entry.lab, argv)
        .attached()
        .owner(&entry.owner)
        .node(&entry.node)
        .netns(&entry.netns);
    let spawn = match &entry.within {
        Within::View(view) => spawn.view(view),
        Within::Container {
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

/// Whether this process's group is the one that its terminal talks to.
fn has_terminal() -> bool {
    // SAFETY: system calls on numbers; where there is no terminal the first answers -1.
    unsafe { libc::tcgetpgrp(libc::STDIN_FILENO) == libc::getpgrp() }
}

/// Whether this process is a job of its own: no script's and, between two terminals, no pipe's.
fn is_alone() -> bool {
    // SAFETY: system calls on numbers.
    let leads = unsafe { libc::getpgrp() == libc::getpid() };
    leads && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Blocks the signals that the caller waits for.
fn blocked() -> Result<libc::sigset_t> {
    // SAFETY: plain values on our stack, initialised by the calls.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in PASSED_ON.into_iter().chain([libc::SIGCHLD]) {
            libc::sigaddset(&raw mut set, signal);
        }
        if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(Error::last_os("block signals"));
        }
        Ok(set)
    }
}

fn wait(child: &Child, signals: &libc::sigset_t, in_front: bool) -> Result<Exit> {
    let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    loop {
        if let Some(exit) = child.try_wait()? {
            return Ok(exit);
        }
        if let Ok(Some(_)) = waitid(WaitId::PidFd(child.as_fd()), stopped) {
            // As the shell that called us expects of a job.
            rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)
                .context(|| "stop".to_owned())?;
            if in_front && has_terminal() {
                give_terminal_to(child.pid().cast_signed());
            }
            pidfd_send_signal(child, Signal::CONT).context(|| "continue".to_owned())?;
        }
        // SAFETY: a mask that is live, and a place for the answer.
        let (signal, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            (libc::sigwaitinfo(signals, &raw mut info), info)
        };
        // What a terminal sends it sends to the command as well.
        if PASSED_ON.contains(&signal) && info.si_code != libc::SI_KERNEL {
            let sent =
                Signal::from_named_raw(signal).map(|signal| pidfd_send_signal(child, signal));
            match sent {
                None | Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => {}
                Some(Err(error)) => return Err(error).context(|| "pass a signal on".to_owned()),
            }
        }
    }
}

/// The terminal talks to this process group from now on.
fn give_terminal_to(group: libc::pid_t) {
    // SAFETY: system calls on numbers and masks on our stack; an error changes nothing.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTTOU);
        // Whoever is in the background is stopped for it.
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        libc::tcsetpgrp(libc::STDIN_FILENO, group);
    }
}
