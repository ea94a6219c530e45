//! The controller of a lab on several machines. It writes the order, connects the parts, sets the start and the end of lab
//! time, and fetches the results. The lab ends without it because everything it wrote disappears with its lease.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::keys;
use super::model::{
    End, File, LabDescription, LabStart, Loss, Phase, SharedEvent, UnderlaySettings, WorkerReady,
    WorkerRecord,
};
use super::parts::Parts;
use super::pieces;
use super::speech::WorkerInput;
use crate::agent::clocks::random_bytes;
use crate::store::{
    Condition, Error, Event, Follow, LEASE, LeaseId, Outcome, Patient, Revision, Store, Txn,
};
use crate::underlay::Key;

/// A machine that has not read its order after this time counts as absent.
const LISTENING_WITHIN: Duration = Duration::from_secs(30);
/// Time from the moment when the last part is up to lab time zero. A few requests to the store fit into it.
const START_AHEAD: Duration = Duration::from_millis(1_500);
/// Maximum time for parts to go down, because the removal of a large lab takes time.
const DOWN_WITHIN: Duration = Duration::from_secs(180);
/// Maximum time to wait for parts that never reported.
const UNHEARD_WITHIN: Duration = Duration::from_secs(5);
/// Interval at which Ctrl-C is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time for programs to be woken, in addition to the longest delay between machines and the clock errors. A frame of a
/// longer edge waits on the receiving machine, so a longer head start costs only memory there.
const WAKING_NS: u64 = 5_000_000;

/// A lab to run on several machines.
pub struct ControllerInput<'a> {
    /// The store that the machines share.
    pub store: &'a Arc<dyn Store>,
    /// The order. [`lead`] fills in its `files`.
    pub order: LabDescription,
    /// The text of the scenario and the files that it names, each with its name in the scenario.
    pub files: &'a [(String, Vec<u8>)],
    /// Set by the caller to end the lab.
    pub stop: &'a AtomicBool,
    /// Prints a message for the user.
    pub say: &'a dyn Fn(&str),
    /// Saves a file of a machine's results: machine, path below its folder, and bytes.
    pub keep: &'a Keep<'a>,
}

/// A function that saves a file: name of the machine, path below its folder, and bytes.
pub type Keep<'a> = dyn Fn(&str, &str, &[u8]) -> io::Result<()> + 'a;

/// The outcome of a lab that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabOutcome {
    /// The addresses of the machines, or `None` if the lab ended before these were known.
    pub ways: Option<UnderlaySettings>,
    /// The reason for a premature end, if it ended prematurely.
    pub ended: Option<String>,
    /// The machines in the sequence of the order.
    pub machines: Vec<Ended>,
    /// Losses and returns of machines in lab time, in the sequence in which all machines got them.
    pub agreed: Vec<SharedEvent>,
}

/// The outcome of a machine's part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Name of the machine.
    pub machine: String,
    /// The failure of its part, if any.
    pub failure: Option<String>,
    /// The last phase that it reached, or `None` if it never reported.
    pub phase: Option<Phase>,
    /// The loss of the machine, if the lab continued without it.
    pub loss: Option<Loss>,
    /// Number of nodes it had, or 0 if it did not get that far.
    pub nodes: usize,
    /// Paths of its results.
    pub files: Vec<String>,
}

