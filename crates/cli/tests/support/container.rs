//! Images made of the host's busybox, and labs of them; nothing comes from a network.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::lab::Lab;
use super::{CONSTEL, constel, finish, scenario, stderr, stdout};

pub(crate) const WITHIN: Duration = Duration::from_secs(30);
pub(crate) const COMPUTED: &str = "{mode: computed}";

/// Brings in an image that has a busybox, a user and nothing else; without a program of its own.
pub(crate) fn import(dir: &Path) {
    let root = dir.join("rootfs");
    make(&root);
    import_folder(dir, &root, "box");
}

/// A folder with a busybox, a user and nothing else.
pub(crate) fn make(root: &Path) {
    for folder in ["bin", "etc"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::copy(busybox(), root.join("bin/busybox")).unwrap();
    for name in [
        "sh", "cat", "id", "ip", "sleep", "dd", "hostname", "pwd", "env", "touch", "rm", "ping",
        "time", "timeout",
    ] {
        symlink("busybox", root.join("bin").join(name)).unwrap();
    }
    fs::write(
        root.join("etc/passwd"),
        "root:x:0:0::/root:/bin/sh\nweb:x:33:34::/srv:/bin/sh\n",
    )
    .unwrap();
    fs::write(
        root.join("etc/group"),
        "root:x:0:\nweb:x:34:\nlogs:x:44:web\n",
    )
    .unwrap();
}

/// Brings in a folder as an image, into the store that labs of the test have.
pub(crate) fn import_folder(dir: &Path, root: &Path, name: &str) {
    let output = bring_in(dir, root, name);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

/// Runs a container that may be refused.
pub(crate) fn bring_in(dir: &Path, root: &Path, name: &str) -> Output {
    let mut command = Command::new(CONSTEL);
    let source = format!("rootfs:{}", root.display());
    command.args(["image", "import", "--name", name, &source]);
    command.env("XDG_CACHE_HOME", dir);
    finish(command)
}

/// A lab's folder with the image, and its scenario.
pub(crate) fn prepared(name: &str, nodes: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    import(dir.path());
    let file = scenario::small(dir.path(), name, COMPUTED, nodes);
    (dir, file)
}

pub(crate) fn exec(lab: &Lab, node: &str, argv: &[&str]) -> String {
    let output = constel([&["exec", lab.name.as_str(), node, "--"], argv].concat());
    stdout(&output) + &stderr(&output)
}

/// The share of a processor that a program gets in three seconds which takes all it can get.
pub(crate) fn processor_share(lab: &Lab, node: &str) -> f64 {
    let greedy = [
        "time",
        "-p",
        "timeout",
        "3",
        "sh",
        "-c",
        "while :; do :; done",
    ];
    let begun = Instant::now();
    let said = exec(lab, node, &greedy);
    let took_s = begun.elapsed().as_secs_f64();
    let seconds = |line: &str| {
        let of = line.strip_prefix("user ").or(line.strip_prefix("sys "))?;
        of.trim().parse::<f64>().ok()
    };
    let used_s: f64 = said.lines().filter_map(seconds).sum();
    assert!(used_s > 0.0, "{said}");
    used_s / took_s
}

pub(crate) fn events(lab: &Lab, kind: &str) -> Vec<Value> {
    let text = fs::read_to_string(lab.results.join("events.ndjson")).unwrap_or_default();
    // The lab still writes: its last line may be there in part.
    let whole = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    let all = whole.map(|line| serde_json::from_str(line).unwrap());
    all.filter(|event: &Value| event["kind"] == kind).collect()
}

/// A static program that is all others.
pub(crate) fn busybox() -> &'static Path {
    let places = ["/bin/busybox", "/usr/bin/busybox"];
    let found = places.into_iter().find(|path| Path::new(path).exists());
    Path::new(found.expect("this test needs busybox-static"))
}
