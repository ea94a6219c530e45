//! Labs: claimed, found dead, cleaned up after; the host equal before and after.

use crate::small_disk;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use constel_host::cgroup::LabCgroup;
use constel_host::claim::{HostObject, LabName, LabState, RuntimeDir, link_alias};
use constel_host::clean::{Removed, clean_all, clean_lab};
use constel_host::globals::RequiredValue;
use constel_host::inventory::{HostInventory, diff};
use constel_host::netlink::{Batch, LinkChange, Socket, VethEnd};
use constel_host::process::{Spawn, marked};
use constel_host::{Error, NetNs, probe};
use small_disk::SmallDisk;

fn name(s: &str) -> LabName {
    s.parse().unwrap()
}

/// A name no other run of these tests has at the same time.
fn unique(prefix: &str) -> LabName {
    name(&format!("{prefix}-{}", std::process::id()))
}

#[test]
fn names_are_validated() {
    for good in ["a", "0", "iridium", "a-b-c", &"x".repeat(31)] {
        assert!(good.parse::<LabName>().is_ok(), "{good}");
    }
    for bad in [
        "",
        "-a",
        "A",
        "a_b",
        "a.b",
        "a/b",
        "..",
        "\u{e4}",
        "host",
        &"x".repeat(32),
    ] {
        assert!(bad.parse::<LabName>().is_err(), "{bad}");
    }
    assert!(serde_json::from_str::<LabName>("\"A\"").is_err());
}

/// A lab can write down how far it came, a few times, when others have filled the disk.
#[test]
fn a_full_disk_does_not_keep_an_end_from_being_recorded() {
    let disk = SmallDisk::mount();
    let rt = RuntimeDir::at(disk.path().join("run"));
    let lab = name("full");
    let mut claim = rt.claim(&lab, "x.yaml").unwrap();
    disk.fill();
    claim.update(|r| r.state = LabState::Stopping).unwrap();
    assert_eq!(rt.find(&lab).unwrap().unwrap().state, LabState::Stopping);
    let mut freed = 0;
    while rt.free_reserve(&lab) {
        disk.fill();
        freed += 1;
    }
    assert!((1..4).contains(&freed), "{freed}");
    let error = claim.update(|r| r.nodes = 7).unwrap_err();
    assert_eq!(error.errno(), Some(libc::ENOSPC), "{error}");
    assert_eq!(claim.record().nodes, 0, "as before");
    claim.release().unwrap();
    assert!(!rt.root().exists());
}

#[test]
fn a_name_is_claimed_once_and_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let rt = RuntimeDir::at(dir.path().join("run"));
    assert!(rt.list().unwrap().is_empty());
    assert!(!rt.root().exists(), "looking makes nothing");
    let lab = name("one");
    let mut claim = rt.claim(&lab, "iridium.yaml").unwrap();
    let e = rt.claim(&lab, "x").unwrap_err();
    assert!(
        e.to_string()
            .contains("lab one is running already (process "),
        "{e}"
    );
    assert!(matches!(e, Error::Conflict(_)));
    assert_eq!(rt.list().unwrap()[0].state, LabState::Starting);
    claim
        .update(|r| (r.state, r.nodes, r.edges) = (LabState::Running, 78, 500))
        .unwrap();
    let entry = rt.find(&lab).unwrap().unwrap();
    assert_eq!(
        (entry.state, entry.pid()),
        (LabState::Running, Some(std::process::id()))
    );
    assert_eq!(entry.record.as_ref().unwrap().nodes, 78);
    assert!(
        matches!(clean_lab(&rt, &lab, &()), Err(Error::Conflict(_))),
        "it is alive"
    );
    let two = rt.claim(&name("two"), "y").unwrap();
    assert_eq!(rt.list().unwrap().len(), 2);
    fs::create_dir_all(claim.dir().join("nodes/a")).unwrap();
    claim.release().unwrap();
    assert_eq!(rt.list().unwrap().len(), 1);
    assert!(!rt.remove_if_empty().unwrap());
    two.release().unwrap();
    assert!(!rt.root().exists());
    // A command that cleans a lab that only an engine still has has locked the host's settings alone.
    fs::create_dir_all(rt.root().join("host")).unwrap();
    fs::write(rt.root().join("host/lock"), "").unwrap();
    assert!(rt.remove_if_empty().unwrap());
    assert!(!rt.root().exists());
}

