//! `constel agent` and `constel machines` as processes that share a folder: what they print, how they end, what they leave.

use crate::support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use constel_host::NetNs;
use constel_host::netlink::{AddressSpec, Batch, IpPrefix, LinkChange, Socket, VethEnd};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{constel, json, stderr, until, workspace};

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
        support::wait(&mut self.child).expect("it ends")
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
    let rows = until("both say how they are", || {
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
    until("it says how it is", || {
        machines(&store)[0]["pid"].is_u64().then_some(())
    });
    a.signal(Signal::KILL);
    a.ended();
    until("its lease is over", || {
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

/// A cable between two namespaces: of each end the namespace, the index, and the last number of its address in `net`.
fn cable(net: u8, mtu: u32, ends: [(&NetNs, u32, u8); 2]) {
    let names = ends.map(|(_, index, _)| format!("under{index}"));
    let end = |at: usize| VethEnd {
        name: &names[at],
        netns: Some(ends[at].0.fd()),
        ifindex: Some(ends[at].1),
        mtu: Some(mtu),
        ..VethEnd::default()
    };
    let mut batch = Batch::new();
    batch.create_veth(&end(0), &end(1)).unwrap();
    Socket::open_in(ends[0].0)
        .unwrap()
        .send(&mut batch)
        .unwrap();
    for (space, index, last) in ends {
        let own = IpPrefix::new([10, 98, net, last].into(), 24).unwrap();
        let mut batch = Batch::new();
        batch.add_address(&AddressSpec::new(index, own));
        batch.link_up(index);
        Socket::open_in(space).unwrap().send(&mut batch).unwrap();
    }
}

/// `check` on these machines: its exit code, its findings between them, and its output.
fn between(store: &Path, machines: &str, choice: &str) -> (i32, Value, String) {
    let file = workspace().join("experiments/machines/iridium.yaml");
    let words = [
        "check",
        "--json",
        "--machines",
        machines,
        "--between",
        choice,
        "--store",
    ];
    let output = constel(words.into_iter().chain(store.to_str()).chain(file.to_str()));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let code = output.status.code().unwrap();
    (code, found["there"]["between"].clone(), stderr(&output))
}

/// Raw Ethernet is used if frames arrive; if they are too long or lost, the message has the next step.
#[test]
fn raw_ethernet_is_tried_before_it_is_taken() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    // `a` and `b` are on one cable, `c` on another one.
    let [a, b, c] = [(); 3].map(|()| NetNs::new().unwrap());
    cable(0, 1_574, [(&a, 72, 1), (&b, 72, 2)]);
    cable(1, 1_500, [(&b, 73, 2), (&c, 72, 3)]);
    let agents = [("a", &a), ("b", &b), ("c", &c)].map(|(name, space)| {
        let flags = ["--underlay", "under72"];
        let agent = space.run(|| Agent::start(&store, name, &flags)).unwrap();
        assert!(agent.line().contains("has joined, listening on 10.98."));
        agent
    });
    let known = |c_mtu: u32| {
        until("all know their clocks, and c its MTU", || {
            let rows = machines(&store);
            let known = |row: &Value| row["clock_offset_ns"].is_i64();
            let all = rows.len() == 3 && rows.iter().all(known);
            (all && rows[2]["mtu_bytes"] == c_mtu).then_some(())
        });
    };
    known(1_500);
    for (choice, why) in [("auto", "both ways"), ("ethernet", "chosen")] {
        let (code, found, said) = between(&store, "a,b", choice);
        assert_eq!(
            (code, &found["transport"]),
            (0, &"ethernet".into()),
            "{said}"
        );
        assert!(found["why"].as_str().unwrap().contains(why), "{found:#}");
        assert_eq!(found["mtu_wanted_bytes"], 1_574);
    }
    // `udp` needs no test of the machines.
    assert_eq!(between(&store, "a,b", "udp").1["transport"], "udp");
    let refused = |words: &str| {
        let (code, _, said) = between(&store, "a,c", "ethernet");
        assert_eq!(code, 2, "{said}");
        assert!(
            said.contains(words) && said.contains("--between udp"),
            "{said}"
        );
        let (code, found, said) = between(&store, "a,c", "auto");
        assert_eq!((code, &found["transport"]), (0, &"udp".into()), "{said}");
        assert!(found["why"].as_str().unwrap().contains(words), "{found:#}");
    };
    refused("`ip link set dev under72 mtu 1574`");
    let change = |space: &NetNs, ifindex: u32| {
        let mut batch = Batch::new();
        let change = LinkChange {
            ifindex,
            mtu: Some(1_574),
            ..LinkChange::default()
        };
        batch.change_link(&change).unwrap();
        Socket::open_in(space).unwrap().send(&mut batch).unwrap();
    };
    change(&b, 73);
    change(&c, 72);
    known(1_574);
    refused("machines a and c do not receive each other's raw frames (EtherType 0x88b6)");
    drop(agents);
}
