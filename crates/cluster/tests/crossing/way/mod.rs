//! A path between two machines that delays, loses and doubles datagrams, as the test requires.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use constel_cluster::crossing::{Endpoint, Interface, MachineTransport, Wire};
use constel_cluster::underlay::ETHER_TYPE;
use constel_host::datagrams::{Incoming, send_all};
use constel_host::ethernet::{EthernetSocket, Filter, HEADER_BYTES};
use constel_host::netlink::VethEnd;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use crate::crossing::support::{ETH0, Node, go_before_normal_threads};

/// Room for datagrams that come while a busy machine does not let the path run: it loses only what the test requires.
const BUFFER_BYTES: usize = 16 << 20;

/// The fate of a datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    /// The datagram is delayed by this time.
    After(Duration),
    /// It arrives twice, at once.
    Twice,
    /// It arrives at once, with one bit that is another.
    Changed,
    /// It does not.
    Lost,
}

/// Frames as long as ours at their longest, sealed.
const MTU_BYTES: u32 = 1_574;

struct Inner {
    /// By end: the socket that it sends to, and gets from.
    sockets: [Box<dyn AsFd + Send + Sync>; 2],
    ends: [Endpoint; 2],
    /// The address at which each end sees the other one.
    seen: [Endpoint; 2],
    /// Counters of the first end's datagrams.
    lost: AtomicU64,
    changed: AtomicU64,
    /// The datagrams that passed.
    past: Mutex<Vec<Vec<u8>>>,
    end: AtomicBool,
}

/// The way; it ends with this.
pub(crate) struct Way {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
    /// The namespace of the interfaces, if it has some.
    space: Option<Node>,
}

/// Both ends, the sockets that these send to and get from, and where each sees the other.
struct Laid {
    wires: [Wire; 2],
    sockets: [Box<dyn AsFd + Send + Sync>; 2],
    seen: [Endpoint; 2],
    space: Option<Node>,
}

fn by_udp() -> Laid {
    let bound = || UdpSocket::bind("127.0.0.1:0").unwrap();
    let sockets = [bound(), bound()];
    Laid {
        wires: [bound(), bound()].map(Wire::Udp),
        seen: sockets
            .each_ref()
            .map(|socket| Endpoint::Udp(socket.local_addr().unwrap())),
        sockets: sockets.map(|socket| Box::new(socket) as Box<dyn AsFd + Send + Sync>),
        space: None,
    }
}

/// A pair of interfaces for each end: the crossing is on the one, the way takes frames from the other. Each end has the other's address
/// for its goal, as on a cable.
fn by_ethernet() -> Laid {
    let space = Node::new();
    let names = [["under0", "way0"], ["under1", "way1"]];
    space.netlink(|batch| {
        for (first, [under, way]) in [ETH0, ETH0 + 2].into_iter().zip(names) {
            let end = |name, ifindex| VethEnd {
                name,
                ifindex: Some(ifindex),
                mtu: Some(MTU_BYTES),
                ..VethEnd::default()
            };
            let ends = (end(under, first), end(way, first + 1));
            batch.create_veth(&ends.0, &ends.1).unwrap();
            batch.link_up(first).link_up(first + 1);
        }
    });
    let (ends, sockets) = space.run(|| {
        let named = |name| Interface::named(name).unwrap();
        let sockets = names.map(|[_, way]| {
            let filter = Filter::Begins([8, 0, 0, 0]);
            let socket = EthernetSocket::open(named(way).ifindex, ETHER_TYPE, filter).unwrap();
            Box::new(socket) as Box<dyn AsFd + Send + Sync>
        });
        (names.map(|[under, _]| named(under)), sockets)
    });
    let [first, second] = ends.each_ref().map(|end| Endpoint::Ethernet(end.address.0));
    Laid {
        wires: ends.map(Wire::Ethernet),
        seen: [second, first],
        sockets,
        space: Some(space),
    }
}

impl Way {
    /// A path between two new ends. The number of a datagram of the first one, from 0 on, determines its fate; datagrams of
    /// the second one arrive at once.
    pub(crate) fn open(
        by: MachineTransport,
        fate: impl Fn(u64) -> Fate + Send + Sync + 'static,
    ) -> (Self, [Wire; 2]) {
        let Laid {
            wires,
            sockets,
            seen,
            space,
        } = match by {
            MachineTransport::Udp => by_udp(),
            MachineTransport::Ethernet => by_ethernet(),
        };
        for socket in &sockets {
            set_socket_recv_buffer_size_force(socket, BUFFER_BYTES).unwrap();
        }
        let inner = Arc::new(Inner {
            sockets,
            ends: wires.each_ref().map(|wire| wire.endpoint().unwrap()),
            seen,
            lost: AtomicU64::new(0),
            changed: AtomicU64::new(0),
            past: Mutex::default(),
            end: AtomicBool::new(false),
        });
        let (there, back) = (Arc::clone(&inner), Arc::clone(&inner));
        let threads = vec![
            std::thread::spawn(move || there.carry(0, fate)),
            std::thread::spawn(move || back.carry(1, |_| Fate::After(Duration::ZERO))),
        ];
        let way = Self {
            inner,
            threads,
            space,
        };
        (way, wires)
    }

