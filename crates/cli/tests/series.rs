//! Results of flows: series in lab time with paths and marks, events, a table and pictures; and that a flow whose own
//! frames were late is not trusted, even in a trustworthy run. Needs root.

use crate::support;

use std::path::Path;
use std::time::Duration;

use constel_host::process::marked;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::lab::Lab;
use support::{constel, judged, scenario, stderr};

const TRAFFIC: &str = "traffic:
  - {name: ping, at: 0 s, for: 4 s, ping: {from: west, to: east, interval: 20 ms}}
  - {name: tool, at: 1 s, for: 2 s, ping: {from: east, to: west, interval: 50 ms, tool: ping}}
  - {name: bulk, at: 1 s, for: 3 s, tcp: {from: east, to: west, size: 200 kB}}
  - {name: stream, at: 0 s, for: 3 s, iperf3: {from: west, to: east, protocol: udp, rate: 1 Mbit/s}}
";

const HEADER: [&str; 8] = [
    "t_s",
    "rtt_us",
    "owd_us",
    "owd_back_us",
    "throughput_bps",
    "fate",
    "path",
    "marked",
];

/// A table's rows, as column and cell.
fn table(path: &Path) -> Vec<Vec<(String, String)>> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), head.len(), "{line}");
        let named = head.iter().zip(cells);
        named
            .map(|(head, cell)| ((*head).to_owned(), cell.to_owned()))
            .collect()
    };
    lines.map(row).collect()
}

fn cell<'r>(row: &'r [(String, String)], column: &str) -> &'r str {
    let found = row.iter().find(|(head, _)| head == column);
    &found.unwrap_or_else(|| panic!("no {column}")).1
}

fn number(row: &[(String, String)], column: &str) -> f64 {
    let cell = cell(row, column);
    cell.parse()
        .unwrap_or_else(|_| panic!("{column}: {cell:?}"))
}

fn flow<'s>(summary: &'s Value, name: &str) -> &'s Value {
    let flows = summary["flows"].as_array().unwrap();
    flows.iter().find(|flow| flow["name"] == name).unwrap()
}

fn results(args: &[&str], run: &Path, more: &[&str]) -> String {
    let run = run.to_str().unwrap();
    let all = ["results"].iter().chain(args).chain([&run]).chain(more);
    let output = constel(all);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_flow_has_its_series_its_row_and_its_picture() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "series.yaml", "{mode: computed}", TRAFFIC);
    let mut lab = Lab::up("series", &file, dir.path(), &["--for", "6s"]);
    lab.ended();
    let summary = lab.summary();
    for name in ["ping", "tool", "bulk", "stream"] {
        let row = flow(&summary, name);
        assert_eq!(row["status"], "ok", "{row:#}");
        let samples = table(&lab.results.join(format!("flows/{name}.csv")));
        assert_eq!(row["samples"], samples.len(), "{name}");
        assert!(samples.len() >= 2, "{name}: {}", samples.len());
        let columns: Vec<&str> = samples[0].iter().map(|(head, _)| head.as_str()).collect();
        assert_eq!(columns, HEADER);
        let marked = samples.iter().filter(|row| cell(row, "marked") == "1");
        assert_eq!(row["marked_samples"], marked.count(), "{name}");
        assert_eq!(row["trustworthy"].as_bool(), Some(row["doubt"].is_null()));
        let (from_s, paths) = (row["at_ns"].as_f64().unwrap() / 1e9, &row["paths"]);
        for sample in &samples {
            let t_s = number(sample, "t_s");
            assert!((from_s - 0.01..6.0).contains(&t_s), "{name}: {t_s}");
            let path = number(sample, "path") as usize;
            assert!((1..=paths.as_array().unwrap().len()).contains(&path));
        }
        let picture = results(&["plot"], &lab.results, &[name]);
        assert!(
            picture.trim_end().ends_with(&format!("flows/{name}.svg")),
            "{picture}"
        );
        let picture = std::fs::read_to_string(picture.trim_end()).unwrap();
        let curve = match name {
            "ping" | "tool" => ">shortest path<",
            _ => "throughput (Mbit/s)",
        };
        assert!(picture.contains(curve) && picture.contains("</svg>"));
    }
    // Measured delays lie above those of geometry.
    let least = |name: &str, column: &str| {
        let rows = table(&lab.results.join(format!("flows/{name}.csv")));
        let values = rows.iter().filter(|row| !cell(row, column).is_empty());
        values
            .map(|row| number(row, column))
            .fold(f64::INFINITY, f64::min)
    };
    let paths = table(&lab.results.join("paths.csv"));
    let geometry = paths.iter().filter(|row| cell(row, "flow") == "ping");
    let geometry = geometry
        .map(|row| number(row, "path_rtt_us"))
        .fold(f64::INFINITY, f64::min);
    let off = least("ping", "rtt_us") - geometry;
    assert!(off >= -100.0, "{off} us");
    assert!(!judged(flow(&summary, "ping")) || off < 2_000.0, "{off} us");
    // A transfer's payload goes from `from` to `to`.
    assert!(least("bulk", "owd_us") > geometry / 2.0 - 100.0);
    assert!(least("stream", "throughput_bps") > 0.0);
    for end in ["client_cpu_s", "server_cpu_s"] {
        assert!(flow(&summary, "bulk")[end].as_f64().unwrap() > 0.0, "{end}");
    }
    let text = results(&[], &lab.results, &[]);
    for words in ["LATE SAMPLES", "ONE WAY", "CPU CLIENT/SERVER"] {
        assert!(text.contains(words), "{text}");
    }
    let csv = results(&[], &lab.results, &["--csv"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("run,seed,run_trustworthy,flow,kind,"));
    assert_eq!(lines.len(), 5, "{csv}");
    let columns = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == columns));
    let none = constel([
        "results".as_ref(),
        "plot".as_ref(),
        lab.results.as_os_str(),
        "pin".as_ref(),
    ]);
    assert_eq!(none.status.code(), Some(2));
    assert!(
        stderr(&none).contains("with samples: bulk, ping, stream, tool"),
        "{}",
        stderr(&none)
    );
}

