//! Fig. 13: paths that take turns.

use crate::figures::vnet::ends::{FLOW, Pattern, Sink};
use crate::figures::vnet::*;
use leotp_core::{Midnode, Params, Path, Producer};

/// Fig. 13: two parallel paths of 80 and 90 ms round trip, 20 Mbit/s, that take
/// turns. Packets on the abandoned path are lost.
#[test]
fn link_switching() {
    println!("-- path switches between 80 and 90 ms round trip, 4 hops, 20 Mbit/s");
    for interval in [10, 4, 2, 1] {
        let mut row = String::new();
        // At 1 s a fiftieth of the time is what a cut path holds up at least (20 to 30 ms).
        for (name, p, least_mbps) in [
            ("midnodes", Params::default(), Some(16.0)),
            ("beyond()", Params::beyond(), Some(18.6)),
            ("endpoints", Params::default(), None),
        ] {
            let mids = least_mbps.is_some();
            let mut net = Net::new(5);
            let mut prod = Producer::new(p.clone()).unwrap();
            prod.publish(FLOW, Box::new(Pattern::endless(FLOW)));
            let prod = net.add(Box::new(prod));
            let router = |net: &mut Net| -> usize {
                if mids {
                    net.add(Box::new(Midnode::new(p.clone()).unwrap()))
                } else {
                    net.add(Box::new(Plain::default()))
                }
            };
            let (near, far) = (router(&mut net), router(&mut net));
            let sink = net.add(Box::new(Plain::default()));
            let l = |us: Nanos| LinkSpec::new(20 * MBIT, us * 1000 / 2).queue(100_000);
            net.connect(prod, near, l(10_000), l(10_000));
            // Three hops each way; link ids of a path are consecutive pairs.
            let mut paths = [(0, 0); 2];
            for (i, us) in [(0, 20_000), (1, 23_333)] {
                let (x, y) = (router(&mut net), router(&mut net));
                let (first, _) = net.connect(near, x, l(us), l(us));
                net.connect(x, y, l(us), l(us));
                let (_, last) = net.connect(y, far, l(us), l(us));
                paths[i] = (first, last);
            }
            net.connect(far, sink, l(10_000), l(10_000));
            let up = Path {
                src: addr(sink, 1),
                dst: addr(prod, 2),
            };
            net.nodes[sink] = Box::new(Sink::new(&p, FLOW, up));
            net.route();
            net.wake(sink);
            let mut at = S;
            let mut start = (0, 0);
            for turn in 0..30 / interval {
                if turn * interval >= 10 && start.0 == 0 {
                    start = (at, net.get::<Sink>(sink).consumer.stats().new_bytes);
                }
                let on = (turn % 2) as usize;
                net.set_route(near, sink, paths[on].0);
                net.set_route(far, prod, paths[on].1);
                // Packets that are still on the abandoned path do not arrive.
                for (i, (first, last)) in paths.iter().enumerate() {
                    for link in *first..=*last {
                        net.links[link].spec.loss = if i == on { 0.0 } else { 1.0 };
                    }
                }
                at += interval * S;
                net.run(at, |_| false);
            }
            let bytes = net.get::<Sink>(sink).consumer.stats().new_bytes - start.1;
            let g = bytes as f64 * 8e3 / (at - start.0) as f64;
            row += &format!("  {name} {g:.2}");
            if let Some(least) = least_mbps {
                assert!(g > least, "{name} every {interval} s: {g}");
            }
        }
        println!("every {interval:>2} s:{row} Mbit/s");
    }
}
