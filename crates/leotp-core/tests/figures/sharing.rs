//! Fig. 15 and many flows through one Midnode.

use crate::figures::vnet::ends::{Pattern, Sink};
use crate::figures::vnet::*;
use leotp_core::{Midnode, Params, Path, Producer};

/// Fig. 15: flows that start one after the other over one 5 Mbit/s bottleneck,
/// with equal and with different round trips.
#[test]
fn fairness_and_convergence() {
    for (name, extra) in [
        ("equal RTT 60 ms", [0, 0, 0, 0]),
        ("RTT 60, 90, 120, 150 ms", [0, 15, 30, 45]),
    ] {
        for (flows, p) in [
            (2, Params::default()),
            (4, Params::default()),
            (2, Params::beyond()),
            (4, Params::beyond()),
        ] {
            let mut net = Net::new(3);
            let near = net.add(Box::new(Midnode::new(p.clone()).unwrap()));
            let far = net.add(Box::new(Midnode::new(p.clone()).unwrap()));
            let bottleneck = LinkSpec::new(5 * MBIT, 15 * MS).queue(100_000);
            net.connect(near, far, bottleneck.clone(), bottleneck);
            let mut sinks = vec![];
            for (f, extra) in extra.iter().enumerate().take(flows) {
                let mut prod = Producer::new(p.clone()).unwrap();
                prod.publish(f as u64, Box::new(Pattern::endless(f as u64)));
                let prod = net.add(Box::new(prod));
                let access = LinkSpec::new(50 * MBIT, (extra + 7) * MS + 500_000);
                net.connect(prod, near, access.clone(), access.clone());
                let sink = net.add(Box::new(Plain::default()));
                net.connect(
                    far,
                    sink,
                    LinkSpec::new(50 * MBIT, 7 * MS + 500_000),
                    access,
                );
                let up = Path {
                    src: addr(sink, 1),
                    dst: addr(prod, 2),
                };
                net.nodes[sink] = Box::new(Sink::new(&p, f as u64, up));
                sinks.push(sink);
            }
            net.route();
            for (i, s) in sinks.iter().enumerate() {
                net.run(S + i as u64 * 40 * S, |_| false);
                net.wake(*s);
            }
            let settle = S + flows as u64 * 40 * S;
            net.run(settle, |_| false);
            let before: Vec<u64> = sinks.iter().map(|s| net.get::<Sink>(*s).got).collect();
            net.run(settle + 80 * S, |_| false);
            let rates: Vec<f64> = sinks
                .iter()
                .zip(&before)
                .map(|(s, b)| (net.get::<Sink>(*s).got - b) as f64 * 8.0 / 80e6)
                .collect();
            let (sum, squares) = (
                rates.iter().sum::<f64>(),
                rates.iter().map(|r| r * r).sum::<f64>(),
            );
            let jain = sum * sum / (rates.len() as f64 * squares);
            let variant = if p.rate_over_min_rtt {
                "beyond()"
            } else {
                "faithful"
            };
            println!(
                "{name}, {flows} flows, {variant}: {rates:.2?} Mbit/s, sum {sum:.2}, Jain {jain:.3}"
            );
            // 4.80 Mbit/s of payload fit.
            assert!(jain > 0.85 && sum > 3.5);
        }
    }
}

/// A Midnode with a thousand flows: every one is served, and fairly.
#[test]
fn a_thousand_flows() {
    let p = Params {
        cache_bytes: 32 << 20,
        ..Params::default()
    };
    let mut net = Net::new(6);
    let mut prod = Producer::new(p.clone()).unwrap();
    for f in 0..1000 {
        prod.publish(f, Box::new(Pattern::new(f, 60_000)));
    }
    let prod = net.add(Box::new(prod));
    let mid = net.add(Box::new(Midnode::new(p.clone()).unwrap()));
    let l = LinkSpec::new(1000 * MBIT, 5 * MS)
        .queue(4 << 20)
        .loss(0.001);
    net.connect(prod, mid, l.clone(), l.clone());
    let mut sinks = vec![];
    for f in 0..1000 {
        let s = net.add(Box::new(Plain::default()));
        net.connect(mid, s, LinkSpec::new(10 * MBIT, 5 * MS), l.clone());
        let up = Path {
            src: addr(s, 1),
            dst: addr(prod, 2),
        };
        net.nodes[s] = Box::new(Sink::new(&p, f, up));
        sinks.push(s);
    }
    // Routes by hand: every sink hangs on the Midnode.
    net.route();
    for s in &sinks {
        net.wake(*s);
    }
    let wall = std::time::Instant::now();
    net.run(20 * S, |_| false);
    let done = sinks
        .iter()
        .filter(|s| net.get::<Sink>(**s).consumer.is_done())
        .count();
    let st = net.get::<Midnode>(mid).stats();
    println!(
        "1000 flows of 60 kB: {done} done, {} packets through the midnode, {:.2} s of wall time for the whole net",
        st.data_out,
        wall.elapsed().as_secs_f64()
    );
    assert_eq!(done, 1000);
}
