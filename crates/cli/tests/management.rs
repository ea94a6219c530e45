//! Ports of management: this machine and nodes reach each other beside the emulated network, and no other path uses them. Needs root.

use crate::support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use constel_host::netlink::Socket;
use serde_json::Value;
use support::host::Host;
use support::lab::Lab;
use support::{CONSTEL, constel, finish, json, scenario, stdout};

/// Two craft that are managed, and a third that reaches them by its radio alone.
const TEXT: &str = "constel: 1
name: managed
start: 2026-11-21T00:00:00Z
duration: 120 s
ground: {hosts: {craft: {count: 3, latitude: 0 deg, longitude: 0 deg}}}
networks:
  radio: {members: [craft-*], medium: switched}
  ground: {members: [craft-0, craft-1], away: [craft-1], medium: switched, management: true}
routing: {mode: computed, metric: hops}
";

const PATIENCE: Duration = Duration::from_secs(5);

fn succeeds(lab: &Lab, node: &str, words: &str) -> bool {
    let words = ["exec", &lab.name, node, "--"]
        .into_iter()
        .chain(words.split(' '));
    constel(words).status.success()
}

fn shown(lab: &Lab) -> Value {
    json(&constel(["show", &lab.name, "--json"]))
}

fn address(shown: &Value, node: usize) -> Ipv4Addr {
    let text = shown["node_list"][node]["management"].as_str().unwrap();
    text.parse().unwrap()
}

/// The machine's address and interface, and the bridge's address, which follows it.
fn machine(shown: &Value) -> (Ipv4Addr, String, Ipv4Addr) {
    let own = &shown["management"];
    let host: Ipv4Addr = own["host"].as_str().unwrap().parse().unwrap();
    let interface = own["interface"].as_str().unwrap().to_owned();
    (host, interface, (u32::from(host) + 1).into())
}

/// An address of this machine that has nothing to do with labs, on a bridge that a process of its own holds: it removes the bridge when
/// its input ends, so that a killed test leaves none.
struct Elsewhere(Child);

impl Elsewhere {
    fn make(address: &str) -> Elsewhere {
        let name = format!("cmt{}", std::process::id());
        let script = format!(
            "ip link add {name} type bridge && ip addr add {address}/32 dev {name} && ip link set {name} up && echo made
             cat; ip link delete {name}"
        );
        // A signal to the test's process group does not reach this.
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let output = child.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut said).unwrap();
        let made = Elsewhere(child);
        assert_eq!(said, "made\n");
        made
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        drop(self.0.wait());
    }
}

/// Not in the block of the other test, which runs beside this one.
const ADDRESS: &str = "203.0.113.77";

