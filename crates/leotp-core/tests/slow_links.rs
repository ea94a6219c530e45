//! Links on which a packet takes longer than other links' timeouts: 10 kbit/s, 1.2 s for a
//! segment.

use crate::vnet;

use leotp_core::{Params, Producer};
use vnet::ends::{Chain, FLOW, Pattern};
use vnet::*;

/// Bytes of the flow.
const LEN: u64 = 70_000;

fn variants() -> [(&'static str, Params); 3] {
    Params::VARIANTS.map(|v| (v, Params::variant(v).unwrap()))
}

/// One transfer over these links; how long it took, s.
fn transfer(p: &Params, links: &[LinkSpec], mids: bool) -> (f64, Chain) {
    let mut c = Chain::new(3, links, p, |_| mids, Pattern::new(FLOW, LEN));
    assert!(c.finish(600 * S), "{:?}", c.sink().consumer);
    ((c.net.now - S) as f64 / 1e9, c)
}

/// Each packet after the other on the last link, one on each of the others, and the way, s.
fn ideal(hops: usize) -> f64 {
    let packets = LEN.div_ceil(1400) as f64;
    let segment = (1400 + 26 + IP_UDP) as f64 * 8.0 / 10_000.0;
    packets * segment + (hops - 1) as f64 * segment + hops as f64 * 0.02
}

#[test]
fn nothing_is_asked_or_sent_twice_and_the_link_is_full() {
    for (name, p) in variants() {
        for (hops, mids) in [(1, false), (2, false), (2, true), (4, true)] {
            let link = LinkSpec::new(10_000, 20 * MS).queue(64_000);
            let (took, mut c) = transfer(&p, &vec![link; hops], mids);
            let consumer = c.sink().consumer.stats();
            let producer = c.net.get::<Producer>(c.producer).stats();
            println!(
                "{name}, {hops} hops, Midnodes {mids}: {took:.1} s of {:.1}",
                ideal(hops)
            );
            assert_eq!((consumer.timeouts, consumer.repairs), (0, 0));
            assert_eq!((consumer.duplicate_bytes, producer.rtx_bytes), (0, 0));
            assert!(took < ideal(hops) + 1.2, "{took}");
        }
    }
}

#[test]
fn a_short_queue_or_losses_cost_what_they_must() {
    for (name, p) in variants() {
        // Ten packets at a time, and one packet in fifty lost.
        for (queue, loss) in [(15_000, 0.0), (64_000, 0.02)] {
            let link = LinkSpec::new(10_000, 20 * MS).queue(queue).loss(loss);
            let (took, mut c) = transfer(&p, &vec![link; 2], true);
            let s = c.sink().consumer.stats();
            println!(
                "{name}, queue {queue}, loss {loss}: {took:.1} s of {:.1}, {s:?}",
                ideal(2)
            );
            assert!(took < 1.5 * ideal(2), "{took}");
            assert!(s.duplicate_bytes <= 4 * 1400, "{s:?}");
        }
    }
}

#[test]
fn a_live_flow_goes_on_for_minutes() {
    for (name, p) in variants() {
        let link = LinkSpec::new(10_000, 20 * MS).queue(64_000);
        let mut c = Chain::new(3, &vec![link; 2], &p, |_| true, Pattern::endless(FLOW));
        let kbps = c.goodput_mbps(60 * S, 660 * S) * 1000.0;
        let s = c.sink().consumer.stats();
        println!("{name}: {kbps:.2} kbit/s of 9.63, {s:?}");
        // The authors' constants let cwnd grow ten times in a hopRTT: they fill any queue.
        let (least, most) = match name {
            "authors-constants" => (9.2, 28),
            _ => (9.5, 3),
        };
        assert!(kbps > least, "{kbps}");
        assert!(s.duplicate_bytes <= most * 1400, "{s:?}");
    }
}
