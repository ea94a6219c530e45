//! The datagrams that gateways send each other.
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | `LGW2` |
//! | 4 | 1 | kind |
//! | 5 | 3 | 0 |
//! | 8 | 8 | epoch of the sender |
//! | 16 | 8 | epoch of the receiver as the sender knows it, 0: it does not |
//! | 24 | 8 | number |
//! | 32 | | body, by kind |
//! | end | 16 | first bytes of a keyed BLAKE3 hash of all before |
//!
//! Integers are big-endian, IPv4 addresses as IPv6 has them (`::ffff:a.b.c.d`).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const MAGIC: [u8; 4] = *b"LGW2";
const HEAD: usize = 32;
const MAC: usize = 16;
/// Longest datagram.
pub const MAX_LEN: usize = HEAD + 24 + 2 * 18 + MAC;

const OPEN: u8 = 1;
const RESET: u8 = 2;
const DONE: u8 = 3;
const ALIVE: u8 = 4;
const GREETING: u8 = 5;
const CONFIRM: u8 = 128;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// A connection was intercepted: open it on the other side.
    Open {
        /// The connection's number, unlikely to be that of another.
        connection: u64,
        /// Flow of the bytes from the client.
        up: u64,
        /// Flow of the bytes to the client.
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

/// The identity of a gateway, and a proof that it is running now: each side chooses a random challenge, and the
/// other side has to return it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Greeting {
    /// The address of the gateway that is greeted.
    pub(super) called: IpAddr,
    /// The sender's challenge, to be returned in the answer.
    pub(super) challenge: u64,
    /// The other side's challenge; 0: none was received.
    pub(super) answer: u64,
}

/// The content of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Greeting(Greeting),
    Message(Message),
    /// The message with the datagram's number was received.
    Confirm,
}

/// A datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Datagram {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) number: u64,
    pub(super) content: Content,
}

/// The reason why bytes are not a datagram from a gateway that has the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The bytes are of another version of this protocol, or claim to be.
    OtherVersion,
    /// All other reasons.
    Nobody,
}

impl Datagram {
    pub(super) fn seal(&self, key: &[u8; 32]) -> Vec<u8> {
        let (kind, body) = encode(&self.content);
        let mut b = Vec::with_capacity(MAX_LEN);
        b.extend(MAGIC);
        b.extend([kind, 0, 0, 0]);
        for n in [self.from, self.to, self.number] {
            b.extend(n.to_be_bytes());
        }
        b.extend(body);
        let mac = blake3::keyed_hash(key, &b);
        b.extend(&mac.as_bytes()[..MAC]);
        b
    }

    pub(super) fn open(key: &[u8; 32], bytes: &[u8]) -> Result<Self, Refused> {
        if bytes.len() >= MAGIC.len() && bytes[..3] == MAGIC[..3] && bytes[3] != MAGIC[3] {
            return Err(Refused::OtherVersion);
        }
        Self::authentic(key, bytes).ok_or(Refused::Nobody)
    }

    fn authentic(key: &[u8; 32], bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_LEN {
            return None;
        }
        let (said, mac) = bytes.split_at_checked(bytes.len().checked_sub(MAC)?)?;
        let good = blake3::keyed_hash(key, said);
        let mut whole = *good.as_bytes();
        whole[..MAC].copy_from_slice(mac);
        // blake3::Hash compares in constant time.
        if blake3::Hash::from_bytes(whole) != good {
            return None;
        }
        let (head, body) = said.split_at_checked(HEAD)?;
        let (magic, rest) = head.split_at_checked(8)?;
        if magic[..4] != MAGIC || magic[5..] != [0; 3] {
            return None;
        }
        let (from, rest) = number(rest)?;
        let (to, rest) = number(rest)?;
        let (number, _) = number(rest)?;
        Some(Self {
            from,
            to,
            number,
            content: decode(magic[4], body)?,
        })
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (n, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*n), rest))
}

fn put_ip(body: &mut Vec<u8>, ip: IpAddr) {
    let ip = match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    body.extend(ip.octets());
}

fn take_ip(bytes: &[u8]) -> Option<(IpAddr, &[u8])> {
    let (ip, rest) = bytes.split_first_chunk::<16>()?;
    Some((Ipv6Addr::from(*ip).to_canonical(), rest))
}

fn put(body: &mut Vec<u8>, address: SocketAddr) {
    put_ip(body, address.ip());
    body.extend(address.port().to_be_bytes());
}

