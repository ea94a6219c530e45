//! However a run ends, the host is as it was, soon, and what was measured is kept.

use crate::support;

use std::fs::File;
use std::io::{Write, pipe};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::host::Host;
use support::lab::Lab;
use support::{constel, scenario, soon, until};

const COMPUTED: &str = "{mode: computed}";
const BIRD: &str = "{mode: bird, ospf: {hello: 1 s, dead: 2 s}}";

const PING: &str = "traffic:
  - {name: ping, at: 0 s, for: 50 s, ping: {from: west, to: east, interval: 100 ms}}
";

/// A small lab is down by then, on a busy machine too.
const SOON: Duration = Duration::from_secs(3);

/// The destination of stderr.
#[derive(Clone, Copy, Debug)]
enum Words {
    /// Into a pipe whose reader has gone: Ctrl-C on `constel run F 2>&1 | tee log` ends `tee` first.
    BrokenPipe,
    /// Onto a full disk.
    FullDisk,
}

impl Words {
    fn open(self) -> Stdio {
        match self {
            Words::BrokenPipe => pipe().unwrap().1.into(),
            Words::FullDisk => File::options()
                .write(true)
                .open("/dev/full")
                .unwrap()
                .into(),
        }
    }
}

#[test]
fn signals_end_a_run_soon_whoever_still_reads_its_words() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        (COMPUTED, Signal::INT, Words::BrokenPipe),
        (COMPUTED, Signal::TERM, Words::FullDisk),
        (BIRD, Signal::HUP, Words::BrokenPipe),
        (BIRD, Signal::INT, Words::FullDisk),
    ];
    for (number, (routing, signal, words)) in cases.into_iter().enumerate() {
        let case = format!("{routing}, {signal:?}, {words:?}");
        let file = scenario::small(dir.path(), "ends.yaml", routing, PING);
        let name = format!("ends-{number}");
        let mut lab = Lab::start_telling(words.open(), &name, &file, dir.path(), &[]);
        lab.wait_running();
        // Until something was measured.
        let out = lab.results.join("flows/ping.out");
        until("a reply", || {
            let text = std::fs::read_to_string(&out).unwrap_or_default();
            text.contains(",ok\n").then_some(())
        });
        let asked = Instant::now();
        lab.signal(signal);
        let status = lab.ended();
        let took = asked.elapsed();
        assert_eq!(status.code(), Some(130), "{case}");
        assert!(took < soon(SOON), "{case}: {took:?}");
        assert_eq!(lab.state(), None, "{case}: its name is free");
        let summary = lab.summary();
        assert_eq!(summary["interrupted"], true, "{case}");
        assert_eq!(summary["flows"][0]["status"], "cut-short", "{case}");
        assert!(lab.results.join("series.csv").exists(), "{case}");
        host.assert_as_before(&case);
    }
}

#[test]
fn a_signal_while_coming_up_leaves_nothing() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "early.yaml", BIRD, "");
    for (number, pause_ms) in [0, 150, 600].into_iter().enumerate() {
        let name = format!("early-{number}");
        let words = Words::BrokenPipe.open();
        let mut lab = Lab::start_telling(words, &name, &file, dir.path(), &[]);
        until("it has its name", || lab.state());
        std::thread::sleep(Duration::from_millis(pause_ms));
        let asked = Instant::now();
        lab.signal(Signal::INT);
        assert_eq!(lab.ended().code(), Some(130), "{pause_ms} ms");
        assert!(
            asked.elapsed() < soon(SOON),
            "{pause_ms} ms: {:?}",
            asked.elapsed()
        );
        host.assert_as_before(&name);
    }
}

/// Processes that a flow or a person leaves running in a node keep neither the node nor the summary.
#[test]
fn a_process_left_in_a_node_does_not_delay_the_end() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let left = "traffic:
  - {name: left, at: 0 s, for: 1 s, run: {node: west, command: [sh, -c, 'setsid sleep 999 & echo left']}}
";
    let file = scenario::small(dir.path(), "left.yaml", COMPUTED, left);
    let mut lab = Lab::up("left", &file, dir.path(), &[]);
    let mut shells: Vec<_> = (0..5)
        .map(|_| {
            let mut shell = std::process::Command::new(support::CONSTEL);
            shell.args(["exec", &lab.name, "east", "--", "sleep", "999"]);
            shell.spawn().unwrap()
        })
        .collect();
    until("all are in their node", || {
        let inside = constel_host::process::marked(Some(&lab.name)).unwrap();
        let sleeps = inside.iter().filter(|p| p.command == "sleep").count();
        (sleeps >= 6).then_some(())
    });
    let asked = Instant::now();
    let output = constel(["down", &lab.name]);
    assert!(output.status.success(), "{}", support::stderr(&output));
    assert!(asked.elapsed() < soon(SOON), "{:?}", asked.elapsed());
    let code = lab.ended().code();
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {}", lab.stderr());
    assert_eq!(lab.summary()["flows"][0]["status"], "ok");
    for shell in &mut shells {
        assert!(!shell.wait().unwrap().success(), "it was ended");
    }
    host.assert_as_before("left");
}

