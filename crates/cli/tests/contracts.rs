//! Contracts for scripts: verbs, exit codes, JSON, streams, the results folder (docs/reference/cli.md, cli-labs.md, cli-runs.md).

use crate::support;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use support::host::{Host, LABS};
use support::lab::Lab;
use support::{CONSTEL, constel, json, scenario, stderr, stdout, until, workspace};

const COMPUTED: &str = "{mode: computed}";
const BIRD: &str = "{mode: bird}";

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn check_says_0_or_4_and_where() {
    let dir = tempfile::tempdir().unwrap();
    let good = scenario::sky(dir.path(), 10, "0 s");
    let output = constel(["check".as_ref(), good.as_os_str()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");

    let bad = scenario::small(
        dir.path(),
        "bad.yaml",
        "{mode: computd, speed: 3}",
        "traffic: [{name: x}]\n",
    );
    let output = constel(["check".as_ref(), bad.as_os_str()]);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(stdout(&output), "");
    let text = stderr(&output);
    let start = format!("{}:", bad.display());
    let heads: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(": error: "))
        .collect();
    assert!(heads.len() >= 4, "every error at once:\n{text}");
    for head in heads {
        let place = head
            .strip_prefix(&start)
            .unwrap_or_else(|| panic!("{head}"));
        let mut parts = place.splitn(3, ':');
        for _ in 0..2 {
            let number: u32 = parts.next().unwrap().parse().unwrap();
            assert!(number >= 1);
        }
        assert!(parts.next().unwrap().starts_with(" error: "), "{head}");
    }

    let output = constel(["check".as_ref(), bad.as_os_str(), "--json".as_ref()]);
    assert_eq!(output.status.code(), Some(4));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["ok"], false);
    assert!(document["errors"].as_array().unwrap().len() >= 4);

    let output = constel(["check", "/nowhere/at-all.yaml"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).starts_with("/nowhere/at-all.yaml:1:1: error: "));
}

/// Shape, order and both directions of a plan.
fn assert_plan(file: &Path) {
    let args = |at: &'static str| {
        [
            "plan".into(),
            file.into(),
            "--at".into(),
            at.into(),
            "--json".into(),
        ] as [std::ffi::OsString; 5]
    };
    let output = constel(args("30s"));
    let plan = json(&output);
    assert_eq!(keys(&plan), ["time", "nodes", "edges"]);
    let time = plan["time"].as_str().unwrap();
    assert!(
        time.ends_with(":30Z"),
        "RFC 3339 and 30 s after the start: {time}"
    );

    let nodes = plan["nodes"].as_array().unwrap();
    let mut order = BTreeMap::new();
    for (number, node) in nodes.iter().enumerate() {
        assert_eq!(keys(node), ["name", "kind", "position_itrf_m", "ports"]);
        let height = node["position_itrf_m"].as_array().unwrap().iter();
        let radius = height
            .map(|axis| axis.as_f64().unwrap().powi(2))
            .sum::<f64>()
            .sqrt();
        let known = match node["kind"].as_str().unwrap() {
            "satellite" => 6.5e6..8.5e6,
            "ground" => 6.35e6..6.39e6,
            kind => panic!("{kind}"),
        };
        assert!(known.contains(&radius), "{node}");
        for (port, name) in node["ports"].as_array().unwrap().iter().enumerate() {
            let end = (node["name"].as_str().unwrap(), name.as_str().unwrap());
            assert_eq!(order.insert(end, (number, port)), None, "{end:?} twice");
        }
    }

    let mut delays = BTreeMap::new();
    let mut last = None;
    for edge in plan["edges"].as_array().unwrap() {
        assert_eq!(
            keys(edge),
            [
                "from_node",
                "from_port",
                "to_node",
                "to_port",
                "kind",
                "delay_ns",
                "rate_bps",
                "loss_ratio"
            ]
        );
        let text = |key: &str| edge[key].as_str().unwrap();
        let (from, to) = (
            (text("from_node"), text("from_port")),
            (text("to_node"), text("to_port")),
        );
        let place = Some((order[&from], order[&to]));
        assert!(last < place, "sorted: {edge}");
        last = place;
        assert!(["isl", "gsl"].contains(&text("kind")));
        assert!(edge["rate_bps"].as_u64().unwrap() > 0);
        assert!((0.0..=1.0).contains(&edge["loss_ratio"].as_f64().unwrap()));
        delays.insert((from, to), edge["delay_ns"].as_u64().unwrap());
    }
    assert!(!delays.is_empty());
    for (&(from, to), delay) in &delays {
        assert_eq!(
            delays.get(&(to, from)),
            Some(delay),
            "both directions of {from:?} {to:?}"
        );
    }

    assert!(
        constel(args("30s")).stdout == output.stdout,
        "the same plan twice"
    );
    assert!(
        constel(args("31s")).stdout != output.stdout,
        "the sky moves"
    );
}