#[test]
fn many_claimers_one_winner() {
    let dir = tempfile::tempdir().unwrap();
    let rt = RuntimeDir::at(dir.path());
    let wins: Vec<_> = std::thread::scope(|s| {
        let all: Vec<_> = (0..16)
            .map(|_| s.spawn(|| rt.claim(&name("race"), "").ok()))
            .collect();
        all.into_iter().filter_map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(wins.len(), 1);
}

/// The last one out removes the directory while others come in.
#[test]
fn claims_come_and_go_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let rt = RuntimeDir::at(dir.path().join("run"));
    let setting = dir.path().join("setting");
    fs::write(&setting, "1").unwrap();
    std::thread::scope(|s| {
        for t in 0..4 {
            let (rt, setting) = (&rt, &setting);
            s.spawn(move || {
                for _ in 0..15 {
                    let claim = rt.claim(&name(&format!("t{t}")), "x").unwrap();
                    let globals = rt.globals();
                    globals
                        .set(&claim.owner(), setting, RequiredValue::AtLeast(10 + t))
                        .unwrap();
                    assert!(rt.list().unwrap().iter().any(|l| l.lab == *claim.lab()));
                    globals.release_all(claim.lab().as_str()).unwrap();
                    claim.release().unwrap();
                }
            });
        }
    });
    assert_eq!(fs::read_to_string(&setting).unwrap().trim(), "1");
    assert!(!rt.root().exists());
}

#[test]
fn a_lab_that_was_dropped_is_dead() {
    let dir = tempfile::tempdir().unwrap();
    let rt = RuntimeDir::at(dir.path().join("run"));
    let lab = unique("drop");
    drop(rt.claim(&lab, "x").unwrap());
    assert_eq!(rt.find(&lab).unwrap().unwrap().state, LabState::Dead);
    let e = rt.claim(&lab, "x").unwrap_err();
    assert!(e.to_string().contains("run constel clean first"), "{e}");
    // Half-written leftovers of a crash are no obstacle.
    fs::write(rt.lab_dir(&lab).join("state.json"), "{\"lab\":").unwrap();
    let report = clean_lab(&rt, &lab, &()).unwrap();
    assert_eq!(report.problems, [""; 0]);
    assert_eq!(
        report.removed,
        [Removed::LabDir {
            path: rt.lab_dir(&lab)
        }]
    );
    assert!(rt.find(&lab).unwrap().is_none());
    let again = clean_lab(&rt, &lab, &()).unwrap();
    assert!(
        again.removed.is_empty() && again.problems.is_empty(),
        "cleaning twice does nothing"
    );
}

#[test]
fn a_cgroup_holds_and_kills_whatever_is_started_in_it() {
    let lab = unique("cg");
    let Some(group) = LabCgroup::create(&lab).unwrap() else {
        println!("no cgroup2 here: nothing to test");
        return;
    };
    assert!(matches!(LabCgroup::create(&lab), Err(Error::Conflict(_))));
    assert_eq!(LabCgroup::open(&lab).unwrap().as_ref(), Some(&group));
    // A process that leaves its session, its parent and its mark behind, and forks on and on.
    let script = "(setsid env -i sh -c 'while :; do sleep 0.01 & done' &) ; sleep 1000";
    let child = Spawn::new(lab.as_str(), ["sh", "-c", script])
        .cgroup(&group)
        .start()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(240);
    while group.pids().unwrap().len() < 10 {
        assert!(Instant::now() < end);
        std::thread::yield_now();
    }
    assert!(group.pids().unwrap().contains(&child.pid()));
    let killed = group.kill_all(Duration::from_secs(240)).unwrap();
    assert!(killed >= 10);
    assert!(group.pids().unwrap().is_empty());
    child.wait().unwrap();
    let sub = group.subgroup("n1").unwrap();
    assert!(sub.path().exists());
    assert!(group.remove(Duration::from_secs(240)).unwrap());
    assert!(!group.remove(Duration::ZERO).unwrap(), "gone already");
    assert!(LabCgroup::open(&lab).unwrap().is_none());
}

#[test]
fn a_group_for_processor_time_is_the_labs_like_the_other() {
    let lab = unique("cpu");
    let Some(group) = LabCgroup::create_cpu(&lab).unwrap() else {
        println!("no cgroup v1 cpu controller here: nothing to test");
        return;
    };
    assert!(group.has_weight());
    assert!(group.owner().unwrap().unwrap().is_alive().unwrap());
    assert!(matches!(
        LabCgroup::create_cpu(&lab),
        Err(Error::Conflict(_))
    ));
    assert_eq!(
        LabCgroup::open_all(&lab).unwrap(),
        std::slice::from_ref(&group)
    );
    assert!(
        LabCgroup::all()
            .unwrap()
            .contains(&(lab.clone(), group.clone()))
    );
    let both = LabCgroup::create(&lab).unwrap();
    let mut spawn = Spawn::new(lab.as_str(), ["sleep", "100"]).cgroup(&group);
    if let Some(other) = &both {
        spawn = spawn.cgroup(other);
    }
    let child = spawn.start().unwrap();
    for group in LabCgroup::open_all(&lab).unwrap() {
        assert_eq!(group.pids().unwrap(), [child.pid()]);
    }
    for group in LabCgroup::open_all(&lab).unwrap() {
        group.kill_all(Duration::from_secs(240)).unwrap();
        assert!(group.remove(Duration::from_secs(240)).unwrap());
    }
    child.wait().unwrap();
    assert!(LabCgroup::open_all(&lab).unwrap().is_empty());
}

/// The child process of `a_killed_lab_is_cleaned_up_entirely`: it does everything a lab does.
fn be_a_lab(run: &Path, lab: &LabName) {
    let rt = RuntimeDir::at(run.join("run"));
    let mut claim = rt.claim(lab, "test").unwrap();
    let owner = claim.owner();
    let setting = run.join("setting");
    rt.globals()
        .set(&owner, &setting, RequiredValue::AtLeast(4096))
        .unwrap();
    let group = LabCgroup::create(lab).unwrap();
    LabCgroup::create_cpu(lab).unwrap();
    let nodes = NetNs::create_many(3, None).unwrap();
    let file = run.join("some-file");
    claim
        .about_to_make(HostObject::File { path: file.clone() })
        .unwrap();
    fs::write(file, "x").unwrap();

    // An interface in the "host" (here: a namespace of the test's) with our alias, one without.
    let mut socket = Socket::open().unwrap();
    let mut batch = Batch::new();
    for (i, link) in ["mine", "theirs"].into_iter().enumerate() {
        claim
            .about_to_make(HostObject::HostLink { name: link.into() })
            .unwrap();
        let first = VethEnd {
            name: link,
            ifindex: Some(80 + i as u32),
            ..VethEnd::default()
        };
        // The second end of "theirs" stays here, or it would go with the node's namespace.
        let second = VethEnd {
            name: if i == 0 { "eth0" } else { "theirs-too" },
            ifindex: Some(90),
            netns: (i == 0).then(|| nodes[0].fd()),
            ..VethEnd::default()
        };
        batch.create_veth(&first, &second).unwrap();
    }
    let alias = link_alias(lab) + " owner=1";
    let change = LinkChange {
        ifindex: 80,
        alias: Some(&alias),
        ..LinkChange::default()
    };
    batch.change_link(&change).unwrap();
    socket.send(&mut batch).unwrap();

    for (i, ns) in nodes.iter().enumerate() {
        let node = format!("n{i}");
        let mut s = Spawn::new(lab.as_str(), ["sh", "-c", "sleep 1000 & sleep 1000"])
            .node(&node)
            .netns(ns);
        // One of them outside the cgroup: the mark must do.
        if let Some(g) = &group
            && i > 0
        {
            s = s.cgroup(g);
        }
        s.start().unwrap();
    }
    claim.update(|r| r.state = LabState::Running).unwrap();
    while marked(Some(lab.as_str()))
        .unwrap()
        .iter()
        .filter(|m| m.command == "sleep")
        .count()
        < 6
    {
        std::thread::yield_now();
    }
    println!("ready");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_lab_is_cleaned_up_entirely() {
    if let Ok(dir) = std::env::var("CONSTEL_TEST_LAB_DIR") {
        let lab = name(&std::env::var("CONSTEL_TEST_LAB_NAME").unwrap());
        be_a_lab(Path::new(&dir), &lab);
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("setting"), "128").unwrap();
    let rt = RuntimeDir::at(dir.path().join("run"));
    // A namespace that plays the host, so that other tests' links do not matter.
    let host = NetNs::new().unwrap();
    let take = || {
        host.run(|| HostInventory::take_with(&rt))
            .unwrap()
            .unwrap()
            .ours_only()
    };
    let (lab, other) = (unique("kill"), unique("live"));
    let before = take();

    let mut child = lab_process(dir.path(), &lab, &host);
    let bystander = Spawn::new(other.as_str(), ["sleep", "100"])
        .start()
        .unwrap();
    let during = take();
    let changes = diff(&before, &during);
    assert!(
        changes
            .iter()
            .any(|d| d.kind == "processes" && d.sign == '+'),
        "{changes:?}"
    );
    assert!(
        changes.iter().any(|d| d.kind == "runtime" && d.sign == '+'),
        "{changes:?}"
    );
    assert!(
        changes
            .iter()
            .any(|d| d.kind == "links" && d.what == "mine"),
        "{changes:?}"
    );
    assert_eq!(rt.find(&lab).unwrap().unwrap().state, LabState::Running);
    assert_eq!(
        fs::read_to_string(dir.path().join("setting")).unwrap(),
        "4096"
    );

    child.kill().unwrap();
    // It is dead before it is reaped. The kernel kills it when it next runs.
    let end = Instant::now() + Duration::from_secs(240);
    while rt.find(&lab).unwrap().unwrap().state != LabState::Dead {
        assert!(Instant::now() < end, "it does not die");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait().unwrap();
    let report = host.run(|| clean_lab(&rt, &lab, &())).unwrap().unwrap();
    // The interface without our mark: named in the record, yet left alone and reported.
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert!(
        report.problems[0].contains("theirs does not carry our mark"),
        "{report:?}"
    );
    assert!(
        rt.find(&lab).unwrap().is_some(),
        "the record stays while something is wrong"
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("setting")).unwrap(),
        "128"
    );
    let processes = report
        .removed
        .iter()
        .filter(|r| matches!(r, Removed::Process { .. }))
        .count();
    let unnamed: usize = report
        .removed
        .iter()
        .map(|r| {
            if let Removed::CgroupProcesses { count } = r {
                *count
            } else {
                0
            }
        })
        .sum();
    // Three shells with two sleeps each.
    assert_eq!(processes + unnamed, 9, "{report:?}");
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(
        serde_json::from_str::<constel_host::clean::CleanReport>(&json).unwrap(),
        report
    );

    let mut socket = Socket::open_in(&host).unwrap();
    assert!(socket.link_named("mine").unwrap().is_none());
    let theirs = socket.link_named("theirs").unwrap().expect("left alone");
    socket
        .send(Batch::new().delete_link(theirs.ifindex))
        .unwrap();
    let report = host.run(|| clean_lab(&rt, &lab, &())).unwrap().unwrap();
    assert_eq!(report.problems, [""; 0]);
    assert_eq!(
        report.removed,
        [Removed::LabDir {
            path: rt.lab_dir(&lab)
        }]
    );
    rt.remove_if_empty().unwrap();

    assert_eq!(
        bystander.try_wait().unwrap(),
        None,
        "another lab's process lives"
    );
    bystander.terminate(Duration::from_secs(240)).unwrap();
    assert!(marked(Some(lab.as_str())).unwrap().is_empty());
    let left: Vec<_> = diff(&before, &take())
        .into_iter()
        .filter(|d| d.what.contains(lab.as_str()) || ["runtime", "links"].contains(&&d.kind[..]))
        .collect();
    assert_eq!(left, []);
}

/// Runs `be_a_lab` in a process of its own, inside `host`; returns once it is up.
fn lab_process(dir: &Path, lab: &LabName, host: &NetNs) -> Child {
    let _inside = host.enter().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "labs::a_killed_lab_is_cleaned_up_entirely",
            "--nocapture",
        ])
        .env("CONSTEL_TEST_LAB_DIR", dir)
        .env("CONSTEL_TEST_LAB_NAME", lab.as_str())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.ends_with("ready\n") {
        line.clear();
        if out.read_line(&mut line).unwrap() == 0 {
            let mut rest = String::new();
            out.read_to_string(&mut rest).unwrap();
            panic!("the lab did not come up: {rest}");
        }
    }
    child
}

