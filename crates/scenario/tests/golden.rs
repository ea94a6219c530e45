//! Every kind of bad input, and exactly what the user sees: `tests/errors/X.yaml` gives
//! `tests/errors/X.stderr`. `CONSTEL_BLESS=1 cargo test -p constel-scenario --test golden` writes
//! the second again; read the diff before committing it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use constel_scenario::{Diagnostics, DiskFiles, read_scenario};

const FOLDER: &str = "tests/errors";

fn cases() -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> = fs::read_dir(FOLDER)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    cases.sort();
    assert!(cases.len() > 50, "only {} cases", cases.len());
    cases
}

fn errors_of(path: &PathBuf) -> Diagnostics {
    let name = path.file_name().unwrap().to_str().unwrap();
    let bytes = fs::read(path).unwrap();
    read_scenario(name, &bytes, &DiskFiles::in_folder(FOLDER))
        .expect_err(&format!("{name} should be refused"))
}

#[test]
fn every_error_reads_as_agreed() {
    let bless = std::env::var_os("CONSTEL_BLESS").is_some();
    let mut differing = Vec::new();
    for path in cases() {
        let seen = errors_of(&path).to_string();
        let golden = path.with_extension("stderr");
        if bless {
            fs::write(&golden, &seen).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != seen {
            differing.push(format!("{}:\n{seen}", path.display()));
        }
    }
    assert!(
        differing.is_empty(),
        "these differ from their .stderr:\n{}",
        differing.join("\n")
    );
}

#[test]
fn every_error_starts_with_its_place_and_has_no_control_character() {
    for path in cases() {
        for error in &errors_of(&path) {
            let text = error.to_string();
            let start = format!("{}:{}:{}: error: ", error.file, error.line, error.column);
            assert!(text.starts_with(&start), "{text}");
            assert!(error.line >= 1 && error.column >= 1, "{text}");
            assert!(
                !text.chars().any(|c| c.is_control() && c != '\n'),
                "{text:?}"
            );
            assert_ne!(error.code, "internal", "{text}");
        }
    }
}

#[test]
fn errors_come_in_the_order_of_their_places() {
    for path in cases() {
        let errors = errors_of(&path);
        let places: Vec<_> = errors
            .iter()
            .map(|e| (e.file.clone(), e.line, e.column))
            .collect();
        let mut sorted = places.clone();
        sorted.sort();
        assert_eq!(places, sorted, "{}", path.display());
    }
}

#[test]
fn all_errors_of_a_file_come_at_once() {
    let codes = |case: &str| -> Vec<&'static str> {
        errors_of(&PathBuf::from(FOLDER).join(case))
            .iter()
            .map(|e| e.code)
            .collect()
    };
    assert_eq!(
        codes("several-at-once.yaml"),
        [
            "unknown-key",
            "missing-unit",
            "wrong-type",
            "unknown-value",
            "out-of-range",
            "unknown-key",
        ]
    );
    assert_eq!(
        codes("several-at-once-in-meaning.yaml"),
        [
            "uneven-steps",
            "walker",
            "unknown-city",
            "order",
            "unknown-node"
        ]
    );
}

/// Each file has errors of its form, and errors of later rules that do not depend on them.
#[test]
fn errors_of_form_do_not_hide_those_of_meaning() {
    for (case, codes) in [
        ("choice", &["choose-one", "walker", "unknown-node"][..]),
        ("driver", &["bad-name", "uneven-steps", "order"]),
        ("expect", &["bad-quantity", "unknown-flow", "unknown-key"]),
        (
            "failures",
            &["unknown-node", "unknown-constellation", "choose-one"],
        ),
        (
            "files",
            &[
                "missing-unit",
                "unknown-value",
                "unreadable-file",
                "unknown-city",
            ],
        ),
        (
            "ground",
            &["out-of-range", "unknown-node", "duplicate-name"],
        ),
        (
            "links",
            &[
                "jitter",
                "bad-quantity",
                "same-node",
                "bad-quantity",
                "unknown-value",
            ],
        ),
        (
            "networks",
            &["duplicate-name", "bad-quantity", "unknown-node"],
        ),
        (
            "routing",
            &["walker", "unknown-value", "whole-seconds", "order"],
        ),
        (
            "sky",
            &[
                "walker",
                "unknown-key",
                "order",
                "unknown-node",
                "bad-quantity",
            ],
        ),
    ] {
        let path = PathBuf::from(FOLDER).join(format!("stages-{case}.yaml"));
        let found: Vec<&str> = errors_of(&path).iter().map(|e| e.code).collect();
        let lacking: Vec<_> = codes.iter().filter(|code| !found.contains(code)).collect();
        assert!(lacking.is_empty(), "{case}: {lacking:?} of {found:?}");
    }
}

/// The words scripts may rely on. Each is produced by at least one case, and no case produces
/// another.
#[test]
fn every_code_has_a_case() {
    let seen: BTreeSet<&str> = cases()
        .iter()
        .flat_map(|path| errors_of(path).iter().map(|e| e.code).collect::<Vec<_>>())
        .collect();
    let known = BTreeSet::from([
        "alias",
        "attach-daemons",
        "attached-node",
        "bad-block",
        "bad-mount",
        "bad-name",
        "bad-quantity",
        "bad-setting",
        "bad-value",
        "choose-one",
        "disagreement",
        "driver",
        "duplicate-key",
        "duplicate-mount",
        "duplicate-name",
        "duplicate-port",
        "empty-file",
        "empty-list",
        "empty-value",
        "end-of-flow",
        "jitter",
        "key",
        "lab-name",
        "late-names",
        "limit",
        "link",
        "missing-column",
        "missing-key",
        "missing-unit",
        "no-effect",
        "no-family",
        "no-nodes",
        "no-such-protocol",
        "not-utf8",
        "one-station",
        "order",
        "out-of-range",
        "same-node",
        "second-document",
        "tag",
        "trace",
        "unconnected",
        "uneven-steps",
        "unknown-city",
        "unknown-constellation",
        "unknown-flow",
        "unknown-key",
        "unknown-network",
        "unknown-node",
        "unknown-path",
        "unknown-value",
        "unreachable",
        "unreadable-file",
        "virtual-time",
        "walker",
        "whole-milliseconds",
        "whole-seconds",
        "wrong-type",
        "yaml-syntax",
    ]);
    assert_eq!(seen, known);
}
