//! Continuous measurement of the offset between this machine's clock and the reference's.
//!
//! If both machines listen on an underlay, four datagrams are sent per second. Otherwise, or while these get no reply, a
//! request through the store is sent every five seconds. It passes through the store and its disk, so the error bound is
//! some milliseconds, whereas datagrams reach some tens of microseconds.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::agent::answers::Asker;
use crate::agent::clocks::{drawn, mono_ns, wall_ahead_ns};
use crate::agent::compare::{Compared, Comparison};
use crate::agent::keys;
use crate::agent::list::{Known, reference, roster};
use crate::agent::record::{Clock, ClockMethod, UnderlayAt};
use crate::agent::underlay::is_patience;
use crate::store::{LeaseId, Result, Store};
use crate::underlay::{Key, PING_BYTES, Ping};

/// Interval at which the reference is determined again. Also the interval of requests through the store.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Interval between datagrams.
const PING_EVERY: Duration = Duration::from_millis(250);

/// A datagram without a reply after this time counts as lost.
const PING_PATIENCE: Duration = Duration::from_millis(200);

/// A request through the store without a reply after this time is abandoned.
const ASK_PATIENCE: Duration = Duration::from_secs(2);

/// Interval at which the end flag is checked.
const END_EVERY: Duration = Duration::from_millis(50);

/// The latest state of this machine's clock.
pub(crate) type Latest = Mutex<Option<ClockState>>;

/// The state of this machine's clock and of the path to the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClockState {
    /// The values that other machines get.
    pub(crate) clock: Clock,
    /// The reference's `CLOCK_MONOTONIC` minus this machine's, nanoseconds. These clocks are never set.
    pub(crate) ahead_ns: i64,
    /// Number of jumps between these two clocks. They jump when a machine sleeps.
    pub(crate) jumps: u64,
    /// Half of the longest round-trip time that is remembered, nanoseconds.
    pub(crate) longest_one_way_ns: u64,
}

/// The thread that measures this machine's clock.
pub(crate) struct Measure<'a> {
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) name: &'a str,
    pub(crate) session: &'a str,
    pub(crate) lease: LeaseId,
    pub(crate) underlay: Option<&'a UnderlayAt>,
    pub(crate) end: &'a AtomicBool,
    pub(crate) latest: &'a Latest,
}

/// The machine whose clock is the reference.
struct Target {
    name: String,
    session: String,
    known: Comparison,
    socket: Option<(UdpSocket, Key)>,
}

