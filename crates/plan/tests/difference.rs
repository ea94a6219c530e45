//! Laws of the difference between two scenarios.

use std::collections::BTreeSet;

use constel_plan::{ChangeKind, Difference, Past};
use constel_scenario::{DiskFiles, Scenario, parse, resolve};
use proptest::prelude::*;

/// Nodes, the rate of their cable, failures by number, and flows by number with their kind.
#[derive(Debug, Clone)]
struct Written {
    hosts: BTreeSet<u8>,
    rate_mbps: u16,
    failures: BTreeSet<(u8, u16)>,
    flows: BTreeSet<(u8, bool)>,
}

fn written() -> impl Strategy<Value = Written> {
    let hosts = prop::collection::btree_set(0_u8..3, 0..3);
    let failures = prop::collection::btree_set((0_u8..5, 100_u16..200), 0..4);
    let flows = prop::collection::btree_set((0_u8..6, any::<bool>()), 0..5);
    (hosts, 1_u16..4, failures, flows).prop_map(|(hosts, rate_mbps, failures, flows)| Written {
        hosts,
        rate_mbps,
        // One entry for each name.
        failures: failures
            .into_iter()
            .map(|(name, at)| (name, (name, at)))
            .collect::<std::collections::BTreeMap<_, _>>()
            .into_values()
            .collect(),
        flows: flows
            .into_iter()
            .map(|(name, kind)| (name, (name, kind)))
            .collect::<std::collections::BTreeMap<_, _>>()
            .into_values()
            .collect(),
    })
}

fn scenario(of: &Written) -> Scenario {
    let mut text = "constel: 1\nname: x\nstart: 2026-11-21T00:00:00Z\nduration: 10 min\nground:\n  hosts:\n    a: {latitude: 0 deg, longitude: 0 deg}\n    b: {latitude: 0 deg, longitude: 0 deg}\n".to_owned();
    for host in &of.hosts {
        text += &format!("    h{host}: {{latitude: 1 deg, longitude: 0 deg}}\n");
    }
    text += &format!(
        "  cables:\n  - {{from: a, to: b, delay: 1 ms, link: {{rate: {} Mbit/s, queue: 100 KiB}}}}\n",
        of.rate_mbps
    );
    for host in &of.hosts {
        text += &format!("  - {{from: a, to: h{host}, delay: 1 ms, link: {{rate: 1 Mbit/s}}}}\n");
    }
    text += "routing: {mode: computed, destinations: all}\n";
    if !of.failures.is_empty() {
        text += "failures:\n";
    }
    for (name, at) in &of.failures {
        text += &format!("- {{name: f{name}, at: {at} s, for: 5 s, nodes: [a]}}\n");
    }
    if !of.flows.is_empty() {
        text += "traffic:\n";
    }
    for (name, bulk) in &of.flows {
        let kind = if *bulk { "iperf3" } else { "ping" };
        text += &format!("- {{name: t{name}, at: 1 s, for: 60 s, {kind}: {{from: a, to: b}}}}\n");
    }
    let parsed = parse("x.yaml", &text).unwrap_or_else(|errors| panic!("{errors}"));
    resolve(&parsed, &DiskFiles::beside("x.yaml")).unwrap_or_else(|errors| panic!("{errors}"))
}

fn past(of: &Scenario) -> Past {
    let mut past = Past::begun_with(&of.traffic, Some(600_000_000_000));
    past.now_ns = 30_000_000_000;
    past
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_scenario_does_not_differ_from_itself(of in written()) {
        let own = scenario(&of);
        let found = Difference::between(&own, &own, &past(&own));
        prop_assert_eq!(&found.changes, &[]);
        prop_assert_eq!(found.traffic, own.traffic);
    }

    /// One direction removes the entries that the other adds, and both have the same keys.
    #[test]
    fn both_directions_have_the_same_changes(a in written(), b in written()) {
        let (a, b) = (scenario(&a), scenario(&b));
        let there = Difference::between(&a, &b, &past(&a));
        let back = Difference::between(&b, &a, &past(&b));
        let reversed = |kind| match kind {
            ChangeKind::Added => ChangeKind::Removed,
            ChangeKind::Removed => ChangeKind::Added,
            ChangeKind::Changed => ChangeKind::Changed,
        };
        // Ports of servers depend on the flows that were there before.
        let rows = |of: &Difference, turn: bool| -> Vec<(String, ChangeKind)> {
            let rows = of.changes.iter().filter(|row| !row.key.ends_with(".port"));
            rows.map(|row| (row.key.clone(), if turn { reversed(row.kind) } else { row.kind })).collect()
        };
        prop_assert_eq!(rows(&there, false), rows(&back, true));
        // Nodes may leave, and those that never were in the lab are refused; failures and the rate are not.
        for row in &there.changes {
            if row.key.starts_with("ground.hosts") {
                prop_assert_eq!(row.refused.is_some(), row.kind == ChangeKind::Added);
            }
            if row.key.starts_with("failures") || row.key == "ground.cables.a-b.link.rate" {
                prop_assert_eq!(&row.refused, &None);
            }
        }
    }

    /// After any sequence of changes the lab has the flows of the last file, and no two servers share a port.
    #[test]
    fn flows_are_those_of_the_last_file(all in prop::collection::vec(written(), 2..5)) {
        let all: Vec<Scenario> = all.iter().map(scenario).collect();
        let names = |flows: &[constel_scenario::model::Flow]| -> BTreeSet<String> {
            flows.iter().map(|flow| flow.name.to_string()).collect()
        };
        let mut past = past(&all[0]);
        let mut ever = names(&past.flows);
        for pair in all.windows(2) {
            let found = Difference::between(&pair[0], &pair[1], &past);
            prop_assert_eq!(names(&found.traffic), names(&pair[1].traffic));
            let servers: Vec<_> = found.traffic.iter().filter_map(|flow| flow.server()).collect();
            let distinct: BTreeSet<_> = servers.iter().collect();
            prop_assert_eq!(servers.len(), distinct.len(), "{:?}", servers);
            prop_assert!(found.added.iter().all(|flow| flow.at.ns() > 30_000_000_000));
            // A new flow is refused if the lab ever had one of its name, and only then.
            for row in found.changes.iter().filter(|row| row.kind == ChangeKind::Added) {
                if let Some(name) = row.key.strip_prefix("traffic.") {
                    prop_assert_eq!(row.refused.is_some(), ever.contains(name), "{}", name);
                }
            }
            ever.extend(names(&found.traffic));
            past.now_has(found.traffic);
        }
    }
}
