//! Flows of `ping`: what the probe measures, in both families, one way and back, and what becomes of probes on a link that
//! loses and doubles them. Needs root.

use crate::support;

use std::path::Path;

use serde_json::Value;
use support::lab::Lab;
use support::{constel, judged, scenario, stderr};

/// The time that a busy machine may add to the fastest of many probes, nanoseconds.
const SLACK_NS: f64 = 2e6;

/// A probe of a flow's file.
#[derive(Debug)]
struct Row {
    seq: u64,
    sent_s: f64,
    there_us: Option<f64>,
    back_us: Option<f64>,
    fate: String,
}

fn rows(lab: &Lab, flow: &str) -> Vec<Row> {
    let file = lab.results.join(format!("flows/{flow}.out"));
    let text = std::fs::read_to_string(file).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("seq,sent_s,there_us,back_us,rtt_us,fate")
    );
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [seq, sent_s, there, back, _, fate] = cells[..] else {
            panic!("{line}")
        };
        let us = |cell: &str| (!cell.is_empty()).then(|| cell.parse().unwrap());
        Row {
            seq: seq.parse().unwrap(),
            sent_s: sent_s.parse().unwrap(),
            there_us: us(there),
            back_us: us(back),
            fate: fate.to_owned(),
        }
    };
    lines.map(row).collect()
}

fn flow<'s>(summary: &'s Value, name: &str) -> &'s Value {
    let flows = summary["flows"].as_array().unwrap();
    flows.iter().find(|flow| flow["name"] == name).unwrap()
}

fn lab(name: &str, dir: &Path, flows: &str, flags: &[&str]) -> Lab {
    let file = scenario::small(
        dir,
        &format!("{name}.yaml"),
        "{mode: computed}",
        &format!("traffic:\n{flows}"),
    );
    Lab::up(name, &file, dir, flags)
}

#[test]
fn probes_tell_both_ways_in_both_families_and_ping_its_resolution() {
    let dir = tempfile::tempdir().unwrap();
    let flows = "
  - {name: four, at: 1 s, for: 2 s, ping: {from: west, to: east, interval: 20 ms, family: ipv4}}
  - {name: six, at: 1 s, for: 2 s, ping: {from: east, to: west, interval: 20 ms, family: ipv6, size: 1000 B}}
  - {name: tool, at: 1 s, for: 2 s, ping: {from: west, to: east, interval: 20 ms, tool: ping}}
";
    let mut lab = lab("probes", dir.path(), flows, &["--for", "4s"]);
    lab.ended();
    let summary = lab.summary();
    let is_judged = judged(&summary);
    for name in ["four", "six"] {
        let row = flow(&summary, name);
        assert_eq!(row["status"], "ok", "{row:#}");
        let ns = |key: &str| row[key]["min_ns"].as_f64().unwrap();
        let off = ns("rtt") - ns("path_rtt");
        let most = if judged(row) { SLACK_NS } else { f64::INFINITY };
        assert!((-1e5..most).contains(&off), "off by {off} ns: {row:#}");
        // The links are as long in one direction as in the other.
        for way in ["owd", "owd_back"] {
            let off = ns(way) - ns("path_rtt") / 2.0;
            assert!((-1e5..most).contains(&off), "off by {off} ns: {row:#}");
        }
        assert_eq!(row["duplicate_packets"], 0);
        let probes = rows(&lab, name);
        assert!(!is_judged || probes.len() > 50, "{} probes", probes.len());
        // In lab time, and for as long as the flow; its program may start late on a busy host.
        let sent_s = || probes.iter().map(|row| row.sent_s);
        let (first_s, last_s) = (
            sent_s().fold(f64::MAX, f64::min),
            sent_s().fold(0.0, f64::max),
        );
        assert!(first_s >= 1.0 && last_s < 4.0, "{probes:?}");
        assert!(!is_judged || last_s - first_s < 2.2, "{probes:?}");
        let mut numbers: Vec<u64> = probes.iter().map(|row| row.seq).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=probes.len() as u64));
        assert_eq!(row["sent_packets"], probes.len());
    }
    let tool = flow(&summary, "tool");
    let longest_ns = tool["rtt"]["max_ns"].as_f64().unwrap();
    let steps_ns = tool["rtt_resolution_ns"].as_f64().unwrap();
    assert!(
        (100.0..=1_000.0).contains(&(longest_ns / steps_ns)),
        "three digits: {tool:#}"
    );
    assert!(flow(&summary, "four")["rtt_resolution_ns"].is_null());
    let table = constel(["results".as_ref(), lab.results.as_os_str()]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("in steps of"), "{table}");
}

/// One direction of a link made worse: the forward delay is longer by that, and the reverse delay is not; doubled and
/// lost probes are counted.
#[test]
fn one_way_is_one_way_and_every_fate_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let flows = "
  - {name: probe, at: 0 s, for: 30 s, ping: {from: west, to: east, interval: 20 ms}}
";
    let mut lab = lab("probe-fates", dir.path(), flows, &[]);
    let set = |settings: &[&str]| {
        let name = lab.name.as_str();
        let command = ["link", "set", name, "west/gsl0", "--reset"];
        let output = constel(command.iter().chain(settings));
        assert!(output.status.success(), "{}", stderr(&output));
        let now_s = lab.client().t_ns().unwrap() as f64 / 1e9;
        lab.client().clock().unwrap().sleep_until(now_s + 2.0);
        // Probes that are on their way at either end have no result.
        now_s + 0.3..now_s + 1.7
    };
    let plain = set(&[]);
    let longer = set(&["--extra-delay", "40ms"]);
    let doubled = set(&["--duplicate", "100%"]);
    let lost = set(&["--loss", "50%"]);
    lab.interrupt();
    let probes = rows(&lab, "probe");
    let within = |span: &std::ops::Range<f64>| {
        let rows = probes.iter().filter(|row| span.contains(&row.sent_s));
        rows.collect::<Vec<_>>()
    };
    let least = |span, way: fn(&Row) -> Option<f64>| {
        let times = within(span).into_iter().filter_map(way);
        times.fold(f64::INFINITY, f64::min)
    };
    let there = |span| least(span, |row| row.there_us);
    let back = |span| least(span, |row| row.back_us);
    let grown = there(&longer) - there(&plain);
    let off = back(&longer) - back(&plain);
    let summary = lab.summary();
    let is_judged = judged(&summary);
    if is_judged {
        assert!((39_500.0..42_500.0).contains(&grown), "{grown} us");
        assert!(off.abs() < 2_500.0, "{off} us");
    }
    let count = |span, fate: &str| {
        let rows = within(span).into_iter();
        rows.filter(|row| row.fate == fate).count()
    };
    // On a busy host the plane may lose a copy, or the program may send late and little.
    let (once, twice) = (count(&doubled, "ok"), count(&doubled, "duplicate"));
    assert!(twice <= once, "{twice} of {once}");
    assert_eq!(count(&plain, "duplicate"), 0);
    // 70 probes on a quiet host, each lost with a chance of a half.
    let (gone, all) = (count(&lost, "lost"), within(&lost).len());
    if is_judged {
        assert!(once > 15 && twice * 10 >= once * 9, "{twice} of {once}");
        assert_eq!(count(&plain, "lost"), 0);
        assert!(all > 15 && gone * 5 >= all, "{gone} of {all}");
    }
    let row = flow(&summary, "probe");
    assert_eq!(row["status"], "cut-short");
    assert!(row["duplicate_packets"].as_u64().unwrap() > 13, "{row:#}");
    assert!(row["loss_ratio"].as_f64().unwrap() > 0.0, "{row:#}");
}
