//! The program and the changes around it: started when there is a topology, told when there is another, ended with.

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
use crate::told::Told;

/// Signals that are the program's.
const FORWARDED: [(i32, Signal); 3] = [
    (SIGTERM, Signal::TERM),
    (SIGINT, Signal::INT),
    (SIGHUP, Signal::HUP),
];

/// A command that has the program read its configuration anew.
#[derive(Debug, Clone)]
pub(crate) struct Reload(Vec<String>);

impl FromStr for Reload {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.split_whitespace().map(str::to_owned).collect()))
    }
}

/// Signals as something that becomes readable.
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

/// Whether there was anything to read.
fn drained(mut pipe: &UnixStream) -> bool {
    let mut any = false;
    let mut buffer = [0; 64];
    while pipe.read(&mut buffer).is_ok_and(|n| n > 0) {
        any = true;
    }
    any
}

/// From the first topology to the program's end, whose exit code is given: 128 and the signal's number, if one ended it.
pub(crate) fn live(
    told: &Told,
    files: &Files,
    reload: Option<&Reload>,
    program: &[String],
) -> Result<ExitCode, Fault> {
    let signals = Signals::catch()?;
    let mut running: Option<Pid> = None;
    // What comes while it is being read wakes this up again.
    told.look_anew()?;
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
                        // It may have ended; that is seen next.
                        Some(program) => {
                            let _ = kill_process(program, *signal);
                        }
                        None => return Ok(ExitCode::from(128 + signal.as_raw() as u8)),
                    }
                }
            }
            if news {
                told.look_anew()?;
                break;
            }
        }
    }
}

/// Waits for anything; whether the node was told something.
fn wait_for(told: &Told, signals: &Signals) -> Result<bool, Fault> {
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

/// Waits for those that have ended, orphans of a container too; the exit code, if the program is among them.
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

/// Starts it in a group of its own, so that a terminal's signals come to it once.
fn start(program: &[String]) -> Result<Pid, Fault> {
    let (name, arguments) = program.split_first().expect("clap asks for a program");
    let started = Command::new(name).args(arguments).process_group(0).spawn();
    let child = started.map_err(Fault::io(format!("start {name}")))?;
    Ok(Pid::from_child(&child))
}

/// A reload that fails is said, and tried again with the next change: the program runs with what it had.
fn have_reloaded(program: Pid, reload: Option<&Reload>) -> Result<(), Fault> {
    let Some((name, arguments)) = reload.and_then(|Reload(words)| words.split_first()) else {
        // It may have ended; that is seen next.
        let _ = kill_process(program, Signal::HUP);
        return Ok(());
    };
    // It is waited for with all others.
    match Command::new(name).args(arguments).spawn() {
        Ok(_) => {}
        Err(error) => eprintln!("constel-init: start {name}: {error}"),
    }
    Ok(())
}
