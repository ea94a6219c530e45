//! Foreign packets have a bounded cost: no panic, bounded state, bounded answers.

use crate::correctness::vnet::ends::{Pattern, interest};
use crate::correctness::vnet::*;
use leotp_core::{Consumer, Midnode, Params, Path, Producer};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    /// Any sequence of hostile but well-formed packets: no panic, bounded state,
    /// and no more bytes out of a Producer than the stated factor allows.
    #[test]
    fn hostile_packets(ops in proptest::collection::vec((0u8..6, 0u64..3, 0u64..200_000, 0u64..60_000, any::<u8>(), any::<u64>(), 0u16..3), 1..300)) {
        use leotp_core::wire::{DataHeader, Interest, META_BASE, Range, Timing};
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
            let timing = Timing { timestamp: ts, interest_owd: (flags & 1 != 0).then_some(ts as i64), tag: 0, queued_us: ts as u32 };
            let h = DataHeader { flow, range, timing: (flags & 16 == 0).then_some(timing), fin: flags & 2 != 0, rtx: flags & 4 != 0 };
            match kind {
                0..=2 => Interest { flow, range, timestamp: ts, rate_bps: (ts % 100_000_000_000).max(10_000), rtx: flags & 1 != 0, fresh: flags & 2 != 0, bare: flags & 4 != 0, sparse: flags & 8 != 0, tag: 0, padding: u16::from(flags) }.encode(&mut b),
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

/// An Interest for a segment.
fn segment(flow: u64, start: u64, rate_bps: u64) -> Vec<u8> {
    let end = start + 1400;
    interest(flow, leotp_core::wire::Range { start, end }, rate_bps)
}

#[test]
fn state_expires() {
    let p = Params::default();
    let mut mid = Midnode::new(p.clone()).unwrap();
    let mut out = vec![];
    for port in 0..1000 {
        let b = segment(1, 0, 1_000_000);
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
fn enormous_ranges_cost_nothing() {
    // Found by fuzzing: an Interest or VPH for 2^61 bytes must not be walked
    // block by block.
    use leotp_core::wire::{DataHeader, Interest, Range};
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
                    sparse: true,
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
                timing: None,
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
            let range = leotp_core::wire::Range {
                start: k * 1400,
                end: k * 1400 + 1400,
            };
            let mut b = segment(port.into(), k * 1400, 10_000);
            mid.handle_datagram(S, up, &b);
            b.clear();
            leotp_core::wire::DataHeader {
                flow: u64::from(port),
                range,
                timing: None,
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

/// An Interest with padding.
fn padded(start: u64, end: u64, padding: u16) -> Vec<u8> {
    let mut b = vec![];
    leotp_core::wire::Interest {
        flow: 1,
        range: leotp_core::wire::Range { start, end },
        timestamp: 0,
        rate_bps: 20_000_000,
        rtx: false,
        fresh: false,
        bare: false,
        sparse: false,
        tag: 1,
        padding,
    }
    .encode(&mut b);
    b
}

/// The Producer's answer to an Interest, in packets of this size.
fn answer(mid: &mut Midnode, now: u64, up: Path, (start, end): (u64, u64), size: u64) {
    let mut at = start;
    while at < end {
        let range = leotp_core::wire::Range {
            start: at,
            end: end.min(at + size),
        };
        at = range.end;
        let mut b = vec![];
        leotp_core::wire::DataHeader {
            flow: 1,
            range,
            timing: None,
            fin: false,
            rtx: false,
        }
        .encode_data(&vec![7; range.len() as usize], &mut b);
        mid.handle_datagram(now, up.reversed(), &b);
    }
}

/// Output within ten seconds: bytes and Data packets toward one place.
fn drained(mid: &mut Midnode, now: &mut u64, to: std::net::SocketAddr) -> (u64, u64) {
    let (mut bytes, mut packets) = (0, 0);
    let mut out = vec![];
    for _ in 0..10_000 {
        *now += MS;
        while let Some(path) = mid.poll_transmit(*now, &mut out) {
            if path.dst == to {
                (bytes, packets) = (bytes + out.len() as u64, packets + 1);
            }
            out.clear();
        }
    }
    (bytes, packets)
}

#[test]
fn an_interest_that_joins_another_is_answered_by_its_own_size() {
    // The ranges that each requests of the 44,800 bytes that another one has requested and paid for.
    let joins: [&[(u64, u64)]; 5] = [
        &[(100, 101)],
        &[(1399, 1401)],
        &[(0, 44_800)],
        &[(0, 1), (44_799, 44_800)],
        &[
            (0, 1),
            (2, 3),
            (4, 5),
            (6, 7),
            (8, 9),
            (10, 11),
            (20_000, 30_000),
        ],
    ];
    for (wanted, size) in joins.iter().flat_map(|w| [(w, 1400), (w, 70), (w, 10_000)]) {
        let p = Params::default();
        let mut mid = Midnode::new(p.clone()).unwrap();
        let of = |port| Path {
            src: addr(9, port),
            dst: addr(2, 2),
        };
        let (one, other) = (of(1), of(2));
        let mut now = S;
        let mut sent = 0;
        for up in [one, other] {
            let b = padded(0, 0, 0);
            sent += if up == other { b.len() as u64 } else { 0 };
            mid.handle_datagram(now, up, &b);
        }
        mid.handle_datagram(now, one, &padded(0, 44_800, 1_384));
        for (start, end) in *wanted {
            let b = padded(*start, *end, 0);
            sent += b.len() as u64;
            mid.handle_datagram(now, other, &b);
        }
        answer(&mut mid, now, one, (0, 44_800), size);
        let (bytes, packets) = drained(&mut mid, &mut now, other.src);
        let most = sent * u64::from(p.max_amplification);
        assert!(
            bytes <= most,
            "{wanted:?} in packets of {size}: {bytes} bytes in {packets} packets for {sent} sent"
        );
        // A Consumer with a small request gets it.
        if wanted.len() == 1 && wanted[0].1 - wanted[0].0 < 3 {
            assert!(packets >= 1, "{wanted:?} in packets of {size}");
        }
    }
}

#[test]
fn all_that_wait_at_one_address_share_its_buffer() {
    let p = Params {
        peer_buffer_bytes: 1 << 20,
        send_buffer_bytes: 1 << 19,
        ..Params::default()
    };
    let mut mid = Midnode::new(p.clone()).unwrap();
    let of = |port| Path {
        src: addr(9, port),
        dst: addr(2, 2),
    };
    let all: Vec<Path> = (2..=60).map(of).collect();
    let owner = Path {
        src: addr(8, 1),
        dst: addr(2, 2),
    };
    let mut out = vec![];
    for up in all.iter().chain([&owner]) {
        mid.handle_datagram(S, *up, &padded(0, 0, 0));
    }
    for chunk in 0..100 {
        let range = (chunk * 44_800, (chunk + 1) * 44_800);
        mid.handle_datagram(S, owner, &padded(range.0, range.1, 1_384));
        for up in &all {
            mid.handle_datagram(S, *up, &padded(range.0, range.1, 1_384));
        }
        while mid.poll_transmit(S, &mut out).is_some() {
            out.clear();
        }
        answer(&mut mid, S, owner, range, 1400);
    }
    let held: u64 = all
        .iter()
        .map(|up| mid.buffered_bytes(1, up.reversed()))
        .sum();
    assert!(held <= 2 * p.peer_buffer_bytes, "{held} bytes");
}

#[test]
fn a_prefix_of_ipv6_is_bounded_like_an_address() {
    let p = Params {
        max_flows: 1000,
        max_flows_per_peer: 10,
        max_flows_per_prefix: 40,
        ..Params::default()
    };
    let mut mid = Midnode::new(p.clone()).unwrap();
    let mut producer = Producer::new(p).unwrap();
    producer.publish(1, Box::new(Pattern::new(1, 1_000_000)));
    let server = ([0xfd01, 0, 0, 0, 0, 0, 0, 1], 2).into();
    let mut ask = |net: u16, host: u16| {
        let src = ([0xfd00, 0, 0, net, 0, 0, 0, host], 1).into();
        let b = segment(1, 0, 1_000_000);
        mid.handle_datagram(S, Path { src, dst: server }, &b);
        producer.handle_datagram(S, Path { src, dst: server }, &b);
        (mid.flows(), producer.legs(), producer.stats().refused)
    };
    // Every address has one flow only, yet the /64 gets no more than its share.
    let last = (0..500).map(|host| ask(1, host)).last();
    assert_eq!(last, Some((40, 40, 460)));
    assert_eq!(ask(2, 1), (41, 41, 460), "its neighbour's are untouched");
}