#[test]
fn clean_all_leaves_the_living_alone() {
    let dir = tempfile::tempdir().unwrap();
    let rt = RuntimeDir::at(dir.path().join("run"));
    let (dead, live) = (unique("dead"), unique("alive"));
    drop(rt.claim(&dead, "x").unwrap());
    let claim = rt.claim(&live, "y").unwrap();
    // Answered for by this process, without a directory: other tests of this machine look so.
    let child = Spawn::new(unique("nodir").as_str(), ["sleep", "100"])
        .start()
        .unwrap();
    let group = LabCgroup::create(&live).unwrap();
    let report = clean_all(&rt, &()).unwrap();
    let ours: Vec<_> = report.labs.iter().filter(|r| r.lab == dead).collect();
    assert_eq!(ours.len(), 1, "{report:?}");
    assert_eq!(
        ours[0].removed,
        [Removed::LabDir {
            path: rt.lab_dir(&dead)
        }],
        "{report:?}"
    );
    assert!(!report.labs.iter().any(|r| r.lab == live), "{report:?}");
    assert_eq!(rt.list().unwrap().len(), 1);
    assert_eq!(child.try_wait().unwrap(), None);
    child.terminate(Duration::from_secs(240)).unwrap();
    if let Some(g) = group {
        assert!(g.path().exists());
        g.remove(Duration::from_secs(240)).unwrap();
    }
    claim.release().unwrap();
    assert!(!rt.root().exists());
}

