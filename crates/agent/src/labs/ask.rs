//! Questions about a lab on several machines, from whoever reaches the store to the machine that has the node: a command of
//! `constel` that its agent runs there, about the part that is there.
//!
//! Whoever asks puts it under `constel/labs/ask/LAB/NUMBER`; the agent answers under `constel/labs/answer/NUMBER` by the asker's
//! lease: both go with the asker, and with the question goes the command.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use constel_store::{Error, Follow, LEASE, LeaseId, Result, Store, Txn};
use serde::{Deserialize, Serialize};

use super::keys;
use super::lead::renew;
use super::model::Phase;
use crate::clocks::drawn;

/// How soon an end is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// So much of each stream of a command comes back: both together are less than a transaction takes.
const MOST_BYTES: usize = 320 << 10;
/// Commands that one part runs at a time.
const MOST_AT_ONCE: usize = 32;

/// Verbs that may be asked for: those that look, and `exec`.
const VERBS: [&str; 4] = ["exec", "link", "path", "routes"];

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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    question: Question,
    /// By which lease to answer.
    lease: u64,
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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

/// Asks a machine of a lab, and waits for what it says, until `stop`. `None`: nobody waits any more, or the part is not there.
///
/// # Errors
/// When the store cannot be asked.
pub fn ask(
    store: &Arc<dyn Store>,
    lab: &str,
    question: &Question,
    stop: &AtomicBool,
) -> Result<Option<Said>> {
    let number = drawn().map_err(|e| Error::Invalid(format!("/dev/urandom: {e}")))?;
    let number = format!("{number:016x}");
    let lease = store.grant(LEASE)?;
    let (over, lost) = (AtomicBool::new(false), AtomicBool::new(false));
    let said = thread::scope(|scope| {
        scope.spawn(|| renew(store.as_ref(), lease.id, lease.ttl, &over, &lost));
        let said = wait(store, lab, question, (&number, lease.id), &|| {
            stop.load(Ordering::Acquire) || lost.load(Ordering::Acquire)
        });
        over.store(true, Ordering::Release);
        said
    });
    // What was asked and answered goes with it.
    let _ = store.revoke(lease.id);
    said
}

fn wait(
    store: &Arc<dyn Store>,
    lab: &str,
    question: &Question,
    (number, lease): (&str, LeaseId),
    has_ended: &dyn Fn() -> bool,
) -> Result<Option<Said>> {
    let place = keys::answer(number);
    let mut answers = Follow::new(Arc::clone(store), &place)?;
    let asked = Asked {
        question: question.clone(),
        lease: lease.0,
    };
    let text = serde_json::to_vec(&asked).map_err(|e| Error::Invalid(e.to_string()))?;
    let key = format!("{}{number}", keys::asks(lab));
    store.commit(&Txn::new().put_leased(key, text, lease))?;
    let part = keys::part(lab, &question.machine);
    let mut looks = 0_u32;
    while !has_ended() {
        if let Some(entry) = answers.known().get(&place) {
            let said = serde_json::from_slice(&entry.value);
            return said.map(Some).map_err(|e| Error::Answer(e.to_string()));
        }
        let _ = answers.next(LOOK_EVERY);
        looks += 1;
        // A part that is gone answers nobody.
        if looks.is_multiple_of(20) && store.get(&part)?.is_none() {
            return Ok(None);
        }
    }
    Ok(None)
}

/// Answers what is asked about one part.
pub(crate) struct Answerer {
    store: Arc<dyn Store>,
    machine: String,
    asks: Option<Follow>,
    prefix: String,
    /// Commands that run, and whether somebody still wants to know.
    running: BTreeMap<String, Arc<AtomicBool>>,
    done: Arc<std::sync::Mutex<Vec<String>>>,
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

