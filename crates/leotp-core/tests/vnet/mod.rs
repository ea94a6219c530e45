//! A network in virtual time: nodes, and links with rate, byte-limited queue,
//! delay, loss, reordering and duplication. Everything follows from the seed.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::allow_attributes_without_reason
)]

pub mod baseline;
pub mod ends;

use leotp_core::{Midnode, Path, Producer};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub type Nanos = u64;
pub const MS: Nanos = 1_000_000;
pub const S: Nanos = 1_000_000_000;
pub const MBIT: u64 = 1_000_000;
/// IPv4 and UDP headers, counted on links.
pub const IP_UDP: u64 = 28;

/// xorshift64*: small, seeded, good enough for loss.
#[derive(Clone)]
pub struct Rng(pub u64);
impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The effect of one direction of a link on packets.
#[derive(Clone)]
pub struct LinkSpec {
    pub rate_bps: u64,
    /// Rate as a function of time instead of the constant.
    pub rate_fn: Option<std::rc::Rc<dyn Fn(Nanos) -> u64>>,
    pub queue_bytes: u64,
    pub delay: Nanos,
    pub loss: f64,
    pub dup: f64,
    /// Chance that a packet is held back by up to `reorder_by`.
    pub reorder: f64,
    pub reorder_by: Nanos,
    /// (period, length, extra): a host that is late. In the first `length` of each `period`
    /// every packet arrives `extra` later.
    pub late: Option<(Nanos, Nanos, Nanos)>,
    /// Loses the packets with these ordinals (0 is the first), for exact tests.
    pub drop_nth: Vec<u64>,
}

impl LinkSpec {
    pub fn new(rate_bps: u64, delay: Nanos) -> Self {
        Self {
            rate_bps,
            rate_fn: None,
            queue_bytes: 1 << 20,
            delay,
            loss: 0.0,
            dup: 0.0,
            reorder: 0.0,
            reorder_by: 0,
            late: None,
            drop_nth: vec![],
        }
    }
    pub fn loss(mut self, p: f64) -> Self {
        self.loss = p;
        self
    }
    pub fn queue(mut self, bytes: u64) -> Self {
        self.queue_bytes = bytes;
        self
    }
}

pub struct Link {
    pub spec: LinkSpec,
    pub to: usize,
    free_at: Nanos,
    pub offered: u64,
    pub offered_bytes: u64,
    pub dropped_full: u64,
    pub lost: u64,
    pub max_queue_ns: Nanos,
}

