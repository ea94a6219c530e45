//! Time of an update of the edge table, and the instant from which frames go by it.

use constel_drivers::relay::{Relay, RelayConfig};
use constel_link::{EdgeChange, EdgeUpdate, Impairment, PortId};
use serde_json::{Value, json};

use crate::common::*;

/// Time of one update on an idle relay.
pub(crate) fn updates(options: &Options) -> Vec<Value> {
    say(options, "\none update of the edge table");
    let mut results = Vec::new();
    for edges in [10u32, 1_000, 10_000, 65_000] {
        let config = RelayConfig {
            slots: 1024,
            ..RelayConfig::new("bench", edges + 1, 1)
        };
        let relay = Relay::new(config).unwrap();
        let handle = relay.start().unwrap();
        let all = |delay_ns| EdgeUpdate {
            changes: (0..edges)
                .map(|n| EdgeChange::Set {
                    from: PortId(n),
                    to: PortId(n + 1),
                    impairment: Impairment::delay_only(delay_ns),
                })
                .collect(),
        };
        let added = handle.apply(all(MS), None).unwrap().took_ns;
        let mut took: Vec<u64> = (0..20)
            .map(|n| handle.apply(all(n), None).unwrap().took_ns)
            .collect();
        took.sort_unstable();
        let (p50, max) = (took[10], took[19]);
        let text = format!(
            "{edges:>6} edges: new {} us, changed p50 {} us, max {} us",
            us(added),
            us(p50),
            us(max)
        );
        say(options, &text);
        results.push(json!({
            "what": "update", "edges": edges, "added_ns": added, "changed_p50_ns": p50,
            "changed_max_ns": max,
        }));
    }
    results
}
