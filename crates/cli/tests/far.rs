//! Lab times far from the start, and labs of long duration: an answer or a refusal within seconds, an end at once.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::host::Host;
use support::lab::Lab;
use support::{CONSTEL, Stopwatch, constel, json, scenario, stderr, until};

/// 24 satellites, two stations, steps of 10 ms.
fn scenario(dir: &Path, name: &str, policy: &str, duration: &str, routing: &str) -> PathBuf {
    let text = format!(
        "constel: 1
name: far
seed: 3
start: 2026-11-21T00:00:00Z
duration: {duration}
step: 10 ms
constellations:
  sat:
    walker: {{pattern: delta, inclination: 60 deg, satellites: 24, planes: 4, phasing: 1, altitude: 1400 km}}
    isl: {{pattern: plus-grid, link: {{rate: 100 Mbit/s, queue: 256 KiB}}}}
    gsl: {{min_elevation: 5 deg, {policy}, link: {{rate: 100 Mbit/s, queue: 256 KiB}}}}
ground:
  stations:
    west: {{latitude: -48 deg, longitude: 148 deg}}
    east: {{latitude: -42 deg, longitude: -124 deg}}
routing: {routing}
"
    );
    scenario::write(dir, name, &text)
}

const COMPUTED: &str = "{mode: computed}";
const BIRD: &str = "{mode: bird, ospf: {hello: 1 s, dead: 4 s}}";
const HYSTERESIS: &str = "policy: {hysteresis: 5 deg}";
const LEAST_LOADED: &str = "policy: least-loaded";

/// A small lab is down by then, on a busy machine too.
const SOON: Duration = Duration::from_secs(3);

#[test]
fn a_plan_a_year_ahead_is_an_answer_or_a_refusal() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), "answers.yaml", HYSTERESIS, "60 s", COMPUTED);
    let file = file.to_str().unwrap();
    let plan = json(&constel(["plan", file, "--at", "366d", "--json"]));
    assert_eq!(plan["time"], "2027-11-22T00:00:00Z");
    let up = plan["edges"].as_array().unwrap();
    assert!(up.iter().any(|edge| edge["kind"] == "gsl"), "{plan}");
    let interval = [
        "plan",
        file,
        "--pairs",
        "west-east",
        "--from",
        "365d",
        "--to",
        "366d",
    ];
    let csv = constel(interval.into_iter().chain(["--every", "1h", "--csv"]));
    assert_eq!(csv.status.code(), Some(0), "{}", stderr(&csv));
    assert_eq!(String::from_utf8_lossy(&csv.stdout).lines().count(), 25);

    let file = scenario(dir.path(), "refuses.yaml", LEAST_LOADED, "60 s", COMPUTED);
    let file = file.to_str().unwrap();
    for args in [
        &["plan", file, "--at", "366d"][..],
        &["plan", file, "--at", "366d", "--export", "svg"],
        &[
            "plan",
            file,
            "--pairs",
            "west-east",
            "--from",
            "365d",
            "--to",
            "366d",
        ],
    ] {
        let begun = Stopwatch::begin();
        let refused = constel(args);
        begun.assert_within(Duration::from_secs(2), "a refusal of a plan");
        let words = stderr(&refused);
        assert!(refused.status.code() == Some(2), "{args:?}: {words}");
        assert!(
            words.contains("ask before") && words.contains("nearest"),
            "{words}"
        );
    }
}

/// Starts a verb and gives its process.
fn ask(args: &[&str]) -> Child {
    let mut command = Command::new(CONSTEL);
    command.args(args).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Threads of a process that answer clients.
fn answering(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let names = tasks.map(|task| fs::read_to_string(task.path().join("comm")).unwrap_or_default());
    names.filter(|name| name.trim() == "api-client").count()
}

#[test]
fn a_lab_refuses_what_takes_too_long() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), "refused.yaml", LEAST_LOADED, "600 s", COMPUTED);
    let mut lab = Lab::up("refused", &file, dir.path(), &[]);
    let begun = Stopwatch::begin();
    let refused = constel(["path", &lab.name, "west", "east", "--at", "366d"]);
    begun.assert_within(Duration::from_secs(2), "a refusal of a path");
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("ask before"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(lab.interrupt().code(), Some(130));
    host.assert_as_before("a lab that refused");
}

#[test]
fn no_question_keeps_a_lab_from_going_down() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    // Every satellite breaks and is mended every second: some 400 million times until the requested time.
    let flicker = "{mode: computed}
failures:
  - {name: flicker, satellites: sat, mtbf: 1 s, mttr: 1 s}";
    let file = scenario(
        dir.path(),
        "asked.yaml",
        "policy: nearest",
        "600 s",
        flicker,
    );
    let mut lab = Lab::up("asked", &file, dir.path(), &[]);
    let name = lab.name.clone();
    let far = ["path", &name, "west", "east", "--at", "300 d"];
    let mut leaves = ask(&far);
    let asked = || (answering(lab.child.id()) > 0).then_some(());
    until("it is asked", asked);
    std::thread::sleep(Duration::from_millis(300));
    let answered = leaves.try_wait().unwrap();
    assert!(
        answered.is_none(),
        "a question that takes no time shows nothing"
    );
    leaves.kill().unwrap();
    leaves.wait().unwrap();
    until("who left is forgotten", || {
        (answering(lab.child.id()) == 0).then_some(())
    });
    let mut stay: Vec<Child> = (0..4).map(|_| ask(&far)).collect();
    until("all are asked", || {
        (answering(lab.child.id()) == 4).then_some(())
    });
    let asked = Stopwatch::begin();
    let down = constel(["down", &name]);
    asked.assert_within(SOON, "down");
    assert_eq!(down.status.code(), Some(0), "{}", stderr(&down));
    // On a busy machine steps of 10 ms are late: 3.
    assert!(matches!(lab.ended().code(), Some(0 | 3 | 130)));
    for mut client in stay.drain(..) {
        assert!(!client.wait().unwrap().success(), "it was told why");
    }
    host.assert_as_before("a lab that was asked");
}

/// A year of steps of 10 ms before a routing daemon is started: seconds, and none after Ctrl-C.
#[test]
fn daemons_of_a_lab_of_a_year_start_within_seconds() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), "year.yaml", HYSTERESIS, "366 d", BIRD);
    let mut lab = Lab::start("year", &file, dir.path(), &[]);
    let events = lab.results.join("events.ndjson");
    let said = |what: &str| {
        let text = fs::read_to_string(&events).unwrap_or_default();
        text.contains(what).then_some(())
    };
    until("the first edges", || said("edges-up"));
    let begun = Instant::now();
    until("daemons", || said("daemons-started"));
    eprintln!("daemons after {:?}", begun.elapsed());
    let asked = Stopwatch::begin();
    let status = lab.interrupt();
    asked.assert_within(2 * SOON, "its end with daemons");
    assert_eq!(status.code(), Some(130));
    // Again, and Ctrl-C while satellites are looked for.
    let mut lab = Lab::start("year-2", &file, dir.path(), &[]);
    let events = lab.results.join("events.ndjson");
    until("the first edges", || {
        let text = fs::read_to_string(&events).unwrap_or_default();
        text.contains("edges-up").then_some(())
    });
    let asked = Stopwatch::begin();
    let status = lab.interrupt();
    asked.assert_within(2 * SOON, "its end without daemons");
    assert_eq!(status.code(), Some(130));
    host.assert_as_before("a lab of a year");
}