    /// Starts what was asked since the last time, and ends what nobody waits for. The lab is called `called` here.
    pub(crate) fn look(&mut self, program: &Path, called: &str, phase: Phase) {
        let mut done = self.done.lock().unwrap_or_else(|e| e.into_inner());
        let over = std::mem::take(&mut *done);
        drop(done);
        if self.asks.is_none() {
            self.asks = Follow::new(Arc::clone(&self.store), &self.prefix).ok();
        }
        let Some(asks) = &mut self.asks else { return };
        let _ = asks.next(Duration::ZERO);
        for (key, wanted) in &self.running {
            if !asks.known().contains_key(key) {
                wanted.store(false, Ordering::Release);
            }
        }
        // Those that are done are known as long as they are asked, so that they are not run again.
        let known = asks.known();
        self.running
            .retain(|key, _| known.contains_key(key) || !over.contains(key));
        if phase < Phase::Standing {
            return;
        }
        for (key, entry) in known {
            let asked: Option<Asked> = serde_json::from_slice(&entry.value).ok();
            let ours = |asked: &Asked| asked.question.machine == self.machine;
            let Some(asked) = asked.filter(ours) else {
                continue;
            };
            if self.running.contains_key(key) {
                continue;
            }
            let wanted = Arc::new(AtomicBool::new(true));
            let at_once = self.running.len();
            self.running.insert(key.clone(), Arc::clone(&wanted));
            let command = command(program, called, &asked.question, at_once);
            let place = key.strip_prefix(&self.prefix).map(keys::answer);
            let (store, done, key) = (Arc::clone(&self.store), Arc::clone(&self.done), key.clone());
            thread::spawn(move || {
                let said = command.map_or_else(refused, |command| run(command, &wanted));
                let text = serde_json::to_vec(&said).unwrap_or_default();
                if let Some(place) = place {
                    // Whoever has gone meanwhile does not want to know.
                    let _ = store.commit(&Txn::new().put_leased(place, text, LeaseId(asked.lease)));
                }
                done.lock().unwrap_or_else(|e| e.into_inner()).push(key);
            });
        }
    }

    /// The part is going down: so does all that was asked about it.
    pub(crate) fn end(&self) {
        let wanted = self.running.values();
        wanted.for_each(|wanted| wanted.store(false, Ordering::Release));
    }
}

fn refused(why: String) -> Said {
    Said {
        exit: 2,
        stderr: format!("constel: {why}\n").into_bytes(),
        ..Said::default()
    }
}

/// The command that answers a question about the lab that is called so here.
fn command(
    program: &Path,
    called: &str,
    question: &Question,
    at_once: usize,
) -> std::result::Result<Command, String> {
    let verb = question.verb.first().map_or("", String::as_str);
    if !VERBS.contains(&verb) {
        return Err(format!(
            "'{verb}' is not asked of other machines: {}",
            VERBS.join(", ")
        ));
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

fn run(mut command: Command, wanted: &AtomicBool) -> Said {
    let started = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return refused(error.to_string()),
    };
    let (out, err) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let out = scope.spawn(|| read(out));
        let err = scope.spawn(|| read(err));
        let exit = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status.code().unwrap_or(128),
                Ok(None) if wanted.load(Ordering::Acquire) => thread::sleep(LOOK_EVERY / 5),
                // What it has started in the node hears that nobody reads any more.
                _ => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break 130;
                }
            }
        };
        let (stdout, out_cut) = out.join().unwrap_or_default();
        let (stderr, err_cut) = err.join().unwrap_or_default();
        Said {
            exit,
            stdout,
            stderr,
            cut: out_cut || err_cut,
        }
    })
}

/// The beginning of a stream, and whether there was more; all of it is read, so that nobody waits.
fn read(stream: Option<impl Read>) -> (Vec<u8>, bool) {
    let (mut kept, mut cut, mut bytes) = (Vec::new(), false, [0; 8192]);
    let Some(mut stream) = stream else {
        return (kept, cut);
    };
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        let room = MOST_BYTES - kept.len();
        kept.extend_from_slice(&bytes[..count.min(room)]);
        cut |= count > room;
    }
    (kept, cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_store::Embedded;
    use std::os::unix::fs::PermissionsExt;

    /// A program that says how it was called.
    fn program(place: &Path, text: &str) -> std::path::PathBuf {
        let program = place.join("constel");
        std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        program
    }

    fn question(verb: &str) -> Question {
        Question {
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
            let said = ask(&store, "l", &question("exec"), &never).unwrap();
            let refused = ask(&store, "l", &question("down"), &never).unwrap();
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
                .contains("'down' is not asked")
        );
        let left = store.list("constel/labs/").unwrap().entries;
        assert_eq!(left.len(), 1, "the part alone: {left:?}");
    }

    #[test]
    fn a_command_that_nobody_waits_for_ends_and_output_is_bounded() {
        let place = tempfile::tempdir().unwrap();
        let began = std::time::Instant::now();
        let long = program(place.path(), "exec sleep 60");
        assert_eq!(run(Command::new(long), &AtomicBool::new(false)).exit, 130);
        assert!(began.elapsed() < Duration::from_secs(20));
        let much = program(place.path(), "head -c 1000000 /dev/zero");
        let said = run(Command::new(much), &AtomicBool::new(true));
        assert!(said.cut && said.stdout.len() == MOST_BYTES && said.exit == 0);
    }
}
