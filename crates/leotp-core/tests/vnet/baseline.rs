//! Sender-driven end-to-end baselines in the same virtual network: NewReno-,
//! Cubic- and BBR-like, with per-packet acknowledgements and packet-threshold
//! loss detection (RFC 9002's). Only shape is claimed, not kernel equality.

use super::*;

pub const PAYLOAD: u64 = 1400;
/// With IP and UDP as much as TCP over IPv4 with timestamps: 52 bytes.
const HEAD: usize = 24;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Reno,
    Cubic,
    Bbr,
}

struct Flight {
    seg: u64,
    at: Nanos,
    delivered: u64,
    delivered_at: Nanos,
}

pub struct Sender {
    kind: Kind,
    path: Path,
    next_seg: u64,
    next_pn: u64,
    flight: BTreeMap<u64, Flight>,
    lost: VecDeque<u64>,
    acked_segs: std::collections::BTreeSet<u64>,
    cwnd: f64,
    ssthresh: f64,
    recovery_until: u64,
    srtt: f64,
    rttvar: f64,
    min_rtt: (Nanos, f64),
    delivered: u64,
    delivered_at: Nanos,
    // Cubic
    w_max: f64,
    epoch: Option<Nanos>,
    // BBR
    bw: VecDeque<(u64, f64)>,
    round: u64,
    round_end: u64,
    full_bw: f64,
    full_rounds: u32,
    startup: bool,
    drain: bool,
    cycle: usize,
    cycle_at: Nanos,
    next_send: Nanos,
    last_event: Nanos,
    ptos: u32,
    pub sent_packets: u64,
}

impl Sender {
    pub fn new(kind: Kind, path: Path) -> Self {
        Self {
            kind,
            path,
            next_seg: 0,
            next_pn: 0,
            flight: BTreeMap::new(),
            lost: VecDeque::new(),
            acked_segs: Default::default(),
            cwnd: 10.0,
            ssthresh: f64::MAX,
            recovery_until: 0,
            srtt: 0.0,
            rttvar: 0.0,
            min_rtt: (0, f64::MAX),
            delivered: 0,
            delivered_at: 0,
            w_max: 0.0,
            epoch: None,
            bw: VecDeque::new(),
            round: 0,
            round_end: 0,
            full_bw: 0.0,
            full_rounds: 0,
            startup: true,
            drain: false,
            cycle: 0,
            cycle_at: 0,
            next_send: 0,
            last_event: 0,
            ptos: 0,
            sent_packets: 0,
        }
    }

    /// Packets per ns.
    fn max_bw(&self) -> f64 {
        self.bw.iter().map(|b| b.1).fold(0.0, f64::max)
    }

    fn pacing_gain(&self) -> f64 {
        if self.startup {
            2.885
        } else if self.drain {
            0.35
        } else {
            [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0][self.cycle]
        }
    }

    fn window(&self) -> f64 {
        if self.kind == Kind::Bbr && self.max_bw() > 0.0 {
            let gain = if self.startup { 2.885 } else { 2.0 };
            (gain * self.max_bw() * self.min_rtt.1).max(4.0)
        } else {
            self.cwnd
        }
    }

    fn on_loss(&mut self, now: Nanos, pn: u64) {
        if let Some(f) = self.flight.remove(&pn)
            && !self.acked_segs.contains(&f.seg)
        {
            self.lost.push_back(f.seg);
        }
        if self.kind == Kind::Bbr || pn < self.recovery_until {
            return;
        }
        self.recovery_until = self.next_pn;
        let beta = if self.kind == Kind::Cubic { 0.7 } else { 0.5 };
        self.w_max = self.cwnd;
        self.epoch = Some(now);
        self.cwnd = (self.cwnd * beta).max(2.0);
        self.ssthresh = self.cwnd;
    }

