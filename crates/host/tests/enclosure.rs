//! Isolation of a lab's programs from the host, and their limits.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use constel_host::NetNs;
use constel_host::cgroup::LabCgroup;
use constel_host::cgroup::limits::{LimitedGroups, Limits};
use constel_host::cgroup::usage::Usage;
use constel_host::claim::LabName;
use constel_host::enclosure::{Enclosure, NODE_FOLDER, Shown, View};
use constel_host::process::{Exit, Spawn, Stdio, marked};

/// A node's namespace and what its programs see.
struct Node {
    ns: NetNs,
    view: View,
}

fn node(enclosure: &Enclosure, name: &str, own: &[Shown]) -> Node {
    let ns = NetNs::new().unwrap();
    let view = enclosure.view(&ns, name, own).unwrap();
    Node { ns, view }
}

impl Node {
    fn spawn(&self, script: &str) -> Spawn<'_> {
        Spawn::new("etest", ["sh", "-c", script])
            .node("n")
            .netns(&self.ns)
            .view(&self.view)
    }

    /// The output of a script, both streams.
    fn says(&self, script: &str) -> String {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let script = format!("exec 2>&1; {script}");
        let spawn = self.spawn(&script).stdout(Stdio::Fd(OwnedFd::from(writer)));
        let child = spawn.start().unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        text
    }
}

fn shown(source: impl Into<PathBuf>, target: &str, read_only: bool) -> Shown {
    Shown {
        source: source.into(),
        target: target.into(),
        read_only,
    }
}

#[test]
fn programs_see_and_signal_those_of_their_lab_only() {
    let enclosure = Enclosure::new("etest", Vec::new()).unwrap();
    let other = Enclosure::new("etest-2", Vec::new()).unwrap();
    let (a, b) = (node(&enclosure, "a", &[]), node(&enclosure, "b", &[]));
    let stranger = node(&other, "a", &[])
        .spawn("exec sleep 999")
        .start()
        .unwrap();
    let neighbour = b.spawn("exec sleep 998").start().unwrap();
    let numbers = a.says("cd /proc; echo [0-9]*");
    let count = numbers.split_whitespace().count();
    // The init, the neighbour's, the shell.
    assert_eq!(count, 3, "{numbers}");
    let commands = || a.says("cat /proc/[0-9]*/cmdline | tr '\\0' ' '");
    let mut said = commands();
    let began = Instant::now();
    // A process has no command line while it becomes another program.
    while !said.contains("sleep 998") {
        assert!(began.elapsed() < Duration::from_secs(240), "{said}");
        said = commands();
    }
    assert!(said.contains("sleep infinity"), "{said}");
    assert!(!said.contains("sleep 999"), "{said}");
    let here = std::process::id();
    assert!(
        a.says(&format!("kill -0 {here}"))
            .contains("No such process")
    );
    // Neither by name nor by number, nor all at once, does anything of another lab die.
    a.says("for p in /proc/[0-9]*; do kill -9 ${p#/proc/} ; done");
    assert_eq!(neighbour.wait().unwrap(), Exit::Signal(libc::SIGKILL));
    assert_eq!(stranger.try_wait().unwrap(), None);
    assert_eq!(
        enclosure.ended().unwrap(),
        None,
        "its init is out of reach, too"
    );
    stranger.terminate(Duration::ZERO).unwrap();
}

