//! How far our clock is from the reference's, asked again and again.
//!
//! By datagrams where both machines listen on an underlay: four questions a second. Otherwise, or while these are not answered, by
//! questions in the store, one in five seconds: that is a way through the store and its disk, so the bound is some milliseconds
//! where datagrams have some tens of microseconds.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use constel_store::{LeaseId, Result, Store};
use constel_underlay::{PING_BYTES, Ping};

use crate::answers::Asker;
use crate::clocks::{drawn, mono_ns, wall_ahead_ns};
use crate::compare::{Compared, Comparison};
use crate::keys;
use crate::list::{Known, reference, roster};
use crate::record::{By, Clock, UnderlayAt};
use crate::underlay::is_patience;

/// Who the reference is, is looked up so often; also questions in the store.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Between datagrams.
const PING_EVERY: Duration = Duration::from_millis(250);

/// A datagram that is not answered by then is lost.
const PING_PATIENCE: Duration = Duration::from_millis(200);

/// A question in the store that is not answered by then is given up.
const ASK_PATIENCE: Duration = Duration::from_secs(2);

/// How soon the end is noticed.
const END_EVERY: Duration = Duration::from_millis(50);

/// What is known of our clock; the latest.
pub(crate) type Latest = Mutex<Option<Heard>>;

/// What is known of our clock, and of the way to the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heard {
    /// As others are told.
    pub(crate) clock: Clock,
    /// The reference's `CLOCK_MONOTONIC` less ours, nanoseconds. Nobody sets them.
    pub(crate) ahead_ns: i64,
    /// How often these two were found to have jumped: a machine slept.
    pub(crate) jumps: u64,
    /// Half of the longest way there and back that is remembered, nanoseconds.
    pub(crate) longest_way_ns: u64,
}

/// The one who measures.
pub(crate) struct Measure<'a> {
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) name: &'a str,
    pub(crate) session: &'a str,
    pub(crate) lease: LeaseId,
    pub(crate) underlay: Option<&'a UnderlayAt>,
    pub(crate) end: &'a AtomicBool,
    pub(crate) latest: &'a Latest,
}

/// Whom we compare with.
struct Target {
    name: String,
    session: String,
    known: Comparison,
    socket: Option<(UdpSocket, u64)>,
}

impl Measure<'_> {
    /// Measures until the end. A store that is away for a while is asked again.
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
                // Not even we are there: the lease is over, and we are about to be told.
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

    /// Questions for as long as the reference is not looked up again.
    fn round(&self, asker: &mut Asker, target: &mut Target, known: &Known) -> Result<()> {
        let until = Instant::now() + LOOK_EVERY;
        let theirs = known.record.as_ref().and_then(|r| r.underlay.as_ref());
        target.socket = self.underlay.zip(theirs).and_then(|(ours, theirs)| {
            let socket = connected(ours.address, theirs.address).ok()?;
            Some((socket, theirs.key))
        });
        let mut answered = false;
        while let Some((socket, key)) = &target.socket
            && Instant::now() < until
            && !self.has_ended()
        {
            let asked = Instant::now();
            if let Some(compared) = ping(socket, *key) {
                answered = true;
                self.learn(target, compared, By::Underlay);
            } else if !answered {
                break;
            }
            self.pause(PING_EVERY.saturating_sub(asked.elapsed()));
        }
        if answered || self.has_ended() {
            return Ok(());
        }
        let compared = asker.ask(&target.name, ASK_PATIENCE, || !self.has_ended())?;
        if let Some(compared) = compared {
            self.learn(target, compared, By::Store);
        }
        // One who has just come has no record yet: soon again.
        let rest = match known.record {
            Some(_) => until.saturating_duration_since(Instant::now()),
            None => Duration::from_millis(200),
        };
        self.pause(rest);
        Ok(())
    }

    fn learn(&self, target: &mut Target, compared: Compared, by: By) {
        target.known.learn(compared, wall_ahead_ns());
        let Some(offset) = target.known.estimate.at(mono_ns()) else {
            return;
        };
        let clock = Clock {
            against: target.name.clone(),
            offset_ns: target.known.wall_offset_ns(offset),
            error_ns: offset.error_ns,
            way_ns: offset.way_ns,
            by,
            steps: target.known.sets(),
        };
        let ways = target.known.estimate.ways();
        self.tell(Some(Heard {
            clock,
            ahead_ns: offset.ahead_ns,
            jumps: target.known.estimate.steps(),
            longest_way_ns: ways.map_or(offset.way_ns, |ways| ways.longest_ns),
        }));
    }

    fn tell(&self, heard: Option<Heard>) {
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

fn itself(name: &str) -> Heard {
    let clock = Clock {
        against: name.to_owned(),
        offset_ns: 0,
        error_ns: 0,
        way_ns: 0,
        by: By::Itself,
        steps: 0,
    };
    Heard {
        clock,
        ahead_ns: 0,
        jumps: 0,
        longest_way_ns: 0,
    }
}

/// A socket that hears nobody but the other machine.
fn connected(ours: SocketAddr, theirs: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddr::new(ours.ip(), 0))?;
    socket.connect(theirs)?;
    Ok(socket)
}

fn ping(socket: &UdpSocket, key: u64) -> Option<Compared> {
    let nonce = drawn().ok()?;
    let question = Ping::Question { key, nonce };
    let until = Instant::now() + PING_PATIENCE;
    let t1_ns = mono_ns();
    socket.send(&question.pack()).ok()?;
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
            // Nobody listens there (any more).
            Err(_) => return None,
        };
        let t4_ns = mono_ns();
        match Ping::unpack(&bytes[..length]) {
            Some(Ping::Answer {
                key: theirs,
                nonce: of,
                t2_ns,
                t3_ns,
                wall_ahead_ns,
            }) if theirs == key && of == nonce => {
                let times = [t1_ns, t2_ns, t3_ns, t4_ns];
                return Some(Compared::new(times, wall_ahead_ns));
            }
            // The answer to one that was given up.
            _ => {}
        }
    }
}
