//! Files that the lab's parent opens on behalf of a container: its logs, and the copies for the results.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{NOBODY, assert_untouched, cable, canary, inside, prepared};
use crate::support;
use support::container::{busybox, events};
use support::host::Host;
use support::lab::Lab;
use support::{stdout, until};

/// Puts something else in the place of the logs, by each name that they might have, and ends, so that the program is started again and
/// its log opened again; checks of health have theirs opened each time.
fn replaced(how: &str) -> String {
    format!(
        "#!/bin/sh
cd /run/constel-node || exit 9
for log in program.log health.log state; do busybox rm -rf $log; busybox {how}; done
echo attacked
exit 1
"
    )
}

fn node(script: &str) -> String {
    format!(
        "{NOBODY}, entrypoint: [/{script}], restart: always, health: {{command: [sh, -c, 'echo checked'], interval: 200 ms, \
         timeout: 2 s, retries: 100}}"
    )
}

/// Two labs, for two forms each: a link to a file of the host, a FIFO; a folder, a link to a device.
#[test]
fn what_replaces_a_log_is_neither_followed_nor_awaited() {
    let host = Host::take();
    let other = tempfile::tempdir().unwrap();
    let victim = canary(other.path(), "victim");
    let link = replaced(&format!("ln -s {} $log", victim.display()));
    let forms = [
        [("link", link), ("fifo", replaced("mkfifo $log"))],
        [
            ("folder", replaced("mkdir $log")),
            ("device", replaced("ln -s /dev/full $log")),
        ],
    ];
    for [west, east] in forms {
        let scripts = [(west.0, west.1.as_str()), (east.0, east.1.as_str())];
        let (dir, file) = prepared(&scripts, &node(west.0), &node(east.0));
        let mut lab = Lab::up("logs", &file, dir.path(), &[]);
        until("both were started again, and attack again", || {
            let restarts = |name: &str| {
                let all = events(&lab, "container-restarted");
                all.iter().filter(|event| event["node"] == name).count()
            };
            (restarts("west") >= 2 && restarts("east") >= 2).then_some(())
        });
        assert_untouched(&victim);
        for node in ["west", "east"] {
            let log = lab.results.join("nodes").join(node).join("program.log");
            assert!(
                fs::symlink_metadata(&log).unwrap().is_file(),
                "{}",
                log.display()
            );
            let said = fs::read_to_string(&log).unwrap();
            assert!(said.matches("attacked").count() >= 2, "{said}");
        }
        // Lab time goes on, and the lab goes down on request.
        let before = lab.client().t_ns();
        until("lab time goes on", || {
            (lab.client().t_ns() > before).then_some(())
        });
        assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
        assert_untouched(&victim);
    }
    host.assert_as_before("logs");
}

