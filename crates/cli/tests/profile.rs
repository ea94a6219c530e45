//! `run --profile` and `sample`: columns of what kernels and the link plane counted. Needs root.

use crate::support;

use std::path::Path;

use support::lab::Lab;
use support::{judged, scenario};

const SCENARIO: &str = "constel: 1
name: profile
start: 2026-11-21T00:00:00Z
duration: 200 s
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
    support::until("the flow is over", || {
        let events = support::constel(["events", &lab.name, "--json"]);
        let ended = support::stdout(&events).contains("\"flow-ended\"");
        ended.then_some(())
    });
    let mut asker = lab.client();
    let clock = support::until("lab time", || asker.clock());
    let quiet_s = clock.now_s() + 1.0;
    clock.sleep_until(quiet_s);
    let kernel = |port: &str, what: &str| -> u64 {
        let path = format!("/sys/class/net/{port}/statistics/{what}");
        let said = support::constel(["exec", &lab.name, "h-0", "--", "cat", &path]);
        support::stdout(&said).trim().parse().unwrap()
    };
    let (sent, received) = (kernel("net0", "tx_bytes"), kernel("net0", "rx_bytes"));
    lab.interrupt();
    let results = lab.results.clone();
    let index = std::fs::read_to_string(results.join("interfaces/index.csv")).unwrap();
    let names: Vec<&str> = index.lines().skip(1).collect();
    let place = names
        .iter()
        .position(|row| row.ends_with(",h-0,net0"))
        .unwrap();
    let times = column(&results, "t_ns.i64", 1);
    assert!(times.is_sorted());
    let span_s = (times[times.len() - 1][0] - times[0][0]) as f64 / 1e9;
    let per_s = (times.len() - 1) as f64 / span_s;
    let summary = lab.summary();
    assert!(per_s < 20.5, "{per_s} rows a second");
    assert!(!judged(&summary) || per_s > 15.0, "{per_s} rows a second");
    for (name, said) in [("tx_bytes.u64", sent), ("rx_bytes.u64", received)] {
        let rows = column(&results, name, names.len());
        assert_eq!(rows.len(), times.len());
        let own: Vec<u64> = rows.iter().map(|row| row[place]).collect();
        assert!(own.is_sorted());
        let around = |t_s: f64| times.partition_point(|t| (t[0] as f64) < t_s * 1e9);
        let (before, last) = (own[around(quiet_s - 0.1)], own[own.len() - 1]);
        assert!(
            (before..=last).contains(&said),
            "{name}: {before} {said} {last}"
        );
        // Some kilobytes of neighbours and routers at most came after.
        assert!(last - before < 10_000, "{name}: {before} {last}");
    }
    // A megabyte on a quiet host: at least what the flow itself received.
    let flow = &summary["flows"][0];
    let counted = flow["received_bytes"]
        .as_u64()
        .unwrap_or_else(|| panic!("{flow:#}"));
    let sent: Vec<u64> = column(&results, "tx_bytes.u64", names.len())
        .iter()
        .map(|row| row[place])
        .collect();
    assert!(
        counted > 0 && sent[sent.len() - 1] - sent[0] > counted,
        "{flow:#}"
    );
}

/// A flow that overfills a slow link: its edge is seen with a queue, its losses and, in its last row, all that it ever did.
#[test]
fn samples_of_edges_have_their_queues_and_losses_by_cause() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::write(
        dir.path(),
        "sample.yaml",
        "constel: 1
name: sample
start: 2026-11-21T00:00:00Z
duration: 6 s
ground:
  hosts:
    a: {latitude: 0 deg, longitude: 0 deg}
    b: {latitude: 0 deg, longitude: 1 deg}
    c: {latitude: 0 deg, longitude: 2 deg}
  cables:
    - {from: a, to: b, delay: 5 ms, link: {rate: 1 Mbit/s, queue: 16 KiB}}
    - {from: b, to: c, delay: 1 ms, link: {rate: 1 Mbit/s, queue: 16 KiB}}
traffic:
  - {name: udp, at: 1 s, for: 3 s, iperf3: {from: a, to: b, protocol: udp, rate: 2 Mbit/s}}
sample:
  every: 100 ms
  interfaces: [a]
  edges: [\"[ab]\", a, b]
  metrics: [tx_bytes, queue_bytes, delay_ns, offered, delivered, dropped_queue]
",
    );
    let refused = support::constel(["check", file.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no node is called `[ab]`"));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"[ab]\", ", "")).unwrap();
    let mut lab = Lab::up("sample", &file, dir.path(), &[]);
    lab.ended();
    let results = lab.results.clone();
    assert!(results.join("interfaces/tx_bytes.u64").is_file());
    assert!(!results.join("interfaces/rx_bytes.u64").exists());
    let index = std::fs::read_to_string(results.join("interfaces/index.csv")).unwrap();
    assert!(
        index
            .lines()
            .skip(1)
            .all(|row| row.split(',').nth(1) == Some("a")),
        "{index}"
    );

    let out = dir.path().join("tables");
    let call = [
        "results",
        "export",
        results.to_str().unwrap(),
        "edges",
        "--format",
        "csv",
        "--out",
    ];
    support::stdout(&support::constel(
        call.into_iter().chain([out.to_str().unwrap()]),
    ));
    let table = std::fs::read_to_string(out.join("edges.csv")).unwrap();
    let mut lines = table.lines();
    let head = "t_ns,from,to,delay_ns,queue_bytes,offered,delivered,dropped_queue";
    assert_eq!(lines.next(), Some(head));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let of = |from: &str| -> Vec<Vec<u64>> {
        let own = rows.iter().filter(|row| row[1].starts_with(from));
        own.map(|row| {
            [0, 3, 4, 5, 6, 7]
                .map(|at| row[at].parse().unwrap())
                .to_vec()
        })
        .collect()
    };
    let there = of("a/");
    assert!(there.is_sorted_by_key(|row| (row[0], row[3])), "{table}");
    assert!(there.iter().all(|row| row[1] == 5_000_000));
    // 8 ms a frame: the queue is full for most of the three seconds, and is looked at ten times a second.
    let full = there.iter().filter(|row| row[2] > 8_000).count();
    assert!(full <= 45, "{table}");
    let last = &there[there.len() - 1];
    assert_eq!((last[2], last[3]), (0, last[4] + last[5]), "{last:?}");
    if judged(&lab.summary()) {
        assert!(full >= 15, "{table}");
        assert!(last[5] > 100, "{last:?}");
    }
    // Quiet ports have next to no rows, and those of c were not requested.
    assert!(
        of("c/").is_empty() && there.len() > of("b/").len(),
        "{table}"
    );
}

