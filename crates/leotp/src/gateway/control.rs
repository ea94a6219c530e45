//! The protocol between two gateways: a few kinds of messages over UDP. Each message is repeated until it is
//! confirmed, and is handled once. A state machine without clock and sockets.
//!
//! Every start of a gateway has an epoch of its own for each peer, a random number. First the two gateways
//! greet each other. Each sends a new random number as a challenge, and accepts the other's epoch when that
//! number comes back. A datagram contains both epochs under the key, so it is valid for one receiver in one
//! session only: not for its own sender, not for another peer, not after either has restarted. A greeting also
//! contains the address of the gateway that it is for; a gateway with another address does not answer.
//!
//! ```text
//!  A: greeting(challenge a)            -->
//!                                      <--  B: greeting(challenge b, answer a)
//!  A knows B; greeting(.., answer b)   -->
//!  A: OPEN 0                           -->  B knows A
//!                                      <--  B: confirmed 0
//! ```

use crate::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

mod datagram;

use datagram::{Content, Datagram, Greeting, Refused};
pub use datagram::{MAX_LEN, Message};

/// First pause before a message is repeated; it grows by half each time.
const REPEAT_NS: Nanos = 200_000_000;
/// Longest pause.
const REPEAT_MAX_NS: Nanos = 2_000_000_000;
/// The default time after which a peer that confirms nothing is lost.
pub(super) const LOST_NS: Nanos = 30_000_000_000;
/// Numbers remembered one by one; older ones count as handled.
const REMEMBERED: usize = 4096;
/// Messages that may wait for their confirmation.
const MAX_WAITING: usize = 65_536;

/// The result of a datagram or of the passing of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A message from the peer.
    Said(Message),
    /// The peer has restarted: its connections are gone.
    Restarted,
    /// The peer has confirmed nothing for too long: its connections must be given up.
    Lost,
    /// A program at the peer's address uses another version of this protocol.
    OtherVersion,
}

struct Waiting {
    message: Message,
    since: Nanos,
    next: Nanos,
    pause: Nanos,
    /// When it was first sent.
    sent: Option<Nanos>,
}

/// The time of the next greeting to a peer that is not known yet.
struct Greet {
    next: Nanos,
    pause: Nanos,
}

/// The conversation with one peer.
pub struct Control {
    key: [u8; 32],
    seed: [u8; 32],
    lost_ns: Nanos,
    /// Smoothed round-trip time of messages, 0 before the first. For a repeated message it counts from the
    /// first transmission: that is too long after a loss, but a congested path must not seem to be an empty
    /// one.
    rtt_ns: Nanos,
    /// The time of the peer's last message or confirmation.
    heard_ns: Nanos,
    /// The number of random numbers that were made from the seed.
    drawn: u64,
    peer: IpAddr,
    epoch: u64,
    challenge: u64,
    /// The peer's challenge, which it wants to have returned.
    heard: u64,
    /// The peer's epoch, once it has returned our challenge.
    peer_epoch: Option<u64>,
    /// Whether a greeting must be sent in answer.
    answers: bool,
    greet: Option<Greet>,
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// When each of `waiting` is sent next.
    due: BTreeSet<(Nanos, u64)>,
    confirm: Vec<u64>,
    taken: BTreeSet<u64>,
    taken_below: u64,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control")
            .field("peer", &self.peer)
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

impl Control {
    /// A conversation with the gateway at `peer`, which is greeted at once. Both ends know
    /// `key`; all zeros is no secret. `seed` is random, another for every start and peer.
    pub fn new(key: [u8; 32], seed: [u8; 32], peer: IpAddr) -> Self {
        let mut c = Self {
            key,
            seed,
            lost_ns: LOST_NS,
            rtt_ns: 0,
            heard_ns: 0,
            drawn: 0,
            peer,
            epoch: 0,
            challenge: 0,
            heard: 0,
            peer_epoch: None,
            answers: false,
            greet: Some(Greet {
                next: 0,
                pause: REPEAT_NS,
            }),
            next: 0,
            waiting: BTreeMap::new(),
            due: BTreeSet::new(),
            confirm: Vec::new(),
            taken: BTreeSet::new(),
            taken_below: 0,
        };
        (c.epoch, c.challenge) = (c.draw(), c.draw());
        c
    }

    /// Returns the control with another time, `lost_ns` instead of 30 s, after which a silent peer is lost.
    #[must_use]
    pub fn lost_after(mut self, lost_ns: Nanos) -> Self {
        self.lost_ns = lost_ns;
        self
    }

    /// Returns an unpredictable number other than 0.
    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        let hash = blake3::keyed_hash(&self.seed, &self.drawn.to_be_bytes());
        let (first, _) = hash
            .as_bytes()
            .split_first_chunk::<8>()
            .unwrap_or((&[1; 8], &[]));
        u64::from_be_bytes(*first).max(1)
    }

    /// Queues a message. Returns false when too many wait for their confirmation already.
    pub fn say(&mut self, now: Nanos, message: Message) -> bool {
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        let number = self.next;
        self.next += 1;
        let waiting = Waiting {
            message,
            since: now,
            next: now,
            pause: REPEAT_NS,
            sent: None,
        };
        self.waiting.insert(number, waiting);
        self.due.insert((now, number));
        if self.peer_epoch.is_none() && self.greet.is_none() {
            self.greet = Some(Greet {
                next: now,
                pause: REPEAT_NS,
            });
        }
        true
    }

    fn seal(&self, to: u64, number: u64, content: Content) -> Vec<u8> {
        let d = Datagram {
            from: self.epoch,
            to,
            number,
            content,
        };
        d.seal(&self.key)
    }

