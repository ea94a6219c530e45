//! Requests about a lab on several machines. Any process that reaches the store can send one to the machine that has the
//! node: a command of `constel`, which the agent there runs for its part of the lab.
//!
//! The store has the machine's address and key. The command, its input and its output travel over one encrypted connection
//! to the agent. The command ends when the requester closes the connection.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::keys;
use super::shell::{Keyboard, type_keys};
use crate::agent::record::Record;
use crate::channel::{Command, Connection, Message, Sending, connect};
use crate::store::{Result, Store};

/// A machine that sends nothing for this long is looked up in the store, and again after as long.
const LOOKED_UP_AFTER: Duration = Duration::from_secs(1);

/// A command of `constel` without the lab's name, because the name differs between machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRequest {
    /// The machine that must run it.
    pub machine: String,
    /// The verb with its flags.
    pub verb: Vec<String>,
    /// The arguments after the lab's name.
    pub args: Vec<String>,
}

/// Some bytes that a command has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written<'a> {
    /// To its standard output.
    Output(&'a [u8]),
    /// To its standard error.
    Errors(&'a [u8]),
}

/// The end of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The command has ended, with this exit code, as a shell reports it.
    Exit(i32),
    /// The requester does not wait any more.
    Stopped,
    /// The machine does not answer, for this reason.
    Silent(String),
}

/// Sends a request to a machine of a lab. `hear` gets everything that the command writes, while it runs. Returns when the
/// command has ended, or after `stop` was set. The command reads `input`, on a thread that ends with the input or with this
/// process, because a read cannot be interrupted.
///
/// # Errors
/// If the store cannot be reached.
pub fn ask(
    store: &dyn Store,
    lab: &str,
    question: &CommandRequest,
    input: Box<dyn Read + Send>,
    stop: &AtomicBool,
    hear: &mut dyn FnMut(Written<'_>),
) -> Result<Reply> {
    let connection = match open(store, lab, question)? {
        Ok(connection) => connection,
        Err(silent) => return Ok(Reply::Silent(silent)),
    };
    let sending = Arc::clone(&connection.sending);
    thread::spawn(move || {
        // An error means that the other end is gone, which the thread that waits for the output notices.
        let _ = sending
            .send_all(input, Message::Input)
            .and_then(|()| sending.send(&Message::InputEnd));
    });
    wait(store, (lab, question), connection, stop, hear)
}

/// Opens a shell on a terminal on that machine. Keys go there, and `hear` gets the output of the terminal, until it ends or
/// `stop` is set.
///
/// # Errors
/// If the store cannot be reached.
pub fn shell(
    store: &dyn Store,
    lab: &str,
    question: &CommandRequest,
    stop: &AtomicBool,
    keyboard: &mut (dyn Keyboard + Send),
    hear: &mut dyn FnMut(Written<'_>),
) -> Result<Reply> {
    let connection = match open(store, lab, question)? {
        Ok(connection) => connection,
        Err(silent) => return Ok(Reply::Silent(silent)),
    };
    let sending = Arc::clone(&connection.sending);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| type_keys(&sending, keyboard, &over));
        let reply = wait(store, (lab, question), connection, stop, hear);
        // The thread that reads the keyboard ends at its next turn.
        over.store(true, Ordering::Release);
        reply
    })
}

/// Connects to the agent of the machine and sends the command, or returns the reason why the machine does not answer.
fn open(
    store: &dyn Store,
    lab: &str,
    question: &CommandRequest,
) -> Result<std::result::Result<Connection, String>> {
    let machine = &question.machine;
    let entry = store.get(&crate::agent::keys::record(machine))?;
    let record = entry.and_then(|entry| serde_json::from_slice::<Record>(&entry.value).ok());
    let Some(at) = record.and_then(|record| record.underlay) else {
        return Ok(Err(no_part(machine, lab)));
    };
    let command = Command {
        lab: lab.to_owned(),
        verb: question.verb.clone(),
        args: question.args.clone(),
    };
    let opened = connect(at.address, &at.key).and_then(|connection| {
        connection.sending.send(&Message::Command(command))?;
        Ok(connection)
    });
    Ok(opened.map_err(|error| unreached(machine, at.address, &error)))
}

fn no_part(machine: &str, lab: &str) -> String {
    format!("machine {machine} does not answer: its part of lab {lab} is not up (any more)")
}

fn unreached(machine: &str, address: SocketAddr, error: &io::Error) -> String {
    format!(
        "machine {machine} does not answer at {address}, TCP: {error}; commands go to the address of its agent's --underlay"
    )
}

/// Receives until the command has ended.
fn wait(
    store: &dyn Store,
    (lab, question): (&str, &CommandRequest),
    mut connection: Connection,
    stop: &AtomicBool,
    hear: &mut dyn FnMut(Written<'_>),
) -> Result<Reply> {
    let _closes = Closes(&connection.sending);
    let machine = &question.machine;
    let mut since = Instant::now();
    while !stop.load(Ordering::Acquire) {
        match connection.receiving.next() {
            Ok(Some(Message::Output(bytes))) => hear(Written::Output(&bytes)),
            Ok(Some(Message::Errors(bytes))) => hear(Written::Errors(&bytes)),
            Ok(Some(Message::Exit(code))) => return Ok(Reply::Exit(code)),
            Ok(Some(Message::NoPart)) => return Ok(Reply::Silent(no_part(machine, lab))),
            Ok(Some(_)) => {
                let text = format!("machine {machine} sends what only a requester sends");
                return Ok(Reply::Silent(text));
            }
            Err(error) => {
                let text = format!("machine {machine} does not answer any more: {error}");
                return Ok(Reply::Silent(text));
            }
            Ok(None) => {
                // TCP alone would wait a quarter of an hour for a machine that has lost its power.
                if since.elapsed() > LOOKED_UP_AFTER {
                    // A store that is away for a while does not end a shell.
                    if matches!(store.get(&keys::part(lab, machine)), Ok(None)) {
                        return Ok(Reply::Silent(no_part(machine, lab)));
                    }
                    since = Instant::now();
                }
                continue;
            }
        }
        since = Instant::now();
    }
    Ok(Reply::Stopped)
}

/// Closes a connection when dropped, although a thread that reads the input may still have it.
struct Closes<'a>(&'a Sending);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests;
