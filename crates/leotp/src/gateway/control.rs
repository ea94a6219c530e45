//! What two gateways say to each other: a few kinds of messages over UDP, each
//! repeated until it is confirmed, taken once. A state machine without clock and
//! sockets.
//!
//! A datagram: `LGW1`, kind (1 byte), 3 zero bytes, the sender's epoch (8 bytes),
//! number (8 bytes), body, and the first 16 bytes of a keyed BLAKE3 hash of all
//! that. Integers are big-endian. The epoch is a random number of each start: a
//! gateway that starts anew knows nothing of its connections, and its peer is told
//! so by the first word it hears.

use crate::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const MAGIC: [u8; 4] = *b"LGW1";
const HEAD: usize = 24;
const MAC: usize = 16;
/// Longest datagram.
pub const MAX_LEN: usize = HEAD + 24 + 2 * 18 + MAC;

/// First pause before a message is repeated; it grows by half each time.
const REPEAT_NS: Nanos = 200_000_000;
/// Longest pause.
const REPEAT_MAX_NS: Nanos = 2_000_000_000;
/// A peer that confirms nothing for so long is lost.
const LOST_NS: Nanos = 30_000_000_000;
/// Numbers remembered one by one; older ones count as taken.
const REMEMBERED: usize = 4096;
/// Messages that may wait for their confirmation.
const MAX_WAITING: usize = 65_536;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// A connection has been taken: open it on the other side.
    Open {
        /// Its number, unlikely to be another's.
        connection: u64,
        /// Flow of what comes from the client.
        up: u64,
        /// Flow of what goes to the client.
        down: u64,
        /// The client.
        src: SocketAddr,
        /// The server.
        dst: SocketAddr,
    },
    /// The connection was reset.
    Reset {
        /// Its number.
        connection: u64,
    },
    /// All of your flow of this connection has arrived and been passed on.
    Done {
        /// Its number.
        connection: u64,
    },
    /// Are you there?
    Alive,
}

/// What has come of a datagram or of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The peer says.
    Said(Message),
    /// The peer has started anew: its connections are gone.
    Restarted,
    /// The peer has confirmed nothing for 30 s: its connections are to be given up.
    Lost,
}

struct Waiting {
    bytes: Vec<u8>,
    since: Nanos,
    next: Nanos,
    pause: Nanos,
}

/// The conversation with one peer.
pub struct Control {
    key: [u8; 32],
    epoch: u64,
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    confirm: Vec<(u64, u64)>,
    peer_epoch: Option<u64>,
    taken: BTreeSet<u64>,
    taken_below: u64,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control")
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

const OPEN: u8 = 1;
const RESET: u8 = 2;
const DONE: u8 = 3;
const ALIVE: u8 = 4;
const CONFIRM: u8 = 128;

impl Control {
    /// A conversation. Both ends know `key`; all zeros is no secret. `epoch` is random.
    pub fn new(key: [u8; 32], epoch: u64) -> Self {
        Self {
            key,
            epoch,
            next: 0,
            waiting: BTreeMap::new(),
            confirm: Vec::new(),
            peer_epoch: None,
            taken: BTreeSet::new(),
            taken_below: 0,
        }
    }

    /// Says something. False when too much waits to be confirmed already.
    pub fn say(&mut self, now: Nanos, message: Message) -> bool {
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        let number = self.next;
        self.next += 1;
        let (kind, body) = encode(&message);
        let waiting = Waiting {
            bytes: self.datagram(kind, number, &body),
            since: now,
            next: now,
            pause: REPEAT_NS,
        };
        self.waiting.insert(number, waiting);
        true
    }

    fn datagram(&self, kind: u8, number: u64, body: &[u8]) -> Vec<u8> {
        let mut b = Vec::with_capacity(MAX_LEN);
        b.extend(MAGIC);
        b.extend([kind, 0, 0, 0]);
        b.extend(self.epoch.to_be_bytes());
        b.extend(number.to_be_bytes());
        b.extend(body);
        let mac = blake3::keyed_hash(&self.key, &b);
        b.extend(&mac.as_bytes()[..MAC]);
        b
    }