/// `hobart` hands over at 7 s: see [`scenario::sky`].
#[test]
fn a_path_that_changes_is_an_event_with_both() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::sky(dir.path(), 20, "0 s");
    let text = std::fs::read_to_string(&file).unwrap();
    let traffic = "traffic:
  - {name: probe, at: 1 s, for: 10 s, ping: {from: hobart, to: chatham, interval: 100 ms}}
";
    let file = scenario::write(dir.path(), "changes.yaml", &format!("{text}{traffic}"));
    let mut lab = Lab::up("path-changes", &file, dir.path(), &["--for", "12s"]);
    lab.ended();
    let summary = lab.summary();
    let row = flow(&summary, "probe");
    assert_eq!(row["handovers"], 1, "{row:#}");
    let paths = row["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 2, "{row:#}");
    let events = std::fs::read_to_string(lab.results.join("events.ndjson")).unwrap();
    let events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let changed: Vec<Value> = events.filter(|e| e["kind"] == "path-changed").collect();
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert_eq!(changed[0]["flow"], "probe");
    assert_eq!(changed[0]["t_ns"], 7_000_000_000_u64);
    assert_eq!(
        (&changed[0]["from"], &changed[0]["to"]),
        (&paths[0], &paths[1])
    );
    for sample in table(&lab.results.join("flows/probe.csv")) {
        let t_s = number(&sample, "t_s");
        let path = if t_s < 7.0 { "1" } else { "2" };
        assert_eq!(cell(&sample, "path"), path, "{t_s}");
    }
}

/// The whole engine, and with it the link plane, is kept from running for a moment while probes are in flight.
#[test]
fn samples_that_met_late_frames_are_marked_and_the_flow_is_not_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let traffic = "traffic:
  - {name: quiet, at: 0 s, for: 8 s, ping: {from: west, to: east, interval: 20 ms}}
";
    let file = scenario::small(dir.path(), "late.yaml", "{mode: computed}", traffic);
    let mut lab = Lab::up("late-flow", &file, dir.path(), &["--for", "9s"]);
    let mut client = lab.client();
    let clock = client.clock().unwrap();
    clock.sleep_until(3.0);
    lab.signal(Signal::STOP);
    let from_s = clock.now_s();
    std::thread::sleep(Duration::from_millis(300));
    let to_s = clock.now_s();
    lab.signal(Signal::CONT);
    let code = lab.ended().code();
    let summary = lab.summary();
    let row = flow(&summary, "quiet");
    assert_eq!(row["status"], "ok", "{row:#}");
    assert_eq!(row["trustworthy"], false, "{row:#}");
    assert!(row["doubt"].as_str().unwrap().contains("late"), "{row:#}");
    assert!(row["late_worst_ns"].as_f64().unwrap() > 50e6, "{row:#}");
    let samples = table(&lab.results.join("flows/quiet.csv"));
    // All that were sent in the first part of the moment had frames that were due in it.
    let moment = from_s + 0.01..to_s - 0.07;
    let stopped = samples
        .iter()
        .filter(|row| moment.contains(&number(row, "t_s")) && cell(row, "fate") == "ok");
    let stopped: Vec<_> = stopped.collect();
    assert!(stopped.len() >= 2, "{}", stopped.len());
    for sample in stopped {
        assert_eq!(cell(sample, "marked"), "1", "{sample:?}");
    }
    let marked = samples.iter().filter(|row| cell(row, "marked") == "1");
    assert!(marked.count() < samples.len() / 2, "not all of them");
    // A run with an affected flow is not trustworthy, and all reports of it agree.
    assert_eq!(summary["verdict"]["trustworthy"], false, "{summary:#}");
    assert_eq!(summary["software"]["failed"], false, "{summary:#}");
    assert_eq!(code, Some(3));
    let text = results(&[], &lab.results, &[]);
    assert!(text.contains("verdict: NOT trustworthy"), "{text}");
    assert!(text.contains("flow quiet is affected: "), "{text}");
}

