//! Each mechanism of the protocol, proven in virtual time.

mod vnet;

use leotp::core::{Midnode, Params, Producer};
use vnet::ends::{Chain, FLOW, Pattern, Sink};
use vnet::*;

fn hops(n: usize, loss: f64) -> Vec<LinkSpec> {
    vec![LinkSpec::new(20 * MBIT, 5 * MS).loss(loss); n]
}

#[test]
fn a_clean_chain_delivers_and_fills_the_link() {
    for mids in [false, true] {
        let mut c = Chain::new(1, &hops(5, 0.0), &Params::default(), |_| mids, Pattern::new(FLOW, 10_000_000));
        assert!(c.finish(60 * S), "{:?}", c.sink().consumer);
        let s = c.sink();
        assert_eq!(s.got, 10_000_000);
        let st = s.consumer.stats();
        assert_eq!(st.duplicate_bytes, 0, "mids {mids}");
        let t = (c.net.now - S) as f64 / 1e9;
        println!("mids {mids}: 10 MB in {t:.2} s = {:.2} Mbit/s {st:?}", 80.0 / t);
        assert!(t < 6.0);
    }
}

#[test]
fn one_loss_is_repaired_on_its_own_hop() {
    // The 200th packet from the producer dies on hop 2 (of 0..5).
    let mut h = hops(5, 0.0);
    h[2].drop_nth = vec![200];
    let mut c = Chain::new(1, &h, &Params::default(), |_| true, Pattern::new(FLOW, 1_000_000));
    assert!(c.finish(60 * S));
    let st = c.sink().consumer.stats();
    assert_eq!((st.timeouts, st.repairs, st.duplicate_bytes), (0, 0, 0));
    assert_eq!(st.vphs, 1);
    let routers = c.routers.clone();
    let repairs: Vec<(u64, u64, u64)> = routers.iter().map(|&r| {
        let s = c.net.get::<Midnode>(r).stats();
        (s.vph_made, s.repairs, s.cache_hits)
    }).collect();
    // Router 2 ends hop 2: it alone announces and asks; router 1 answers.
    assert_eq!(repairs, [(0, 0, 0), (0, 0, 1), (1, 1, 0), (0, 0, 0)]);
    assert_eq!(c.net.get::<Producer>(0).stats().rtx_bytes, 0);
}
