//! An agent's side of requests about its part of a lab: it runs the requested commands and returns their results.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::ask::{Answer, CommandRequest, CommandResult, StoredRequest};
use super::keys;
use super::model::Phase;
use super::pieces;
use super::shell;
use super::stream::{Pace, send};
use crate::store::{Error, Follow, LeaseId, Result, Store, Txn};

/// Interval at which the end flag is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Maximum time that commands which follow the lab get to read its last events.
const LAST_EVENTS_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of bytes that are returned of each output stream.
const MOST_BYTES: usize = 320 << 10;
/// Maximum number of commands that run in parallel for one part.
const MOST_AT_ONCE: usize = 32;

/// Allowed verbs: those that only read, and those that act in a node.
const VERBS: [&str; 10] = [
    "capture", "cp", "events", "exec", "info", "link", "network", "path", "routes", "shell",
];
/// Verbs whose output is a file. Their limit is that of a part's results.
const LARGE: [&str; 3] = ["capture", "cp", "events"];

/// Answers requests about one part.
pub(crate) struct Answerer {
    store: Arc<dyn Store>,
    machine: String,
    asks: Option<Follow>,
    prefix: String,
    running: BTreeMap<String, Running>,
    done: Arc<std::sync::Mutex<Vec<String>>>,
}

/// A running command.
struct Running {
    /// Cleared when the requester no longer waits.
    wanted: Arc<AtomicBool>,
    /// Whether it follows the lab to its end.
    follows: bool,
}

impl Answerer {
    pub(crate) fn new(store: &Arc<dyn Store>, lab: &str, machine: &str) -> Self {
        Self {
            store: Arc::clone(store),
            machine: machine.to_owned(),
            asks: None,
            prefix: keys::asks(lab),
            running: BTreeMap::new(),
            done: Arc::default(),
        }
    }

    /// Starts the commands that were requested since the last call, and ends those whose requester has gone. `called` is the
    /// name of the lab on this machine.
    pub(crate) fn look(&mut self, program: &Path, called: &str, phase: Phase) {
        let mut done = self.done.lock().unwrap_or_else(|e| e.into_inner());
        let over = std::mem::take(&mut *done);
        drop(done);
        if self.asks.is_none() {
            self.asks = Follow::new(Arc::clone(&self.store), &self.prefix).ok();
        }
        let Some(asks) = &mut self.asks else { return };
        let _ = asks.next(Duration::ZERO);
        for (key, running) in &self.running {
            // The request has the requester's lease, so it disappears if the requester ends or is cut off.
            if !asks.known().contains_key(key) {
                running.wanted.store(false, Ordering::Release);
            }
        }
        // A finished command stays known while its request is in the store, so that it does not run again.
        let known = asks.known();
        self.running
            .retain(|key, _| known.contains_key(key) || !over.contains(key));
        // Before that the nodes do not exist. The request waits in the store.
        if phase < Phase::Ready {
            return;
        }
        for (key, entry) in known {
            let asked: Option<StoredRequest> = serde_json::from_slice(&entry.value).ok();
            let ours = |asked: &StoredRequest| asked.question.machine == self.machine;
            let Some(asked) = asked.filter(ours) else {
                continue;
            };
            if self.running.contains_key(key) {
                continue;
            }
            let wanted = Arc::new(AtomicBool::new(true));
            // Counted before the thread starts, so that many requests of one turn cannot exceed the limit.
            let at_once = self.running.len();
            let running = Running {
                wanted: Arc::clone(&wanted),
                follows: asked.question.follows(),
            };
            self.running.insert(key.clone(), running);
            let command = command(program, called, &asked.question, at_once);
            let number = key.strip_prefix(&self.prefix).map(str::to_owned);
            let (store, done, key) = (Arc::clone(&self.store), Arc::clone(&self.done), key.clone());
            thread::spawn(move || {
                // An error here means that the requester has gone, so nothing is left to do.
                let _ = number.map_or(Ok(()), |number| {
                    answer(&store, &number, &asked, command, &wanted)
                });
                done.lock().unwrap_or_else(|e| e.into_inner()).push(key);
            });
        }
    }