    fn on_ack(&mut self, now: Nanos, pn: u64) {
        let Some(f) = self.flight.remove(&pn) else {
            return;
        };
        self.acked_segs.insert(f.seg);
        while self.acked_segs.len() > 1_000_000 {
            self.acked_segs.pop_first();
        }
        self.ptos = 0;
        self.last_event = now;
        let rtt = (now - f.at) as f64;
        if self.srtt == 0.0 {
            (self.srtt, self.rttvar) = (rtt, rtt / 2.0);
        } else {
            self.rttvar = 0.75 * self.rttvar + 0.25 * (self.srtt - rtt).abs();
            self.srtt = 0.875 * self.srtt + 0.125 * rtt;
        }
        if rtt <= self.min_rtt.1 || now > self.min_rtt.0 + 10 * S {
            self.min_rtt = (now, rtt);
        }
        self.delivered += 1;
        self.delivered_at = now;
        let dt = (now - f.delivered_at)
            .max(f.at.saturating_sub(f.delivered_at))
            .max(1) as f64;
        let bw = (self.delivered - f.delivered) as f64 / dt.max(rtt.min(dt));
        if pn >= self.round_end {
            self.round += 1;
            self.round_end = self.next_pn;
            self.bbr_round();
        }
        self.bw.push_back((self.round, bw));
        while self.bw.front().is_some_and(|b| b.0 + 10 < self.round) {
            self.bw.pop_front();
        }
        if self.bw.len() > 4000 {
            // Keep the filter small: only maxima matter.
            let m = self.max_bw();
            self.bw.retain(|b| b.1 > 0.98 * m || b.0 + 1 >= self.round);
        }
        if self.kind == Kind::Bbr {
            if self.drain && (self.flight.len() as f64) <= self.max_bw() * self.min_rtt.1 {
                self.drain = false;
                self.cycle_at = now;
            }
            if !self.startup && !self.drain && now as f64 > self.cycle_at as f64 + self.min_rtt.1 {
                self.cycle = (self.cycle + 1) % 8;
                self.cycle_at = now;
            }
        } else if self.cwnd < self.ssthresh {
            self.cwnd += 1.0;
        } else if self.kind == Kind::Reno {
            self.cwnd += 1.0 / self.cwnd;
        } else {
            // RFC 9438: W(t) = C (t - K)^3 + Wmax.
            let t = (now - self.epoch.unwrap_or(now)) as f64 / 1e9;
            let k = (self.w_max * 0.3 / 0.4).cbrt();
            let target = 0.4 * (t - k).powi(3) + self.w_max;
            let est = self.w_max * 0.7 + 3.0 * 0.3 / 1.7 * t / (self.srtt / 1e9);
            let target = target.max(est);
            self.cwnd += ((target - self.cwnd) / self.cwnd).clamp(0.0, 0.5);
        }
        // Packet threshold 3.
        let gone: Vec<u64> = self
            .flight
            .range(..pn.saturating_sub(2))
            .map(|x| *x.0)
            .collect();
        for g in gone {
            self.on_loss(now, g);
        }
    }

    fn bbr_round(&mut self) {
        if !self.startup {
            return;
        }
        let bw = self.max_bw();
        if bw > 1.25 * self.full_bw {
            (self.full_bw, self.full_rounds) = (bw, 0);
        } else {
            self.full_rounds += 1;
            if self.full_rounds >= 3 {
                self.startup = false;
                self.drain = true;
            }
        }
    }

    fn pto(&self) -> Nanos {
        if self.srtt == 0.0 {
            S
        } else {
            ((self.srtt + 4.0 * self.rttvar).max(2e8) as Nanos) << self.ptos.min(6)
        }
    }
}

