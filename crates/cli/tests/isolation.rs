//! Isolation of a lab's programs from the host and from other labs, and their limits.

use crate::support;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use constel_host::cgroup::LabCgroup;
use constel_host::process::marked;
use rustix::process::{Pid, Signal, kill_process};
use support::host::Host;
use support::lab::Lab;
use support::probe::{Pace, echo};
use support::{CONSTEL, Stopwatch, constel, netns, scenario, stderr, until};

const COMPUTED: &str = "{mode: computed}";

/// The output of a command in a node, both streams.
fn says(lab: &Lab, node: &str, script: &str) -> String {
    let script = format!("exec 2>&1; {script}");
    let output = constel(["exec", &lab.name, node, "--", "sh", "-c", &script]);
    String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output)
}

#[test]
fn programs_of_a_node_reach_neither_the_host_nor_other_labs() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "seen.yaml", COMPUTED, "");
    let mut lab = Lab::up("seen", &file, dir.path(), &[]);
    let mut other = Lab::up("unseen", &file, dir.path(), &[]);
    let mut sleeper = Command::new("sleep")
        .arg("50")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut there = Command::new(CONSTEL);
    there.args(["exec", &other.name, "west", "--", "sleep", "51"]);
    let mut there = there.spawn().unwrap();
    until("the other lab's sleeps", || {
        let inside = marked(Some(&other.name)).unwrap();
        inside.iter().any(|p| p.node.is_some()).then_some(())
    });

    // The node's init and the shell.
    let commands = says(&lab, "west", "cat /proc/[0-9]*/comm");
    assert_eq!(commands, "sleep\nsh\n", "no process of the host");
    says(
        &lab,
        "west",
        "for p in /proc/[0-9]*; do kill -9 ${p#/proc/}; done",
    );
    assert_eq!(
        sleeper.try_wait().unwrap(),
        None,
        "the host's own sleep lives"
    );
    assert_eq!(there.try_wait().unwrap(), None, "and the other lab's");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();

    for place in ["/tmp", "/run", "/dev/shm"] {
        let name = format!("{place}/constel-test-isolation");
        assert_eq!(
            says(&lab, "west", &format!("echo x > {name}; cat {name}")),
            "x\n"
        );
        assert!(!Path::new(&name).exists(), "{name} on the host");
        assert!(says(&lab, "east", &format!("cat {name}")).contains("No such file"));
    }
    for file in ["/sys/kernel/rcu_expedited", "/proc/sys/kernel/hostname"] {
        let words = says(&lab, "west", &format!(": > {file}"));
        assert!(words.contains("Read-only file system"), "{file}: {words}");
    }
    let words = says(&lab, "west", "ls /run/constel");
    assert!(
        !words.contains(".sock"),
        "the lab's own door is not in the node: {words}"
    );
    let words = says(&lab, "west", &format!("{CONSTEL} clean"));
    assert!(words.contains("program of the node 'west'"), "{words}");

    assert_eq!(other.interrupt().code(), Some(130), "{}", other.stderr());
    assert!(!there.wait().unwrap().success());
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("isolation");
}

#[test]
fn files_cross_where_the_scenario_says_so() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("site")).unwrap();
    fs::write(dir.path().join("site/index"), "hello\n").unwrap();
    let traffic = "mounts:
  - {host: site, at: /run/site, nodes: [west]}
  - {host: site, at: /tmp/out, read_only: false}
traffic:
  - {name: west, at: 0 s, for: 5 s, run: {node: west, command: [sh, -c, 'cat /run/site/index; cp /run/site/index $CONSTEL_NODE_DIR/kept; : > /run/site/x']}}
  - {name: east, at: 0 s, for: 5 s, run: {node: east, command: [sh, -c, 'ls /run/site; echo east > /tmp/out/from-east']}}
