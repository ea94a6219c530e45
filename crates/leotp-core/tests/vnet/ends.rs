//! Endpoints for the virtual network, and the usual chain of hops.

use super::baseline::{self, Kind};
use super::*;
use leotp_core::{Available, Consumer, Meta, Params, Producer, Sealing, Source};
use std::cell::RefCell;
use std::rc::Rc;

/// Byte `pos` of `flow`.
pub fn byte(flow: u64, pos: u64) -> u8 {
    let x = (pos ^ flow.wrapping_mul(0x9E37_79B9)).wrapping_mul(0x2545_F491_4F6C_DD1D);
    (x >> 56) as u8
}

/// A plain Interest, as a packet.
pub fn interest(flow: u64, range: leotp_core::wire::Range, rate_bps: u64) -> Vec<u8> {
    let mut b = vec![];
    leotp_core::wire::Interest {
        flow,
        range,
        timestamp: 0,
        rate_bps,
        rtx: false,
        fresh: false,
        bare: false,
        sparse: false,
        tag: 1,
        padding: 0,
    }
    .encode(&mut b);
    b
}

/// A flow whose bytes are computed.
pub struct Pattern {
    pub flow: u64,
    pub len: u64,
    pub meta: Vec<u8>,
}

impl Pattern {
    pub fn new(flow: u64, len: u64) -> Self {
        let mut h = blake3::Hasher::new();
        let mut buf = vec![];
        let mut at = 0;
        while at < len {
            buf.clear();
            let n = (len - at).min(65_536);
            buf.extend((at..at + n).map(|p| byte(flow, p)));
            h.update(&buf);
            at += n;
        }
        let meta = Meta {
            length: len,
            digest: *h.finalize().as_bytes(),
            sealing: Sealing::Open,
        };
        Self {
            flow,
            len,
            meta: meta.encode().to_vec(),
        }
    }

    /// A flow of this length, with a digest that is not its own: for Consumers that begin in the middle and check none.
    pub fn undigested(flow: u64, len: u64) -> Self {
        let meta = Meta {
            length: len,
            digest: [0; 32],
            sealing: Sealing::Open,
        };
        Self {
            flow,
            len,
            meta: meta.encode().to_vec(),
        }
    }

    /// Never ends, never digested.
    pub fn endless(flow: u64) -> Self {
        Self {
            flow,
            len: 1 << 61,
            meta: vec![],
        }
    }
}

impl Source for Pattern {
    fn available(&self) -> Available {
        Available {
            end: self.len,
            finished: !self.meta.is_empty(),
        }
    }
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        for (i, b) in buf.iter_mut().enumerate() {
            *b = byte(self.flow, offset + i as u64);
        }
        true
    }
    fn meta(&self) -> Option<Vec<u8>> {
        (!self.meta.is_empty()).then(|| self.meta.clone())
    }
}

/// A Consumer and the application behind it, which checks every byte.
pub struct Sink {
    pub consumer: Consumer,
    pub flow: u64,
    pub got: u64,
    /// (time, bytes so far), every 100 ms.
    pub series: Vec<(Nanos, u64)>,
    pub started: bool,
}

impl Sink {
    pub fn new(p: &Params, flow: u64, up: Path) -> Self {
        Self::at(p, flow, up, 0)
    }
    pub fn at(p: &Params, flow: u64, up: Path, start: u64) -> Self {
        let consumer = Consumer::new(p.clone(), flow, up, start, None).unwrap();
        Self {
            consumer,
            flow,
            got: start,
            series: vec![],
            started: false,
        }
    }
}