    /// A greeting, with the epoch under which the peer is known here.
    fn greeting(&self) -> Vec<u8> {
        let greeting = Greeting {
            called: self.peer,
            challenge: self.challenge,
            answer: self.heard,
        };
        let known = self.peer_epoch.unwrap_or(0);
        self.seal(known, 0, Content::Greeting(greeting))
    }

    /// Handles a datagram from the peer's address; `own` returns whether an address is this gateway's. A
    /// datagram is ignored unless its sender has the key, addresses this run of this gateway, and has proven
    /// that it is running now. At most one event.
    pub fn handle(
        &mut self,
        now: Nanos,
        bytes: &[u8],
        own: impl Fn(IpAddr) -> bool,
    ) -> Option<Event> {
        let d = match Datagram::open(&self.key, bytes) {
            Ok(d) => d,
            Err(Refused::OtherVersion) => return Some(Event::OtherVersion),
            Err(Refused::Nobody) => return None,
        };
        // Our own datagram, reflected.
        if d.from == self.epoch || d.from == 0 {
            return None;
        }
        if let Content::Greeting(g) = d.content {
            return if own(g.called) {
                self.greeted(&d, g)
            } else {
                None
            };
        }
        if d.to != self.epoch || self.peer_epoch != Some(d.from) {
            // The datagram was recorded long ago, or one of the two gateways has restarted: the peer has to
            // prove that it is running.
            self.answers = true;
            return None;
        }
        self.heard_ns = self.heard_ns.max(now);
        match d.content {
            Content::Confirm => {
                if let Some(w) = self.waiting.remove(&d.number) {
                    self.due.remove(&(w.next, d.number));
                    if let Some(sent) = w.sent {
                        self.measured(now.saturating_sub(sent));
                    }
                }
                None
            }
            Content::Message(message) => self.take_once(d.number).then_some(Event::Said(message)),
            Content::Greeting(_) => None,
        }
    }

    fn measured(&mut self, rtt_ns: Nanos) {
        self.rtt_ns = match self.rtt_ns {
            0 => rtt_ns,
            known => known - known / 8 + rtt_ns / 8,
        };
    }

    /// The round trip to the peer, once one has been measured.
    pub fn rtt_ns(&self) -> Option<Nanos> {
        Some(self.rtt_ns).filter(|ns| *ns > 0)
    }

    fn greeted(&mut self, d: &Datagram, g: Greeting) -> Option<Event> {
        self.heard = g.challenge;
        let proven = g.answer == self.challenge;
        if !proven || self.peer_epoch == Some(d.from) {
            // Both gateways know each other, or one still waits for its challenge.
            self.answers |= !proven || d.to != self.epoch;
            return None;
        }
        // A challenge that has been answered proves nothing a second time.
        self.challenge = self.draw();
        self.answers = true;
        self.greet = None;
        self.peer_epoch.replace(d.from)?;
        // Messages to the peer's previous run are about connections that are gone.
        self.waiting.clear();
        self.due.clear();
        self.confirm.clear();
        self.taken.clear();
        self.taken_below = 0;
        Some(Event::Restarted)
    }

    /// Confirms a message; whether it is a new one.
    fn take_once(&mut self, number: u64) -> bool {
        if self.confirm.len() < REMEMBERED {
            self.confirm.push(number);
        }
        let new = number >= self.taken_below && self.taken.insert(number);
        while self.taken.len() > REMEMBERED {
            if let Some(first) = self.taken.pop_first() {
                self.taken_below = first + 1;
            }
        }
        new
    }

    /// The next datagram to send now.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Vec<u8>> {
        if std::mem::take(&mut self.answers) {
            return Some(self.greeting());
        }
        let Some(to) = self.peer_epoch else {
            return self.poll_greeting(now);
        };
        if let Some(number) = self.confirm.pop() {
            return Some(self.seal(to, number, Content::Confirm));
        }
        let &(at, number) = self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, number));
        let w = self.waiting.get_mut(&number)?;
        w.sent.get_or_insert(now);
        w.next = now + w.pause;
        w.pause = (w.pause * 3 / 2).min(REPEAT_MAX_NS);
        self.due.insert((w.next, number));
        let message = w.message;
        Some(self.seal(to, number, Content::Message(message)))
    }

    /// Returns a greeting to an unknown peer: one at the start, and further ones while messages wait.
    fn poll_greeting(&mut self, now: Nanos) -> Option<Vec<u8>> {
        let g = self.greet.as_mut().filter(|g| g.next <= now)?;
        g.next = now + g.pause;
        g.pause = (g.pause * 3 / 2).min(REPEAT_MAX_NS);
        if self.waiting.is_empty() {
            self.greet = None;
        }
        Some(self.greeting())
    }

    /// Returns the time to come back.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        match self.peer_epoch {
            None => self.greet.as_ref().map(|g| g.next),
            Some(_) => self.due.first().map(|(at, _)| *at),
        }
    }

    /// Returns whether the peer is lost; then no message waits any more.
    pub fn poll_lost(&mut self, now: Nanos) -> Option<Event> {
        // Messages are numbered in the order in which they were queued, so the first is the oldest.
        let (_, oldest) = self.waiting.first_key_value()?;
        // On a congested path one message may be lost repeatedly while others pass.
        if oldest.since.max(self.heard_ns).saturating_add(self.lost_ns) > now {
            return None;
        }
        self.waiting.clear();
        self.due.clear();
        Some(Event::Lost)
    }

    /// Whether something waits for its confirmation.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests;
