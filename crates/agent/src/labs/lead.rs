//! The process that leads a lab on several machines: it writes the order, brings the parts together, says when lab time begins and
//! that it is over, and fetches what they left. Without it the lab ends: everything it wrote goes with its lease.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use constel_store::{
    Condition, Error, Event, Follow, LEASE, LeaseId, Outcome, Revision, Store, Txn,
};
use constel_underlay::Key;

use super::keys;
use super::model::{Agreed, End, File, Go, Loss, Order, Part, Phase, Standing, Ways};
use super::parts::Parts;
use super::pieces;
use super::speech::Given;
use crate::clocks::drawn_to_tell;

/// A machine that has not read its order by then does not.
const LISTENING_WITHIN: Duration = Duration::from_secs(30);
/// From when the last part stands to lab time zero: the store is asked a few times meanwhile.
const START_AHEAD: Duration = Duration::from_millis(1_500);
/// Parts that were told to end have so long: a large lab is not removed in a moment.
const DOWN_WITHIN: Duration = Duration::from_secs(180);
/// Those of which nothing was heard are not waited for longer than this.
const UNHEARD_WITHIN: Duration = Duration::from_secs(5);
/// How soon Ctrl-C is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Beyond the longest way between machines and what clocks may be wrong: the time that programs take to be woken. An edge that is
/// longer waits for the rest where it is served, so that a longer head start costs nothing but memory over there.
const WAKING_NS: u64 = 5_000_000;

/// A lab that is to be led.
pub struct Lead<'a> {
    /// What the machines share.
    pub store: &'a Arc<dyn Store>,
    /// What is to be run; its `files` are filled in here.
    pub order: Order,
    /// The scenario's text, and the files that it names, by what it calls them.
    pub files: &'a [(String, Vec<u8>)],
    /// Set from outside to end the lab.
    pub stop: &'a AtomicBool,
    /// For people.
    pub say: &'a dyn Fn(&str),
    /// Keeps what a machine's part left: the machine, the path below its folder, and the bytes.
    pub keep: &'a Keep<'a>,
}

/// Takes a machine's name, a path below its folder, and the bytes that are to be kept there.
pub type Keep<'a> = dyn Fn(&str, &str, &[u8]) -> io::Result<()> + 'a;

/// How a lab was that came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Led {
    /// Where the machines listened; `None`: it did not come that far.
    pub ways: Option<Ways>,
    /// Why it ended before its time, if it did.
    pub ended: Option<String>,
    /// The machines, in the order's order.
    pub machines: Vec<Ended>,
    /// What became of them in lab time, in the order in which all were told.
    pub agreed: Vec<Agreed>,
}

/// How a machine's part ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The machine.
    pub machine: String,
    /// What is wrong with its part, if anything.
    pub failure: Option<String>,
    /// How far it came; `None`: nothing was heard of it.
    pub phase: Option<Phase>,
    /// That the lab went on without it, if it did.
    pub loss: Option<Loss>,
    /// Nodes that it had; 0: it did not come that far.
    pub nodes: usize,
    /// What it left.
    pub files: Vec<String>,
}

