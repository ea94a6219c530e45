//! Boxes of several interfaces: pairs, a hub, a router; and an interface of the machine as a host of a lab.

use crate::support;

use std::fs::{self, File};
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use constel_host::NetNs;
use constel_host::claim::LabState;
use constel_host::netlink::{Batch, Mac, Socket, VethEnd};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use support::host::{Host, LABS};
use support::lab::state_of;
use support::scenario::write;
use support::{CONSTEL, constel, finish, stderr, stdout, until, wait};

/// Runs a scenario that is a box to its end.
fn run_box(dir: &Path, name: &str, text: &str) -> Output {
    let name = format!("{LABS}{name}");
    let file = write(dir, &format!("{name}.yaml"), text);
    let mut command = Command::new(CONSTEL);
    command.arg("run").arg(&file).args(["--name", &name]);
    command.arg("--results").arg(dir.join(&name));
    finish(command)
}

/// The output of a ping of a box.
fn said(dir: &Path, name: &str, flow: &str) -> String {
    fs::read_to_string(dir.join(format!("{LABS}{name}/flows/{flow}.out"))).unwrap()
}

/// Round trips of a ping, ms.
fn round_trips(text: &str) -> Vec<f64> {
    let times = text.split("time=").skip(1);
    times
        .map(|rest| rest.split(' ').next().unwrap().parse().unwrap())
        .collect()
}

fn rules_json(dir: &Path, name: &str) -> Value {
    let text = fs::read(dir.join(format!("{LABS}{name}/rules.json"))).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn ping(flow: &str, at_s: u32, from: &str, arguments: &str) -> String {
    format!(
        "- {{name: {flow}, at: {at_s} s, for: 8 s, run: {{node: {from}, command: [ping, -n, {arguments}]}}}}\n"
    )
}

#[test]
fn a_hub_joins_machines_and_rules_say_which_way_is_forward() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let mut text = "constel: 1
name: hub
duration: 16 s
box:
  hub: true
  machines:
  - {name: a, addresses: [10.30.0.1/24]}
  - {name: b, addresses: [10.30.0.2/24]}
  - {name: c, addresses: [10.30.0.3/24]}
  rules:
  - {name: ab, match: {src: 10.30.0.1, dst: 10.30.0.2}, forward: {delay: 30 ms}, reverse: {delay: 10 ms}}
  - {name: ca, match: {src: 10.30.0.3, dst: 10.30.0.1}, reverse: {delay: 50 ms}}
traffic:
"
    .to_owned();
    text += &ping("ab", 0, "a", "-c, '20', -i, '0.1', 10.30.0.2");
    text += &ping("bc", 0, "b", "-c, '5', -i, '0.1', 10.30.0.3");
    text += &ping("ac", 6, "a", "-c, '5', -i, '0.1', 10.30.0.3");
    let output = run_box(dir.path(), "hub", &text);
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        stderr(&output)
    );
    let least = |flow: &str, count: usize| {
        let times = round_trips(&said(dir.path(), "hub", flow));
        assert_eq!(times.len(), count, "{flow}: {times:?}");
        times.into_iter().fold(f64::MAX, f64::min)
    };
    // Rules act in both directions, for each sender; frames under no rule have no delay.
    let ab = least("ab", 20);
    assert!((40.0..45.0).contains(&ab), "{ab}");
    let bc = least("bc", 5);
    assert!(bc < 5.0, "{bc}");
    let ac = least("ac", 5);
    assert!((50.0..55.0).contains(&ac), "{ac}");
    let shown = rules_json(dir.path(), "hub");
    let ways = |rule: usize| &shown["rules"][rule]["directions"];
    assert_eq!(ways(0)["forward"]["frames"], 20);
    assert_eq!(ways(0)["reverse"]["frames"], 20);
    assert_eq!(ways(1)["reverse"]["frames"], 5);
    // A known node gets its own frames, and no other node does: c had 10 echoes, and broadcast requests.
    let to_c = shown["interfaces"][2]["sent"].as_u64().unwrap();
    assert!((10..24).contains(&to_c), "{to_c}");
    host.assert_as_before("after the hub");
}

#[test]
fn pairs_are_cables_of_their_own() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    // Addresses are used twice: no frame strays.
    let mut text = "constel: 1
