//! Whether raw Ethernet reaches from machine to machine, and with how long frames: asked for when somebody wants to know.
//!
//! Whoever asks puts names and a length under `constel/agents/reach/NAME/NUMBER`; the agent of NAME sends each of the named a ping
//! in a frame of that length, and a short one, and answers under `constel/agents/reached/NUMBER/NAME`. A ping is answered by a frame of
//! the same length, so that one that comes back has gone both ways. All of it goes with the asker's lease.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use constel_host::datagrams::{Incoming, MOST_AT_ONCE, Outgoing, send_all};
use constel_host::ethernet::{self, EthernetSocket, Filter, Interface};
use constel_store::{Error, Follow, LEASE, LeaseId, Result, Store, Txn};
use constel_underlay::{ETHER_TYPE, PING_BYTES, PING_MARK, Ping};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::clocks::{drawn_to_tell, mono_ns, wall_ahead_ns};
use crate::keys;
use crate::list::roster;

/// How soon the end is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Pings that were not answered are sent again, so often in all.
const TRIES: usize = 5;
/// What is not answered by then is sent again.
const TRY_EVERY: Duration = Duration::from_millis(150);
/// An agent that has not answered by then does not: as long as the lease by which it is asked.
const ANSWERED_WITHIN: Duration = Duration::from_secs(4);
/// Longer than any frame that is asked for.
const FRAME_BYTES: usize = 16_384;

/// How raw Ethernet reaches from one machine to another and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// With frames of the length that was asked for.
    Whole,
    /// Short frames do, and those of that length do not.
    Short,
    /// Nothing comes back.
    Nothing,
    /// The machine's agent did not say.
    Unsaid,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Question {
    /// The machines that are to be reached.
    machines: Vec<String>,
    /// Length of a frame, its header included.
    frame_bytes: usize,
    /// By which lease to answer.
    lease: u64,
}

/// An agent's socket for pings in raw frames.
pub(crate) struct Echo {
    socket: EthernetSocket,
    own: [u8; 6],
    key: u64,
}

impl Echo {
    /// On an interface; what knows `key` is answered. `None`: it carries no Ethernet, or we may not.
    pub(crate) fn open(interface: &Interface, key: u64) -> Option<Self> {
        Some(Self {
            socket: socket_on(interface)?,
            own: interface.address.0,
            key,
        })
    }

    /// Answers until `end`.
    pub(crate) fn answer(&self, end: &AtomicBool) {
        let mut incoming = Incoming::new(FRAME_BYTES);
        while !end.load(Ordering::Acquire) {
            if !wait(&self.socket, LOOK_EVERY) || incoming.receive(&self.socket).is_err() {
                continue;
            }
            let t2_ns = mono_ns();
            let mut answers: Vec<Outgoing> = Vec::new();
            for (frame, _) in incoming.received() {
                let Some((to, Ping::Question { key, nonce })) = ping_in(frame) else {
                    continue;
                };
                if key == self.key {
                    let answer = Ping::Answer {
                        key,
                        nonce,
                        t2_ns,
                        t3_ns: mono_ns(),
                        wall_ahead_ns: wall_ahead_ns(),
                    };
                    answers.push((None, frame_of(to, self.own, &answer, frame.len())));
                }
            }
            // One that cannot be sent is as lost as one that was.
            send_all(&self.socket, &[], &answers);
        }
    }
}

fn socket_on(interface: &Interface) -> Option<EthernetSocket> {
    EthernetSocket::open(interface.ifindex, ETHER_TYPE, Filter::Begins(PING_MARK)).ok()
}

/// Whether something is there within `patience`.
fn wait(socket: &EthernetSocket, patience: Duration) -> bool {
    let patience = Timespec {
        tv_sec: patience.as_secs().cast_signed(),
        tv_nsec: patience.subsec_nanos().into(),
    };
    poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&patience)).is_ok_and(|count| count > 0)
}

/// A ping in a frame of so many bytes, filled up with zeros.
fn frame_of(to: [u8; 6], from: [u8; 6], ping: &Ping, frame_bytes: usize) -> Vec<u8> {
    let header = ethernet::header(to, from, ETHER_TYPE);
    let mut frame = [&header[..], &ping.pack()].concat();
    frame.resize(frame_bytes.max(frame.len()), 0);
    frame
}

