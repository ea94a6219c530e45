//! The worst that can happen to `constel run`, at any moment; and two labs that must not know of each other.

use crate::support;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use constel_host::process::marked;
use rustix::process::Signal;
use serde_json::Value;
use support::host::Host;
use support::lab::Lab;
use support::probe::{Pace, Sample, echo};
use support::{constel, json, long, netns, scenario, stderr, until};

const TRAFFIC: &str = "traffic:
  - {name: ping, at: 0 s, for: 50 s, ping: {from: west, to: east, interval: 50 ms}}
  - {name: bulk, at: 0 s, for: 50 s, iperf3: {from: west, to: east}}
  - {name: load, at: 0 s, for: 50 s, http: {from: west, to: east, size: 1 GB}}
  - {name: mine, at: 0 s, for: 50 s, run: {node: sat-p00-s00, command: [sh, -c, 'sleep 100 & sleep 100']}}
";

/// Numbers that look random and are the same in each run (Knuth's MMIX generator), below `bound`.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// When to strike, and how many microseconds after.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// After the lab has its name.
    BringUp(u64),
    /// After lab time has begun.
    Running(u64),
    /// After the request to go down.
    TakeDown(u64),
}

/// `constel clean --json` of the labs named, or of all, and what it removed from the lab, by kind.
fn clean(lab: &Lab, named: &[&str], when: &str) -> BTreeMap<String, usize> {
    let output = constel([&["clean", "--json"], named].concat());
    assert_eq!(output.status.code(), Some(0), "{when}: {}", stderr(&output));
    let report = json(&output);
    let labs = report["labs"].as_array().unwrap();
    let mut kinds = BTreeMap::new();
    for entry in labs
        .iter()
        .filter(|entry| entry["lab"] == lab.name.as_str())
    {
        assert_eq!(entry["problems"], Value::Array(Vec::new()), "{when}");
        for removed in entry["removed"].as_array().unwrap() {
            let kind = removed["removed"].as_str().unwrap().to_owned();
            *kinds.entry(kind).or_insert(0) += 1;
        }
    }
    kinds
}

#[test]
fn after_kill_9_at_any_moment_clean_makes_the_host_as_it_was() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let routing = "{mode: bird, ospf: {hello: 1 s, dead: 2 s}}";
    let file = scenario::small(dir.path(), "kill.yaml", routing, TRAFFIC);
    let mut random = Seeded(2);
    let mut moments: Vec<Moment> = Vec::new();
    let rounds = if long() { 10 } else { 1 };
    for _ in 0..rounds {
        // Nodes and daemons come up within the first half second, most of what can be left half-made.
        moments.extend((0..2).map(|_| Moment::BringUp(random.below(400_000))));
        moments.push(Moment::BringUp(random.below(4_000_000)));
        moments.push(Moment::Running(random.below(1_500_000)));
        moments.extend((0..2).map(|_| Moment::TakeDown(random.below(120_000))));
    }
    let mut deaths = 0;
    for (number, moment) in moments.into_iter().enumerate() {
        let when = format!("{moment:?} us");
        let mut lab = Lab::start(&format!("kill-{number}"), &file, dir.path(), &[]);
        let pause = match moment {
            Moment::BringUp(us) => {
                until("it has its name", || lab.state());
                us
            }
            Moment::Running(us) => {
                lab.wait_running();
                us
            }
            Moment::TakeDown(us) => {
                lab.wait_running();
                lab.signal(Signal::INT);
                us
            }
        };
        std::thread::sleep(Duration::from_micros(pause));
        if let Moment::Running(_) = moment {
            // The init, 14 BIRDs, three servers and clients each, and what the command started.
            let count = marked(Some(&lab.name)).unwrap().len();
            assert!(count >= 21, "{when}: {count}");
        }
        lab.kill9();
        // Without anybody's doing; a process that the kernel still buries has no mark any more.
        until("all of its processes are gone", || {
            marked(Some(&lab.name)).unwrap().is_empty().then_some(())
        });
        let died = lab.state().is_some();
        let kinds = clean(&lab, &[], &when);
        println!("{when}: removed {kinds:?}");
        assert_eq!(lab.state(), None, "{when}: its name is free");
        // A take-down may be over before its moment comes; then there is nothing to say.
        assert_eq!(died, kinds.contains_key("lab_dir"), "{when}: {kinds:?}");
        if let Moment::Running(_) = moment {
            assert!(kinds["setting"] >= 1, "{when}: {kinds:?}");
        }
        deaths += usize::from(died);
        host.assert_as_before(&when);
        assert!(
            clean(&lab, &[], &when).is_empty(),
            "cleaning twice does nothing"
        );
    }
    let most = rounds * 4;
    assert!(deaths >= most, "only {deaths} of {} died of it", rounds * 6);
}

