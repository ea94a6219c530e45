//! An agent's side of labs: it has each part run by a process of its own, and tells the store how far that is.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use constel_store::{Condition, Error, Follow, LeaseId, Outcome, Result, Revision, Store, Txn};

use super::ask::Answerer;
use super::folder;
use super::keys;
use super::model::{File, Go, Order, Part, Phase, Standing, Ways};
use super::pieces;
use super::speech::{Beat, FromPart, ORDER_FILE, RESULTS, ToPart};
use crate::clocks::mono_ns;
use crate::measure::{Heard, Latest};
use crate::run::Watcher;

/// How often the process is told what is known.
const BEAT: Duration = Duration::from_millis(250);
/// How long news of the process or of the store wait at most.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A process that does not take its part down by then never will.
const DOWN_WITHIN: Duration = Duration::from_secs(100);
/// Between two tries of a store that is away.
const TRY_EVERY: Duration = Duration::from_millis(200);

/// What a part needs of its agent.
pub(crate) struct Keeper<'a> {
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) name: &'a str,
    pub(crate) token: Revision,
    pub(crate) lease: LeaseId,
    /// Until when the name is ours, `CLOCK_BOOTTIME`.
    pub(crate) until_ns: &'a AtomicU64,
    pub(crate) latest: &'a Latest,
    /// Where it listens for other machines.
    pub(crate) address: IpAddr,
    /// What runs a part: `constel`.
    pub(crate) program: &'a Path,
    pub(crate) watcher: &'a dyn Watcher,
    /// The agent leaves: parts end in good order.
    pub(crate) leaving: &'a AtomicBool,
    /// The agent has ended: nothing is to be told any more.
    pub(crate) end: &'a AtomicBool,
    /// Parts that there are.
    pub(crate) parts: &'a AtomicUsize,
}

impl Keeper<'_> {
    /// Takes parts until the agent ends. A store that is away for a while is asked again.
    pub(crate) fn run(&self) {
        let alive = Mutex::default();
        thread::scope(|scope| {
            let mut taken = BTreeSet::new();
            while !self.has_ended() {
                let Ok(mut orders) = Follow::new(Arc::clone(self.store), keys::ORDERS) else {
                    thread::sleep(TRY_EVERY);
                    continue;
                };
                loop {
                    let there = orders.known().values().map(|entry| entry.created);
                    *lock(&alive) = there.collect();
                    for entry in orders.known().values() {
                        let order: Option<Order> = serde_json::from_slice(&entry.value).ok();
                        let order = order.filter(|order| self.is_ours(order));
                        let Some(order) = order.filter(|_| taken.insert(entry.created)) else {
                            continue;
                        };
                        let (number, alive) = (entry.created, &alive);
                        self.parts.fetch_add(1, Ordering::AcqRel);
                        scope.spawn(move || {
                            let _gone = Gone(self.parts);
                            self.take(&order, number, alive);
                        });
                    }
                    if self.has_ended() {
                        break;
                    }
                    match orders.next(TRY_EVERY) {
                        Ok(_) | Err(Error::Unreachable(_)) => {}
                        Err(_) => break,
                    }
                }
            }
        });
    }

    fn has_ended(&self) -> bool {
        self.end.load(Ordering::Acquire)
    }

    fn is_ours(&self, order: &Order) -> bool {
        !self.leaving.load(Ordering::Acquire)
            && order
                .machines
                .iter()
                .any(|machine| machine.name == self.name)
    }

    fn heard(&self) -> Option<Heard> {
        let latest = self.latest.lock();
        latest.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One part, from its order to when nobody wants to know of it any more.
    fn take(&self, order: &Order, number: Revision, alive: &Mutex<BTreeSet<Revision>>) {
        let lab = &order.lab;
        self.watcher.tell(&format!(
            "lab {lab}: taking a part, for {} (process {})",
            order.by.0, order.by.1
        ));
        let is_wanted = || lock(alive).contains(&number);
        let mut own = Own::new(self, order, number);
        let ran = own.run(&is_wanted);
        if let Err(error) = &ran {
            own.part.failure.get_or_insert_with(|| error.to_string());
        }
        own.part.phase = Phase::Ended;
        let told = own.leave_results().and_then(|()| own.tell());
        match &own.part.failure {
            Some(failure) => self.watcher.tell(&format!("lab {lab}: {failure}")),
            None => self.watcher.tell(&format!("lab {lab}: its part is down")),
        }
        let fetched = is_wanted() && told.is_ok();
        while is_wanted() && !self.has_ended() && !self.leaving.load(Ordering::Acquire) {
            thread::sleep(LOOK_EVERY);
        }
        own.forget(fetched);
    }
}

