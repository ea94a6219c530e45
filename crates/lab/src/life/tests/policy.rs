//! Whole runs that a live policy decides over the lab's socket, and their replays.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use constel_api::summary::Summary;
use serde_json::{Value, json};

use super::*;

/// Two stations, and routes that a policy may set.
const SCENARIO: &str = "\
constel: 1
name: paper
start: 2026-11-21T00:00:00Z
duration: 5 s
step: 1 s
constellations:
  k:
    walker: {pattern: star, altitude: 780 km, inclination: 86.4 deg, satellites: 66, planes: 6, phasing: 2}
    isl: {pattern: plus-grid, link: {rate: 10 Mbit/s}}
    gsl: {min_elevation: 10 deg, link: {rate: 10 Mbit/s}}
ground:
  stations:
    london: {latitude: 51.5 deg, longitude: -0.1 deg}
    lagos: {latitude: 6.5 deg, longitude: 3.4 deg}
";

/// A policy in a thread, which ends with the lab or by itself.
struct Client {
    lines: BufReader<UnixStream>,
}

impl Client {
    /// Joins the lab of a run in this folder, as soon as it can, and returns the lab's answer.
    fn join(folder: &Path, order: &Value) -> (Self, Value) {
        let socket = folder.join("run/paper/api.sock");
        let began = Instant::now();
        loop {
            assert!(
                began.elapsed() < Duration::from_secs(240),
                "the lab is not up"
            );
            let Ok(stream) = UnixStream::connect(&socket) else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            let mut client = Self {
                lines: BufReader::new(stream),
            };
            client.send(order);
            let answer = client.next().unwrap();
            if answer["code"] != "coming-up" {
                return (client, answer);
            }
        }
    }

    fn send(&self, line: &Value) {
        // A lab that has ended takes nothing.
        let _ = writeln!(self.lines.get_ref(), "{line}");
    }

    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let got = self.lines.read_line(&mut line).unwrap_or(0);
        (got > 0).then(|| serde_json::from_str(&line).unwrap())
    }
}

/// Runs the scenario in `folder`, with a policy beside it.
fn beside<T: Send + 'static>(
    folder: &Path,
    text: &str,
    await_policy: bool,
    policy: impl FnOnce(std::path::PathBuf) -> T + Send + 'static,
) -> (Summary, T) {
    let path = folder.to_owned();
    let thread: JoinHandle<T> = std::thread::spawn(move || policy(path));
    let options = Options {
        await_policy,
        duration_ns: Some(5_000_000_000),
        ..options(text, folder)
    };
    let lab = at(folder, text);
    let (ran, _) = run_with(&Paper::default(), folder, lab, &options, &Silent);
    let summary = ran.unwrap_or_else(|error| panic!("{error}")).summary;
    (summary, thread.join().unwrap())
}

/// Returns the lab of a text whose files are in a folder.
fn at(folder: &Path, text: &str) -> Lab {
    let path = folder.join("test.yaml");
    let path = path.to_str().unwrap();
    let parsed = constel_scenario::parse(path, text).unwrap_or_else(|e| panic!("{e}"));
    let files = constel_scenario::DiskFiles::beside(path);
    let scenario = constel_scenario::resolve(&parsed, &files).unwrap_or_else(|e| panic!("{e}"));
    Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"))
}