impl Measure<'_> {
    /// Measures until the end. If the store is unreachable for a while, tries again.
    pub(crate) fn run(&self) {
        while !self.has_ended() {
            if self.while_there().is_err() {
                self.pause(Duration::from_millis(500));
            }
        }
    }

    fn while_there(&self) -> Result<()> {
        let mut asker = Asker::new(Arc::clone(self.store), self.session, self.lease)?;
        let mut target: Option<Target> = None;
        while !self.has_ended() {
            let roster = roster(&self.store.list(keys::ROOT)?);
            let Some(name) = reference(&roster).map(str::to_owned) else {
                // This machine itself is missing from the list: its lease is over, and the agent is about to end.
                self.pause(END_EVERY);
                continue;
            };
            if name == self.name {
                target = None;
                self.tell(Some(itself(&name)));
                self.pause(LOOK_EVERY);
                continue;
            }
            let known = &roster[&name];
            let mut current = match target.take() {
                Some(current) if Some(&current.session) == session(known) => current,
                _ => {
                    self.tell(None);
                    Target {
                        session: session(known).cloned().unwrap_or_default(),
                        name,
                        known: Comparison::default(),
                        socket: None,
                    }
                }
            };
            self.round(&mut asker, &mut current, known)?;
            target = Some(current);
        }
        Ok(())
    }

    /// Sends requests until the reference must be determined again.
    fn round(&self, asker: &mut Asker, target: &mut Target, known: &Known) -> Result<()> {
        let until = Instant::now() + LOOK_EVERY;
        let theirs = known.record.as_ref().and_then(|r| r.underlay.as_ref());
        target.socket = self.underlay.zip(theirs).and_then(|(ours, theirs)| {
            let socket = connected(ours.address, theirs.address).ok()?;
            Some((socket, theirs.key.clone()))
        });
        let mut answered = false;
        while let Some((socket, key)) = &target.socket
            && Instant::now() < until
            && !self.has_ended()
        {
            let asked = Instant::now();
            if let Some(compared) = ping(socket, key) {
                answered = true;
                self.learn(target, compared, ClockMethod::Underlay);
            // The underlay does not answer at all, so the store is used for this round.
            } else if !answered {
                break;
            }
            self.pause(PING_EVERY.saturating_sub(asked.elapsed()));
        }
        if answered || self.has_ended() {
            return Ok(());
        }
        // Two writes to the store take longer than a datagram, so the error bound is larger, but this works without an
        // open port.
        let compared = asker.ask(&target.name, ASK_PATIENCE, || !self.has_ended())?;
        if let Some(compared) = compared {
            self.learn(target, compared, ClockMethod::Store);
        }
        // A machine that has just joined has no record yet, so try again soon.
        let rest = match known.record {
            Some(_) => until.saturating_duration_since(Instant::now()),
            None => Duration::from_millis(200),
        };
        self.pause(rest);
        Ok(())
    }

    fn learn(&self, target: &mut Target, compared: Compared, by: ClockMethod) {
        target.known.learn(compared, wall_ahead_ns());
        let Some(offset) = target.known.estimate.at(mono_ns()) else {
            return;
        };
        let clock = Clock {
            against: target.name.clone(),
            offset_ns: target.known.wall_offset_ns(offset),
            error_ns: offset.error_ns,
            one_way_ns: offset.one_way_ns,
            by,
            steps: target.known.sets(),
        };
        let ways = target.known.estimate.ways();
        self.tell(Some(ClockState {
            clock,
            ahead_ns: offset.ahead_ns,
            jumps: target.known.estimate.steps(),
            longest_one_way_ns: ways.map_or(offset.one_way_ns, |ways| ways.longest_ns),
        }));
    }

    fn tell(&self, heard: Option<ClockState>) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = heard;
    }

    fn has_ended(&self) -> bool {
        self.end.load(Ordering::Acquire)
    }

    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.has_ended() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(END_EVERY));
        }
    }
}

fn session(known: &Known) -> Option<&String> {
    known.owner.as_ref().map(|(owner, _)| &owner.session)
}

fn itself(name: &str) -> ClockState {
    let clock = Clock {
        against: name.to_owned(),
        offset_ns: 0,
        error_ns: 0,
        one_way_ns: 0,
        by: ClockMethod::Itself,
        steps: 0,
    };
    ClockState {
        clock,
        ahead_ns: 0,
        jumps: 0,
        longest_one_way_ns: 0,
    }
}

/// Returns a socket that receives datagrams from the other machine only.
fn connected(ours: SocketAddr, theirs: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddr::new(ours.ip(), 0))?;
    socket.connect(theirs)?;
    Ok(socket)
}

fn ping(socket: &UdpSocket, key: &Key) -> Option<Compared> {
    let nonce = drawn().ok()?;
    let question = Ping::Question { nonce }.pack(key);
    let until = Instant::now() + PING_PATIENCE;
    let t1_ns = mono_ns();
    socket.send(&question).ok()?;
    let mut bytes = [0; PING_BYTES + 1];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        socket.set_read_timeout(Some(left)).ok()?;
        let length = match socket.recv(&mut bytes) {
            Ok(length) => length,
            Err(error) if is_patience(&error) => continue,
            // For example a refused connection: no process listens there (any more).
            Err(_) => return None,
        };
        let t4_ns = mono_ns();
        match Ping::unpack(&bytes[..length], key) {
            Some(Ping::Answer {
                nonce: of,
                t2_ns,
                t3_ns,
                wall_ahead_ns,
            }) if of == nonce => {
                let times = [t1_ns, t2_ns, t3_ns, t4_ns];
                return Some(Compared::new(times, wall_ahead_ns));
            }
            // A late reply to an abandoned request, or a forged one.
            _ => {}
        }
    }
}