#[test]
fn a_plan_has_its_shape_is_sorted_and_the_same_twice() {
    let dir = tempfile::tempdir().unwrap();
    assert_plan(&scenario::sky(dir.path(), 60, "0 s"));
    assert_plan(&workspace().join("scenarios/iridium.yaml"));
}

#[test]
fn plan_refuses_times_that_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::sky(dir.path(), 10, "0 s");
    for at in ["30", "soon", "-1s"] {
        let at = format!("--at={at}");
        let output = constel(["plan".as_ref(), file.as_os_str(), at.as_ref()]);
        assert_eq!(output.status.code(), Some(2), "{at}: {}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
}

fn row(lab: &str) -> Option<Value> {
    let rows = json(&constel(["list", "--json"]));
    let mut rows = rows.as_array().unwrap().iter();
    rows.find(|row| row["lab"] == lab).cloned()
}

/// Runs a command in a node with this on its standard input.
fn exec(lab: &Lab, node: &str, command: &[&str], input: &[u8]) -> std::process::Output {
    let mut child = Command::new(CONSTEL)
        .args(["exec", &lab.name, node, "--"])
        .args(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A command that reads nothing closes it early.
            drop(stdin.write_all(input));
        });
        child.wait_with_output().unwrap()
    })
}

#[test]
fn exec_passes_streams_and_exit_code_unchanged() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "exec.yaml", COMPUTED, "");
    let lab = Lab::up("exec", &file, dir.path(), &[]);

    let bytes: Vec<u8> = (0..300_000u32).map(|n| (n * 7 % 251) as u8).collect();
    let output = exec(&lab, "west", &["cat"], &bytes);
    assert!(
        output.stdout == bytes,
        "300 kB of any bytes, through and back"
    );
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), "")
    );

    let output = exec(
        &lab,
        "west",
        &["sh", "-c", "printf out; printf err >&2; exit 42"],
        b"",
    );
    assert_eq!(stdout(&output), "out");
    assert_eq!(stderr(&output), "err");
    assert_eq!(output.status.code(), Some(42));

    let output = exec(&lab, "west", &["false", "--json"], b"");
    assert_eq!(
        output.status.code(),
        Some(1),
        "flags of the command are the command's"
    );

    // The node's own network and nothing else's; names of nodes.
    let output = exec(&lab, "west", &["ls", "/sys/class/net"], b"");
    assert_eq!(stdout(&output), "gsl0\nlo\n");
    let output = exec(&lab, "west", &["getent", "hosts", "east"], b"");
    assert!(stdout(&output).contains("east"), "{}", stdout(&output));
    let output = exec(
        &lab,
        "west",
        &["ping", "-c", "2", "-i", "0.2", "-w", "10", "east"],
        b"",
    );
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let output = exec(&lab, "sat-p00-s00", &["cat", "/etc/hosts"], b"");
    for name in lab.nodes() {
        assert!(
            stdout(&output).split_whitespace().any(|word| word == name),
            "{name}"
        );
    }
    let own = std::fs::read_to_string("/etc/hosts").unwrap();
    assert!(
        !own.contains("sat-p00-s00"),
        "the host's own file is as it was"
    );

    let output = exec(&lab, "west", &["/no/such/program"], b"");
    assert!(!matches!(output.status.code(), Some(0) | None));
    assert!(
        stderr(&output).contains("/no/such/program"),
        "{}",
        stderr(&output)
    );

    let output = exec(&lab, "wset", &["true"], b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("did you mean 'west'"),
        "{}",
        stderr(&output)
    );
    let output = constel(["exec", &format!("{}x", lab.name), "west", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    let near = format!("did you mean '{}'", lab.name);
    assert!(stderr(&output).contains(&near), "{}", stderr(&output));
    for verb in ["show", "events", "down", "link", "clean"] {
        let nodes: &[&str] = if verb == "link" { &["a", "b"] } else { &[] };
        let output = constel([&[verb, "no-lab-of-this-name"], nodes].concat());
        assert_eq!(output.status.code(), Some(2), "{verb}: {}", stderr(&output));
    }
    // A wrong name takes none of several labs down.
    let output = constel(["down", &lab.name, "no-lab-of-this-name"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(row(&lab.name).is_some(), "it is still there");
    drop(lab);
    host.assert_as_before("after exec");
}

#[test]
fn a_lab_answers_from_start_to_down() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let traffic = "traffic:\n  - {name: ping, at: 1 s, for: 2 s, ping: {from: west, to: east, interval: 100 ms}}\n";
    let file = scenario::small(dir.path(), "answers.yaml", BIRD, traffic);
    let mut lab = Lab::start("answers", &file, dir.path(), &[]);
    let name = lab.name.clone();
    let early = until("it is listed", || row(&name));
    assert_eq!(
        keys(&early),
        ["lab", "state", "scenario", "pid", "nodes", "edges"]
    );
    assert_eq!(early["state"], "starting");
    assert_eq!(early["pid"], lab.child.id());
    lab.wait_running();
    let now = row(&name).unwrap();
    assert_eq!(now["state"], "running");
    assert_eq!(now["nodes"], 14);
    assert_eq!(now["edges"], 28);
    assert!(now["scenario"].as_str().unwrap().ends_with("answers.yaml"));

    let shown = json(&constel(["show", &name, "--json"]));
    assert_eq!(shown["state"], "running");
    assert!(shown["t_ns"].as_u64().is_some());
    let nodes = shown["node_list"].as_array().unwrap();
    assert_eq!(nodes.len(), 14);
    for node in nodes {
        assert!(
            node["ipv4"]
                .as_str()
                .unwrap()
                .parse::<std::net::Ipv4Addr>()
                .is_ok()
        );
        assert!(
            node["ipv6"]
                .as_str()
                .unwrap()
                .parse::<std::net::Ipv6Addr>()
                .is_ok()
        );
    }
    assert!(stdout(&constel(["show", &name])).contains("sat-p00-s00"));

    let link = json(&constel([
        "link",
        &name,
        "sat-p00-s00",
        "sat-p00-s01",
        "--json",
    ]));
    assert_eq!(link["up"], true);
    let edges = link["edges"].as_array().unwrap();
    assert_eq!(edges.len(), 2, "both directions");
    for edge in edges {
        assert_eq!(edge["rate_bps"], 100_000_000);
        assert!(edge["delay_ns"].as_u64().unwrap() > 1_000_000);
    }
    let dark = json(&constel(["link", &name, "west", "sat-p00-s00", "--json"]));
    assert_eq!(dark["up"], false);
    assert!(!dark["why"].as_str().unwrap().is_empty());
    let output = constel(["link", &name, "west", "sat-p00-s0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("nearest is 'sat-p00-s0"),
        "{}",
        stderr(&output)
    );

    until("the ping has ended", || {
        let output = constel(["events", &name, "--json"]);
        stdout(&output).contains("\"flow-ended\"").then_some(())
    });
    let events: Vec<Value> = stdout(&constel(["events", &name, "--json"]))
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], number + 1);
        assert!(event["wall"].as_str().unwrap().ends_with('Z'));
    }
    let kinds: Vec<&str> = events.iter().map(|e| e["kind"].as_str().unwrap()).collect();
    let wanted = [
        "starting",
        "edges-up",
        "daemons-started",
        "routes-converged",
        "running",
        "clock-started",
        "flow-started",
        "flow-ended",
    ];
    let mut rest = kinds.iter();
    for kind in wanted {
        assert!(
            rest.any(|seen| *seen == kind),
            "{kind} in its turn: {kinds:?}"
        );
    }

    let start = Instant::now();
    let down = json(&constel(["down", &name, "--json"]));
    assert_eq!(down["down"], true);
    assert!(row(&name).is_none(), "down means gone");
    println!("down took {:.2} s", start.elapsed().as_secs_f64());
    let status = lab.ended();
    assert!(
        matches!(status.code(), Some(0 | 3 | 130)),
        "{status}: {}",
        lab.stderr()
    );
    host.assert_as_before("after down");
}

