//! The program's life: it starts with the first topology, reloads after each change, and its end ends this process.

use std::convert::Infallible;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::str::FromStr;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use crate::error::Fault;
use crate::files::Files;
use crate::told::Documents;

/// Signals that are forwarded to the program.
const FORWARDED: [(i32, Signal); 3] = [
    (SIGTERM, Signal::TERM),
    (SIGINT, Signal::INT),
    (SIGHUP, Signal::HUP),
];

/// A command that makes the program read its configuration again.
#[derive(Debug, Clone)]
pub(crate) struct Reload(Vec<String>);

impl FromStr for Reload {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.split_whitespace().map(str::to_owned).collect()))
    }
}

/// Signals as sockets that become readable, for `poll`.
struct Signals {
    children: UnixStream,
    forwarded: Vec<(UnixStream, Signal)>,
}

impl Signals {
    fn catch() -> Result<Self, Fault> {
        let pipe = |signal: i32| -> Result<UnixStream, Fault> {
            let doing = || "catch signals".to_owned();
            let (read, write) = UnixStream::pair().map_err(Fault::io(doing()))?;
            read.set_nonblocking(true).map_err(Fault::io(doing()))?;
            let caught = signal_hook::low_level::pipe::register(signal, write);
            caught.map_err(Fault::io(doing()))?;
            Ok(read)
        };
        let forwarded = FORWARDED.map(|(number, signal)| Ok((pipe(number)?, signal)));
        Ok(Self {
            children: pipe(SIGCHLD)?,
            forwarded: forwarded.into_iter().collect::<Result<_, Fault>>()?,
        })
    }
}

/// Empties the pipe and returns whether it contained anything.
fn drained(mut pipe: &UnixStream) -> bool {
    let mut any = false;
    let mut buffer = [0; 64];
    while pipe.read(&mut buffer).is_ok_and(|n| n > 0) {
        any = true;
    }
    any
}

/// Runs from the first topology until the program ends. Returns the program's exit code: 128 plus the signal's number
/// if a signal ended it.
pub(crate) fn live(
    told: &Documents,
    files: &Files,
    reload: Option<&Reload>,
    program: &[String],
) -> Result<ExitCode, Fault> {
    let signals = Signals::catch()?;
    let mut running: Option<Pid> = None;
    // Changes that arrive while the documents are read wake this loop again.
    told.drain_changes()?;
    loop {
        if let Some(documents) = told.read()? {
            let changed = files.write(&documents)?;
            match running {
                None => running = Some(start(program)?),
                Some(program) if changed => have_reloaded(program, reload)?,
                Some(_) => {}
            }
        }
        loop {
            let news = wait_for(told, &signals)?;
            if let Some(code) = bury(&signals, running)? {
                return Ok(code);
            }
            for (pipe, signal) in &signals.forwarded {
                if drained(pipe) {
                    match running {
                        // The program may have ended; the next call of `bury` handles that.
                        Some(program) => {
                            let _ = kill_process(program, *signal);
                        }
                        None => return Ok(ExitCode::from(128 + signal.as_raw() as u8)),
                    }
                }
            }
            if news {
                told.drain_changes()?;
                break;
            }
        }
    }
}

/// Waits for any event. Returns whether the node's documents may have changed.
fn wait_for(told: &Documents, signals: &Signals) -> Result<bool, Fault> {
    let mut polls = vec![
        PollFd::from_borrowed_fd(told.changes(), PollFlags::IN),
        PollFd::new(&signals.children, PollFlags::IN),
    ];
    let others = signals.forwarded.iter();
    polls.extend(others.map(|(pipe, _)| PollFd::new(pipe, PollFlags::IN)));
    match poll(&mut polls, None) {
        Ok(_) | Err(Errno::INTR) => Ok(polls[0].revents().contains(PollFlags::IN)),
        Err(error) => Err(Fault::io("wait")(error)),
    }
}

/// Reaps ended processes, also the orphans of a container. Returns the exit code if the program is among them.
fn bury(signals: &Signals, program: Option<Pid>) -> Result<Option<ExitCode>, Fault> {
    if !drained(&signals.children) {
        return Ok(None);
    }
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if Some(pid) == program => return Ok(Some(code(status))),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(Errno::CHILD) => return Ok(None),
            Err(error) => return Err(Fault::io("wait for a program")(error)),
        }
    }
}

fn code(status: WaitStatus) -> ExitCode {
    let number = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    ExitCode::from(u8::try_from(number).unwrap_or(1))
}

/// Starts the program in a process group of its own, so that a terminal's signals reach it only once.
fn start(program: &[String]) -> Result<Pid, Fault> {
    let (name, arguments) = program.split_first().expect("clap asks for a program");
    let started = Command::new(name).args(arguments).process_group(0).spawn();
    let child = started.map_err(Fault::io(format!("start {name}")))?;
    Ok(Pid::from_child(&child))
}

/// Makes the program reload its files. A reload that fails is printed and tried again at the next change: the program
/// goes on with its old configuration.
fn have_reloaded(program: Pid, reload: Option<&Reload>) -> Result<(), Fault> {
    let Some((name, arguments)) = reload.and_then(|Reload(words)| words.split_first()) else {
        // The program may have ended; the next call of `bury` handles that.
        let _ = kill_process(program, Signal::HUP);
        return Ok(());
    };
    // `bury` reaps this child together with all others.
    match Command::new(name).args(arguments).spawn() {
        Ok(_) => {}
        Err(error) => eprintln!("constel-init: start {name}: {error}"),
    }
    Ok(())
}