#[test]
fn files_cross_the_boundary_only_where_they_are_shown() {
    // In /tmp, which is hidden.
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("hosts"), "10.0.0.1 sat-1\n").unwrap();
    for folder in ["all", "own", "site"] {
        fs::create_dir(path(folder)).unwrap();
    }
    fs::write(path("site/index"), "hello\n").unwrap();
    let everybody = vec![
        shown(path("hosts"), "/etc/hosts", true),
        Shown::in_place(path("all"), false),
    ];
    let enclosure = Enclosure::new("etest-files", everybody).unwrap();
    let own = [
        shown(path("own"), NODE_FOLDER, false),
        shown(path("site"), "/mnt", true),
        shown(path("site/index"), "/run/a/b/index", true),
    ];
    let (a, b) = (node(&enclosure, "a", &own), node(&enclosure, "b", &[]));
    let host_hosts = fs::read_to_string("/etc/hosts").unwrap();
    assert_eq!(
        a.says("cat /etc/hosts /mnt/index /run/a/b/index"),
        "10.0.0.1 sat-1\nhello\nhello\n"
    );
    for forbidden in [
        "/etc/hosts",
        "/mnt/index",
        "/run/a/b/index",
        "/sys/kernel/rcu_expedited",
    ] {
        let words = a.says(&format!(": > {forbidden}"));
        assert!(
            words.contains("Read-only file system"),
            "{forbidden}: {words}"
        );
    }
    assert_eq!(fs::read_to_string("/etc/hosts").unwrap(), host_hosts);

    // The node's own, kept from one program to the next, and of no other node.
    for place in ["/tmp", "/run", "/dev/shm"] {
        assert_eq!(a.says(&format!("echo mine > {place}/x")), "");
        assert_eq!(a.says(&format!("cat {place}/x")), "mine\n");
        assert!(b.says(&format!("cat {place}/x")).contains("No such file"));
        assert!(!Path::new(place).join("x").exists(), "{place} of the host");
    }
    assert_eq!(a.says("stat -c %a /tmp /dev/shm /run"), "1777\n1777\n755\n");
    assert_eq!(
        a.says("ls /run"),
        "a\nconstel-node\nx\n",
        "nothing of the host or of b"
    );
    // Writes to shown files reach the host.
    let all = path("all");
    assert_eq!(a.says(&format!("echo a > {}/from-a", all.display())), "");
    assert_eq!(b.says(&format!("cat {}/from-a", all.display())), "a\n");
    assert_eq!(a.says(&format!("echo kept > {NODE_FOLDER}/kept")), "");
    assert_eq!(fs::read_to_string(path("own/kept")).unwrap(), "kept\n");
    assert!(
        b.says(&format!("ls {}", path("own").display()))
            .contains("No such file")
    );
    // The host has no new mounts. The labs of other tests have mounts of their own, in folders of theirs.
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let ours = |line: &&str| line.contains("constel") && !line.contains(" /run/constel/");
    let ours: Vec<_> = mounts.lines().filter(ours).collect();
    assert_eq!(ours, Vec::<&str>::new());
}

#[test]
fn settings_of_the_node_can_be_written_and_those_of_the_host_not() {
    let enclosure = Enclosure::new("etest-sys", Vec::new()).unwrap();
    let a = node(&enclosure, "a", &[]);
    assert_eq!(a.says("ls /sys/class/net"), "lo\n");
    let forward = "/proc/sys/net/ipv4/ip_forward";
    let before = fs::read_to_string(forward).unwrap();
    let other = if before.trim() == "1" { "0" } else { "1" };
    assert_eq!(
        a.says(&format!("echo {other} > {forward}; cat {forward}")),
        format!("{other}\n")
    );
    assert_eq!(fs::read_to_string(forward).unwrap(), before);
    let of_the_host = ["/proc/sys/kernel/hostname", "/proc/sysrq-trigger"];
    // Some kernels have no such trigger.
    for of_the_host in of_the_host
        .into_iter()
        .filter(|file| Path::new(file).exists())
    {
        let words = a.says(&format!(": > {of_the_host}"));
        assert!(
            words.contains("Read-only file system"),
            "{of_the_host}: {words}"
        );
    }
}

/// Waits until no process carries the mark.
fn until_gone(lab: &str, what: &str) {
    let end = Instant::now() + Duration::from_secs(240);
    while !marked(Some(lab)).unwrap().is_empty() {
        assert!(
            Instant::now() < end,
            "{what}: {:?}",
            marked(Some(lab)).unwrap()
        );
        std::thread::yield_now();
    }
}

/// Starts a program, and one that left its session; both bear the mark `etest`.
fn two(a: &Node) -> constel_host::process::Child {
    let mut reader = {
        let (reader, writer) = std::io::pipe().unwrap();
        let script = "setsid sleep 997 & echo up; exec sleep 996";
        let child = a
            .spawn(script)
            .stdout(Stdio::Fd(writer.into()))
            .start()
            .unwrap();
        (reader, child)
    };
    let mut word = [0; 3];
    reader.0.read_exact(&mut word).unwrap();
    reader.1
}

