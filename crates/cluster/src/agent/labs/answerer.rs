//! An agent's side of requests: the parts of labs on this machine, and the commands that run for each.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::channel;
use crate::store::Revision;

/// Interval at which a waiting request looks again.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Maximum time that a request waits for the machine to take a part of the lab.
const TAKEN_WITHIN: Duration = Duration::from_secs(1);
/// Maximum time that commands which follow the lab get to read its last events.
const LAST_EVENTS_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of commands that run in parallel for one part.
const MOST_AT_ONCE: usize = 32;

/// Allowed verbs: those that only read, and those that act in a node.
const VERBS: [&str; 10] = [
    "capture", "cp", "events", "exec", "info", "link", "network", "path", "routes", "shell",
];

/// The parts about which this agent answers requests.
pub(crate) struct Answering {
    /// The program that answers: `constel`.
    program: PathBuf,
    /// The file of this process, if it is that program: by this path the kernel executes the read-only mount that this
    /// process was executed from, and the new process need not make one for itself.
    own: Option<PathBuf>,
    parts: Mutex<BTreeMap<String, Part>>,
}

struct Part {
    /// The revision of its order: a lab may run again under the same name.
    order: Revision,
    /// The lab's name on this machine, once its nodes exist.
    called: Option<String>,
    running: Vec<Arc<Running>>,
}

/// A command that runs, or waits for the nodes.
pub(super) struct Running {
    /// Cleared when the command must end.
    pub(super) wanted: AtomicBool,
    /// Set when it has ended, and its requester has the result.
    done: AtomicBool,
    /// Whether it follows the lab to its end.
    follows: bool,
}

/// The place of a command among those of its part. It is free again when this is dropped.
pub(super) struct Place(pub(super) Arc<Running>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.done.store(true, Ordering::Release);
    }
}

/// Why a command does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotRun {
    /// This machine has no part of the lab.
    NoPart,
    /// The reason, for the user.
    Refused(String),
}

impl Answering {
    pub(crate) fn new(program: PathBuf) -> Self {
        let is_own = constel_host::sealed::own_program().is_ok_and(|own| own == program);
        let own = is_own.then(|| format!("/proc/{}/exe", std::process::id()).into());
        Self {
            program,
            own,
            parts: Mutex::default(),
        }
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<String, Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A shell is executed by another program, so that it cannot have the program's own name beside the path of this process's file.
    fn command(&self, is_shell: bool) -> Command {
        match &self.own {
            Some(own) if !is_shell => {
                let mut command = Command::new(own);
                command.arg0(&self.program);
                command
            }
            _ => Command::new(&self.program),
        }
    }

    /// Returns the program that answers a request and its place, as soon as the nodes exist. Waits as long as `is_awaited`.
    pub(super) fn admit(
        &self,
        asked: &channel::Command,
        is_awaited: impl Fn() -> bool,
    ) -> Result<(Command, Place), NotRun> {
        check(asked).map_err(NotRun::Refused)?;
        let until = Instant::now() + TAKEN_WITHIN;
        let mut place: Option<Place> = None;
        loop {
            let mut parts = self.parts();
            match (parts.get_mut(&asked.lab), &place) {
                (Some(part), _) => {
                    if place.is_none() {
                        place = Some(part.take_place(asked)?);
                    }
                    if let Some(called) = &part.called
                        && let Some(place) = place.take()
                    {
                        let mut command = self.command(asked.is_shell());
                        command.args(&asked.verb).arg(called).args(&asked.args);
                        return Ok((command, place));
                    }
                }
                // The part has ended in the meantime.
                (None, Some(_)) => return Err(NotRun::NoPart),
                (None, None) if Instant::now() > until => return Err(NotRun::NoPart),
                (None, None) => {}
            }
            drop(parts);
            if !is_awaited() {
                return Err(NotRun::NoPart);
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl Part {
    fn take_place(&mut self, asked: &channel::Command) -> Result<Place, NotRun> {
        self.running
            .retain(|running| !running.done.load(Ordering::Acquire));
        if self.running.len() >= MOST_AT_ONCE {
            let text = format!("{MOST_AT_ONCE} commands run there at a time, and no more");
            return Err(NotRun::Refused(text));
        }
        let running = Arc::new(Running {
            wanted: AtomicBool::new(true),
            done: AtomicBool::new(false),
            follows: asked.follows(),
        });
        self.running.push(Arc::clone(&running));
        Ok(Place(running))
    }
}

impl channel::Command {
    fn verb(&self) -> &str {
        self.verb.first().map_or("", String::as_str)
    }

    /// Returns whether the command ends with the lab, after the lab's last event.
    fn follows(&self) -> bool {
        self.verb.iter().any(|word| word == "--follow")
    }

    /// Returns whether the command is a shell on a terminal.
    pub(super) fn is_shell(&self) -> bool {
        self.verb() == "shell"
    }
}

fn check(asked: &channel::Command) -> Result<(), String> {
    let verb = asked.verb();
    // A user who can read the store could otherwise run any verb as root on this machine.
    if !VERBS.contains(&verb) {
        let verbs = VERBS.join(", ");
        return Err(format!(
            "'{verb}' cannot be sent to other machines: {verbs}"
        ));
    }
    if asked.follows() && verb != "events" {
        return Err(format!("'{verb}' is not followed from other machines"));
    }
    Ok(())
}

/// The part of a lab about which requests are answered, until this is dropped.
pub(crate) struct Answerer<'a> {
    answering: &'a Answering,
    lab: String,
    order: Revision,
}

impl<'a> Answerer<'a> {
    /// Begins to accept requests, which wait until the nodes exist.
    pub(crate) fn new(answering: &'a Answering, lab: &str, order: Revision) -> Self {
        let part = Part {
            order,
            called: None,
            running: Vec::new(),
        };
        let earlier = answering.parts().insert(lab.to_owned(), part);
        // The nodes of an earlier lab of the same name are going down.
        earlier.iter().for_each(|part| end(&part.running, |_| true));
        Self {
            answering,
            lab: lab.to_owned(),
            order,
        }
    }

    /// The nodes exist. `called` is the name of the lab on this machine.
    pub(crate) fn ready(&self, called: &str) {
        let mut parts = self.answering.parts();
        let part = parts.get_mut(&self.lab);
        if let Some(part) = part.filter(|part| part.order == self.order && part.called.is_none()) {
            part.called = Some(called.to_owned());
        }
    }

    /// Ends all commands because the lab has ended. Those that follow it end by themselves after its last event.
    pub(crate) fn end(&self) {
        let running = {
            let mut parts = self.answering.parts();
            match parts.get(&self.lab) {
                Some(part) if part.order == self.order => parts.remove(&self.lab),
                _ => None,
            }
        };
        let running = running.map_or(Vec::new(), |part| part.running);
        end(&running, |running| !running.follows);
        let until = Instant::now() + LAST_EVENTS_WITHIN;
        let reads_on = |running: &Arc<Running>| {
            running.follows
                && running.wanted.load(Ordering::Acquire)
                && !running.done.load(Ordering::Acquire)
        };
        while running.iter().any(reads_on) && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
        end(&running, |_| true);
    }
}

impl Drop for Answerer<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

fn end(running: &[Arc<Running>], of: fn(&Running) -> bool) {
    let ended = running.iter().filter(|running| of(running));
    ended.for_each(|running| running.wanted.store(false, Ordering::Release));
}
