//! What two gateways say to each other: a few kinds of messages over UDP, each
//! repeated until it is confirmed, taken once. A state machine without clock and
//! sockets.
//!
//! Every start of a gateway has an epoch of its own for each peer, a random number.
//! Before all else the two greet each other: each says a number that it has just made
//! up, and takes the other's epoch for the peer's when that number comes back. A
//! datagram names both epochs under the key, so it means something to one receiver in
//! one session only: not to its own sender, not to another peer, not after either has
//! started anew. A greeting also names the address that it calls, and whoever has
//! another does not answer.
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
/// A peer that confirms nothing for so long is lost, unless another time is set.
pub(super) const LOST_NS: Nanos = 30_000_000_000;
/// Numbers remembered one by one; older ones count as taken.
const REMEMBERED: usize = 4096;
/// Messages that may wait for their confirmation.
const MAX_WAITING: usize = 65_536;

/// What has come of a datagram or of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The peer says.
    Said(Message),
    /// The peer has started anew: its connections are gone.
    Restarted,
    /// The peer has confirmed nothing for too long: its connections are to be given up.
    Lost,
    /// Something at the peer's address speaks another version of this protocol.
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

/// When a peer that is not known yet is greeted next.
struct Greet {
    next: Nanos,
    pause: Nanos,
}

/// The conversation with one peer.
pub struct Control {
    key: [u8; 32],
    seed: [u8; 32],
    lost_ns: Nanos,
    /// Smoothed round trip of messages, 0 before the first. Of what was repeated it is that
    /// since the first time: too long after a loss, but a crowded path must not pass for an
    /// empty one.
    rtt_ns: Nanos,
    /// When the peer last said or confirmed something.
    heard_ns: Nanos,
    /// Random numbers made of the seed so far.
    drawn: u64,
    peer: IpAddr,
    epoch: u64,
    challenge: u64,
    /// What the peer wants to hear again.
    heard: u64,
    /// The peer's epoch, once it has proven that it is there.
    peer_epoch: Option<u64>,
    /// A greeting is to be sent in answer.
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

    /// The same, but the peer is lost when it confirms nothing for `lost_ns` instead of 30 s.
    #[must_use]
    pub fn lost_after(mut self, lost_ns: Nanos) -> Self {
        self.lost_ns = lost_ns;
        self
    }

    /// A number nobody can foretell; not 0.
    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        let hash = blake3::keyed_hash(&self.seed, &self.drawn.to_be_bytes());
        let (first, _) = hash
            .as_bytes()
            .split_first_chunk::<8>()
            .unwrap_or((&[1; 8], &[]));
        u64::from_be_bytes(*first).max(1)
    }

    /// Says something. False when too much waits to be confirmed already.
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

    /// A datagram has come from the peer's address; `own` says whether an address is this
    /// gateway's. What is not from somebody who knows the key, speaks to this start of
    /// this gateway and has proven to be there now is not taken. At most one event.
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
        // Our own words, sent back.
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
            // Recorded long ago, or one of the two has started anew: let it prove that it is there.
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
            // Both know each other, or one has yet to hear its challenge again.
            self.answers |= !proven || d.to != self.epoch;
            return None;
        }
        // What has been answered once proves nothing a second time.
        self.challenge = self.draw();
        self.answers = true;
        self.greet = None;
        self.peer_epoch.replace(d.from)?;
        // What was said to the peer that was is about connections that are gone.
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

    /// A greeting to a peer that is not known: one at the start, and on while there is
    /// something to say.
    fn poll_greeting(&mut self, now: Nanos) -> Option<Vec<u8>> {
        let g = self.greet.as_mut().filter(|g| g.next <= now)?;
        g.next = now + g.pause;
        g.pause = (g.pause * 3 / 2).min(REPEAT_MAX_NS);
        if self.waiting.is_empty() {
            self.greet = None;
        }
        Some(self.greeting())
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        match self.peer_epoch {
            None => self.greet.as_ref().map(|g| g.next),
            Some(_) => self.due.first().map(|(at, _)| *at),
        }
    }

    /// Whether the peer is lost; then nothing waits any more.
    pub fn poll_lost(&mut self, now: Nanos) -> Option<Event> {
        // They wait in the order in which they were said.
        let (_, oldest) = self.waiting.first_key_value()?;
        // On a crowded path one message may be unlucky for long while others pass.
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
