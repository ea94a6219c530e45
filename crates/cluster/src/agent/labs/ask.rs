//! Requests about a lab on several machines. Any process that reaches the store can send one to the machine that has the
//! node: a command of `constel`, which the agent there runs for its part of the lab.
//!
//! The requester writes it under `constel/labs/ask/LAB/NUMBER`, and the agent replies under `constel/labs/answer/NUMBER`
//! with the requester's lease. Both disappear with the requester, and the command ends with the request. The input and the
//! output of the command are stored beside them, in pieces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keys;
use super::lead::renew;
use super::pieces;
use super::shell::Keyboard;
use super::stream::{Pace, Receive, send};
use crate::agent::clocks::random_bytes;
use crate::store::{Error, Follow, LEASE, LeaseId, Result, Store, Txn};

/// The callback that gets the output of a command while it runs.
type Hear<'a> = &'a mut (dyn FnMut(&[u8]) + 'a);

/// Interval at which the end flag is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A command of `constel` without the lab's name, because the name differs between machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRequest {
    /// The machine that must run it.
    pub machine: String,
    /// The verb with its flags.
    pub verb: Vec<String>,
    /// The arguments after the lab's name.
    pub args: Vec<String>,
}

impl CommandRequest {
    /// Returns whether the output is sent while the command runs.
    pub(super) fn follows(&self) -> bool {
        self.verb.iter().any(|word| word == "--follow")
    }

    /// Returns whether the command is a shell on a terminal.
    pub(super) fn is_shell(&self) -> bool {
        self.verb.first().is_some_and(|verb| verb == "shell")
    }
}

/// A request as it is in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredRequest {
    pub(super) question: CommandRequest,
    /// The lease under which the reply is written.
    pub(super) lease: u64,
    /// Number of bytes of the command's input.
    pub(super) input: u64,
}

/// A reply as it is in the store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) exit: i32,
    /// Number of bytes of the command's standard output.
    pub(super) stdout: u64,
    pub(super) stderr: Vec<u8>,
    pub(super) cut: bool,
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandResult {
    /// Exit code, as a shell reports it.
    pub exit: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Whether the command wrote more than is returned.
    pub cut: bool,
}

/// Sends a request to a machine of a lab and waits for the result until `stop`. The command reads `input`. Returns `None` if
/// `stop` was set, or if the machine has no part of the lab.
///
/// # Errors
/// If the store cannot be reached.
pub fn ask(
    store: &Arc<dyn Store>,
    lab: &str,
    question: &CommandRequest,
    input: &[u8],
    stop: &AtomicBool,
) -> Result<Option<CommandResult>> {
    under_lease(store, stop, |number, has_ended| {
        wait(store, lab, (question, input), number, has_ended, None)
    })
}

/// Sends a request for a verb with `--follow` to a machine of a lab. `hear` gets the output while the command runs, until it
/// ends or `stop` is set.
///
/// # Errors
/// If the store cannot be reached.
pub fn follow(
    store: &Arc<dyn Store>,
    lab: &str,
    question: &CommandRequest,
    stop: &AtomicBool,
    hear: &mut dyn FnMut(&[u8]),
) -> Result<Option<CommandResult>> {
    under_lease(store, stop, |number, has_ended| {
        wait(store, lab, (question, &[]), number, has_ended, Some(hear))
    })
}

/// Opens a shell on a terminal on that machine. Keys go there, and `hear` gets the output of the terminal, until it ends or
/// `stop` is set.
///
/// # Errors
/// If the store cannot be reached.
pub fn shell(
    store: &Arc<dyn Store>,
    lab: &str,
    question: &CommandRequest,
    stop: &AtomicBool,
    keyboard: &mut (dyn Keyboard + Send),
    hear: &mut dyn FnMut(&[u8]),
) -> Result<Option<CommandResult>> {
    under_lease(store, stop, |number, has_ended| {
        let typed = keys::typed(number.0);
        let wanted = AtomicBool::new(true);
        thread::scope(|scope| {
            scope.spawn(|| {
                let from = super::shell::Typed::new(keyboard, &wanted);
                // An error means that the other end is gone, which the thread that waits for the output notices.
                let _ = send(
                    store.as_ref(),
                    (&typed, number.1),
                    Pace::TERMINAL,
                    from,
                    &wanted,
                );
            });
            let said = wait(store, lab, (question, &[]), number, has_ended, Some(hear));
            // The thread that reads the keyboard ends at its next turn.
            wanted.store(false, Ordering::Release);
            said
        })
    })
}