#[test]
fn when_the_init_ends_everything_ends() {
    let enclosure = Enclosure::new("etest-end", Vec::new()).unwrap();
    let child = two(&node(&enclosure, "a", &[]));
    assert_eq!(enclosure.ended().unwrap(), None);
    let killer = std::thread::spawn(move || child.wait().unwrap());
    let began = Instant::now();
    enclosure.kill(Duration::from_secs(240)).unwrap();
    println!("killed in {:?}", began.elapsed());
    assert_eq!(killer.join().unwrap(), Exit::Signal(libc::SIGKILL));
    assert_eq!(
        enclosure.ended().unwrap(),
        Some(Exit::Signal(libc::SIGKILL))
    );
    until_gone("etest-end", "the init");
    enclosure.kill(Duration::ZERO).unwrap();
    let ns = NetNs::new().unwrap();
    let view = enclosure.view(&ns, "late", &[]).unwrap();
    let late = Spawn::new("etest-end", ["true"])
        .view(&view)
        .start()
        .unwrap_err();
    assert!(late.to_string().contains("init has ended"), "{late}");
}

#[test]
fn the_init_ends_with_the_thread_that_made_it() {
    let enclosure = std::thread::spawn(|| Enclosure::new("etest-thread", Vec::new()).unwrap());
    let enclosure = enclosure.join().unwrap();
    let end = Instant::now() + Duration::from_secs(240);
    while enclosure.ended().unwrap().is_none() {
        assert!(Instant::now() < end);
        std::thread::yield_now();
    }
    assert_eq!(
        enclosure.ended().unwrap(),
        Some(Exit::Signal(libc::SIGKILL))
    );
}

#[test]
fn what_is_shown_by_a_link_is_seen_by_both_names() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let path = |name: &str| dir.path().join(name);
    for folder in ["work", "elsewhere"] {
        fs::create_dir(path(folder)).unwrap();
    }
    fs::write(path("elsewhere/file"), "hello\n").unwrap();
    std::os::unix::fs::symlink(path("elsewhere"), path("work/link")).unwrap();
    // The link is seen where it lies; what it leads to was not.
    let shown = ["work", "work/link"].map(|name| Shown::in_place(path(name), false));
    let enclosure = Enclosure::new("etest-link", shown.to_vec()).unwrap();
    let node = node(&enclosure, "a", &[]);
    for name in ["work/link", "elsewhere"] {
        let file = path(name).join("file");
        assert_eq!(node.says(&format!("cat {}", file.display())), "hello\n");
    }
}

#[test]
fn what_is_shown_must_be_there() {
    let enclosure = Enclosure::new("etest-wrong", Vec::new()).unwrap();
    let ns = NetNs::new().unwrap();
    let wrong = |shown: Shown| enclosure.view(&ns, "a", &[shown]).unwrap_err().to_string();
    assert!(wrong(shown("/nowhere", "/mnt", false)).starts_with("show /nowhere: "));
    assert!(wrong(shown("/usr", "/nowhere", false)).starts_with("show /usr as /nowhere: "));
    assert!(wrong(shown("/usr", "mnt", false)).contains("not an absolute path"));
}

/// Removes the groups of a lab on every way out.
struct Groups(LabName);

impl Drop for Groups {
    fn drop(&mut self) {
        for group in LabCgroup::open_all(&self.0).unwrap() {
            group.kill_all(Duration::from_secs(240)).unwrap();
            group.remove(Duration::from_secs(240)).unwrap();
        }
    }
}

