//! Every byte is delivered once and in order, or the Consumer says why not.
#![allow(clippy::allow_attributes_without_reason)]

mod vnet;

use leotp::core::{Consumer, FlowError, Midnode, Params, Path, Producer};
use proptest::prelude::*;
use vnet::ends::{Chain, FLOW, Pattern, Sink};
use vnet::*;

/// What may go wrong with a node in the middle of a flow.
#[derive(Debug, Clone, Copy)]
enum Blow {
    /// The Midnode dies; its router goes on.
    Remove,
    /// The Midnode restarts with empty memory.
    Restart,
    /// A router that was none becomes a Midnode.
    Appear,
}

fn blow() -> impl Strategy<Value = (u64, usize, Blow)> {
    (
        100u64..4000,
        0usize..6,
        prop_oneof![Just(Blow::Remove), Just(Blow::Restart), Just(Blow::Appear)],
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_byte_once_in_order(
        seed: u64,
        n in 1usize..7,
        len in 0u64..600_000,
        start in prop_oneof![Just(0u64), 1u64..5000],
        loss in prop_oneof![Just(0.0), 0.0..0.15f64],
        dup in 0.0..0.2f64,
        reorder in 0.0..0.3f64,
        queue in 3_000u64..100_000,
        cache in prop_oneof![Just(0u64), 4_096u64..100_000, Just(64 << 20)],
        segments in 1u32..4,
        mids: u8,
        variant in 0u8..3,
        hop_by_hop in prop::bool::weighted(0.8),
        blows in proptest::collection::vec(blow(), 0..4),
    ) {
        let p = Params {
            cache_bytes: cache,
            interest_segments: segments,
            hop_by_hop,
            send_buffer_bytes: 60_000,
            ..[Params::default(), Params::published(), Params::beyond()][usize::from(variant)].clone()
        };
        let mut spec = LinkSpec::new(10 * MBIT, 3 * MS).loss(loss).queue(queue);
        (spec.dup, spec.reorder, spec.reorder_by) = (dup, reorder, 20 * MS);
        let len = len.max(start);
        let mut c = Chain::new(seed, &vec![spec; n], &p, |i| mids >> i & 1 == 1, Pattern::new(FLOW, len));
        let up = Path { src: addr(c.consumer, 4000), dst: addr(c.producer, 5000) };
        if start > 0 {
            // Resume: the bytes before `start` are hashed but not fetched.
            let mut h = blake3::Hasher::new();
            h.update(&(0..start).map(|i| vnet::ends::byte(FLOW, i)).collect::<Vec<_>>());
            let mut s = Sink::at(&p, FLOW, up, start);
            s.consumer = Consumer::new(p.clone(), FLOW, up, start, Some(h)).unwrap();
            let id = c.consumer;
            c.net.nodes[id] = Box::new(s);
        }
        let mut blows = blows;
        blows.sort_by_key(|b| b.0);
        for (at, router, what) in blows {
            if c.routers.is_empty() {
                break;
            }
            c.finish(S + at * MS);
            let id = c.routers[router % c.routers.len()];
            let is_mid = c.net.nodes[id].as_any().is::<Midnode>();
            match what {
                Blow::Remove if is_mid => c.net.nodes[id] = Box::new(Plain::default()),
                Blow::Restart if is_mid => c.net.nodes[id] = Box::new(Midnode::new(p.clone()).unwrap()),
                Blow::Appear if !is_mid => c.net.nodes[id] = Box::new(Midnode::new(p.clone()).unwrap()),
                _ => {}
            }
        }
        let done = c.finish(3000 * S);
        let s = c.sink();
        prop_assert!(done, "{:?} error {:?}", s.consumer, s.consumer.error());
        prop_assert_eq!(s.got, len);
        prop_assert!(s.consumer.error().is_none());
        prop_assert_eq!(s.consumer.stats().new_bytes, len - start);
    }
}

#[test]
fn ranges_cross_four_gib() {
    // The paper's 32-bit ranges end here; ours do not.
    let start = (1u64 << 32) - 1_000_000;
    let hops = vec![LinkSpec::new(50 * MBIT, 2 * MS).loss(0.01); 3];
    let mut c = Chain::new(
        3,
        &hops,
        &Params::default(),
        |_| true,
        Pattern::endless(FLOW),
    );
    let up = Path {
        src: addr(c.consumer, 4000),
        dst: addr(c.producer, 5000),
    };
    let id = c.consumer;
    c.net.nodes[id] = Box::new(Sink::at(&Params::default(), FLOW, up, start));
    c.net.run(3 * S, |_| false);
    assert!(c.sink().got > (1 << 32) + 1_000_000, "{}", c.sink().got);
}

#[test]
fn forged_bytes_end_in_an_error() {
    let mut bad = Pattern::new(FLOW, 50_000);
    bad.meta[20] ^= 1;
    let mut c = Chain::new(
        1,
        &[LinkSpec::new(10 * MBIT, MS)],
        &Params::default(),
        |_| false,
        bad,
    );
    assert!(!c.finish(20 * S));
    assert_eq!(c.sink().consumer.error(), Some(&FlowError::Digest));
}

#[test]
fn nobody_there_ends_in_an_error() {
    let p = Params {
        max_retries: 6,
        ..Params::default()
    };
    let mut c = Chain::new(
        1,
        &[LinkSpec::new(10 * MBIT, MS)],
        &p,
        |_| false,
        Pattern::new(FLOW + 1, 50_000),
    );
    let up = Path {
        src: addr(c.consumer, 4000),
        dst: addr(c.producer, 5000),
    };
    let id = c.consumer;
    c.net.nodes[id] = Box::new(Sink::new(&p, FLOW, up));
    c.net.wake(id);
    assert!(!c.finish(200 * S));
    assert_eq!(
        c.sink().consumer.error(),
        Some(&FlowError::Unanswered(0, 7))
    );
    // 1 + 1.5 + ... + 1.5^6 = 32.2 s after the first Interest.
    let t = (c.net.now - S) as f64 / 1e9;
    assert!((32.0..33.0).contains(&t), "{t}");
}

#[test]
fn a_start_beyond_the_end_is_an_error() {
    let mut c = Chain::new(
        1,
        &[LinkSpec::new(10 * MBIT, MS)],
        &Params::default(),
        |_| false,
        Pattern::new(FLOW, 500),
    );
    let up = Path {
        src: addr(c.consumer, 4000),
        dst: addr(c.producer, 5000),
    };
    let id = c.consumer;
    c.net.nodes[id] = Box::new(Sink::at(&Params::default(), FLOW, up, 501));
    c.finish(20 * S);
    assert_eq!(
        c.sink().consumer.error(),
        Some(&FlowError::StartBeyondEnd(501, 500))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    /// Any sequence of hostile but well-formed packets: no panic, bounded state,
    /// and no more bytes out of a Producer than the stated factor allows.
    #[test]
    fn hostile_packets(ops in proptest::collection::vec((0u8..6, 0u64..3, 0u64..200_000, 0u64..60_000, any::<u8>(), any::<u64>(), 0u16..3), 1..300)) {
        use leotp::wire::{DataHeader, Interest, META_BASE, Range};
        let p = Params { max_flows: 16, max_flows_per_peer: 4, cache_bytes: 40_960, send_buffer_bytes: 20_000, max_retries: 3, ..Params::beyond() };
        let mut producer = Producer::new(p.clone()).unwrap();
        producer.publish(0, Box::new(Pattern::new(0, 100_000)));
        let mut mid = Midnode::new(p.clone()).unwrap();
        let up = Path { src: addr(1, 1), dst: addr(2, 2) };
        let mut consumer = Consumer::new(p.clone(), 0, up, 0, None).unwrap();
        let (mut now, mut out) = (S, vec![]);
        let (mut bytes_in, mut bytes_out) = (0u64, 0u64);
        for (kind, flow, start, n, flags, ts, port) in ops {
            now += ts % (400 * MS);
            let meta = flags & 0x80 != 0;
            let start = if meta { META_BASE + start % 128 } else { start };
            let range = Range { start, end: start + n };
            let mut b = vec![];
            let h = DataHeader { flow, range, timestamp: ts, interest_owd: (flags & 1 != 0).then_some(ts as i64), tag: 0, queued_us: ts as u32, fin: flags & 2 != 0, rtx: flags & 4 != 0 };
            match kind {
                0..=2 => Interest { flow, range, timestamp: ts, rate_bps: (ts % 100_000_000_000).max(10_000), rtx: flags & 1 != 0, fresh: flags & 2 != 0, bare: flags & 4 != 0, tag: 0, padding: u16::from(flags) }.encode(&mut b),
                3 | 4 => h.encode_data(&vec![flags; n as usize], &mut b),
                _ => h.encode_vph(&mut b),
            }
            let peer = addr(1, 1 + port);
            let there = Path { src: peer, dst: addr(2, 2) };
            if kind < 3 {
                bytes_in += b.len() as u64;
            }
            producer.handle_datagram(now, there, &b);
            let path = if kind < 3 { there } else { there.reversed() };
            mid.handle_datagram(now, path, &b);
            consumer.handle_datagram(now, path, &b);
            for _ in 0..50 {
                out.clear();
                if producer.poll_transmit(now, &mut out).is_none() {
                    break;
                }
                bytes_out += out.len() as u64;
            }
            for _ in 0..50 {
                out.clear();
                let Some(path) = mid.poll_transmit(now, &mut out) else { break };
                let b = out.clone();
                consumer.handle_datagram(now, path, &b);
            }
            for _ in 0..50 {
                out.clear();
                if consumer.poll_transmit(now, &mut out).is_none() {
                    break;
                }
            }
            prop_assert!(mid.flows() <= 16 && producer.legs() <= 16);
        }
        prop_assert!(bytes_out <= bytes_in * 32, "{bytes_out} out for {bytes_in} in");
    }
}

#[test]
fn state_expires() {
    let p = Params::default();
    let mut mid = Midnode::new(p.clone()).unwrap();
    let mut out = vec![];
    for port in 0..1000 {
        let mut b = vec![];
        let range = leotp::wire::Range {
            start: 0,
            end: 1400,
        };
        leotp::wire::Interest {
            flow: 1,
            range,
            timestamp: 0,
            rate_bps: 1_000_000,
            rtx: false,
            fresh: false,
            bare: false,
            tag: 0,
            padding: 0,
        }
        .encode(&mut b);
        mid.handle_datagram(
            S,
            Path {
                src: addr(9, 1000 + port),
                dst: addr(2, 2),
            },
            &b,
        );
        while mid.poll_transmit(S, &mut out).is_some() {}
    }
    assert_eq!(mid.flows(), 1000);
    mid.handle_datagram(
        S + p.flow_expiry_ns + 10 * S,
        Path {
            src: addr(9, 1),
            dst: addr(2, 2),
        },
        &[0; 60],
    );
    assert_eq!(mid.flows(), 0);
}

#[test]
fn twenty_four_virtual_hours() {
    let hops = vec![LinkSpec::new(100_000, 20 * MS).loss(0.01).queue(20_000); 3];
    let mut c = Chain::new(
        5,
        &hops,
        &Params::default(),
        |i| i == 1,
        Pattern::endless(FLOW),
    );
    let g = c.goodput_mbps(60 * S, 24 * 3600 * S);
    println!(
        "24 h at 100 kbit/s and 1 % loss per hop: {:.1} kbit/s, {:?}",
        g * 1000.0,
        c.sink().consumer.stats()
    );
    assert!(g > 0.07);
}

/// 10 GiB, hashed at both ends, through a Midnode and 1 in 1,000 losses.
#[test]
#[ignore = "minutes"]
fn ten_gib() {
    let len = 10 << 30;
    let hops = vec![LinkSpec::new(10_000 * MBIT, MS).loss(0.001).queue(8 << 20); 2];
    let p = Params {
        segment_bytes: 8900,
        ..Params::beyond()
    };
    let mut c = Chain::new(5, &hops, &p, |_| true, Pattern::new(FLOW, len));
    assert!(c.finish(3600 * S), "{:?}", c.sink().consumer.error());
    assert_eq!(c.sink().got, len);
    println!(
        "10 GiB in {:.1} virtual seconds, {:?}",
        (c.net.now - S) as f64 / 1e9,
        c.sink().consumer.stats()
    );
}

#[test]
fn enormous_ranges_cost_nothing() {
    // Found by fuzzing: an Interest or VPH for 2^61 bytes must not be walked
    // block by block.
    use leotp::wire::{DataHeader, Interest, Range};
    let wall = std::time::Instant::now();
    for p in [
        Params::default(),
        Params::beyond(),
        Params {
            hop_by_hop: false,
            ..Params::beyond()
        },
    ] {
        let mut mid = Midnode::new(p.clone()).unwrap();
        let mut producer = Producer::new(p.clone()).unwrap();
        producer.publish(1, Box::new(Pattern::new(1, 1_000_000)));
        let up = Path {
            src: addr(9, 1),
            dst: addr(2, 2),
        };
        let mut now = S;
        for k in 0..50u64 {
            let range = Range {
                start: k * 1000,
                end: (1 << 61) + k,
            };
            for (fresh, rtx) in [(false, false), (true, true), (false, true)] {
                let mut b = vec![];
                Interest {
                    flow: 1,
                    range,
                    timestamp: 0,
                    rate_bps: 10_000_000,
                    rtx,
                    fresh,
                    bare: false,
                    tag: 1,
                    padding: 3,
                }
                .encode(&mut b);
                mid.handle_datagram(now, up, &b);
                producer.handle_datagram(now, up, &b);
            }
            let h = DataHeader {
                flow: 1,
                range,
                timestamp: 0,
                interest_owd: Some(1),
                tag: 0,
                queued_us: 0,
                fin: false,
                rtx: false,
            };
            let mut b = vec![];
            h.encode_vph(&mut b);
            mid.handle_datagram(now, up.reversed(), &b);
            b.clear();
            DataHeader {
                range: Range {
                    start: 1 << 60,
                    end: (1 << 60) + 9,
                },
                ..h
            }
            .encode_data(&[0; 9], &mut b);
            mid.handle_datagram(now, up.reversed(), &b);
            now += 300 * MS;
            b.clear();
            for _ in 0..1000 {
                if mid.poll_transmit(now, &mut b).is_none()
                    && producer.poll_transmit(now, &mut b).is_none()
                {
                    break;
                }
                b.clear();
            }
        }
    }
    assert!(wall.elapsed().as_secs() < 20);
}

#[test]
fn one_peer_cannot_fill_a_midnode() {
    // A hundred flows of one address ask for much and take nothing.
    let p = Params {
        peer_buffer_bytes: 1 << 20,
        send_buffer_bytes: 1 << 19,
        ..Params::default()
    };
    let mut mid = Midnode::new(p.clone()).unwrap();
    let mut out = vec![];
    let mut held = 0;
    for port in 1..=100u16 {
        let up = Path {
            src: addr(9, port),
            dst: addr(2, 2),
        };
        for k in 0..400 {
            let range = leotp::wire::Range {
                start: k * 1400,
                end: k * 1400 + 1400,
            };
            let mut b = vec![];
            leotp::wire::Interest {
                flow: u64::from(port),
                range,
                timestamp: 0,
                rate_bps: 10_000,
                rtx: false,
                fresh: false,
                bare: false,
                tag: 0,
                padding: 0,
            }
            .encode(&mut b);
            mid.handle_datagram(S, up, &b);
            b.clear();
            leotp::wire::DataHeader {
                flow: u64::from(port),
                range,
                timestamp: 0,
                interest_owd: Some(1),
                tag: 0,
                queued_us: 0,
                fin: false,
                rtx: false,
            }
            .encode_data(&[0; 1400], &mut b);
            mid.handle_datagram(S, up.reversed(), &b);
        }
        while mid.poll_transmit(S, &mut out).is_some() {
            out.clear();
        }
        held += mid.buffered_bytes(u64::from(port), up.reversed());
    }
    // The first flows were alone and held a whole buffer each; shares shrink.
    println!("{held} bytes held, {} packets dropped", mid.stats().dropped);
    assert!(held < 8 << 20 && mid.stats().dropped > 30_000);
}
