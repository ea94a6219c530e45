//! The host's disk: what programs of nodes write to it has a bound, and nothing of it has rights on the host.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use super::{NOBODY, cable, inside, prepared};
use crate::support;
use support::container::{events, import, import_folder, make};
use support::host::Host;
use support::lab::Lab;
use support::{constel, finish, stderr, stdout, until};

/// How an output ends that had more than is kept.
const CUT: &str = "\nconstel: cut here, after 1073741824 bytes\n";

/// Returns the bytes after which a file says that it was cut; `None` unless it has no more than a bound of 1 GiB on the disk.
fn cut_after(path: &Path) -> Option<u64> {
    const LONGEST: u64 = 64;
    let mut file = fs::File::open(path).ok()?;
    let found = file.metadata().ok()?;
    // If a file system frees the reserved space when its program ends, the file is shorter than the bound.
    let begin = found.len().saturating_sub(LONGEST);
    file.seek(SeekFrom::Start(begin)).ok()?;
    let end = io::read_to_string(file.take(LONGEST)).ok()?;
    let (_, after) = end.split_once("\nconstel: cut here, after ")?;
    let most = (1 << 30) + (1 << 20);
    (found.len() < most && found.blocks() * 512 <= most).then_some(())?;
    after.strip_suffix(" bytes\n")?.parse().ok()
}

/// A flow that reserves more than is kept, one that writes far behind its end, and one whose child goes on when it has ended. Each is
/// ended or cut, and the summary reports it; the neighbour's is complete.
#[test]
fn output_of_flows_has_a_bound() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    import(dir.path());
    let flow = |name: &str, command: &str| {
        format!(
            "  - {{name: {name}, at: 0 s, for: 200 s, run: {{node: east, command: [sh, -c, '{command}']}}}}\n"
        )
    };
    let more = ["traffic:\n".to_owned()]
        .into_iter()
        .chain([
            flow("reserved", "echo begin; busybox fallocate -l 1100M /proc/self/fd/1; exec sleep 1000"),
            flow("behind", "busybox truncate -s 1500M /proc/self/fd/2; exec sleep 1000"),
            flow(
                "left",
                "(sleep 2; busybox truncate -s 1500M /proc/self/fd/1; exec sleep 1000) & echo begin",
            ),
            flow("honest", "echo fine; exec sleep 1000"),
        ])
        .collect::<String>();
    let node = format!("{NOBODY}, command: [sleep, '1000']");
    // Without the filter, it reserves space.
    let east = "image: box, seccomp: none, command: [sleep, '1000']";
    let file = cable(dir.path(), &node, east, &more);
    let mut lab = Lab::up("outputs", &file, dir.path(), &[]);
    let results = lab.results.clone();
    let out = |name: &str| results.join("flows").join(name);
    let cut = |name: &str| cut_after(&out(name)).filter(|bytes| *bytes == 1 << 30);
    for name in ["reserved.out", "behind.err", "left.out"] {
        until(&format!("cut: {:?}", out(name)), || cut(name));
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    let summary = lab.summary();
    let row = |name: &str| {
        let flows = summary["flows"].as_array().unwrap();
        flows
            .iter()
            .find(|flow| flow["name"] == name)
            .unwrap()
            .clone()
    };
    for name in ["reserved", "behind"] {
        let row = row(name);
        assert_eq!(row["status"], "failed", "{row}");
        let reason = row["reason"].as_str().unwrap();
        assert!(reason.contains("more than 1024 MiB"), "{reason}");
    }
    assert_ne!(row("honest")["status"], "failed", "{}", row("honest"));
    assert_eq!(fs::read_to_string(out("honest.out")).unwrap(), "fine\n");
    let reserved = constel_units::files::read(&out("reserved.out"), 2 << 30).unwrap();
    assert!(reserved.starts_with(b"begin\n"));
    assert!(reserved.ends_with(CUT.as_bytes()));
    host.assert_as_before("outputs");
}

