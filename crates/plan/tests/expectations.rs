//! Expectations about nodes in which nothing runs, and about events of objects that do not exist.

use constel_plan::Lab;
use constel_scenario::{DiskFiles, read_scenario};

/// The errors of two hosts, a satellite network's failures and these `more` lines; empty without errors.
fn errors(more: &str, expect: &str) -> String {
    let text = format!(
        "constel: 1\nname: e\nstart: 2026-11-21T00:00:00Z\nduration: 60 s\nground:\n  \
         hosts: {{a: {{latitude: 0 deg, longitude: 0 deg}}, b: {{latitude: 0 deg, longitude: 0 deg}}, c: {{latitude: 0 deg, longitude: 0 deg}}}}\n  \
         cables: [{{from: a, to: b, delay: 5 ms, link: {{rate: 1 Mbit/s}}}}, {{from: b, to: c, delay: 5 ms, link: {{rate: 1 Mbit/s}}}}]\n\
         failures: [{{name: storm, at: 5 s, for: 5 s, link: {{from: a, to: b}}}}]\n\
         traffic:\n  - {{name: p, at: 1 s, for: 5 s, ping: {{from: a, to: b}}}}\n  \
         - {{name: r, at: 10 s, for: 5 s, run: {{node: a, command: [x]}}}}\n{more}expect: [{{name: e, {expect}}}]\n"
    );
    let read = read_scenario("e.yaml", text.as_bytes(), &DiskFiles::in_folder("."));
    match read.and_then(Lab::new) {
        Ok(_) => String::new(),
        Err(errors) => errors.to_string(),
    }
}

/// A TCP flow, whose list goes on here, and the node that splits it.
const PROXY: &str = "  - {name: h, at: 1 s, for: 5 s, http: {from: a, to: c, size: 1 MB}}\n\
                     transport: {split_tcp: {nodes: [b]}}\n";

#[test]
fn alive_is_about_nodes_in_which_something_runs() {
    // Statement, further lines, and the name in the error; `None`: valid.
    let cases = [
        ("alive: [a]", "", None),
        ("alive: ['*']", "", None),
        ("alive: [b]", "", Some("`b`")),
        // One name of several.
        ("alive: [a, c]", "", Some("`c`")),
        // The program runs from 10 s until 15 s.
        ("alive: {nodes: [a], from: 14 s}", "", None),
        ("alive: {nodes: [a], from: 15 s}", "", Some("`a` from 15 s")),
        (
            "alive: {nodes: [a], until: 10 s}",
            "",
            Some("`a` until 10 s"),
        ),
        // Daemons run in all nodes and all the time.
        (
            "alive: {nodes: [c], from: 50 s}",
            "routing: {mode: bird}\n",
            None,
        ),
        // Containers, in the nodes that have an image.
        (
            "alive: [b]",
            "nodes: {overrides: [{nodes: [b], set: {runtime: oci, image: x}}]}\n",
            None,
        ),
        (
            "alive: [c]",
            "nodes: {overrides: [{nodes: [b], set: {runtime: oci, image: x}}]}\n",
            Some("`c`"),
        ),
        // Proxies, where there are connections to split; never on the ends of a flow.
        ("alive: [b]", PROXY, None),
        ("alive: [b, c]", PROXY, Some("`c`")),
    ];
    for (expect, more, wrong) in cases {
        let found = errors(more, expect);
        match wrong {
            None => assert_eq!(found, "", "{expect} {more}"),
            Some(name) => {
                let message = format!("no program runs in {name}");
                assert!(found.contains(&message), "{expect} {more}: {found}");
                assert!(found.starts_with("e.yaml:"), "{found}");
            }
        }
    }
}

#[test]
fn events_of_failures_are_about_failures_nodes_or_links() {
    for (about, good) in [
        ("storm", true),
        ("a", true),
        ("a - b", true),
        ("a-b", true),
        ("strom", false),
        ("a - z", false),
        ("p", false),
    ] {
        let order =
            format!("order: {{first: {{kind: failure, about: {about}}}, then: {{kind: repair}}}}");
        let found = errors("", &order);
        assert_eq!(found.is_empty(), good, "{about}: {found}");
        assert!(good || found.contains("allowed: storm"), "{found}");
    }
}