#[test]
fn a_fork_bomb_and_a_memory_hog_end_inside_their_limits() {
    let lab: LabName = "etest-limits".parse().unwrap();
    let _groups = Groups(lab.clone());
    let all = LabCgroup::create(&lab).unwrap();
    let limits = Limits {
        memory_bytes: Some(64 << 20),
        processes: Some(40),
        ..Limits::default()
    };
    let lab_groups =
        LimitedGroups::create(&lab, all.as_ref(), &limits, (true, false), None).unwrap();
    if !lab_groups.missing().is_empty() {
        println!("this host lacks {:?}: not tested", lab_groups.missing());
        return;
    }
    let own = Limits {
        memory_bytes: Some(32 << 20),
        processes: Some(10),
        ..Limits::default()
    };
    let node_groups = lab_groups.node("small", &own).unwrap();
    let enclosure = Enclosure::new("etest-limits", Vec::new()).unwrap();
    let a = node(&enclosure, "a", &[]);
    for (groups, most) in [(&lab_groups, 40), (&node_groups, 10)] {
        let spawn = |script: &str| {
            let spawn = a.spawn(script);
            let spawn = groups.groups().iter().fold(spawn, Spawn::cgroup);
            let (mut reader, writer) = std::io::pipe().unwrap();
            let child = spawn.stdout(Stdio::Fd(writer.into())).start().unwrap();
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            (child.wait().unwrap(), text)
        };
        // Each starts another and stays for a while; those that cannot print it.
        let bomb = "exec 2>&1; for i in $(seq 60); do sleep 0.4 & done; wait; echo done";
        let (_, text) = spawn(bomb);
        assert!(
            text.contains("Cannot fork") || text.contains("Resource temporarily"),
            "{most}: {text}"
        );
        // As much as there is, and more.
        let (exit, _) = spawn("exec tail /dev/zero");
        assert_eq!(
            exit,
            Exit::Signal(libc::SIGKILL),
            "{most}: killed for want of memory"
        );
        // Files in memory count.
        let (exit, text) =
            spawn("exec 2>&1; head -c 200M /dev/zero > /tmp/hog; echo $?; rm -f /tmp/hog");
        assert!(
            exit != Exit::Code(0) || !text.starts_with('0'),
            "{most}: {exit:?} {text}"
        );
        a.says("rm -f /tmp/hog");
    }
    // The groups of the node count what its programs used, also those that have ended.
    let groups = node_groups.groups().iter();
    let paths: Vec<_> = groups.map(|group| group.path().to_owned()).collect();
    let used = Usage::of(&paths);
    assert!(used.cpu_ns > Some(1_000_000), "{used:?} {paths:?}");
    assert!(used.memory_bytes.is_some(), "{used:?} {paths:?}");
    assert!(used.processes < Some(10), "{used:?} {paths:?}");
    // The init is not one of them: it lives.
    assert_eq!(enclosure.ended().unwrap(), None);
}

/// The cost of starting with the boundary and without. A figure to read, and a bound that only a mistake breaks.
#[test]
fn starting_inside_costs_little_more() {
    let enclosure = Enclosure::new("etest-cost", Vec::new()).unwrap();
    let count = 200u32;
    let mut nodes = Vec::new();
    let began = Instant::now();
    for n in 0..count {
        nodes.push(node(&enclosure, &format!("n{n}"), &[]));
    }
    let with_namespace = began.elapsed() / count;
    let began = Instant::now();
    let namespaces: Vec<_> = (0..count).map(|_| NetNs::new().unwrap()).collect();
    let view = with_namespace.saturating_sub(began.elapsed() / count);
    let start = |spawns: Vec<Spawn<'_>>| {
        let many = u32::try_from(spawns.len()).unwrap();
        let began = Instant::now();
        let children: Vec<_> = spawns.into_iter().map(|s| s.start().unwrap()).collect();
        let each = began.elapsed() / many;
        for child in &children {
            child.wait().unwrap();
        }
        each
    };
    let spawn = |ns| Spawn::new("etest-cost", ["true"]).netns(ns);
    // In turns, and the least of each: a busy host makes some of them slower.
    let (mut outside, mut inside) = (Duration::MAX, Duration::MAX);
    for (namespaces, nodes) in namespaces.chunks(20).zip(nodes.chunks(20)) {
        outside = outside.min(start(namespaces.iter().map(spawn).collect()));
        let within = nodes.iter().map(|n| spawn(&n.ns).view(&n.view));
        inside = inside.min(start(within.collect()));
    }
    println!("a view {view:?}; a start outside {outside:?}, inside {inside:?}");
    assert!(
        inside < outside * 5 + Duration::from_millis(1),
        "{outside:?} -> {inside:?}"
    );
}