impl Behaviour for Sender {
    fn rx(&mut self, now: Nanos, _: Path, b: &[u8]) {
        self.on_ack(now, u64::from_be_bytes(b[..8].try_into().unwrap()));
    }
    fn tx(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<Path> {
        if !self.flight.is_empty() && now >= self.last_event + self.pto() {
            self.ptos += 1;
            self.last_event = now;
            let all: Vec<u64> = self.flight.keys().copied().collect();
            for pn in all {
                self.on_loss(now, pn);
            }
            if self.kind != Kind::Bbr {
                self.cwnd = 2.0;
            }
        }
        if self.flight.len() as f64 >= self.window() {
            return None;
        }
        let rate = self.max_bw() * self.pacing_gain();
        if self.kind == Kind::Bbr && rate > 0.0 {
            if now < self.next_send {
                return None;
            }
            self.next_send = self.next_send.max(now.saturating_sub(MS)) + (1.0 / rate) as Nanos;
        }
        let seg = loop {
            match self.lost.pop_front() {
                Some(s) if self.acked_segs.contains(&s) => {}
                Some(s) => break s,
                None => {
                    self.next_seg += 1;
                    break self.next_seg - 1;
                }
            }
        };
        let pn = self.next_pn;
        self.next_pn += 1;
        self.sent_packets += 1;
        if self.flight.is_empty() {
            self.last_event = now;
            self.delivered_at = now;
        }
        self.flight.insert(
            pn,
            Flight {
                seg,
                at: now,
                delivered: self.delivered,
                delivered_at: self.delivered_at,
            },
        );
        out.extend_from_slice(&pn.to_be_bytes());
        out.extend_from_slice(&seg.to_be_bytes());
        out.resize(HEAD + PAYLOAD as usize, 0);
        Some(self.path)
    }
    fn timeout(&self) -> Option<Nanos> {
        if self.flight.is_empty() {
            return None;
        }
        let pto = self.last_event + self.pto();
        let paced = self.kind == Kind::Bbr && (self.flight.len() as f64) < self.window();
        Some(if paced { pto.min(self.next_send) } else { pto })
    }
    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Acknowledges every packet, counts new segments.
#[derive(Default)]
pub struct Receiver {
    seen: std::collections::BTreeSet<u64>,
    floor: u64,
    pub segments: u64,
    acks: VecDeque<(Path, u64)>,
}

impl Behaviour for Receiver {
    fn rx(&mut self, _: Nanos, path: Path, b: &[u8]) {
        let seg = u64::from_be_bytes(b[8..16].try_into().unwrap());
        if seg >= self.floor && self.seen.insert(seg) {
            self.segments += 1;
        }
        while self.seen.remove(&self.floor) {
            self.floor += 1;
        }
        self.acks.push_back((
            path.reversed(),
            u64::from_be_bytes(b[..8].try_into().unwrap()),
        ));
    }
    fn tx(&mut self, _: Nanos, out: &mut Vec<u8>) -> Option<Path> {
        let (path, pn) = self.acks.pop_front()?;
        out.extend_from_slice(&pn.to_be_bytes());
        out.resize(HEAD, 0);
        Some(path)
    }
    fn timeout(&self) -> Option<Nanos> {
        None
    }
    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// A baseline over a chain of plain hops: (goodput Mbit/s, mean and 99 % one-way
/// delay of first deliveries in ms, packets sent per packet delivered).
pub fn over_chain(
    kind: Kind,
    seed: u64,
    hops: &[LinkSpec],
    from: Nanos,
    to: Nanos,
) -> (f64, f64, f64, f64) {
    let mut net = Net::new(seed);
    let sender = net.add(Box::new(Plain::default()));
    let mut last = sender;
    for hop in hops {
        let id = net.add(Box::new(Plain::default()));
        let mut back = hop.clone();
        back.rate_fn = None;
        net.connect(last, id, hop.clone(), back);
        last = id;
    }
    let receiver = last;
    net.nodes[sender] = Box::new(Sender::new(
        kind,
        Path {
            src: addr(sender, 1),
            dst: addr(receiver, 2),
        },
    ));
    net.nodes[receiver] = Box::new(Receiver::default());
    net.offsets.fill(0);
    net.route();
    type Seen = (BTreeMap<u64, Nanos>, BTreeMap<u64, Nanos>);
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Seen::default()));
    let tap = seen.clone();
    net.tap = Some(Box::new(move |t, node, sent, _, b| {
        if b.len() < HEAD + 100 || t < from {
            return;
        }
        let seg = u64::from_be_bytes(b[8..16].try_into().unwrap());
        let mut s = tap.borrow_mut();
        if node == sender && sent {
            s.0.entry(seg).or_insert(t);
        } else if node == receiver
            && !sent
            && let Some(a) = s.0.get(&seg).copied()
        {
            s.1.entry(seg).or_insert(t - a);
        }
    }));
    net.wake(sender);
    net.run(from, |_| false);
    let (a, pa) = (
        net.get::<Receiver>(receiver).segments,
        net.get::<Sender>(sender).sent_packets,
    );
    net.run(to, |_| false);
    let (b, pb) = (
        net.get::<Receiver>(receiver).segments,
        net.get::<Sender>(sender).sent_packets,
    );
    let s = seen.borrow();
    let mut v: Vec<u64> = s.1.values().copied().collect();
    v.sort_unstable();
    let mean = v.iter().sum::<u64>() as f64 / v.len().max(1) as f64 / 1e6;
    let p99 = v.get(v.len() * 99 / 100).copied().unwrap_or(0) as f64 / 1e6;
    (
        (b - a) as f64 * PAYLOAD as f64 * 8e3 / (to - from) as f64,
        mean,
        p99,
        (pb - pa) as f64 / (b - a).max(1) as f64,
    )
}
