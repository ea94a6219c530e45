//! Each mechanism of the protocol, proven in virtual time.

use crate::vnet;

use leotp_core::{Midnode, Params, Path, Producer};
use std::rc::Rc;
use vnet::ends::{Chain, FLOW, Pattern, Sink, interest};
use vnet::*;

fn hops(n: usize, loss: f64) -> Vec<LinkSpec> {
    vec![LinkSpec::new(20 * MBIT, 5 * MS).loss(loss); n]
}

#[test]
fn a_clean_chain_delivers_and_fills_the_link() {
    for mids in [false, true] {
        let mut c = Chain::new(
            1,
            &hops(5, 0.0),
            &Params::default(),
            |_| mids,
            Pattern::new(FLOW, 10_000_000),
        );
        assert!(c.finish(60 * S), "{:?}", c.sink().consumer);
        let s = c.sink();
        assert_eq!(s.got, 10_000_000);
        let st = s.consumer.stats();
        assert_eq!(st.duplicate_bytes, 0, "mids {mids}");
        let t = (c.net.now - S) as f64 / 1e9;
        println!(
            "mids {mids}: 10 MB in {t:.2} s = {:.2} Mbit/s {st:?}",
            80.0 / t
        );
        assert!(t < 6.0);
    }
}

#[test]
fn one_loss_is_repaired_on_its_own_hop() {
    // The 200th packet from the producer dies on hop 2 (of 0..5).
    let mut h = hops(5, 0.0);
    h[2].drop_nth = vec![200];
    let mut c = Chain::new(
        1,
        &h,
        &Params::default(),
        |_| true,
        Pattern::new(FLOW, 1_000_000),
    );
    assert!(c.finish(60 * S));
    let st = c.sink().consumer.stats();
    assert_eq!((st.timeouts, st.repairs, st.duplicate_bytes), (0, 0, 0));
    assert_eq!(st.vphs, 1);
    let routers = c.routers.clone();
    let repairs: Vec<(u64, u64, u64)> = routers
        .iter()
        .map(|&r| {
            let s = c.net.get::<Midnode>(r).stats();
            (s.vph_made, s.repairs, s.cache_hits)
        })
        .collect();
    // Router 2 ends hop 2: it alone announces and asks; router 1 answers.
    assert_eq!(repairs, [(0, 0, 0), (0, 0, 1), (1, 1, 0), (0, 0, 0)]);
    assert_eq!(c.net.get::<Producer>(0).stats().rtx_bytes, 0);
}

#[test]
fn a_lost_interest_is_replaced_where_it_was_lost() {
    for (p, want) in [
        // In the paper's protocol the Data lack a part of the Interest's range, and the first
        // Midnode repairs that.
        (Params::default(), [(0, 1), (0, 0), (0, 0), (0, 0)]),
        // Router 1, above hop 2, sees the jump and asks in its place: no hole at all.
        (Params::beyond(), [(0, 0), (1, 0), (0, 0), (0, 0)]),
    ] {
        let ahead = p.interest_holes;
        let mut c = Chain::new(
            1,
            &hops(5, 0.0),
            &p,
            |_| true,
            Pattern::new(FLOW, 1_000_000),
        );
        let up = c.down[2] ^ 1;
        c.net.links[up].spec.drop_nth = vec![200];
        assert!(c.finish(60 * S));
        let st = c.sink().consumer.stats();
        assert_eq!((st.timeouts, st.repairs, st.duplicate_bytes), (0, 0, 0));
        assert_eq!(st.vphs, u64::from(!ahead));
        let got: Vec<(u64, u64)> = c
            .routers
            .clone()
            .iter()
            .map(|&r| {
                let s = c.net.get::<Midnode>(r).stats();
                (s.asked_ahead, s.repairs)
            })
            .collect();
        assert_eq!(got, want);
    }
}

#[test]
fn leaps_in_interests_do_not_amplify() {
    let mut m = Midnode::new(Params::beyond()).unwrap();
    let up = Path {
        src: addr(1, 1),
        dst: addr(2, 2),
    };
    let (mut paid, mut bytes) = (0, 0);
    for i in 0..1000u64 {
        let (start, end) = (i * 40_000, i * 40_000 + 100);
        let b = interest(7, leotp_core::wire::Range { start, end }, 1_000_000);
        paid += 100;
        m.handle_datagram(S + i * MS, up, &b);
        let mut out = Vec::new();
        while m.poll_transmit(S + i * MS, &mut out).is_some() {
            if let Ok(leotp_core::wire::Packet::Interest(i)) = leotp_core::wire::Packet::parse(&out)
            {
                bytes += i.range.len();
            }
            out.clear();
        }
    }
    assert!(bytes <= paid + paid / 4 + 8192, "{bytes} for {paid}");
}

