//! `constel plan --machines`: its document, its table, and what it refuses. Touches nothing, needs no root.

use crate::support;

use std::path::Path;
use std::process::Output;

use serde_json::Value;

fn plan(flags: &[&str]) -> Output {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/iridium.yaml");
    let file = file.to_str().unwrap();
    support::constel(["plan", file].iter().chain(flags))
}

fn document(flags: &[&str]) -> Value {
    let output = plan(&[flags, &["--json"]].concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_parts_make_up_the_whole() {
    let one = document(&[
        "--machines",
        "a",
        "--dry",
        "3s",
        "--set",
        "routing={mode: computed}",
    ]);
    let three = document(&[
        "--machines",
        "a,b=2,c/20",
        "--pin",
        "tokyo=c",
        "--dry",
        "3s",
        "--set",
        "routing={mode: computed}",
    ]);
    assert_eq!(
        (&one["order"], &one["crossing_edges"]),
        (&"fewest-crossings".into(), &0.into())
    );
    assert!(
        one["shortest_crossing_ns"].is_null() && three["shortest_crossing_ns"].as_u64() > Some(0)
    );
    let sum = |of: &Value, path: &[&str]| -> u64 {
        let rows = of.as_array().unwrap().iter();
        rows.map(|row| path.iter().fold(row, |at, key| &at[*key]).as_u64().unwrap())
            .sum()
    };
    for key in ["nodes", "ports", "edges"] {
        assert_eq!(
            sum(&three["machines"], &[key]),
            sum(&one["machines"], &[key]),
            "{key}"
        );
    }
    assert_eq!(
        sum(&three["machines"], &["crossing_edges"]),
        three["crossing_edges"].as_u64().unwrap()
    );
    for part in ["first", "steps"] {
        for key in ["nodes", "edges", "neighbours", "routes"] {
            let of = |document: &Value| sum(&document["steps"]["machines"], &[part, key]);
            assert_eq!(of(&three), of(&one), "{part} {key}");
        }
    }
    assert_eq!(sum(&one["steps"]["machines"], &["first", "nodes"]), 80);
    assert!(sum(&one["steps"]["machines"], &["first", "routes"]) > 0);
    assert_eq!(three["placement"]["tokyo"], "c");
    let on_c = three["placement"]
        .as_object()
        .unwrap()
        .values()
        .filter(|of| *of == "c")
        .count();
    assert!(on_c <= 20 && three["machines"][2]["nodes"].as_u64() == Some(on_c as u64));
    assert!(
        three.get("steps").is_some() && document(&["--machines", "a,b"]).get("steps").is_none()
    );
}

#[test]
fn people_see_a_table() {
    let output = plan(&["--machines", "a,b", "--place", "round-robin", "--dry", "2s"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for words in [
        "edges cross at 0 s",
        "MACHINE  WEIGHT",
        "CROSSING",
        "2 steps: each machine plans the whole",
        "EDGES A STEP",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn what_cannot_be_is_a_usage_error() {
    for (flags, words) in [
        (&["--machines", "a,a"][..], "machine \"a\" is there twice"),
        (&["--machines", "a=0"], "is no number from 1 on"),
        (
            &["--machines", "a/10,b/10"],
            "80 nodes, and the machines take 20",
        ),
        (
            &["--machines", "a", "--pin", "tokyo=b"],
            "there is no machine \"b\"",
        ),
        (&["--machines", "a", "--pin", "tokyo"], "pins nothing"),
        (&["--pin", "tokyo=a"], "--machines"),
        (&["--dry", "3s"], "--machines"),
        (&["--machines", "a", "--contacts"], "cannot be used with"),
        (&["--machines", "a", "--dry=-1s"], "before the start"),
    ] {
        let output = plan(flags);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {text}");
        assert!(text.contains(words), "{flags:?}: {text}");
    }
}