    /// A datagram has come from the peer's address. What is not from somebody who
    /// knows the key is ignored. At most two events: the second is what was said.
    pub fn handle(&mut self, bytes: &[u8]) -> [Option<Event>; 2] {
        let Some((kind, epoch, number, body)) = self.open(bytes) else {
            return [None, None];
        };
        if kind == CONFIRM {
            if let Some((of, number)) = two_numbers(body)
                && of == self.epoch
            {
                self.waiting.remove(&number);
            }
            return [None, None];
        }
        let Some(message) = decode(kind, body) else {
            return [None, None];
        };
        let restarted = self.peer_epoch.is_some_and(|known| known != epoch);
        if self.peer_epoch != Some(epoch) {
            self.peer_epoch = Some(epoch);
            self.taken.clear();
            self.taken_below = 0;
        }
        if self.confirm.len() < REMEMBERED {
            self.confirm.push((epoch, number));
        }
        let new = number >= self.taken_below && self.taken.insert(number);
        while self.taken.len() > REMEMBERED {
            if let Some(first) = self.taken.pop_first() {
                self.taken_below = first + 1;
            }
        }
        [
            restarted.then_some(Event::Restarted),
            new.then_some(Event::Said(message)),
        ]
    }

    fn open<'a>(&self, bytes: &'a [u8]) -> Option<(u8, u64, u64, &'a [u8])> {
        if bytes.len() > MAX_LEN {
            return None;
        }
        let (said, mac) = bytes.split_at_checked(bytes.len().checked_sub(MAC)?)?;
        let good = blake3::keyed_hash(&self.key, said);
        let mut whole = *good.as_bytes();
        whole[..MAC].copy_from_slice(mac);
        // blake3::Hash compares in constant time.
        if blake3::Hash::from_bytes(whole) != good {
            return None;
        }
        let (head, body) = said.split_at_checked(HEAD)?;
        let (epoch, number) = two_numbers(&head[8..])?;
        (head[..4] == MAGIC).then_some((head[4], epoch, number, body))
    }

    /// The next datagram to send now.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Vec<u8>> {
        if let Some((epoch, number)) = self.confirm.pop() {
            let body = [epoch.to_be_bytes(), number.to_be_bytes()].concat();
            return Some(self.datagram(CONFIRM, 0, &body));
        }
        let due = self.waiting.values_mut().find(|w| w.next <= now)?;
        due.next = now + due.pause;
        due.pause = (due.pause * 3 / 2).min(REPEAT_MAX_NS);
        Some(due.bytes.clone())
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.waiting.values().map(|w| w.next).min()
    }

    /// Whether the peer is lost; then nothing waits any more.
    pub fn poll_lost(&mut self, now: Nanos) -> Option<Event> {
        let lost = self.waiting.values().any(|w| w.since + LOST_NS <= now);
        if lost {
            self.waiting.clear();
        }
        lost.then_some(Event::Lost)
    }

    /// Whether something waits for its confirmation.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

fn two_numbers(bytes: &[u8]) -> Option<(u64, u64)> {
    let (a, rest) = bytes.split_first_chunk::<8>()?;
    let b: &[u8; 8] = rest.try_into().ok()?;
    Some((u64::from_be_bytes(*a), u64::from_be_bytes(*b)))
}

fn put(body: &mut Vec<u8>, address: SocketAddr) {
    let ip = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    body.extend(ip.octets());
    body.extend(address.port().to_be_bytes());
}

fn take(bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let (ip, rest) = bytes.split_first_chunk::<16>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let ip = Ipv6Addr::from(*ip).to_canonical();
    Some((SocketAddr::new(ip, u16::from_be_bytes(*port)), rest))
}

fn encode(message: &Message) -> (u8, Vec<u8>) {
    match *message {
        Message::Open {
            connection,
            up,
            down,
            src,
            dst,
        } => {
            let mut body = [connection, up, down].map(u64::to_be_bytes).concat();
            put(&mut body, src);
            put(&mut body, dst);
            (OPEN, body)
        }
        Message::Reset { connection } => (RESET, connection.to_be_bytes().to_vec()),
        Message::Done { connection } => (DONE, connection.to_be_bytes().to_vec()),
        Message::Alive => (ALIVE, Vec::new()),
    }
}