impl Behaviour for Sink {
    fn rx(&mut self, now: Nanos, path: Path, bytes: &[u8]) {
        self.consumer.handle_datagram(now, path, bytes);
        while let Some(b) = self.consumer.read() {
            for (i, x) in b.iter().enumerate().step_by(13) {
                assert_eq!(
                    *x,
                    byte(self.flow, self.got + i as u64),
                    "byte {}",
                    self.got + i as u64
                );
            }
            self.got += b.len() as u64;
        }
        if self.series.last().is_none_or(|s| now >= s.0 + 100 * MS) {
            self.series.push((now, self.got));
        }
    }
    fn tx(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<Path> {
        self.started = true;
        self.consumer.poll_transmit(now, out)
    }
    fn timeout(&self) -> Option<Nanos> {
        if self.started {
            self.consumer.poll_timeout()
        } else {
            None
        }
    }
    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// First time each Data packet left the Producer, and reached the Consumer; and
/// which were lost on the way at least once.
#[derive(Default)]
pub struct Owd {
    pub sent: BTreeMap<u64, Nanos>,
    pub delay: BTreeMap<u64, Nanos>,
    pub producer_bytes: u64,
}

impl Owd {
    pub fn percentile_ms(&self, q: f64) -> f64 {
        let mut v: Vec<_> = self.delay.values().copied().collect();
        v.sort_unstable();
        if v.is_empty() {
            f64::NAN
        } else {
            v[((v.len() - 1) as f64 * q) as usize] as f64 / 1e6
        }
    }
    pub fn mean_ms(&self) -> f64 {
        self.delay.values().sum::<u64>() as f64 / self.delay.len().max(1) as f64 / 1e6
    }
    /// Number and mean delay of the packets in `which`.
    pub fn of_ms(&self, which: &std::collections::BTreeSet<u64>) -> (usize, f64) {
        let v: Vec<f64> = which
            .iter()
            .filter_map(|w| self.delay.get(w))
            .map(|d| *d as f64 / 1e6)
            .collect();
        (v.len(), v.iter().sum::<f64>() / v.len().max(1) as f64)
    }
}

/// A chain: consumer - hop - ... - hop - producer, with Midnodes where required.
pub struct Chain {
    pub net: Net,
    pub consumer: usize,
    pub producer: usize,
    pub routers: Vec<usize>,
    /// Link toward the consumer of each hop; hop 0 is next to the producer.
    pub down: Vec<usize>,
    pub owd: Rc<RefCell<Owd>>,
}

pub const FLOW: u64 = 0xC0FFEE;

/// The transport of a flow: LEOTP, or an end-to-end sender.
pub enum Protocol {
    Ours(Box<Params>),
    Baseline(Kind),
}

impl Protocol {
    /// "default", "authors-constants", "beyond", or an end-to-end "bbr", "cubic", "reno".
    pub fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "default" => Protocol::Ours(Box::default()),
            "authors-constants" => Protocol::Ours(Box::new(Params::authors_constants())),
            "beyond" => Protocol::Ours(Box::new(Params::beyond())),
            "bbr" => Protocol::Baseline(Kind::Bbr),
            "cubic" => Protocol::Baseline(Kind::Cubic),
            "reno" => Protocol::Baseline(Kind::Reno),
            other => return Err(format!("no protocol {other}")),
        })
    }

    /// The data that a packet carries: its first byte or segment, and how many bytes. `None` for packets without.
    pub fn data_of(ours: bool, bytes: &[u8]) -> Option<(u64, u64)> {
        match leotp_core::wire::Packet::parse(bytes) {
            Ok(leotp_core::wire::Packet::Data(h, payload)) if ours => {
                Some((h.range.start, payload.len() as u64))
            }
            _ if !ours && bytes.len() > 1000 => Some((
                u64::from_be_bytes(bytes[8..16].try_into().ok()?),
                baseline::PAYLOAD,
            )),
            _ => None,
        }
    }
}

impl Chain {
    /// `hops[0]` starts at the Producer. `mid(i)` says whether the router after
    /// hop i is a Midnode.
    pub fn new(
        seed: u64,
        hops: &[LinkSpec],
        p: &Params,
        mid: impl Fn(usize) -> bool,
        source: Pattern,
    ) -> Self {
        let mut net = Net::new(seed);
        let mut prod = Producer::new(p.clone()).unwrap();
        let flow = source.flow;
        prod.publish(flow, Box::new(source));
        let producer = net.add(Box::new(prod));
        let mut routers = vec![];
        let mut down = vec![];
        let mut last = producer;
        for (i, hop) in hops.iter().enumerate() {
            let end = i + 1 == hops.len();
            let node: Box<dyn Behaviour> = if end {
                Box::new(Plain::default())
            } else if mid(i) {
                Box::new(Midnode::new(p.clone()).unwrap())
            } else {
                Box::new(Plain::default())
            };
            let id = net.add(node);
            let mut back = hop.clone();
            back.rate_fn = None;
            back.drop_nth.clear();
            let (d, _) = net.connect(last, id, hop.clone(), back);
            down.push(d);
            if !end {
                routers.push(id);
            }
            last = id;
        }
        let consumer = last;
        let up = Path {
            src: addr(consumer, 4000),
            dst: addr(producer, 5000),
        };
        net.nodes[consumer] = Box::new(Sink::new(p, flow, up));
        net.route();
        let owd = Rc::new(RefCell::new(Owd::default()));
        let o = owd.clone();
        net.tap = Some(Box::new(move |t, node, sent, _, b| {
            if node != producer && node != consumer {
                return;
            }
            if let Ok(leotp_core::wire::Packet::Data(h, p)) = leotp_core::wire::Packet::parse(b) {
                let mut o = o.borrow_mut();
                if node == producer && sent {
                    o.producer_bytes += p.len() as u64;
                    o.sent.entry(h.range.start).or_insert(t);
                } else if node == consumer
                    && !sent
                    && let Some(s) = o.sent.get(&h.range.start).copied()
                {
                    o.delay.entry(h.range.start).or_insert(t - s);
                }
            }
        }));
        net.wake(consumer);
        Self {
            net,
            consumer,
            producer,
            routers,
            down,
            owd,
        }
    }

    pub fn sink(&mut self) -> &mut Sink {
        let c = self.consumer;
        self.net.get::<Sink>(c)
    }

    /// Runs to the end of the flow or `limit`; true when done.
    pub fn finish(&mut self, limit: Nanos) -> bool {
        let c = self.consumer;
        self.net.run(limit, |n| {
            let s = n.get::<Sink>(c);
            s.consumer.is_done() || s.consumer.error().is_some()
        });
        self.sink().consumer.is_done()
    }

    /// Goodput in Mbit/s between two times.
    pub fn goodput_mbps(&mut self, from: Nanos, to: Nanos) -> f64 {
        self.net.run(from, |_| false);
        let a = self.sink().consumer.stats().new_bytes;
        self.net.run(to, |_| false);
        let b = self.sink().consumer.stats().new_bytes;
        (b - a) as f64 * 8e3 / (to - from) as f64
    }
}
