//! Cost of the edge table per frame: `cargo run --release -p constel-link --example table_cost`.

use std::num::NonZeroU64;
use std::time::Instant;

use constel_link::{
    DropCause, EdgeChange, EdgeTable, EdgeUpdate, Frames, Impairment, PortId, QueueLimit, mac_of,
};

struct NoCopies;
impl Frames<[u32; 3]> for NoCopies {
    fn duplicate(&mut self, frame: &[u32; 3]) -> Option<[u32; 3]> {
        Some(*frame)
    }
    fn flip_bit(&mut self, _: &mut [u32; 3], _: u64) {}
    fn discard(&mut self, _: [u32; 3], _: DropCause) {}
}

/// Returns ns per frame for a frame that enters and leaves the table, the best of several runs, with this many edges
/// used alternately and this many frames inside.
fn cost(ports: u32, fan_out: u32, rate_bps: Option<NonZeroU64>, inside: u64) -> f64 {
    let mut table = EdgeTable::new(ports + fan_out, 1);
    let gap_ns = 1_000;
    let impairment = Impairment {
        rate_bps,
        queue: QueueLimit { bytes: 1 << 30 },
        ..Impairment::delay_only(inside * gap_ns)
    };
    let set = |from, to| EdgeChange::Set {
        from: PortId(from),
        to: PortId(to),
        impairment,
    };
    let changes: Vec<EdgeChange> = if fan_out > 1 {
        (0..fan_out).map(|n| set(0, 1 + n)).collect()
    } else {
        (0..ports).map(|n| set(n, (n + 1) % ports)).collect()
    };
    let update = EdgeUpdate { changes }.check(table.ports()).expect("valid");
    table.apply(0, &update, &mut NoCopies).expect("applies");
    let mut now = 0;
    let mut best = f64::MAX;
    let mut turn = 0u32;
    for _ in 0..15 {
        let start = Instant::now();
        let frames = 200_000;
        for _ in 0..frames {
            now += gap_ns;
            // A stride that visits edges far apart in memory.
            turn = turn.wrapping_add(7919);
            let (from, to) = if fan_out > 1 {
                (0, 1 + turn % fan_out)
            } else {
                (turn % ports, 0)
            };
            table.arrive(
                now,
                PortId(from),
                mac_of(PortId(to)),
                100,
                [turn; 3],
                &mut NoCopies,
            );
            while table.pop_due(now, &mut NoCopies).is_some() {}
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(frames));
    }
    best
}

fn main() {
    let rate = NonZeroU64::new(10_000_000_000);
    println!(
        "{:>8} {:>8} {:>8} {:>6} | ns per frame",
        "edges", "fan out", "inside", "rate"
    );
    for (ports, fan_out, inside) in [
        (2, 1, 0),
        (2, 1, 1000),
        (1000, 1, 1000),
        (10_000, 1, 1000),
        (1, 1000, 1000),
        (1, 65_000, 1000),
        (10_000, 1, 50_000),
    ] {
        for rate_bps in [None, rate] {
            let ns = cost(ports, fan_out, rate_bps, inside);
            let edges = ports.max(fan_out);
            let limited = if rate_bps.is_some() { "yes" } else { "no" };
            println!("{edges:>8} {fan_out:>8} {inside:>8} {limited:>6} | {ns:>6.1}");
        }
    }
}
