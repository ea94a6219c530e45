//! Long flows: beyond 32 bits of range, a day, 10 GiB; and the least and the highest rate.

use crate::correctness::vnet::ends::{Chain, FLOW, Pattern, Sink};
use crate::correctness::vnet::*;
use leotp_core::{Params, Path};

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

/// Both ends of what the rate field can say.
#[test]
fn ten_kilobit_and_a_hundred_gigabit() {
    for p in [Params::default(), Params::beyond()] {
        let slow = vec![LinkSpec::new(10_000, 20 * MS); 2];
        let mut c = Chain::new(7, &slow, &p, |_| true, Pattern::endless(FLOW));
        let kbps = c.goodput_mbps(300 * S, 1500 * S) * 1000.0;
        let p = Params {
            segment_bytes: 8900,
            ..p
        };
        let fast = vec![LinkSpec::new(100_000 * MBIT, MS / 10).queue(64 << 20); 2];
        let mut c = Chain::new(7, &fast, &p, |_| true, Pattern::endless(FLOW));
        let gbps = c.goodput_mbps(S + 20 * MS, S + 30 * MS) / 1000.0;
        println!("{kbps:.2} of 9.7 kbit/s, {gbps:.1} of 99 Gbit/s");
        assert!(kbps > 9.0 && gbps > 90.0);
    }
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
