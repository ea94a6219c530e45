//! The paper's order of effects, in virtual time. Run with `--nocapture` for the
//! figures; the assertions hold the order, not the paper's exact values.

mod vnet;

use leotp::core::Params;
use vnet::baseline::{Kind, over_chain};
use vnet::ends::{Chain, FLOW, Pattern};
use vnet::*;

/// Goodput (Mbit/s), mean and 99 % OWD (ms), producer bytes per delivered byte.
fn leotp(
    hops: &[LinkSpec],
    p: &Params,
    mid: impl Fn(usize) -> bool,
    from: Nanos,
    to: Nanos,
) -> (f64, f64, f64, f64) {
    let mut c = Chain::new(7, hops, p, mid, Pattern::endless(FLOW));
    measure(&mut c, from, to)
}

fn measure(c: &mut Chain, from: Nanos, to: Nanos) -> (f64, f64, f64, f64) {
    c.net.run(from, |_| false);
    *c.owd.borrow_mut() = vnet::ends::Owd::default();
    let g = c.goodput_mbps(from, to);
    let o = c.owd.borrow();
    (
        g,
        o.mean_ms(),
        o.percentile_ms(0.99),
        o.producer_bytes as f64 * 8e3 / (to - from) as f64 / g,
    )
}

fn row(name: &str, r: (f64, f64, f64, f64)) {
    println!(
        "{name:<28} {:>7.2} Mbit/s  OWD mean {:>6.1} p99 {:>6.1} ms  sent/delivered {:.4}",
        r.0, r.1, r.2, r.3
    );
}

/// Figs 2, 11, 12: 20 Mbit/s hops of 20 ms hopRTT, loss per hop.
#[test]
fn throughput_against_loss() {
    let p = Params::default();
    for n in [5, 10] {
        let mut clean = 0.0;
        for loss in [0.0, 0.001, 0.005, 0.01] {
            println!("-- {n} hops, {} % loss per hop", loss * 100.0);
            let hops = vec![LinkSpec::new(20 * MBIT, 10 * MS).loss(loss).queue(100_000); n];
            let (from, to) = (6 * S, 26 * S);
            let with = leotp(&hops, &p, |_| true, from, to);
            row("leotp, every node", with);
            row(
                "leotp beyond(), every node",
                leotp(&hops, &Params::beyond(), |_| true, from, to),
            );
            row(
                "leotp, every 4th node (25 %)",
                leotp(&hops, &p, |i| i % 4 == 1, from, to),
            );
            row(
                "leotp, endpoints only",
                leotp(&hops, &p, |_| false, from, to),
            );
            let bbr = over_chain(Kind::Bbr, 7, &hops, from, to);
            row("bbr-like", bbr);
            let cubic = over_chain(Kind::Cubic, 7, &hops, from, to);
            row("cubic-like", cubic);
            row("reno-like", over_chain(Kind::Reno, 7, &hops, from, to));
            if loss == 0.0 {
                clean = with.0;
            }
            if loss == 0.01 {
                println!(
                    "   throughput lost to loss: {:.2} %",
                    100.0 * (1.0 - with.0 / clean)
                );
                assert!(
                    with.0 > 0.97 * clean,
                    "in-network repair keeps the throughput"
                );
                assert!(with.0 > bbr.0 && with.0 > 3.0 * cubic.0);
                // Section II.B: only the first hop's losses cost the sender.
                assert!(with.3 < 1.0 + 2.5 * loss, "sender's traffic {}", with.3);
            }
        }
    }
}

#[test]
#[ignore = "a look inside, not a check"]
fn look() {
    let var = |n: &str| std::env::var(n).ok();
    let n = var("N").map_or(10, |v| v.parse().unwrap());
    let loss = var("LOSS").map_or(0.01, |v| v.parse().unwrap());
    let hops = vec![LinkSpec::new(20 * MBIT, 10 * MS).loss(loss).queue(100_000); n];
    let p = if var("BEYOND").is_some() {
        Params::beyond()
    } else {
        Params::default()
    };
    let mids = var("NOMID").is_none();
    let mut c = Chain::new(7, &hops, &p, |_| mids, Pattern::endless(FLOW));
    for i in 0..130 {
        let g = c.goodput_mbps(c.net.now, c.net.now + 200 * MS);
        let drops: u64 = c.net.links.iter().map(|l| l.dropped_full).sum();
        let st = c.sink().consumer.stats();
        let cc = c.sink().consumer.cc().clone();
        println!(
            "{:.1} {g:.2} drops {drops} to {} rep {} dup {} | {:?} cwnd {:.0} rtt {:.1} min {:.1} thr {:.2} srtt {:.0}",
            i as f64 * 0.2,
            st.timeouts,
            st.repairs,
            st.duplicate_bytes,
            cc.phase(),
            cc.cwnd_bytes() / 1400.0,
            cc.hop_rtt_ns().unwrap_or(0.0) / 1e6,
            cc.hop_rtt_min_ns().unwrap_or(0.0) / 1e6,
            cc.throughput_bps() / 1e6,
            c.sink().consumer.srtt_ns().unwrap_or(0.0) / 1e6
        );
        if i % 10 == 9 && mids {
            for r in c.routers.clone() {
                let path = leotp::core::Path {
                    src: addr(c.producer, 5000),
                    dst: addr(c.consumer, 4000),
                };
                let m = c.net.get::<leotp::core::Midnode>(r);
                println!("      {r} {} {:?}", m.describe(FLOW, path), m.stats());
            }
        }
    }
}