/// One node's behaviour. `now` is the node's own clock.
pub trait Behaviour {
    fn rx(&mut self, now: Nanos, path: Path, bytes: &[u8]);
    fn tx(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<Path>;
    fn timeout(&self) -> Option<Nanos>;
    fn as_any(&mut self) -> &mut dyn std::any::Any;
}

/// A router that forwards what it gets.
#[derive(Default)]
pub struct Plain(VecDeque<(Path, Vec<u8>)>);
impl Behaviour for Plain {
    fn rx(&mut self, _: Nanos, path: Path, bytes: &[u8]) {
        self.0.push_back((path, bytes.to_vec()));
    }
    fn tx(&mut self, _: Nanos, out: &mut Vec<u8>) -> Option<Path> {
        let (path, b) = self.0.pop_front()?;
        out.extend_from_slice(&b);
        Some(path)
    }
    fn timeout(&self) -> Option<Nanos> {
        None
    }
    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// A state machine of the protocol as a node.
macro_rules! machine {
    ($t:ty) => {
        impl Behaviour for $t {
            fn rx(&mut self, now: Nanos, path: Path, bytes: &[u8]) {
                self.handle_datagram(now, path, bytes);
            }
            fn tx(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<Path> {
                self.poll_transmit(now, out)
            }
            fn timeout(&self) -> Option<Nanos> {
                self.poll_timeout()
            }
            fn as_any(&mut self) -> &mut dyn std::any::Any {
                self
            }
        }
    };
}
machine!(Midnode);
machine!(Producer);

enum Event {
    Arrive(usize, Path, Vec<u8>),
    Wake(usize),
}

pub struct Net {
    pub now: Nanos,
    pub nodes: Vec<Box<dyn Behaviour>>,
    /// Each node's clock is this far ahead of the net's.
    pub offsets: Vec<Nanos>,
    woken_for: Vec<Nanos>,
    pub links: Vec<Link>,
    out_links: Vec<Vec<usize>>,
    routes: Vec<BTreeMap<IpAddr, usize>>,
    events: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    pool: Vec<Option<Event>>,
    free: Vec<usize>,
    seq: u64,
    pub rng: Rng,
    /// The offsets of the payloads of lost data packets.
    pub lost_starts: std::collections::BTreeSet<u64>,
    /// Called for each datagram a node receives or sends: (time, node, sent, path, bytes).
    pub tap: Option<Tap>,
}

pub type Tap = Box<dyn FnMut(Nanos, usize, bool, Path, &[u8])>;

pub fn ip(node: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, (node / 256) as u8, (node % 256) as u8))
}

pub fn addr(node: usize, port: u16) -> SocketAddr {
    SocketAddr::new(ip(node), port)
}

impl Net {
    pub fn new(seed: u64) -> Self {
        Self {
            now: S,
            nodes: vec![],
            offsets: vec![],
            woken_for: vec![],
            links: vec![],
            out_links: vec![],
            routes: vec![],
            events: BinaryHeap::new(),
            pool: vec![],
            free: vec![],
            seq: 0,
            rng: Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            lost_starts: Default::default(),
            tap: None,
        }
    }

    pub fn add(&mut self, b: Box<dyn Behaviour>) -> usize {
        self.nodes.push(b);
        // Every node has its own idea of the time.
        self.offsets.push(self.nodes.len() as u64 * 7_777_777_777);
        self.woken_for.push(u64::MAX);
        self.out_links.push(vec![]);
        self.routes.push(BTreeMap::new());
        self.nodes.len() - 1
    }

    pub fn connect(
        &mut self,
        a: usize,
        b: usize,
        there: LinkSpec,
        back: LinkSpec,
    ) -> (usize, usize) {
        let ids = (self.links.len(), self.links.len() + 1);
        for (from, to, spec) in [(a, b, there), (b, a, back)] {
            self.links.push(Link {
                spec,
                to,
                free_at: 0,
                offered: 0,
                offered_bytes: 0,
                dropped_full: 0,
                lost: 0,
                max_queue_ns: 0,
            });
            self.out_links[from].push(self.links.len() - 1);
        }
        ids
    }

    /// Shortest paths by hop count, for every pair.
    pub fn route(&mut self) {
        for dst in 0..self.nodes.len() {
            let mut via = vec![None; self.nodes.len()];
            let mut seen = vec![false; self.nodes.len()];
            let mut q = VecDeque::from([dst]);
            seen[dst] = true;
            while let Some(n) = q.pop_front() {
                // Links come in pairs; the partner of a link out of n leads to n.
                for &l in &self.out_links[n] {
                    let m = self.links[l].to;
                    if !seen[m] {
                        seen[m] = true;
                        via[m] = Some(l ^ 1);
                        q.push_back(m);
                    }
                }
            }
            for (n, v) in via.iter().enumerate() {
                if let Some(l) = v {
                    self.routes[n].insert(ip(dst), *l);
                }
            }
        }
    }

    pub fn set_route(&mut self, node: usize, dst: usize, link: usize) {
        self.routes[node].insert(ip(dst), link);
    }

    fn push(&mut self, at: Nanos, e: Event) {
        let i = match self.free.pop() {
            Some(i) => {
                self.pool[i] = Some(e);
                i
            }
            None => {
                self.pool.push(Some(e));
                self.pool.len() - 1
            }
        };
        self.seq += 1;
        self.events.push(Reverse((at, self.seq, i)));
    }

    pub fn wake(&mut self, node: usize) {
        self.push(self.now, Event::Wake(node));
    }