#[test]
fn the_machine_and_nodes_reach_each_other_and_nobody_else() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::write(dir.path(), "managed.yaml", TEXT);
    let mut one = Lab::up("managed-one", &file, dir.path(), &[]);
    let mut two = Lab::up("managed-two", &file, dir.path(), &[]);
    for lab in [&one, &two] {
        let shown = shown(lab);
        let (own, interface, bridge) = machine(&shown);
        assert!(interface.len() <= 15, "{interface}");
        let link = Socket::open()
            .unwrap()
            .link_named(&interface)
            .unwrap()
            .unwrap();
        assert_eq!(link.alias, Some(format!("constel lab={}", lab.name)));
        assert_eq!(
            shown["node_list"][2]["management"],
            Value::Null,
            "it is no member"
        );

        // A command to one that is away from its network, and its answer.
        let node = lab.node("craft-1");
        let server = node
            .run(|| TcpListener::bind("0.0.0.0:0").unwrap())
            .unwrap();
        let port = server.local_addr().unwrap().port();
        let to = (IpAddr::from(address(&shown, 1)), port).into();
        let mut asking = TcpStream::connect_timeout(&to, PATIENCE).unwrap();
        asking.set_read_timeout(Some(PATIENCE)).unwrap();
        let (mut answering, from) = server.accept().unwrap();
        assert_eq!(from.ip(), own, "and no other address of this machine");
        answering.write_all(b"here").unwrap();
        drop(answering);
        let mut said = String::new();
        asking.read_to_string(&mut said).unwrap();
        assert_eq!(said, "here");

        // Telemetry from another.
        let listening = UdpSocket::bind((own, 0)).unwrap();
        listening.set_read_timeout(Some(PATIENCE)).unwrap();
        let to = listening.local_addr().unwrap();
        let node = lab.node("craft-0");
        let send = || {
            UdpSocket::bind("0.0.0.0:0")
                .unwrap()
                .send_to(b"alive", to)
                .unwrap()
        };
        node.run(send).unwrap();
        let mut heard = [0; 16];
        let (length, from) = listening.recv_from(&mut heard).unwrap();
        assert_eq!(&heard[..length], b"alive");
        assert_eq!(from.ip(), address(&shown, 0));
        let by_name = "ping -c 1 -W 5 host.management";
        assert!(succeeds(lab, "craft-0", by_name));

        // It is no way to the other member, even by the bridge; nor to what else this machine has.
        let _elsewhere = Elsewhere::make(ADDRESS);
        let other = address(&shown, 1);
        for to in [other.to_string(), ADDRESS.to_owned()] {
            let ping = format!("ping -c 1 -W 1 {to}");
            assert!(
                !succeeds(lab, "craft-0", &format!("ping -c 1 -W 1 -I mgmt0 {to}")),
                "{to}"
            );
            let way = format!("ip route add {to} via {bridge} dev mgmt0 onlink");
            assert!(succeeds(lab, "craft-0", &way));
            assert!(!succeeds(lab, "craft-0", &ping), "{to}");
        }

        // Nor one through a member, for those who have only the radio; nor is it in anybody's routes.
        assert!(
            succeeds(lab, "craft-2", "ping -4 -c 1 -W 5 craft-0"),
            "by the radio"
        );
        let routes = json(&constel(["routes", &lab.name, "craft-2", "--json"]));
        let hop = &routes["routes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|r| r["to"] == "craft-0");
        let hop = hop.unwrap()["hops"][0]["gateway"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(succeeds(
            lab,
            "craft-2",
            &format!("ip route add {own} via {hop}")
        ));
        assert!(!succeeds(lab, "craft-2", &format!("ping -c 1 -W 1 {own}")));
        let routes = stdout(&constel(["routes", &lab.name, "craft-1"]));
        assert!(!routes.contains("10.112."), "{routes}");
    }
    let (first, second) = (shown(&one), shown(&two));
    assert_ne!(
        first["management"]["subnet"],
        second["management"]["subnet"]
    );

    two.kill9();
    assert!(constel(["clean", &two.name]).status.success());
    let at_first = address(&first, 1).to_string();
    let ping = Command::new("ping")
        .args(["-c", "1", "-W", "5", &at_first])
        .output();
    assert!(ping.unwrap().status.success(), "the other lab has its own");
    one.interrupt();
    host.assert_as_before("one was taken down, the other killed");
}

#[test]
fn what_the_machine_has_a_way_to_already_is_left_to_it() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let text = format!("{TEXT}addresses: {{management: 198.51.100.0/24}}\n");
    let file = scenario::write(dir.path(), "managed.yaml", &text);
    {
        let _elsewhere = Elsewhere::make("198.51.100.77");
        let mut lab = Lab::start("managed-late", &file, dir.path(), &[]);
        assert_eq!(lab.ended().code(), Some(5));
        let said = lab.stderr();
        assert!(said.contains("198.51.100.77/32"), "{said}");
        assert!(said.contains("addresses.management"), "{said}");
    }
    let mut lab = Lab::up("managed-now", &file, dir.path(), &[]);
    let shown = shown(&lab);
    assert_eq!(shown["management"]["subnet"], "198.51.100.0/24");
    lab.interrupt();
    host.assert_as_before("it was interrupted");
}

/// Runs `constel` in a network namespace of its own, so that no rule touches the host's firewall.
fn behind(rules: &str, words: &[&str]) -> Output {
    let script = format!("ip link set lo up\n{rules}\nexec \"$0\" \"$@\"");
    let mut command = Command::new("unshare");
    command
        .args(["--net", "sh", "-ec", &script, CONSTEL])
        .args(words);
    finish(command)
}

fn has_iptables(which: &str) -> bool {
    let version = Command::new(which).arg("-V").output();
    version.is_ok_and(|done| done.status.success())
}

/// Rules that drop packets of management: the words about the direction, and the chain with the reason.
const RULES: [(&str, &str, &str); 4] = [
    (
        "iptables -A INPUT -i cst-+ -j DROP",
        "between this machine and nodes",
        "chain INPUT (handle ",
    ),
    (
        "iptables -A OUTPUT -o cst-+ -j REJECT",
        "between this machine and nodes",
        "chain OUTPUT (handle ",
    ),
    // A hardened host: its own connections pass, and nodes' telemetry does not.
    (
        "iptables -A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT\niptables -P INPUT DROP",
        "from nodes to this machine",
        "chain INPUT (policy drop)",
    ),
    (
        "iptables -N mine\niptables -A mine -j DROP\niptables -A INPUT -i cst-+ -j mine",
        "between this machine and nodes",
        " of chain mine)",
    ),
];