name: pairs
duration: 8 s
box:
  machines:
  - {name: a, addresses: [10.31.0.1/24]}
  - {name: b, addresses: [10.31.0.2/24]}
  - {name: c, addresses: [10.31.0.1/24]}
  - {name: d, addresses: [10.31.0.2/24]}
  rules:
  - {name: echo, match: {protocol: icmp, dst: 10.31.0.2}, forward: {delay: 15 ms}}
traffic:
"
    .to_owned();
    text += &ping("ab", 0, "a", "-c, '5', -i, '0.1', 10.31.0.2");
    text += &ping("cd", 0, "c", "-c, '5', -i, '0.1', 10.31.0.2").replace("for: 8", "for: 7");
    let output = run_box(dir.path(), "pairs", &text);
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        stderr(&output)
    );
    for flow in ["ab", "cd"] {
        let text = said(dir.path(), "pairs", flow);
        let times = round_trips(&text);
        assert!(times.len() == 5 && !text.contains("DUP"), "{text}");
        assert!(times.iter().all(|ms| *ms >= 15.0), "{text}");
    }
    let shown = rules_json(dir.path(), "pairs");
    assert_eq!(shown["rules"][0]["directions"]["forward"]["frames"], 10);
    host.assert_as_before("after the pairs");
}

#[test]
fn a_router_answers_forwards_and_counts_hops() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let mut text = "constel: 1
name: router
duration: 12 s
box:
  machines:
  - {name: a, addresses: [10.41.0.1/24, 'fd41::1/64'], gateways: [10.41.0.254, 'fd41::fe']}
  - {name: b, addresses: [10.42.0.1/24, 'fd42::1/64'], gateways: [10.42.0.254, 'fd42::fe']}
  router:
    ports:
    - {at: a, addresses: [10.41.0.254/24, 'fd41::fe/64']}
    - {at: b, addresses: [10.42.0.254/24, 'fd42::fe/64']}
  rules:
  - {name: all, forward: {delay: 30 ms}, reverse: {delay: 10 ms}}
traffic:
"
    .to_owned();
    text += &ping("through", 0, "a", "-c, '10', -i, '0.1', 10.42.0.1");
    text += &ping("through6", 0, "a", "-c, '10', -i, '0.1', 'fd42::1'");
    text += &ping("itself", 0, "a", "-c, '5', -i, '0.1', 10.41.0.254");
    text += &ping("one-hop", 0, "b", "-c, '3', -i, '0.1', -t, '1', 10.41.0.1");
    let output = run_box(dir.path(), "router", &text);
    // A ping without an answer ends with 1.
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    for flow in ["through", "through6"] {
        let text = said(dir.path(), "router", flow);
        let times = round_trips(&text);
        assert_eq!(times.len(), 10, "{text}");
        assert!(times.iter().all(|ms| *ms >= 40.0), "{text}");
        assert!(text.contains("ttl=63"), "a hop less: {text}");
    }
    // Frames of the router itself pass no rules, which would take 40 ms. A slow host may hold up some answers.
    let itself = said(dir.path(), "router", "itself");
    let times = round_trips(&itself);
    assert!(
        times.len() == 5
            && times.iter().filter(|ms| **ms < 10.0).count() >= 3
            && itself.contains("ttl=64"),
        "{itself}"
    );
    let one_hop = said(dir.path(), "router", "one-hop");
    assert!(
        one_hop.contains("10.42.0.254") && one_hop.contains("Time to live exceeded"),
        "{one_hop}"
    );
    let shown = rules_json(dir.path(), "router");
    let ways = &shown["rules"][0]["directions"];
    assert_eq!(ways["forward"]["frames"], 20, "requests: {ways}");
    assert_eq!(ways["reverse"]["frames"], 20, "answers: {ways}");
    host.assert_as_before("after the router");
}

