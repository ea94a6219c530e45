//! Many Consumers of one object, in virtual time: reads a description (JSON) from standard input, prints what each link has
//! carried (JSON). `experiments/leotp` drives it.
//!
//! A chain of Midnodes leads away from the Producer; Consumers are at its last nodes, in turn: `0 - 1 - 2 - ... - hops`, and
//! Consumer `i` behind node `hops - i % spread`.

#[path = "../tests/vnet/mod.rs"]
mod vnet;

use leotp_core::{BLOCK_BYTES, BlockKey, BlockStore, Midnode, Params, Path, Producer, StoredBlock};
use serde::Deserialize;
use std::collections::{HashMap, VecDeque};
use vnet::ends::{FLOW, Pattern, Protocol, Sink};
use vnet::{LinkSpec, MBIT, MS, Net, Plain, S, addr};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    seed: u64,
    /// "default", "authors-constants" or "beyond".
    protocol: String,
    hops: usize,
    /// How many of the last nodes have Consumers.
    spread: usize,
    mbps: u64,
    delay_ms: u64,
    loss: f64,
    consumers: usize,
    /// From the start of one to that of the next.
    every_s: f64,
    object_bytes: u64,
    /// The cache of each Midnode, in memory.
    cache_bytes: u64,
    /// The store of each Midnode beside it; 0: none.
    disk_bytes: u64,
}

/// Blocks that stand for a disk; the first to come are the first to go.
struct Disk {
    blocks: HashMap<BlockKey, StoredBlock>,
    order: VecDeque<BlockKey>,
    most: usize,
}

impl BlockStore for Disk {
    fn piece(&self, key: BlockKey) -> Option<(u16, u16)> {
        self.blocks.get(&key).map(|block| block.piece)
    }
    fn get(&mut self, key: BlockKey) -> Option<StoredBlock> {
        self.blocks.get(&key).cloned()
    }
    fn put(&mut self, key: BlockKey, piece: (u16, u16), bytes: &[u8]) -> bool {
        let bytes = bytes.into();
        if self
            .blocks
            .insert(key, StoredBlock { piece, bytes })
            .is_none()
        {
            self.order.push_back(key);
        }
        if self.order.len() > self.most
            && let Some(first) = self.order.pop_front()
        {
            self.blocks.remove(&first);
        }
        true
    }
    fn forget(&mut self, key: BlockKey) {
        if self.blocks.remove(&key).is_some() {
            self.order.retain(|known| *known != key);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec: Spec = serde_json::from_reader(std::io::stdin())?;
    println!("{}", run(&spec)?);
    Ok(())
}

fn midnode(spec: &Spec, params: &Params) -> Result<Midnode, Box<dyn std::error::Error>> {
    Ok(match spec.disk_bytes {
        0 => Midnode::new(params.clone())?,
        bytes => {
            let disk = Disk {
                blocks: HashMap::new(),
                order: VecDeque::new(),
                most: (bytes / BLOCK_BYTES as u64) as usize,
            };
            Midnode::with_store(params.clone(), Box::new(disk))?
        }
    })
}

fn run(spec: &Spec) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let Protocol::Ours(base) = Protocol::named(&spec.protocol)? else {
        return Err("only LEOTP has caches".into());
    };
    let params = Params {
        cache_bytes: spec.cache_bytes,
        ..*base
    };
    let mut net = Net::new(spec.seed);
    let mut producer = Producer::new(params.clone())?;
    producer.publish(FLOW, Box::new(Pattern::new(FLOW, spec.object_bytes)));
    let producer = net.add(Box::new(producer));
    let link = LinkSpec::new(spec.mbps * MBIT, spec.delay_ms * MS).loss(spec.loss);
    let (mut last, mut chain, mut down) = (producer, vec![], vec![]);
    for _ in 0..spec.hops {
        let mid = net.add(Box::new(midnode(spec, &params)?));
        down.push(net.connect(last, mid, link.clone(), link.clone()).0);
        chain.push(mid);
        last = mid;
    }
    let mut behind = vec![0; spec.hops];
    let mut consumers = vec![];
    for i in 0..spec.consumers {
        let at = spec.hops - 1 - i % spec.spread;
        let consumer = net.add(Box::new(Plain::default()));
        net.connect(chain[at], consumer, link.clone(), link.clone());
        let up = Path {
            src: addr(consumer, 4000),
            dst: addr(producer, 5000),
        };
        net.nodes[consumer] = Box::new(Sink::new(&params, FLOW, up));
        consumers.push(consumer);
        behind[..=at].iter_mut().for_each(|count| *count += 1);
    }
    net.route();
    let start = |i: usize| S + (i as f64 * spec.every_s * 1e9) as u64;
    let mut took = vec![f64::NAN; consumers.len()];
    let end = start(consumers.len()) + 600 * S;
    let mut note = |net: &mut Net| {
        let done = |net: &mut Net, node: usize| net.get::<Sink>(node).consumer.is_done();
        for (i, consumer) in consumers.iter().enumerate() {
            if took[i].is_nan() && net.now >= start(i) && done(net, *consumer) {
                took[i] = (net.now - start(i)) as f64 / 1e9;
            }
        }
        took.iter().all(|s| !s.is_nan())
    };
    for (i, consumer) in consumers.iter().enumerate() {
        net.run(start(i), |net| note(net));
        net.wake(*consumer);
    }
    net.run(end, |net| note(net));
    if took.iter().any(|s| s.is_nan()) {
        return Err("a Consumer has not all after 600 s".into());
    }
    let mut cache: Vec<serde_json::Value> = vec![];
    for mid in &chain {
        cache.push(serde_json::to_value(
            net.get::<Midnode>(*mid).cache_stats(),
        )?);
    }
    let carried: Vec<u64> = down.iter().map(|l| net.links[*l].offered_bytes).collect();
    Ok(
        serde_json::json!({"carried_bytes": carried, "consumers_behind": behind, "took_s": took, "cache": cache}),
    )
}
