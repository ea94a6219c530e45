//! Satellites that only forward, against the same satellites with stacks: the same paths, delays, losses and answers.

use crate::support;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use support::host::Host;
use support::lab::Lab;
use support::netns::loopback;
use support::probe::{Pace, Sample, one_way};
use support::route::Sky;
use support::stream::{STREAM_BYTES, stream};
use support::{constel, json, scenario, stderr, stdout};

const FROM: &str = "ross";
const TO: &str = "weddell";
const FORWARD: &str = "nodes: {satellites: {runtime: forward}}\n";
/// The time that an idle stack may take to pass a frame on, on a slow machine.
const STACK_NS: i64 = 50_000;

/// A lab's own figures, as far as they should be equal.
#[derive(Debug, PartialEq)]
struct Shown {
    /// In each family: the address at the end, and the nodes on the way.
    ways: Vec<(IpAddr, Vec<String>)>,
    /// In each family: who answers to the first, second, ... hop to live.
    answers: Vec<Vec<String>>,
    /// Pings of each family that are answered, of the far station and of a satellite.
    pings: usize,
    /// Bytes that a connection of each family carries.
    streamed: Vec<usize>,
    /// Whether a packet to a far station that is too large causes an error.
    too_large: bool,
}

fn ways(lab: &Lab) -> Vec<(IpAddr, Vec<String>)> {
    let path = json(&constel(["path", &lab.name, FROM, TO, "--json"]));
    let way = |family: &Value| {
        assert_eq!(family["arrived"], true, "{family:#}");
        let hops = family["hops"].as_array().unwrap().iter();
        let hops = hops.map(|hop| hop["to"].as_str().unwrap().to_owned());
        let address = family["address"].as_str().unwrap().parse().unwrap();
        (address, hops.collect())
    };
    path["kernel"].as_array().unwrap().iter().map(way).collect()
}

fn ping(lab: &Lab, flags: &[&str], to: &str) -> String {
    let begin = [
        "exec", &lab.name, FROM, "--", "ping", "-n", "-c", "2", "-i", "0.2", "-W", "1",
    ];
    let args = begin.into_iter().chain(flags.iter().copied()).chain([to]);
    stdout(&constel(args))
}

/// Whom a hop to live ends at, by the words of ping.
fn expired_at(said: &str) -> String {
    let from = said.lines().find_map(|line| line.strip_prefix("From "));
    let from = from.unwrap_or_else(|| panic!("nobody answers:\n{said}"));
    assert!(said.to_lowercase().contains("exceeded"), "{said}");
    let address = from.split(' ').next().unwrap_or_default();
    address.trim_end_matches(':').to_owned()
}

fn shown(lab: &Lab) -> Shown {
    let ways = ways(lab);
    assert_eq!(ways.len(), 2, "both families");
    let expired = |(to, hops): &(IpAddr, Vec<String>)| {
        let before = 1..hops.len();
        let at = |hops: usize| expired_at(&ping(lab, &["-t", &hops.to_string()], &to.to_string()));
        before.map(at).collect::<Vec<_>>()
    };
    let answers: Vec<Vec<String>> = ways.iter().map(expired).collect();
    let answered = |said: String| usize::from(said.contains(" 0% packet loss"));
    let far = ways
        .iter()
        .map(|(to, _)| answered(ping(lab, &[], &to.to_string())));
    let satellite = answers.iter().map(|way| answered(ping(lab, &[], &way[0])));
    let large = ways[0].0.to_string();
    let large = ping(lab, &["-s", "1472", "-M", "do"], &large);
    Shown {
        answers: answers.clone(),
        pings: far.sum::<usize>() + satellite.sum::<usize>(),
        streamed: ways
            .iter()
            .map(|(to, _)| stream(lab, FROM, TO, *to))
            .collect(),
        too_large: answered(large) == 0,
        ways,
    }
}