/// A program that computes in a node with limits: its processor time, memory and processes are in all places, and the nodes
/// without a cgroup of their own are in none.
#[test]
fn what_a_node_with_limits_uses_is_counted_and_that_of_others_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::write(
        dir.path(),
        "used.yaml",
        "constel: 1
name: used
start: 2026-11-21T00:00:00Z
duration: 100 s
ground: {hosts: {h: {count: 3, latitude: 0 deg, longitude: 0 deg}}}
networks: {lan: {members: [h-*], medium: switched}}
routing: {mode: computed}
limits: {nodes: {h-0: {processes: 100}, h-1: {memory: 256 MiB}}}
traffic:
  - {name: busy, at: 0 s, for: 90 s, run: {node: h-0, command: [sh, -c, 'while :; do :; done']}}
sample: {every: 100 ms, interfaces: [], edges: [], usage: [h-2]}
",
    );
    let refused = support::constel(["check", file.to_str().unwrap()]);
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains("`h-2` are not counted"), "{refused}");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("[h-2]", "[h-*]")).unwrap();
    let mut lab = Lab::up("used", &file, dir.path(), &[]);
    let shown = support::until("half a second of processor time", || {
        let shown = support::json(&support::constel(["show", &lab.name, "--json"]));
        let cpu_ns = shown["node_list"][0]["usage"]["cpu_ns"].as_u64();
        (cpu_ns > Some(500_000_000)).then_some(shown)
    });
    let usage = |node: usize| &shown["node_list"][node]["usage"];
    assert!(usage(0)["memory_bytes"].as_u64() > Some(0), "{shown:#}");
    assert!(usage(0)["processes"].as_u64() >= Some(1), "{shown:#}");
    // No program runs in the second host, and the third has no cgroup of its own.
    assert_eq!(usage(1)["processes"], 0, "{shown:#}");
    assert!(usage(2).is_null(), "{shown:#}");
    let metrics = support::stdout(&support::constel(["metrics", &lab.name]));
    let sample = |name: &str, node: &str| {
        let begin = format!("{name}{{lab=\"{}\",node=\"{node}\"}} ", lab.name);
        let line = metrics.lines().find_map(|line| line.strip_prefix(&begin))?;
        line.parse::<f64>().ok()
    };
    let cpu_s = "constel_node_cpu_seconds_total";
    assert!(sample(cpu_s, "h-0") > Some(0.5), "{metrics}");
    assert_eq!(sample("constel_node_processes", "h-1"), Some(0.0));
    assert_eq!(sample(cpu_s, "h-2"), None);
    lab.interrupt();

    let results = lab.results.clone();
    let index = std::fs::read_to_string(results.join("usage/index.csv")).unwrap();
    assert_eq!(index, "place,node\n0,h-0\n1,h-1\n");
    let out = dir.path().join("tables");
    let [results, to] = [results.to_str().unwrap(), out.to_str().unwrap()];
    let call = [
        "results", "export", results, "usage", "--format", "csv", "--out", to,
    ];
    support::stdout(&support::constel(call));
    let table = std::fs::read_to_string(out.join("usage.csv")).unwrap();
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(head[..3], ["t_ns", "node", "cpu_ns"]);
    let at = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let of = |node: &str, column: &str| -> Vec<u64> {
        let own = rows.iter().filter(|row| row[1] == node);
        own.map(|row| row[at(column)].parse().unwrap()).collect()
    };
    let (busy, idle) = (of("h-0", "cpu_ns"), of("h-1", "cpu_ns"));
    assert!(
        busy.is_sorted() && busy[busy.len() - 1] > 500_000_000,
        "{table}"
    );
    assert!(busy[busy.len() - 1] > 10 * idle[idle.len() - 1], "{table}");
    assert_eq!(busy.len(), idle.len());
    assert!(
        of("h-1", "processes").iter().all(|count| *count == 0),
        "{table}"
    );
    support::stdout(&support::constel(["results", "plot", results, "--usage"]));
    let picture = std::fs::read_to_string(lab.results.join("usage.svg")).unwrap();
    assert!(picture.contains("processor time (s/s)"), "{picture}");
}