/// Who sent a ping, and the ping.
fn ping_in(frame: &mut [u8]) -> Option<([u8; 6], Ping)> {
    let (from, rest) = ethernet::split(frame)?;
    Some((from, Ping::unpack(rest.get(..PING_BYTES)?)?))
}

/// A machine that is to be reached: its address, and the key of its echo.
type Goal = ([u8; 6], u64);

/// How each of these is reached from an interface.
fn probe(interface: &Interface, goals: &[Option<Goal>], frame_bytes: usize) -> Vec<Reach> {
    let nobody = || vec![Reach::Nothing; goals.len()];
    let (Some(socket), Ok(first)) = (socket_on(interface), drawn_to_tell()) else {
        return nobody();
    };
    let first = u64::from_be_bytes(first);
    let mut incoming = Incoming::new(FRAME_BYTES);
    // Nonces tell what is answered: two for each machine, a long frame and a short one.
    let mut missing: BTreeSet<usize> = (0..2 * goals.len())
        .filter(|number| goals[number / 2].is_some())
        .collect();
    for _ in 0..TRIES {
        let pings = missing.iter().filter_map(|&number| {
            let (to, key) = goals[number / 2]?;
            let nonce = first.wrapping_add(number as u64);
            let length = if number % 2 == 0 { frame_bytes } else { 0 };
            let ping = Ping::Question { key, nonce };
            Some((None, frame_of(to, interface.address.0, &ping, length)))
        });
        let pings: Vec<Outgoing> = pings.collect();
        for some in pings.chunks(MOST_AT_ONCE) {
            // A frame that is longer than the interface takes is one that does not come back.
            send_all(&socket, &[], some);
        }
        let until = Instant::now() + TRY_EVERY;
        while !missing.is_empty() && wait(&socket, until.saturating_duration_since(Instant::now()))
        {
            if incoming.receive(&socket).is_err() {
                continue;
            }
            for (frame, _) in incoming.received() {
                if let Some((_, Ping::Answer { nonce, .. })) = ping_in(frame) {
                    missing.remove(&(nonce.wrapping_sub(first) as usize));
                }
            }
        }
        if missing.is_empty() {
            break;
        }
    }
    let reach = |(number, goal): (usize, &Option<Goal>)| match goal {
        Some(_) if !missing.contains(&(2 * number)) => Reach::Whole,
        Some(_) if !missing.contains(&(2 * number + 1)) => Reach::Short,
        _ => Reach::Nothing,
    };
    goals.iter().enumerate().map(reach).collect()
}

/// Answers what the machine `name` is asked, until `end`. A store that is away for a while is asked again.
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
                Some((underlay.ethernet?, underlay.key))
            };
            let goals: Vec<_> = question.machines.iter().map(goal).collect();
            let reached = probe(interface, &goals, question.frame_bytes.min(FRAME_BYTES));
            let answer = serde_json::to_vec(&reached).map_err(|e| Error::Invalid(e.to_string()))?;
            let place = format!("{}{name}", keys::reached(number));
            match store.commit(&Txn::new().put_leased(place, answer, LeaseId(question.lease))) {
                // The asker is gone: nobody wants to know.
                Ok(_) | Err(Error::LeaseLost(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// How raw Ethernet, in frames of so many bytes, reaches between each two of these machines.
///
/// # Errors
/// When the store cannot be asked.
pub fn reaches(
    store: &Arc<dyn Store>,
    machines: &[String],
    frame_bytes: usize,
) -> Result<Vec<(String, String, Reach)>> {
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
) -> Result<Vec<(String, String, Reach)>> {
    let number = format!("{:016x}", u64::from_be_bytes(drawn_to_tell()?));
    let prefix = keys::reached(&number);
    let mut answers = Follow::new(Arc::clone(store), &prefix)?;
    // Of each two, the one that comes first: what comes back has gone both ways.
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
        let reached =
            answer.and_then(|entry| serde_json::from_slice::<Vec<Reach>>(&entry.value).ok());
        let reached = reached.unwrap_or_default();
        others.iter().enumerate().map(move |(place, other)| {
            let reach = reached.get(place).copied().unwrap_or(Reach::Unsaid);
            ((*name).clone(), other.clone(), reach)
        })
    });
    Ok(pairs.collect())
}