/// Fig. 14's wave on the second hop: 10 Mbit/s on average, +-1, period 2 s.
fn wave(now: Nanos) -> u64 {
    if now % (2 * S) < S {
        11 * MBIT
    } else {
        9 * MBIT
    }
}

/// Fig. 14: 10 hops of 20 ms hopRTT, the second one the bottleneck.
#[test]
fn square_wave_and_buffer_target() {
    let mut hops = vec![LinkSpec::new(20 * MBIT, 10 * MS).queue(400_000); 10];
    hops[1].rate_fn = Some(std::rc::Rc::new(wave));
    let (from, to) = (10 * S, 50 * S);
    println!(
        "-- square wave 9/11 Mbit/s on hop 2 of 10 (propagation 100 ms; at most 9.66 Mbit/s of payload)"
    );
    let mut last = (0.0, 0.0);
    for segments in [2, 4, 8, 16, 32] {
        let p = Params {
            target_buffer_bytes: segments * 1400,
            ..Params::default()
        };
        let r = leotp(&hops, &p, |_| true, from, to);
        row(&format!("leotp, BL_tar {segments} segments"), r);
        last = (r.0, r.1);
    }
    let with = leotp(&hops, &Params::default(), |_| true, from, to);
    row(
        "leotp beyond()",
        leotp(&hops, &Params::beyond(), |_| true, from, to),
    );
    let ends = leotp(&hops, &Params::default(), |_| false, from, to);
    row("leotp, endpoints only", ends);
    let bbr = over_chain(Kind::Bbr, 7, &hops, from, to);
    row("bbr-like", bbr);
    let cubic = over_chain(Kind::Cubic, 7, &hops, from, to);
    row("cubic-like", cubic);
    // The order of Fig. 14: LEOTP's delay far below the buffer fillers', at
    // least as much throughput as without Midnodes.
    assert!(
        with.1 < cubic.1 && with.0 > ends.0,
        "{with:?} {ends:?} {cubic:?}"
    );
    assert!(last.1 > 100.0);
}

/// Table II on a chain like its longest path: 19 hops, GSLs at both ends with 1 %
/// loss and a slow, varying uplink, ISLs with 0.1 % between.
#[test]
fn ablation() {
    fn uplink(now: Nanos) -> u64 {
        // A "V" of 15 s between 10 and 6 Mbit/s, as before and after a handover.
        let t = (now % (15 * S)) as f64 / (15.0 * S as f64);
        (6e6 + 4e6 * (2.0 * t - 1.0).abs()) as u64
    }
    let mut hops = vec![
        LinkSpec::new(20 * MBIT, 2_500_000)
            .loss(0.001)
            .queue(200_000);
        19
    ];
    for end in [0, 18] {
        hops[end].loss = 0.01;
    }
    hops[0].rate_fn = Some(std::rc::Rc::new(uplink));
    let (from, to) = (15 * S, 60 * S);
    println!(
        "-- ablation, 19 hops, 47.5 ms propagation, uplink 6 to 10 Mbit/s (payload at most 7.73 Mbit/s)"
    );
    row(
        "A as printed (rate = cwnd / hopRTT)",
        leotp(&hops, &Params::default(), |_| true, from, to),
    );
    // With the equation as printed a hop of 5 ms and 4 segments runs idle after
    // each decrease; the paper's order and size of effects appear when cwnd is
    // paced over hopRTTmin.
    let p = Params {
        rate_over_min_rtt: true,
        queue_threshold_segments: 2.0,
        ..Params::default()
    };
    let a = leotp(&hops, &p, |_| true, from, to);
    row("A complete", a);
    let no_cache = Params {
        cache_bytes: 0,
        shr: false,
        ..p.clone()
    };
    let b = leotp_mids(&hops, &p, &no_cache, from, to);
    row("B no cache", b);
    let no_cc = Params {
        hop_by_hop: false,
        ..p.clone()
    };
    let c = leotp_mids(&hops, &p, &no_cc, from, to);
    row("C congestion control end to end", c);
    let d = leotp(&hops, &p, |_| false, from, to);
    row("D no midnodes", d);
    row(
        "25 % of midnodes",
        leotp(&hops, &p, |i| i % 4 == 0, from, to),
    );
    row(
        "beyond()",
        leotp(&hops, &Params::beyond(), |_| true, from, to),
    );
    let bbr = over_chain(Kind::Bbr, 7, &hops, from, to);
    row("bbr-like", bbr);
    row("cubic-like", over_chain(Kind::Cubic, 7, &hops, from, to));
    println!(
        "   against bbr-like: {:+.1} % throughput, {:+.1} % delay",
        100.0 * (a.0 / bbr.0 - 1.0),
        100.0 * (a.1 / bbr.1 - 1.0)
    );
    assert!(a.0 > c.0, "hop-by-hop control raises throughput");
    assert!(
        a.1 < b.1 && a.0 >= 0.99 * b.0,
        "in-network repair lowers delay"
    );
    assert!(a.0 > 1.06 * bbr.0 && a.1 < 0.65 * bbr.1, "against bbr-like");
}

