//! `--time virtual`: labs in a guest kernel whose clock waits. Without root. `make virtual` builds the kernel; if it is not
//! built, the tests that need it print a message.

use crate::support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use support::{CONSTEL, finish, scenario, stderr, until};

/// nobody
const USER: u32 = 65_534;

/// The program, the kernel and a home, where a user without rights has access to them.
struct Unprivileged {
    folder: tempfile::TempDir,
}

impl Unprivileged {
    fn new() -> Option<Self> {
        let kernel = support::workspace().join("target/virtual/linux");
        if !kernel.is_file() {
            support::skip("there is no kernel of virtual time (make virtual)");
            return None;
        }
        if !is_of_this_tree(&kernel) {
            support::skip("the kernel of virtual time has other patches (make virtual)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(CONSTEL, folder.path().join("constel")).unwrap();
        fs::copy(kernel, folder.path().join("linux")).unwrap();
        let own = Self { folder };
        fs::create_dir(own.home()).unwrap();
        chown(own.home(), Some(USER), Some(USER)).unwrap();
        Some(own)
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.folder.path().join("constel"));
        command
            .args(words)
            .env("CONSTEL_KERNEL", self.folder.path().join("linux"))
            .env("HOME", self.home())
            .env("TMPDIR", self.home())
            .current_dir(self.home())
            .uid(USER)
            .gid(USER);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        finish(self.command(words))
    }
}

/// Whether a kernel was built with the patches of this tree, which its build leaves beside it.
fn is_of_this_tree(kernel: &Path) -> bool {
    let built = fs::canonicalize(kernel).unwrap();
    let folder = built.parent().unwrap();
    let tools = support::workspace().join("tools/virtual");
    let patches = fs::read_dir(tools)
        .unwrap()
        .map(|file| file.unwrap().path());
    patches
        .filter(|file| file.extension().is_some_and(|end| end == "patch"))
        .all(|file| {
            let beside = fs::read(folder.join(file.file_name().unwrap()));
            beside.is_ok_and(|bytes| bytes == fs::read(&file).unwrap())
        })
}

/// All that a run measured and saw, by file.
fn measured(results: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let flows = fs::read_dir(results.join("flows")).unwrap();
    let mut files: Vec<PathBuf> = flows.map(|entry| entry.unwrap().path()).collect();
    files.extend(["events.ndjson", "series.csv"].map(|name| results.join(name)));
    files.sort();
    files
        .into_iter()
        .map(|file| (file.clone(), fs::read(file).unwrap()))
        .collect()
}

#[test]
fn a_run_is_the_same_to_the_byte_whatever_else_the_host_does_and_whoever_starts_it() {
    let Some(own) = Unprivileged::new() else {
        return;
    };
    let results = own.home().join("demo");
    let run = || {
        let ended = own.run(&["demo", "--time", "virtual", "--results", "demo"]);
        assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
        let text = fs::read_to_string(results.join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(summary["verdict"]["trustworthy"], true, "{summary:#}");
        for flow in summary["flows"].as_array().unwrap() {
            assert_eq!(flow["loss_ratio"], 0.0, "{flow:#}");
            // The links are as long as the path; the rest is the time that frames take to be sent.
            let ns = |key: &str| flow[key]["min_ns"].as_f64().unwrap();
            let off_ns = ns("rtt") - ns("path_rtt");
            assert!((0.0..200_000.0).contains(&off_ns), "{off_ns} ns: {flow:#}");
        }
        let measured = measured(&results);
        fs::remove_dir_all(&results).unwrap();
        measured
    };
    let quiet = run();
    let over = AtomicBool::new(false);
    let busy = thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let busy = run();
        over.store(true, Ordering::Relaxed);
        busy
    });
    for ((file, quiet), (_, busy)) in quiet.iter().zip(&busy) {
        assert!(quiet == busy, "{} differs", file.display());
    }
    assert_eq!(quiet.len(), busy.len());
}

/// OSPF, transfers by TCP, UDP and HTTP, and Python: programs that draw random numbers, race and open connections.
const BUSY: &str = "constel: 1
name: busy
start: 2026-11-21T00:00:00Z
duration: 24 s
step: 1 s
clock: {time: virtual}
routing: {mode: bird, families: [ipv4, ipv6], ospf: {hello: 1 s, dead: 4 s}}
ground:
  hosts:
    a: {latitude: 0 deg, longitude: 0 deg}
    b: {latitude: 0 deg, longitude: 1 deg}
    c: {latitude: 0 deg, longitude: 2 deg}
    d: {latitude: 1 deg, longitude: 1 deg}
  cables:
  - {from: a, to: b, delay: 10 ms, link: {rate: 20 Mbit/s}}
  - {from: b, to: c, delay: 10 ms, link: {rate: 20 Mbit/s, loss: 1 %}}
  - {from: a, to: d, delay: 15 ms, link: {rate: 20 Mbit/s}}
  - {from: d, to: c, delay: 15 ms, link: {rate: 20 Mbit/s}}