/// producer - 0 - mid - {a, b}: both Consumers fetch the same flow; how many
/// payload bytes cross the shared link?
fn two_consumers(cache_bytes: u64, second_after: Nanos) -> (u64, u64) {
    let p = Params {
        cache_bytes,
        ..Params::default()
    };
    let mut net = Net::new(9);
    let mut prod = Producer::new(p.clone()).unwrap();
    let len = 2_000_000;
    prod.publish(FLOW, Box::new(Pattern::new(FLOW, len)));
    let prod = net.add(Box::new(prod));
    let mid = net.add(Box::new(Midnode::new(p.clone()).unwrap()));
    let spec = LinkSpec::new(20 * MBIT, 10 * MS).loss(0.002);
    net.connect(prod, mid, spec.clone(), spec.clone());
    let mut ends = vec![];
    for i in 0..2 {
        let c = net.add(Box::new(Plain::default()));
        net.connect(mid, c, spec.clone(), spec.clone());
        let up = Path {
            src: addr(c, 40 + i),
            dst: addr(prod, 50),
        };
        net.nodes[c] = Box::new(Sink::new(&p, FLOW, up));
        ends.push(c);
    }
    net.route();
    net.wake(ends[0]);
    net.run(S + second_after, |_| false);
    net.wake(ends[1]);
    net.run(100 * S, |n| {
        ends.iter().all(|e| n.get::<Sink>(*e).consumer.is_done())
    });
    for e in &ends {
        assert!(net.get::<Sink>(*e).consumer.is_done());
        assert_eq!(net.get::<Sink>(*e).got, len);
    }
    (
        net.get::<Producer>(prod).stats().data_bytes,
        net.get::<Midnode>(mid).stats().aggregated,
    )
}

#[test]
fn multicast_by_shared_flow_and_cache() {
    // At once: Interests join in the Midnode. Later: the cache answers.
    let (at_once, joined) = two_consumers(64 << 20, 0);
    let (later, _) = two_consumers(64 << 20, 700 * MS);
    let (no_cache_later, _) = two_consumers(0, 3 * S);
    println!(
        "2 MB to two consumers: producer sent {at_once} at once ({joined} joined), {later} 0.7 s later, {no_cache_later} without cache 3 s later"
    );
    assert!(at_once < 2_400_000 && joined > 500);
    assert!(later < 2_400_000);
    assert!(no_cache_later > 3_900_000);
}

#[test]
fn timeouts_back_off_by_one_and_a_half() {
    // A dead path: the gaps between the first byte's Interests grow by 1.5.
    let dead = LinkSpec::new(10 * MBIT, MS).loss(1.0);
    let mut c = Chain::new(
        1,
        &[dead],
        &Params::default(),
        |_| false,
        Pattern::new(FLOW, 1000),
    );
    let times = Rc::new(std::cell::RefCell::new(vec![]));
    let (t2, consumer) = (times.clone(), c.consumer);
    c.net.tap = Some(Box::new(move |t, node, sent, _, b| {
        if let (true, true, Ok(leotp_core::wire::Packet::Interest(i))) =
            (sent, node == consumer, leotp_core::wire::Packet::parse(b))
            && i.range.start == 0
        {
            t2.borrow_mut().push(t);
        }
    }));
    c.net.run(40 * S, |_| false);
    let gaps: Vec<f64> = times
        .borrow()
        .windows(2)
        .map(|w| (w[1] - w[0]) as f64 / 1e9)
        .collect();
    println!("gaps {gaps:.2?} s");
    assert!(gaps.len() >= 6);
    for (i, g) in gaps.iter().enumerate() {
        let want = 1.5f64.powi(i as i32);
        assert!(
            (g - want).abs() <= 0.021 * want.max(1.0) + 0.02,
            "gap {i}: {g}"
        );
    }
}