/// One less, whatever happens.
struct Gone<'a>(&'a AtomicUsize);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A part of ours.
struct Own<'a> {
    keeper: &'a Keeper<'a>,
    order: &'a Order,
    part: Part,
    folder: Option<PathBuf>,
    /// Somebody works in the folder.
    hold: Option<fs::File>,
    /// The lab's name here.
    called: Option<String>,
}

/// The process that runs it.
struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<FromPart>,
}

impl Process {
    /// Says something. One that does not read any more is noticed by its end.
    fn say(&mut self, what: &ToPart) {
        let Some(stdin) = &mut self.stdin else { return };
        let mut line = serde_json::to_vec(what).unwrap_or_default();
        line.push(b'\n');
        if stdin.write_all(&line).is_err() {
            self.stdin = None;
        }
    }
}

impl Drop for Process {
    /// It hears that its input ends, and takes its part down; whoever drops this waits for that, but not for ever: what it leaves then
    /// is for `constel clean`.
    fn drop(&mut self) {
        self.stdin = None;
        let until = Instant::now() + DOWN_WITHIN;
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(LOOK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'a> Own<'a> {
    fn new(keeper: &'a Keeper<'a>, order: &'a Order, number: Revision) -> Self {
        let heard = keeper.heard();
        Self {
            keeper,
            order,
            folder: None,
            hold: None,
            called: None,
            part: Part {
                order: number,
                phase: Phase::Listening,
                address: None,
                token: keeper.token,
                clock_error_ns: heard.as_ref().map_or(0, |heard| heard.clock.error_ns),
                way_ns: heard.map_or((0, 0), |h| (h.clock.way_ns, h.longest_way_ns)),
                standing: None,
                failure: None,
                files: Vec::new(),
            },
        }
    }

    /// From the order to the process's end.
    fn run(&mut self, is_wanted: &dyn Fn() -> bool) -> io::Result<()> {
        let folder = self.fetch()?;
        let mut process = self.start(&folder)?;
        let prefix = keys::lab(&self.order.lab);
        let mut news: Option<Follow> = None;
        let Keeper {
            store,
            name,
            program,
            ..
        } = self.keeper;
        let mut answerer = Answerer::new(store, &self.order.lab, name);
        let mut heard = Told::default();
        let mut beat: Option<Instant> = None;
        loop {
            if beat.is_none_or(|at| at.elapsed() >= BEAT) {
                self.beat(&mut process);
                beat = Some(Instant::now());
            }
            match process.lines.recv_timeout(LOOK_EVERY) {
                Ok(FromPart::Ended { failure }) => {
                    answerer.end();
                    self.part.failure = self.part.failure.take().or(failure);
                    return Ok(());
                }
                Ok(line) => self.hear(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let status = process.child.wait()?;
                    let error = format!("the process of its part ended: {status}");
                    return Err(io::Error::other(error));
                }
            }
            let leaves = self.keeper.leaving.load(Ordering::Acquire);
            if leaves {
                let failure = || "its agent was asked to end".to_owned();
                self.part.failure.get_or_insert_with(failure);
            }
            if (leaves || !is_wanted() || self.keeper.has_ended()) && heard.ends() {
                process.say(&ToPart::End);
            }
            if news.is_none() {
                news = Follow::new(Arc::clone(self.keeper.store), &prefix).ok();
            }
            let Some(follow) = &mut news else { continue };
            // A store that is away for a while is asked again.
            let _ = follow.next(Duration::ZERO);
            let known = |key: String| {
                let entry = follow.known().get(&key)?;
                (entry.created > self.part.order).then(|| entry.value.clone())
            };
            let ways = known(keys::ways(&self.order.lab)).filter(|_| !heard.ways);
            let ways: Option<Ways> = ways.and_then(|text| serde_json::from_slice(&text).ok());
            if let Some(ways) = ways {
                heard.ways = true;
                process.say(&ToPart::Ways(ways));
            }
            let go = known(keys::go(&self.order.lab)).filter(|_| !heard.go);
            let go: Option<Go> = go.and_then(|text| serde_json::from_slice(&text).ok());
            if let Some(go) = go {
                heard.go = true;
                process.say(&ToPart::Go(go.zero_ns));
                self.part.phase = Phase::Running;
                let _ = self.tell();
            }
            if known(keys::end(&self.order.lab)).is_some() && heard.ends() {
                process.say(&ToPart::End);
            }
            if let Some(called) = &self.called {
                answerer.look(program, called, self.part.phase);
            }
        }
    }

    fn beat(&self, process: &mut Process) {
        if let Some(heard) = self.keeper.heard() {
            process.say(&ToPart::Beat(Beat {
                ahead_ns: heard.ahead_ns(),
                clock_steps: heard.clock.steps,
                until_ns: self.keeper.until_ns.load(Ordering::Acquire),
            }));
        }
    }

    fn hear(&mut self, line: FromPart) {
        match line {
            FromPart::Listening(address) => {
                self.part.address = Some(address);
                let _ = self.tell();
            }
            FromPart::Called(name) => self.called = Some(name),
            FromPart::Standing { nodes, plan } => {
                let ahead_ns = self.keeper.heard().map_or(0, |heard| heard.ahead_ns());
                self.part.phase = Phase::Standing;
                self.part.standing = Some(Standing {
                    nodes,
                    plan,
                    at_ns: mono_ns().saturating_add_signed(ahead_ns),
                });
                let _ = self.tell();
            }
            FromPart::Say(text) => {
                let lab = &self.order.lab;
                self.keeper.watcher.tell(&format!("lab {lab}: {text}"));
            }
            FromPart::Ended { .. } => {}
        }
    }

    /// Puts order and files into a folder of their own.
    fn fetch(&mut self) -> io::Result<PathBuf> {
        let folder = folder::make(&self.order.lab)?;
        self.folder = Some(folder.clone());
        fs::write(folder.join(ORDER_FILE), serde_json::to_vec(self.order)?)?;
        self.hold = Some(folder::hold(&folder)?);
        for (number, file) in self.order.files.iter().enumerate() {
            let (store, prefix) = (self.keeper.store.as_ref(), keys::files(&self.order.lab));
            let bytes = pieces::get(store, &prefix, number, file.bytes);
            let bytes = bytes.map_err(io::Error::other)?;
            fs::write(folder.join(number.to_string()), bytes)?;
        }
        Ok(folder)
    }

    fn start(&self, folder: &Path) -> io::Result<Process> {
        let mut child = Command::new(self.keeper.program)
            .args(["part", "--machine", self.keeper.name, "--address"])
            .arg(self.keeper.address.to_string())
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at the agent's terminal is the agent's to hear: it ends its parts in good order.
            .process_group(0)
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (send, lines) = channel();
        if let Some(stdout) = stdout {
            thread::spawn(move || {
                let said = BufReader::new(stdout).lines().map_while(io::Result::ok);
                let said = said.filter_map(|line| serde_json::from_str(&line).ok());
                // Nobody listens any more: so be it.
                let _ = said.map(|line| send.send(line)).find(|sent| sent.is_err());
            });
        }
        Ok(Process {
            child,
            stdin,
            lines,
        })
    }

    /// Tells the store how far the part is, as long as the name is ours.
    fn tell(&self) -> Result<()> {
        let Keeper {
            store, name, token, ..
        } = self.keeper;
        let text = serde_json::to_vec(&self.part).map_err(|e| Error::Invalid(e.to_string()))?;
        let txn = Txn::new()
            .when(Condition::created_at(crate::keys::owner(name), *token))
            .put_leased(keys::part(&self.order.lab, name), text, self.keeper.lease);
        loop {
            match store.commit(&txn) {
                Ok(Outcome::Committed { .. }) => return Ok(()),
                Ok(Outcome::Refused) => {
                    return Err(Error::LeaseLost(self.keeper.lease));
                }
                // The same again does no harm.
                Err(Error::Unreachable(_) | Error::Uncertain(_)) if !self.keeper.has_ended() => {
                    thread::sleep(TRY_EVERY);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Puts into the store what the part left.
    fn leave_results(&mut self) -> Result<()> {
        let Some(folder) = self.folder.as_ref().map(|folder| folder.join(RESULTS)) else {
            return Ok(());
        };
        let prefix = keys::results(&self.order.lab, self.keeper.name);
        let store = self.keeper.store.as_ref();
        let mut all = 0;
        for path in files_below(&folder) {
            let Ok(bytes) = fs::read(folder.join(&path)) else {
                continue;
            };
            all += bytes.len() as u64;
            if all > pieces::MOST_BYTES {
                let most = pieces::MOST_BYTES >> 20;
                let text = format!(
                    "its results are more than the {most} MiB that go through the store: {path} and what follows are not there"
                );
                self.part.failure.get_or_insert(text);
                break;
            }
            let number = self.part.files.len();
            pieces::put(store, &prefix, number, &bytes, self.keeper.lease)?;
            self.part.files.push(File {
                path,
                bytes: bytes.len() as u64,
            });
        }
        Ok(())
    }

    /// Nobody wants to know any more.
    fn forget(self, fetched: bool) {
        let (store, lab) = (self.keeper.store.as_ref(), &self.order.lab);
        // What cannot be deleted goes with the agent.
        let _ = store.delete(&keys::part(lab, self.keeper.name));
        let _ = pieces::clear(store, &keys::results(lab, self.keeper.name));
        let Some(folder) = self.folder else { return };
        let results = folder.join(RESULTS);
        if fetched || !results.exists() {
            let _ = fs::remove_dir_all(folder);
        } else {
            self.keeper.watcher.tell(&format!(
                "lab {lab}: nobody fetched its results; they are in {}",
                results.display()
            ));
        }
    }
}

/// What the process was told already.
#[derive(Default)]
struct Told {
    ways: bool,
    go: bool,
    end: bool,
}

impl Told {
    /// Whether it has not been told to end yet; from now on it has.
    fn ends(&mut self) -> bool {
        !std::mem::replace(&mut self.end, true)
    }
}

/// Plain files below a folder, by their paths in it, sorted; nothing where there is no folder.
fn files_below(folder: &Path) -> Vec<String> {
    fn look(root: &Path, at: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let path = entry.path();
            if kind.is_dir() {
                look(root, &path, found);
            } else if kind.is_file()
                && let Some(text) = path.strip_prefix(root).ok().and_then(Path::to_str)
            {
                found.push(text.to_owned());
            }
        }
    }
    let mut found = Vec::new();
    look(folder, folder, &mut found);
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_part_left_is_found_below_its_folder() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("flows")).unwrap();
        fs::write(place.path().join("summary.json"), "{}").unwrap();
        fs::write(place.path().join("flows/a.out"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", place.path().join("link")).unwrap();
        assert_eq!(files_below(place.path()), ["flows/a.out", "summary.json"]);
        assert_eq!(files_below(&place.path().join("nowhere")), [""; 0]);
    }
}