/// Why nothing was led.
#[derive(Debug, thiserror::Error)]
pub enum LeadFailure {
    /// The lab is there.
    #[error(
        "lab {lab} runs on several machines already, led by process {pid} on host {host}\n  `constel down {lab} --store ...` ends it, or give this one another name with --name"
    )]
    Taken {
        /// The lab.
        lab: String,
        /// The host.
        host: String,
        /// The process there.
        pid: u32,
    },
    /// The scenario's files are too large.
    #[error(
        "the scenario and its files are {bytes} bytes, and at most {most} go through the store"
    )]
    TooLarge {
        /// Their length.
        bytes: u64,
        /// What may be.
        most: u64,
    },
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] Error),
    /// What the parts left cannot be kept.
    #[error("keep what machine {machine} left: {source}")]
    Keep {
        /// The machine.
        machine: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Asks for a lab's end. Whether there is such a lab.
///
/// # Errors
/// When the store cannot be asked.
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
        // It has ended meanwhile.
        Err(Error::LeaseLost(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The order of a lab, and the files that it came with; `None`: nobody leads such a lab.
///
/// # Errors
/// When the store cannot be asked.
pub fn order_of(store: &dyn Store, lab: &str) -> Result<Option<Given>, Error> {
    let Some(entry) = store.get(&keys::order(lab))? else {
        return Ok(None);
    };
    let order: Order = serde_json::from_slice(&entry.value)
        .map_err(|error| Error::Answer(format!("the order of lab {lab}: {error}")))?;
    let files = order.files.iter().enumerate().map(|(number, file)| {
        let bytes = pieces::get(store, &keys::files(lab), number, file.bytes)?;
        Ok((file.path.clone(), bytes))
    });
    let files = files.collect::<Result<_, Error>>()?;
    Ok(Some(Given { order, files }))
}

/// What became of a lab's machines so far, in the order in which all were told.
///
/// # Errors
/// When the store cannot be asked.
pub fn agreed(store: &dyn Store, lab: &str) -> Result<Vec<Agreed>, Error> {
    let Some(order) = store.get(&keys::order(lab))? else {
        return Ok(Vec::new());
    };
    let mut parts = Parts::new(lab, order.created);
    for (key, entry) in store.list(&keys::lab(lab))?.entries {
        parts.learn_entry(&key, Some(&entry));
    }
    Ok(parts.agreed().cloned().collect())
}

/// Labs that are led now.
///
/// # Errors
/// When the store cannot be asked.
pub fn running(store: &dyn Store) -> Result<Vec<Order>, Error> {
    let entries = store.list(keys::ORDERS)?.entries.into_iter();
    let orders = entries.filter_map(|(_, entry)| serde_json::from_slice(&entry.value).ok());
    Ok(orders.collect())
}

/// Waits until nobody leads a lab any more. False: it is still led after some minutes.
///
/// # Errors
/// When the store cannot be asked.
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

/// Leads a lab from its order to when all that its parts left is kept.
///
/// # Errors
/// When there is such a lab, the store is away for longer than a lease, or the disk does not take what the parts left. The lab
/// has ended then, or does so by itself.
pub fn lead(mut lead: Lead<'_>) -> Result<Led, LeadFailure> {
    let store = lead.store.as_ref();
    let bytes: u64 = lead.files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    if bytes > pieces::MOST_BYTES {
        let most = pieces::MOST_BYTES;
        return Err(LeadFailure::TooLarge { bytes, most });
    }
    lead.order.files = lead
        .files
        .iter()
        .map(|(path, bytes)| File {
            path: path.clone(),
            bytes: bytes.len() as u64,
        })
        .collect();
    let lease = store.grant(LEASE)?;
    let (over, lost) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        // However this ends, by a panic too, the lease is not renewed any more.
        let _over = SetOnDrop(&over);
        scope.spawn(|| renew(store, lease.id, lease.ttl, &over, &lost));
        let led = lead.run(lease.id, &lost);
        // All that was written goes with it, and the parts forget what they left.
        let revoked = store.revoke(lease.id);
        let led = led?;
        revoked?;
        Ok(led)
    })
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Renews a lease until it is `over`, or `lost`.
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
        if tried.elapsed() < ttl / 4 {
            continue;
        }
        tried = Instant::now();
        match store.keep_alive(lease) {
            Ok(()) => alive = tried,
            Err(Error::LeaseLost(_)) => return lost.store(true, Ordering::Release),
            Err(_) if alive.elapsed() > ttl => return lost.store(true, Ordering::Release),
            Err(_) => {}
        }
    }
}