/// Copies out of a node are data: no `setuid`, of the requested file, of one in a folder, and of one that another machine's user
/// would get.
#[test]
fn what_is_copied_out_of_a_node_has_no_rights() {
    let host = Host::take();
    let west = format!("{NOBODY}, command: [sleep, '1000']");
    let (dir, file) = prepared(&[], &west, "image: box, command: [sleep, '1000']");
    let mut lab = Lab::up("rights", &file, dir.path(), &[]);
    let make = "busybox mkdir -p /w/deep/er && cd /w && busybox cp /bin/busybox deep/er/su && busybox chmod 6755 deep/er/su && \
                busybox chmod 3777 deep && busybox ln -s /etc/shadow deep/link && busybox mkfifo deep/pipe";
    let made = inside(&lab, "east", &["sh", "-c", make]);
    assert!(made.status.success(), "{}", stderr(&made));
    let name = lab.name.clone();
    let copy = |from: &str, to: &str| {
        let to = dir.path().join(to);
        let output = constel(["cp", &name, &format!("east:{from}"), to.to_str().unwrap()]);
        (to, output.status.success(), stderr(&output))
    };
    let (one, whole, words) = copy("/w/deep/er/su", "su");
    assert!(whole, "{words}");
    let (all, _, words) = copy("/w/deep", "deep");
    assert!(words.contains("pipe"), "what is left out is named: {words}");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&one), 0o755);
    assert_eq!(mode(&all.join("er/su")), 0o755);
    assert_eq!(mode(&all) & 0o6000, 0);
    assert!(fs::symlink_metadata(all.join("link")).unwrap().is_symlink());
    // Into a node a file keeps what it has: there it is the node's.
    fs::set_permissions(&one, fs::Permissions::from_mode(0o4755)).unwrap();
    let output = constel(["cp", &name, one.to_str().unwrap(), "west:/in"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = inside(&lab, "west", &["sh", "-c", "busybox stat -c %a /in"]);
    assert_eq!(stdout(&found), "4755\n", "{}", stderr(&found));
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("rights");
}

/// A container may write too much to its log in four ways: it reserves disk, it makes the file longer, it ends by itself before anybody measured,
/// and its check of health does it. Each is ended for good, and its logs are cut.
#[test]
fn logs_of_a_container_have_a_bound() {
    let host = Host::take();
    let reserve = "busybox fallocate -l 1100M /proc/self/fd/1; exec sleep 1000";
    let longer = "busybox truncate -s 1500M /proc/self/fd/1; exec sleep 1000";
    let gone = "busybox truncate -s 1500M /proc/self/fd/2";
    let honest = "exec sleep 1000";
    let node = |user: &str, command: &str| {
        format!("{user}, command: [sh, -c, 'echo begin; {command}'], restart: always")
    };
    // The log of checks is not the user's, who could write to it byte by byte only.
    let check = "health: {command: [sh, -c, 'echo begin; busybox truncate -s 1500M /proc/self/fd/1'], interval: 200 ms}";
    let checked = format!("{}, {check}", node("image: box", honest));
    for (number, west, east, log) in [
        (
            1,
            node(&format!("{NOBODY}, seccomp: none"), reserve),
            node(NOBODY, longer),
            "program.log",
        ),
        (2, node(NOBODY, gone), checked, "health.log"),
    ] {
        let (dir, file) = prepared(&[], &west, &east);
        let mut lab = Lab::up(&format!("logs-{number}"), &file, dir.path(), &[]);
        for (node, log) in [("west", "program.log"), ("east", log)] {
            let log = lab.results.join("nodes").join(node).join(log);
            let ended = until(&format!("{node} is ended for good"), || {
                let mut all = events(&lab, "container-ended").into_iter();
                all.find(|event| event["node"] == node && event["again_in_s"].is_null())
            });
            let how = ended["how"].as_str().unwrap();
            assert!(how.contains("more than 1024 MiB to its logs"), "{how}");
            // One bound for both logs: the other one has a block at most.
            let left = ["program.log", "health.log"]
                .map(|name| fs::metadata(log.with_file_name(name)).map_or(0, |found| found.len()));
            assert!(left.iter().sum::<u64>() <= (1 << 30) + 4096, "{left:?}");
            let after = cut_after(&log).unwrap_or_else(|| panic!("{}: {left:?}", log.display()));
            assert!(after <= 1 << 30 && after + 8192 > 1 << 30, "{after}");
            let begin = fs::File::open(&log).unwrap().take(6);
            assert_eq!(io::read_to_string(begin).unwrap(), "begin\n", "{node}");
        }
        assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
        let failures = lab.summary()["software"]["failures"].to_string();
        for node in ["west", "east"] {
            assert!(failures.contains(node), "{failures}");
        }
        host.assert_as_before("logs");
    }
}

/// A file system in memory for results, which is unmounted with this value.
struct Disk<'a>(&'a Path);

impl Disk<'_> {
    fn mount<'a>(at: &'a Path, options: &str) -> Disk<'a> {
        fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at);
        assert!(mount.status().unwrap().success(), "mount a tmpfs");
        Disk(at)
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0).status());
    }
}

