//! On request, tests whether raw Ethernet frames travel between machines, and up to which length.
//!
//! The requester writes machine names and a length under `constel/agents/reach/NAME/NUMBER`. The agent of NAME sends each of
//! these machines a ping in a frame of that length, and a short one, and writes the result under
//! `constel/agents/reached/NUMBER/NAME`. The reply to a ping has the same length, so a returned frame has passed in both
//! directions. All these keys disappear with the requester's lease.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use constel_host::datagrams::{Incoming, MOST_AT_ONCE, Outgoing, send_all};
use constel_host::ethernet::{self, EthernetSocket, Filter, Interface};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::agent::clocks::{mono_ns, random_bytes, wall_ahead_ns};
use crate::agent::keys;
use crate::agent::list::roster;
use crate::store::{Error, Follow, LEASE, LeaseId, Result, Store, Txn};
use crate::underlay::{ETHER_TYPE, Key, PING_BYTES, PING_MARK, Ping};

/// Interval at which the end flag is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Maximum number of times that a ping is sent until it is answered.
const TRIES: usize = 5;
/// Pings without a reply after this time are sent again.
const TRY_EVERY: Duration = Duration::from_millis(150);
/// An agent without a reply after this time counts as unreachable. This is the duration of the request's lease.
const ANSWERED_WITHIN: Duration = Duration::from_secs(4);
/// Longer than any requested frame.
const FRAME_BYTES: usize = 16_384;

/// The result of testing raw Ethernet from one machine to another and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EthernetReach {
    /// Frames of the requested length return.
    Whole,
    /// Short frames return, and those of the requested length do not.
    Short,
    /// No frame returns.
    Nothing,
    /// The machine's agent did not reply.
    Unsaid,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Question {
    /// The machines to be tested.
    machines: Vec<String>,
    /// Length of a frame with its header.
    frame_bytes: usize,
    /// The lease under which the reply is written.
    lease: u64,
}

/// An agent's socket for pings in raw frames.
pub(crate) struct Echo {
    socket: EthernetSocket,
    own: [u8; 6],
    key: Key,
}

impl Echo {
    /// Opens a socket on an interface. Pings with `key` are answered. Returns `None` if the interface carries no Ethernet,
    /// or if this process lacks the privilege.
    pub(crate) fn open(interface: &Interface, key: Key) -> Option<Self> {
        Some(Self {
            socket: socket_on(interface)?,
            own: interface.address.0,
            key,
        })
    }

    /// Replies to pings until `end`.
    pub(crate) fn answer(&self, end: &AtomicBool) {
        let mut incoming = Incoming::new(FRAME_BYTES);
        while !end.load(Ordering::Acquire) {
            if !wait(&self.socket, LOOK_EVERY) || incoming.receive(&self.socket).is_err() {
                continue;
            }
            let t2_ns = mono_ns();
            let mut answers: Vec<Outgoing> = Vec::new();
            for (frame, _) in incoming.received() {
                let length = frame.len();
                let Some((to, ping)) = ping_in(frame) else {
                    continue;
                };
                if let Some(Ping::Question { nonce }) = Ping::unpack(ping, &self.key) {
                    let answer = Ping::Answer {
                        nonce,
                        t2_ns,
                        t3_ns: mono_ns(),
                        wall_ahead_ns: wall_ahead_ns(),
                    };
                    let answer = answer.pack(&self.key);
                    answers.push((None, frame_of(to, self.own, &answer, length)));
                }
            }
            // A reply that cannot be sent counts as a lost one.
            send_all(&self.socket, &[], &answers);
        }
    }
}

fn socket_on(interface: &Interface) -> Option<EthernetSocket> {
    EthernetSocket::open(interface.ifindex, ETHER_TYPE, Filter::Begins(PING_MARK)).ok()
}

/// Returns whether something arrived at a socket within `patience`.
pub(crate) fn wait(socket: &impl AsFd, patience: Duration) -> bool {
    let patience = Timespec {
        tv_sec: patience.as_secs().cast_signed(),
        tv_nsec: patience.subsec_nanos().into(),
    };
    poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&patience)).is_ok_and(|count| count > 0)
}

/// Returns a frame of `frame_bytes` bytes with a ping, padded with zeros.
fn frame_of(to: [u8; 6], from: [u8; 6], ping: &[u8; PING_BYTES], frame_bytes: usize) -> Vec<u8> {
    let header = ethernet::header(to, from, ETHER_TYPE);
    let mut frame = [&header[..], ping].concat();
    frame.resize(frame_bytes.max(frame.len()), 0);
    frame
}

/// Returns the sender of a ping, and the ping's bytes.
fn ping_in(frame: &mut [u8]) -> Option<([u8; 6], &[u8])> {
    let (from, rest) = ethernet::split(frame)?;
    Some((from, rest.get(..PING_BYTES)?))
}

/// A machine to be tested: its Ethernet address, and the key of its echo.
type Goal = ([u8; 6], Key);