traffic:
- {name: ping, at: 1 s, for: 20 s, ping: {from: a, to: c, interval: 100 ms}}
- {name: udp, at: 2 s, for: 3 s, iperf3: {from: a, to: c, protocol: udp, rate: 2 Mbit/s}}
- {name: tcp, at: 3 s, for: 3 s, iperf3: {from: c, to: a, protocol: tcp}}
- {name: web, at: 9 s, for: 10 s, http: {from: d, to: b, size: 1 MB}}
- name: python
  at: 4 s
  for: 5 s
  run: {node: a, command: [python3, -c, 'import os, random, time; print(os.urandom(8), random.random(), hash(\"a\"), time.time())']}
";

/// The scenario names virtual time, without a flag.
#[test]
fn daemons_and_transfers_are_the_same_to_the_byte_whatever_the_caller_has_open() {
    let Some(own) = Unprivileged::new() else {
        return;
    };
    let file = scenario::write(own.folder.path(), "busy.yaml", BUSY);
    let results = own.home().join("busy");
    let run = |more: &str| {
        let mut command = own.command(&["run", file.to_str().unwrap(), "--results", "busy"]);
        command.env("MORE", more);
        let ended = finish(command);
        assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
        let text = fs::read_to_string(results.join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        for flow in summary["flows"].as_array().unwrap() {
            assert_eq!(flow["status"], "ok", "{flow:#}");
            assert_eq!(flow["end"]["how"], "by-itself", "{flow:#}");
        }
        let measured = measured(&results);
        fs::remove_dir_all(&results).unwrap();
        measured
    };
    let first = run("");
    // The second caller has another environment and an open file that its programs inherit.
    let open = fs::File::open("/dev/null").unwrap();
    fcntl_setfd(&open, FdFlags::empty()).unwrap();
    let second = run("longer than the first");
    assert_eq!(first.len(), second.len());
    for ((file, first), (_, second)) in first.iter().zip(&second) {
        assert!(first == second, "{} differs", file.display());
    }
}

/// Two hosts and a router, with these keys.
fn three(name: &str, keys: &str, flow: &str) -> String {
    format!(
        "constel: 1
name: {name}
start: 2026-11-21T00:00:00Z
duration: 12 s
step: 1 s
{keys}
ground:
  hosts:
    a: {{latitude: 0 deg, longitude: 0 deg}}
    r: {{latitude: 0 deg, longitude: 1 deg}}
    b: {{latitude: 0 deg, longitude: 2 deg}}
  cables:
  - {{from: a, to: r, delay: 10 ms, link: {{rate: 100 Mbit/s}}}}
  - {{from: r, to: b, delay: 10 ms, link: {{rate: 100 Mbit/s}}}}
traffic:
- {{name: flow, at: 1 s, for: 10 s, {flow}}}
"
    )
}

/// FRR's daemons and containers give files to other users, which the user of the guest may not. The kernel's own drivers are exact.
#[test]
fn software_and_drivers_of_labs_run_for_an_ordinary_user() {
    let Some(own) = Unprivileged::new() else {
        return;
    };
    let image = own.folder.path().join("bird.tar");
    let mut make = Command::new(support::workspace().join("scenarios/images/make"));
    make.args(["bird", "--out"])
        .arg(&image)
        .env("CONSTEL", CONSTEL);
    let made = finish(make);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    fs::set_permissions(&image, fs::Permissions::from_mode(0o644)).unwrap();
    let container = format!(
        "images: {{bird: {{source: 'docker-archive:{}'}}}}\nnodes: {{hosts: {{image: bird, command: [sleep, '3600']}}}}",
        image.display()
    );
    let ping = "ping: {from: a, to: b, interval: 100 ms}";
    let dates = "run: {node: a, command: [sh, -c, 'sleep 2; date']}";
    let cases = [
        (
            "frr",
            "links: {driver: netem}
routing: {daemon: frr}",
            ping,
        ),
        ("oci", &container, dates),
        ("netem", "links: {driver: netem}", ping),
        ("edt", "links: {driver: edt}", ping),
    ];
    for (name, keys, flow) in cases {
        let file = format!("{name}.yaml");
        let file = scenario::write(own.folder.path(), &file, &three(name, keys, flow));
        let words = [
            "run",
            file.to_str().unwrap(),
            "--time",
            "virtual",
            "--results",
        ];
        let ended = own.run(&[&words[..], &[name]].concat());
        assert_eq!(ended.status.code(), Some(0), "{name}: {}", stderr(&ended));
        let text = fs::read_to_string(own.home().join(name).join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        let flow = &summary["flows"][0];
        assert_eq!(flow["status"], "ok", "{name}: {flow:#}");
        if let Some(median_ns) = flow["rtt"]["p50_ns"].as_f64() {
            // Four links of 10 ms, and the time that frames take to be sent.
            let off_ns = median_ns - 40e6;
            assert!((0.0..200_000.0).contains(&off_ns), "{name}: {flow:#}");
        }
    }
}

/// The guest's kernel has what `netem` and `edt` need. A program deletes its node's interface, moves it away and renames it: the lab makes it
/// again, with the driver's queues and filters, and others notice nothing.
#[test]
fn an_interface_that_a_node_deletes_is_made_again_by_the_kernels_drivers() {
    let Some(own) = Unprivileged::new() else {
        return;
    };
    let flows = "ping: {from: r, to: b, interval: 100 ms}}
- {name: deleted, at: 2 s, for: 1 s, run: {node: a, command: [ip, link, del, eth0]}}
- {name: moved, at: 5 s, for: 3 s, run: {node: a, command: [sh, -c, 'unshare -n sleep 2 & sleep 0.5; ip link set eth0 netns $!; wait']}}
- {name: named, at: 9 s, for: 1 s, run: {node: a, command: [sh, -c, 'ip link set eth0 down; ip link set eth0 name wan0; ip link set wan0 up || ip link set eth0 up']}}
- {name: back, at: 14 s, for: 4 s, ping: {from: b, to: a, interval: 100 ms}}
- {name: forth, at: 14 s, for: 4 s, ping: {from: a, to: b, interval: 100 ms}";
    for driver in ["netem", "edt"] {
        let keys = format!("links: {{driver: {driver}}}\nrouting: {{mode: computed}}");
        let text = three(driver, &keys, flows).replace("duration: 12 s", "duration: 20 s");
        let file = scenario::write(own.folder.path(), &format!("{driver}.yaml"), &text);
        let words = ["run", file.to_str().unwrap(), "--time", "virtual"];
        let ended = own.run(&[&words[..], &["--results", driver]].concat());
        assert_eq!(ended.status.code(), Some(0), "{driver}: {}", stderr(&ended));
        let text = fs::read_to_string(own.home().join(driver).join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        let stacks = &summary["stacks"];
        assert_eq!(stacks.as_array().unwrap().len(), 1, "{driver}: {stacks:#}");
        assert_eq!(stacks[0]["restored"], true, "{driver}: {stacks:#}");
        assert!(stacks[0].get("left").is_none(), "{driver}: {stacks:#}");
        for words in ["eth0 is gone", "eth0 is called wan0"] {
            let changed = stacks[0]["changed"].to_string();
            assert!(changed.contains(words), "{driver}: {changed}");
        }
        for name in ["flow", "back", "forth"] {
            let flows = summary["flows"].as_array().unwrap();
            let flow = flows.iter().find(|flow| flow["name"] == name).unwrap();
            assert_eq!(flow["status"], "ok", "{driver}: {flow:#}");
            assert_eq!(flow["loss_ratio"], 0.0, "{driver}: {flow:#}");
        }
    }
}

#[test]
fn a_signal_ends_the_guest_and_its_processes() {
    let Some(own) = Unprivileged::new() else {
        return;
    };
    let mut child = own
        .command(&["demo", "--time", "virtual", "--results", "cut"])
        .spawn()
        .unwrap();
    until("the lab writes", || {
        own.home().join("cut/events.ndjson").is_file().then_some(())
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = support::wait(&mut child).unwrap();
    // It may have been at its end.
    assert!(matches!(ended.code(), Some(130 | 0)), "{ended}");
    let kernel = own.folder.path().join("linux");
    let of_kernel = |entry: fs::DirEntry| {
        fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == kernel)
    };
    until("no process of the kernel is left", || {
        let left = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| of_kernel(entry).then_some(()));
        (left.count() == 0).then_some(())
    });
}

/// All reasons at once, and before anything is made.
#[test]
fn what_keeps_the_hosts_time_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let text = "constel: 1
name: plugged
start: 2026-11-21T00:00:00Z
duration: 5 s
step: 1 s
ground:
  hosts:
    a: {latitude: 0 deg, longitude: 0 deg, attach: eth9}
    b: {latitude: 0 deg, longitude: 0 deg, attach: eth8}
  cables:
  - {from: a, to: b, delay: 5 ms, link: {rate: 100 Mbit/s}}
";
    let file = scenario::write(dir.path(), "plugged.yaml", text);
    let refused = support::constel(["run", file.to_str().unwrap(), "--time", "virtual", "--web"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    for reason in ["eth9", "eth8", "--web"] {
        assert!(
            stderr(&refused).contains(reason),
            "{reason}: {}",
            stderr(&refused)
        );
    }
    // The key of a scenario is refused where the flag is.
    let engines = three(
        "engines",
        "clock: {time: virtual}\nnodes: {hosts: {image: constel/bird, runtime: docker}}",
        "run: {node: a, command: [date]}",
    );
    let engines = scenario::write(dir.path(), "engines.yaml", &engines);
    let refused = support::constel(["check", engines.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(4), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("`runtime: docker`, and `clock.time` is `virtual`"),
        "{}",
        stderr(&refused)
    );
    let mut command = Command::new(CONSTEL);
    command
        .args(["demo", "--time", "virtual"])
        .env("CONSTEL_KERNEL", "/nowhere/linux")
        .current_dir(dir.path());
    let none = finish(command);
    assert_eq!(none.status.code(), Some(5), "{}", stderr(&none));
    assert!(stderr(&none).contains("make virtual"), "{}", stderr(&none));
    assert!(!dir.path().join("results").exists(), "nothing is made");
}
