//! Runs a requested command, and connects its input and its output with the requester.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use constel_host::process::{Terminal, resize};

use super::answerer::{Answering, NotRun, Place};
use crate::agent::reach::wait;
use crate::channel::{self, Connection, Message, Receiving, Sending, accept};
use crate::underlay::Key;

/// Interval at which the end of the command is checked.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Interval at which the end of the agent is checked, and after which a failed `accept` is repeated.
const ACCEPT_EVERY: Duration = Duration::from_millis(100);
/// Maximum number of connections whose other end has not proved that it has the key.
const MOST_UNPROVED: usize = 64;
/// Maximum time until a requester sends its command, and until it reads the end of it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum time that a command that must end gets until its requester has read its output.
const LAST_OUTPUT_WITHIN: Duration = Duration::from_secs(10);

/// Accepts connections and runs the requested commands until `end`. Returns when all of them have ended.
pub(crate) fn answer(listener: &TcpListener, key: &Key, answering: &Answering, end: &AtomicBool) {
    let unproved = AtomicUsize::new(0);
    thread::scope(|scope| {
        while !end.load(Ordering::Acquire) {
            if !wait(listener, ACCEPT_EVERY) {
                continue;
            }
            let Ok((tcp, _)) = listener.accept() else {
                // A lack of descriptors may not end this thread.
                thread::sleep(ACCEPT_EVERY);
                continue;
            };
            if unproved.load(Ordering::Acquire) >= MOST_UNPROVED {
                continue;
            }
            unproved.fetch_add(1, Ordering::AcqRel);
            let unproved = &unproved;
            let served = thread::Builder::new().spawn_scoped(scope, move || {
                let connection = accept(tcp, key);
                unproved.fetch_sub(1, Ordering::AcqRel);
                // An error means that the requester has no key, or is gone.
                let _ = connection.and_then(|connection| serve(connection, answering));
            });
            if served.is_err() {
                unproved.fetch_sub(1, Ordering::AcqRel);
            }
        }
    });
}

/// Runs the command of one requester.
fn serve(connection: Connection, answering: &Answering) -> io::Result<()> {
    let Connection {
        sending,
        mut receiving,
    } = connection;
    let asked = first(&mut receiving)?;
    let started = answering.admit(&asked, || !sending.is_closed());
    let started = started.and_then(|(command, place)| {
        let started = Started::new(command, asked.is_shell());
        let started = started.map_err(|error| NotRun::Refused(error.to_string()))?;
        Ok((started, place))
    });
    match started {
        Ok((started, place)) => attend(started, &place, &sending, &mut receiving),
        Err(NotRun::NoPart) => {
            sending.send(&Message::NoPart)?;
            rest(&mut receiving)
        }
        Err(NotRun::Refused(why)) => {
            sending.send(&Message::Errors(format!("constel: {why}\n").into_bytes()))?;
            sending.send(&Message::Exit(2))?;
            rest(&mut receiving)
        }
    }
}

/// Returns the command, which is the first message.
fn first(receiving: &mut Receiving) -> io::Result<channel::Command> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        match receiving.next()? {
            Some(Message::Command(command)) => return Ok(command),
            Some(_) => return Err(io::ErrorKind::InvalidData.into()),
            None => {}
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Reads what is left until the requester has closed the connection. Closing it here while bytes are unread would reset it,
/// and the requester could lose the last messages.
fn rest(receiving: &mut Receiving) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        receiving.next()?;
    }
    Ok(())
}

/// A running command.
enum Process {
    Plain(Child),
    Shell(Terminal),
}

impl Process {
    /// Returns the exit code of a command that has ended, as a shell reports it.
    fn exit(&mut self) -> io::Result<Option<i32>> {
        let status = match self {
            Self::Plain(child) => child.try_wait()?,
            Self::Shell(terminal) => terminal.ended()?,
        };
        // A command that a signal has ended has no exit code.
        Ok(status.map(|status| status.code().unwrap_or(128)))
    }