";
    let file = scenario::small(dir.path(), "files.yaml", COMPUTED, traffic);
    let mut lab = Lab::start("files", &file, dir.path(), &["--for", "3s"]);
    let code = lab.ended().code();
    assert_eq!(code, Some(1), "a program failed: {}", lab.stderr());
    let read = |name: &str| fs::read_to_string(lab.results.join(name)).unwrap_or_default();
    assert_eq!(
        read("nodes/west/kept"),
        "hello\n",
        "what a node keeps is among the results"
    );
    assert!(
        !lab.results.join("nodes/east").exists(),
        "a node that kept nothing has no folder"
    );
    assert_eq!(read("flows/west.out"), "hello\n");
    assert!(read("flows/west.err").contains("Read-only file system"));
    assert!(
        read("flows/east.err").contains("No such file"),
        "shown to west only"
    );
    let from_east = dir.path().join("site/from-east");
    assert_eq!(fs::read_to_string(from_east).unwrap(), "east\n");
    host.assert_as_before("files");

    let missing = "mounts:\n  - {host: nowhere, at: /srv}\n  - {host: site, at: /no/such/place}\n";
    let file = scenario::small(dir.path(), "missing.yaml", COMPUTED, missing);
    let mut lab = Lab::start("missing", &file, dir.path(), &[]);
    assert_eq!(lab.ended().code(), Some(5), "{}", lab.stderr());
    for words in [
        "nowhere does not exist",
        "/no/such/place, which does not exist",
    ] {
        assert!(lab.stderr().contains(words), "{}", lab.stderr());
    }
    host.assert_as_before("missing");
}

/// The hogs end inside their limits, and a lab beside them answers as before.
#[test]
fn hogs_end_inside_their_labs_limits() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let quiet = scenario::small(dir.path(), "quiet.yaml", COMPUTED, "");
    let limits = "limits: {memory: 128 MiB, processes: 60, nodes: {east: {processes: 8}}}\n";
    let greedy = scenario::small(dir.path(), "greedy.yaml", COMPUTED, limits);
    let mut victim = Lab::up("victim", &quiet, dir.path(), &[]);
    let mut lab = Lab::up("greedy", &greedy, dir.path(), &[]);
    let (east, target) = (victim.node("west"), netns::loopback(&victim.node("east")));
    let pace = Pace {
        count: 300,
        every: Duration::from_millis(10),
        patience: Duration::from_secs(2),
    };
    let (bomb, small, hog, samples) = std::thread::scope(|scope| {
        let samples = scope.spawn(|| echo(&east, target, pace));
        let bomb = "for i in $(seq 100); do sleep 1 & done; echo still; wait";
        let bombs = scope.spawn(|| says(&lab, "west", bomb));
        let small = says(&lab, "east", bomb);
        let hog = constel(["exec", &lab.name, "west", "--", "tail", "/dev/zero"]);
        (bombs.join().unwrap(), small, hog, samples.join().unwrap())
    });
    for words in [&bomb, &small] {
        assert!(
            words.contains("fork") || words.contains("unavailable"),
            "{words}"
        );
    }
    assert_eq!(
        hog.status.code(),
        Some(137),
        "killed for want of memory: {}",
        stderr(&hog)
    );
    let lost = samples.iter().filter(|s| s.took_ns.is_none()).count();
    assert_eq!(lost, 0, "of the victim's 300");
    assert!(lab.state().is_some(), "the lab itself lives");
    // A process that holds a node keeps it from going.
    drop(east);
    for lab in [&mut lab, &mut victim] {
        assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    }
    host.assert_as_before("hogs");
}

#[test]
fn a_killed_init_ends_the_programs_and_the_trust() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let traffic = "traffic:
  - {name: ping, at: 0 s, for: 50 s, ping: {from: west, to: east, interval: 100 ms}}
