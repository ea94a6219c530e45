//! An agent's side of labs: it starts a worker process for each part and reports the progress to the store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::TcpListener;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::answerer::{Answerer, Answering};
use super::changes::Changes;
use super::common_time::CommonTime;
use super::folder;
use super::keys;
use super::model::{LabDescription, LabStart, Phase, UnderlaySettings, WorkerReady, WorkerRecord};
use super::parts::Parts;
use super::pieces;
use super::process::Process;
use super::results;
use super::serve;
use super::speech::{FromWorker, Heartbeat, ORDER_FILE, RESULTS, ToWorker};
use crate::agent::clocks::mono_ns;
use crate::agent::measure::{ClockState, Latest};
use crate::agent::options::Watcher;
use crate::agent::record::UnderlayAt;
use crate::store::{
    Condition, Entry, Error, Event, Follow, LeaseId, Outcome, Patient, Result, Revision, Store, Txn,
};

/// Interval at which the worker gets the current state.
const BEAT: Duration = Duration::from_millis(250);
/// Maximum delay of news from the worker or the store.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Interval between two attempts when the store is unreachable.
pub(super) const TRY_EVERY: Duration = Duration::from_millis(200);
/// Maximum time to wait for a full store when results are written.
const FULL_WITHIN: Duration = Duration::from_secs(30);

/// The agent's data that a part needs.
pub(crate) struct Keeper<'a> {
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) name: &'a str,
    pub(crate) token: Revision,
    pub(crate) lease: LeaseId,
    /// The `CLOCK_BOOTTIME` until which the name is held.
    pub(crate) until_ns: &'a AtomicU64,
    pub(crate) latest: &'a Latest,
    /// The address where this machine listens for other machines.
    pub(crate) underlay: &'a UnderlayAt,
    /// The socket there that accepts requests.
    pub(crate) requests: &'a TcpListener,
    /// Number of threads that create a part's nodes.
    pub(crate) workers: NonZeroU32,
    /// The program that runs a part: `constel`.
    pub(crate) program: &'a Path,
    /// The parts about which requests are answered.
    pub(crate) answering: &'a Answering,
    pub(crate) watcher: &'a dyn Watcher,
    /// Set when the agent leaves, so that parts go down in an orderly way.
    pub(crate) leaving: &'a AtomicBool,
    /// Set when the agent has ended, so that nothing more is reported.
    pub(crate) end: &'a AtomicBool,
    /// Number of parts on this machine.
    pub(crate) parts: &'a AtomicUsize,
}