    fn send(&mut self, node: usize, path: Path, bytes: Vec<u8>) {
        let Some(&l) = self.routes[node].get(&path.dst.ip()) else {
            return;
        };
        let now = self.now;
        let link = &mut self.links[l];
        let size = bytes.len() as u64 + IP_UDP;
        let rate = link
            .spec
            .rate_fn
            .as_ref()
            .map_or(link.spec.rate_bps, |f| f(now));
        let nth = link.offered;
        link.offered += 1;
        link.offered_bytes += size;
        let start = link.free_at.max(now);
        let queued = (start - now) as f64 * rate as f64 / 8e9;
        if queued + size as f64 > link.spec.queue_bytes as f64 {
            link.dropped_full += 1;
            return;
        }
        link.max_queue_ns = link.max_queue_ns.max(start - now);
        link.free_at = start + (size as f64 * 8e9 / rate as f64) as Nanos;
        let mut at = link.free_at + link.spec.delay;
        let (loss, dup, reorder, by, to) = (
            link.spec.loss,
            link.spec.dup,
            link.spec.reorder,
            link.spec.reorder_by,
            link.to,
        );
        if link.spec.drop_nth.contains(&nth) || (loss > 0.0 && self.rng.unit() < loss) {
            self.links[l].lost += 1;
            if let Ok(leotp_core::wire::Packet::Data(h, _)) =
                leotp_core::wire::Packet::parse(&bytes)
            {
                self.lost_starts.insert(h.range.start);
            } else if bytes.len() > 1000 {
                // A baseline's segment (see `baseline`).
                let seg = bytes[8..16].try_into().map_or(0, u64::from_be_bytes);
                self.lost_starts.insert(seg);
            }
            return;
        }
        if let Some((period, length, extra)) = self.links[l].spec.late {
            // No packet overtakes: packets after the late ones wait for them.
            let phase = at % period;
            at = if phase < length {
                at + extra
            } else {
                at.max(at - phase + length + extra)
            };
        }
        if reorder > 0.0 && self.rng.unit() < reorder {
            at += (self.rng.unit() * by as f64) as Nanos;
        }
        if dup > 0.0 && self.rng.unit() < dup {
            self.push(at + 1000, Event::Arrive(to, path, bytes.clone()));
        }
        self.push(at, Event::Arrive(to, path, bytes));
    }

    fn drain(&mut self, node: usize) {
        let local = self.now + self.offsets[node];
        loop {
            let mut out = Vec::new();
            let Some(path) = self.nodes[node].tx(local, &mut out) else {
                break;
            };
            if let Some(t) = &mut self.tap {
                t(self.now, node, true, path, &out);
            }
            self.send(node, path, out);
        }
        if let Some(at) = self.nodes[node].timeout() {
            let at = at.saturating_sub(self.offsets[node]).max(self.now + 1);
            if at < self.woken_for[node] || self.woken_for[node] <= self.now {
                self.woken_for[node] = at;
                self.push(at, Event::Wake(node));
            }
        }
    }

    /// Runs until `until` or until `stop` returns true after an event.
    pub fn run(&mut self, until: Nanos, mut stop: impl FnMut(&mut Self) -> bool) {
        while let Some(&Reverse((at, _, i))) = self.events.peek() {
            if at > until {
                break;
            }
            self.events.pop();
            self.now = self.now.max(at);
            let e = self.pool[i].take();
            self.free.push(i);
            match e {
                Some(Event::Arrive(node, path, bytes)) => {
                    if let Some(t) = &mut self.tap {
                        t(self.now, node, false, path, &bytes);
                    }
                    let local = self.now + self.offsets[node];
                    self.nodes[node].rx(local, path, &bytes);
                    self.drain(node);
                }
                Some(Event::Wake(node)) => self.drain(node),
                None => {}
            }
            if stop(self) {
                return;
            }
        }
        self.now = self.now.max(until);
    }

    pub fn get<T: 'static>(&mut self, node: usize) -> &mut T {
        self.nodes[node]
            .as_any()
            .downcast_mut::<T>()
            .expect("node of that kind")
    }
}