/// As [`leotp`], with other parameters at the Midnodes than at the ends.
fn leotp_mids(
    hops: &[LinkSpec],
    ends: &Params,
    mids: &Params,
    from: Nanos,
    to: Nanos,
) -> (f64, f64, f64, f64) {
    let mut c = Chain::new(7, hops, ends, |_| false, Pattern::endless(FLOW));
    for r in c.routers.clone() {
        c.net.nodes[r] = Box::new(leotp::core::Midnode::new(mids.clone()).unwrap());
    }
    measure(&mut c, from, to)
}

/// Fig. 10: how long a lost packet is late, 5 hops of 20 ms hopRTT.
#[test]
fn recovery_delay() {
    println!("-- delay of packets that were lost, 5 hops, 50 ms propagation");
    for loss in [0.001, 0.005, 0.01] {
        let hops = vec![LinkSpec::new(20 * MBIT, 10 * MS).loss(loss).queue(200_000); 5];
        let late = |mids: bool, p: &Params| {
            // Below the rate of the links, so that lateness is loss, not queue.
            let p = Params {
                max_rate_bps: 10 * MBIT,
                ..p.clone()
            };
            let mut c = Chain::new(11, &hops, &p, |_| mids, Pattern::endless(FLOW));
            c.net.run(5 * S, |_| false);
            *c.owd.borrow_mut() = vnet::ends::Owd::default();
            c.net.lost_starts.clear();
            c.net.run(45 * S, |_| false);
            let o = c.owd.borrow();
            (o.of_ms(&c.net.lost_starts), o.percentile_ms(0.0))
        };
        let ((n1, with), base) = late(true, &Params::default());
        let ((n2, without), base2) = late(false, &Params::default());
        let ((n3, ours), _) = late(true, &Params::beyond());
        let cut = 1.0 - (with - base) / (without - base2);
        println!(
            "loss {:.1} %: midnodes {with:.1} ms ({n1}), endpoints {without:.1} ms ({n2}), beyond() {ours:.1} ms ({n3}); extra delay cut by {:.0} %",
            loss * 100.0,
            cut * 100.0
        );
        assert!(cut > 0.4, "recovery delay cut by {cut:.2}");
    }
}

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
            let near = net.add(Box::new(leotp::core::Midnode::new(p.clone()).unwrap()));
            let far = net.add(Box::new(leotp::core::Midnode::new(p.clone()).unwrap()));
            let bottleneck = LinkSpec::new(5 * MBIT, 15 * MS).queue(100_000);
            net.connect(near, far, bottleneck.clone(), bottleneck);
            let mut sinks = vec![];
            for (f, extra) in extra.iter().enumerate().take(flows) {
                let mut prod = leotp::core::Producer::new(p.clone()).unwrap();
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
                let up = leotp::core::Path {
                    src: addr(sink, 1),
                    dst: addr(prod, 2),
                };
                net.nodes[sink] = Box::new(vnet::ends::Sink::new(&p, f as u64, up));
                sinks.push(sink);
            }
            net.route();
            for (i, s) in sinks.iter().enumerate() {
                net.run(S + i as u64 * 40 * S, |_| false);
                net.wake(*s);
            }
            let settle = S + flows as u64 * 40 * S;
            net.run(settle, |_| false);
            let before: Vec<u64> = sinks
                .iter()
                .map(|s| net.get::<vnet::ends::Sink>(*s).got)
                .collect();
            net.run(settle + 80 * S, |_| false);
            let rates: Vec<f64> = sinks
                .iter()
                .zip(&before)
                .map(|(s, b)| (net.get::<vnet::ends::Sink>(*s).got - b) as f64 * 8.0 / 80e6)
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
            // 4.74 Mbit/s of payload fit.
            assert!(jain > 0.85 && sum > 3.5);
        }
    }
}