/// Tests each of these machines from an interface.
fn probe(interface: &Interface, goals: &[Option<Goal>], frame_bytes: usize) -> Vec<EthernetReach> {
    let nobody = || vec![EthernetReach::Nothing; goals.len()];
    let (Some(socket), Ok(first)) = (socket_on(interface), random_bytes()) else {
        return nobody();
    };
    let first = u64::from_be_bytes(first);
    let mut incoming = Incoming::new(FRAME_BYTES);
    // The nonce identifies the ping that a reply belongs to. Each machine has two numbers: a long frame and a short one.
    let mut missing: BTreeSet<usize> = (0..2 * goals.len())
        .filter(|number| goals[number / 2].is_some())
        .collect();
    for _ in 0..TRIES {
        let pings = missing.iter().filter_map(|&number| {
            let (to, key) = goals[number / 2].as_ref()?;
            let nonce = first.wrapping_add(number as u64);
            let length = if number % 2 == 0 { frame_bytes } else { 0 };
            let ping = Ping::Question { nonce }.pack(key);
            Some((None, frame_of(*to, interface.address.0, &ping, length)))
        });
        let pings: Vec<Outgoing> = pings.collect();
        for some in pings.chunks(MOST_AT_ONCE) {
            // A frame longer than the interface's MTU cannot be sent. It does not return, which is the right result.
            send_all(&socket, &[], some);
        }
        let until = Instant::now() + TRY_EVERY;
        while !missing.is_empty() && wait(&socket, until.saturating_duration_since(Instant::now()))
        {
            if incoming.receive(&socket).is_err() {
                continue;
            }
            for (frame, _) in incoming.received() {
                let Some((_, ping)) = ping_in(frame) else {
                    continue;
                };
                // A machine's key authenticates its replies, so the reply must fit both the key and the number.
                missing.retain(|&number| {
                    let key = goals[number / 2].as_ref().map(|(_, key)| key);
                    let expected = first.wrapping_add(number as u64);
                    let answer = key.and_then(|key| Ping::unpack(ping, key));
                    !matches!(answer, Some(Ping::Answer { nonce, .. }) if nonce == expected)
                });
            }
        }
        if missing.is_empty() {
            break;
        }
    }
    let reach = |(number, goal): (usize, &Option<Goal>)| match goal {
        Some(_) if !missing.contains(&(2 * number)) => EthernetReach::Whole,
        Some(_) if !missing.contains(&(2 * number + 1)) => EthernetReach::Short,
        _ => EthernetReach::Nothing,
    };
    goals.iter().enumerate().map(reach).collect()
}

/// Replies to requests for the machine `name` until `end`. If the store is unreachable for a while, tries again.
pub(crate) fn answer(store: &Arc<dyn Store>, name: &str, interface: &Interface, end: &AtomicBool) {
    while !end.load(Ordering::Acquire) {
        if answer_while_there(store, name, interface, end).is_err() {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

fn answer_while_there(
    store: &Arc<dyn Store>,
    name: &str,
    interface: &Interface,
    end: &AtomicBool,
) -> Result<()> {
    let prefix = keys::reach(name);
    let mut asks = Follow::new(Arc::clone(store), &prefix)?;
    while !end.load(Ordering::Acquire) {
        for event in asks.next(LOOK_EVERY)? {
            let Some(entry) = &event.entry else { continue };
            let number = event.key.strip_prefix(&prefix);
            let question = serde_json::from_slice::<Question>(&entry.value).ok();
            let Some((number, question)) = number.zip(question) else {
                continue;
            };
            let known = roster(&store.list(keys::ROOT)?);
            let goal = |machine: &String| {
                let underlay = known.get(machine)?.record.as_ref()?.underlay.as_ref()?;
                Some((underlay.ethernet?, underlay.key.clone()))
            };
            let goals: Vec<_> = question.machines.iter().map(goal).collect();
            let reached = probe(interface, &goals, question.frame_bytes.min(FRAME_BYTES));
            let answer = serde_json::to_vec(&reached).map_err(|e| Error::Invalid(e.to_string()))?;
            let place = format!("{}{name}", keys::reached(number));
            match store.commit(&Txn::new().put_leased(place, answer, LeaseId(question.lease))) {
                // The lease is over, so the requester is gone and the reply is useless.
                Ok(_) | Err(Error::LeaseLost(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Tests raw Ethernet with frames of `frame_bytes` bytes between each pair of these machines.
///
/// # Errors
/// If the store cannot be reached.
pub fn reaches(
    store: &Arc<dyn Store>,
    machines: &[String],
    frame_bytes: usize,
) -> Result<Vec<(String, String, EthernetReach)>> {
    let lease = store.grant(LEASE)?.id;
    let told = ask(store, machines, frame_bytes, lease);
    store.revoke(lease)?;
    told
}

fn ask(
    store: &Arc<dyn Store>,
    machines: &[String],
    frame_bytes: usize,
    lease: LeaseId,
) -> Result<Vec<(String, String, EthernetReach)>> {
    // Several users may test the same machines at the same time.
    let number = format!("{:016x}", u64::from_be_bytes(random_bytes()?));
    let prefix = keys::reached(&number);
    let mut answers = Follow::new(Arc::clone(store), &prefix)?;
    // The first machine of each pair tests. One test suffices because a returned frame has passed in both directions.
    let asked: Vec<(&String, &[String])> = (1..machines.len())
        .map(|next| (&machines[next - 1], &machines[next..]))
        .collect();
    for (name, others) in &asked {
        let question = Question {
            machines: others.to_vec(),
            frame_bytes,
            lease: lease.0,
        };
        let text = serde_json::to_vec(&question).map_err(|e| Error::Invalid(e.to_string()))?;
        let key = format!("{}{number}", keys::reach(name));
        store.commit(&Txn::new().put_leased(key, text, lease))?;
    }
    let until = Instant::now() + ANSWERED_WITHIN;
    while answers.known().len() < asked.len() && Instant::now() < until {
        answers.next(LOOK_EVERY)?;
    }
    let pairs = asked.iter().flat_map(|(name, others)| {
        let answer = answers.known().get(&format!("{prefix}{name}"));
        let reached = answer
            .and_then(|entry| serde_json::from_slice::<Vec<EthernetReach>>(&entry.value).ok());
        let reached = reached.unwrap_or_default();
        others.iter().enumerate().map(move |(place, other)| {
            let reach = reached.get(place).copied().unwrap_or(EthernetReach::Unsaid);
            ((*name).clone(), other.clone(), reach)
        })
    });
    Ok(pairs.collect())
}
