//! Routing daemons other than BIRD's OSPF in a small constellation: routes stand, pings pass, a killed daemon is
//! an event and is started again, and nothing is left on the host, FRR's folders included.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal};
use support::host::Host;
use support::lab::Lab;
use support::{scenario, until};

/// Where FRR's daemons would write, had their nodes no folders of their own.
const FRR_FOLDERS: [&str; 2] = ["/run/frr", "/var/tmp/frr"];

/// Eight satellites so high that each sees a quarter of the Earth, and two cities.
fn small(dir: &Path, name: &str, routing: &str) -> PathBuf {
    let text = format!(
        "constel: 1
name: {name}
start: 2026-11-21T00:00:00Z
duration: 60 s
step: 1 s
clock: {{hold: until-routes-stand}}
constellations:
  sat:
    walker: {{pattern: delta, inclination: 56 deg, satellites: 8, planes: 2, phasing: 1, altitude: 10000 km}}
    isl: {{pattern: plus-grid, link: {{rate: 100 Mbit/s}}}}
    gsl: {{min_elevation: 5 deg, beams: 1, policy: longest-visible, link: {{rate: 50 Mbit/s}}}}
ground:
  stations:
    tokyo: {{latitude: 35.69 deg, longitude: 139.69 deg}}
    london: {{latitude: 51.51 deg, longitude: -0.13 deg}}
routing: {{{routing}, restart: {{after: 100 ms, at_most: 1 s}}}}
traffic:
  - {{name: ping-ipv4, at: 0 s, for: 3 s, ping: {{from: tokyo, to: london, interval: 500 ms, family: ipv4}}}}
  - {{name: ping-ipv6, at: 0 s, for: 3 s, ping: {{from: tokyo, to: london, interval: 500 ms, family: ipv6}}}}
"
    );
    scenario::write(dir, &format!("{name}.yaml"), &text)
}

/// Runs it; kills `victim`, one of tokyo's daemons, when the pings are over; ends it when all run again.
fn works(name: &str, routing: &str, daemons: &[&str], victim: &str) {
    let host = Host::take();
    let before = FRR_FOLDERS.map(picture);
    let dir = tempfile::tempdir().unwrap();
    let file = small(dir.path(), name, routing);
    let mut lab = Lab::up(name, &file, dir.path(), &[]);
    let clock = lab.client().clock().unwrap();
    clock.sleep_until(5.0);

    let killed = daemon(&lab, victim);
    rustix::process::kill_process(Pid::from_raw(killed).unwrap(), Signal::KILL).unwrap();
    let died = until(Duration::from_secs(5), "its death is an event", || {
        event(&lab, "daemon-died", victim)
    });
    assert!(died.contains("tokyo"), "{died}");
    // With zebra the others of its node start anew.
    let again: &[&str] = if victim == "zebra" {
        daemons
    } else {
        &[victim]
    };
    for program in again {
        until(Duration::from_secs(10), "it is started again", || {
            event(&lab, "daemon-restarted", program)
        });
    }
    assert_ne!(daemon(&lab, victim), killed);

    lab.interrupt();
    let summary = lab.summary();
    let convergence = &summary["convergence"];
    // Both ways, both families.
    assert_eq!(convergence["pairs"], 4, "{convergence:#}");
    let flows = summary["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 2);
    for flow in flows {
        assert_eq!(flow["status"], "ok", "{flow:#}");
        let sent = flow["sent_packets"].as_f64().unwrap();
        let lost = flow["loss_ratio"].as_f64().unwrap() * sent;
        // The last may still be on its way when ping ends.
        assert!(sent >= 5.0 && lost < 1.5, "{flow:#}");
    }
    let counted: BTreeMap<&str, u64> = summary["daemons"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["when"] == "end")
        .map(|row| {
            let program = row["program"].as_str().unwrap();
            (program, row["count"].as_u64().unwrap())
        })
        .collect();
    let all_ten = daemons.iter().map(|program| (*program, 10)).collect();
    assert_eq!(counted, all_ten);
    host.assert_as_before(name);
    assert_eq!(FRR_FOLDERS.map(picture), before);
}

#[test]
fn frr_speaks_ospf() {
    let daemons = ["zebra", "ospfd", "ospf6d"];
    works("frr-ospf", "daemon: frr, protocol: ospf", &daemons, "zebra");
}

#[test]
fn bird_speaks_babel() {
    works("babel", "daemon: bird, protocol: babel", &["bird"], "bird");
}

/// What is in a folder, and since when.
fn picture(folder: &str) -> BTreeMap<PathBuf, SystemTime> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let changed = entry.metadata().unwrap().modified().unwrap();
            (entry.path(), changed)
        })
        .collect()
}

/// The event of that kind about one of tokyo's programs.
fn event(lab: &Lab, kind: &str, program: &str) -> Option<String> {
    let text = fs::read_to_string(lab.results.join("events.ndjson")).ok()?;
    let quoted = [kind, "tokyo", program].map(|word| format!("\"{word}\""));
    text.lines()
        .find(|line| quoted.iter().all(|word| line.contains(word.as_str())))
        .map(str::to_owned)
}

/// The process number of one of tokyo's daemons.
fn daemon(lab: &Lab, program: &str) -> i32 {
    let marks = [
        format!("CONSTEL_LAB={}", lab.name),
        "CONSTEL_NODE=tokyo".to_owned(),
    ];
    until(Duration::from_secs(5), "the daemon is there", || {
        fs::read_dir("/proc").unwrap().find_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let has = |mark: &String| environment.split(|b| *b == 0).any(|v| v == mark.as_bytes());
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            (marks.iter().all(has) && name.trim() == program).then_some(pid)
        })
    })
}