/// Fig. 13: two parallel paths of 80 and 90 ms round trip, 20 Mbit/s, that take
/// turns. Packets on the abandoned path are lost.
#[test]
fn link_switching() {
    println!("-- path switches between 80 and 90 ms round trip, 4 hops, 20 Mbit/s");
    for (interval, least) in [(10, 0.75), (4, 0.7), (2, 0.6), (1, 0.4)] {
        let mut row = String::new();
        for (name, p, mids) in [
            ("midnodes", Params::default(), true),
            ("beyond()", Params::beyond(), true),
            ("endpoints", Params::default(), false),
        ] {
            let mut net = Net::new(5);
            let mut prod = leotp::core::Producer::new(p.clone()).unwrap();
            prod.publish(FLOW, Box::new(Pattern::endless(FLOW)));
            let prod = net.add(Box::new(prod));
            let router = |net: &mut Net| -> usize {
                if mids {
                    net.add(Box::new(leotp::core::Midnode::new(p.clone()).unwrap()))
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
            let up = leotp::core::Path {
                src: addr(sink, 1),
                dst: addr(prod, 2),
            };
            net.nodes[sink] = Box::new(vnet::ends::Sink::new(&p, FLOW, up));
            net.route();
            net.wake(sink);
            let mut at = S;
            let mut start = (0, 0);
            for turn in 0..30 / interval {
                if turn * interval >= 10 && start.0 == 0 {
                    start = (
                        at,
                        net.get::<vnet::ends::Sink>(sink).consumer.stats().new_bytes,
                    );
                }
                let on = (turn % 2) as usize;
                net.set_route(near, sink, paths[on].0);
                net.set_route(far, prod, paths[on].1);
                // What is still on the abandoned path does not arrive.
                for (i, (first, last)) in paths.iter().enumerate() {
                    for link in *first..=*last {
                        net.links[link].spec.loss = if i == on { 0.0 } else { 1.0 };
                    }
                }
                at += interval * S;
                net.run(at, |_| false);
            }
            let bytes = net.get::<vnet::ends::Sink>(sink).consumer.stats().new_bytes - start.1;
            let g = bytes as f64 * 8e3 / (at - start.0) as f64;
            row += &format!("  {name} {g:.2}");
            if mids {
                assert!(g > 18.0 * least, "{name} every {interval} s: {g}");
            }
        }
        println!("every {interval:>2} s:{row} Mbit/s");
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
    let mut prod = leotp::core::Producer::new(p.clone()).unwrap();
    for f in 0..1000 {
        prod.publish(f, Box::new(Pattern::new(f, 60_000)));
    }
    let prod = net.add(Box::new(prod));
    let mid = net.add(Box::new(leotp::core::Midnode::new(p.clone()).unwrap()));
    let l = LinkSpec::new(1000 * MBIT, 5 * MS)
        .queue(4 << 20)
        .loss(0.001);
    net.connect(prod, mid, l.clone(), l.clone());
    let mut sinks = vec![];
    for f in 0..1000 {
        let s = net.add(Box::new(Plain::default()));
        net.connect(mid, s, LinkSpec::new(10 * MBIT, 5 * MS), l.clone());
        let up = leotp::core::Path {
            src: addr(s, 1),
            dst: addr(prod, 2),
        };
        net.nodes[s] = Box::new(vnet::ends::Sink::new(&p, f, up));
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
        .filter(|s| net.get::<vnet::ends::Sink>(**s).consumer.is_done())
        .count();
    let st = net.get::<leotp::core::Midnode>(mid).stats();
    println!(
        "1000 flows of 60 kB: {done} done, {} packets through the midnode, {:.2} s of wall time for the whole net",
        st.data_out,
        wall.elapsed().as_secs_f64()
    );
    assert_eq!(done, 1000);
}
