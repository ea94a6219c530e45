//! Labs that stay: `up`, `logs`, `restart`, and what is known of them after a crash.

use crate::support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use constel_host::claim::LabState;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use support::host::{Host, LABS};
use support::lab::state_of;
use support::{CONSTEL, constel, finish, json, scenario, stderr, stdout, until};

/// A lab of `constel up`. Dropping it takes it down.
struct Stays(String);

impl Stays {
    fn state(&self) -> Option<LabState> {
        state_of(&self.0)
    }

    fn pid(&self) -> u32 {
        let labs = json(&constel(["list", "--json"]));
        let rows = labs.as_array().unwrap();
        let own = rows.iter().find(|row| row["lab"] == self.0.as_str());
        u32::try_from(own.unwrap()["pid"].as_u64().unwrap()).unwrap()
    }
}

impl Drop for Stays {
    fn drop(&mut self) {
        drop(constel(["down", &self.0]));
        drop(constel(["clean", &self.0]));
    }
}

/// Runs `constel up` in a folder.
fn up(dir: &Path, args: &[&str]) -> std::process::Output {
    let mut command = Command::new(CONSTEL);
    command
        .arg("up")
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null());
    finish(command)
}

/// A small scenario without an end.
fn endless(dir: &Path) -> String {
    let file = scenario::small(dir, "stays.yaml", "{mode: computed}", "");
    let text = fs::read_to_string(&file).unwrap();
    let without: String = text
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("duration"))
        .collect();
    assert_ne!(text, without);
    fs::write(&file, without).unwrap();
    "stays.yaml".to_owned()
}

#[test]
fn a_lab_stays_restarts_and_goes_down() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = endless(dir.path());
    let refused = constel(["run", dir.path().join(&file).to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("constel up"),
        "{}",
        stderr(&refused)
    );
    let lab = Stays(format!("{LABS}stays"));
    let name = lab.0.as_str();
    let is_up = json(&up(
        dir.path(),
        &[&file, "--name", name, "--results", "r", "--json"],
    ));
    assert_eq!(is_up["lab"], name);
    assert_eq!(is_up["state"], "running");
    assert_eq!(is_up["ends_after_ns"], Value::Null);
    assert_eq!(lab.state(), Some(LabState::Running));
    let manifest = fs::read(dir.path().join("r/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["duration_ns"], Value::Null);
    // The lab has a session of its own, without a terminal.
    let first = lab.pid();
    let stat = fs::read_to_string(format!("/proc/{first}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    assert_eq!(fields[3], first.to_string(), "the session");
    let ran = constel(["exec", name, "west", "--", "true"]);
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    // Errors are those of `run`.
    let taken = up(dir.path(), &[&file, "--name", name]);
    assert_eq!(taken.status.code(), Some(2), "{}", stderr(&taken));
    assert!(
        stderr(&taken).contains("is running already"),
        "{}",
        stderr(&taken)
    );
    // The refused one has not taken the record of the one that runs.
    let again = json(&constel(["restart", name, "--json"]));
    assert_eq!(again["results"], dir.path().join("r-2").to_str().unwrap());
    assert_ne!(lab.pid(), first);
    let log = is_up["log"].as_str().unwrap();
    assert!(
        fs::read_to_string(log).unwrap().contains("trustworthy"),
        "the summary is in {log}"
    );
    let says = constel(["logs", name]);
    assert_eq!(says.status.code(), Some(0), "{}", stderr(&says));
    let down = constel(["down", name]);
    assert_eq!(down.status.code(), Some(0), "{}", stderr(&down));
    let none = constel(["logs", name]);
    assert_eq!(none.status.code(), Some(2), "{}", stderr(&none));
    assert!(
        !Path::new("/var/lib/constel/labs")
            .join(format!("{name}.json"))
            .exists()
    );
    host.assert_as_before("after the test");
}

#[test]
fn attached_it_ends_as_a_run_does() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    scenario::small(dir.path(), "ends.yaml", "{mode: computed}", "");
    let lab = Stays(format!("{LABS}attached"));
    let ended = up(
        dir.path(),
        &["ends.yaml", "--name", &lab.0, "--for", "2s", "--attach"],
    );
    let text = stdout(&ended);
    assert!(
        matches!(ended.status.code(), Some(0 | 3)),
        "{}{text}",
        stderr(&ended)
    );
    assert!(
        text.contains("is up") && text.contains("trustworthy"),
        "{text}"
    );
    assert_eq!(lab.state(), None);
    host.assert_as_before("after the test");
}

#[test]
fn after_a_crash_clean_says_what_was_running() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = endless(dir.path());
    let lab = Stays(format!("{LABS}crashed"));
    let is_up = up(dir.path(), &[&file, "--name", &lab.0]);
    assert_eq!(is_up.status.code(), Some(0), "{}", stderr(&is_up));
    let pid = Pid::from_raw(i32::try_from(lab.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    until("it is dead", || {
        (lab.state() == Some(LabState::Dead)).then_some(())
    });
    let cleaned = json(&constel(["clean", &lab.0, "--json"]));
    let stopped = &cleaned["stopped"][0];
    assert_eq!(stopped["lab"], lab.0.as_str());
    assert_eq!(stopped["rebooted"], false);
    assert_eq!(
        stopped["command"],
        format!("constel up {file} --name {}", lab.0)
    );
    assert!(
        Path::new(stopped["results"].as_str().unwrap())
            .join("events.ndjson")
            .exists()
    );
    let again = constel(["clean", &lab.0]);
    assert_eq!(again.status.code(), Some(2), "{}", stderr(&again));
    host.assert_as_before("after the test");
}
