//! `plan` over an interval, exports and imports, as scripts call them. No root.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn constel(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_constel"))
        .args(args)
        .output()
        .unwrap()
}

fn good(args: &[&str]) -> String {
    let output = constel(args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn code(args: &[&str]) -> i32 {
    let output = constel(args);
    assert!(output.stdout.is_empty(), "{args:?} failed and printed data");
    output.status.code().unwrap()
}

fn root(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join(path).to_str().unwrap().to_owned()
}

#[test]
fn intervals_print_one_document_or_a_table() {
    let file = root("scenarios/iridium.yaml");
    let json = |args: &[&str]| -> Value { serde_json::from_str(&good(args)).unwrap() };
    let contacts = json(&["plan", &file, "--contacts", "--to", "30s", "--json"]);
    let csv = good(&["plan", &file, "--contacts", "--to", "30s", "--csv"]);
    assert_eq!(
        contacts["contacts"].as_array().unwrap().len(),
        csv.lines().count() - 1
    );
    let pairs = json(&[
        "plan",
        &file,
        "--pairs",
        "london-new-york",
        "--to",
        "30s",
        "--json",
    ]);
    assert_eq!(pairs["pairs"][0]["delay_ns"].as_array().unwrap().len(), 30);
    assert_eq!(
        good(&["plan", &file, "--pairs", "all", "--to", "2s", "--csv"])
            .lines()
            .count(),
        1 + 2 * 91
    );
    let coverage = json(&["plan", &file, "--coverage", "--to", "30s", "--json"]);
    assert_eq!(coverage["stations"].as_array().unwrap().len(), 14);
    let check = json(&["check", &file, "--json"]);
    assert_eq!(check["sky"]["flows"][0]["path_ratio"], 1.0);
}

#[test]
fn check_tells_what_was_found_in_element_files() {
    let file = root("scenarios/starlink-tle.yaml");
    let text = good(&["check", &file]);
    assert!(text.contains("\nshell s1 of starlink: 1465 satellites in 72 planes"));
    assert!(text.contains("\nleft out of starlink: 534 in none of the shells\n"));
    let check: Value = serde_json::from_str(&good(&["check", &file, "--json"])).unwrap();
    assert_eq!(check["shells"][0]["planes"], 72);
    let left_out = check["left_out"].as_array().unwrap();
    assert_eq!(left_out.len(), 534);
    let named = |out: &Value| out["object"].is_string() && out["reason"].is_string();
    assert!(left_out.iter().all(named));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let file = root("scenarios/iridium.yaml");
    for args in [
        &["plan", &file, "--from", "1s"][..],
        &["plan", &file, "--contacts", "--at", "3s"],
        &["plan", &file, "--contacts", "--coverage"],
        &["plan", &file, "--contacts", "--csv", "--json"],
        &["plan", &file, "--contacts", "--every", "1500ms"],
        &["plan", &file, "--contacts", "--from", "9s", "--to", "9s"],
        &["plan", &file, "--pairs", "london-atlantis"],
        &["plan", &file, "--coverage", "--csv"],
        &["plan", &file, "--export", "svg", "--to", "9s"],
        &["plan", &file, "--export", "czml", "--at", "9s"],
        &["plan", &file, "--export", "dot", "--to", "9s"],
        &[
            "plan",
            &file,
            "--export",
            "graphml",
            "--paths",
            "tokyo-london",
        ],
        &["plan", &file, "--export", "hypatia"],
        &["import", &file],
        &["import", "/does/not/exist.json"],
    ] {
        assert_eq!(code(args), 2, "{args:?}");
    }
}

#[test]
fn a_network_is_a_graph_for_other_tools() {
    let file = root("scenarios/iridium.yaml");
    let plan = good(&["plan", &file, "--at", "24s", "--json"]);
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let links = plan["edges"].as_array().unwrap().len() / 2;
    let graph = |format: &str| good(&["plan", &file, "--at", "24s", "--export", format]);
    let count = |text: &str, part: &str| text.matches(part).count();
    assert_eq!(count(&graph("dot"), " -- "), links);
    assert_eq!(count(&graph("drawio"), " edge=\"1\""), links);
    let graphml = graph("graphml");
    assert_eq!(
        (count(&graphml, "<edge "), count(&graphml, "<node ")),
        (links, 80)
    );
}

#[test]
fn a_network_goes_out_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| -> PathBuf { dir.path().join(name) };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (folder, back) = (text(&at("net")), text(&at("back.yaml")));
    let file = root("scenarios/starlink-shell1.yaml");
    good(&["plan", &file, "--export", "hypatia", "--out", &folder]);
    // No file is overwritten.
    assert_eq!(
        code(&["plan", &file, "--export", "hypatia", "--out", &folder]),
        1
    );
    good(&["import", &folder, "--out", &back]);
    let check: Value = serde_json::from_str(&good(&["check", &back, "--json"])).unwrap();
    assert_eq!(
        (&check["satellites"], &check["stations"]),
        (&1584.into(), &20.into())
    );
    let images = root("crates/exchange/tests/data/opensn.json");
    let images = constel(&["import", &images, "--out", &text(&at("images.yaml"))]);
    assert_eq!(images.status.code(), Some(0));
    let said = String::from_utf8_lossy(&images.stderr).into_owned();
    assert!(
        said.contains("constel: note: `UserEquipment` was not carried over"),
        "{said}"
    );
    let plan: Value =
        serde_json::from_str(&good(&["plan", &text(&at("images.yaml")), "--json"])).unwrap();
    assert!(plan.to_string().contains("ground-router"));
    let plan = good(&["plan", &text(&at("images.yaml"))]);
    let rows: Vec<Vec<&str>> = plan
        .lines()
        .skip_while(|line| !line.starts_with("IMAGE"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["IMAGE", "NODES", "NAMES"], "{plan}");
    assert_eq!(
        rows[1][..3],
        [
            "docker.io/example/satellite-router:latest",
            "66",
            "shell1-p00-s00"
        ]
    );
    assert_eq!(rows[1][6..], ["and", "62", "more"]);
    assert_eq!(rows[2], ["ground-router", "1", "ground"]);
    std::fs::write(at("net/isls.txt"), "0 1\n0 99999\n").unwrap();
    let output = constel(&["import", &folder]);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains(":2:1: error: isls.txt"));
}

#[test]
fn recordings_become_traces_and_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let rows = |add_ms: u32| -> String {
        let row = |n: u32| format!("{}.{},{}\n", 60 + n / 10, n % 10, 30 + add_ms + n % 3);
        (0..300).map(row).collect()
    };
    std::fs::write(at("run.csv"), format!("t_s,rtt_ms\n{}", rows(2))).unwrap();
    std::fs::write(
        at("measured.csv"),
        format!("t_s,rtt_ms\n{}99.9,-1\n", rows(0)),
    )
    .unwrap();
    let keys = good(&["import", "trace", &at("measured.csv"), "--out", &at("m")]);
    assert_eq!(
        keys,
        "link:\n  delay_trace: {file: 'm.delay.txt', interval: 10 ms}\n  loss_law: {trace: {file: 'm.loss.txt'}}\n"
    );
    let delays = std::fs::read_to_string(at("m.delay.txt")).unwrap();
    assert!(delays.starts_with("15.000\n"), "{delays}");
    assert_eq!(
        code(&["import", "trace", &at("measured.csv"), "--out", &at("m")]),
        1,
        "the files exist"
    );
    std::fs::write(at("bad.csv"), "t_s,rtt_ms\n0,fast\n").unwrap();
    assert_eq!(
        code(&["import", "trace", &at("bad.csv"), "--out", &at("b")]),
        1
    );
    let compared = good(&[
        "results",
        "compare-with",
        &at("run.csv"),
        &at("measured.csv"),
        "--json",
    ]);
    let compared: Value = serde_json::from_str(&compared).unwrap();
    assert_eq!(compared["rtt_ms"]["w1"], 2.0);
    assert_eq!(compared["measured_losses"]["longest"], 1);
    let text = good(&[
        "results",
        "compare-with",
        &at("run.csv"),
        &at("measured.csv"),
    ]);
    assert!(
        text.contains("W1") && text.contains("BURSTS/1000"),
        "{text}"
    );
    assert_eq!(
        code(&["results", "compare-with", &at("run.csv"), &at("bad.csv")]),
        1
    );
    let slots = [
        "results",
        "compare-with",
        &at("run.csv"),
        &at("measured.csv"),
        "--slot",
        "10 s",
    ];
    assert_eq!(code(&slots), 2, "the phase, 12 s, is beyond the slot");
}
