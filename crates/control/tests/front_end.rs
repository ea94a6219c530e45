//! The work of a front end, from loading a scenario to reading its results: a lab in this process, another program's view
//! of it, and the end by a request. Makes network namespaces: needs root.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use constel_api::EventData;
use constel_control::{Error, Lab, Observer, Quiet, RunOptions, Running, Scenario, results};

const SCENARIO: &str = "constel: 1
name: front-end
seed: 3
start: 2026-11-21T00:00:00Z
duration: 60 s
step: 1 s
constellations:
  sat:
    walker: {pattern: delta, inclination: 60 deg, satellites: 12, planes: 2, phasing: 0, altitude: 1400 km}
    isl: {pattern: plus-grid, link: {rate: 100 Mbit/s, queue: 256 KiB}}
    gsl: {min_elevation: 5 deg, policy: nearest, link: {rate: 100 Mbit/s, queue: 256 KiB}}
ground:
  stations:
    west: {latitude: -48 deg, longitude: 148 deg}
    east: {latitude: -42 deg, longitude: -124 deg}
routing: {mode: computed}
traffic:
  - {name: ping, at: 0 s, for: 2 s, ping: {from: west, to: east, interval: 100 ms, tool: ping}}
";

fn start(dir: &std::path::Path, seconds: u64) -> Running {
    let scenario = Scenario::from_text("front-end.yaml", SCENARIO, dir).unwrap();
    let options = RunOptions {
        name: Some(format!("front-end-{}", std::process::id())),
        results: Some(dir.join("run")),
        duration_ns: NonZeroU64::new(seconds * 1_000_000_000),
        ..RunOptions::default()
    };
    scenario.start(options, Arc::new(Quiet)).unwrap()
}

/// Both share one name, so one after the other.
#[test]
fn a_front_end_runs_follows_asks_and_reads() {
    let dir = tempfile::tempdir().unwrap();
    runs_to_its_end_and_is_read_back(&dir.path().join("whole"));
    is_asked_changed_and_ended_by_another(&dir.path().join("ended"));
}

fn runs_to_its_end_and_is_read_back(dir: &std::path::Path) {
    std::fs::create_dir(dir).unwrap();
    let running = start(dir, 4);
    let events: Vec<_> = running.events().collect();
    let finished = running.wait().unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    let last = events.last().map(|event| &event.what);
    assert!(matches!(last, Some(EventData::Finished { .. })), "{last:?}");
    let run = results::Run::open(&finished.results).unwrap();
    assert_eq!(run.summary().unwrap(), finished.summary);
    assert_eq!(run.manifest().unwrap().seed, 3);
    let kept: Vec<_> = run.events().unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(kept, events);
    let ping = &finished.summary.flows[0].outcome;
    assert!(ping.sent_packets > Some(10), "{ping:?}");
}

fn is_asked_changed_and_ended_by_another(dir: &std::path::Path) {
    std::fs::create_dir(dir).unwrap();
    let running = start(dir, 60);
    let up = |event: &constel_api::Event| matches!(event.what, EventData::ClockStarted);
    assert!(running.events().any(|event| up(&event)));
    let observer = Observer::attach(running.name()).unwrap();
    let shown = observer.show().unwrap();
    assert_eq!(shown.lab.nodes, 14);
    let path = observer.path("west", "east", None).unwrap();
    assert!(path.kernel.iter().all(|way| way.arrived), "{path:?}");
    let error = observer.routes("wset").unwrap_err();
    assert!(error.to_string().contains("nearest is 'west'"), "{error}");
    let hop = &path.kernel[0].hops[1];
    let lab = Lab::attach(running.name()).unwrap();
    lab.fail(&hop.from, Some(&hop.to)).unwrap();
    let round = |path: constel_api::answers::Paths| {
        let mut hops = path.kernel.iter().flat_map(|way| &way.hops);
        hops.all(|next| (&next.from, &next.to) != (&hop.from, &hop.to))
    };
    let end = Instant::now() + Duration::from_secs(240);
    while !round(observer.path("west", "east", None).unwrap()) {
        assert!(Instant::now() < end, "routes lead round what failed");
        std::thread::sleep(Duration::from_millis(10));
    }
    lab.down().unwrap();
    assert!(running.wait().unwrap().summary.interrupted);
    assert!(matches!(
        Observer::attach("front-end-nobody"),
        Err(Error::NoLab { .. })
    ));
}
