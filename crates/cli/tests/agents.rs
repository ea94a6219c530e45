//! `constel agent` and `constel machines` as processes that share a folder: what they print, how they end, what they leave.

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{constel, json, stderr, until};

/// A lease's time, and some for a busy machine.
const LOST_WITHIN: Duration = Duration::from_secs(15);
const SOON: Duration = Duration::from_secs(10);

/// `constel agent`; killed at the latest with the test.
struct Agent {
    child: Child,
    lines: Receiver<String>,
}

impl Agent {
    fn start(store: &Path, name: &str, flags: &[&str]) -> Self {
        let mut child = Command::new(support::CONSTEL)
            .args(["agent", "--name", name, "--store"])
            .arg(store)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let told = BufReader::new(child.stderr.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            told.lines()
                .map_while(Result::ok)
                .try_for_each(|line| send.send(line))
        });
        Self { child, lines }
    }

    /// The next line that it prints.
    fn line(&self) -> String {
        self.lines.recv_timeout(SOON).expect("a line on stderr")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn ended(&mut self) -> ExitStatus {
        support::wait(&mut self.child, SOON).expect("it ends")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rows of `constel machines --json`.
fn machines(store: &Path) -> Vec<Value> {
    let store = store.to_str().unwrap();
    let rows = json(&constel(["machines", "--json", "--store", store]));
    rows.as_array().unwrap().clone()
}

/// Name and state of each machine.
fn states(store: &Path) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = machines(store).into_iter();
    rows.map(|row| (text(&row["machine"]), text(&row["state"])))
        .collect()
}

#[test]
fn a_store_that_is_not_there_is_not_made_by_looking() {
    let place = tempfile::tempdir().unwrap();
    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for store in [&place.path().join("typo"), &empty] {
        let before = store.exists();
        for flags in [&[][..], &["--json"], &["--forget", "a"]] {
            let store = store.to_str().unwrap();
            let output = constel(["machines", "--store", store].iter().chain(flags));
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{flags:?}: {text}");
            assert!(text.contains("there is no store in"), "{flags:?}: {text}");
        }
        assert_eq!(store.exists(), before, "{store:?}");
    }
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
}

#[test]
fn who_joins_is_listed_and_who_leaves_is_not() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let mut a = Agent::start(&store, "a", &["--weight", "2", "--capacity", "7"]);
    assert_eq!(a.line(), "constel: machine a has joined");
    let mut b = Agent::start(&store, "b", &["--underlay", "lo"]);
    let joined = b.line();
    let at = joined.strip_prefix("constel: machine b has joined, listening on 127.0.0.1:");
    let port: u16 = at.unwrap_or_else(|| panic!("{joined}")).parse().unwrap();
    let rows = until(SOON, "both say how they are", || {
        let rows = machines(&store);
        let known = |row: &Value| row["clock_offset_ns"].is_i64();
        (rows.len() == 2 && rows.iter().all(known)).then_some(rows)
    });
    let own = |row: &Value| (row["weight"].clone(), row["capacity"].clone());
    assert_eq!(own(&rows[0]), (2.into(), 7.into()));
    assert_eq!(own(&rows[1]), (1.into(), Value::Null));
    assert_eq!(rows[0]["pid"], a.child.id());
    assert_eq!(rows[1]["underlay"], format!("127.0.0.1:{port}"));
    assert_eq!(
        (&rows[0]["clock_by"], &rows[0]["clock_offset_ns"]),
        (&"itself".into(), &0.into())
    );

    let mut again = Agent::start(&store, "a", &[]);
    assert_eq!(again.ended().code(), Some(1));
    let words = again.line();
    assert!(words.contains("a"), "{words}");
    let up = |name: &str| (name.to_owned(), "up".to_owned());
    assert_eq!(states(&store), [up("a"), up("b")]);
    let forget = ["machines", "--forget", "a", "--store"];
    let output = constel(forget.iter().copied().chain(store.to_str()));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));

    for (agent, signal) in [(&mut a, Signal::INT), (&mut b, Signal::TERM)] {
        agent.signal(signal);
        assert_eq!(agent.ended().code(), Some(130), "{signal:?}");
    }
    assert_eq!(states(&store), [], "their names are free at once");
}

#[test]
fn who_was_killed_is_lost_until_it_is_forgotten() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let mut a = Agent::start(&store, "a", &[]);
    assert_eq!(a.line(), "constel: machine a has joined");
    until(SOON, "it says how it is", || {
        machines(&store)[0]["pid"].is_u64().then_some(())
    });
    a.signal(Signal::KILL);
    a.ended();
    until(LOST_WITHIN, "its lease is over", || {
        let lost = [("a".to_owned(), "lost".to_owned())];
        (states(&store) == lost).then_some(())
    });
    assert_eq!(machines(&store)[0]["clock_offset_ns"], Value::Null);
    let forget = ["machines", "--forget", "a", "--store"];
    for code in [0, 2] {
        let output = constel(forget.iter().copied().chain(store.to_str()));
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    }
    assert_eq!(states(&store), []);
}

#[test]
fn what_an_agent_cannot_have_is_a_usage_error() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    for (flags, words) in [
        (&["--underlay", "nowhere0"][..], "nowhere0"),
        (&["--underlay", "lo:0"], "lo:0"),
        (&["--weight", "0"], "--weight"),
        (&["--capacity", "0"], "--capacity"),
        (&["--name", "a/b"], "--name"),
    ] {
        let store = store.to_str().unwrap();
        let output = constel(["agent", "--store", store].iter().chain(flags));
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {text}");
        assert!(text.contains(words), "{flags:?}: {text}");
    }
    let listed = constel(["machines", "--json", "--store", store.to_str().unwrap()]);
    assert_eq!(json(&listed), Value::Array(Vec::new()), "nobody has joined");
}
