//! Failures in containers while a lab runs: full files, programs killed, programs that work no longer. The lab goes on
//! where it can, says what happened, and the host is as before. Needs root and a static busybox.

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use constel_host::process::marked;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::container::{COMPUTED, events, exec, import, prepared};
use support::host::Host;
use support::lab::Lab;
use support::{constel, scenario, stderr, stdout, until};

#[test]
fn a_node_that_fills_its_files_fills_its_own() {
    let host = Host::take();
    let nodes = "nodes:
  stations: {image: box, command: [sleep, '1000']}
  overrides:
    - {nodes: [west], set: {limits: {files: 4 MiB}}}
    - {nodes: [east], set: {state: disk}}
";
    let (dir, file) = prepared("full.yaml", nodes);
    let mut lab = Lab::up("full", &file, dir.path(), &[]);
    let fill = |node: &str, path: &str| {
        exec(
            &lab,
            node,
            &[
                "dd",
                "if=/dev/zero",
                &format!("of={path}"),
                "bs=1M",
                "count=16",
            ],
        )
    };
    for path in ["/file", "/tmp/file", "/run/file", "/dev/shm/file"] {
        let words = fill("west", path);
        assert!(words.contains("No space left on device"), "{path}: {words}");
        exec(&lab, "west", &["rm", path]);
    }
    // One bound for all of them together.
    exec(
        &lab,
        "west",
        &["dd", "if=/dev/zero", "of=/tmp/most", "bs=1M", "count=3"],
    );
    assert!(fill("west", "/file").contains("No space left"));
    let words = fill("east", "/file");
    assert!(!words.contains("No space"), "{words}");
    let kept = fs::metadata(lab.results.join("nodes/east/state/files/file")).unwrap();
    assert_eq!(kept.len(), 16 << 20, "on the disk, in the results");
    assert!(
        exec(&lab, "west", &["cat", "/etc/hosts"]).contains("east"),
        "it lives on"
    );
    assert!(
        lab.stderr().lines().all(|line| !line.contains("panicked")),
        "{}",
        lab.stderr()
    );
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    assert!(
        lab.results.join("nodes/east/state/files/file").exists(),
        "kept"
    );
    host.assert_as_before("full");
}

#[test]
fn health_is_looked_after_from_outside() {
    let host = Host::take();
    let nodes = "nodes:
  stations:
    image: box
    command: [sleep, '1000']
    health: {command: [cat, /tmp/well], interval: 200 ms, timeout: 1 s, retries: 2}
  overrides:
    - {nodes: [east], set: {health: {command: [sleep, '100'], interval: 200 ms, timeout: 300 ms, retries: 1}}}
";
    let (dir, file) = prepared("health.yaml", nodes);
    let mut lab = Lab::up("health", &file, dir.path(), &[]);
    let of = |kind: &str, node: &str, least: usize| {
        until(&format!("{node} is {kind}"), || {
            let all = events(&lab, kind).into_iter();
            let mine: Vec<Value> = all.filter(|event| event["node"] == node).collect();
            (mine.len() >= least).then_some(mine)
        })
    };
    let bad = of("container-unhealthy", "west", 1);
    assert_eq!(bad[0]["how"], "exit code 1");
    exec(&lab, "west", &["touch", "/tmp/well"]);
    of("container-healthy", "west", 1);
    exec(&lab, "west", &["rm", "/tmp/well"]);
    of("container-unhealthy", "west", 2);
    let late = of("container-unhealthy", "east", 1);
    assert_eq!(late[0]["how"], "no answer within 300ms");
    let said = fs::read_to_string(lab.results.join("nodes/west/health.log")).unwrap();
    assert!(said.contains("can't open '/tmp/well'"), "{said}");
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    let failures = lab.summary()["fidelity"]["failures"].to_string();
    assert!(
        !failures.contains("west"),
        "bad health is no failure of the emulator: {failures}"
    );
    host.assert_as_before("health");
}

