//! Orbit-aware link state in real kernels: no node routes round a failed laser before its ends have noticed, all
//! nodes do soon after, and the foreseen sky is followed without a message.

use crate::support;

use std::time::{Duration, Instant};

use serde_json::Value;
use support::lab::Lab;
use support::{constel, scenario, soon, until};

const DETECT: Duration = Duration::from_secs(2);

/// The time that a busy machine and the polling may add.
const SLACK: Duration = Duration::from_secs(2);

fn run(args: &[&str]) -> String {
    let out = constel(args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args:?}: {said}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Names of the nodes on the way by the kernels' tables, as far as they lead.
fn way(lab: &Lab, from: &str, to: &str) -> Vec<String> {
    // Fails where the tables do not arrive; what it prints is the answer all the same.
    let out = constel(["path", &lab.name, from, to, "--json"]);
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    let hops = answer["kernel"][0]["hops"].as_array().unwrap();
    let reached = hops
        .iter()
        .map(|hop| hop["to"].as_str().unwrap().to_owned());
    std::iter::once(from.to_owned()).chain(reached).collect()
}

#[test]
fn failures_are_heard_of_and_handovers_foreseen() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::sky(dir.path(), 120, "0 s");
    let text = std::fs::read_to_string(&file).unwrap();
    let reaction = "routing: {mode: computed, reaction: {detect: 2 s, processing: 1 ms}}";
    let text = text.replace("routing: {mode: computed}", reaction);
    let file = scenario::write(dir.path(), "reaction.yaml", &text);
    let mut lab = Lab::up("reaction", &file, dir.path(), &["--no-traffic"]);
    let (from, to) = ("ross", "weddell");
    let first = way(&lab, from, to);
    assert_eq!(first.last().unwrap(), to);
    let (near, far) = (first[1].clone(), first[2].clone());
    let uses = |way: &[String]| way.windows(2).any(|w| w[0] == near && w[1] == far);

    for (verb, round) in [("fail", true), ("heal", false)] {
        let asked = Instant::now();
        run(&["link", verb, &lab.name, &near, &far]);
        // By the tables alone: until a node detects the failure they lead into it, and stop there.
        let after = until(verb, || {
            let way = way(&lab, from, to);
            let there = way.last().is_some_and(|last| last == to);
            (there && uses(&way) != round).then(|| asked.elapsed())
        });
        assert!(after >= DETECT, "{verb}: routed otherwise after {after:?}");
        assert!(after < soon(DETECT + SLACK), "{verb}: only after {after:?}");
    }
    // `hobart` hands over at 7 s of lab time.
    lab.client().clock().unwrap().sleep_until(9.0);
    assert_eq!(way(&lab, "hobart", "chatham").last().unwrap(), "chatham");
    lab.interrupt();

    let summary = lab.summary();
    // Two ends, a failure and a repair; neither the handover nor any other change was sent.
    assert_eq!(summary["link_state"]["originated"], 4, "{summary:#}");
    let sent = summary["link_state"]["sent"].as_u64().unwrap();
    let edges = summary["size"]["edges"].as_u64().unwrap();
    assert!((4..4 * edges).contains(&sent), "{sent} over {edges} edges");
    let handovers = summary["handovers"].as_array().unwrap();
    assert!(!handovers.is_empty());
    let changes = summary["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 2, "{changes:#?}");
    let stood = changes[0]["converged_after_ns"].as_u64().unwrap();
    assert!(Duration::from_nanos(stood) >= DETECT, "{changes:#?}");
}