/// The program that answers probes is stopped for a while: what it answers afterwards is late, and not lost.
#[test]
fn answers_of_a_program_that_was_stopped_are_late_by_that() {
    let dir = tempfile::tempdir().unwrap();
    let traffic = "traffic:
  - {name: quiet, at: 0 s, for: 11 s, ping: {from: west, to: east, interval: 100 ms}}
";
    let file = scenario::small(dir.path(), "held.yaml", "{mode: computed}", traffic);
    let mut lab = Lab::up("held-answers", &file, dir.path(), &["--for", "12s"]);
    let mut client = lab.client();
    let clock = client.clock().unwrap();
    clock.sleep_until(2.0);
    let all = marked(Some(&lab.name)).unwrap();
    let answers = all.iter().find(|p| p.node.as_deref() == Some("east"));
    let pid = Pid::from_raw(answers.expect("the program that answers").pid as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let from_s = clock.now_s();
    // Longer than an answer can say how long it was held.
    clock.sleep_until(from_s + 6.0);
    let to_s = clock.now_s();
    kill_process(pid, Signal::CONT).unwrap();
    lab.ended();
    let summary = lab.summary();
    let row = flow(&summary, "quiet");
    assert_eq!(
        (&row["status"], &row["loss_ratio"]),
        (&"ok".into(), &0.0.into()),
        "{row:#}"
    );
    let samples = table(&lab.results.join("flows/quiet.csv"));
    let held = samples
        .iter()
        .filter(|row| (from_s + 0.5..from_s + 5.5).contains(&number(row, "t_s")));
    let held: Vec<_> = held.collect();
    assert!(held.len() >= 10, "{}", held.len());
    assert!(
        row["late_packets"].as_u64().unwrap() >= held.len() as u64,
        "{row:#}"
    );
    for sample in held {
        assert_eq!(
            (cell(sample, "fate"), cell(sample, "marked")),
            ("late", "1"),
            "{sample:?}"
        );
        let came_s = number(sample, "t_s") + number(sample, "rtt_us") / 1e6;
        assert!(came_s > to_s - 0.1, "{sample:?}");
    }
    assert_eq!(row["trustworthy"], false, "{row:#}");
    assert!(row["doubt"].as_str().unwrap().contains("held"), "{row:#}");
    assert_eq!(summary["verdict"]["trustworthy"], false);
}
