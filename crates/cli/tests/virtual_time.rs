//! `--time virtual`: labs in a guest kernel whose clock waits. Without root. `make virtual` builds the kernel; if it is not
//! built, the tests that need it print a message.

use crate::support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
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
        self.program(&self.folder.path().join("constel"), words)
    }

    fn program(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(words)
            .env("CONSTEL", self.folder.path().join("constel"))
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

/// The shards are made by the job file for Slurm, as two tasks of an array.
#[test]
fn merged_shards_have_the_bytes_of_a_sweep_in_one_go() {
    let Some(own) = Unprivileged::new() else {
        return;
    };
    let ping = "ping: {from: a, to: b, interval: 100 ms}";
    let text = three("shards", "", ping)
        .replace("duration: 12 s", "duration: 3 s")
        .replace("for: 10 s", "for: 2 s");
    let file = scenario::write(own.folder.path(), "shards.yaml", &text);
    let file = file.to_str().unwrap();
    let job = own.folder.path().join("slurm");
    fs::copy(support::workspace().join("tools/sweep/slurm"), &job).unwrap();
    let more = [
        "--seeds",
        "1..2",
        "--set",
        "ground.cables[0].delay=10 ms,20 ms",
    ];

    let words = ["sweep", file, "--out", "at-once", "--time", "virtual"];
    let at_once = own.run(&[&words, &more[..]].concat());
    assert_eq!(at_once.status.code(), Some(0), "{}", stderr(&at_once));
    for task in ["2", "1"] {
        let mut command = own.program(&job, &[&[file, "shards"], &more[..]].concat());
        let array = [
            ("SLURM_ARRAY_TASK_ID", task),
            ("SLURM_ARRAY_TASK_MIN", "1"),
            ("SLURM_ARRAY_TASK_MAX", "2"),
            ("SLURM_ARRAY_TASK_COUNT", "2"),
            ("SLURM_CPUS_PER_TASK", "2"),
        ];
        command.envs(array);
        let shard = finish(command);
        assert_eq!(shard.status.code(), Some(0), "{}", stderr(&shard));
        // Without the other shard, half of the runs are missing.
        if task == "2" {
            let early = own.run(&["sweep", "merge", "shards"]);
            assert_eq!(early.status.code(), Some(1), "{}", stderr(&early));
            let said = stderr(&early);
            assert!(
                said.contains("2 of the sweep's runs have no result"),
                "{said}"
            );
        }
    }
    let merged = own.run(&["sweep", "merge", "shards", "--csv"]);
    assert_eq!(merged.status.code(), Some(0), "{}", stderr(&merged));

    let [at_once, shards] = ["at-once", "shards"].map(|name| own.home().join(name));
    let plots = fs::read_dir(at_once.join("plots")).unwrap();
    let mut names: Vec<String> = plots
        .map(|plot| format!("plots/{}", plot.unwrap().file_name().display()))
        .collect();
    assert!(!names.is_empty());
    names.extend(["sweep.json", "table.json", "table.csv"].map(str::to_owned));
    for name in names {
        let [one, other] = [&at_once, &shards].map(|dir| fs::read(dir.join(&name)).unwrap());
        assert!(one == other, "{name} differs");
    }
    assert_eq!(fs::read(shards.join("table.csv")).unwrap(), merged.stdout);
    let mut runs = 0;
    for variant in fs::read_dir(at_once.join("runs")).unwrap() {
        let variant = variant.unwrap().file_name();
        for seed in ["seed-1/1", "seed-2/1"] {
            let flow = Path::new("runs")
                .join(&variant)
                .join(seed)
                .join("flows/flow.csv");
            let [one, other] = [&at_once, &shards].map(|dir| fs::read(dir.join(&flow)).unwrap());
            assert!(one == other, "{} differs", flow.display());
            runs += 1;
        }
    }
    assert_eq!(runs, 4);
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
        // FRR's daemons read the clock often, at the instants at which frames are due.
        ("frr", "links: {driver: edt}\nrouting: {daemon: frr}", ping),
        ("oci", &container, dates),
        ("netem", "links: {driver: netem}", ping),
        ("edt", "links: {driver: edt}", ping),
        ("relay", "links: {driver: relay}", ping),
        // The guest's kernel has these by itself, and takes no such programs.
        (
            "congestion",
            "transport: {congestion: [hybla, vegas, westwood]}",
            "iperf3: {from: a, to: b, protocol: tcp, congestion: hybla}",
        ),
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
        // A transfer fills the queues.
        let median_ns = flow["rtt"]["p50_ns"].as_f64();
        if let Some(median_ns) = median_ns.filter(|_| flow["kind"] == "ping") {
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

/// Also `kill -9`, after which this program can do nothing.
#[test]
fn a_signal_ends_the_guest_and_its_processes() {
    let Some(own) = Unprivileged::new() else {
        return;
    };
    let kernel = own.folder.path().join("linux");
    let of_kernel = |entry: &fs::DirEntry| {
        fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == kernel)
    };
    let processes = || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        all.filter(of_kernel).count()
    };
    for signal in [Signal::INT, Signal::KILL] {
        let results = format!("cut-{}", signal.as_raw());
        let mut child = own
            .command(&["demo", "--time", "virtual", "--results", &results])
            .spawn()
            .unwrap();
        until("the lab writes", || {
            let events = own.home().join(&results).join("events.ndjson");
            events.is_file().then_some(())
        });
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = support::wait(&mut child).unwrap();
        // It may have been at its end.
        let by_signal = ended.signal() == Some(Signal::KILL.as_raw());
        assert!(
            by_signal || matches!(ended.code(), Some(130 | 0)),
            "{ended}"
        );
        until("no process of the kernel is left", || {
            (processes() == 0).then_some(())
        });
    }
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
