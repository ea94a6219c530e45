//! Attacks of a hostile image, or a program in a node, on the host and on other nodes: each test is a hole that once existed, with other
//! forms of the same kind. Containers have the least rights that suffice for the attempt. Needs root, clang and a static busybox.

mod disk;
mod logs;
mod own_program;
mod shared;
mod streams;
mod terminal;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support;
use support::container::{import_folder, make};
use support::lab::Lab;
use support::{CONSTEL, constel, finish, scenario};

/// A user who has no rights at all: what follows `node: ` in a scenario.
const NOBODY: &str = "image: box, user: web, capabilities: {drop: [ALL]}";

/// A folder with an image whose root has these scripts, and a scenario of two stations with a cable between them, each with these keys.
fn prepared(scripts: &[(&str, &str)], west: &str, east: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("rootfs");
    make(&root);
    for (name, text) in scripts {
        script(&root.join(name), text);
    }
    import_folder(dir.path(), &root, "box");
    let file = cable(dir.path(), west, east, "");
    (dir, file)
}

fn script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Two stations and a cable.
fn cable(dir: &Path, west: &str, east: &str, more: &str) -> PathBuf {
    let text = format!(
        "constel: 1
name: hostile
start: 2026-11-21T00:00:00Z
duration: 300 s
step: 1 s
ground:
  stations:
    west: {{latitude: 35.7 deg, longitude: 139.7 deg, node: {{{west}}}}}
    east: {{latitude: 34.7 deg, longitude: 135.5 deg, node: {{{east}}}}}
  cables:
  - {{from: west, to: east, delay: 5 ms, link: {{rate: 10 Mbit/s}}}}
routing: {{mode: computed}}
{more}"
    );
    scenario::write(dir, "hostile.yaml", &text)
}

/// A file of the host that no node uses; its text states that.
fn canary(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, CANARY).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(&path, Some(1234), Some(1234)).unwrap();
    path
}

const CANARY: &str = "canary of the host\n";

/// Panics unless it is as it was made.
fn assert_untouched(canary: &Path) {
    use std::os::unix::fs::MetadataExt;
    let found = fs::symlink_metadata(canary).unwrap();
    assert_eq!(fs::read_to_string(canary).unwrap(), CANARY);
    assert_eq!(
        (found.uid(), found.gid(), found.mode() & 0o7777),
        (1234, 1234, 0o600)
    );
}

/// Runs a command in a node.
fn inside(lab: &Lab, node: &str, argv: &[&str]) -> Output {
    constel([&["exec", lab.name.as_str(), node, "--"], argv].concat())
}

/// Runs a command by a script of the host, in which `$exec NODE COMMAND` does it: for open files and environments of callers.
fn by_script(lab: &Lab, script: &str) -> Output {
    let mut command = Command::new("sh");
    let exec = format!(
        "exec() {{ node=$1; shift; '{CONSTEL}' exec {} \"$node\" -- \"$@\"; }}\n",
        lab.name
    );
    let exec = exec.replace("exec()", "inside()");
    command.args(["-c", &format!("{exec}{script}")]);
    // A signal to its process group must not end the tests.
    command.process_group(0);
    finish(command)
}