#[test]
fn doctor_and_check_report_a_firewall_that_drops_management() {
    if !has_iptables("iptables") {
        return support::skip("this machine lacks iptables");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::write(dir.path(), "managed.yaml", TEXT);
    let file = file.to_str().unwrap();
    let reaches = |rules: &str, words: &[&str]| -> Value {
        let output = behind(rules, words);
        let found: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", support::stderr(&output)));
        let items = found["items"].as_array().into_iter().flatten();
        let named = |item: &&Value| item["name"] == "management from this machine";
        let item = items.clone().find(named);
        item.unwrap_or(&found["management"]).clone()
    };
    let check = ["check", "--here", "--json", file];
    assert_eq!(reaches("", &["doctor", "--json"])["ok"], true);
    assert_eq!(reaches("", &check)["ok"], true);
    for (rules, between, chain) in RULES {
        let item = reaches(rules, &check);
        assert_eq!(item["ok"], false, "{rules}: {item}");
        let detail = item["detail"].as_str().unwrap();
        assert!(detail.contains(between), "{rules}: {item}");
        let is_legacy = detail.contains("iptables-legacy");
        assert!(is_legacy || detail.contains(chain), "{rules}: {item}");
        let remedy = item["remedy"].as_str().unwrap();
        assert!(remedy.contains("cst-"), "{rules}: {item}");
    }
    let item = reaches(RULES[0].0, &["doctor", "--json"]);
    assert_eq!(item["ok"], false, "{item}");
    // A firewall that has the exception which the remedy names.
    let item = reaches(
        "iptables -A INPUT -i cst-+ -j ACCEPT
iptables -P INPUT DROP
iptables -A OUTPUT -o cst-+ -j ACCEPT
iptables -P OUTPUT DROP",
        &check,
    );
    assert_eq!(item["ok"], true, "{item}");
}

#[test]
fn run_reports_a_firewall_that_drops_management() {
    if !has_iptables("iptables") {
        return support::skip("this machine lacks iptables");
    }
    let dir = tempfile::tempdir().unwrap();
    let name = format!("managed-wall-{}", std::process::id());
    let text = TEXT.replace("duration: 120 s", "duration: 1 s");
    let file = scenario::write(dir.path(), "managed.yaml", &text);
    let run = |rules: &str, results: &str| {
        let results = dir.path().join(results);
        let (file, results) = (file.to_str().unwrap(), results.to_str().unwrap());
        let words = ["run", file, "--name", &name, "--results", results];
        support::stderr(&behind(rules, &words))
    };
    let (rules, between, _) = RULES[2];
    let told = run(rules, "input");
    assert!(
        told.contains("warning: `management` does not work"),
        "{told}"
    );
    assert!(told.contains(between) && told.contains("INPUT"), "{told}");
    // A firewall that drops what is forwarded concerns no lab.
    let told = run("iptables -P FORWARD DROP", "forward");
    assert!(!told.contains("does not work"), "{told}");
}

/// A program's changes to the port of management are reported and undone as those to other ports: it is gone, renamed, or has lost its
/// address, route or rule.
#[test]
fn a_port_of_management_comes_back() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::write(dir.path(), "managed.yaml", TEXT);
    let mut lab = Lab::up("managed-back", &file, dir.path(), &[]);
    let shown = shown(&lab);
    let own = address(&shown, 0);
    for (attack, words) in [
        ("ip link del mgmt0", "mgmt0 is gone"),
        ("ip link set mgmt0 name other", "mgmt0 is called other"),
        ("ip addr flush dev mgmt0", "mgmt0 has lost"),
        (
            "ip route flush table 7000",
            "the route for management is lost",
        ),
        ("ip rule del pref 100", "the rule of management is lost"),
    ] {
        assert!(succeeds(&lab, "craft-0", attack), "{attack}");
        support::until(attack, || {
            let events = std::fs::read_to_string(lab.results.join("events.ndjson")).unwrap();
            let ping = ["-c", "1", "-W", "1", &own.to_string()];
            let sent = Command::new("ping")
                .args(ping)
                .stdout(Stdio::null())
                .status();
            let state = ["-4", "-o", "addr", "show", "dev", "mgmt0"];
            let inside =
                constel([&["exec", &lab.name, "craft-0", "--", "ip"], &state[..]].concat());
            let back = sent.unwrap().success() && stdout(&inside).contains(&own.to_string());
            (back && events.contains(words)).then_some(())
        });
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("managed back");
}
