//! Figs 2 and 10 to 12: throughput, traffic and the delay of repairs over loss.

use crate::figures::measure::{leotp, row};
use crate::figures::vnet::baseline::{Kind, over_chain};
use crate::figures::vnet::ends::{Chain, FLOW, Owd, Pattern};
use crate::figures::vnet::*;
use leotp_core::Params;

/// Figs 2, 11, 12: 20 Mbit/s hops of 20 ms hopRTT, loss per hop. In full (`make test-long`) with all losses and all senders; per commit
/// what is asserted.
#[test]
fn throughput_against_loss() {
    let long = std::env::var_os("CONSTEL_LONG").is_some();
    let losses: &[f64] = if long {
        &[0.0, 0.001, 0.005, 0.01]
    } else {
        &[0.0, 0.01]
    };
    let p = Params::default();
    for n in [5, 10] {
        let mut clean = 0.0;
        for &loss in losses {
            println!("-- {n} hops, {} % loss per hop", loss * 100.0);
            let hops = vec![LinkSpec::new(20 * MBIT, 10 * MS).loss(loss).queue(100_000); n];
            let (from, to) = (6 * S, 26 * S);
            let with = leotp(&hops, &p, |_| true, from, to);
            row("leotp, every node", with);
            if long {
                let beyond = Params::beyond();
                row(
                    "leotp beyond(), every node",
                    leotp(&hops, &beyond, |_| true, from, to),
                );
                row(
                    "leotp, every 4th node (25 %)",
                    leotp(&hops, &p, |i| i % 4 == 1, from, to),
                );
                row(
                    "leotp, endpoints only",
                    leotp(&hops, &p, |_| false, from, to),
                );
                row("reno-like", over_chain(Kind::Reno, 7, &hops, from, to));
            }
            if loss == 0.0 {
                clean = with.0;
            }
            if long || loss == 0.01 {
                let bbr = over_chain(Kind::Bbr, 7, &hops, from, to);
                row("bbr-like", bbr);
                let cubic = over_chain(Kind::Cubic, 7, &hops, from, to);
                row("cubic-like", cubic);
                if loss == 0.01 {
                    assert!(with.0 > bbr.0 && with.0 > 3.0 * cubic.0);
                }
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
                let path = leotp_core::Path {
                    src: addr(c.producer, 5000),
                    dst: addr(c.consumer, 4000),
                };
                let m = c.net.get::<leotp_core::Midnode>(r);
                println!("      {r} {} {:?}", m.describe(FLOW, path), m.stats());
            }
        }
    }
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
            *c.owd.borrow_mut() = Owd::default();
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
