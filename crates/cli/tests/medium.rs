//! A channel that members of a network share, in a lab: one airtime for all receivers, turns, and collisions. Needs root.

use crate::support;

use serde_json::Value;
use support::lab::Lab;
use support::{judged, scenario};

/// Three craft in reach of each other on a channel of 2 Mbit/s.
fn channel(access: &str, traffic: &str) -> String {
    format!(
        "constel: 1
name: medium
start: 2026-11-21T00:00:00Z
duration: 12 s
spacecraft:
  craft: {{orbit: {{altitude: 500 km, inclination: 97.4 deg}}, preset: string-of-pearls, craft: 3, size: 2 km}}
networks:
  radio:
    members: [craft-*]
    medium: shared
    law: {{range: 100 km}}
    link: {{rate: 2 Mbit/s, queue: 32 KiB}}
    channel: {{{access}, preamble: 200 us, guard: 50 us}}
routing: {{mode: computed}}
traffic:
{traffic}"
    )
}

fn run(name: &str, text: &str) -> (Value, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::write(dir.path(), "medium.yaml", text);
    let mut lab = Lab::up(name, &file, dir.path(), &[]);
    lab.ended();
    let summary = lab.summary();
    (summary, dir)
}

fn row<'s>(summary: &'s Value, node: &str) -> &'s Value {
    let rows = summary["channels"].as_array().unwrap();
    rows.iter().find(|row| row["node"] == node).unwrap()
}

fn count(summary: &Value, node: &str, what: &str) -> u64 {
    row(summary, node)[what].as_u64().unwrap()
}

#[test]
fn a_broadcast_takes_the_air_once_and_reaches_all() {
    // 40 multicasts of 1,000 bytes and 62 of headers; each other craft answers each.
    let traffic = "  - {name: all, at: 1 s, for: 6 s, run: {node: craft-0, command: [ping, -6, -c, '40', -i, '0.1', -s, '1000', 'ff02::1%net0']}}\n";
    let text = channel("access: {tdma: {slot: 10 ms}}", traffic);
    let (summary, dir) = run("medium-all", &text);
    // The time of one sending each, not of two.
    let each_ns = 200_000 + 1062 * 8 * 500;
    let airtime_ns = count(&summary, "craft-0", "airtime_ns");
    assert!(airtime_ns < 40 * each_ns + 20 * 1_000_000, "{airtime_ns}");
    for other in ["craft-1", "craft-2"] {
        assert_eq!(count(&summary, other, "collisions"), 0);
    }
    // A host that does not keep up loses some of them, or sends fewer in the time.
    if !judged(&summary) {
        return;
    }
    assert!(airtime_ns >= 40 * each_ns, "{airtime_ns}");
    let said = std::fs::read_to_string(find(dir.path(), "all.out")).unwrap();
    for other in ["fe00:1%net0", "fe00:2%net0"] {
        let from = |line: &&str| line.contains("time=") && line.contains(other);
        // ping hears itself at once, and does not wait for the others when its last has come back.
        assert!(said.lines().filter(from).count() >= 39, "{said}");
    }
    // Multicasts and a few messages of IPv6 itself; a copy of each to both others.
    let sent = count(&summary, "craft-0", "sent");
    assert!((40..60).contains(&sent), "{summary:#}");
    for other in ["craft-1", "craft-2"] {
        assert!(count(&summary, other, "received") >= 40);
    }
}

#[test]
fn two_that_listen_share_the_channel() {
    let traffic = "  - {name: left, at: 1 s, for: 8 s, iperf3: {from: craft-0, to: craft-2, protocol: udp, rate: 1500 kbit/s}}
  - {name: right, at: 1 s, for: 8 s, iperf3: {from: craft-1, to: craft-2, protocol: udp, rate: 1500 kbit/s}}\n";
    let (turns, _dir) = run(
        "medium-turns",
        &channel("access: {csma: {window: 128}}", traffic),
    );
    let airtime = |node: &str| count(&turns, node, "airtime_ns") as f64;
    let (left, right) = (airtime("craft-0"), airtime("craft-1"));
    // Eight seconds of air, and no more.
    assert!(left + right < 9.0e9, "{turns:#}");
    if !judged(&turns) {
        return;
    }
    let share = left / (left + right);
    assert!((0.45..0.55).contains(&share), "{share}\n{turns:#}");
    // Less what waiting takes.
    assert!(left + right >= 6.5e9, "{turns:#}");
    assert!(count(&turns, "craft-0", "refused_full") > 0);
    // Even so some draw the same slot.
    let collisions = count(&turns, "craft-2", "collisions");
    let sent = count(&turns, "craft-0", "sent") + count(&turns, "craft-1", "sent");
    assert!(
        collisions > 0 && collisions * 20 < sent,
        "{collisions} of {sent}"
    );
}

/// The file of that name below a folder.
fn find(dir: &std::path::Path, name: &str) -> std::path::PathBuf {
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            if entry.file_name() == name {
                return path;
            }
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    panic!("no {name} below {}", dir.display());
}