/// Sends a request under a lease that is renewed until the end. Request and reply disappear with the lease.
fn under_lease(
    store: &Arc<dyn Store>,
    stop: &AtomicBool,
    ask: impl FnOnce((&str, LeaseId), &dyn Fn() -> bool) -> Result<Option<CommandResult>>,
) -> Result<Option<CommandResult>> {
    // Many users may send requests at the same time, so each takes a number that no other has.
    let number = format!("{:016x}", u64::from_be_bytes(random_bytes()?));
    let lease = store.grant(LEASE)?;
    let (over, lost) = (AtomicBool::new(false), AtomicBool::new(false));
    let said = thread::scope(|scope| {
        // Commands such as `shell` take longer than a lease lasts.
        scope.spawn(|| renew(store.as_ref(), lease.id, lease.ttl, &over, &lost));
        let said = ask((&number, lease.id), &|| {
            stop.load(Ordering::Acquire) || lost.load(Ordering::Acquire)
        });
        over.store(true, Ordering::Release);
        said
    });
    let _ = store.revoke(lease.id);
    said
}

fn wait(
    store: &Arc<dyn Store>,
    lab: &str,
    (question, input): (&CommandRequest, &[u8]),
    (number, lease): (&str, LeaseId),
    has_ended: &dyn Fn() -> bool,
    mut hear: Option<Hear<'_>>,
) -> Result<Option<CommandResult>> {
    let place = keys::answer(number);
    // The watches begin before the request is written, so that no early reply is missed.
    let mut answers = Follow::new(Arc::clone(store), &place)?;
    let mut pieces_of = match hear {
        Some(_) => Some(Receive::new(store, keys::output(number))?),
        None => None,
    };
    let asked = StoredRequest {
        question: question.clone(),
        lease: lease.0,
        input: input.len() as u64,
    };
    // The input comes before the request, because the machine reads it as soon as it finds the request.
    pieces::put(store.as_ref(), &keys::input(number), 0, input, lease)?;
    let text = serde_json::to_vec(&asked).map_err(|e| Error::Invalid(e.to_string()))?;
    let key = format!("{}{number}", keys::asks(lab));
    store.commit(&Txn::new().put_leased(key, text, lease))?;
    let part = keys::part(lab, &question.machine);
    let mut looks = 0_u32;
    let mut is_gone = false;
    while !has_ended() {
        let mut answer = answers.known().get(&place).map(|entry| entry.value.clone());
        if is_gone && answer.is_none() {
            // The machine may have replied just before its part went. The watch may not have reported that yet.
            answer = store.get(&place)?.map(|entry| entry.value);
        }
        if let Some(answer) = answer {
            let answer: Answer = serde_json::from_slice(&answer)
                .map_err(|error| Error::Answer(error.to_string()))?;
            // The last pieces may have arrived after the latest read.
            if let Some((pieces, hear)) = pieces_of.as_mut().zip(hear.as_mut()) {
                pieces.rest(hear)?;
            }
            let stdout = pieces::get(store.as_ref(), &keys::output(number), 0, answer.stdout)?;
            return Ok(Some(CommandResult {
                exit: answer.exit,
                stdout,
                stderr: answer.stderr,
                cut: answer.cut,
            }));
        }
        if is_gone {
            return Ok(None);
        }
        match pieces_of.as_mut().zip(hear.as_mut()) {
            Some((pieces, hear)) => {
                pieces.next(LOOK_EVERY, hear);
                let _ = answers.next(Duration::ZERO);
            }
            None => {
                let _ = answers.next(LOOK_EVERY);
            }
        }
        looks += 1;
        // A machine whose part is gone never replies. Reading the key costs a request, so this happens at every 20th turn
        // only.
        is_gone = looks.is_multiple_of(20) && store.get(&part)?.is_none();
    }
    Ok(None)
}