/// A container whose root is on the disk of the results fills it: with bytes, with a file that has no name any more, with a reservation, with
/// names. The container is ended for good, the results have room, and the neighbour goes on.
#[test]
fn a_container_on_the_disk_leaves_room_for_the_results() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    import(dir.path());
    for (number, attack) in [
        "while busybox dd if=/dev/zero bs=1M count=8 2>/dev/null; do sleep 0.2; done > /bytes",
        "exec 5>/file; rm /file; while busybox dd if=/dev/zero bs=1M count=8 2>/dev/null; do sleep 0.2; done >&5",
        "busybox fallocate -l 128M /reserved",
        "n=0; while echo > /$n; do n=$((n + 1)); test $((n % 500)) = 0 && sleep 0.2; done 2>/dev/null",
    ]
    .into_iter()
    .enumerate()
    {
        let disk = dir.path().join(format!("disk-{number}"));
        let mounted = Disk::mount(&disk, "size=352m,nr_inodes=8k");
        let west = format!(
            "image: box, state: disk, seccomp: none, restart: always, command: [sh, -c, '{attack}; exec sleep 1000']"
        );
        let east = format!("{NOBODY}, command: [sleep, '1000']");
        let flow = "traffic:\n- {name: other, at: 0 s, for: 200 s, run: {node: east, command: [sleep, '1000']}}\n";
        let file = cable(dir.path(), &west, &east, flow);
        let results = disk.join("run");
        let mut lab = Lab::start_into(&format!("disk-{number}"), &file, dir.path(), &results, &[]);
        lab.wait_running();
        let ended = until(&format!("it is ended: {attack}"), || {
            let mut all = events(&lab, "container-ended").into_iter();
            all.find(|event| event["node"] == "west" && event["again_in_s"].is_null())
        });
        let how = ended["how"].as_str().unwrap();
        assert!(how.contains("stay free"), "{attack}: {how}");
        let before = lab.client().t_ns();
        until("lab time goes on", || {
            (lab.client().t_ns() > before).then_some(())
        });
        let alive = inside(&lab, "east", &["sh", "-c", "echo alive > /tmp/file; cat /tmp/file"]);
        assert_eq!(stdout(&alive), "alive\n", "{}", stderr(&alive));
        assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
        // The summary was written, with the reason.
        let summary = lab.summary();
        let failures = summary["software"]["failures"].to_string();
        assert!(failures.contains("the program of west ended"), "{failures}");
        assert_ne!(summary["flows"][0]["status"], "failed", "{summary:#}");
        drop(mounted);
        host.assert_as_before("a disk");
    }
}

/// Asks for all of a disk at once. The library's `posix_fallocate` would write instead.
const RESERVE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
int main(int n, char **path) {
    int file = open(path[1], O_RDWR | O_CREAT, 0666);
    /* Two mebibytes less than the disk has, which leaves less than the lab needs. */
    if (file < 0 || fallocate(file, 0, 0, 1022l << 20)) perror("reserve");
    else puts("reserved");
    return 0;
}
"#;

/// One reservation could take all free space before the lab measures it: containers have no such call, on their root and in a log.
/// Programs write instead, and no disk is gone.
#[test]
fn a_container_reserves_no_disk() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let (root, source) = (dir.path().join("rootfs"), dir.path().join("reserve.c"));
    make(&root);
    fs::write(&source, RESERVE).unwrap();
    let mut clang = Command::new("clang");
    clang.args(["-O1", "-static", "-o"]);
    clang.arg(root.join("bin/reserve")).arg(&source);
    let made = finish(clang);
    assert!(made.status.success(), "{}", stderr(&made));
    import_folder(dir.path(), &root, "box");
    let disk = dir.path().join("disk");
    let mounted = Disk::mount(&disk, "size=1g");
    let west = "image: box, state: disk, command: [sh, -c, 'reserve /reserved >/said 2>&1; reserve /proc/self/fd/2 2>>/said >&2; exec sleep 1000']";
    let east = format!("{NOBODY}, command: [sleep, '1000']");
    let file = cable(dir.path(), west, &east, "");
    let results = disk.join("run");
    let mut lab = Lab::start_into("reserve", &file, dir.path(), &results, &[]);
    lab.wait_running();
    let twice = until("it is refused twice", || {
        let text = stdout(&inside(&lab, "west", &["sh", "-c", "cat /said"]));
        (text.lines().count() == 2).then_some(text)
    });
    assert!(
        twice.lines().all(|line| line.contains("not supported")),
        "{twice}"
    );
    let written = inside(
        &lab,
        "west",
        &["sh", "-c", "busybox dd if=/dev/zero of=/own bs=1M count=8"],
    );
    assert!(written.status.success(), "{}", stderr(&written));
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    let failures = lab.summary()["software"]["failures"].to_string();
    assert_eq!(failures, "[]");
    drop(mounted);
    host.assert_as_before("reserve");
}