#[test]
fn vph_resets_the_timestamp_of_its_interest() {
    use leotp_core::Consumer;
    use leotp_core::wire::{DataHeader, Packet, Range};
    let up = Path {
        src: addr(1, 1),
        dst: addr(2, 2),
    };
    let mut c = Consumer::new(Params::default(), FLOW, up, 0, None).unwrap();
    let asked = |c: &mut Consumer, now: Nanos| {
        let mut starts = vec![];
        let mut b = vec![];
        while c.poll_transmit(now, &mut b).is_some() {
            if let Ok(Packet::Interest(i)) = Packet::parse(&b) {
                starts.push(i.range.start);
            }
            b.clear();
        }
        starts
    };
    let t0 = S;
    assert!(asked(&mut c, t0).starts_with(&[leotp_core::wire::META_BASE, 0, 1400]));
    // At 0.9 s of the 1 s timeout a VPH says that byte 0 is being repaired.
    let range = Range {
        start: 0,
        end: 1400,
    };
    let mut b = vec![];
    DataHeader {
        flow: FLOW,
        range,
        timing: None,
        fin: false,
        rtx: false,
    }
    .encode_vph(&mut b);
    c.handle_datagram(t0 + 900 * MS, up.reversed(), &b);
    let after = asked(&mut c, t0 + 1050 * MS);
    assert!(!after.contains(&0) && after.contains(&1400), "{after:?}");
    assert!(!asked(&mut c, t0 + 1890 * MS).contains(&0));
    assert!(asked(&mut c, t0 + 1930 * MS).contains(&0));
}

#[test]
fn backpressure_holds_the_buffer_at_its_target() {
    // The last hop is four times slower than the first.
    let hops = [
        LinkSpec::new(40 * MBIT, 5 * MS),
        LinkSpec::new(40 * MBIT, 5 * MS),
        LinkSpec::new(10 * MBIT, 5 * MS),
    ];
    for segments in [8u64, 32] {
        let p = Params {
            target_buffer_bytes: segments * 1400,
            ..Params::default()
        };
        let mut c = Chain::new(2, &hops, &p, |_| true, Pattern::endless(FLOW));
        c.net.run(6 * S, |_| false);
        let last = c.routers[1];
        let path = Path {
            src: addr(c.producer, 5000),
            dst: addr(c.consumer, 4000),
        };
        let mut seen = vec![];
        for _ in 0..400 {
            c.net.run(c.net.now + 10 * MS, |_| false);
            seen.push(c.net.get::<Midnode>(last).buffered_bytes(FLOW, path));
        }
        let mean = seen.iter().sum::<u64>() as f64 / seen.len() as f64 / 1400.0;
        let max = seen.iter().max().unwrap() / 1400;
        println!("target {segments} segments: mean {mean:.1}, largest {max}");
        assert!(mean > 0.4 * segments as f64 && mean < 1.6 * segments as f64);
        assert!(max < 4 * segments + 20);
    }
}

/// Hosts that are late for a part of the time or always, as those are where others run: every
/// packet waits, in no queue. A node that drains one there requests less and less.
#[test]
fn a_late_host_is_no_queue() {
    // Rate of each link in Mbit/s, delay and lateness of each link and way in us, period and
    // duration of the lateness in ms, and the least part of the rate.
    for (mbit, delay_us, late_us, period_ms, late_ms, least) in [
        (200, 1500, 1500, 100, 60, 0.85),
        (200, 300, 1000, 1000, 600, 0.85),
        (1000, 1500, 1000, 1000, 1000, 0.85),
        (1000, 5000, 1500, 100, 60, 0.85),
        (200, 1500, 3000, 20, 3, 0.85),
        (200, 5000, 5000, 50, 5, 0.85),
    ] {
        let mut hop = LinkSpec::new(mbit * MBIT, delay_us * 1000).queue(1 << 20);
        hop.late = Some((period_ms * MS, late_ms * MS, late_us * 1000));
        let hops = [hop.clone(), hop];
        let p = Params::beyond();
        let mut c = Chain::new(4, &hops, &p, |_| true, Pattern::endless(FLOW));
        let mbps = c.goodput_mbps(3 * S, 5 * S);
        let fit = mbit as f64 * 0.96;
        println!(
            "{late_us} us late for {late_ms} of {period_ms} ms, links of {delay_us} us: {mbps:.1} of {fit:.0} Mbit/s"
        );
        assert!(mbps > least * fit);
    }
}

