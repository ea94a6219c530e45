//! Time of an update of the edge table, and the instant from which frames are handled by the new table.

use constel_drivers::Links;
use constel_drivers::relay::{Relay, RelayConfig};
use constel_link::{EdgeChange, EdgeUpdate, Impairment, PortId};
use serde_json::{Value, json};

use crate::common::*;
use crate::spread::Spread;

const TRIES: u64 = 20;
/// A prime, so that every edge is visited once for all numbers of edges used here.
const STRIDE: u64 = 40_009;

/// Time of one update on an idle relay.
pub(crate) fn updates(options: &Options) -> Vec<Value> {
    say(options, "\none update of the edge table");
    let mut results = Vec::new();
    let orders = |edges| [(edges, false), (edges, true)];
    for (edges, scattered) in [10u32, 1_000, 10_000, 65_000].into_iter().flat_map(orders) {
        let config = RelayConfig {
            slots: 1024,
            ..RelayConfig::new("bench", edges + 1, 1)
        };
        let relay = Relay::new(config).unwrap();
        let handle = relay.start_relay().unwrap();
        let all = |delay_ns| EdgeUpdate {
            changes: (0..edges)
                .map(|n| EdgeChange::Set {
                    from: PortId(n),
                    to: PortId(n + 1),
                    impairment: Impairment::delay_only(delay_ns),
                })
                .collect(),
        };
        // Edges are in memory in the order in which they were made; an update is in the order of their ports.
        let mut made = all(MS);
        if scattered {
            let place = |n: u64| n * STRIDE % u64::from(edges);
            made.changes = (0..u64::from(edges))
                .map(|n| made.changes[place(n) as usize])
                .collect();
        }
        let added = handle.apply(made, None).unwrap().took_ns;
        let rounds: Vec<(f64, f64)> = (0..options.rounds)
            .map(|_| {
                let mut took: Vec<u64> = (0..TRIES)
                    .map(|n| handle.apply(all(n), None).unwrap().took_ns)
                    .collect();
                took.sort_unstable();
                (took[took.len() / 2] as f64, took[took.len() - 1] as f64)
            })
            .collect();
        let p50 = Spread::of(rounds.iter().map(|r| r.0));
        let max = Spread::of(rounds.iter().map(|r| r.1));
        let text = format!(
            "{edges:>6} edges, {}: new {} us; changed, {} rounds of {TRIES}: p50 {} us, greatest {} us",
            if scattered { "scattered" } else { "in order" },
            us(added),
            options.rounds,
            p50.in_us(),
            max.in_us(),
        );
        say(options, &text);
        results.push(json!({
            "what": "update", "edges": edges, "scattered": scattered, "added_ns": added, "changed_p50_ns": p50,
            "changed_max_ns": max, "rounds": options.rounds, "tries": TRIES,
        }));
    }
    results
}
