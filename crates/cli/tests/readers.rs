//! How sources open files: those of the crates that read what nodes and users have made go through `constel_units::files` or
//! `constel_host::node_file`, which refuse what is no regular file. No root.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::workspace;

/// Sources whose files may be another's: results, files of nodes, orders of other machines.
const FOLDERS: [&str; 6] = [
    "cluster/src/agent",
    "analysis/src",
    "control/src",
    "lab/src",
    "containers/src/runtime",
    "web/src",
];

/// Ways to open a file for reading as it is.
const PLAIN: [&str; 6] = [
    "File::open(",
    "fs::read(",
    "fs::read_to_string(",
    "fs::open(",
    "fs::openat(",
    "File::options(",
];

/// Places that may, by file and the beginning of the line, each with its reason.
const MAY: [(&str, &str, &str); 13] = [
    (
        "cluster/src/agent/labs/folder.rs",
        "let order = File::open(",
        "a folder of its own, which nobody else may enter",
    ),
    (
        "cluster/src/agent/labs/folder.rs",
        "let Ok(order) = File::open(",
        "the same; its owner is compared before",
    ),
    (
        "cluster/src/agent/labs/speech.rs",
        "let text = std::fs::read(",
        "the same",
    ),
    (
        "cluster/src/agent/labs/speech.rs",
        "let bytes = std::fs::read(",
        "the same",
    ),
    (
        "control/src/sweep/folder.rs",
        "let mut options = File::options();",
        "a lock, which is not read",
    ),
    (
        "lab/src/information/files.rs",
        "files.map(|name| fs::read_to_string(",
        "nodes see this folder read-only",
    ),
    (
        "lab/src/life/manifest.rs",
        "fs::read_to_string(path)",
        "files of /proc and /sys",
    ),
    (
        "lab/src/nodes/engine.rs",
        "let socket = fs::read(",
        "the lab's own folder, which no node sees",
    ),
    (
        "lab/src/nodes/kept.rs",
        "Ok(rustix::fs::openat(within",
        "a folder, without following",
    ),
    (
        "lab/src/nodes/kept.rs",
        "let from = File::from(rustix::fs::openat(",
        "looked at before; its programs have ended",
    ),
    (
        "lab/src/nodes/kept.rs",
        "let to = match rustix::fs::openat(",
        "it is made, and nothing of that name is opened",
    ),
    (
        "lab/src/nodes/kept.rs",
        "let file = rustix::fs::openat(",
        "looked at before; programs have ended",
    ),
    (
        "lab/src/traffic/congestion.rs",
        "let has = std::fs::read_to_string(AVAILABLE)",
        "a file of /proc",
    ),
];

/// Sources without their tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.starts_with("test") {
            found.push(path);
        }
    }
}

#[test]
fn what_others_made_is_opened_by_what_checks_it() {
    let crates = workspace().join("crates");
    let (mut odd, mut used) = (Vec::new(), [false; MAY.len()]);
    for name in FOLDERS {
        let mut files = Vec::new();
        sources(&crates.join(name), &mut files);
        assert!(files.len() > 2, "{name} has sources");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let own = text.split("#[cfg(test)]\nmod ").next().unwrap();
            let place = file.strip_prefix(&crates).unwrap().to_str().unwrap();
            for (number, line) in own.lines().enumerate() {
                let line = line.trim();
                let opens = PLAIN.iter().any(|way| line.contains(way));
                // `files::read(` has the same ending as `fs::read(`, but not the same beginning.
                let of_system = ["\"/proc", "\"/sys", "\"/dev", "\"/etc"];
                let is_of_system = of_system.iter().any(|begin| line.contains(begin));
                if !opens || is_of_system || line.starts_with("//") {
                    continue;
                }
                let may = |(file, begin, _): &(&str, &str, &str)| {
                    place == *file && line.starts_with(begin)
                };
                match MAY.iter().position(may) {
                    Some(at) => used[at] = true,
                    None => odd.push(format!("{place}:{}: {line}", number + 1)),
                }
            }
        }
    }
    assert!(
        odd.is_empty(),
        "open these by constel_units::files or constel_host::node_file, or say in MAY why not: {odd:#?}"
    );
    let unused: Vec<_> = MAY.iter().zip(used).filter(|(_, used)| !used).collect();
    assert!(unused.is_empty(), "no longer needed: {unused:#?}");
}