#[test]
fn results_are_where_and_what_they_should_be() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let traffic = "traffic:
  - {name: hello, at: 0 s, for: 1 s, run: {node: west, command: [echo, hello]}}
  - {name: ping, at: 0 s, for: 2 s, ping: {from: west, to: east, interval: 100 ms}}
";
    let file = scenario::small(dir.path(), "results.yaml", COMPUTED, traffic);
    let mut lab = Lab::start("results", &file, dir.path(), &["--for", "4s"]);
    let code = lab.ended().code();
    assert!(matches!(code, Some(0 | 3)), "{code:?} {}", lab.stderr());
    let summary = lab.summary();
    let verdict = &summary["verdict"];
    assert_eq!(
        verdict["trustworthy"],
        code == Some(0),
        "the exit code is the verdict"
    );
    assert_eq!(
        verdict["reasons"].as_array().unwrap().is_empty(),
        code == Some(0)
    );
    let flows = summary["flows"].as_array().unwrap();
    let flow = |name: &str| flows.iter().find(|flow| flow["name"] == name).unwrap();
    assert_eq!(flow("hello")["status"], "ok", "{}", flow("hello"));
    let ping = flow("ping");
    assert_eq!(ping["status"], "ok", "{ping}");
    let bound = ping["bound_rtt"]["min_ns"].as_f64().unwrap();
    let best = ping["rtt"]["min_ns"].as_f64().unwrap();
    assert!(
        bound > 1e7 && best >= bound - 1e5,
        "faster than light: {best} {bound}"
    );
    let raw = |name: &str| std::fs::read_to_string(lab.results.join(name)).unwrap();
    assert_eq!(raw("flows/hello.out"), "hello\n");
    assert!(raw("flows/ping.out").contains(",ok\n"));
    assert_eq!(
        raw("scenario.yaml"),
        std::fs::read_to_string(&file).unwrap()
    );
    let manifest: Value = serde_json::from_str(&raw("manifest.json")).unwrap();
    assert_eq!(manifest["lab"], lab.name.as_str());
    assert_eq!(manifest["seed"], 3);
    assert_eq!(manifest["driver"]["name"], "relay");
    for (number, line) in raw("events.ndjson").lines().enumerate() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["seq"], number + 1);
    }
    let listed = json(&constel([
        "results".as_ref(),
        dir.path().as_os_str(),
        "--json".as_ref(),
    ]));
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["lab"], lab.name.as_str());
    let one = json(&constel([
        "results".as_ref(),
        lab.results.as_os_str(),
        "--json".as_ref(),
    ]));
    assert_eq!(one, summary);

    // No traffic: no flows. The folder must not exist, and what is in it stays.
    let mut quiet = Lab::start("quiet", &file, dir.path(), &["--no-traffic", "--for", "1s"]);
    let begun = Instant::now();
    assert!(
        matches!(quiet.ended().code(), Some(0 | 3)),
        "{}",
        quiet.stderr()
    );
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(quiet.summary()["flows"].as_array().unwrap().len(), 0);
    assert_eq!(quiet.summary()["lab_time_ns"], 1_000_000_000u64);
    let mut again = Lab::start("quiet", &file, dir.path(), &["--for", "1s"]);
    assert_eq!(again.ended().code(), Some(1));
    assert!(again.stderr().contains("exists"), "{}", again.stderr());
    assert_eq!(again.summary(), quiet.summary());
    host.assert_as_before("after the runs");
}

