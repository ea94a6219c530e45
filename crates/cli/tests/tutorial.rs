//! `docs/tutorial.md`, as a reader does it: its files are written, its commands run one after the other, and their output
//! has the lines that it shows. Computed figures are equal, round-trip times within 5 %, and other numbers may differ.

use crate::support;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use support::host::Host;
use support::{CONSTEL, constel, json, until, wait};

/// A fenced block: what stands behind its fence, and its lines.
pub(crate) fn blocks(page: &str) -> Vec<(String, Vec<&str>)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, Vec<&str>)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some((info.to_owned(), Vec::new())),
            (Some(_), block) => blocks.extend(block.take()),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

/// Numbers are a reader's own, and columns as wide as they need.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for word in line.split_whitespace() {
        let mut number = false;
        for c in word.chars() {
            let digit = c.is_ascii_digit() || (number && c == '.');
            if !(digit && number) {
                shape.push(if digit { 'N' } else { c });
            }
            number = digit;
        }
        shape.push(' ');
    }
    shape
}

/// The shortest round trip of a ping's summary, ms.
fn shortest_ms(line: &str) -> Option<f64> {
    let times = line.trim().strip_prefix("rtt min/avg/max/mdev = ")?;
    times.split('/').next()?.parse().ok()
}

/// Whether a line of the page is a line of the real output of `command`.
fn is_shown(command: &str, line: &str, said: &str) -> bool {
    if command.starts_with("constel plan") || command.starts_with("constel check") {
        return said == line;
    }
    let near = match (shortest_ms(line), shortest_ms(said)) {
        (Some(shown), Some(real)) => (real - shown).abs() <= 0.05 * shown,
        _ => true,
    };
    near && shape(said).starts_with(shape(line).trim_end())
}

/// Runs a command as a shell does. Returns its output, standard error as well.
pub(crate) fn run(folder: &Path, path: &str, line: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec 2>&1; {line}")]);
    command
        .current_dir(folder)
        .env("PATH", path)
        .stdin(Stdio::null());
    let output = support::finish(command);
    let said = support::stdout(&output);
    // 3: on a busy machine figures are not trustworthy, and Constel reports it.
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{line}: {}\n{said}",
        output.status
    );
    said
}

/// A command that runs beside others; it ends with the test, whatever that came to.
pub(crate) struct Background(Child);

impl Background {
    /// Ends it as Ctrl-C does, if it has not ended.
    pub(crate) fn interrupt(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_none()) {
            let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
            let _ = kill_process(pid, Signal::INT);
            wait(&mut self.0);
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.interrupt();
    }
}

/// Starts one, and waits until the lab that it brings up is there.
pub(crate) fn start(folder: &Path, path: &str, line: &str, lab: &str) -> Background {
    let log = fs::File::create(folder.join("background.log")).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec {line}")]);
    command
        .current_dir(folder)
        .env("PATH", path)
        .stdin(Stdio::null());
    let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn();
    let child = Background(child.unwrap());
    until("lab time", || {
        let labs = json(&constel(["list", "--json"]));
        let labs = labs.as_array().unwrap();
        labs.iter()
            .any(|one| one["lab"] == lab && one["state"] == "running")
            .then_some(())
    });
    child
}

/// The path of programs, with those of the test first.
pub(crate) fn path_with_constel() -> String {
    let programs = Path::new(CONSTEL).parent().unwrap();
    format!("{}:{}", programs.display(), std::env::var("PATH").unwrap())
}

/// The shortest delay of a datagram, as the plan has it at the begin, and with the 40 ms that are added by hand.
const PLANNED_NS: u64 = 28_944_383;
const ADDED_NS: u64 = 40_000_000;

/// The delays of datagrams, ns: those which met what was added by hand, and the others. A busy host makes some of these much
/// slower, but none faster than the link.
fn slow_and_fast(delays: &str) -> (Vec<u64>, Vec<u64>) {
    let delays_ns = delays
        .lines()
        .filter_map(|line| line.split_once(',')?.1.parse::<u64>().ok());
    delays_ns.partition(|ns| *ns >= PLANNED_NS + ADDED_NS)
}

/// A reader types slowly; a machine may be slower still: waits until some datagrams met the link as it is.
fn before_it_is_changed_again(change: &str) {
    until(change, || {
        let delays = constel([
            "exec",
            "polar",
            "lagos",
            "--",
            "cat",
            "/run/constel-node/delays.csv",
        ]);
        let (slow, fast) = slow_and_fast(&support::stdout(&delays));
        let met = if change.ends_with("--reset") {
            slow
        } else {
            fast
        };
        (met.len() >= 5).then_some(())
    });
}

#[test]
fn every_command_of_the_tutorial_does_what_it_says() {
    let host = Host::take();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = path_with_constel();
    let page = fs::read_to_string(support::workspace().join("docs/tutorial.md")).unwrap();
    let mut background: Vec<Background> = Vec::new();
    let mut commands = 0;
    for (info, lines) in blocks(&page) {
        let words: Vec<&str> = info.split(' ').collect();
        match words.as_slice() {
            ["console"] => {}
            [_, file, more @ ..] => {
                let mut options = OpenOptions::new();
                options.create(true).write(true).append(more == ["+"]);
                let mut file = options
                    .truncate(more.is_empty())
                    .open(folder.join(file))
                    .unwrap();
                writeln!(file, "{}", lines.join("\n")).unwrap();
                continue;
            }
            other => panic!("what is a block of {other:?}?"),
        }
        let (mut said, mut ran) = (String::new(), "");
        for line in lines {
            let command = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# "));
            match command.map(|command| (command, command.strip_suffix(" &"))) {
                // The test's own programs are on the path.
                Some((command, _)) if command.starts_with("export PATH=") => {}
                Some((_, Some(command))) => background.push(start(folder, &path, command, "polar")),
                Some((command, None)) => {
                    if command.starts_with("constel link set") {
                        before_it_is_changed_again(command);
                    }
                    said = run(folder, &path, command);
                    ran = command;
                    commands += 1;
                }
                None => assert!(
                    said.lines().any(|said| is_shown(ran, line, said)),
                    "the page shows\n{line}\nand there was\n{said}"
                ),
            }
        }
    }
    for mut child in background {
        let status = wait(&mut child.0).unwrap();
        assert!(matches!(status.code(), Some(0 | 3)), "{status}");
    }
    assert!(commands >= 12, "only {commands} commands");
    // The effect by hand was met by some datagrams, and not by those before.
    let delays = fs::read_to_string(folder.join("first/nodes/lagos/delays.csv")).unwrap();
    let (slow, fast) = slow_and_fast(&delays);
    assert!(slow.len() >= 5 && fast.len() >= 5, "{slow:?} {fast:?}");
    // A loaded host may add to each datagram, so the shortest are compared.
    for (delays_ns, expected_ns) in [(fast, PLANNED_NS), (slow, PLANNED_NS + ADDED_NS)] {
        let shortest_ns = delays_ns.into_iter().min().unwrap();
        let range = expected_ns..=expected_ns + expected_ns / 20;
        assert!(range.contains(&shortest_ns), "{shortest_ns} ns");
    }
    assert!(
        fs::read_to_string(folder.join("study/table.svg"))
            .unwrap()
            .contains("download: throughput_mbps")
    );
    host.assert_as_before("after the tutorial");
}