/// A container sees nothing of what Constel writes about it: not its logs, and not the folder behind its own files.
#[test]
fn what_the_parent_writes_is_not_seen_inside() {
    let host = Host::take();
    let west = format!("{NOBODY}, command: [sh, -c, 'echo said; exec sleep 1000'], state: disk");
    let (dir, file) = prepared(&[], &west, "image: box, command: [sleep, '1000']");
    let mut lab = Lab::up("unseen", &file, dir.path(), &[]);
    for node in ["west", "east"] {
        let listed = inside(&lab, node, &["busybox", "ls", "-A", "/run/constel-node"]);
        assert_eq!(stdout(&listed), "", "{node}");
        let log = lab.results.join("nodes").join(node);
        assert!(log.join("program.log").exists(), "{node}");
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("unseen");
}

/// Everything that is more than bytes and names, in each place where a container may leave something.
#[test]
fn results_are_data() {
    let host = Host::take();
    let attack = "#!/bin/sh
cd /run/constel-node
busybox cp /bin/busybox su; busybox chmod 6755 su
busybox mkdir -p deep/er; busybox cp su deep/er/su; busybox chmod 4755 deep/er/su; busybox chmod 3777 deep
busybox ln -s /etc/shadow link; busybox ln -s / root; busybox mkfifo fifo
busybox ln su again; busybox truncate -s 5T sparse; echo end >> sparse
echo kept > file; echo ours > program.log
# Its output is a file of the host.
busybox chmod 6755 /proc/self/fd/1
cd /; busybox cp /bin/busybox /own; busybox chmod 4755 /own
echo done; exec sleep 1000
";
    let west = "image: box, entrypoint: [/attack], state: disk";
    let (dir, _) = prepared(
        &[("attack", attack)],
        west,
        "image: box, command: [sleep, '1000']",
    );
    let flow = "traffic:
  - {name: out, at: 0 s, for: 60 s, run: {node: east, command: [sh, -c, 'busybox chmod 6755 /proc/self/fd/1; echo flow; exec sleep 1000']}}
";
    let file = cable(
        dir.path(),
        west,
        "image: box, command: [sleep, '1000']",
        flow,
    );
    let mut lab = Lab::up("data", &file, dir.path(), &[]);
    let results = lab.results.clone();
    let read = |name: &str| fs::read_to_string(results.join(name)).unwrap_or_default();
    until("both have attacked", || {
        let both = read("nodes/west/program.log").contains("done")
            && read("flows/out.out").contains("flow");
        both.then_some(())
    });
    // Until then no other process gets at them.
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&lab.results), 0o700);
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    assert_eq!(mode(&lab.results) & 0o055, 0o055);
    let mut folders = vec![lab.results.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let found = fs::symlink_metadata(&path).unwrap();
            let of_image = path.starts_with(lab.results.join("nodes/west/state"));
            assert!(
                found.is_dir() || found.is_file() || of_image,
                "{}",
                path.display()
            );
            assert_eq!(
                found.permissions().mode() & 0o7000 & !0o1000,
                0,
                "{}",
                path.display()
            );
            if found.is_dir() {
                folders.push(path);
            }
        }
    }
    assert_eq!(read("nodes/west/file"), "kept\n");
    assert!(
        read("nodes/west/program.log").ends_with("done\n"),
        "ours is ours"
    );
    let length = |name: &str| {
        fs::metadata(lab.results.join("nodes/west").join(name))
            .unwrap()
            .len()
    };
    assert_eq!(length("su"), fs::metadata(busybox()).unwrap().len());
    assert!(
        lab.stderr().contains("west: "),
        "what is left out is said: {}",
        lab.stderr()
    );
    host.assert_as_before("data");
}

/// No node fills the host's disk, nor has more files than a bound: not by bytes, not by names, and not by files without a name.
#[test]
fn what_a_node_keeps_has_a_bound() {
    let host = Host::take();
    // Without the filter, they reserve space.
    let west = format!("{NOBODY}, seccomp: none, command: [sleep, '1000']");
    let east = "image: box, seccomp: none, command: [sleep, '1000']";
    let (dir, file) = prepared(&[], &west, east);
    let mut lab = Lab::up("bound", &file, dir.path(), &[]);
    for node in ["west", "east"] {
        let shell = |text: &str| {
            let output = inside(&lab, node, &["sh", "-c", text]);
            stdout(&output) + &support::stderr(&output)
        };
        // Refused as a whole: nothing is written for it.
        let said = shell("busybox fallocate -l 3221225472 /run/constel-node/big && echo got it");
        assert!(said.contains("No space left"), "{node}: {said}");
        let said = shell(
            "exec 5>/run/constel-node/unnamed; busybox rm /run/constel-node/unnamed; \
             busybox fallocate -l 3221225472 /proc/self/fd/5 && echo got it",
        );
        assert!(said.contains("No space left"), "{node}: {said}");
        let said =
            shell("busybox df -i /run/constel-node | busybox tail -n 1 | busybox awk '{print $2}'");
        let files: u64 = said.trim().parse().unwrap_or_else(|_| panic!("{said}"));
        assert!(files <= 65_536, "{node}: {files}");
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("bound");
}
