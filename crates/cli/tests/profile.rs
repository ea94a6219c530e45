//! `run --profile`: columns of the kernel's own counters. Needs root.

mod support;

use std::path::Path;
use std::time::Duration;

use support::lab::Lab;
use support::scenario;

const SCENARIO: &str = "constel: 1
name: profile
start: 2026-11-21T00:00:00Z
duration: 8 s
ground: {hosts: {h: {count: 3, latitude: 0 deg, longitude: 0 deg}}}
networks: {lan: {members: [h-*], medium: switched}}
routing: {mode: computed}
traffic:
  - {name: udp, at: 1 s, for: 4 s, iperf3: {from: h-0, to: h-2, protocol: udp, rate: 2 Mbit/s}}
";

/// The rows of a column, each with a number for every interface.
fn column(dir: &Path, name: &str, interfaces: usize) -> Vec<Vec<u64>> {
    let bytes = std::fs::read(dir.join("interfaces").join(name)).unwrap();
    let (numbers, rest) = bytes.as_chunks::<8>();
    assert!(rest.is_empty());
    let numbers: Vec<u64> = numbers.iter().map(|n| u64::from_le_bytes(*n)).collect();
    numbers.chunks(interfaces).map(<[u64]>::to_vec).collect()
}

#[test]
fn columns_are_the_kernels_counters_twenty_times_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::write(dir.path(), "profile.yaml", SCENARIO);
    let mut lab = Lab::up("profile", &file, dir.path(), &["--profile", "20"]);
    // Quiet again, and still there: what the kernel says lies between what was written before and after.
    let mut asker = lab.client();
    let clock = support::until(Duration::from_secs(30), "lab time", || asker.clock());
    clock.sleep_until(6.5);
    let kernel = |port: &str, what: &str| -> u64 {
        let path = format!("/sys/class/net/{port}/statistics/{what}");
        let said = support::constel(["exec", &lab.name, "h-0", "--", "cat", &path]);
        support::stdout(&said).trim().parse().unwrap()
    };
    let (sent, received) = (kernel("net0", "tx_bytes"), kernel("net0", "rx_bytes"));
    lab.ended();
    let results = lab.results.clone();
    let index = std::fs::read_to_string(results.join("interfaces/index.csv")).unwrap();
    let names: Vec<&str> = index.lines().skip(1).collect();
    let place = names
        .iter()
        .position(|row| row.ends_with(",h-0,net0"))
        .unwrap();
    let times = column(&results, "t_ns.i64", 1);
    assert!((130..=175).contains(&times.len()), "{} rows", times.len());
    assert!(times.is_sorted());
    for (name, said) in [("tx_bytes.u64", sent), ("rx_bytes.u64", received)] {
        let rows = column(&results, name, names.len());
        assert_eq!(rows.len(), times.len());
        let own: Vec<u64> = rows.iter().map(|row| row[place]).collect();
        assert!(own.is_sorted());
        let around = |t_s: f64| times.partition_point(|t| (t[0] as f64) < t_s * 1e9);
        let (before, last) = (own[around(6.4)], own[own.len() - 1]);
        assert!(
            (before..=last).contains(&said),
            "{name}: {before} {said} {last}"
        );
        // Some kilobytes of neighbours and routers at most came after.
        assert!(last - before < 10_000, "{name}: {before} {last}");
    }
    // A megabyte went out.
    let sent: Vec<u64> = column(&results, "tx_bytes.u64", names.len())
        .iter()
        .map(|row| row[place])
        .collect();
    assert!(sent[sent.len() - 1] - sent[0] > 900_000);
}