fn take(bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let (ip, rest) = take_ip(bytes)?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    Some((SocketAddr::new(ip, u16::from_be_bytes(*port)), rest))
}

fn encode(content: &Content) -> (u8, Vec<u8>) {
    let one = |n: u64| n.to_be_bytes().to_vec();
    match *content {
        Content::Message(Message::Open {
            connection,
            up,
            down,
            src,
            dst,
        }) => {
            let mut body = [connection, up, down].map(u64::to_be_bytes).concat();
            put(&mut body, src);
            put(&mut body, dst);
            (OPEN, body)
        }
        Content::Message(Message::Reset { connection }) => (RESET, one(connection)),
        Content::Message(Message::Done { connection }) => (DONE, one(connection)),
        Content::Message(Message::Alive) => (ALIVE, Vec::new()),
        Content::Greeting(g) => {
            let mut body = Vec::with_capacity(32);
            put_ip(&mut body, g.called);
            body.extend(g.challenge.to_be_bytes());
            body.extend(g.answer.to_be_bytes());
            (GREETING, body)
        }
        Content::Confirm => (CONFIRM, Vec::new()),
    }
}

fn decode(kind: u8, body: &[u8]) -> Option<Content> {
    let (content, rest) = match kind {
        OPEN => {
            let (connection, rest) = number(body)?;
            let (up, rest) = number(rest)?;
            let (down, rest) = number(rest)?;
            let (src, rest) = take(rest)?;
            let (dst, rest) = take(rest)?;
            let open = Message::Open {
                connection,
                up,
                down,
                src,
                dst,
            };
            let one_family = src.is_ipv4() == dst.is_ipv4();
            (one_family.then_some(Content::Message(open))?, rest)
        }
        RESET | DONE => {
            let (connection, rest) = number(body)?;
            let message = if kind == RESET {
                Message::Reset { connection }
            } else {
                Message::Done { connection }
            };
            (Content::Message(message), rest)
        }
        ALIVE => (Content::Message(Message::Alive), body),
        GREETING => {
            let (called, rest) = take_ip(body)?;
            let (challenge, rest) = number(rest)?;
            let (answer, rest) = number(rest)?;
            let greeting = Greeting {
                called,
                challenge,
                answer,
            };
            (Content::Greeting(greeting), rest)
        }
        CONFIRM => (Content::Confirm, body),
        _ => return None,
    };
    rest.is_empty().then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all() -> Vec<Datagram> {
        let open = |src: &str, dst: &str| Message::Open {
            connection: 9,
            up: 1,
            down: 2,
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
        };
        let greeting = Greeting {
            called: "10.0.0.2".parse().unwrap(),
            challenge: 3,
            answer: 4,
        };
        let contents = [
            Content::Message(open("10.0.0.1:1234", "10.0.0.2:80")),
            Content::Message(open("[fd00::1]:1", "[fd00::2]:65535")),
            Content::Message(Message::Reset { connection: 4 }),
            Content::Message(Message::Done { connection: 4 }),
            Content::Message(Message::Alive),
            Content::Greeting(greeting),
            Content::Confirm,
        ];
        let datagram = |content| Datagram {
            from: 5,
            to: 6,
            number: 7,
            content,
        };
        contents.map(datagram).to_vec()
    }

    #[test]
    fn datagrams_survive_the_way() {
        for d in all() {
            let bytes = d.seal(&[7; 32]);
            assert!(bytes.len() <= MAX_LEN);
            assert_eq!(Datagram::open(&[7; 32], &bytes), Ok(d));
        }
    }

    #[test]
    fn another_key_or_another_bit_is_nobody() {
        for bytes in all().iter().map(|d| d.seal(&[7; 32])) {
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(Datagram::open(&[7; 32], &changed).is_err(), "bit {bit}");
            }
            assert_eq!(Datagram::open(&[8; 32], &bytes), Err(Refused::Nobody));
        }
        assert_eq!(
            Datagram::open(&[7; 32], b"LGW1...."),
            Err(Refused::OtherVersion)
        );
    }

    proptest! {
        #[test]
        fn no_input_panics(kind in any::<u8>(), body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Datagram::open(&[0; 32], &body);
            if let Some(content) = decode(kind, &body) {
                let (again, same) = encode(&content);
                prop_assert_eq!(again, kind);
                prop_assert_eq!(decode(again, &same), Some(content));
            }
        }
    }
}