/// The reason why a lab was not run.
#[derive(Debug, thiserror::Error)]
pub enum ControllerFailure {
    /// A lab of this name is running.
    #[error(
        "lab {lab} runs on several machines already, led by process {pid} on host {host}\n  `constel down {lab} --store ...` ends it, or give this one another name with --name"
    )]
    Taken {
        /// Name of the lab.
        lab: String,
        /// Host of its controller.
        host: String,
        /// Process ID of its controller.
        pid: u32,
    },
    /// The scenario's files are too large.
    #[error(
        "the scenario and its files are {bytes} bytes, and at most {most} go through the store"
    )]
    TooLarge {
        /// Size of the files, bytes.
        bytes: u64,
        /// Maximum size, bytes.
        most: u64,
    },
    /// The store cannot be reached.
    #[error(transparent)]
    Store(#[from] Error),
    /// The results of a part cannot be saved.
    #[error("keep what machine {machine} left: {source}")]
    Keep {
        /// Name of the machine.
        machine: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Requests the end of a lab. Returns whether there is such a lab.
///
/// # Errors
/// If the store cannot be reached.
pub fn end(store: &dyn Store, lab: &str, why: &str) -> Result<bool, Error> {
    let Some(order) = store.get(&keys::order(lab))? else {
        return Ok(false);
    };
    put_end(store, lab, order.created, order.lease, why)
}

fn put_end(
    store: &dyn Store,
    lab: &str,
    order: Revision,
    lease: Option<LeaseId>,
    why: &str,
) -> Result<bool, Error> {
    let end = End {
        why: why.to_owned(),
    };
    let text = serde_json::to_vec(&end).map_err(|e| Error::Invalid(e.to_string()))?;
    let there = Txn::new().when(Condition::created_at(keys::order(lab), order));
    let key = keys::end(lab);
    let txn = match lease {
        Some(lease) => there.put_leased(key, text, lease),
        None => there.put(key, text),
    };
    match store.commit(&txn) {
        Ok(outcome) => Ok(outcome != Outcome::Refused),
        // The lab has ended in the meantime, so there is nothing to end.
        Err(Error::LeaseLost(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the order of a lab with its files, or `None` if no such lab is running.
///
/// # Errors
/// If the store cannot be reached, or if the files have more than 64 MiB.
pub fn order_of(store: &dyn Store, lab: &str) -> Result<Option<WorkerInput>, Error> {
    let Some(entry) = store.get(&keys::order(lab))? else {
        return Ok(None);
    };
    let order: LabDescription = serde_json::from_slice(&entry.value)
        .map_err(|error| Error::Answer(format!("the order of lab {lab}: {error}")))?;
    pieces::check(&order.files)?;
    let files = order.files.iter().enumerate().map(|(number, file)| {
        let bytes = pieces::get(store, &keys::files(lab), number, file.bytes)?;
        Ok((file.path.clone(), bytes))
    });
    let files = files.collect::<Result<_, Error>>()?;
    Ok(Some(WorkerInput { order, files }))
}

/// Returns the losses and returns of a lab's machines so far, in the sequence in which all machines got them.
///
/// # Errors
/// If the store cannot be reached.
pub fn agreed(store: &dyn Store, lab: &str) -> Result<Vec<SharedEvent>, Error> {
    let Some(order) = store.get(&keys::order(lab))? else {
        return Ok(Vec::new());
    };
    let mut parts = Parts::new(lab, order.created);
    for (key, entry) in store.list(&keys::lab(lab))?.entries {
        parts.learn_entry(&key, Some(&entry));
    }
    Ok(parts.agreed().cloned().collect())
}

/// Returns the orders of all running labs.
///
/// # Errors
/// If the store cannot be reached.
pub fn running(store: &dyn Store) -> Result<Vec<LabDescription>, Error> {
    let entries = store.list(keys::ORDERS)?.entries.into_iter();
    let orders = entries.filter_map(|(_, entry)| serde_json::from_slice(&entry.value).ok());
    Ok(orders.collect())
}

/// Waits until a lab has ended. Returns false if it still runs after some minutes.
///
/// # Errors
/// If the store cannot be reached.
pub fn wait_gone(store: &dyn Store, lab: &str) -> Result<bool, Error> {
    let until = Instant::now() + DOWN_WITHIN + DOWN_WITHIN / 2;
    while Instant::now() < until {
        if store.get(&keys::order(lab))?.is_none() {
            return Ok(true);
        }
        thread::sleep(LOOK_EVERY * 2);
    }
    Ok(false)
}

/// Runs a lab from its order until all results of its parts are saved.
///
/// # Errors
/// If a lab of this name is running, the store is unreachable for longer than a lease, or the disk does not accept the
/// results. The lab has then ended, or ends by itself.
pub fn lead(mut lead: ControllerInput<'_>) -> Result<LabOutcome, ControllerFailure> {
    let store = lead.store.as_ref();
    let bytes: u64 = lead.files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    if bytes > pieces::MOST_BYTES {
        let most = pieces::MOST_BYTES;
        return Err(ControllerFailure::TooLarge { bytes, most });
    }
    lead.order.files = lead
        .files
        .iter()
        .map(|(path, bytes)| File {
            path: path.clone(),
            bytes: bytes.len() as u64,
        })
        .collect();
    // All keys of the lab have this lease. If the controller dies, they disappear, and all parts end.
    let lease = store.grant(LEASE)?;
    let (over, lost) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        // Every end of this scope, a panic included, must stop the renewal of the lease.
        let _over = SetOnDrop(&over);
        scope.spawn(|| renew(store, lease.id, lease.ttl, &over, &lost));
        let patient = Patient::new(store, &lost);
        let led = lead.run(&patient, lease.id, &lost);
        // All keys disappear with the lease. The agents then discard the results of their parts.
        let revoked = patient.revoke(lease.id);
        let led = led?;
        match revoked {
            // The store was silent until the lease was over, so the keys are gone without it.
            Err(Error::Unreachable(_)) => {}
            revoked => revoked?,
        }
        Ok(led)
    })
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Renews a lease until `over` is set. Sets `lost` and returns when the lease is lost.
pub(super) fn renew(
    store: &dyn Store,
    lease: LeaseId,
    ttl: Duration,
    over: &AtomicBool,
    lost: &AtomicBool,
) {
    let mut alive = Instant::now();
    let mut tried = Instant::now();
    while !over.load(Ordering::Acquire) {
        thread::sleep(LOOK_EVERY);
        // Three renewals may fail before the lease ends.
        if tried.elapsed() < ttl / 4 {
            continue;
        }
        tried = Instant::now();
        match store.keep_alive(lease) {
            Ok(()) => alive = tried,
            Err(Error::LeaseLost(_)) => return lost.store(true, Ordering::Release),
            // No answer for a whole lease: the store has let it expire, whether it can be reached or not.
            Err(_) if alive.elapsed() > ttl => return lost.store(true, Ordering::Release),
            Err(_) => {}
        }
    }
}

impl ControllerInput<'_> {
    fn run(
        &self,
        store: &dyn Store,
        lease: LeaseId,
        lost: &AtomicBool,
    ) -> Result<LabOutcome, ControllerFailure> {
        let number = self.give_order(store, lease)?;
        let machines = &self.order.machines;
        let names: Vec<&str> = machines.iter().map(|m| m.name.as_str()).collect();
        (self.say)(&format!("lab {}: on {}", self.order.lab, names.join(", ")));
        let mut follow = Follow::new(Arc::clone(self.store), &keys::lab(&self.order.lab))?;
        let mut parts = Parts::new(&self.order.lab, number);
        // Agents may have answered between the order and the subscription.
        for (key, entry) in follow.known() {
            parts.learn_entry(key, Some(entry));
        }
        let mut told = 0;
        let began = Instant::now();
        let (mut ways, mut go, mut ended) = (None, false, None::<(String, Instant)>);
        loop {
            if lost.load(Ordering::Acquire) {
                let text = "the store was away for longer than the lab's lease, or ended it: all parts end by themselves";
                return Err(Error::Unreachable(text.to_owned()).into());
            }
            // Also the regular end: each part ends by itself when its lab time is over.
            if parts.all_over(&names) {
                break;
            }
            // Once lab time has begun, the remaining machines may continue without the lost ones.
            let goes_on = go && self.order.goes_on;
            let mut why = parts.why_to_end(&names).filter(|_| !goes_on);
            if self.stop.load(Ordering::Acquire) {
                why = why.or(Some("interrupted".to_owned()));
            }
            if let Some(name) = names.iter().find(|name| parts.is_silent(name))
                && began.elapsed() > LISTENING_WITHIN
            {
                why = why.or(Some(format!(
                    "machine {name} does not take its part: `constel agent` has to run there with --underlay"
                )));
            }
            // The first reason counts: later ones are usually its consequences.
            if ended.is_none() {
                let asked = follow.known().get(&keys::end(&self.order.lab));
                let asked = asked.filter(|entry| entry.created > number);
                let end = asked.and_then(|entry| serde_json::from_slice::<End>(&entry.value).ok());
                ended = end.map(|end| (end.why, Instant::now()));
            }
            if let (None, Some(why)) = (&ended, why) {
                (self.say)(&format!("ending on all machines: {why}"));
                put_end(store, &self.order.lab, number, Some(lease), &why)?;
                ended = Some((why, Instant::now()));
            }
            match &ended {
                Some((_, since)) if since.elapsed() > DOWN_WITHIN => break,
                // A machine that has not started its part by now finds the end in the store when it does.
                Some((_, since)) if since.elapsed() > UNHEARD_WITHIN && parts.known_over() => break,
                Some(_) => {}
                None if ways.is_none() => {
                    ways = self.bring_together(store, &parts, number, lease)?
                }
                None if !go => go = self.begin(store, &mut parts, lease)?,
                None => {}
            }
            let events = match follow.next(LOOK_EVERY) {
                Ok(events) => events,
                // The loss of the lease decides when the interruption was too long.
                Err(Error::Unreachable(_)) => continue,
                Err(error) => return Err(error.into()),
            };
            for Event { key, entry, .. } in events {
                parts.learn_entry(&key, entry.as_ref());
            }
            let agreed = parts.agreed().skip(told);
            agreed.for_each(|agreed| self.tell(agreed, &parts));
            told = parts.agreed().count();
        }
        self.fetch(store, parts, ways, ended.map(|(why, _)| why))
    }

    /// Prints the loss or the return of a machine.
    fn tell(&self, agreed: &SharedEvent, parts: &Parts) {
        match agreed {
            SharedEvent::Lost { machine, loss } => {
                let nodes = parts.nodes(machine);
                let then = match self.order.moves {
                    true => format!("the others create its {nodes} nodes again"),
                    false => format!("the lab continues without its {nodes} nodes"),
                };
                (self.say)(&format!("machine {machine} is lost: {}; {then}", loss.why));
            }
            SharedEvent::Back { machine, back } => (self.say)(&format!(
                "what machine {machine} had is on {}",
                back.ready.join(", ")
            )),
        }
    }

    /// Writes the order. Returns the revision at which it was written.
    fn give_order(&self, store: &dyn Store, lease: LeaseId) -> Result<Revision, ControllerFailure> {
        let lab = &self.order.lab;
        let key = keys::order(lab);
        let taken = || -> Result<Option<ControllerFailure>, ControllerFailure> {
            let Some(there) = store.get(&key)? else {
                return Ok(None);
            };
            let order: Option<LabDescription> = serde_json::from_slice(&there.value).ok();
            let (host, pid) = order.map_or(("?".to_owned(), 0), |order| order.by);
            let lab = lab.clone();
            Ok(Some(ControllerFailure::Taken { lab, host, pid }))
        };
        if let Some(taken) = taken()? {
            return Err(taken);
        }
        // The files come before the order: an agent that sees the order must find them.
        for (file, (_, bytes)) in self.files.iter().enumerate() {
            pieces::put(store, &keys::files(lab), file, bytes, lease)?;
        }
        let text = serde_json::to_vec(&self.order).map_err(|e| Error::Invalid(e.to_string()))?;
        // Two controllers may have found the name free at the same time. Only one creates the key.
        let txn = Txn::new().when(Condition::absent(&key));
        match store.commit(&txn.put_leased(&key, text, lease))? {
            Outcome::Committed { revision } => Ok(revision),
            Outcome::Refused => Err(taken()?.unwrap_or_else(|| {
                Error::Answer(format!(
                    "another run of lab {lab} began and ended at the same time: try again"
                ))
                .into()
            })),
        }
    }

    /// When all parts listen, sends their addresses to each other.
    fn bring_together(
        &self,
        store: &dyn Store,
        parts: &Parts,
        number: Revision,
        lease: LeaseId,
    ) -> Result<Option<UnderlaySettings>, ControllerFailure> {
        let all = self.order.machines.iter().map(|machine| {
            let part = parts.known.get(&machine.name)?;
            Some((part.address?, part))
        });
        let Some(all) = all.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let key = self.order.encrypted.then(random_bytes).transpose()?;
        let ways = UnderlaySettings {
            key: key.map(Key::new),
            // Frames have 24 bits for the number of the lab. Revisions grow, so labs of one store do not repeat soon.
            number: number as u32 & 0x00ff_ffff,
            session: number as u32,
            ahead_ns: head_start(all.iter().map(|(_, part)| *part)),
            machines: all
                .iter()
                .map(|(address, part)| (*address, part.token as u32))
                .collect(),
        };
        put(store, &keys::ways(&self.order.lab), &ways, lease)?;
        Ok(Some(ways))
    }

    /// When all parts are up, sets lab time zero. Requires that all have the same plan.
    fn begin(
        &self,
        store: &dyn Store,
        parts: &mut Parts,
        lease: LeaseId,
    ) -> Result<bool, ControllerFailure> {
        let standing = self.order.machines.iter().map(|machine| {
            let standing = parts.known.get(&machine.name)?.standing.clone()?;
            Some((machine.name.clone(), standing))
        });
        let Some(standing) = standing.collect::<Option<Vec<_>>>() else {
            return Ok(false);
        };
        // Different plans would give different links and routes at the same instant, and results of no known scenario.
        if let Some((machine, failure)) = difference(&standing) {
            if let Some(part) = parts.known.get_mut(machine) {
                part.failure = Some(failure);
            }
            return Ok(false);
        }
        let last_ns = standing.iter().map(|(_, standing)| standing.at_ns).max();
        // The slowest part decides, and every worker must read the key before the instant comes.
        let zero_ns = last_ns.unwrap_or(0) + START_AHEAD.as_nanos() as u64;
        put(
            store,
            &keys::go(&self.order.lab),
            &LabStart { zero_ns },
            lease,
        )?;
        (self.say)("all parts stand; lab time begins");
        Ok(true)
    }

    fn fetch(
        &self,
        store: &dyn Store,
        parts: Parts,
        ways: Option<UnderlaySettings>,
        ended: Option<String>,
    ) -> Result<LabOutcome, ControllerFailure> {
        let lab = &self.order.lab;
        let mut machines = Vec::new();
        for machine in &self.order.machines {
            let name = &machine.name;
            let lost = parts.lost.get(name);
            let part = parts.known.get(name).or(lost);
            let mut failure = parts.trouble(name);
            // A part that has neither ended nor been lost is stuck: the user must see that the results of it may be incomplete.
            if lost.is_none() && part.is_none_or(|part| part.phase != Phase::Ended) {
                let seconds = DOWN_WITHIN.as_secs();
                failure.get_or_insert_with(|| format!("its part is not down after {seconds} s"));
            }
            let mut files = Vec::new();
            let mut left = part.map_or(&[][..], |part| &part.files);
            if let Err(error) = pieces::check(left) {
                failure.get_or_insert_with(|| error.to_string());
                left = &[];
            }
            for (number, file) in left.iter().enumerate() {
                let prefix = keys::results(lab, name);
                let bytes = match pieces::get(store, &prefix, number, file.bytes) {
                    // The results disappear with the agent's lease, so an agent that ended too early leaves gaps.
                    Ok(bytes) => bytes,
                    Err(Error::Answer(_)) => {
                        let gone = || "what it left is gone with its agent".to_owned();
                        failure.get_or_insert_with(gone);
                        break;
                    }
                    Err(error) => return Err(error.into()),
                };
                let kept = (self.keep)(name, &file.path, &bytes);
                kept.map_err(|source| ControllerFailure::Keep {
                    machine: name.clone(),
                    source,
                })?;
                files.push(file.path.clone());
            }
            machines.push(Ended {
                machine: name.clone(),
                failure,
                phase: part.map(|part| part.phase),
                loss: parts.losses.get(name).cloned(),
                nodes: parts.nodes(name),
                files,
            });
        }
        Ok(LabOutcome {
            ways,
            ended,
            machines,
            agreed: parts.agreed().cloned().collect(),
        })
    }
}

fn put(
    store: &dyn Store,
    key: &str,
    value: &impl serde::Serialize,
    lease: LeaseId,
) -> Result<(), ControllerFailure> {
    let text = serde_json::to_vec(value).map_err(|e| Error::Invalid(e.to_string()))?;
    store.commit(&Txn::new().put_leased(key, text, lease))?;
    Ok(())
}

/// Returns the head start: how much earlier than due a frame is sent. It exceeds the longest delay between any two machines
/// plus their clock errors. Only delays to the reference are known, so a delay between two other machines is bounded by the
/// sum of their delays to it.
fn head_start<'a>(parts: impl Iterator<Item = &'a WorkerRecord>) -> u64 {
    let of_each = parts.map(|part| part.one_way_ns.1 + part.clock_error_ns);
    let mut longest: Vec<u64> = of_each.collect();
    longest.sort_unstable();
    // No pair of machines can be farther apart than the two that are farthest from the reference.
    longest.iter().rev().take(2).sum::<u64>() + WAKING_NS
}

/// Returns a machine whose plan differs from that of an earlier machine, and the difference.
fn difference(standing: &[(String, WorkerReady)]) -> Option<(&str, String)> {
    let (first, one) = standing.first()?;
    if let Some((second, other)) = standing.iter().find(|(_, other)| other.plan != one.plan) {
        let failure = format!(
            "machines {first} and {second} plan different labs ({} and {}): their programs or their files differ",
            one.plan, other.plan
        );
        return Some((second, failure));
    }
    // Each machine reports the images of its own nodes only, so images are compared by name.
    let mut known: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for (machine, standing) in standing {
        for (name, id) in &standing.images {
            let (first, one) = *known.entry(name).or_insert((machine, id));
            if one != id {
                let failure = format!(
                    "the image {name} of machine {first} is {one}, and that of {machine} is {id}: `constel image import` the same on both"
                );
                return Some((machine, failure));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_plan_or_are_made_of_something_else_are_named() {
        let standing = |plan: &str, images: &[(&str, &str)]| WorkerReady {
            nodes: 1,
            plan: plan.to_owned(),
            images: images
                .iter()
                .map(|(name, id)| ((*name).to_owned(), (*id).to_owned()))
                .collect(),
            at_ns: 0,
        };
        let differ = |all: &[WorkerReady]| {
            let named = ["a", "b", "c"].map(str::to_owned).into_iter();
            let all: Vec<_> = named.zip(all.iter().cloned()).collect();
            difference(&all).map(|(machine, why)| (machine.to_owned(), why))
        };
        let same = standing("1", &[("box", "x")]);
        let none = standing("1", &[("other", "z")]);
        assert_eq!(differ(&[same.clone(), none.clone(), same.clone()]), None);
        let (machine, why) = differ(&[same.clone(), standing("2", &[])]).unwrap();
        assert!(machine == "b" && why.contains("plan different labs (1 and 2)"));
        let other = standing("1", &[("box", "y")]);
        let (machine, why) = differ(&[same, none, other]).unwrap();
        assert!(
            machine == "c" && why.contains("the image box of machine a is x, and that of c is y")
        );
    }
    use crate::agent::labs::parts::tests::part;

    #[test]
    fn the_head_start_is_longer_than_the_longest_way_of_any_two() {
        let parts = [(0, 0), (100, 10), (50, 5), (70, 7)];
        let parts = parts.map(|(way, error)| part(Phase::Listening, way, error));
        assert_eq!(head_start(parts.iter()), 110 + 77 + WAKING_NS);
        assert_eq!(head_start(parts[..1].iter()), WAKING_NS);
    }
}