/// Attaches each station to its lowest satellite, which no rule does, and switches a laser with each step.
fn lowest(path: std::path::PathBuf) -> Vec<u64> {
    let order =
        json!({"verb": "policy", "name": "lowest", "wants": ["stations", "edges", "positions"]});
    let (mut client, joined) = Client::join(&path, &order);
    assert_eq!(joined["ok"], true, "{joined}");
    let joined = &joined["data"];
    assert_eq!(joined["within_ns"], 500_000_000);
    assert_eq!(
        [&joined["attachments"], &joined["links"], &joined["routes"]],
        [true; 3]
    );
    let (_, second) = Client::join(&path, &order);
    assert_eq!(second["error"], "the policy `lowest` decides for this lab");
    let mut steps = Vec::new();
    let mut laser = None;
    while let Some(line) = client.next() {
        let state = &line["data"];
        let step = state["step"].as_u64().unwrap();
        assert_eq!(state["t_ns"].as_u64().unwrap(), step * 1_000_000_000);
        assert_eq!(state["positions_m"].as_array().unwrap().len(), 68);
        let edges = state["edges"].as_array().unwrap();
        assert!(edges.len() > 100 && edges[0]["rate_bps"] == 10_000_000);
        let is_laser = |edge: &&Value| edge["port"].as_str().unwrap().starts_with("isl");
        let (a, b) = laser.get_or_insert_with(|| {
            let edge = edges.iter().find(is_laser).unwrap();
            (edge["from"].clone(), edge["to"].clone())
        });
        let up = |edge: &Value| edge["from"] == *a && edge["to"] == *b;
        // The decisions before are in force.
        let was_up = edges.iter().any(up);
        assert_eq!(was_up, step % 2 == 1, "step {step}");
        let mut attachments = serde_json::Map::new();
        let mut routes = Vec::new();
        for own in state["stations"].as_array().unwrap() {
            let candidates = own["candidates"].as_array().unwrap();
            let elevation = |c: &&Value| (c["elevation_deg"].as_f64().unwrap() * 1e6) as i64;
            let lowest = candidates.iter().min_by_key(elevation).unwrap();
            let station = own["station"].as_str().unwrap();
            if step > 1 {
                assert_eq!(own["serving"].as_array().unwrap().len(), 1);
            }
            attachments.insert(station.to_owned(), json!([lowest["satellite"]]));
            let to = if station == "london" {
                "lagos"
            } else {
                "london"
            };
            routes.push(json!({"node": station, "destination": to, "next": lowest["satellite"]}));
        }
        steps.push(step);
        client.send(&json!({
            "step": step, "attachments": attachments, "routes": routes,
            "links": [{"a": b, "b": a, "up": step % 2 == 0}],
        }));
    }
    steps
}

#[test]
fn a_run_replays_from_the_decisions_of_its_policy() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("none.csv"),
        "t_s,node,destination,next\n",
    )
    .unwrap();
    let text = format!("{SCENARIO}routing: {{choices: none.csv}}\n");
    let (summary, steps) = beside(folder.path(), &text, true, lowest);
    let [policy] = &summary.policies[..] else {
        panic!("{:?}", summary.policies)
    };
    assert_eq!(steps, [1, 2, 3, 4]);
    assert_eq!(
        (policy.steps, policy.decided, policy.late),
        (4, 4, 0),
        "{policy:?}"
    );
    assert!(policy.stayed && policy.changes >= 4 && policy.answer_ns.is_some());
    assert_eq!(summary.fidelity.failures, [""; 0]);
    let plans = summary.plans.unwrap();
    assert_eq!(plans.steps, 5);

    // The replay needs no policy, and has the same plan to the byte.
    let choices = folder.path().join("results/choices");
    let again = tempfile::tempdir().unwrap();
    let choices = choices.display();
    let ground = format!("ground:\n  choices: {choices}/stations.csv\n");
    let text = SCENARIO.replace("ground:\n", &ground);
    let text = format!(
        "{text}routing: {{choices: {choices}/routes.csv}}\nlinks: {{choices: {choices}/links.csv}}\n"
    );
    let refused =
        |path: std::path::PathBuf| Client::join(&path, &json!({"verb": "policy", "name": "p"})).1;
    let (replayed, joined) = beside(again.path(), &text, false, refused);
    assert_eq!(replayed.plans, Some(plans));
    // It may join, and nothing is left to it.
    let joined = &joined["data"];
    assert_eq!(
        [&joined["attachments"], &joined["links"], &joined["routes"]],
        [false; 3]
    );
    let ruled = tempfile::tempdir().unwrap();
    let text = format!("{SCENARIO}links: {{choices: {choices}/links.csv}}\n");
    let (other, ()) = beside(ruled.path(), &text, false, drop);
    assert_ne!(other.plans, replayed.plans, "the decisions matter");
}

