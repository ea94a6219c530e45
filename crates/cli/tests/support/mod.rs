//! Code that the tests of the command share: running the real binary, labs that never outlive a test, a picture of
//! the host before and after.

#![allow(
    dead_code,
    reason = "each test binary uses its own part of what they share"
)]

pub(crate) mod container;
pub(crate) mod engine;
pub(crate) mod host;
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod netns;
pub(crate) mod probe;
pub(crate) mod route;
pub(crate) mod scenario;
pub(crate) mod stream;
pub(crate) mod witness;

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The binary under test.
pub(crate) const CONSTEL: &str = env!("CARGO_BIN_EXE_constel");

/// How long a test waits for what must happen. Waits only recognise what hangs: a busy host may take its time, and bounds of
/// the product are judged by lab time or beside a baseline.
fn hangs_after() -> Duration {
    Duration::from_secs(if long() { 5400 } else { 240 })
}

/// Runs a verb to its end; panics when it hangs.
pub(crate) fn constel<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    let mut command = Command::new(CONSTEL);
    command.args(args).stdin(Stdio::null());
    finish(command)
}

/// Runs a command to its end; kills it and panics after [`hangs_after`].
pub(crate) fn finish(mut command: Command) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = collect(child.stdout.take());
    let err = collect(child.stderr.take());
    let status = wait(&mut child);
    let (stdout, stderr) = (out.join().unwrap(), err.join().unwrap());
    let Some(status) = status else {
        panic!(
            "{command:?} does not end; stderr:\n{}",
            String::from_utf8_lossy(&stderr)
        );
    };
    Output {
        status,
        stdout,
        stderr,
    }
}

fn collect(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            stream.read_to_end(&mut bytes).unwrap();
        }
        bytes
    })
}

/// Waits for the child; kills it after [`hangs_after`], and gives `None`.
pub(crate) fn wait(child: &mut Child) -> Option<std::process::ExitStatus> {
    let end = Instant::now() + hangs_after();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns stdout as text.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns stderr as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns stdout as one JSON document, after exit code 0.
pub(crate) fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stdout));
    })
}

/// Says that this test, or a part of it, was not run, and why: on stderr, and in the list that `tools/test` counts and prints.
pub(crate) fn skip(reason: &str) {
    use std::io::Write;
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    let line = format!("SKIPPED {test}: {}\n", reason.trim().replace('\n', "; "));
    eprint!("{line}");
    if let Some(list) = std::env::var_os("CONSTEL_SKIPPED") {
        let list = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(list);
        list.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// How long something may take that this machine does in `limit` when nothing else runs: longer by a hundred times what the
/// least verb takes at this moment, in the median of five.
pub(crate) fn soon(limit: Duration) -> Duration {
    let mut took: Vec<Duration> = (0..5)
        .map(|_| {
            let began = Instant::now();
            constel(["--version"]);
            began.elapsed()
        })
        .collect();
    took.sort();
    limit + 100 * took[2]
}

/// Whether long studies run in full (`make test-long`) and not for some 20 s.
pub(crate) fn long() -> bool {
    std::env::var_os("CONSTEL_LONG").is_some()
}

/// The workspace's folder.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Polls until `ready` gives something; panics after [`hangs_after`].
pub(crate) fn until<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let limit = hangs_after();
    let end = Instant::now() + limit;
    // Many of the checks start a program or read all of /proc: the longer they take, the rarer they are.
    let mut pause = Duration::from_millis(2);
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        std::thread::sleep(pause);
        pause = (pause * 3 / 2).min(Duration::from_millis(50));
    }
}
