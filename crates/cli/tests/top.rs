//! `constel top` and `constel metrics`: what a running lab's links carry, for people and for Prometheus.

use crate::support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use support::lab::Lab;
use support::{CONSTEL, constel, json, judged, scenario, stderr, stdout, wait};

/// A stream of 8 Mbit/s by a tenth of its links.
const TRAFFIC: &str = "traffic:\n  - {name: stream, at: 0 s, for: 50 s, iperf3: {from: west, to: east, protocol: udp, rate: 8 Mbit/s}}\n";

#[test]
fn a_labs_load_is_shown_and_served() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "top.yaml", "{mode: computed}", TRAFFIC);
    let mut lab = Lab::up("top", &file, dir.path(), &[]);
    let name = lab.name.clone();

    let none = constel(["top", &name, "--every", "10ms"]);
    assert_eq!(none.status.code(), Some(2), "{}", stderr(&none));
    let none = constel(["top", "nobody"]);
    assert_eq!(none.status.code(), Some(2), "{}", stderr(&none));

    // The stream is as fast as it says, on every link of its way, once it runs; frames are larger than what they carry.
    let looks = constel(["top", &name, "--every", "500ms", "--samples", "6", "--json"]);
    assert_eq!(looks.status.code(), Some(0), "{}", stderr(&looks));
    let looks: Vec<Value> = stdout(&looks)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(looks.len(), 6);
    let busiest = &looks[5]["busy"][0];
    let (bps, load) = (
        busiest["carried_bps"].as_f64().unwrap(),
        busiest["load"].as_f64().unwrap(),
    );
    assert!((load - bps / 100e6).abs() < 1e-6, "{busiest}");
    assert!(busiest["from"].as_str().unwrap().contains('/'), "{busiest}");

    let shown = constel(["top", &name, "--samples", "1", "--rows", "2"]);
    let shown = stdout(&shown);
    let rows = shown.lines().skip_while(|line| !line.starts_with("FROM"));
    assert_eq!(rows.filter(|line| line.contains('/')).count(), 2, "{shown}");

    let once = stdout(&constel(["metrics", &name]));
    assert!(once.ends_with("# EOF\n"), "{once}");
    let sample = format!("constel_edge_frames_total{{lab=\"{name}\",fate=\"delivered\"}} ");
    assert!(once.contains(&sample), "{once}");

    let refused = constel(["metrics", &name, "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let mut server = Command::new(CONSTEL)
        .args(["metrics", &name, "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    let mut said = BufReader::new(server.stdout.take().unwrap());
    said.read_line(&mut address).unwrap();
    let mut answer = ureq::get(address.trim()).call().unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let text = answer.body_mut().read_to_string().unwrap();
    assert!(
        text.contains("constel_link_delivered_bytes_total{"),
        "{text}"
    );
    let edges = json(&constel(["show", &name, "--json"]))["edges"].clone();
    assert!(
        text.contains(&format!("constel_edges{{lab=\"{name}\"}} {edges}\n")),
        "{text}"
    );

    let mut watcher = Command::new(CONSTEL)
        .args(["top", &name, "--every", "200ms"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut watched = BufReader::new(watcher.stdout.take().unwrap());
    watched.read_line(&mut String::new()).unwrap();
    // It must not wait for who reads it.
    let watched = std::thread::spawn(move || std::io::copy(&mut watched, &mut std::io::sink()));
    lab.signal(Signal::INT);
    lab.ended();
    if judged(&lab.summary()) {
        assert!((7e6..11e6).contains(&bps), "{busiest}");
    }
    // A watcher ends with the lab; a server, at its next request.
    assert_eq!(wait(&mut watcher).unwrap().code(), Some(0));
    watched.join().unwrap().unwrap();
    let after = ureq::get(address.trim()).call();
    assert!(
        matches!(after, Err(ureq::Error::StatusCode(503))),
        "{after:?}"
    );
    assert_eq!(wait(&mut server).unwrap().code(), Some(0));
}

/// Prometheus itself scrapes a lab: all families are accepted, and the processor time of a node with limits is a series.
#[test]
fn prometheus_reads_a_lab() {
    let found = Command::new("prometheus").arg("--version").output();
    if found.is_err() {
        support::skip("prometheus is not installed (Debian: prometheus)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let more = "limits: {nodes: {west: {processes: 100}}}\n";
    let file = scenario::small(
        dir.path(),
        "scraped.yaml",
        "{mode: computed}",
        &format!("{TRAFFIC}{more}"),
    );
    let mut lab = Lab::up("scraped", &file, dir.path(), &[]);
    let mut server = Command::new(CONSTEL)
        .args(["metrics", &lab.name, "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap());
    let mut address = String::new();
    said.read_line(&mut address).unwrap();
    let target = address.trim().trim_start_matches("http://");
    let target = target.split('/').next().unwrap();
    let config = dir.path().join("prometheus.yml");
    let text = format!(
        "scrape_configs: [{{job_name: lab, scrape_interval: 1s, static_configs: [{{targets: ['{target}']}}]}}]\n"
    );
    std::fs::write(&config, text).unwrap();
    // The port is free again once the listener is dropped.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = free.local_addr().unwrap();
    drop(free);
    let mut prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            dir.path().join("db").display()
        ))
        .arg(format!("--web.listen-address={listen}"))
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let query = |expression: &str| -> Option<Value> {
        let url = format!("http://{listen}/api/v1/query?query={expression}");
        let text = ureq::get(&url)
            .call()
            .ok()?
            .body_mut()
            .read_to_string()
            .ok()?;
        let answer: Value = serde_json::from_str(&text).ok()?;
        let rows = answer["data"]["result"].as_array()?.clone();
        (!rows.is_empty()).then_some(Value::Array(rows))
    };
    let up = support::until("a scrape", || {
        query("up").filter(|rows| rows[0]["value"][1] == "1")
    });
    let series = support::until("the processor time of a node", || {
        query("constel_node_cpu_seconds_total")
    });
    let _ = prometheus.kill();
    wait(&mut prometheus).unwrap();
    lab.signal(Signal::INT);
    lab.ended();
    let _ = server.kill();
    wait(&mut server).unwrap();
    assert_eq!(up[0]["metric"]["job"], "lab");
    assert_eq!(series[0]["metric"]["node"], "west", "{series:#}");
}
