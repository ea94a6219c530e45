//! A flow over a chain of hops, and what comes of it.

use crate::figures::vnet::ends::{Chain, FLOW, Pattern};
use crate::figures::vnet::*;
use leotp_core::{Midnode, Params};

/// Goodput (Mbit/s), mean and 99 % OWD (ms), producer bytes per delivered byte.
pub(crate) fn leotp(
    hops: &[LinkSpec],
    p: &Params,
    mid: impl Fn(usize) -> bool,
    from: Nanos,
    to: Nanos,
) -> (f64, f64, f64, f64) {
    let mut c = Chain::new(7, hops, p, mid, Pattern::endless(FLOW));
    measure(&mut c, from, to)
}

pub(crate) fn measure(c: &mut Chain, from: Nanos, to: Nanos) -> (f64, f64, f64, f64) {
    c.net.run(from, |_| false);
    *c.owd.borrow_mut() = crate::figures::vnet::ends::Owd::default();
    let g = c.goodput_mbps(from, to);
    let o = c.owd.borrow();
    (
        g,
        o.mean_ms(),
        o.percentile_ms(0.99),
        o.producer_bytes as f64 * 8e3 / (to - from) as f64 / g,
    )
}

pub(crate) fn row(name: &str, r: (f64, f64, f64, f64)) {
    println!(
        "{name:<28} {:>7.2} Mbit/s  OWD mean {:>6.1} p99 {:>6.1} ms  sent/delivered {:.4}",
        r.0, r.1, r.2, r.3
    );
}

/// As [`leotp`], with other parameters at the Midnodes than at the ends.
pub(crate) fn leotp_mids(
    hops: &[LinkSpec],
    ends: &Params,
    mids: &Params,
    from: Nanos,
    to: Nanos,
) -> (f64, f64, f64, f64) {
    let mut c = Chain::new(7, hops, ends, |_| false, Pattern::endless(FLOW));
    for r in c.routers.clone() {
        c.net.nodes[r] = Box::new(Midnode::new(mids.clone()).unwrap());
    }
    measure(&mut c, from, to)
}