    /// The namespaces of the ends' interfaces.
    pub(crate) fn within<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        match &self.space {
            Some(space) => space.run(f),
            None => f(),
        }
    }

    /// The address at which this end sees the other one.
    pub(crate) fn seen_from(&self, end: usize) -> Endpoint {
        self.inner.seen[end]
    }

    /// The address of an end.
    pub(crate) fn end(&self, end: usize) -> Endpoint {
        self.inner.ends[end]
    }

    /// Datagrams of the first end that were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.inner.lost.load(Ordering::SeqCst)
    }

    /// Datagrams of the first end that were changed.
    pub(crate) fn changed(&self) -> u64 {
        self.inner.changed.load(Ordering::SeqCst)
    }

    /// Whether these bytes came past.
    pub(crate) fn saw(&self, bytes: &[u8]) -> bool {
        let past = self.inner.past.lock().unwrap();
        let has = |datagram: &Vec<u8>| datagram.windows(bytes.len()).any(|some| some == bytes);
        past.iter().any(has)
    }

    /// Sends something to an end as if the other one had.
    pub(crate) fn forge(&self, to: usize, datagram: &[u8]) {
        self.inner
            .send(to, &self.headed(to, self.seen_from(to), datagram));
    }

    /// Sends something to an end from an unused address.
    pub(crate) fn stranger(&self, to: usize, datagram: &[u8]) {
        match self.end(to) {
            Endpoint::Udp(address) => {
                let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
                stranger.send_to(datagram, address).unwrap();
            }
            Endpoint::Ethernet(_) => {
                let nobody = Endpoint::Ethernet([2, 0, 0, 0, 0, 9]);
                self.inner.send(to, &self.headed(to, nobody, datagram));
            }
        }
    }

    /// A datagram as it is on the way.
    fn headed(&self, to: usize, from: Endpoint, datagram: &[u8]) -> Vec<u8> {
        match (self.end(to), from) {
            (Endpoint::Ethernet(to), Endpoint::Ethernet(from)) => {
                let header = [&to[..], &from, &ETHER_TYPE.to_be_bytes()].concat();
                assert_eq!(header.len(), HEADER_BYTES);
                [&header, datagram].concat()
            }
            _ => datagram.to_vec(),
        }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.inner.end.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Inner {
    /// To an end, from where it sees the other one.
    fn send(&self, to: usize, bytes: &[u8]) {
        let address = match self.ends[to] {
            Endpoint::Udp(address) => Some(address),
            Endpoint::Ethernet(_) => None,
        };
        assert_eq!(
            send_all(&self.sockets[to], &[], &[(address, bytes.to_vec())]),
            1
        );
    }

    /// From this end to the other, and never waits long: a few microseconds decide.
    fn carry(&self, from: usize, fate: impl Fn(u64) -> Fate) {
        // Otherwise a busy machine makes it longer than required.
        go_before_normal_threads();
        let to = 1 - from;
        let mut under_way = BinaryHeap::new();
        let (mut incoming, mut number) = (Incoming::new(4_096), 0);
        while !self.end.load(Ordering::SeqCst) {
            // If it cannot be received, no datagram has come.
            let _ = incoming.receive(&self.sockets[from]);
            for (bytes, _) in incoming.received() {
                self.past.lock().unwrap().push(bytes.to_vec());
                let (after, copies) = match fate(number) {
                    Fate::After(after) => (after, 1),
                    Fate::Twice => (Duration::ZERO, 2),
                    Fate::Changed => {
                        bytes[bytes.len() / 2] ^= 1;
                        self.changed.fetch_add(1, Ordering::SeqCst);
                        (Duration::ZERO, 1)
                    }
                    Fate::Lost => (Duration::ZERO, 0),
                };
                self.lost
                    .fetch_add(u64::from(copies == 0), Ordering::SeqCst);
                for _ in 0..copies {
                    under_way.push(Reverse((Instant::now() + after, number, bytes.to_vec())));
                }
                number += 1;
            }
            while let Some(Reverse((at, _, datagram))) = under_way.peek()
                && *at <= Instant::now()
            {
                self.send(to, datagram);
                under_way.pop();
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}