#[test]
fn a_whole_life_leaves_the_host_equal() {
    let dir = tempfile::tempdir().unwrap();
    let rt = RuntimeDir::at(dir.path().join("run"));
    let lab = unique("life");
    let namespaces = |i: &HostInventory| i.namespaces.clone();
    let before = HostInventory::take_with(&rt).unwrap();
    let ids: Vec<u64>;
    {
        let claim = rt.claim(&lab, "x").unwrap();
        let nodes = NetNs::create_many(5, None).unwrap();
        ids = nodes.iter().map(|n| n.inode().unwrap()).collect();
        let during = namespaces(&HostInventory::take_with(&rt).unwrap());
        assert!(
            ids.iter().all(|i| during.contains(i)),
            "held by descriptors, yet seen"
        );
        assert!(ids.iter().all(|i| !namespaces(&before).contains(i)));
        drop(nodes);
        claim.release().unwrap();
    }
    rt.remove_if_empty().unwrap();
    let after = HostInventory::take_with(&rt).unwrap();
    assert!(ids.iter().all(|i| !namespaces(&after).contains(i)));
    assert_eq!(before.runtime, after.runtime);
    assert_eq!(
        diff(&before.clone().ours_only(), &before.clone().ours_only()),
        []
    );
}

#[test]
fn the_probe_finds_what_the_other_tests_use() {
    let items = probe::probe();
    for i in &items {
        println!("{:>22} {:5} {}", i.name, i.ok, i.detail);
        assert_eq!(i.ok, i.remedy.is_empty(), "{i:?}");
    }
    assert!(
        items.iter().filter(|i| i.required).all(|i| i.ok),
        "{items:#?}"
    );
    probe::require_privilege().unwrap();
}