fn pace(count: usize, every_ms: u64) -> Pace {
    Pace {
        count,
        every: Duration::from_millis(every_ms),
        patience: Duration::from_secs(2),
    }
}

fn ping(lab: &Lab, pace: Pace) -> Vec<Sample> {
    echo(&lab.node("west"), netns::loopback(&lab.node("east")), pace)
}

fn all_came_back(samples: &[Sample]) -> bool {
    samples.iter().all(|sample| sample.took_ns.is_some())
}

/// ICMP messages that a lab's nodes received so far, all nodes together.
fn icmp_received(lab: &Lab) -> u64 {
    let in_node = |name: String| {
        let text = lab
            .node(&name)
            .run(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap())
            .unwrap();
        let mut rows = text.lines().filter_map(|line| line.strip_prefix("Icmp: "));
        let (head, row) = (rows.next().unwrap(), rows.next().unwrap());
        let column = head.split(' ').position(|word| word == "InMsgs").unwrap();
        row.split(' ').nth(column).unwrap().parse::<u64>().unwrap()
    };
    lab.nodes().into_iter().map(in_node).sum()
}

/// Frames that a lab's link plane delivered so far.
fn delivered(lab: &Lab) -> u64 {
    let shown = json(&constel(["show", &lab.name, "--json"]));
    shown["relay"]["delivered"].as_u64().unwrap()
}

#[test]
fn two_labs_of_one_scenario_do_not_see_each_other() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "two.yaml", "{mode: computed}", "");
    let start = |name: &str, dir: &Path| Lab::start(name, &file, dir, &[]);
    let (mut one, mut two) = (start("one", dir.path()), start("two", dir.path()));
    one.wait_running();
    two.wait_running();
    let address = |lab: &Lab| netns::loopback(&lab.node("east"));
    assert_eq!(address(&one), address(&two), "the same addresses in both");
    assert_ne!(
        one.node("east").inode().unwrap(),
        two.node("east").inode().unwrap()
    );

    for (speaker, listener) in [(&one, &two), (&two, &one)] {
        let before = (icmp_received(listener), delivered(listener));
        let heard = icmp_received(speaker);
        assert!(all_came_back(&ping(speaker, pace(400, 5))));
        assert_eq!(
            icmp_received(speaker) - heard,
            800,
            "400 requests, 400 replies"
        );
        assert_eq!(icmp_received(listener), before.0, "not one of them here");
        let noise = delivered(listener) - before.1;
        // 2400 frames crossed the speaker's three hops both ways.
        println!("{}: {noise} frames meanwhile", listener.name);
        assert!(noise < 200, "{}: {noise} frames", listener.name);
    }

    // Both at once, then one dies and is cleaned away while the other speaks.
    let (in_one, in_two) = std::thread::scope(|scope| {
        let in_one = scope.spawn(|| ping(&one, pace(100, 10)));
        let in_two = scope.spawn(|| ping(&two, pace(100, 10)));
        (in_one.join().unwrap(), in_two.join().unwrap())
    });
    assert!(all_came_back(&in_one) && all_came_back(&in_two));
    let through = std::thread::scope(|scope| {
        let through = scope.spawn(|| ping(&two, pace(400, 10)));
        std::thread::sleep(Duration::from_millis(700));
        one.kill9();
        std::thread::sleep(Duration::from_millis(700));
        let kinds = clean(&one, &[&one.name], "one of two");
        assert!(kinds.contains_key("lab_dir"), "{kinds:?}");
        through.join().unwrap()
    });
    let lost = through.iter().filter(|s| s.took_ns.is_none()).count();
    let slowest = through.iter().filter_map(|s| s.took_ns).max().unwrap();
    println!(
        "while the other was killed and cleaned away: {lost} of 400 lost, slowest {:.3} ms",
        slowest as f64 / 1e6
    );
    assert_eq!(lost, 0);
    let listed = json(&constel(["list", "--json"]));
    let labs: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|l| &l["lab"])
        .collect();
    assert!(labs.contains(&&Value::from(two.name.as_str())), "{labs:?}");
    assert!(!labs.contains(&&Value::from(one.name.as_str())), "{labs:?}");
    assert_eq!(two.interrupt().code(), Some(130), "{}", two.stderr());
    host.assert_as_before("after two labs");
}