#[test]
fn super_frames_of_udp_pass_datagram_by_datagram_and_rules_may_name_interfaces() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let sends = "import socket, sys; s = socket.socket(int(sys.argv[2]), 2); s.setsockopt(17, 103, 1000); \
                 s.sendto(b''.join(bytes([n]) * 1000 for n in range(40)) + b'end', (sys.argv[1], 9000))";
    let hears = "import socket, sys; s = socket.socket(int(sys.argv[2]), 2); s.bind((sys.argv[1], 9000)); s.settimeout(6); \
                 all = [s.recv(2000) for n in range(41)]; \
                 print([len(x) for x in all] == [1000] * 40 + [3], b''.join(all) == b''.join(bytes([n]) * 1000 for n in range(40)) + b'end')";
    let text = format!(
        "constel: 1
name: udp
duration: 10 s
box:
  hub: true
  machines:
  - {{name: a, addresses: [10.32.0.1/24, 'fd32::1/64']}}
  - {{name: b, addresses: [10.32.0.2/24, 'fd32::2/64']}}
  - {{name: c, addresses: [10.32.0.3/24]}}
  rules:
  - {{name: from-a, match: {{in: a, out: b, protocol: udp}}, forward: {{delay: 20 ms}}}}
  - {{name: at-c, match: {{in: c, protocol: icmp}}, both: {{delay: 15 ms}}}}
traffic:
- {{name: four, at: 1 s, for: 8 s, run: {{node: b, command: [python3, -c, \"{hears}\", 10.32.0.2, '2']}}}}
- {{name: six, at: 1 s, for: 8 s, run: {{node: b, command: [python3, -c, \"{hears}\", 'fd32::2', '10']}}}}
- {{name: say4, at: 3 s, for: 5 s, run: {{node: a, command: [python3, -c, \"{sends}\", 10.32.0.2, '2']}}}}
- {{name: say6, at: 3 s, for: 5 s, run: {{node: a, command: [python3, -c, \"{sends}\", 'fd32::2', '10']}}}}
{}",
        ping("ca", 0, "c", "-c, '5', -i, '0.1', 10.32.0.1")
    );
    let output = run_box(dir.path(), "udp", &text);
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        stderr(&output)
    );
    for flow in ["four", "six"] {
        assert_eq!(said(dir.path(), "udp", flow).trim(), "True True", "{flow}");
    }
    let shown = rules_json(dir.path(), "udp");
    let way = |rule: usize, way: &str| shown["rules"][rule]["directions"][way].clone();
    let from_a = way(0, "forward");
    // Duplicate address detection and the like are not of UDP.
    assert_eq!(from_a["frames"], 82, "{from_a}");
    let ns = |of: &Value, what: &str| of[what]["p50_ns"].as_u64().unwrap();
    assert_eq!(from_a["inside"]["count"], 82);
    assert!((20_000_000..40_000_000).contains(&ns(&from_a, "inside")));
    assert_eq!(from_a["lateness"]["count"], 82);
    assert!(ns(&from_a, "lateness") < 10_000_000, "{from_a}");
    // c asks, and what is for c goes out there.
    assert_eq!(way(1, "forward")["frames"], 5);
    assert_eq!(way(1, "reverse")["frames"], 5);
    let asked = round_trips(&said(dir.path(), "udp", "ca"));
    assert!(asked.len() == 5 && asked.iter().all(|ms| *ms >= 30.0));
    host.assert_as_before("after super-frames of UDP");
}

#[test]
fn interfaces_that_cannot_be_joined_so_are_refused() {
    let code = |args: &[&str]| {
        let output = constel([&["box"], args].concat());
        (output.status.code(), stderr(&output))
    };
    let (status, said) = code(&["x1", "x2", "x3"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("one is left over"), "{said}");
    let (status, said) = code(&["x1", "x2", "--address", "x1=10.0.0.1/24"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("none at x2"), "{said}");
    let (status, said) = code(&["x1", "x2", "--address", "x1=10.0.0.1"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("length of its network"), "{said}");
    let dir = tempfile::tempdir().unwrap();
    let rules = write(
        dir.path(),
        "rules.yaml",
        "rules: [{match: {in: x1, out: [x2, x9]}, both: drop}]\n",
    );
    let (status, said) = code(&["x1", "x2", "--rules", rules.to_str().unwrap()]);
    assert_eq!(status, Some(5), "{said}");
    let why = "rule `rule-1`: `out: x9` takes nothing: the box is between x1, x2";
    assert!(said.contains(why), "{said}");
}

/// A machine's end of a cable, and the host that has the other as `wa`.
struct Plugged {
    outside: NetNs,
    device: NetNs,
}

impl Plugged {
    fn lay() -> Plugged {
        let [outside, device] = [(); 2].map(|()| NetNs::new().unwrap());
        let near = VethEnd {
            name: "wa",
            ifindex: Some(70),
            up: true,
            ..VethEnd::default()
        };
        let far = VethEnd {
            name: "eth0",
            netns: Some(device.fd()),
            ifindex: Some(80),
            mac: Some(Mac([2, 0xde, 0, 0, 0, 1])),
            ..VethEnd::default()
        };
        let mut batch = Batch::new();
        batch.create_veth(&near, &far).unwrap();
        Socket::open_in(&outside).unwrap().send(&mut batch).unwrap();
        let mut batch = Batch::new();
        batch.link_up(1).link_up(80);
        Socket::open_in(&device).unwrap().send(&mut batch).unwrap();
        Plugged { outside, device }
    }

    /// A command in the device.
    fn device(&self, words: &str) -> Output {
        let mut words = words.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        self.device.run(move || finish(command)).unwrap()
    }
}

/// A lab that runs where the cable's end is.
struct Attached {
    name: String,
    child: Child,
}

impl Attached {
    fn up(plugged: &Plugged, dir: &Path, name: &str, text: &str) -> Attached {
        let name = format!("{LABS}{name}");
        let file = write(dir, &format!("{name}.yaml"), text);
        let mut command = Command::new(CONSTEL);
        command.arg("run").arg(&file).args(["--name", &name]);
        command.arg("--results").arg(dir.join(&name));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(dir.join(format!("{name}.stderr"))).unwrap());
        let child = plugged
            .outside
            .run(move || command.spawn().unwrap())
            .unwrap();
        let mut lab = Attached { name, child };
        until("the lab runs", || {
            if let Some(status) = lab.child.try_wait().unwrap() {
                let said = fs::read_to_string(dir.join(format!("{}.stderr", lab.name)));
                panic!("it ended: {status}\n{}", said.unwrap());
            }
            (state_of(&lab.name) == Some(LabState::Running)).then_some(())
        });
        lab
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM);
            wait(&mut self.child);
        }
        drop(constel(["clean", &self.name]));
    }
}

const SKY: &str = "constel: 1
name: attached
seed: 3
start: 2026-11-21T00:00:00Z
duration: 120 s
step: 1 s
constellations:
  sat:
    walker: {pattern: delta, inclination: 60 deg, satellites: 24, planes: 4, phasing: 1, altitude: 1400 km}
    isl: {pattern: plus-grid, link: {rate: 10 Gbit/s, queue: 256 KiB}}
    gsl: {min_elevation: 5 deg, policy: nearest, link: {rate: 10 Gbit/s, queue: 256 KiB}}
ground:
  stations:
    west: {latitude: -48 deg, longitude: 148 deg}
    east: {latitude: -42 deg, longitude: -124 deg}
  hosts:
    phone: {latitude: -48 deg, longitude: 148 deg, attach: wa}
  cables:
  - {from: phone, to: west, delay: 5 ms, link: {rate: 100 Mbit/s}}
routing: {mode: computed}
";

/// The word behind another in a text.
fn behind<'t>(text: &'t str, word: &str) -> &'t str {
    let rest = text
        .split(word)
        .nth(1)
        .unwrap_or_else(|| panic!("{word} in {text}"));
    rest.split_whitespace()
        .next()
        .unwrap()
        .trim_end_matches(',')
}

#[test]
fn what_is_plugged_into_an_interface_speaks_through_the_constellation() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let plugged = Plugged::lay();
    let links = || {
        let links = Socket::open_in(&plugged.outside).unwrap().links().unwrap();
        format!("{links:?}")
    };
    let before = links();
    let mut lab = Attached::up(&plugged, dir.path(), "attach", SKY);
    let said = fs::read_to_string(dir.path().join(format!("{}.stderr", lab.name))).unwrap();
    let line = said.lines().find(|line| line.contains("plugged into wa"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    let (own, link) = (behind(line, "it answers at "), behind(line, "and has "));
    let own_address: Ipv4Addr = own.parse().unwrap();
    let gateway = behind(line, "gateway ");
    for words in [
        format!("ip address add {link} dev eth0"),
        format!("ip address add {own}/32 dev eth0"),
        format!("ip route add default via {gateway} src {own}"),
    ] {
        let output = plugged.device(&words);
        assert!(output.status.success(), "{words}: {}", stderr(&output));
    }
    let east = constel([
        "exec", &lab.name, "east", "--", "ip", "-4", "-o", "address", "show", "dev", "lo", "scope",
        "global",
    ]);
    let east = stdout(&east);
    let east = behind(&east, "inet ").split('/').next().unwrap();
    // From outside, through the sky: at least the light's way over 7,000 km, and the cable.
    let output = plugged.device(&format!("ping -n -c 10 -i 0.1 {east}"));
    let times = round_trips(&stdout(&output));
    assert_eq!(times.len(), 10, "{}{line}", stdout(&output));
    assert!(times.iter().all(|ms| *ms > 60.0), "{times:?}");
    // And from inside: the station has no entry for the device's Ethernet address.
    let output = constel([
        "exec", &lab.name, "east", "--", "ping", "-4", "-n", "-c", "5", "-i", "0.1", "phone",
    ]);
    assert_eq!(
        round_trips(&stdout(&output)).len(),
        5,
        "{}",
        stdout(&output)
    );
    // TCP, too: frame by frame, and whole.
    let listener = plugged.device.run(|| TcpListener::bind((own_address, 9)));
    let listener = listener.unwrap().unwrap();
    let mut send = Command::new(CONSTEL);
    let line = format!("head -c 2000000 /dev/zero > /dev/tcp/{own}/9");
    send.args(["exec", &lab.name, "east", "--", "bash", "-c", &line]);
    let mut send = send.stdin(Stdio::null()).spawn().unwrap();
    listener.set_nonblocking(true).unwrap();
    let accepted = || listener.accept().ok();
    let (mut stream, _) = until("it connects", accepted);
    stream.set_nonblocking(false).unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), 2_000_000);
    wait(&mut send);
    rustix::process::kill_process(Pid::from_child(&lab.child), Signal::KILL).unwrap();
    wait(&mut lab.child);
    drop(constel(["clean", &lab.name]));
    assert_eq!(links(), before, "the interface is as it was");
    drop(lab);
    drop(plugged);
    host.assert_as_before("after the attached lab");
}

#[test]
fn what_is_plugged_in_can_be_a_satellites_payload() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let plugged = Plugged::lay();
    // The network that its cable was: with the satellite now.
    let cable = SKY.find("  cables:").unwrap();
    let sky = SKY[..cable].to_owned()
        + "networks:
  bus:
    members: [sat-p00-s04, phone]
    law: {range: 20000 km}
    link: {rate: 100 Mbit/s}
routing: {mode: computed}
";
    let mut lab = Attached::up(&plugged, dir.path(), "payload", &sky);
    let said = fs::read_to_string(dir.path().join(format!("{}.stderr", lab.name))).unwrap();
    let line = said.lines().find(|line| line.contains("plugged into wa"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    let (own, link) = (behind(line, "it answers at "), behind(line, "and has "));
    // A network has no one gateway: the test reads the satellite's address there.
    let network: Ipv4Addr = link.split('/').next().unwrap().parse().unwrap();
    let there = constel([
        "exec",
        &lab.name,
        "sat-p00-s04",
        "--",
        "ip",
        "-4",
        "-o",
        "address",
        "show",
        "to",
        &format!("{network}/24"),
    ]);
    let there = stdout(&there);
    let gateway = behind(&there, "inet ").split('/').next().unwrap();
    for words in [
        format!("ip address add {link} dev eth0"),
        format!("ip address add {own}/32 dev eth0"),
        format!("ip route add default via {gateway} src {own}"),
    ] {
        let output = plugged.device(&words);
        assert!(output.status.success(), "{words}: {}", stderr(&output));
    }
    // To the satellite itself, and by its lasers to a station at the far end of the world.
    for far in ["sat-p00-s04", "east"] {
        let there = constel([
            "exec", &lab.name, far, "--", "ip", "-4", "-o", "address", "show", "dev", "lo",
            "scope", "global",
        ]);
        let there = stdout(&there);
        let there = behind(&there, "inet ").split('/').next().unwrap();
        let output = plugged.device(&format!("ping -n -c 5 -i 0.1 {there}"));
        let times = round_trips(&stdout(&output));
        assert_eq!(times.len(), 5, "{far}: {}{line}", stdout(&output));
        let back = constel([
            "exec", &lab.name, far, "--", "ping", "-4", "-n", "-c", "5", "-i", "0.1", "phone",
        ]);
        assert_eq!(
            round_trips(&stdout(&back)).len(),
            5,
            "{far}: {}",
            stdout(&back)
        );
    }
    rustix::process::kill_process(Pid::from_child(&lab.child), Signal::TERM).unwrap();
    wait(&mut lab.child);
    drop(lab);
    drop(plugged);
    host.assert_as_before("after the attached lab");
}