#[test]
fn ctrl_c_at_any_time_is_130_and_leaves_nothing() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let traffic = "traffic:\n  - {name: ping, at: 0 s, for: 50 s, ping: {from: west, to: east, interval: 100 ms}}\n";
    let file = scenario::small(dir.path(), "ctrl-c.yaml", BIRD, traffic);
    // While nodes are made, while BIRDs start, while they talk.
    for (number, after_ms) in [20, 80, 160, 300, 2000].into_iter().enumerate() {
        let mut lab = Lab::start(&format!("early-{number}"), &file, dir.path(), &[]);
        until("it has its name", || lab.state());
        std::thread::sleep(Duration::from_millis(after_ms));
        assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
        host.assert_as_before(&format!("Ctrl-C after {after_ms} ms"));
    }
    let mut lab = Lab::up("late", &file, dir.path(), &[]);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    assert_eq!(lab.summary()["interrupted"], true);
    host.assert_as_before("Ctrl-C while it ran");
    // The signals of a terminal that goes away and of a service manager have the same effect.
    for (name, signal) in [("hup", Signal::HUP), ("term", Signal::TERM)] {
        let quick = scenario::small(dir.path(), "quick.yaml", COMPUTED, "");
        let mut lab = Lab::up(name, &quick, dir.path(), &[]);
        lab.signal(signal);
        assert_eq!(lab.ended().code(), Some(130), "{}", lab.stderr());
        host.assert_as_before(name);
    }
    assert!(row(&format!("{LABS}late")).is_none());
}