/// Only its user reaches a lab, with every umask.
#[test]
fn others_are_kept_out_under_any_umask() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    for (number, mask) in [0o000, 0o027, 0o077].into_iter().enumerate() {
        let file = scenario::small(dir.path(), "mask.yaml", COMPUTED, "");
        let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask));
        let mut lab = Lab::start(&format!("mask-{number}"), &file, dir.path(), &[]);
        rustix::process::umask(before);
        lab.wait_running();
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&lab.dir()), 0o700, "{mask:o}");
        assert_eq!(mode(&lab.dir().join("api.sock")), 0o600, "{mask:o}");
        let mut path = lab.dir();
        while path.pop() && path.starts_with("/run/constel") {
            let meta = path.metadata().unwrap();
            assert_eq!(
                (meta.uid(), mode(&path) & 0o022),
                (0, 0),
                "{mask:o}: {}",
                path.display()
            );
        }
        assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
        host.assert_as_before("mask");
    }
}

/// Waits for the first reply of the flow `ping`, fills the disk that the results are on, and returns the flow's output.
fn fill_after_a_reply(lab: &Lab, disk: &Path) -> PathBuf {
    let out = lab.results.join("flows/ping.out");
    until("a reply", || {
        let text = std::fs::read_to_string(&out).unwrap_or_default();
        text.contains(",ok\n").then_some(())
    });
    let mut filler = File::create(disk.join("filler")).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
    out
}

/// On a full disk everything still ends, and earlier output is kept.
#[test]
fn full_disks_keep_nobody_up() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    for (number, routing) in [COMPUTED, BIRD].into_iter().enumerate() {
        let small = dir.path().join(format!("small-{number}"));
        std::fs::create_dir(&small).unwrap();
        let _disk = Disk::mount(&small);
        let file = scenario::small(dir.path(), "full.yaml", routing, PING);
        let mut lab = Lab::start(&format!("full-{number}"), &file, &small, &[]);
        lab.wait_running();
        let out = fill_after_a_reply(&lab, &small);
        let asked = Instant::now();
        lab.signal(Signal::INT);
        let code = lab.ended().code();
        // The summary cannot be written, and that is reported.
        assert!(matches!(code, Some(1 | 130)), "{routing}: {code:?}");
        assert!(
            asked.elapsed() < soon(SOON),
            "{routing}: {:?}",
            asked.elapsed()
        );
        assert_eq!(lab.state(), None, "{routing}: its name is free");
        assert!(
            std::fs::read_to_string(&out).unwrap().contains(",ok\n"),
            "kept"
        );
        assert!(lab.results.join("manifest.json").metadata().unwrap().len() > 0);
    }
    host.assert_as_before("full disks");
}

/// The results' disk is full and the terminal is not: what the run came to is printed, and why it is not kept.
#[test]
fn a_full_disk_of_the_results_leaves_the_summary_to_the_terminal() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    for (how, exit) in [("by itself", 3), ("SIGINT", 130)] {
        let small = dir.path().join(how);
        std::fs::create_dir(&small).unwrap();
        let _disk = Disk::mount(&small);
        let file = scenario::small(dir.path(), "full.yaml", COMPUTED, PING);
        // The output goes elsewhere.
        let mut lab = Lab::start_into(
            "full",
            &file,
            dir.path(),
            &small.join("run"),
            &["--for", "6s"],
        );
        lab.wait_running();
        fill_after_a_reply(&lab, &small);
        if how == "SIGINT" {
            lab.signal(Signal::INT);
        }
        let code = lab.ended().code();
        let words = lab.stderr();
        assert_eq!(code, Some(exit), "{how}: {words}");
        let printed = std::fs::read_to_string(dir.path().join(format!("{}.stdout", lab.name)));
        let printed = printed.unwrap();
        assert!(printed.contains("ping"), "{how}: {printed}");
        assert!(
            printed.contains("the results are not complete: No space left on device"),
            "{how}: {printed}"
        );
        assert_eq!(lab.state(), None, "{how}: its name is free");
    }
    host.assert_as_before("the results' disk");
}

/// A small file system that is gone with this.
struct Disk<'a>(&'a std::path::Path);

impl Disk<'_> {
    fn mount(at: &std::path::Path) -> Disk<'_> {
        let status = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(at)
            .status();
        assert!(status.unwrap().success(), "mount a tmpfs");
        Disk(at)
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        drop(
            std::process::Command::new("umount")
                .arg("-l")
                .arg(self.0)
                .status(),
        );
    }
}
