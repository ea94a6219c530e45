//! An agent's side of labs: it has each part run by a process of its own, and tells the store how far that is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use constel_store::{
    Condition, Entry, Error, Event, Follow, LeaseId, Outcome, Result, Revision, Store, Txn,
};

use super::answerer::Answerer;
use super::changes::Changes;
use super::common_time::CommonTime;
use super::folder;
use super::keys;
use super::model::{Go, Order, Part, Phase, Standing, Ways};
use super::parts::Parts;
use super::pieces;
use super::process::Process;
use super::results;
use super::speech::{Beat, FromPart, ORDER_FILE, RESULTS, ToPart};
use crate::clocks::mono_ns;
use crate::measure::{Heard, Latest};
use crate::record::UnderlayAt;
use crate::run::Watcher;

/// How often the process is told what is known.
const BEAT: Duration = Duration::from_millis(250);
/// How long news of the process or of the store wait at most.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Between two tries of a store that is away.
pub(super) const TRY_EVERY: Duration = Duration::from_millis(200);
/// A store that is full is waited for so long, to put there what a part leaves.
const FULL_WITHIN: Duration = Duration::from_secs(30);

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
    pub(crate) underlay: &'a UnderlayAt,
    /// Threads that make a part's nodes.
    pub(crate) workers: NonZeroU32,
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
                        let (number, lease, alive) = (entry.created, entry.lease, &alive);
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
    fn take(
        &self,
        order: &Order,
        (number, lease): (Revision, Option<LeaseId>),
        alive: &Mutex<BTreeSet<Revision>>,
    ) {
        let lab = &order.lab;
        let go = self.store.get(&keys::go(lab)).ok().flatten();
        if go.is_some_and(|go| go.created > number) {
            self.watcher.tell(&format!(
                "lab {lab} has begun without this agent: its part was another's, who is gone"
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
        let told = left.and(when_there_is_room(|| own.tell()));
        match &own.part.failure {
            Some(failure) => self.watcher.tell(&format!("lab {lab}: {failure}")),
            None => self.watcher.tell(&format!("lab {lab}: its part is down")),
        }
        let is_told = is_wanted() && told.is_ok();
        // What ends the lab lets who leads fetch it soon; a lab that goes on is not waited for.
        let waits = || !(order.goes_on && self.leaving.load(Ordering::Acquire));
        while is_wanted() && !self.has_ended() && waits() {
            thread::sleep(LOOK_EVERY);
        }
        // Who leads has fetched it before the order went.
        own.forget(is_told && !is_wanted());
    }
}

/// Tries again for a while where the store is full.
fn when_there_is_room<T>(mut put: impl FnMut() -> Result<T>) -> Result<T> {
    let began = Instant::now();
    loop {
        match put() {
            Err(Error::Full(_)) if began.elapsed() < FULL_WITHIN => thread::sleep(TRY_EVERY),
            done => return done,
        }
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
pub(super) struct Own<'a> {
    pub(super) keeper: &'a Keeper<'a>,
    pub(super) order: &'a Order,
    /// By which the order is there.
    pub(super) lease: Option<LeaseId>,
    pub(super) part: Part,
    /// The store was full when it was to be told of it.
    is_untold: bool,
    /// What all parts do.
    pub(super) parts: Parts,
    /// What all change by hand.
    pub(super) changes: Changes,
    pub(super) time: CommonTime,
    pub(super) folder: Option<PathBuf>,
    /// Somebody works in the folder.
    pub(super) hold: Option<fs::File>,
    /// The lab's name here.
    pub(super) called: Option<String>,
    /// By the place of a lost machine: those of the machines that make its nodes anew.
    pub(super) takers: BTreeMap<usize, Vec<usize>>,
    /// By the same: that this one has made what it was to, or why it could not.
    pub(super) took: BTreeMap<usize, Option<String>>,
}

impl<'a> Own<'a> {
    fn new(
        keeper: &'a Keeper<'a>,
        order: &'a Order,
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
        let mut process = Process::start(self.keeper, &folder)?;
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
                if self.is_untold {
                    self.say();
                }
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
                for (key, entry) in news.iter().flat_map(Follow::known) {
                    self.learn(key, Some(entry));
                }
            }
            let Some(follow) = &mut news else { continue };
            // A store that is away for a while is asked again.
            for Event { key, entry, .. } in follow.next(Duration::ZERO).unwrap_or_default() {
                self.learn(&key, entry.as_ref());
            }
            for changing in self.changes.take() {
                process.say(&ToPart::Change(changing));
            }
            let order = self.part.order;
            let known = |key: String| {
                let entry = follow.known().get(&key)?;
                (entry.created > order).then(|| entry.value.clone())
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
                heard.zero_ns = go.zero_ns;
                self.time.set();
                process.say(&ToPart::Go(go.zero_ns));
                self.part.phase = Phase::Running;
                self.say();
            }
            if known(keys::end(&self.order.lab)).is_some() && heard.ends() {
                process.say(&ToPart::End);
            }
            if self.part.phase == Phase::Running {
                self.tell_changes(heard.zero_ns);
                if self.order.goes_on {
                    self.go_on(&mut heard, &mut process);
                }
            }
            if let Some(called) = &self.called {
                answerer.look(program, called, self.part.phase);
            }
        }
    }

    /// What happened to a key of the lab.
    fn learn(&mut self, key: &str, entry: Option<&Entry>) {
        self.parts.learn_entry(key, entry);
        if let Some(entry) = entry {
            self.changes.learn(self.order, self.part.order, key, entry);
        }
    }

    fn beat(&mut self, process: &mut Process) {
        if let Some(heard) = self.keeper.heard() {
            let ahead_ns = self.time.hear(&heard.clock.against, heard.ahead_ns);
            process.say(&ToPart::Beat(Beat {
                ahead_ns,
                clock_jumps: heard.jumps,
                until_ns: self.keeper.until_ns.load(Ordering::Acquire),
            }));
        }
    }

    fn hear(&mut self, line: FromPart) {
        match line {
            FromPart::Listening(address) => {
                self.part.address = Some(address);
                self.say();
            }
            FromPart::Called(name) => self.called = Some(name),
            FromPart::Standing {
                nodes,
                plan,
                images,
            } => {
                let ahead_ns = self.time.ahead_ns();
                self.part.phase = Phase::Standing;
                self.part.standing = Some(Standing {
                    nodes,
                    plan,
                    images,
                    at_ns: mono_ns().saturating_add_signed(ahead_ns),
                });
                self.say();
            }
            FromPart::Takers { machine, takers } => drop(self.takers.insert(machine, takers)),
            FromPart::Took { machine, failure } => drop(self.took.insert(machine, failure)),
            FromPart::Order { number, what } => self.changes.ask(number, what),
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

    /// Tells the store how far the part is; what a full one does not take, it is told later.
    fn say(&mut self) {
        self.is_untold = matches!(self.tell(), Err(Error::Full(_)));
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
        let put = || results::put_all(store, &prefix, &folder, self.keeper.lease);
        let (files, failure) = when_there_is_room(put)?;
        self.part.files = files;
        self.part.failure = self.part.failure.take().or(failure);
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
pub(super) struct Told {
    pub(super) ways: bool,
    pub(super) go: bool,
    pub(super) end: bool,
    /// Lab time zero, by the common clock.
    pub(super) zero_ns: u64,
    /// So much of what all go by.
    pub(super) agreed: usize,
    /// When the store was last asked to say that one is lost, that this one has made what it takes, and that nodes are back.
    pub(super) proposed: Option<Instant>,
    pub(super) took: Option<Instant>,
    pub(super) returned: Option<Instant>,
}

impl Told {
    /// Whether it has not been told to end yet; from now on it has.
    pub(super) fn ends(&mut self) -> bool {
        !std::mem::replace(&mut self.end, true)
    }
}