#[test]
fn programs_end_by_their_own_signal_within_their_own_time() {
    let host = Host::take();
    let nodes = "nodes:
  stations: {image: box, command: [sh, -c, 'trap \"echo quit; exit 0\" QUIT; trap \"echo term\" TERM; while true; do sleep 0.1; done']}
  overrides:
    - {nodes: [west], set: {stop: {signal: QUIT, grace: 20 s}}}
    - {nodes: [east], set: {stop: {grace: 0 s}}}
";
    let (dir, file) = prepared("stop.yaml", nodes);
    let mut lab = Lab::up("stop", &file, dir.path(), &[]);
    // The programs have printed their actions by now.
    until("the shells have set their traps", || {
        let all = marked(Some(&lab.name)).unwrap().into_iter();
        let caught = all.filter_map(|p| {
            let status = fs::read_to_string(format!("/proc/{}/status", p.pid)).ok()?;
            let bits = status
                .lines()
                .find_map(|line| line.strip_prefix("SigCgt:"))?;
            u64::from_str_radix(bits.trim(), 16).ok()
        });
        let traps = 1 << (Signal::QUIT.as_raw() - 1) | 1 << (Signal::TERM.as_raw() - 1);
        (caught.filter(|bits| bits & traps == traps).count() == 2).then_some(())
    });
    let begun = Instant::now();
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    let took = begun.elapsed();
    assert!(took.as_secs() < 15, "nobody waited for nobody: {took:?}");
    let said = |node: &str| {
        fs::read_to_string(lab.results.join(format!("nodes/{node}/program.log")))
            .unwrap_or_default()
    };
    // The child's output for the signal, which all of a group get, comes before.
    let west = said("west");
    assert!(west.ends_with("quit\n") && !west.contains("term"), "{west}");
    assert!(!said("east").contains("quit"));
    host.assert_as_before("stop");
}

/// As the thirteenth of its nodes would be in a lab of 1,300: one of a hundred, chosen by a seed.
#[test]
fn nodes_killed_at_random_come_back_or_are_named() {
    let host = Host::take();
    let nodes = "nodes:
  satellites: {image: box, command: [sleep, '1000'], restart: on-failure}
  stations: {image: box, command: [sleep, '1000'], restart: never}
";
    let (dir, file) = prepared("random.yaml", nodes);
    let mut lab = Lab::up("random", &file, dir.path(), &[]);
    let first = |node: &str| {
        let all = marked(Some(&lab.name)).unwrap().into_iter();
        all.filter(|p| p.node.as_deref() == Some(node))
            .map(|p| p.pid)
            .next()
    };
    let mut seed: u64 = 20_261_124;
    let mut victims = BTreeSet::from(["east".to_owned()]);
    while victims.len() < 4 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        victims.insert(format!(
            "sat-p{:02}-s{:02}",
            (seed >> 33) % 2,
            (seed >> 40) % 6
        ));
    }
    for node in &victims {
        let pid = first(node).unwrap();
        kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    }
    let of = |kind: &str| -> BTreeSet<String> {
        let all = events(&lab, kind).into_iter();
        all.map(|event| event["node"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut back = victims.clone();
    back.remove("east");
    until("all ends are told", || {
        (of("container-ended") == victims).then_some(())
    });
    until("satellites are back", || {
        (of("container-restarted") == back).then_some(())
    });
    for node in &back {
        assert!(
            exec(&lab, node, &["cat", "/proc/1/comm"]).starts_with("sleep"),
            "{node}"
        );
    }
    let asked = constel([
        "exec",
        &lab.name,
        "*",
        "--json",
        "--class",
        "satellite",
        "--",
        "cat",
        "/proc/1/comm",
    ]);
    let all: Vec<Value> = serde_json::from_str(&stdout(&asked)).unwrap();
    assert_eq!(
        (all.len(), asked.status.code()),
        (12, Some(0)),
        "{}",
        stderr(&asked)
    );
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    let failures = lab.summary()["software"]["failures"].to_string();
    assert!(
        failures.contains("the program of east ended: signal 9"),
        "{failures}"
    );
    assert!(
        back.iter().all(|node| !failures.contains(node.as_str())),
        "{failures}"
    );
    host.assert_as_before("random");
}

/// A container whose program fails before lab time zero, while daemons make routes, is in the summary as one that fails later.
/// Programs in a node end with the container of the node, and their ends are events.
#[test]
fn containers_that_end_early_or_take_others_along_are_failed_software() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    import(dir.path());
    let nodes = "nodes:
  overrides:
    - {nodes: [west], set: {image: box, command: [sleep, '1000'], restart: never}}
    - {nodes: [east], set: {image: box, command: [sh, -c, 'exit 7'], restart: never}}
traffic:
  - {name: inside, at: 0 s, for: 50 s, run: {node: west, command: [sleep, '40']}}
";
    let bird = "{mode: bird, ospf: {hello: 1 s, dead: 2 s}}";
    let file = scenario::small(dir.path(), "early.yaml", bird, nodes);
    let mut lab = Lab::up("early", &file, dir.path(), &["--for", "8s"]);
    let pid = until("the flow's program runs", || {
        let all = marked(Some(&lab.name)).unwrap().into_iter();
        let west: Vec<_> = all
            .filter(|p| p.node.as_deref() == Some("west"))
            .map(|p| p.pid)
            .collect();
        let argument = |pid: &u32, word: &str| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line == format!("sleep\0{word}\0")
        };
        west.iter().find(|pid| argument(pid, "40"))?;
        west.iter().find(|pid| argument(pid, "1000")).copied()
    });
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    assert_eq!(lab.ended().code(), Some(1), "{}", lab.stderr());
    let summary = lab.summary();
    let failures = summary["software"]["failures"].to_string();
    for words in [
        "the program of east ended: exit code 7",
        "the program of west ended: signal 9",
        "since the container of its node ended (signal 9)",
    ] {
        assert!(failures.contains(words), "{words}: {failures}");
    }
    assert_eq!(summary["fidelity"]["failures"].to_string(), "[]");
    host.assert_as_before("early");
}