#[test]
fn a_policy_that_is_late_or_wrong_or_gone_makes_the_run_doubtful() {
    let folder = tempfile::tempdir().unwrap();
    let client = |path: std::path::PathBuf| {
        let order = json!({"verb": "policy", "name": "slow", "within_ns": 1_000_000, "wants": []});
        let too_long = json!({"verb": "policy", "name": "slow", "within_ns": 500_000_001});
        let (_, refused) = Client::join(&path, &too_long);
        assert!(
            refused["error"]
                .as_str()
                .unwrap()
                .contains("at most 500 ms"),
            "{refused}"
        );
        let (mut client, _) = Client::join(&path, &order);
        let first = client.next().unwrap();
        assert_eq!(first["data"]["step"], 1);
        // The second state comes although the first has no answer, and counts it.
        let second = client.next().unwrap();
        assert_eq!(
            (&second["data"]["step"], &second["data"]["late"]),
            (&json!(2), &json!(1))
        );
        // Late, once its time has passed, and then not understood.
        std::thread::sleep(Duration::from_millis(50));
        client.send(&json!({"step": 1}));
        client.send(&json!({"step": 2, "links": 7}));
        let refused = client.next().unwrap();
        assert_eq!(refused["code"], "bad-request", "{refused}");
        // The connection breaks without notice.
    };
    let (summary, ()) = beside(folder.path(), SCENARIO, true, client);
    let policy = &summary.policies[0];
    assert_eq!((policy.decided, policy.stayed), (0, false), "{policy:?}");
    assert_eq!(
        (policy.late, policy.refused),
        (policy.steps, 1),
        "{policy:?}"
    );
    assert!(!summary.verdict.trustworthy);
    let failure = &summary.fidelity.failures[0];
    assert!(
        failure.contains(&format!(
            "`slow` did not answer within 1 ms in {0} of {0} steps",
            policy.steps
        )),
        "{failure}"
    );
    assert!(
        failure.contains("1 answers that were refused, and ended without leaving"),
        "{failure}"
    );
    assert!(
        !folder.path().join("results/choices").exists(),
        "nothing was decided"
    );
}

#[test]
fn a_policy_that_leaves_on_purpose_makes_room_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let client = |path: std::path::PathBuf| {
        for (name, station) in [("first", "london"), ("second", "lagos")] {
            let order = json!({"verb": "policy", "name": name, "wants": ["stations"]});
            let (mut client, mut joined) = Client::join(&path, &order);
            while joined["ok"] == false {
                std::thread::sleep(Duration::from_millis(20));
                (client, joined) = Client::join(&path, &order);
            }
            let state = client.next().unwrap();
            let step = &state["data"]["step"];
            client.send(&json!({"step": step, "attachments": {station: []}}));
            client.send(&json!({"step": 0, "leave": true}));
            assert!(client.next().is_none(), "the lab ends the connection");
        }
    };
    let (summary, ()) = beside(folder.path(), SCENARIO, true, client);
    let names: Vec<&str> = summary
        .policies
        .iter()
        .map(|own| own.name.as_str())
        .collect();
    assert_eq!(names, ["first", "second"]);
    assert!(
        summary
            .policies
            .iter()
            .all(|own| own.stayed && own.changes == 1)
    );
    let stations =
        std::fs::read_to_string(folder.path().join("results/choices/stations.csv")).unwrap();
    let rows: Vec<&str> = stations.lines().collect();
    assert_eq!(
        (rows[0], rows[1], rows.len()),
        ("t_s,station,satellites", "1,london,", 3)
    );
    assert!(rows[2].ends_with(",lagos,"));
}