    /// Ends all commands because the lab has ended. Those that follow it end by themselves after its last event.
    pub(crate) fn end(&self) {
        let end = |of: fn(&Running) -> bool| {
            let ended = self.running.values().filter(|running| of(running));
            ended.for_each(|running| running.wanted.store(false, Ordering::Release));
        };
        end(|running| !running.follows);
        let at = Instant::now() + LAST_EVENTS_WITHIN;
        while self.reads_on() && Instant::now() < at {
            thread::sleep(LOOK_EVERY);
        }
        end(|_| true);
    }

    /// Whether a command that follows the lab, and whose requester waits, is still running.
    fn reads_on(&self) -> bool {
        let done = self.done.lock().unwrap_or_else(|e| e.into_inner());
        self.running.iter().any(|(key, running)| {
            running.follows && running.wanted.load(Ordering::Acquire) && !done.contains(key)
        })
    }
}

/// Runs a command and writes its result where the requester waits for it.
fn answer(
    shared: &Arc<dyn Store>,
    number: &str,
    asked: &StoredRequest,
    command: std::result::Result<Command, String>,
    wanted: &AtomicBool,
) -> Result<()> {
    let store = shared.as_ref();
    let lease = LeaseId(asked.lease);
    let most = most_bytes(&asked.question);
    let said = match command {
        // A shell needs a terminal, and its output streams through the store. Only the exit code remains.
        Ok(command) if asked.question.is_shell() => {
            match shell::serve(shared, (number, lease), &command, wanted) {
                Ok(exit) => CommandResult {
                    exit,
                    ..CommandResult::default()
                },
                Err(error) => refused(error.to_string()),
            }
        }
        Ok(command) => {
            // Values of etcd have a limit of about 1.5 MB, so input and output are stored in pieces.
            let input = pieces::get(store, &keys::input(number), 0, asked.input)?;
            match asked.question.follows() {
                // The output has already gone to the requester piece by piece, so the result carries none.
                true => run(command, input, wanted, |out| {
                    let to = (keys::output(number), lease);
                    let sent = out.map_or(Ok(()), |out| {
                        send(store, (&to.0, to.1), Pace::WORDS, out, wanted)
                    });
                    (Vec::new(), sent.is_err())
                }),
                false => run(command, input, wanted, |out| read(out, most)),
            }
        }
        Err(why) => refused(why),
    };
    // The output comes first: a requester that finds the answer reads the output at once.
    pieces::put(store, &keys::output(number), 0, &said.stdout, lease)?;
    let text = serde_json::to_vec(&Answer {
        exit: said.exit,
        stdout: said.stdout.len() as u64,
        stderr: said.stderr,
        cut: said.cut,
    });
    let text = text.map_err(|e| Error::Invalid(e.to_string()))?;
    let txn = Txn::new().put_leased(keys::answer(number), text, lease);
    store.commit(&txn).map(|_| ())
}

/// Returns the maximum number of bytes that are returned of a command's standard output.
fn most_bytes(question: &CommandRequest) -> usize {
    let verb = question.verb.first().map_or("", String::as_str);
    match LARGE.contains(&verb) {
        true => pieces::MOST_BYTES as usize,
        false => MOST_BYTES,
    }
}

fn refused(why: String) -> CommandResult {
    CommandResult {
        exit: 2,
        stderr: format!("constel: {why}\n").into_bytes(),
        ..CommandResult::default()
    }
}

/// Returns the command that answers a request about the lab, which is named `called` on this machine.
fn command(
    program: &Path,
    called: &str,
    question: &CommandRequest,
    at_once: usize,
) -> std::result::Result<Command, String> {
    let verb = question.verb.first().map_or("", String::as_str);
    // A user who can write to the store could otherwise run any verb as root on this machine.
    if !VERBS.contains(&verb) {
        return Err(format!(
            "'{verb}' cannot be sent to other machines: {}",
            VERBS.join(", ")
        ));
    }
    if question.follows() && verb != "events" {
        return Err(format!("'{verb}' is not followed from other machines"));
    }
    if at_once >= MOST_AT_ONCE {
        return Err(format!(
            "{MOST_AT_ONCE} commands run there at a time, and no more"
        ));
    }
    let mut command = Command::new(program);
    command
        .args(&question.verb)
        .arg(called)
        .args(&question.args);
    Ok(command)
}

