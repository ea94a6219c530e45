//! One experiment in virtual time: reads a description (JSON) from standard
//! input, prints the result (JSON). `experiments/leotp` drives it.
//!
//! The description: a path that may change with time. Node 0 produces, the last
//! node consumes, the others are Midnodes or plain routers.

#[path = "../tests/vnet/mod.rs"]
mod vnet;

use leotp_core::{Midnode, Params, Path, Producer};
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use vnet::baseline::{Receiver, Sender};
use vnet::ends::{FLOW, Pattern, Protocol, Sink};
use vnet::{LinkSpec, MS, Nanos, Net, Plain, S, addr};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    #[serde(default = "one")]
    seed: u64,
    /// "default", "authors-constants", "beyond", or an end-to-end "bbr", "cubic", "reno".
    protocol: String,
    /// Parameters that differ from the protocol's.
    #[serde(default)]
    params: serde_json::Map<String, serde_json::Value>,
    /// The same at Midnodes, on top.
    #[serde(default)]
    mid_params: serde_json::Map<String, serde_json::Value>,
    nodes: usize,
    /// The nodes that are Midnodes; all when absent.
    mids: Option<BTreeSet<usize>>,
    timeline: Vec<Stretch>,
    /// Whether a link that leaves the path loses what is on it; links of the
    /// endpoints always do.
    #[serde(default)]
    cut: bool,
    from_s: f64,
    to_s: f64,
    /// Also report where packets spend their time.
    #[serde(default)]
    places: bool,
    /// The time that one value of `mbps_series` is of.
    #[serde(default = "second")]
    bin_ms: u64,
}

fn one() -> u64 {
    1
}

