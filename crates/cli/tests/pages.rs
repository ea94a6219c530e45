//! README.md and docs/quickstart.md, as a reader does them: each command that they show is run.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::host::Host;
use crate::support::{constel, json, until, workspace};
use crate::tutorial::{blocks, path_with_constel, run, start};

/// The lab that the pages speak to while it runs.
const LAB: &str = "constel run scenarios/iridium.yaml";
/// Commands that go on until the reader ends them.
const ENDLESS: [&str; 5] = [
    "constel demo",
    "constel exec iridium tokyo -- ping london",
    "constel web iridium",
    "constel events iridium --follow",
    "constel run mine.yaml",
];
/// `make` runs the main job and these tests.
const ELSEWHERE: [&str; 3] = ["make demo", "make test", LAB];

/// Commands of a page for its reader, without the path of the program and without comments.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for (info, lines) in blocks(page) {
        for line in lines.iter().filter(|_| info == "console") {
            let Some(command) = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")) else {
                continue;
            };
            let command = command.replace("target/release/", "");
            let command = command.split("  ").next().unwrap_or_default();
            commands.push(command.trim_end().to_owned());
        }
    }
    commands
}

/// Runs one as its reader would, who interrupts what goes on for ever and has a terminal.
fn tried(folder: &Path, path: &str, command: &str) {
    let command = match command {
        endless if ENDLESS.contains(&endless) => {
            format!("timeout --preserve-status -s INT 6 {endless} || [ $? = 130 ]")
        }
        shell if shell.starts_with("constel shell ") => {
            format!("echo exit | script -qec '{shell}' /dev/null")
        }
        other => other.replace(
            "results/RUN",
            "$(ls -d results/*/ | grep -v latest | head -1)",
        ),
    };
    run(folder, path, &command);
}

#[test]
fn every_command_of_readme_and_quickstart_runs() {
    let host = Host::take();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    symlink(workspace().join("scenarios"), folder.join("scenarios")).unwrap();
    let path = path_with_constel();
    let mut lab = start(folder, &path, &format!("{LAB} --for 300s"), "iridium");
    // Commands that need a run's results come after the lab's end.
    let mut after = Vec::new();
    let mut count = 0;
    for page in ["README.md", "docs/quickstart.md"] {
        let text = fs::read_to_string(workspace().join(page)).unwrap();
        for (info, lines) in blocks(&text) {
            if info == "yaml" && lines.contains(&"name: mine") {
                fs::write(folder.join("mine.yaml"), lines.join("\n")).unwrap();
            }
        }
        for command in commands(&text) {
            count += 1;
            if ELSEWHERE.contains(&command.as_str()) {
                continue;
            }
            assert!(command.starts_with("constel "), "{page}: {command}");
            if command == "constel clean" || command.starts_with("constel results") {
                after.push(command);
                continue;
            }
            tried(folder, &path, &command);
            let labs = json(&constel(["list", "--json"]));
            let listed = labs.as_array().unwrap();
            let runs = listed.iter().any(|lab| lab["lab"] == "iridium");
            assert!(runs, "the lab had ended before: {command}");
        }
    }
    assert!(count >= 25, "only {count} commands");
    lab.interrupt();
    until("its results", || {
        let mut runs = fs::read_dir(folder.join("results")).ok()?;
        runs.next().map(drop)
    });
    for command in after {
        tried(folder, &path, &command);
    }
    host.assert_as_before("after the pages");
}
