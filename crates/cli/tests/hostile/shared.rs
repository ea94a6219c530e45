//! Resources that nodes of a lab share, with each other and with the host: numbers of processes, control groups, the run itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{NOBODY, cable, inside, prepared};
use crate::support;
use support::container::{events, import, import_folder, make};
use support::host::Host;
use support::lab::Lab;
use support::{scenario, stderr, stdout, until};

/// Processes without a waiting parent, processes that live, and as many threads: a neighbour can start its own programs.
#[test]
fn a_container_takes_its_own_processes_only() {
    let host = Host::take();
    // The node's first process never waits.
    let node = format!("{NOBODY}, command: [sleep, '1000']");
    let dir = tempfile::tempdir().unwrap();
    import(dir.path());
    let file = cable(dir.path(), &node, &node, "limits: {processes: 200}\n");
    let mut lab = Lab::up("zombies", &file, dir.path(), &[]);
    for attack in [
        "n=0; while [ $n -lt 250 ]; do (busybox true &) ; n=$((n + 1)); done 2>/dev/null; true",
        "n=0; while [ $n -lt 250 ]; do (sleep 1000 &) ; n=$((n + 1)); done 2>/dev/null; true",
    ] {
        inside(&lab, "west", &["sh", "-c", attack]);
        let fine = "for n in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2 & done; wait && echo fine";
        let output = inside(&lab, "east", &["sh", "-c", fine]);
        assert_eq!(stdout(&output), "fine\n", "{attack}: {}", stderr(&output));
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("zombies");
}

/// Every control group of this host that has such a name.
fn groups_called(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name() == *name {
                    found.push(entry.path());
                }
                folders.push(entry.path());
            }
        }
    }
    found
}

