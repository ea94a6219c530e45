//! Flows that share a bottleneck, one after the other, in virtual time (Fig. 15): reads a description (JSON) from standard
//! input, prints the bytes each flow received in each second (JSON). `experiments/leotp` drives it.
//!
//! A dumbbell: a producer per flow, `near`, the bottleneck, `far`, a consumer per flow. With LEOTP `near` and `far` are
//! Midnodes.

#[path = "../tests/vnet/mod.rs"]
mod vnet;

use leotp_core::{Midnode, Path, Producer};
use serde::Deserialize;
use std::cell::RefCell;
use std::rc::Rc;
use vnet::baseline::{Receiver, Sender};
use vnet::ends::{Pattern, Protocol, Sink};
use vnet::{Behaviour, LinkSpec, MBIT, MS, Nanos, Net, Plain, S, addr};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    seed: u64,
    /// "default", "authors-constants", "beyond", or an end-to-end "bbr", "cubic", "reno".
    protocol: String,
    bottleneck_mbps: u64,
    /// There and back, milliseconds.
    bottleneck_rtt_ms: u64,
    /// Round-trip time of each flow from end to end; more than the bottleneck's.
    rtt_ms: Vec<u64>,
    /// From the start of one flow to that of the next.
    every_s: u64,
    seconds: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec: Spec = serde_json::from_reader(std::io::stdin())?;
    println!("{}", serde_json::json!({"mbps": run(&spec)?}));
    Ok(())
}

/// Mbit/s of each flow in each second.
fn run(spec: &Spec) -> Result<Vec<Vec<f64>>, Box<dyn std::error::Error>> {
    let protocol = Protocol::named(&spec.protocol)?;
    let mut net = Net::new(spec.seed);
    let router = || -> Result<Box<dyn Behaviour>, Box<dyn std::error::Error>> {
        Ok(match &protocol {
            Protocol::Ours(p) => Box::new(Midnode::new((**p).clone())?),
            Protocol::Baseline(_) => Box::new(Plain::default()),
        })
    };
    let (near, far) = (net.add(router()?), net.add(router()?));
    let half = spec.bottleneck_rtt_ms * MS / 2;
    let link = LinkSpec::new(spec.bottleneck_mbps * MBIT, half).queue(100_000);
    net.connect(near, far, link.clone(), link);
    let mut flows = vec![];
    for (flow, rtt_ms) in (0u64..).zip(&spec.rtt_ms) {
        let rest = rtt_ms.checked_sub(spec.bottleneck_rtt_ms);
        let rest = rest.ok_or("a flow's round trip holds the bottleneck's")? * MS;
        let (producer, consumer) = (
            net.add(Box::new(Plain::default())),
            net.add(Box::new(Plain::default())),
        );
        for (a, b) in [(producer, near), (far, consumer)] {
            let link = LinkSpec::new(10 * spec.bottleneck_mbps * MBIT, rest / 4);
            net.connect(a, b, link.clone(), link);
        }
        let up = Path {
            src: addr(consumer, 4000),
            dst: addr(producer, 5000),
        };
        match &protocol {
            Protocol::Ours(p) => {
                let mut source = Producer::new((**p).clone())?;
                source.publish(flow, Box::new(Pattern::endless(flow)));
                net.nodes[producer] = Box::new(source);
                net.nodes[consumer] = Box::new(Sink::new(p, flow, up));
            }
            Protocol::Baseline(kind) => {
                net.nodes[producer] = Box::new(Sender::new(*kind, up.reversed()));
                net.nodes[consumer] = Box::new(Receiver::default());
            }
        }
        flows.push((producer, consumer));
    }
    net.offsets.fill(0);
    net.route();
    let seconds = spec.seconds as usize;
    let received = Rc::new(RefCell::new(vec![vec![0.0; seconds]; flows.len()]));
    let (tap, consumers) = (received.clone(), flows.clone());
    let ours = matches!(protocol, Protocol::Ours(_));
    net.tap = Some(Box::new(move |t: Nanos, node, sent, _, bytes| {
        let flow = consumers.iter().position(|&(_, consumer)| consumer == node);
        let second = (t.saturating_sub(S) / S) as usize;
        let len = Protocol::data_of(ours, bytes).map_or(0, |(_, len)| len);
        if let (Some(flow), false) = (flow, sent)
            && let Some(of_second) = tap.borrow_mut()[flow].get_mut(second)
        {
            *of_second += len as f64 * 8e-6;
        }
    }));
    for (i, &(producer, consumer)) in (0u64..).zip(&flows) {
        net.run(S + i * spec.every_s * S, |_| false);
        net.wake(producer);
        net.wake(consumer);
    }
    net.run(S + spec.seconds * S, |_| false);
    drop(net);
    Ok(received.take())
}