/// Runs a command. `hear` reads its standard output, and returns the bytes to send back and whether they are incomplete.
fn run(
    mut command: Command,
    input: Vec<u8>,
    wanted: &AtomicBool,
    hear: impl FnOnce(Option<ChildStdout>) -> (Vec<u8>, bool) + Send,
) -> CommandResult {
    let stdin = match input.is_empty() {
        true => Stdio::null(),
        false => Stdio::piped(),
    };
    let started = command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return refused(error.to_string()),
    };
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let stdin = child.stdin.take();
    thread::scope(|scope| {
        // Both streams and the input have their own threads, because a full pipe of one would block the others.
        let out = scope.spawn(|| hear(out));
        let err = scope.spawn(|| read(err, MOST_BYTES));
        // A command that stops reading its input shows that by its exit code, so the write error is ignored.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
        let exit = loop {
            match child.try_wait() {
                // A command that a signal has ended has no exit code.
                Ok(Some(status)) => break status.code().unwrap_or(128),
                Ok(None) if wanted.load(Ordering::Acquire) => thread::sleep(LOOK_EVERY / 5),
                // The kill closes the pipes, so programs that the command has started in the node notice that their output
                // has no reader.
                _ => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break 130;
                }
            }
        };
        let (stdout, out_cut) = out.join().unwrap_or_default();
        let (stderr, err_cut) = err.join().unwrap_or_default();
        CommandResult {
            exit,
            stdout,
            stderr,
            cut: out_cut || err_cut,
        }
    })
}