/// A container that may mount makes groups as systemd does, in each hierarchy that there is, with processes in them and below each other:
/// while it lives they are the lab's, and none is left.
#[test]
fn control_groups_of_a_container_go_with_the_lab() {
    let host = Host::take();
    let node =
        "image: box, seccomp: none, capabilities: {add: [SYS_ADMIN]}, command: [sleep, '1000']";
    let (dir, file) = prepared(&[], node, "image: box, command: [sleep, '1000']");
    let mut lab = Lab::up("groups", &file, dir.path(), &[]);
    let name = format!("{}.scope", lab.name);
    let table = fs::read_to_string("/proc/self/cgroup").unwrap();
    let mut made = 0;
    for line in table.lines() {
        let controllers = line.split(':').nth(1).unwrap();
        let (kind, options) = match controllers {
            "" => ("cgroup2", "rw".to_owned()),
            named if named.starts_with("name=") => ("cgroup", format!("none,{named}")),
            of => ("cgroup", of.to_owned()),
        };
        let attack = format!(
            "busybox mkdir -p /tmp/groups && busybox mount -t {kind} -o {options} none /tmp/groups || exit 5
             busybox mkdir -p /tmp/groups/{name}/below/further || exit 6
             sleep 1000 & echo $! > /tmp/groups/{name}/below/cgroup.procs
             busybox umount /tmp/groups"
        );
        let output = inside(&lab, "west", &["sh", "-c", &attack]);
        // A hierarchy that this host does not have, or that is being removed, cannot be mounted.
        if output.status.code() != Some(5) {
            assert!(output.status.success(), "{line}: {}", stderr(&output));
            made += 1;
        }
    }
    let there = groups_called(&name);
    assert!(made > 0 && there.len() >= made, "{made}: {there:?}");
    for group in &there {
        let ours = format!("constel-{}", lab.name);
        assert!(
            group
                .components()
                .any(|part| part.as_os_str() == ours.as_str()),
            "{}",
            group.display()
        );
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    assert_eq!(groups_called(&name), Vec::<PathBuf>::new());
    host.assert_as_before("groups");
}

/// A command that mounts a hierarchy of control groups at `/tmp/groups` and ends with 5 where this host does not have it.
fn mounted(kind: &str, options: &str, attack: &str) -> String {
    format!(
        "busybox mkdir -p /tmp/groups && busybox mount -t {kind} -o {options} none /tmp/groups || exit 5
         cd /tmp/groups || exit 6
         {attack}"
    )
}

/// A container makes groups that are hard to remove: of threads, whose processes the kernel does not list; with a process that ignores signals;
/// below each other beyond the longest path; with a name that is no text; frozen. The lab goes down all the same, and none is left.
#[test]
fn control_groups_that_resist_go_with_the_lab() {
    let host = Host::take();
    let node =
        "image: box, seccomp: none, capabilities: {add: [SYS_ADMIN]}, command: [sleep, '1000']";
    let (dir, file) = prepared(&[], node, "image: box, command: [sleep, '1000']");
    let deaf = "trap '' TERM INT HUP QUIT; while true; do sleep 0.1; done";
    let threads = "busybox mkdir -p $n/a $n/b && echo threaded > $n/a/cgroup.type && echo threaded > $n/b/cgroup.type || exit 7
         sleep 1000 & echo $! > $n/cgroup.procs && echo $! > $n/a/cgroup.procs || exit 8";
    let late = format!(
        "busybox mkdir $n && sh -c \"{deaf}\" & sleep 0.2; echo $! > $n/cgroup.procs || exit 8"
    );
    let deep = "busybox mkdir $n && cd $n || exit 7
         d=$(busybox seq -s '' 80); i=0; while [ $i -lt 40 ]; do busybox mkdir $d && cd -P ./$d || exit 7; i=$((i + 1)); done
         sleep 1000 & echo $! > cgroup.procs || exit 8";
    let named = "busybox mkdir -p \"$n/$(printf 'a\\351\\033 b')\" || exit 7";
    let frozen = "busybox mkdir $n || exit 7
         sleep 1000 & echo $! > $n/cgroup.procs || exit 8
         echo FROZEN > $n/freezer.state || exit 9";
    let frozen_too = "busybox mkdir $n || exit 7
         sleep 1000 & echo $! > $n/cgroup.procs || exit 8
         echo 1 > $n/cgroup.freeze || exit 9";
    let (two, freezer) = (("cgroup2", "rw"), ("cgroup", "freezer"));
    let mut tried = 0;
    for (what, (kind, options), attack) in [
        ("threads", two, threads),
        ("late", two, &late),
        ("deep", two, deep),
        ("named", two, named),
        ("frozen-too", two, frozen_too),
        ("frozen", freezer, frozen),
        ("late-1", freezer, &late),
    ] {
        let mut lab = Lab::up(what, &file, dir.path(), &[]);
        let name = format!("{}.scope", lab.name);
        let attack = mounted(kind, options, &format!("n={name}; {attack}"));
        let output = inside(&lab, "west", &["sh", "-c", &attack]);
        // A hierarchy that this host does not have cannot be mounted.
        if output.status.code() == Some(5) {
            assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
            continue;
        }
        assert!(output.status.success(), "{what}: {output:?}");
        tried += 1;
        assert_ne!(groups_called(&name), Vec::<PathBuf>::new(), "{what}");
        assert_eq!(
            lab.interrupt().code(),
            Some(130),
            "{what}: {}",
            lab.stderr()
        );
        assert_eq!(groups_called(&name), Vec::<PathBuf>::new(), "{what}");
        host.assert_as_before(what);
    }
    assert!(tried > 0, "this host has no hierarchy that can be mounted");
}

/// A flow freezes its own processes in a hierarchy of control groups where the frozen do not die, and one stops itself. The lab goes down as fast
/// as another.
#[test]
fn a_frozen_or_stopped_flow_does_not_keep_the_lab() {
    let host = Host::take();
    let node =
        "image: box, seccomp: none, capabilities: {add: [SYS_ADMIN]}, command: [sleep, '1000']";
    let freeze = mounted(
        "cgroup",
        "freezer",
        "busybox mkdir frozen-own || exit 7; echo $$ > frozen-own/cgroup.procs || exit 8
         echo begin; echo FROZEN > frozen-own/freezer.state",
    );
    let mut took = Vec::new();
    for (what, command) in [
        ("sleeps", "echo begin; exec sleep 1000"),
        ("stopped", "echo begin; kill -STOP $$; sleep 1000"),
        ("frozen", &freeze),
    ] {
        let (dir, _) = prepared(&[], node, "image: box, command: [sleep, '1000']");
        let command = command.replace('\n', ";");
        let flow = format!(
            "traffic:\n- {{name: flow, at: 0 s, for: 200 s, run: {{node: west, command: [sh, -c, '{command}']}}}}\n"
        );
        let file = cable(
            dir.path(),
            node,
            "image: box, command: [sleep, '1000']",
            &flow,
        );
        let mut lab = Lab::up(what, &file, dir.path(), &[]);
        let out = lab.results.join("flows/flow.out");
        until(&format!("{what} has begun"), || {
            let over = events(&lab, "flow-ended").pop();
            (over.is_some() || fs::read_to_string(&out).is_ok_and(|text| text == "begin\n"))
                .then_some(())
        });
        match events(&lab, "flow-ended").pop() {
            // This host does not have the hierarchy.
            Some(ended) => assert_eq!(ended["exit"], 5, "{what}: {ended}"),
            None if what == "frozen" => until("it is frozen", || {
                let group = groups_called("frozen-own").pop()?;
                let state = fs::read_to_string(group.join("freezer.state")).ok()?;
                (state == "FROZEN\n").then_some(())
            }),
            None => {}
        }
        let begun = Instant::now();
        assert_eq!(
            lab.interrupt().code(),
            Some(130),
            "{what}: {}",
            lab.stderr()
        );
        took.push(begun.elapsed());
        host.assert_as_before(what);
    }
    // Ten seconds is the time in which a killed process must be gone.
    let allowed = took[0] + Duration::from_secs(5);
    assert!(took.iter().all(|took| *took < allowed), "{took:?}");
}

/// Copies a program of the host into the root of an image, with the libraries that it needs where they are.
fn with_libraries(program: &Path, root: &Path) {
    fs::copy(program, root.join(program.file_name().unwrap())).unwrap();
    let needed = Command::new("ldd").arg(program).output().unwrap();
    let needed = stdout(&needed);
    for library in needed
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
    {
        let place = root.join(&library[1..]);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(library, place).unwrap();
    }
}

/// As Docker has it: a user without rights sends pings of both families and listens on every port; others' namespaces are not changed.
#[test]
fn users_of_images_ping_and_listen_without_rights() {
    let host = Host::take();
    let node = format!("{NOBODY}, command: [sleep, '1000']");
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("rootfs");
    make(&root);
    // That of busybox knows no sockets for pings.
    let ping = Command::new("sh")
        .args(["-c", "command -v ping"])
        .output()
        .unwrap();
    with_libraries(Path::new(stdout(&ping).trim()), &root);
    import_folder(dir.path(), &root, "box");
    let file = cable(dir.path(), &node, "runtime: netns", "");
    let mut lab = Lab::up("rights", &file, dir.path(), &[]);
    let script = "ip -6 -o addr show dev lo scope global | busybox awk '{print $4}'";
    let ipv6 = stdout(&inside(&lab, "east", &["sh", "-c", script]));
    let ipv6 = ipv6.split('/').next().unwrap();
    for (family, to) in [("-4", "east"), ("-6", ipv6)] {
        let argv = ["/ping", family, "-c", "1", "-W", "5", to];
        let output = inside(&lab, "west", &argv);
        assert!(output.status.success(), "{family}: {}", stderr(&output));
    }
    for port in ["1", "80", "443"] {
        let listen =
            format!("busybox timeout 1 busybox nc -l -p {port}; test $? = 143 -o $? = 124");
        let output = inside(&lab, "west", &["sh", "-c", &listen]);
        let said = stdout(&output) + &stderr(&output);
        assert!(!said.contains("ermission"), "{port}: {said}");
        let output = inside(
            &lab,
            "west",
            &["busybox", "httpd", "-p", port, "-h", "/tmp"],
        );
        assert!(output.status.success(), "{port}: {}", stderr(&output));
    }
    let start = inside(
        &lab,
        "east",
        &["cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start"],
    );
    assert_eq!(stdout(&start), "1024\n");
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("rights");
}

/// Signals that are not those of a usual end: the lab goes down in good order, or goes on, and is never dead.
#[test]
fn no_signal_but_kill_leaves_a_dead_lab() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "signals.yaml", "{mode: computed}", "");
    for (name, signal) in [("quit", Signal::QUIT), ("xcpu", Signal::XCPU)] {
        let mut lab = Lab::up(name, &file, dir.path(), &[]);
        for unused in [
            Signal::USR1,
            Signal::USR2,
            Signal::ALARM,
            Signal::VTALARM,
            Signal::PROF,
        ] {
            lab.signal(unused);
        }
        // SIGSTKFLT, SIGPWR, and real-time signals, which have no names.
        for unused in [16, 30, 34, 35, 50, 64] {
            let number = format!("-{unused}");
            let kill = Command::new("kill")
                .args([&number, &lab.pid().to_string()])
                .status();
            assert!(kill.unwrap().success(), "{unused}");
        }
        let before = lab.client().t_ns();
        support::until("lab time goes on", || {
            (lab.client().t_ns() > before).then_some(())
        });
        lab.signal(signal);
        assert_eq!(lab.ended().code(), Some(130), "{name}: {}", lab.stderr());
        assert!(!Path::new(&lab.dir()).exists(), "{name}");
    }
    host.assert_as_before("signals");
}
