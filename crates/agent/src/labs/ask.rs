//! Questions about a lab on several machines, from whoever reaches the store to the machine that has the node: a command of
//! `constel` that its agent runs there, about the part that is there.
//!
//! Whoever asks puts it under `constel/labs/ask/LAB/NUMBER`; the agent answers under `constel/labs/answer/NUMBER` by the asker's
//! lease: both go with the asker, and with the question goes the command. What the command is to read and what it has written are beside
//! them, in pieces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use constel_store::{Error, Follow, LEASE, LeaseId, Result, Store, Txn};
use serde::{Deserialize, Serialize};

use super::keys;
use super::lead::renew;
use super::pieces;
use super::shell::Keyboard;
use super::stream::{Pace, Receive, send};
use crate::clocks::drawn_to_tell;

/// Who hears what a command says while it runs.
type Hear<'a> = &'a mut (dyn FnMut(&[u8]) + 'a);

/// How soon an end is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A command of `constel`, without the lab's name, which is another one on each machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The machine that is to run it.
    pub machine: String,
    /// The verb, and flags of it.
    pub verb: Vec<String>,
    /// What follows the lab's name.
    pub args: Vec<String>,
}

impl Question {
    /// Whether what the command says comes while it runs.
    pub(super) fn follows(&self) -> bool {
        self.verb.iter().any(|word| word == "--follow")
    }

    /// Whether it is a shell on a terminal.
    pub(super) fn is_shell(&self) -> bool {
        self.verb.first().is_some_and(|verb| verb == "shell")
    }
}

/// A question as it is in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) question: Question,
    /// By which lease to answer.
    pub(super) lease: u64,
    /// Bytes that the command is to read.
    pub(super) input: u64,
}

/// An answer as it is in the store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) exit: i32,
    /// Bytes of its standard output.
    pub(super) stdout: u64,
    pub(super) stderr: Vec<u8>,
    pub(super) cut: bool,
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// Its exit code, as a shell gives it.
    pub exit: i32,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Whether it wrote more than comes back.
    pub cut: bool,
}

/// Asks a machine of a lab, and waits for what it says, until `stop`; the command reads `input`. `None`: nobody waits any more, or the
/// part is not there.
///
/// # Errors
/// When the store cannot be asked.
pub fn ask(
    store: &Arc<dyn Store>,
    lab: &str,
    question: &Question,
    input: &[u8],
    stop: &AtomicBool,
) -> Result<Option<Said>> {
    under_lease(store, stop, |number, has_ended| {
        wait(store, lab, (question, input), number, has_ended, None)
    })
}

/// Asks a machine of a lab for a verb with `--follow`: what it says is heard while it runs, until it ends or `stop`.
///
/// # Errors
/// When the store cannot be asked.
pub fn follow(
    store: &Arc<dyn Store>,
    lab: &str,
    question: &Question,
    stop: &AtomicBool,
    hear: &mut dyn FnMut(&[u8]),
) -> Result<Option<Said>> {
    under_lease(store, stop, |number, has_ended| {
        wait(store, lab, (question, &[]), number, has_ended, Some(hear))
    })
}

/// Opens a shell on a terminal there: what is typed goes there, and what it shows is heard, until it ends or `stop`.
///
/// # Errors
/// When the store cannot be asked.
pub fn shell(
    store: &Arc<dyn Store>,
    lab: &str,
    question: &Question,
    stop: &AtomicBool,
    keyboard: &mut (dyn Keyboard + Send),
    hear: &mut dyn FnMut(&[u8]),
) -> Result<Option<Said>> {
    under_lease(store, stop, |number, has_ended| {
        let typed = keys::typed(number.0);
        let wanted = AtomicBool::new(true);
        thread::scope(|scope| {
            scope.spawn(|| {
                let from = super::shell::Typed::new(keyboard, &wanted);
                // The other end is gone: that is noticed by who waits for what it says.
                let _ = send(
                    store.as_ref(),
                    (&typed, number.1),
                    Pace::TERMINAL,
                    from,
                    &wanted,
                );
            });
            let said = wait(store, lab, (question, &[]), number, has_ended, Some(hear));
            wanted.store(false, Ordering::Release);
            said
        })
    })
}

/// Asks by a lease that is renewed meanwhile: what was asked and answered goes with it.
fn under_lease(
    store: &Arc<dyn Store>,
    stop: &AtomicBool,
    ask: impl FnOnce((&str, LeaseId), &dyn Fn() -> bool) -> Result<Option<Said>>,
) -> Result<Option<Said>> {
    let number = format!("{:016x}", u64::from_be_bytes(drawn_to_tell()?));
    let lease = store.grant(LEASE)?;
    let (over, lost) = (AtomicBool::new(false), AtomicBool::new(false));
    let said = thread::scope(|scope| {
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
    (question, input): (&Question, &[u8]),
    (number, lease): (&str, LeaseId),
    has_ended: &dyn Fn() -> bool,
    mut hear: Option<Hear<'_>>,
) -> Result<Option<Said>> {
    let place = keys::answer(number);
    let mut answers = Follow::new(Arc::clone(store), &place)?;
    let mut pieces_of = match hear {
        Some(_) => Some(Receive::new(store, keys::output(number))?),
        None => None,
    };
    let asked = Asked {
        question: question.clone(),
        lease: lease.0,
        input: input.len() as u64,
    };
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
            // It may have answered just before it went: the watch may not have reported that yet.
            answer = store.get(&place)?.map(|entry| entry.value);
        }
        if let Some(answer) = answer {
            let answer: Answer = serde_json::from_slice(&answer)
                .map_err(|error| Error::Answer(error.to_string()))?;
            if let Some((pieces, hear)) = pieces_of.as_mut().zip(hear.as_mut()) {
                pieces.rest(hear)?;
            }
            let stdout = pieces::get(store.as_ref(), &keys::output(number), 0, answer.stdout)?;
            return Ok(Some(Said {
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
        // A part that is gone answers nobody.
        is_gone = looks.is_multiple_of(20) && store.get(&part)?.is_none();
    }
    Ok(None)
}