fn second() -> u64 {
    1000
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stretch {
    at_s: f64,
    path: Vec<usize>,
    hops: Vec<Hop>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hop {
    /// Toward the consumer.
    mbps: f64,
    /// Toward the producer.
    back_mbps: Option<f64>,
    delay_ms: f64,
    #[serde(default)]
    loss: f64,
    #[serde(default = "queue")]
    queue_bytes: u64,
    /// A host that is late: in the first `[1]` of every `[0]` all packets arrive `[2]` later.
    late_ms: Option<[f64; 3]>,
}

fn queue() -> u64 {
    131_072
}

/// The packets that the tap at both ends has seen.
#[derive(Default)]
struct Seen {
    sent: BTreeMap<u64, Nanos>,
    delay: BTreeMap<u64, Nanos>,
    sender_bytes: u64,
    /// Bytes of LEOTP's or the segment's header before the payload, and packets.
    headers: (u64, u64),
    bytes: u64,
    /// Bytes in each bin of time that anything came in.
    per_bin: BTreeMap<u64, u64>,
}

/// The time that packets spend in nodes, and on the way to them.
#[derive(Default)]
struct Places {
    came: HashMap<(usize, u64), Nanos>,
    left: HashMap<u64, (usize, Nanos)>,
    /// Sum of times in ns and their number, of waits in a node and of ways to it.
    waits: BTreeMap<usize, (u64, u64)>,
    ways: BTreeMap<usize, (u64, u64)>,
}

impl Places {
    /// The first time that data `key` leaves or reaches a node.
    fn note(&mut self, t: Nanos, node: usize, sent: bool, key: u64) {
        let add = |sums: &mut BTreeMap<usize, (u64, u64)>, ns| {
            let sum = sums.entry(node).or_default();
            *sum = (sum.0 + ns, sum.1 + 1);
        };
        if !sent {
            let std::collections::hash_map::Entry::Vacant(first) = self.came.entry((node, key))
            else {
                return;
            };
            first.insert(t);
            if let Some((_, left)) = self.left.get(&key) {
                add(&mut self.ways, t - left);
            }
        } else if self.left.get(&key).is_none_or(|l| l.0 != node) {
            self.left.insert(key, (node, t));
            if let Some(came) = self.came.get(&(node, key)) {
                add(&mut self.waits, t - came);
            }
        }
    }

    /// Means in ms by node.
    fn report(&self) -> serde_json::Value {
        let means = |sums: &BTreeMap<usize, (u64, u64)>| -> BTreeMap<usize, f64> {
            let mean = |v: &(u64, u64)| v.0 as f64 / v.1 as f64 / 1e6;
            sums.iter().map(|(node, v)| (*node, mean(v))).collect()
        };
        serde_json::json!({"wait_ms": means(&self.waits), "way_ms": means(&self.ways)})
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec: Spec = serde_json::from_reader(std::io::stdin())?;
    println!("{}", run(&spec)?);
    Ok(())
}

fn params(
    base: &Params,
    over: &serde_json::Map<String, serde_json::Value>,
) -> Result<Params, Box<dyn std::error::Error>> {
    let mut v = serde_json::to_value(base)?;
    for (k, x) in over {
        v[k] = x.clone();
    }
    let p: Params = serde_json::from_value(v)?;
    p.validate()?;
    Ok(p)
}

fn run(spec: &Spec) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let (base, baseline) = match Protocol::named(&spec.protocol)? {
        Protocol::Ours(params) => (*params, None),
        Protocol::Baseline(kind) => (Params::default(), Some(kind)),
    };
    let p = params(&base, &spec.params)?;
    let mid_p = params(&p, &spec.mid_params)?;
    let mut net = Net::new(spec.seed);
    let (producer, consumer) = (0, spec.nodes - 1);
    for n in 0..spec.nodes {
        let mid = baseline.is_none()
            && n != producer
            && n != consumer
            && spec.mids.as_ref().is_none_or(|m| m.contains(&n));
        let b: Box<dyn vnet::Behaviour> = if mid {
            Box::new(Midnode::new(mid_p.clone())?)
        } else {
            Box::new(Plain::default())
        };
        net.add(b);
    }
    let mut links: HashMap<(usize, usize), usize> = HashMap::new();
    for s in &spec.timeline {
        if s.path.len() != s.hops.len() + 1
            || s.path[0] != producer
            || s.path.last() != Some(&consumer)
        {
            return Err("a path leads from node 0 to the last node, one hop each".into());
        }
        for w in s.path.windows(2) {
            if !links.contains_key(&(w[0], w[1])) {
                let dead = LinkSpec::new(1_000_000, MS).loss(1.0);
                let (there, back) = net.connect(w[0], w[1], dead.clone(), dead);
                links.insert((w[0], w[1]), there);
                links.insert((w[1], w[0]), back);
            }
        }
    }
    let up = Path {
        src: addr(consumer, 4000),
        dst: addr(producer, 5000),
    };
    match baseline {
        Some(kind) => {
            net.nodes[producer] = Box::new(Sender::new(kind, up.reversed()));
            net.nodes[consumer] = Box::new(Receiver::default());
            net.offsets.fill(0);
        }
        None => {
            let mut prod = Producer::new(p.clone())?;
            prod.publish(FLOW, Box::new(Pattern::endless(FLOW)));
            net.nodes[producer] = Box::new(prod);
            net.nodes[consumer] = Box::new(Sink::new(&p, FLOW, up));
        }
    }
    let (from, to) = ((spec.from_s * 1e9) as Nanos, (spec.to_s * 1e9) as Nanos);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let places = spec
        .places
        .then(|| Rc::new(RefCell::new(Places::default())));
    let (tap, at_places) = (seen.clone(), places.clone());
    let bin_ns = spec.bin_ms.max(1) * MS;
    net.tap = Some(Box::new(move |t, node, sent, _, b| {
        let t = t.saturating_sub(S);
        let at_end = node == producer || node == consumer;
        if t < from || !(at_end || at_places.is_some()) {
            return;
        }
        let Some((key, len)) = Protocol::data_of(baseline.is_none(), b) else {
            return;
        };
        if let Some(places) = &at_places {
            places.borrow_mut().note(t, node, sent, key);
        }
        let s = &mut *tap.borrow_mut();
        if node == producer && sent {
            s.sender_bytes += len;
            s.headers = (s.headers.0 + b.len() as u64 - len, s.headers.1 + 1);
            s.sent.entry(key).or_insert(t);
        } else if node == consumer && !sent && !s.delay.contains_key(&key) {
            if let Some(a) = s.sent.get(&key) {
                s.delay.insert(key, t - a);
            }
            s.bytes += len;
            *s.per_bin.entry(t / bin_ns).or_insert(0) += len;
        }
    }));
    let mut started = false;
    for (i, s) in spec.timeline.iter().enumerate() {
        let at = S + (s.at_s * 1e9) as Nanos;
        net.run(at.min(to + S), |_| false);
        if at > to + S {
            break;
        }
        let on: BTreeSet<(usize, usize)> = s
            .path
            .windows(2)
            .flat_map(|w| [(w[0], w[1]), (w[1], w[0])])
            .collect();
        for (&(a, b), &l) in &links {
            let end = [a, b].iter().any(|x| *x == producer || *x == consumer);
            if !on.contains(&(a, b)) && (spec.cut || end) {
                net.links[l].spec.loss = 1.0;
            }
        }
        for (w, h) in s.path.windows(2).zip(&s.hops) {
            for (dir, mbps) in [
                ((w[0], w[1]), h.mbps),
                ((w[1], w[0]), h.back_mbps.unwrap_or(h.mbps)),
            ] {
                let l = &mut net.links[links[&dir]].spec;
                l.rate_bps = (mbps * 1e6) as u64;
                l.delay = (h.delay_ms * 1e6) as Nanos;
                l.loss = h.loss;
                l.queue_bytes = h.queue_bytes;
                let ns = |ms: f64| (ms * 1e6) as Nanos;
                l.late = h.late_ms.map(|[a, b, c]| (ns(a), ns(b), ns(c)));
            }
        }
        for w in s.path.windows(2) {
            net.set_route(w[0], consumer, links[&(w[0], w[1])]);
            net.set_route(w[1], producer, links[&(w[1], w[0])]);
        }
        if !started {
            started = true;
            net.wake(producer);
            net.wake(consumer);
        }
        if i + 1 == spec.timeline.len() {
            net.run(to + S, |_| false);
        }
    }
    let s = seen.borrow();
    let secs = (to - from) as f64 / 1e9;
    let mut delays: Vec<f64> = s.delay.values().map(|d| *d as f64 / 1e6).collect();
    delays.sort_by(f64::total_cmp);
    let mut lost: Vec<f64> = net
        .lost_starts
        .iter()
        .filter_map(|k| s.delay.get(k))
        .map(|d| *d as f64 / 1e6)
        .collect();
    lost.sort_by(f64::total_cmp);
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
    let quantiles = |v: &[f64]| -> Vec<f64> {
        if v.is_empty() {
            return vec![];
        }
        (0..=200).map(|i| v[(i * (v.len() - 1)) / 200]).collect()
    };
    let last = s.per_bin.keys().last().map_or(from / bin_ns, |k| k + 1);
    let mbps: Vec<f64> = (from / bin_ns..last)
        .map(|bin| {
            s.per_bin
                .get(&bin)
                .map_or(0.0, |b| *b as f64 * 8e3 / bin_ns as f64)
        })
        .collect();
    let consumer_stats = baseline
        .is_none()
        .then(|| net.get::<Sink>(consumer).consumer.stats());
    let mut mids = vec![];
    for n in 1..consumer {
        if let Some(m) = net.nodes[n].as_any().downcast_mut::<Midnode>() {
            mids.push(m.stats());
        }
    }
    let max_queue_ms: Vec<f64> = net
        .links
        .iter()
        .map(|l| l.max_queue_ns as f64 / 1e6)
        .collect();
    Ok(serde_json::json!({
        "mbps": s.bytes as f64 * 8e-6 / secs,
        "owd_mean_ms": mean(&delays),
        "owd_ms": quantiles(&delays),
        "lost_owd_mean_ms": mean(&lost),
        "lost_owd_ms": quantiles(&lost),
        "lost": lost.len(),
        "header_bytes": s.headers.0 as f64 / s.headers.1.max(1) as f64,
        "sent_per_delivered": s.sender_bytes as f64 / s.bytes.max(1) as f64,
        "mbps_series": mbps,
        "consumer": consumer_stats,
        "midnodes": mids,
        "full_drops": net.links.iter().map(|l| l.dropped_full).sum::<u64>(),
        "max_queue_ms": max_queue_ms.iter().copied().fold(0.0, f64::max),
        "places": places.map(|p| p.borrow().report()),
    }))
}