fn decode(kind: u8, body: &[u8]) -> Option<Message> {
    let number = |b: &[u8]| Some(u64::from_be_bytes(b.try_into().ok()?));
    match kind {
        OPEN => {
            let (connection, rest) = body.split_at_checked(8)?;
            let (flows, rest) = rest.split_at_checked(16)?;
            let (up, down) = two_numbers(flows)?;
            let (src, rest) = take(rest)?;
            let (dst, rest) = take(rest)?;
            let good = rest.is_empty() && src.is_ipv4() == dst.is_ipv4();
            good.then_some(Message::Open {
                connection: number(connection)?,
                up,
                down,
                src,
                dst,
            })
        }
        RESET => Some(Message::Reset {
            connection: number(body)?,
        }),
        DONE => Some(Message::Done {
            connection: number(body)?,
        }),
        ALIVE => body.is_empty().then_some(Message::Alive),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair() -> (Control, Control) {
        (Control::new([7; 32], 1), Control::new([7; 32], 2))
    }

    fn open(connection: u64) -> Message {
        Message::Open {
            connection,
            up: 5,
            down: 6,
            src: "10.0.0.1:1234".parse().unwrap(),
            dst: "10.0.0.2:80".parse().unwrap(),
        }
    }

    #[test]
    fn messages_survive_the_way() {
        let v6 = Message::Open {
            connection: 9,
            up: 1,
            down: 2,
            src: "[fd00::1]:1".parse().unwrap(),
            dst: "[fd00::2]:65535".parse().unwrap(),
        };
        let all = [
            open(3),
            v6,
            Message::Reset { connection: 4 },
            Message::Done { connection: 4 },
            Message::Alive,
        ];
        for message in all {
            let (kind, body) = encode(&message);
            assert_eq!(decode(kind, &body), Some(message));
            assert!(body.len() + HEAD + MAC <= MAX_LEN);
        }
    }

    #[test]
    fn another_key_or_another_bit_is_nobody() {
        let (mut a, mut b) = pair();
        assert!(a.say(0, open(1)));
        let bytes = a.poll_transmit(0).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(b.handle(&changed), [None, None], "bit {bit}");
        }
        assert_eq!(Control::new([8; 32], 2).handle(&bytes), [None, None]);
        assert_eq!(b.handle(&bytes)[1], Some(Event::Said(open(1))));
    }

    #[test]
    fn a_peer_that_starts_anew_or_is_silent_is_noticed() {
        let (mut a, mut b) = pair();
        assert!(a.say(0, Message::Alive));
        b.handle(&a.poll_transmit(0).unwrap());
        let mut again = Control::new([7; 32], 99);
        assert!(again.say(0, open(1)));
        let events = b.handle(&again.poll_transmit(0).unwrap());
        assert_eq!(events, [Some(Event::Restarted), Some(Event::Said(open(1)))]);
        assert_eq!(a.poll_lost(LOST_NS - 1), None);
        assert_eq!(a.poll_lost(LOST_NS), Some(Event::Lost));
        assert!(!a.is_waiting());
    }

    proptest! {
        #[test]
        fn each_message_is_taken_once_whatever_is_lost(
            losses in prop::collection::vec(any::<(bool, bool)>(), 1..200), count in 1u64..20,
        ) {
            let (mut a, mut b) = pair();
            for c in 0..count {
                prop_assert!(a.say(0, open(c)));
            }
            let mut taken = Vec::new();
            let (mut now, mut losses) = (0, losses.into_iter());
            while a.is_waiting() {
                prop_assert!(now < LOST_NS * 20);
                while let Some(bytes) = a.poll_transmit(now) {
                    // When the list is over, everything arrives.
                    let (there, back) = losses.next().unwrap_or((true, true));
                    if there {
                        for event in b.handle(&bytes).into_iter().flatten() {
                            taken.push(event);
                        }
                    }
                    while let Some(confirmation) = b.poll_transmit(now) {
                        if back {
                            a.handle(&confirmation);
                        }
                    }
                }
                now = a.poll_timeout().unwrap_or(now);
            }
            taken.sort_by_key(|e| match e {
                Event::Said(Message::Open { connection, .. }) => *connection,
                _ => u64::MAX,
            });
            let all: Vec<Event> = (0..count).map(|c| Event::Said(open(c))).collect();
            prop_assert_eq!(taken, all);
        }

        #[test]
        fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (mut a, _) = pair();
            a.handle(&bytes);
            let kind = bytes.first().copied().unwrap_or(0);
            let _ = decode(kind, &bytes);
        }
    }
}