";
    let file = scenario::small(dir.path(), "init.yaml", COMPUTED, traffic);
    let mut lab = Lab::up("init", &file, dir.path(), &["--for", "6s"]);
    // A program that has given figures is no less a failure than one that has not.
    let answers = lab.results.join("flows/ping.out");
    until("the flow has answers", || {
        let text = std::fs::read_to_string(&answers).ok()?;
        (text.lines().count() > 5).then_some(())
    });
    let all = marked(Some(&lab.name)).unwrap();
    let init = all.iter().find(|p| p.node.is_none());
    let init = init.expect("the lab's init");
    kill_process(Pid::from_raw(init.pid as i32).unwrap(), Signal::KILL).unwrap();
    // The programs were killed, and the figures are not to be trusted either.
    assert_eq!(lab.ended().code(), Some(1), "{}", lab.stderr());
    assert_eq!(lab.summary()["verdict"]["trustworthy"], false);
    let failures = lab.summary()["fidelity"]["failures"].to_string();
    assert!(failures.contains("init ended"), "{failures}");
    let software = lab.summary()["software"]["failures"].to_string();
    assert!(
        software.contains("since the lab's init ended"),
        "{software}"
    );
    let flow = &lab.summary()["flows"][0];
    assert!(flow["sent_packets"].as_u64() >= Some(4), "{flow:#}");
    host.assert_as_before("init");
}

/// A shell that waits for its next line.
fn open_shell(lab: &Lab, node: &str) -> Child {
    Command::new(CONSTEL)
        .args(["shell", &lab.name, node])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn open_shells_and_daemons_left_behind_do_not_keep_iridium_up() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("scenarios/iridium.yaml")).unwrap();
    let data = format!("{}/scenarios/data/", root.canonicalize().unwrap().display());
    let text = text.replace("file: data/", &format!("file: {data}"));
    let text = text.replace("mode: bird", "mode: computed");
    let text = text.replace("  ospf: {hello: 1 s, dead: 4 s}\n", "");
    let file = scenario::write(dir.path(), "shells.yaml", &text);
    let mut lab = Lab::up("shells", &file, dir.path(), &["--no-traffic"]);
    let nodes = lab.nodes();
    let mut shells: Vec<_> = nodes[..20]
        .iter()
        .map(|node| open_shell(&lab, node))
        .collect();
    for node in &nodes[20..40] {
        says(
            &lab,
            node,
            "setsid sleep 999 < /dev/null > /dev/null 2>&1 & echo left",
        );
    }
    until("all are in their nodes", || {
        let inside = marked(Some(&lab.name)).unwrap();
        let count = inside.iter().filter(|p| p.node.is_some()).count();
        (count >= 40).then_some(())
    });
    let asked = Stopwatch::begin();
    let output = constel(["down", &lab.name]);
    asked.assert_within(Duration::from_secs(3), "down");
    assert!(output.status.success(), "{}", stderr(&output));
    let code = lab.ended().code();
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {}", lab.stderr());
    assert_eq!(lab.summary()["size"]["nodes"], 80);
    for shell in &mut shells {
        assert!(!shell.wait().unwrap().success(), "it was ended");
    }
    host.assert_as_before("shells");
}

/// For every limit of the lab, an error is printed if the host cannot enforce it.
#[test]
fn groups_of_a_lab_have_its_limits() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let limits = "limits: {memory: 100 MiB, processes: 50}\n";
    let file = scenario::small(dir.path(), "groups.yaml", COMPUTED, limits);
    let mut lab = Lab::up("groups", &file, dir.path(), &[]);
    let groups = LabCgroup::open_all(&lab.name.parse().unwrap()).unwrap();
    let set = |files: &[&str]| {
        let paths = groups
            .iter()
            .flat_map(|g| files.iter().map(|f| g.path().join(f)));
        let texts = paths.filter_map(|path| fs::read_to_string(path).ok());
        texts.map(|text| text.trim().to_owned()).collect::<Vec<_>>()
    };
    assert!(set(&["memory.max", "memory.limit_in_bytes"]).contains(&(100 << 20).to_string()));
    assert!(set(&["pids.max"]).contains(&"50".to_owned()));
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("groups");
}