/// A Midnode requested 40 packets and got 10 of them; then the path led elsewhere.
/// The packets that it requests itself when the flow is back `after` that, 1,000 packets on.
fn repairs_when_back(after: Nanos) -> u64 {
    let p = Params::default();
    let mut m = Midnode::new(p.clone()).unwrap();
    let up = Path {
        src: addr(1, 1),
        dst: addr(2, 2),
    };
    let segment = u64::from(p.segment_bytes);
    let range = |n: u64| leotp_core::wire::Range {
        start: n * segment,
        end: (n + 1) * segment,
    };
    let mut now = S;
    let interests = |m: &mut Midnode, now: Nanos, from: u64| {
        for n in from..from + 40 {
            m.handle_datagram(now, up, &interest(FLOW, range(n), 20_000_000));
        }
    };
    let data = |m: &mut Midnode, now: Nanos, from: u64| {
        for n in from..from + 10 {
            let mut b = vec![];
            leotp_core::wire::DataHeader {
                flow: FLOW,
                range: range(n),
                timing: None,
                fin: false,
                rtx: false,
            }
            .encode_data(&vec![7; segment as usize], &mut b);
            m.handle_datagram(now, up.reversed(), &b);
        }
    };
    interests(&mut m, now, 0);
    data(&mut m, now + MS, 0);
    now += after;
    interests(&mut m, now, 1040);
    data(&mut m, now + MS, 1040);
    m.stats().repairs
}

#[test]
fn a_midnode_that_is_back_leaves_old_holes_to_others() {
    // Soon after, the packets that it has requested may be lost, and no other node has seen the hole.
    assert_eq!(repairs_when_back(50 * MS), 30);
    // Later the Consumer has sent its request again, on the earlier path.
    assert_eq!(repairs_when_back(S), 0);
}

/// Two Midnodes whose routes for both ends lead to each other: how many datagrams pass
/// between them in 100 s, at most `limit`.
fn datagrams_in_a_loop(p: &Params, ttl: Option<u8>, first: &[u8], limit: u64) -> u64 {
    let mut nodes = [(); 2].map(|()| Midnode::new(p.clone()).unwrap());
    let up = Path {
        src: addr(9, 1),
        dst: addr(2, 2),
    };
    // An Interest has passed, so both know the flow.
    let mut ask = ends::interest(
        7,
        leotp_core::wire::Range {
            start: 0,
            end: 4200,
        },
        MBIT,
    );
    let (mut now, mut passed) = (S, 0);
    let mut air = std::collections::VecDeque::from([(0, up, ttl, std::mem::take(&mut ask))]);
    air.push_back((0, up.reversed(), ttl, first.to_vec()));
    while now < 101 * S && passed < limit {
        while let Some((to, path, hop_limit, bytes)) = air.pop_front() {
            nodes[to].handle_forwarded(now, path, hop_limit, &bytes);
        }
        for from in [0, 1] {
            let mut out = vec![];
            while let Some((path, hop_limit)) = nodes[from].poll_forward(now, &mut out) {
                passed += 1;
                // Packets that begin here have the system's TTL.
                let hop_limit = ttl.map(|system| hop_limit.unwrap_or(system));
                air.push_back((1 - from, path, hop_limit, std::mem::take(&mut out)));
            }
        }
        now += 5 * MS;
    }
    passed
}

#[test]
fn packets_in_a_routing_loop_die() {
    let data = |range: leotp_core::wire::Range| {
        let h = leotp_core::wire::DataHeader {
            flow: 7,
            range,
            timing: None,
            fin: false,
            rtx: false,
        };
        let mut b = vec![];
        h.encode_data(&vec![1; range.len() as usize], &mut b);
        b
    };
    let second = data(leotp_core::wire::Range {
        start: 1400,
        end: 2800,
    });
    let other = vec![0xff; 60];
    for p in [
        Params::default(),
        Params::beyond(),
        Params {
            hop_by_hop: false,
            ..Params::default()
        },
    ] {
        for first in [&second, &other] {
            let passed = datagrams_in_a_loop(&p, Some(64), first, 1_000_000);
            assert!((63..400).contains(&passed), "{passed}");
        }
        // Without a hop limit it has no end.
        assert_eq!(datagrams_in_a_loop(&p, None, &other, 10_000), 10_000);
    }
}