/// Measured one-way times beyond those of the plan, in order of size.
fn errors(lab: &Lab, file: &Path) -> Vec<i64> {
    let (from, to) = (lab.node(FROM), lab.node(TO));
    let clock = lab.client().clock().unwrap();
    let pace = Pace {
        count: 400,
        every: Duration::from_millis(5),
        patience: Duration::from_secs(1),
    };
    let samples = one_way((&from, loopback(&from)), (&to, loopback(&to)), 7000, pace);
    let first_ns = samples[0].sent_ns - clock.zero_mono_ns;
    let last_ns = samples[samples.len() - 1].sent_ns - clock.zero_mono_ns;
    let (first, last) = (Sky::at(file, first_ns), Sky::at(file, last_ns));
    let path = first.path(FROM, TO);
    assert_eq!(path, last.path(FROM, TO), "the path stays");
    let (begin, end) = (
        first.delay_ns(&path).unwrap(),
        last.delay_ns(&path).unwrap(),
    );
    // It glides: the straight line between both is good to some microseconds.
    let expected = |sample: &Sample| {
        let t_ns = sample.sent_ns - clock.zero_mono_ns - first_ns;
        begin + (end - begin) * t_ns / (last_ns - first_ns)
    };
    let error = |sample: &Sample| Some(sample.took_ns? - expected(sample));
    let mut errors: Vec<i64> = samples.iter().filter_map(error).collect();
    assert_eq!(errors.len(), samples.len(), "nothing is lost");
    errors.sort_unstable();
    errors
}

fn with_forwarders(file: &Path) -> PathBuf {
    let text = std::fs::read_to_string(file).unwrap();
    let name = format!("forward-{}", file.file_name().unwrap().to_str().unwrap());
    scenario::write(file.parent().unwrap(), &name, &(text + FORWARD))
}

#[test]
fn satellites_that_only_forward_are_as_those_with_stacks() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(scenario::sky(dir.path(), 120, "0 s")).unwrap();
    let text = text.replace("{mode: computed}", "{mode: computed, destinations: all}");
    let stacks = scenario::write(dir.path(), "all.yaml", &text);
    let mut seen = Vec::new();
    for file in [with_forwarders(&stacks), stacks] {
        let name = format!("stackless-{}", seen.len());
        let mut lab = Lab::up(&name, &file, dir.path(), &["--no-traffic"]);
        let errors = errors(&lab, &file);
        let at = |share: usize| errors[(errors.len() - 1) * share / 100];
        println!(
            "{name}: least {} ns, median {} ns, p90 {} ns",
            at(0),
            at(50),
            at(90)
        );
        seen.push((shown(&lab), at(0), at(50)));
        if seen.len() == 1 {
            without_a_stack(&lab, &seen[0].0.ways[0].1[0]);
        }
        lab.interrupt();
    }
    let [(forward, least_ns, median_ns), (stacks, _, with_stacks_ns)] = &seen[..] else {
        unreachable!("two labs were seen");
    };
    assert_eq!(forward, stacks);
    assert_eq!(
        (forward.pings, forward.too_large),
        (4, false),
        "{forward:?}"
    );
    assert_eq!(forward.streamed, [STREAM_BYTES; 2]);
    // Light is not overtaken; the clock's doubt is all that may be seen.
    assert!(*least_ns > -60_000, "too early by {} ns", -least_ns);
    let stacks_on_the_way = forward.ways[0].1.len() as i64 - 1;
    assert!(
        *median_ns < with_stacks_ns + STACK_NS,
        "{median_ns} ns later than the plan, and {with_stacks_ns} ns with {stacks_on_the_way} stacks on the way"
    );
    host.assert_as_before("after both labs");
}

/// A satellite without a stack refuses what it cannot do.
fn without_a_stack(lab: &Lab, satellite: &str) {
    let entered = constel(["exec", &lab.name, satellite, "--", "true"]);
    let said = stderr(&entered);
    assert_eq!(entered.status.code(), Some(2), "{said}");
    assert!(said.contains("only forwards"), "{said}");
    assert!(said.contains("set: {runtime: netns}"), "{said}");
    let routes = json(&constel(["routes", &lab.name, satellite, "--json"]));
    let rows = routes["routes"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["to"] == TO), "{routes:#}");
    let link = json(&constel([
        "link", "show", &lab.name, FROM, satellite, "--json",
    ]));
    let text = link.to_string();
    assert!(text.contains("delivered"), "{link:#}");
    // The satellite's packets: pings through it, pings of it, and pings that had lived long enough.
    let own = &link["forwarding"][0];
    assert_eq!(
        link["forwarding"].as_array().map(Vec::len),
        Some(1),
        "{link:#}"
    );
    assert_eq!(own["node"], satellite);
    let shown = json(&constel(["show", &lab.name, "--json"]));
    let of = |name: &str| {
        let nodes = shown["node_list"].as_array().unwrap().iter();
        nodes.clone().find(|node| node["name"] == name).unwrap()
    };
    for counts in [own, &of(satellite)["forwarding"]] {
        let expired = counts["dropped"]["expired"].as_u64().unwrap();
        let (answered, forwarded) = (&counts["answered"], &counts["forwarded"]);
        assert!(
            expired > 0 && answered.as_u64() > Some(expired),
            "{counts:#}"
        );
        assert!(forwarded.as_u64() > Some(0), "{counts:#}");
    }
    assert!(of(FROM).get("forwarding").is_none(), "it has a stack");
    let text = stdout(&constel(["show", &lab.name]));
    let row = text.lines().find(|line| line.starts_with(satellite));
    assert!(row.is_some_and(|row| row.contains(" expired")), "{text}");
    let text = stdout(&constel(["link", &lab.name, FROM, satellite]));
    assert!(text.contains(&format!("{satellite} forwarded ")), "{text}");
}