/// Returns the beginning of a stream, and whether there was more. It reads the whole stream so that the writer never blocks.
fn read(stream: Option<impl Read>, most: usize) -> (Vec<u8>, bool) {
    let (mut kept, mut cut, mut bytes) = (Vec::new(), false, [0; 8192]);
    let Some(mut stream) = stream else {
        return (kept, cut);
    };
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        // The rest is read and dropped: a command whose pipe is full would never end.
        let room = most - kept.len();
        kept.extend_from_slice(&bytes[..count.min(room)]);
        cut |= count > room;
    }
    (kept, cut)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::agent::labs::ask;
    use crate::store::Embedded;
    use std::os::unix::fs::PermissionsExt;

    /// Writes a shell script that replaces `constel`.
    pub(in crate::agent::labs) fn program(place: &Path, text: &str) -> std::path::PathBuf {
        let program = place.join("constel");
        std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        program
    }

    /// Answers requests for machine `a` of lab `l` until `end`.
    pub(in crate::agent::labs) fn answering(
        store: &Arc<dyn Store>,
        program: &Path,
        end: &AtomicBool,
    ) {
        let mut answerer = Answerer::new(store, "l", "a");
        while !end.load(Ordering::Acquire) {
            answerer.look(program, "l-a", Phase::Running);
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn question(verb: &str) -> CommandRequest {
        CommandRequest {
            machine: "a".to_owned(),
            verb: vec![verb.to_owned()],
            args: vec!["tokyo".to_owned(), "--".to_owned(), "date".to_owned()],
        }
    }

    #[test]
    fn the_machine_that_is_asked_answers_once_and_nothing_is_left() {
        let place = tempfile::tempdir().unwrap();
        let program = program(place.path(), "echo \"$@\"; echo oops >&2; exit 7");
        let store: Arc<dyn Store> = Arc::new(Embedded::new());
        store.put(&keys::part("l", "a"), b"{}").unwrap();
        let end = AtomicBool::new(false);
        let (said, refused) = thread::scope(|scope| {
            scope.spawn(|| {
                let mut answerer = Answerer::new(&store, "l", "a");
                let mut other = Answerer::new(&store, "l", "b");
                while !end.load(Ordering::Acquire) {
                    answerer.look(&program, "l-a", Phase::Running);
                    other.look(Path::new("/nowhere"), "l-b", Phase::Running);
                    thread::sleep(Duration::from_millis(5));
                }
            });
            let never = AtomicBool::new(false);
            let said = ask(&store, "l", &question("exec"), b"", &never).unwrap();
            let refused = ask(&store, "l", &question("down"), b"", &never).unwrap();
            end.store(true, Ordering::Release);
            (said.unwrap(), refused.unwrap())
        });
        assert_eq!(said.exit, 7);
        assert_eq!(said.stdout, b"exec l-a tokyo -- date\n");
        assert_eq!(said.stderr, b"oops\n");
        assert_eq!(refused.exit, 2);
        assert!(
            String::from_utf8(refused.stderr)
                .unwrap()
                .contains("'down' cannot be sent to other machines")
        );
        let left = store.list("constel/labs/").unwrap().entries;
        assert_eq!(left.len(), 1, "the part alone: {left:?}");
    }

    /// A command that follows the lab reads its last event after the lab has ended; others end with it.
    #[test]
    fn who_follows_the_lab_hears_its_end() {
        let place = tempfile::tempdir().unwrap();
        let ended = place.path().join("ended");
        let text = format!(
            "case \"$*\" in *--follow*) while [ ! -e {0} ]; do sleep 0.01; done; sleep 0.5; echo last;; *) exec sleep 60;; esac",
            ended.display()
        );
        let program = program(place.path(), &text);
        let store: Arc<dyn Store> = Arc::new(Embedded::new());
        store.put(&keys::part("l", "a"), b"{}").unwrap();
        let never = AtomicBool::new(false);
        let mut heard = Vec::new();
        let mut follows = question("events");
        follows.verb.push("--follow".to_owned());
        let (followed, cut_off) = thread::scope(|scope| {
            let following = scope.spawn(|| {
                let mut hear = |bytes: &[u8]| heard.extend_from_slice(bytes);
                let said = ask::follow(&store, "l", &follows, &never, &mut hear);
                said.unwrap().unwrap()
            });
            let asking = scope.spawn(|| ask(&store, "l", &question("exec"), b"", &never).unwrap());
            let mut answerer = Answerer::new(&store, "l", "a");
            while answerer.running.len() < 2 {
                answerer.look(&program, "l-a", Phase::Running);
            }
            std::fs::write(&ended, "").unwrap();
            answerer.end();
            (following.join().unwrap(), asking.join().unwrap().unwrap())
        });
        assert_eq!((followed.exit, &heard[..]), (0, &b"last\n"[..]));
        assert_eq!(cut_off.exit, 130);
    }

    #[test]
    fn a_command_reads_what_it_is_given_and_writes_more_than_a_transaction() {
        let place = tempfile::tempdir().unwrap();
        let program = program(place.path(), "cat");
        let store: Arc<dyn Store> = Arc::new(Embedded::new());
        store.put(&keys::part("l", "a"), b"{}").unwrap();
        let end = AtomicBool::new(false);
        let input: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7) as u8).collect();
        let said = thread::scope(|scope| {
            scope.spawn(|| answering(&store, &program, &end));
            let never = AtomicBool::new(false);
            let said = ask(&store, "l", &question("cp"), &input, &never).unwrap();
            end.store(true, Ordering::Release);
            said.unwrap()
        });
        assert!(
            said.stdout == input && !said.cut,
            "{} bytes",
            said.stdout.len()
        );
        let left = store.list("constel/labs/").unwrap().entries;
        assert_eq!(left.len(), 1, "the part alone: {left:?}");
    }

    #[test]
    fn a_command_that_nobody_waits_for_ends_and_output_is_bounded() {
        let place = tempfile::tempdir().unwrap();
        let began = std::time::Instant::now();
        let long = program(place.path(), "exec sleep 60");
        assert_eq!(
            run(
                Command::new(long),
                Vec::new(),
                &AtomicBool::new(false),
                |out| read(out, 5)
            )
            .exit,
            130
        );
        assert!(began.elapsed() < Duration::from_secs(20));
        let much = program(place.path(), "head -c 1000000 /dev/zero");
        let said = run(
            Command::new(much),
            Vec::new(),
            &AtomicBool::new(true),
            |out| read(out, MOST_BYTES),
        );
        assert!(said.cut && said.stdout.len() == MOST_BYTES && said.exit == 0);
    }
}
