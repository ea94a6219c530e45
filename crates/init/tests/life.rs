//! The program in a folder with a node's information: written as a lab does it, a file at a time, each in one instant.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const WITHIN: Duration = Duration::from_secs(240);

/// A folder with a template, and the program on it.
struct Node {
    dir: tempfile::TempDir,
    init: Child,
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.init.kill());
        drop(self.init.wait());
    }
}

impl Node {
    fn start(reload: &[&str], script: &str) -> Node {
        let dir = tempfile::tempdir().unwrap();
        let text = "{{ node.name }}:{% for p in peers %} {{ p.node }}{% endfor %} {{ user.role | default(\"none\") }}\n";
        fs::write(dir.path().join("x.j2"), text).unwrap();
        fs::create_dir(dir.path().join("told")).unwrap();
        let init = Command::new(env!("CARGO_BIN_EXE_constel-init"))
            .current_dir(dir.path())
            .args(["--render", "x.j2=x.conf", "--told", "told/constel"])
            .args(reload)
            .args(["--", "sh", "-c", script])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Node { dir, init }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn tell(&self, name: &str, text: &str) {
        let file = self.at("told/constel").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let new = self.at("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, file).unwrap();
    }

    fn tell_all(&self) {
        self.tell("node.json", r#"{"name": "tokyo"}"#);
        self.tell("ports.json", r#"{"ports": []}"#);
        self.tell("topology.json", r#"{"links": []}"#);
        self.tell("peers.json", r#"{"peers": [{"node": "a"}]}"#);
    }

    fn wait_for(&self, file: &str, text: &str) {
        let path = self.at(file);
        until(&format!("{file} says {text:?}"), || {
            let said = fs::read_to_string(&path).unwrap_or_default();
            (said == text).then_some(())
        });
    }

    fn code(&mut self) -> Option<i32> {
        until("it ends", || self.init.try_wait().unwrap()).code()
    }
}

fn until<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + WITHIN;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < end, "not within {WITHIN:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn it_waits_renders_starts_and_reloads() {
    // Each line of the log is what the program had read.
    let script = "trap 'cat x.conf >> log' HUP; cat x.conf >> log; while :; do sleep 0.05; done";
    let mut node = Node::start(&[], script);
    assert!(!node.at("x.conf").exists());
    node.tell_all();
    node.wait_for("x.conf", "tokyo: a none\n");
    node.wait_for("log", "tokyo: a none\n");
    node.tell("peers.json", r#"{"peers": [{"node": "a"}, {"node": "b"}]}"#);
    node.wait_for("log", "tokyo: a none\ntokyo: a b none\n");
    // An update without differences is no change.
    node.tell("topology.json", r#"{"links": [1]}"#);
    node.tell("user/role", "edge");
    node.wait_for("log", "tokyo: a none\ntokyo: a b none\ntokyo: a b edge\n");
    fs::remove_file(node.at("told/constel/user/role")).unwrap();
    node.wait_for("x.conf", "tokyo: a b none\n");
    let pid = rustix::process::Pid::from_child(&node.init);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(node.code(), Some(128 + 15), "the program's own end");
}

#[test]
fn a_command_reloads_and_the_programs_code_is_given() {
    let script = "until [ -e end ]; do sleep 0.05; done; exit 7";
    let mut node = Node::start(&["--reload", "cp x.conf reloaded"], script);
    node.tell_all();
    node.wait_for("x.conf", "tokyo: a none\n");
    assert!(!node.at("reloaded").exists(), "nothing was new yet");
    node.tell("peers.json", r#"{"peers": []}"#);
    node.wait_for("reloaded", "tokyo: none\n");
    fs::write(node.at("end"), "").unwrap();
    assert_eq!(node.code(), Some(7));
}

#[test]
fn what_cannot_be_is_said() {
    let node = |program: &str| {
        let mut node = Node::start(&[], "exit 0");
        drop(node.init.kill());
        drop(node.init.wait());
        node.tell_all();
        let output = Command::new(env!("CARGO_BIN_EXE_constel-init"))
            .current_dir(node.dir.path())
            .args([
                "--render",
                "x.j2=x.conf",
                "--told",
                "told/constel",
                "--",
                program,
            ])
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, said) = node("no-such-program");
    assert_eq!(code, Some(1));
    assert!(
        said.contains("start no-such-program: No such file"),
        "{said}"
    );
    assert_eq!(node("true").0, Some(0));
}

/// The template that is shipped is one that BIRD takes, where there is one.
#[test]
fn the_shipped_template_is_birds() {
    let setup = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/setup/bird.conf.j2");
    let node = Node::start(&[], "exit 0");
    node.tell("node.json", r#"{"name": "sat", "ipv4": "10.0.0.1"}"#);
    let ports = r#"{"ports": [{"name": "isl0", "kind": "isl"}, {"name": "gsl0", "kind": "gsl"}]}"#;
    node.tell("ports.json", ports);
    node.tell("topology.json", r#"{"links": []}"#);
    let peers = r#"{"peers": [
        {"node": "b", "class": "satellite", "port": "isl0", "ipv4": "10.0.0.2", "far": {"ipv4": "10.128.0.1"}},
        {"node": "tokyo", "class": "ground", "port": "gsl0", "ipv4": "10.0.1.2", "far": {"ipv4": "10.64.0.9"}}]}"#;
    node.tell("peers.json", peers);
    let status = Command::new(env!("CARGO_BIN_EXE_constel-init"))
        .current_dir(node.dir.path())
        .args(["--render", &format!("{}=bird.conf", setup.display())])
        .args(["--told", "told/constel", "--", "true"])
        .status()
        .unwrap();
    assert!(status.success());
    let text = fs::read_to_string(node.at("bird.conf")).unwrap();
    assert!(text.contains("route 10.0.1.2/32 via 10.64.0.9;"), "{text}");
    assert!(
        text.contains("interface \"isl0\"") && !text.contains("interface \"gsl0\""),
        "{text}"
    );
    let bird = Command::new("/usr/sbin/bird")
        .args(["-p", "-c"])
        .arg(node.at("bird.conf"))
        .output();
    match bird {
        Err(_) => eprintln!("SKIPPED: bird is not installed (Debian: apt-get install bird2)"),
        Ok(bird) => {
            let said = String::from_utf8_lossy(&bird.stderr);
            assert!(bird.status.success(), "{said}\n{text}");
        }
    }
}