/// Lets every link of the path lose frames from here on, where no node sends frames of its own.
fn lose_on_the_way(lab: &Lab) {
    let (_, hops) = ways(lab).swap_remove(0);
    for node in lab.nodes() {
        let silent = || std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").unwrap();
        lab.node(&node).run(silent).unwrap();
    }
    let mut from = FROM.to_owned();
    for to in hops {
        let set = constel(["link", "set", &lab.name, &from, &to, "--loss", "2 %"]);
        assert_eq!(set.status.code(), Some(0), "{}", stderr(&set));
        from = to;
    }
}

/// Losses follow from the seed, with and without stacks.
#[test]
fn the_same_frames_are_lost() {
    let _host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let stacks = scenario::sky(dir.path(), 120, "0 s");
    let lost: Vec<Vec<usize>> = [with_forwarders(&stacks), stacks]
        .iter()
        .enumerate()
        .map(|(n, file)| {
            let name = format!("lossy-{n}");
            let mut lab = Lab::up(&name, file, dir.path(), &["--no-traffic"]);
            lose_on_the_way(&lab);
            let (from, to) = (lab.node(FROM), lab.node(TO));
            let pace = Pace {
                count: 800,
                every: Duration::from_millis(2),
                patience: Duration::from_secs(1),
            };
            let samples = one_way((&from, loopback(&from)), (&to, loopback(&to)), 7000, pace);
            lab.interrupt();
            let numbered = samples.iter().enumerate();
            let lost = numbered.filter(|(_, sample)| sample.took_ns.is_none());
            lost.map(|(number, _)| number).collect()
        })
        .collect();
    assert!(lost[0].len() > 20, "{lost:?}");
    assert_eq!(lost[0], lost[1]);
}

/// A network over a constellation that is no part of the lab: one edge takes what the hops take together.
#[test]
fn end_to_end_takes_what_hop_by_hop_takes() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let hops = scenario::sky(dir.path(), 120, "0 s");
    let text = std::fs::read_to_string(&hops).unwrap();
    let text = text
        .replace("  sat:\n", "  sat:\n    nodes: false\n")
        .replace("  stations:\n", "  hosts:\n");
    let network = "networks:
  net:
    members: [hobart, chatham, ross, weddell, michigan]
    law: {over: sat}
    link: {rate: 10 Gbit/s, queue: 256 KiB}
";
    let over = scenario::write(dir.path(), "over.yaml", &(text + network));
    let mut medians = Vec::new();
    for (name, file) in [("hops", with_forwarders(&hops)), ("over", over)] {
        let mut lab = Lab::up(name, &file, dir.path(), &["--no-traffic"]);
        let shown = json(&constel(["show", &lab.name, "--json"]));
        assert_eq!(shown["nodes"], if name == "over" { 5 } else { 29 });
        // Both against the plan of the hops.
        let errors = errors(&lab, &hops);
        println!("{name}: {} to {} ns", errors[0], errors[errors.len() / 2]);
        assert!(errors[0] > -60_000, "too early by {} ns", -errors[0]);
        medians.push(errors[errors.len() / 2]);
        lab.interrupt();
    }
    let [hop_by_hop_ns, end_to_end_ns] = medians[..] else {
        unreachable!("two labs were measured");
    };
    assert!(
        end_to_end_ns < hop_by_hop_ns + STACK_NS,
        "{end_to_end_ns} ns later than the plan, and {hop_by_hop_ns} ns hop by hop"
    );
    host.assert_as_before("after both labs");
}
