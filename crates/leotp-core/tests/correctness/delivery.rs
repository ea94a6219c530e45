//! Over networks that lose, repeat and reorder, through Midnodes that come and go; and
//! what cannot be delivered ends in an error.

use crate::correctness::vnet::ends::{Chain, FLOW, Pattern, Sink, byte};
use crate::correctness::vnet::*;
use leotp_core::{Consumer, FlowError, Midnode, Params, Path};
use proptest::prelude::*;

/// Failures of a node in the middle of a flow.
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

/// The end of the short field of a range's start.
const FOUR_GIB: u64 = 1 << 32;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_byte_once_in_order(
        seed: u64,
        n in 1usize..7,
        len in 0u64..600_000,
        start in prop_oneof![Just(0u64), 1u64..5000, FOUR_GIB - 300_000..FOUR_GIB],
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
            ..[Params::default(), Params::authors_constants(), Params::beyond()][usize::from(variant)].clone()
        };
        let mut spec = LinkSpec::new(10 * MBIT, 3 * MS).loss(loss).queue(queue);
        (spec.dup, spec.reorder, spec.reorder_by) = (dup, reorder, 20 * MS);
        // Ranges grow from 4 bytes to 8 on the way.
        let wraps = start > FOUR_GIB / 2;
        let len = if wraps { start + len } else { len.max(start) };
        let flow = if wraps { Pattern::undigested(FLOW, len) } else { Pattern::new(FLOW, len) };
        let mut c = Chain::new(seed, &vec![spec; n], &p, |i| mids >> i & 1 == 1, flow);
        let up = Path { src: addr(c.consumer, 4000), dst: addr(c.producer, 5000) };
        if wraps {
            let id = c.consumer;
            c.net.nodes[id] = Box::new(Sink::at(&p, FLOW, up, start));
        } else if start > 0 {
            // Resume: the bytes before `start` are hashed but not fetched.
            let mut h = blake3::Hasher::new();
            h.update(&(0..start).map(|i| byte(FLOW, i)).collect::<Vec<_>>());
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
        // Without caches few round trips over six such hops succeed, and waits between tries grow to a minute.
        let done = c.finish(30_000 * S);
        let s = c.sink();
        prop_assert!(done, "{:?} error {:?}", s.consumer, s.consumer.error());
        prop_assert_eq!(s.got, len);
        prop_assert!(s.consumer.error().is_none());
        prop_assert_eq!(s.consumer.stats().new_bytes, len - start);
    }
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