    /// Kills it. That closes its pipes, so programs that it has started in the node notice that their output has no reader.
    fn kill(&mut self) {
        match self {
            Self::Plain(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Self::Shell(terminal) => terminal.kill(),
        }
    }
}

/// An output of a command, and the message that carries it.
type Output = (fn(Vec<u8>) -> Message, Box<dyn Read + Send>);

/// A running command with its streams.
struct Started {
    process: Process,
    input: Input,
    outputs: Vec<Output>,
}

/// The input of a command.
enum Input {
    Pipe(Option<Box<dyn Write + Send>>),
    Terminal(File),
}

impl Started {
    fn new(mut command: Command, is_shell: bool) -> io::Result<Self> {
        if is_shell {
            let args: Vec<_> = command.get_args().collect();
            let terminal = Terminal::open(command.get_program(), &args)?;
            let (keys, shown) = (terminal.another_end()?, terminal.another_end()?);
            return Ok(Self {
                process: Process::Shell(terminal),
                input: Input::Terminal(keys),
                outputs: vec![(Message::Output, Box::new(shown))],
            });
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().map(|stdin| Box::new(stdin) as _);
        let mut outputs: Vec<Output> = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            outputs.push((Message::Output, Box::new(stdout)));
        }
        if let Some(stderr) = child.stderr.take() {
            outputs.push((Message::Errors, Box::new(stderr)));
        }
        Ok(Self {
            process: Process::Plain(child),
            input: Input::Pipe(input),
            outputs,
        })
    }
}

impl Input {
    /// Gives the command what its requester has sent.
    fn take(&mut self, message: Message) -> io::Result<()> {
        match (self, message) {
            (Self::Pipe(pipe), Message::Input(bytes)) => {
                let written = pipe.as_mut().map_or(Ok(()), |pipe| pipe.write_all(&bytes));
                // A command that stops reading shows by its exit code whether that is an error.
                if written.is_err() {
                    *pipe = None;
                }
            }
            (Self::Pipe(pipe), Message::InputEnd) => *pipe = None,
            // An error means that the shell has ended.
            (Self::Terminal(file), Message::Input(bytes)) => drop(file.write_all(&bytes)),
            (Self::Terminal(file), Message::Size(size)) => {
                drop(resize(file, size.columns, size.rows));
            }
            (Self::Terminal(_), Message::InputEnd) | (Self::Pipe(_), Message::Size(_)) => {}
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(())
    }
}

/// Passes bytes on in both directions until the command has ended, and sends its exit code.
fn attend(
    started: Started,
    place: &Place,
    sending: &Sending,
    receiving: &mut Receiving,
) -> io::Result<()> {
    let Started {
        mut process,
        mut input,
        outputs,
    } = started;
    let wanted = &place.0.wanted;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Each stream has a thread of its own, because a full pipe of one would block the others.
        let outputs = outputs.into_iter().map(|(message, from)| {
            scope.spawn(move || {
                if sending.send_all(from, message).is_err() {
                    wanted.store(false, Ordering::Release);
                }
            })
        });
        let outputs: Vec<_> = outputs.collect();
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                let taken = receiving.next().and_then(|message| match message {
                    Some(message) => input.take(message),
                    None => Ok(()),
                });
                if taken.is_err() {
                    wanted.store(false, Ordering::Release);
                    return;
                }
            }
            let _ = rest(receiving);
        });
        let exit = loop {
            // The thread that receives may wait for the command to read its input.
            if sending.is_closed() {
                wanted.store(false, Ordering::Release);
            }
            match process.exit() {
                Ok(Some(exit)) => break exit,
                Ok(None) if wanted.load(Ordering::Acquire) => thread::sleep(LOOK_EVERY),
                _ => {
                    process.kill();
                    break 130;
                }
            }
        };
        let mut until = None;
        while outputs.iter().any(|thread| !thread.is_finished()) {
            if !wanted.load(Ordering::Acquire) || sending.is_closed() {
                let until = *until.get_or_insert_with(|| Instant::now() + LAST_OUTPUT_WITHIN);
                if Instant::now() > until || sending.is_closed() {
                    sending.close();
                }
            }
            thread::sleep(LOOK_EVERY);
        }
        let sent = sending.send(&Message::Exit(exit));
        over.store(true, Ordering::Release);
        sent
    })
}