impl Lead<'_> {
    fn run(&self, lease: LeaseId, lost: &AtomicBool) -> Result<Led, LeadFailure> {
        let number = self.give_order(lease)?;
        let machines = &self.order.machines;
        let names: Vec<&str> = machines.iter().map(|m| m.name.as_str()).collect();
        (self.say)(&format!("lab {}: on {}", self.order.lab, names.join(", ")));
        let mut follow = Follow::new(Arc::clone(self.store), &keys::lab(&self.order.lab))?;
        let mut parts = Parts::new(&self.order.lab, number);
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
            if parts.all_over(&names) {
                break;
            }
            // Once lab time has begun, those that are left may go on without the others.
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
            if ended.is_none() {
                let asked = follow.known().get(&keys::end(&self.order.lab));
                let asked = asked.filter(|entry| entry.created > number);
                let end = asked.and_then(|entry| serde_json::from_slice::<End>(&entry.value).ok());
                ended = end.map(|end| (end.why, Instant::now()));
            }
            if let (None, Some(why)) = (&ended, why) {
                (self.say)(&format!("ending on all machines: {why}"));
                let store = self.store.as_ref();
                put_end(store, &self.order.lab, number, Some(lease), &why)?;
                ended = Some((why, Instant::now()));
            }
            match &ended {
                Some((_, since)) if since.elapsed() > DOWN_WITHIN => break,
                // Whoever has not taken its part by now reads that it is to end.
                Some((_, since)) if since.elapsed() > UNHEARD_WITHIN && parts.known_over() => break,
                Some(_) => {}
                None if ways.is_none() => ways = self.bring_together(&parts, number, lease)?,
                None if !go => go = self.begin(&mut parts, lease)?,
                None => {}
            }
            let events = match follow.next(LOOK_EVERY) {
                Ok(events) => events,
                // The lease says when that is too long.
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
        self.fetch(parts, ways, ended.map(|(why, _)| why))
    }

    /// Says what became of machines.
    fn tell(&self, agreed: &Agreed, parts: &Parts) {
        match agreed {
            Agreed::Lost { machine, loss } => {
                let nodes = parts.nodes(machine);
                let then = match self.order.moves {
                    true => format!("the others make its {nodes} nodes anew"),
                    false => format!("the lab goes on without its {nodes} nodes"),
                };
                (self.say)(&format!("machine {machine} is lost: {}; {then}", loss.why));
            }
            Agreed::Back { machine, back } => (self.say)(&format!(
                "what machine {machine} had is on {}",
                back.ready.join(", ")
            )),
        }
    }

    /// Writes the order; the number of the change by which it is there.
    fn give_order(&self, lease: LeaseId) -> Result<Revision, LeadFailure> {
        let (store, lab) = (self.store.as_ref(), &self.order.lab);
        let key = keys::order(lab);
        let taken = || -> Result<Option<LeadFailure>, LeadFailure> {
            let Some(there) = store.get(&key)? else {
                return Ok(None);
            };
            let order: Option<Order> = serde_json::from_slice(&there.value).ok();
            let (host, pid) = order.map_or(("?".to_owned(), 0), |order| order.by);
            let lab = lab.clone();
            Ok(Some(LeadFailure::Taken { lab, host, pid }))
        };
        if let Some(taken) = taken()? {
            return Err(taken);
        }
        for (file, (_, bytes)) in self.files.iter().enumerate() {
            pieces::put(store, &keys::files(lab), file, bytes, lease)?;
        }
        let text = serde_json::to_vec(&self.order).map_err(|e| Error::Invalid(e.to_string()))?;
        let txn = Txn::new().when(Condition::absent(&key));
        match store.commit(&txn.put_leased(&key, text, lease))? {
            Outcome::Committed { revision } => Ok(revision),
            Outcome::Refused => Err(taken()?.unwrap_or_else(|| {
                Error::Answer(format!("lab {lab} came and went meanwhile: try again")).into()
            })),
        }
    }

    /// Once all parts listen: tells them of each other.
    fn bring_together(
        &self,
        parts: &Parts,
        number: Revision,
        lease: LeaseId,
    ) -> Result<Option<Ways>, LeadFailure> {
        let all = self.order.machines.iter().map(|machine| {
            let part = parts.known.get(&machine.name)?;
            Some((part.address?, part))
        });
        let Some(all) = all.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let key = self.order.encrypted.then(drawn_to_tell).transpose()?;
        let ways = Ways {
            key: key.map(Key::new),
            number: number as u32 & 0x00ff_ffff,
            session: number as u32,
            ahead_ns: head_start(all.iter().map(|(_, part)| *part)),
            machines: all
                .iter()
                .map(|(address, part)| (*address, part.token as u32))
                .collect(),
        };
        self.put(&keys::ways(&self.order.lab), &ways, lease)?;
        Ok(Some(ways))
    }

    /// Once all parts stand: says when lab time is zero. They must have planned the same.
    fn begin(&self, parts: &mut Parts, lease: LeaseId) -> Result<bool, LeadFailure> {
        let standing = self.order.machines.iter().map(|machine| {
            let standing = parts.known.get(&machine.name)?.standing.clone()?;
            Some((machine.name.clone(), standing))
        });
        let Some(standing) = standing.collect::<Option<Vec<_>>>() else {
            return Ok(false);
        };
        if let Some((machine, failure)) = difference(&standing) {
            if let Some(part) = parts.known.get_mut(machine) {
                part.failure = Some(failure);
            }
            return Ok(false);
        }
        let last_ns = standing.iter().map(|(_, standing)| standing.at_ns).max();
        let zero_ns = last_ns.unwrap_or(0) + START_AHEAD.as_nanos() as u64;
        self.put(&keys::go(&self.order.lab), &Go { zero_ns }, lease)?;
        (self.say)("all parts stand; lab time begins");
        Ok(true)
    }

    fn put(
        &self,
        key: &str,
        value: &impl serde::Serialize,
        lease: LeaseId,
    ) -> Result<(), LeadFailure> {
        let text = serde_json::to_vec(value).map_err(|e| Error::Invalid(e.to_string()))?;
        self.store
            .commit(&Txn::new().put_leased(key, text, lease))?;
        Ok(())
    }

    fn fetch(
        &self,
        parts: Parts,
        ways: Option<Ways>,
        ended: Option<String>,
    ) -> Result<Led, LeadFailure> {
        let (store, lab) = (self.store.as_ref(), &self.order.lab);
        let mut machines = Vec::new();
        for machine in &self.order.machines {
            let name = &machine.name;
            let lost = parts.lost.get(name);
            let part = parts.known.get(name).or(lost);
            let mut failure = parts.trouble(name);
            if lost.is_none() && part.is_none_or(|part| part.phase != Phase::Ended) {
                let seconds = DOWN_WITHIN.as_secs();
                failure.get_or_insert_with(|| format!("its part is not down after {seconds} s"));
            }
            let mut files = Vec::new();
            let left = part.map_or(&[][..], |part| &part.files);
            for (number, file) in left.iter().enumerate() {
                let prefix = keys::results(lab, name);
                let bytes = match pieces::get(store, &prefix, number, file.bytes) {
                    Ok(bytes) => bytes,
                    Err(Error::Answer(_)) => {
                        let gone = || "what it left is gone with its agent".to_owned();
                        failure.get_or_insert_with(gone);
                        break;
                    }
                    Err(error) => return Err(error.into()),
                };
                let kept = (self.keep)(name, &file.path, &bytes);
                kept.map_err(|source| LeadFailure::Keep {
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
        Ok(Led {
            ways,
            ended,
            machines,
            agreed: parts.agreed().cloned().collect(),
        })
    }
}

/// How long before they are due frames leave: longer than the longest way between any two, and what their clocks may be wrong. Ways
/// are known to the reference only; between two others it is as long as both together.
fn head_start<'a>(parts: impl Iterator<Item = &'a Part>) -> u64 {
    let of_each = parts.map(|part| part.way_ns.1 + part.clock_error_ns);
    let mut longest: Vec<u64> = of_each.collect();
    longest.sort_unstable();
    longest.iter().rev().take(2).sum::<u64>() + WAKING_NS
}

/// A machine that is about to run another lab than one before it, and what differs.
fn difference(standing: &[(String, Standing)]) -> Option<(&str, String)> {
    let (first, one) = standing.first()?;
    if let Some((second, other)) = standing.iter().find(|(_, other)| other.plan != one.plan) {
        let failure = format!(
            "machines {first} and {second} plan different labs ({} and {}): their programs or their files differ",
            one.plan, other.plan
        );
        return Some((second, failure));
    }
    // Each has those of its own nodes.
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
        let standing = |plan: &str, images: &[(&str, &str)]| Standing {
            nodes: 1,
            plan: plan.to_owned(),
            images: images
                .iter()
                .map(|(name, id)| ((*name).to_owned(), (*id).to_owned()))
                .collect(),
            at_ns: 0,
        };
        let differ = |all: &[Standing]| {
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
    use crate::labs::parts::tests::part;

    #[test]
    fn the_head_start_is_longer_than_the_longest_way_of_any_two() {
        let parts = [(0, 0), (100, 10), (50, 5), (70, 7)];
        let parts = parts.map(|(way, error)| part(Phase::Listening, way, error));
        assert_eq!(head_start(parts.iter()), 110 + 77 + WAKING_NS);
        assert_eq!(head_start(parts[..1].iter()), WAKING_NS);
    }
}