impl Keeper<'_> {
    /// Runs parts and answers requests about them until the agent ends. If the store is unreachable for a while, tries again.
    pub(crate) fn run(&self) {
        let alive = Mutex::default();
        thread::scope(|scope| {
            let key = &self.underlay.key;
            scope.spawn(move || serve::answer(self.requests, key, self.answering, self.end));
            // By revision, not by name: a lab may run again under the same name.
            let mut taken = BTreeSet::new();
            while !self.has_ended() {
                let Ok(mut orders) = Follow::new(Arc::clone(self.store), keys::ORDERS) else {
                    thread::sleep(TRY_EVERY);
                    continue;
                };
                loop {
                    let there = orders.known().values().map(|entry| entry.created);
                    // Threads of parts read this to learn whether their order still exists, that is whether the
                    // controller lives.
                    *lock(&alive) = there.collect();
                    for entry in orders.known().values() {
                        let order: Option<LabDescription> =
                            serde_json::from_slice(&entry.value).ok();
                        let order = order.filter(|order| self.is_ours(order));
                        let Some(order) = order.filter(|_| taken.insert(entry.created)) else {
                            continue;
                        };
                        let (number, lease, alive) = (entry.created, entry.lease, &alive);
                        // Counted before the thread starts, so that the agent cannot end in between.
                        self.parts.fetch_add(1, Ordering::AcqRel);
                        scope.spawn(move || {
                            let _gone = Gone(self.parts);
                            self.take(&order, (number, lease), alive);
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

    fn is_ours(&self, order: &LabDescription) -> bool {
        !self.leaving.load(Ordering::Acquire)
            && order
                .machines
                .iter()
                .any(|machine| machine.name == self.name)
    }

    fn heard(&self) -> Option<ClockState> {
        let latest = self.latest.lock();
        latest.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs one part, from its order until the lab no longer needs its results.
    fn take(
        &self,
        order: &LabDescription,
        (number, lease): (Revision, Option<LeaseId>),
        alive: &Mutex<BTreeSet<Revision>>,
    ) {
        let lab = &order.lab;
        let go = self.store.get(&keys::go(lab)).ok().flatten();
        // The other machines have computed their plan with the part of the earlier agent, and lab time cannot be joined
        // later.
        if go.is_some_and(|go| go.created > number) {
            self.watcher.tell(&format!(
                "lab {lab} has begun without this agent: another agent had its part and has left"
            ));
            return;
        }
        self.watcher.tell(&format!(
            "lab {lab}: taking a part, for {} (process {})",
            order.by.0, order.by.1
        ));
        let is_wanted = || lock(alive).contains(&number);
        let mut own = Own::new(self, order, (number, lease));
        let ran = own.run(&is_wanted);
        if let Err(error) = &ran {
            own.part.failure.get_or_insert_with(|| error.to_string());
        }
        own.part.phase = Phase::Ended;
        let left = own.leave_results();
        if let Err(error) = &left {
            let failure = || format!("its results are not in the store: {error}");
            own.part.failure.get_or_insert_with(failure);
        }
        // The report comes last, because the controller fetches the files that it lists.
        let told = left.and(when_there_is_room(|| own.tell()));
        match &own.part.failure {
            Some(failure) => self.watcher.tell(&format!("lab {lab}: {failure}")),
            None => self.watcher.tell(&format!("lab {lab}: its part is down")),
        }
        let is_told = is_wanted() && told.is_ok();
        // If the end of this part ends the lab, the controller fetches the results soon, so wait for it. If the lab goes on
        // without this agent, do not wait.
        let waits = || !(order.goes_on && self.leaving.load(Ordering::Acquire));
        while is_wanted() && !self.has_ended() && waits() {
            thread::sleep(LOOK_EVERY);
        }
        // The controller fetches the results before the order disappears.
        own.forget(is_told && !is_wanted());
    }
}

/// Tries again for a while if the store is full.
fn when_there_is_room<T>(mut put: impl FnMut() -> Result<T>) -> Result<T> {
    let began = Instant::now();
    loop {
        match put() {
            Err(Error::Full(_)) if began.elapsed() < FULL_WITHIN => thread::sleep(TRY_EVERY),
            done => return done,
        }
    }
}

/// Decrements the counter when dropped, in every case.
struct Gone<'a>(&'a AtomicUsize);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A part of a lab on this machine.
pub(super) struct Own<'a> {
    pub(super) keeper: &'a Keeper<'a>,
    pub(super) order: &'a LabDescription,
    /// The lease of the order.
    pub(super) lease: Option<LeaseId>,
    pub(super) part: WorkerRecord,
    /// Whether a report is still to be written because the store was full.
    is_untold: bool,
    /// The state of all parts.
    pub(super) parts: Parts,
    /// The manual changes.
    pub(super) changes: Changes,
    pub(super) time: CommonTime,
    pub(super) folder: Option<PathBuf>,
    /// The lock on the folder.
    pub(super) hold: Option<fs::File>,
    /// The lab's name on this machine.
    pub(super) called: Option<String>,
    /// For each lost machine, the machines that create its nodes again. All are indices into the order.
    pub(super) takers: BTreeMap<usize, Vec<usize>>,
    /// For each lost machine that this one has taken nodes of, the failure, or `None` on success.
    pub(super) took: BTreeMap<usize, Option<String>>,
}

impl<'a> Own<'a> {
    fn new(
        keeper: &'a Keeper<'a>,
        order: &'a LabDescription,
        (number, lease): (Revision, Option<LeaseId>),
    ) -> Self {
        let heard = keeper.heard();
        Self {
            keeper,
            order,
            lease,
            parts: Parts::new(&order.lab, number),
            changes: Changes::default(),
            time: CommonTime::default(),
            folder: None,
            hold: None,
            called: None,
            takers: BTreeMap::new(),
            took: BTreeMap::new(),
            is_untold: false,
            part: WorkerRecord {
                order: number,
                phase: Phase::Listening,
                address: None,
                token: keeper.token,
                clock_error_ns: heard.as_ref().map_or(0, |heard| heard.clock.error_ns),
                one_way_ns: heard.map_or((0, 0), |h| (h.clock.one_way_ns, h.longest_one_way_ns)),
                standing: None,
                failure: None,
                files: Vec::new(),
            },
        }
    }

    /// Runs the part from the order to the end of its worker.
    fn run(&mut self, is_wanted: &dyn Fn() -> bool) -> io::Result<()> {
        let folder = self.fetch()?;
        let mut process = Process::start(self.keeper, &folder)?;
        let prefix = keys::lab(&self.order.lab);
        let mut news: Option<Follow> = None;
        let answerer = Answerer::new(self.keeper.answering, &self.order.lab, self.part.order);
        let mut heard = WorkerState::default();
        let mut beat: Option<Instant> = None;
        loop {
            // The worker must get the time until which the name is held. Without these beats it stops sending.
            if beat.is_none_or(|at| at.elapsed() >= BEAT) {
                self.beat(&mut process);
                if self.is_untold {
                    self.say();
                }
                beat = Some(Instant::now());
            }
            // Waiting here, and not at the store, keeps the answers of the worker fast.
            match process.lines.recv_timeout(LOOK_EVERY) {
                Ok(FromWorker::Ended { failure }) => {
                    answerer.end();
                    self.part.failure = self.part.failure.take().or(failure);
                    // The requested commands end with the part because their nodes are gone.
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
            // The agent's end is a failure of the part, unless the part has failed already.
            if leaves {
                let failure = || "its agent received a signal to end".to_owned();
                self.part.failure.get_or_insert_with(failure);
            }
            if (leaves || !is_wanted() || self.keeper.has_ended()) && heard.ends() {
                process.say(&ToWorker::End);
            }
            // The subscription may fail while the store is unreachable. The worker must get its beats in any case.
            if news.is_none() {
                news = Follow::new(Arc::clone(self.keeper.store), &prefix).ok();
                for (key, entry) in news.iter().flat_map(Follow::known) {
                    self.learn(key, Some(entry));
                }
            }
            let Some(follow) = &mut news else { continue };
            // An unreachable store returns no events here, and the next turn tries again.
            for Event { key, entry, .. } in follow.next(Duration::ZERO).unwrap_or_default() {
                self.learn(&key, entry.as_ref());
            }
            // All machines read the same changes from the store, the one that received the change as well.
            for changing in self.changes.take() {
                process.say(&ToWorker::Change(changing));
            }
            let order = self.part.order;
            // Keys that are older than the order belong to an earlier lab of the same name.
            let known = |key: String| {
                let entry = follow.known().get(&key)?;
                (entry.created > order).then(|| entry.value.clone())
            };
            let ways = known(keys::ways(&self.order.lab)).filter(|_| !heard.ways);
            let ways: Option<UnderlaySettings> =
                ways.and_then(|text| serde_json::from_slice(&text).ok());
            if let Some(ways) = ways {
                heard.ways = true;
                process.say(&ToWorker::Ways(ways));
            }
            let go = known(keys::go(&self.order.lab)).filter(|_| !heard.go);
            let go: Option<LabStart> = go.and_then(|text| serde_json::from_slice(&text).ok());
            if let Some(go) = go {
                heard.go = true;
                heard.zero_ns = go.zero_ns;
                // From here on a change of the reference must not move the lab's clock.
                self.time.set();
                process.say(&ToWorker::Go(go.zero_ns));
                self.part.phase = Phase::Running;
                self.say();
            }
            if known(keys::end(&self.order.lab)).is_some() && heard.ends() {
                process.say(&ToWorker::End);
            }
            if self.part.phase == Phase::Running {
                self.send_changes(heard.zero_ns);
                if self.order.goes_on {
                    self.go_on(&mut heard, &mut process);
                }
            }
            // Before that the nodes do not exist, and requests wait.
            if let Some(called) = self
                .called
                .as_ref()
                .filter(|_| self.part.phase >= Phase::Ready)
            {
                answerer.ready(called);
            }
        }
    }

    /// Handles a change of a key of the lab.
    fn learn(&mut self, key: &str, entry: Option<&Entry>) {
        self.parts.learn_entry(key, entry);
        if let Some(entry) = entry {
            self.changes.learn(self.order, self.part.order, key, entry);
        }
    }

    fn beat(&mut self, process: &mut Process) {
        if let Some(heard) = self.keeper.heard() {
            let ahead_ns = self.time.hear(&heard.clock.against, heard.ahead_ns);
            process.say(&ToWorker::Beat(Heartbeat {
                ahead_ns,
                clock_jumps: heard.jumps,
                until_ns: self.keeper.until_ns.load(Ordering::Acquire),
            }));
        }
    }

    fn hear(&mut self, line: FromWorker) {
        match line {
            FromWorker::Listening(address) => {
                self.part.address = Some(address);
                self.say();
            }
            FromWorker::Called(name) => self.called = Some(name),
            FromWorker::Standing {
                nodes,
                plan,
                images,
            } => {
                // In the common clock, so that the controller can compare the machines.
                let ahead_ns = self.time.ahead_ns();
                self.part.phase = Phase::Ready;
                self.part.standing = Some(WorkerReady {
                    nodes,
                    plan,
                    images,
                    at_ns: mono_ns().saturating_add_signed(ahead_ns),
                });
                self.say();
            }
            FromWorker::Takers { machine, takers } => drop(self.takers.insert(machine, takers)),
            FromWorker::Took { machine, failure } => drop(self.took.insert(machine, failure)),
            FromWorker::Order { number, what } => self.changes.ask(number, what),
            FromWorker::Say(text) => {
                let lab = &self.order.lab;
                self.keeper.watcher.tell(&format!("lab {lab}: {text}"));
            }
            FromWorker::Ended { .. } => {}
        }
    }

    /// Writes the order and the files into a new folder.
    fn fetch(&mut self) -> io::Result<PathBuf> {
        let folder = folder::make(&self.order.lab)?;
        self.folder = Some(folder.clone());
        fs::write(folder.join(ORDER_FILE), serde_json::to_vec(self.order)?)?;
        self.hold = Some(folder::hold(&folder)?);
        pieces::check(&self.order.files).map_err(io::Error::other)?;
        for (number, file) in self.order.files.iter().enumerate() {
            let (store, prefix) = (self.keeper.store.as_ref(), keys::files(&self.order.lab));
            let bytes = pieces::get(store, &prefix, number, file.bytes);
            let bytes = bytes.map_err(io::Error::other)?;
            fs::write(folder.join(number.to_string()), bytes)?;
        }
        Ok(folder)
    }

    /// Reports the progress of the part to the store. If the store is full, the report is repeated later.
    fn say(&mut self) {
        self.is_untold = matches!(self.tell(), Err(Error::Full(_)));
    }

    /// Writes the progress of the part into the store if this machine still holds its name.
    fn tell(&self) -> Result<()> {
        let Keeper {
            store, name, token, ..
        } = self.keeper;
        let text = serde_json::to_vec(&self.part).map_err(|e| Error::Invalid(e.to_string()))?;
        let txn = Txn::new()
            .when(Condition::created_at(
                crate::agent::keys::owner(name),
                *token,
            ))
            .put_leased(keys::part(&self.order.lab, name), text, self.keeper.lease);
        loop {
            match store.commit(&txn) {
                Ok(Outcome::Committed { .. }) => return Ok(()),
                Ok(Outcome::Refused) => {
                    return Err(Error::LeaseLost(self.keeper.lease));
                }
                // Writing the same value twice is harmless.
                Err(Error::Unreachable(_) | Error::Uncertain(_)) if !self.keeper.has_ended() => {
                    thread::sleep(TRY_EVERY);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes the results of the part into the store.
    fn leave_results(&mut self) -> Result<()> {
        let Some(folder) = self.folder.as_ref().map(|folder| folder.join(RESULTS)) else {
            return Ok(());
        };
        let prefix = keys::results(&self.order.lab, self.keeper.name);
        // A store whose disk is busy for some seconds loses no results. The agent ends when its lease is lost.
        let store = Patient::new(self.keeper.store.as_ref(), self.keeper.end);
        let put = || results::put_all(&store, &prefix, &folder, self.keeper.lease);
        let (files, failure) = when_there_is_room(put)?;
        self.part.files = files;
        self.part.failure = self.part.failure.take().or(failure);
        Ok(())
    }

    /// Removes the results when they are no longer needed. If they were not fetched, the folder stays.
    fn forget(self, fetched: bool) {
        let (store, lab) = (self.keeper.store.as_ref(), &self.order.lab);
        // Keys that cannot be deleted disappear with the agent's lease.
        let _ = store.delete(&keys::part(lab, self.keeper.name));
        let _ = pieces::clear(store, &keys::results(lab, self.keeper.name));
        let Some(folder) = self.folder else { return };
        let results = folder.join(RESULTS);
        if fetched || !results.exists() {
            let _ = fs::remove_dir_all(folder);
        } else {
            self.keeper.watcher.tell(&format!(
                "lab {lab}: its results were not fetched; they are in {}",
                results.display()
            ));
        }
    }
}

/// The state that the worker has already received.
#[derive(Default)]
pub(super) struct WorkerState {
    pub(super) ways: bool,
    pub(super) go: bool,
    pub(super) end: bool,
    /// Lab time zero by the common clock, nanoseconds.
    pub(super) zero_ns: u64,
    /// Number of events that the worker has already received.
    pub(super) agreed: usize,
    /// The last attempts to write that a machine is lost, that this one has taken over nodes, and that nodes are back.
    pub(super) proposed: Option<Instant>,
    pub(super) took: Option<Instant>,
    pub(super) returned: Option<Instant>,
}

impl WorkerState {
    /// Returns whether the end must still be sent to the worker, and marks it as sent.
    pub(super) fn ends(&mut self) -> bool {
        !std::mem::replace(&mut self.end, true)
    }
}