/// The disk of the images is full: the import reports it and leaves no files.
#[test]
fn a_full_disk_below_the_store_is_said_and_survived() {
    use std::process::Command;
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let run = |command: &mut Command| assert!(command.status().unwrap().success(), "{command:?}");
    run(Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "constel-test"])
        .arg(&disk));
    let root = dir.path().join("rootfs");
    support::container::make(&root);
    let store = disk.join("store");
    let import = |what: &std::path::Path| {
        let (what, store) = (what.to_str().unwrap(), store.to_str().unwrap());
        constel(["image", "import", "--name", "box", "--store", store, what])
    };
    let full = import(&root);
    let listed = constel([
        "image",
        "list",
        "--json",
        "--store",
        store.to_str().unwrap(),
    ]);
    fs::remove_file(root.join("bin/busybox")).unwrap();
    let small = import(&root);
    run(Command::new("umount").arg(&disk));
    assert_eq!(full.status.code(), Some(1), "{}", stderr(&full));
    assert!(
        stderr(&full).contains("No space left on device"),
        "{}",
        stderr(&full)
    );
    let list: Value = serde_json::from_str(&stdout(&listed)).unwrap();
    assert_eq!(list["images"].as_array().unwrap().len(), 0);
    assert_eq!(list["usage"]["work"], 0, "{list}");
    assert_eq!(small.status.code(), Some(0), "{}", stderr(&small));
    host.assert_as_before("the store's disk");
}

#[test]
fn images_have_names_of_the_scenarios_own_and_digests() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    import(dir.path());
    let of = |images: &str| {
        let text = format!(
            "images:\n  router: {images}\nnodes: {{stations: {{image: router, command: [sleep, '1000']}}}}\n"
        );
        scenario::small(dir.path(), "named.yaml", COMPUTED, &text)
    };
    let file = of("{source: 'rootfs:rootfs'}");
    let mut lab = Lab::up("named", &file, dir.path(), &[]);
    assert!(exec(&lab, "west", &["id"]).contains("uid=0"));
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    let manifest = fs::read_to_string(lab.results.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let used = &manifest["images"][0];
    assert_eq!(
        (&used["name"], &used["nodes"]),
        (&"router".into(), &2.into()),
        "{used}"
    );
    let id = used["id"].as_str().unwrap().to_owned();
    // By its digest alone it is the same one.
    let file = of(&format!("{{digest: '{id}'}}"));
    let mut lab = Lab::up("named-2", &file, dir.path(), &[]);
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    // A file that is another image now is refused.
    fs::write(dir.path().join("rootfs/etc/new"), "x").unwrap();
    let file = of(&format!(
        "{{source: 'rootfs:rootfs', digest: 'sha256:{}'}}",
        "0".repeat(64)
    ));
    let mut lab = Lab::start("named-3", &file, dir.path(), &[]);
    assert_eq!(lab.ended().code(), Some(5), "{}", lab.stderr());
    assert!(lab.stderr().contains("and sha256:0000"), "{}", lab.stderr());
    for (images, says) in [
        ("{}", "an image has a `source`, a `digest` or both"),
        ("{digest: abc}", "`abc` is no digest"),
        (
            "{source: 'docker://alpine'}",
            "cannot be fetched while a lab starts",
        ),
    ] {
        let output = constel([std::path::Path::new("check"), &of(images)]);
        assert_eq!(output.status.code(), Some(4), "{images}");
        assert!(
            stderr(&output).contains(says),
            "{images}: {}",
            stderr(&output)
        );
    }
    let unused = "images: {other: {source: x.tar}}\n";
    let file = scenario::small(dir.path(), "unused.yaml", COMPUTED, unused);
    let output = constel([std::path::Path::new("check"), &file]);
    assert!(
        stderr(&output).contains("no node is made of the image `other`"),
        "{}",
        stderr(&output)
    );
    host.assert_as_before("named");
}
