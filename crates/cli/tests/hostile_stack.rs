//! A node may do anything to its own network stack: it is named, Constel's settings are restored, and no other node notices.
//! `docs/reference/own-stack.md` has the same table. Needs root.

use crate::support;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use constel_host::netlink::{InstalledRoute, ROUTE_PROTOCOL, Socket};
use serde_json::Value;
use support::container::events;
use support::host::Host;
use support::lab::Lab;
use support::netns::loopback;
use support::{constel, finish, scenario, stderr, until};

/// Five seconds is the longest pause between two looks at a node that changes its stack again and again.
const RESTORED_WITHIN: Duration = Duration::from_secs(30);

/// Node `a` reaches `b` by `r1`, and by `r2` over a longer way; `c` reaches it by `r1` too.
fn diamond(dir: &Path, duration_s: u32, more: &str) -> PathBuf {
    diamond_over("relay", dir, duration_s, more)
}

fn diamond_over(driver: &str, dir: &Path, duration_s: u32, more: &str) -> PathBuf {
    let text = format!(
        "constel: 1
name: own-stack
start: 2026-11-21T00:00:00Z
duration: {duration_s} s
step: 1 s
ground:
  hosts:
    a: {{latitude: 0 deg, longitude: 0 deg}}
    r1: {{latitude: 0 deg, longitude: 0 deg}}
    r2: {{latitude: 0 deg, longitude: 0 deg}}
    b: {{latitude: 0 deg, longitude: 0 deg}}
    c: {{latitude: 0 deg, longitude: 0 deg}}
  cables:
  - {{from: a, to: r1, delay: 5 ms, link: {{rate: 100 Mbit/s}}}}
  - {{from: r1, to: b, delay: 5 ms, link: {{rate: 100 Mbit/s}}}}
  - {{from: a, to: r2, delay: 20 ms, link: {{rate: 100 Mbit/s}}}}
  - {{from: r2, to: b, delay: 20 ms, link: {{rate: 100 Mbit/s}}}}
  - {{from: c, to: r1, delay: 5 ms, link: {{rate: 100 Mbit/s}}}}
routing: {{mode: computed, destinations: all}}
links: {{driver: {driver}, max_lateness: 10 ms}}
{more}"
    );
    scenario::write(dir, "own-stack.yaml", &text)
}

fn sh(lab: &Lab, node: &str, command: &str) -> bool {
    let output = constel(["exec", &lab.name, node, "--", "sh", "-c", command]);
    output.status.success()
}

/// Settings of Constel in a node, as far as its kernel shows them now.
fn set_up(lab: &Lab, node: &str) -> String {
    let ns = lab.node(node);
    let mut socket = Socket::open_in(&ns).unwrap();
    let (Ok(mut stack), Ok(mut routes)) = (socket.stack(), socket.routes()) else {
        // It changes too fast to be read.
        return String::new();
    };
    stack.add_filters(&ns).unwrap();
    let mut text = String::new();
    stack.links.sort();
    for link in &stack.links {
        let (name, mac, mtu) = (&link.name, link.mac, link.mtu);
        let flags = (link.up, link.arp, link.xdp);
        writeln!(text, "{} {name} {mac:?} {mtu} {flags:?}", link.ifindex).unwrap();
    }
    stack.addresses.sort();
    for own in &stack.addresses {
        writeln!(text, "{} {}", own.ifindex, own.local).unwrap();
    }
    stack.neighbours.sort();
    for known in stack.neighbours.iter().filter(|n| n.state & 0x80 != 0) {
        writeln!(text, "{} {} {:?}", known.ifindex, known.addr, known.mac).unwrap();
    }
    stack.rules.sort();
    for rule in &stack.rules {
        writeln!(text, "{rule:?}").unwrap();
    }
    stack.qdiscs.sort();
    writeln!(text, "{:?} {:?}", stack.qdiscs, stack.forwards).unwrap();
    stack.ipv4.sort();
    writeln!(text, "{:?} {:?}", stack.ipv4, stack.filters).unwrap();
    // Constel's own, and those that the kernel makes with addresses of ports. An address of lo that was taken away and given again has
    // one more, to itself.
    let ours = |route: &InstalledRoute| {
        let to_itself = format!("{:?}", route.target).contains("ifindex: Some(1)");
        let connected = route.protocol == 2 && route.kind == 1 && !to_itself;
        route.protocol == ROUTE_PROTOCOL || connected
    };
    routes.retain(ours);
    routes.sort_by_key(|route| (route.dst, format!("{:?}", route.target)));
    for route in routes {
        writeln!(text, "{} {:?} {:?}", route.dst, route.target, route.prefsrc).unwrap();
    }
    text
}

/// The latest event's number.
fn latest(lab: &Lab) -> u64 {
    let all = events(lab, "stack-changed");
    all.last().map_or(0, |event| event["seq"].as_u64().unwrap())
}

/// Waits for an event later than `after` that names the node and says this of what changed.
fn said(lab: &Lab, node: &str, after: u64, words: &str) -> Value {
    until(words, || {
        let all = events(lab, "stack-changed").into_iter();
        let mut fits = all.filter(|event| {
            let changed = event["changed"].to_string();
            event["node"] == node && event["seq"].as_u64() > Some(after) && changed.contains(words)
        });
        fits.next()
    })
}

/// A node's action on its own stack.
struct Act {
    command: &'static str,
    /// The event says this.
    says: &'static str,
    /// The command that takes it back where Constel does not: for a switch, or a thing of the node's own.
    undo: Option<&'static str>,
}

const fn act(command: &'static str, says: &'static str) -> Act {
    Act {
        command,
        says,
        undo: None,
    }
}

const fn until_undone(command: &'static str, says: &'static str, undo: &'static str) -> Act {
    Act {
        command,
        says,
        undo: Some(undo),
    }
}

/// Switches, and things of the node's own: reported, and the node's to take back.
const SWITCHES: [Act; 13] = [
    until_undone(
        "ip link set eth0 down",
        "eth0 is down",
        "ip link set eth0 up",
    ),
    until_undone(
        "ip link set eth0 down; ip link set eth1 down; ip link set lo down",
        "eth1 is down",
        "for i in lo eth0 eth1; do ip link set $i up; done",
    ),
    until_undone("ip link set lo down", "lo is down", "ip link set lo up"),
    until_undone(
        "sysctl -qw net.ipv6.conf.all.disable_ipv6=1",
        "eth0 has lost fe80:",
        "sysctl -qw net.ipv6.conf.all.disable_ipv6=0",
    ),
    until_undone(
        "sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1",
        "eth0 has lost fe80:",
        "sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0",
    ),
    until_undone(
        "sysctl -qw net.ipv4.ip_forward=0",
        "it does not forward IPv4",
        "sysctl -qw net.ipv4.ip_forward=1",
    ),
    until_undone(
        "sysctl -qw net.ipv6.conf.all.forwarding=0",
        "it does not forward IPv6",
        "sysctl -qw net.ipv6.conf.all.forwarding=1",
    ),
    until_undone(
        "ip rule add pref 1 unreachable",
        "rules of its own: 1",
        "ip rule del pref 1",
    ),
    until_undone(
        "ip rule add pref 1 prohibit; ip -6 rule add pref 1 blackhole",
        "rules of its own",
        "ip rule del pref 1; ip -6 rule del pref 1",
    ),
    until_undone(
        "tc qdisc add dev eth0 root tbf rate 1mbit burst 32k latency 50ms",
        "eth0 has a queueing discipline of the node's own: tbf",
        "tc qdisc del dev eth0 root",
    ),
    until_undone(
        "ip link add br0 type bridge; ip link set br0 up; ip link set eth0 master br0",
        "eth0 is part of interface",
        "ip link del br0",
    ),
    until_undone(
        "ip link del eth0; ip link add eth0 index 64 type bridge",
        "eth0 is gone",
        "ip link del eth0",
    ),
    until_undone(
        "ip link set eth0 addrgenmode none; ip link set eth0 down",
        "eth0 is down",
        "ip link set eth0 addrgenmode eui64; ip link set eth0 up",
    ),
];

/// Things of the node's own that drop packets, others' in transit included: reported, and the node's to take back.
const FILTERS: [Act; 11] = [
    until_undone(
        "iptables -A FORWARD -j DROP",
        "it has a packet filter: nftables ip filter",
        "iptables -F",
    ),
    until_undone(
        "ip6tables -P FORWARD DROP",
        "it has a packet filter: nftables ip6 filter",
        "ip6tables -P FORWARD ACCEPT",
    ),
    until_undone(
        "tc qdisc add dev eth0 clsact; tc filter add dev eth0 ingress bpf da bytecode '1,6 0 0 2'",
        "eth0 has traffic filters of the node's own: clsact",
        "tc qdisc del dev eth0 clsact",
    ),
    until_undone(
        // `ip` needs a file system of BPF, which nodes do not have.
        "mkdir $DROP.fs; mount -t bpf bpf $DROP.fs; TC_BPF_MNT=$DROP.fs ip link set eth0 xdpgeneric obj $DROP sec xdp",
        "eth0 passes its frames to an XDP program of the node's own",
        "ip link set eth0 xdpgeneric off",
    ),
    until_undone(
        "ip xfrm policy add dir fwd src 0.0.0.0/0 dst 0.0.0.0/0 action block",
        "it has a packet filter: IPsec",
        "ip xfrm policy flush",
    ),
    until_undone(
        "sysctl -qw net.ipv4.conf.eth0.forwarding=0",
        "eth0 does not forward IPv4",
        "sysctl -qw net.ipv4.conf.eth0.forwarding=1",
    ),
    until_undone(
        "sysctl -qw net.ipv4.conf.eth0.rp_filter=1",
        "eth0 drops packets by their source (rp_filter 1)",
        "sysctl -qw net.ipv4.conf.eth0.rp_filter=0",
    ),
    until_undone(
        "sysctl -qw net.ipv4.conf.all.rp_filter=1",
        "it drops packets by their source (rp_filter 1)",
        "sysctl -qw net.ipv4.conf.all.rp_filter=0",
    ),
    until_undone(
        "ip route prepend blackhole $B/32",
        "routes of its own come before 1 of ",
        "ip route del blackhole $B/32",
    ),
    until_undone(
        "ip route add blackhole $B/32 table local",
        "routes of its own come before 1 of ",
        "ip route del blackhole $B/32 table local",
    ),
    until_undone(
        "ip link add mv0 link eth0 type macvlan mode passthru",
        "eth0 passes frames to mv0 (macvlan)",
        "ip link del mv0",
    ),
];

/// Lost settings are restored.
const LOSSES: [Act; 21] = [
    act("ip link set eth0 down; ip link set eth0 up", "lost"),
    act("ip link del eth0", "eth0 is gone"),
    act("ip link del eth0; ip link del eth1", "eth1 is gone"),
    act(
        "unshare -n sleep 3 & sleep 0.5; ip link set eth0 netns $!; wait",
        "eth0 is gone",
    ),
    // The name may be restored before the third command.
    act(
        "ip link set eth0 down; ip link set eth0 name wan0; ip link set wan0 up || ip link set eth0 up",
        "eth0 is called wan0",
    ),
    act(
        "ip link set eth0 address 02:00:00:00:00:99",
        "eth0 has the MAC address 02:00:00:00:00:99",
    ),
    act("ip link set eth0 arp off", "eth0 has ARP switched off"),
    act("ip link set eth0 mtu 1280", "eth0 has an MTU of 1280"),
    // Too small for IPv6, which the kernel then switches off.
    act("ip link set eth0 mtu 600", "eth0 has an MTU of 600"),
    act("ip addr flush dev eth0", "eth0 has lost"),
    act("ip addr flush dev lo", "lo has lost 127.0.0.1/8"),
    act("ip -6 addr flush dev eth1", "eth1 has lost fe80:"),
    act("ip addr del $A/32 dev lo", "lo has lost"),
    act("ip route flush table main", "computed routes are lost"),
    act("ip route flush table local", "lo takes no packets for"),
    act("ip -6 route flush table main", "computed routes are lost"),
    act(
        "ip route replace blackhole $B/32",
        "1 of ", // computed routes
    ),
    act("ip rule flush; ip -6 rule flush", "rule 32766 (table 254)"),
    act("ip neigh flush dev eth0 nud permanent", "eth0 has lost"),
    act(
        "N=$(ip -4 neigh show dev eth0 nud permanent | head -1 | cut -d' ' -f1); \
         ip neigh replace $N lladdr 02:00:00:00:00:77 dev eth0 nud permanent",
        "eth0 has lost 1 of",
    ),
    act(
        "for i in $(seq 20); do ip link set eth0 down; ip link set eth0 up; ip route flush table main; done",
        "lost",
    ),
];

/// It stays until the namespace ends.
const UNANNOUNCED: Act = act(
    "iptables-legacy -A FORWARD -j DROP",
    "it has a packet filter: iptables filter",
);

fn all(acts: &[Act]) -> Vec<&Act> {
    acts.iter().collect()
}

fn pings(lab: &Lab, from: &str, flags: &str, to: &str) -> bool {
    sh(
        lab,
        from,
        &format!("ping {flags} -n -q -c 3 -i 0.2 -W 3 {to}"),
    )
}

/// A BPF object that drops each frame that it is given.
fn dropping(dir: &Path) -> PathBuf {
    let (source, object) = (dir.join("drop.c"), dir.join("drop.o"));
    let text = "__attribute__((section(\"xdp\"), used)) int cut(void *ctx) { return 1; }\n\
                char terms[] __attribute__((section(\"license\"), used)) = \"GPL\";\n";
    std::fs::write(&source, text).unwrap();
    let mut clang = Command::new("clang");
    clang.args(["-O2", "-g", "-target", "bpf", "-c", "-o"]);
    clang.arg(&object).arg(&source);
    let made = finish(clang);
    assert!(made.status.success(), "{}", stderr(&made));
    object
}

/// Whether this host has the driver; otherwise prints that the test is left out.
fn has_driver(driver: &str) -> bool {
    let said = constel(["doctor", "--json"]);
    let found: Value = serde_json::from_slice(&said.stdout).unwrap();
    let works = found["drivers"][driver].as_bool().unwrap();
    if !works {
        support::skip(&format!("this kernel has not what {driver} needs"));
    }
    works
}

/// All of it in one lab, one after the other.
fn survive(name: &str, driver: &str, acts: &[&Act]) {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let object = dropping(dir.path()).display().to_string();
    let traffic = "traffic:
- {name: other, at: 0 s, for: 590 s, ping: {from: c, to: b, interval: 200 ms}}
- {name: own, at: 0 s, for: 590 s, ping: {from: a, to: b, interval: 200 ms}}
";
    let file = diamond_over(driver, dir.path(), 600, traffic);
    let mut lab = Lab::up(name, &file, dir.path(), &[]);
    let [a, b] = ["a", "b"].map(|node| loopback(&lab.node(node)));
    let made = set_up(&lab, "a");
    assert!(sh(&lab, "a", "true"), "from here on it is watched");
    for act in acts {
        eprintln!("{}", act.command);
        let before = latest(&lab);
        let known = format!("A={a}; B={b}; DROP={object}");
        sh(&lab, "a", &format!("{known}; {}", act.command));
        let event = said(&lab, "a", before, act.says);
        assert!(pings(&lab, "c", "-4", "b"), "others: {}", act.command);
        if let Some(undo) = act.undo {
            assert_ne!(event["left"], Value::Array(Vec::new()), "{event}");
            let undo = format!("A={a}; B={b}; {undo}");
            assert!(sh(&lab, "a", &undo), "{undo}");
        }
        let began = Instant::now();
        loop {
            let now = set_up(&lab, "a");
            if now == made {
                break;
            }
            let late = began.elapsed() > RESTORED_WITHIN;
            assert!(!late, "{}\nmade:\n{made}\nnow:\n{now}", act.command);
            std::thread::sleep(Duration::from_millis(20));
        }
        // The lab has seen it too: the next command's difference is then a new one.
        loop {
            let last = events(&lab, "stack-changed").pop().unwrap();
            if last["left"] == Value::Array(Vec::new()) {
                break;
            }
            let late = began.elapsed() > 2 * RESTORED_WITHIN;
            assert!(!late, "{}: {last}", act.command);
            std::thread::sleep(Duration::from_millis(20));
        }
        for flags in ["-4", "-6"] {
            assert!(pings(&lab, "a", flags, "b"), "{} {flags}", act.command);
            assert!(pings(&lab, "c", flags, "b"), "{} {flags}", act.command);
        }
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    let summary = lab.summary();
    let stacks = summary["stacks"].as_array().unwrap();
    assert_eq!(stacks.len(), 1, "{stacks:#?}");
    assert_eq!(stacks[0]["node"], "a");
    assert!(stacks[0]["times"].as_u64() >= Some(acts.len() as u64));
    assert_eq!(summary["fidelity"]["failures"], Value::Array(Vec::new()));
    let flow = |name: &str| {
        let mut all = summary["flows"].as_array().unwrap().iter();
        all.find(|flow| flow["name"] == name).unwrap().clone()
    };
    assert!(flow("other").get("changed_stacks").is_none());
    assert_eq!(flow("own")["changed_stacks"][0], "a");
    drop(lab);
    host.assert_as_before("own stack");
}

#[test]
fn what_a_node_switches_off_is_its_own_until_it_switches_it_on() {
    survive("own-stack-off", "relay", &all(&SWITCHES));
}

#[test]
fn what_a_node_drops_by_filters_is_reported_and_left() {
    survive("own-stack-filter", "relay", &all(&FILTERS));
}

#[test]
fn what_a_node_loses_of_its_stack_is_restored() {
    survive("own-stack-lost", "relay", &all(&LOSSES));
}

/// The host end of a port goes with the node's; queues, filters and programs of the driver are on it.
fn ports_come_back(driver: &str) {
    if has_driver(driver) {
        let of_ports = |act: &&Act| act.says.contains("is gone") || act.says.contains("is called");
        let acts: Vec<&Act> = LOSSES.iter().filter(of_ports).collect();
        assert_eq!(acts.len(), 4);
        survive(&format!("own-stack-{driver}"), driver, &acts);
    }
}

#[test]
fn an_interface_that_is_gone_is_made_again_over_netem() {
    ports_come_back("netem");
}

#[test]
fn an_interface_that_is_gone_is_made_again_over_edt() {
    ports_come_back("edt");
}

/// The kernel announces no change of the older iptables: it is found by a look at one node after the other.
#[test]
fn a_filter_that_is_not_announced_is_found() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let mut lab = Lab::up(
        "own-stack-old",
        &diamond(dir.path(), 120, ""),
        dir.path(),
        &[],
    );
    // Three nodes are watched.
    for node in ["a", "b", "c"] {
        assert!(sh(&lab, node, "true"));
    }
    if !sh(&lab, "a", UNANNOUNCED.command) {
        // Newer kernels leave it out.
        support::skip("this kernel or host has no older iptables");
    } else {
        said(&lab, "a", 0, UNANNOUNCED.says);
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    drop(lab);
    host.assert_as_before("own stack");
}

/// The lab of everybody ended where one node had switched off the interface that a route was to lead over.
#[test]
fn a_route_over_an_interface_that_a_node_switched_off_ends_nobodys_lab() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let more = "failures:
- {name: r1-out, at: 6 s, for: 2 s, nodes: [r1]}
traffic:
- {name: off, at: 2 s, for: 2 s, run: {node: a, command: [ip, link, set, eth1, down]}}
- {name: probe, at: 0 s, for: 11 s, ping: {from: a, to: b, interval: 200 ms}}
- {name: other, at: 0 s, for: 11 s, ping: {from: r2, to: b, interval: 200 ms}}
";
    let file = diamond(dir.path(), 12, more);
    let mut lab = Lab::start("own-stack-end", &file, dir.path(), &[]);
    // 3: the host was late, which says nothing about the node.
    let ended = lab.ended().code();
    assert!(matches!(ended, Some(0 | 3)), "{ended:?} {}", lab.stderr());
    let summary = lab.summary();
    let row = &summary["stacks"][0];
    assert_eq!(row["node"], "a", "{row:#}");
    assert_eq!(row["left"][0], "eth1 is down", "{row:#}");
    assert_eq!(summary["fidelity"]["failures"], Value::Array(Vec::new()));
    let flows = summary["flows"].as_array().unwrap();
    let flow = |name: &str| flows.iter().find(|flow| flow["name"] == name).unwrap();
    assert_eq!(flow("probe")["changed_stacks"][0], "a");
    assert!(flow("other").get("changed_stacks").is_none());
    let text = stdout_of(&lab, dir.path());
    assert!(
        text.contains("OWN STACK") && text.contains("eth1 is down"),
        "{text}"
    );
    drop(lab);
    host.assert_as_before("own stack");
}

fn stdout_of(lab: &Lab, dir: &Path) -> String {
    std::fs::read_to_string(dir.join(format!("{}.stdout", lab.name))).unwrap_or_default()
}

/// Software that manages its stack by itself keeps what it does.
#[test]
fn with_restore_false_a_change_is_reported_and_stays() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let nodes = "nodes: {overrides: [{nodes: [a], set: {restore: false}}]}\n";
    let file = diamond(dir.path(), 120, nodes);
    let mut lab = Lab::up("own-stack-keeps", &file, dir.path(), &[]);
    let made = ["a", "b"].map(|node| set_up(&lab, node));
    let flush = "ip addr flush dev eth0; ip link set eth0 mtu 1400";
    assert!(sh(&lab, "a", flush));
    let event = said(&lab, "a", 0, "eth0 has lost");
    assert_eq!(event["restored"], Value::Array(Vec::new()), "{event}");
    // An equal loss in `b`, whose scenario has no such key, is restored; `a` keeps its own settings.
    assert!(sh(&lab, "b", flush));
    said(&lab, "b", 0, "eth0 has lost");
    until("b is restored", || {
        (set_up(&lab, "b") == made[1]).then_some(())
    });
    let now = set_up(&lab, "a");
    assert!(now != made[0] && now.contains(" 1400 (true"), "{now}");
    assert_eq!(lab.interrupt().code(), Some(130));
    let row = lab.summary()["stacks"][0].clone();
    assert_eq!(
        (&row["node"], &row["restored"]),
        (&"a".into(), &false.into())
    );
    drop(lab);
    host.assert_as_before("own stack");
}

/// All routes to the loopback addresses of `b` that a node has, each with the number of the software it is of.
fn routes_to_b(lab: &Lab) -> Vec<InstalledRoute> {
    let b = Socket::open_in(&lab.node("b"))
        .unwrap()
        .addresses()
        .unwrap();
    let own = |route: &InstalledRoute| {
        let mut own = b.iter().filter(|own| own.ifindex == 1);
        own.any(|own| own.local.addr == route.dst.addr) && route.kind == 1
    };
    let mut all = Socket::open_in(&lab.node("a")).unwrap().routes().unwrap();
    all.retain(own);
    all
}

/// A routing daemon beside computed routes neither takes them for its own nor leaves copies when they change.
fn beside(name: &str, start: &str, runs: &str) {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let mut lab = Lab::up(name, &diamond(dir.path(), 120, ""), dir.path(), &[]);
    let made = routes_to_b(&lab);
    assert_eq!(made.len(), 2, "{made:?}");
    assert!(made.iter().all(|route| route.protocol == ROUTE_PROTOCOL));
    // Daemons of FRR keep what they write when they crash in /var/tmp, which nodes share with the host.
    let start = format!("exec unshare -m sh -e <<'END'\nmount -t tmpfs own /var/tmp\n{start}\nEND");
    assert!(sh(&lab, "a", &start), "{start}");
    until(runs, || sh(&lab, "a", runs).then_some(()));
    assert_eq!(routes_to_b(&lab), made, "it takes none over");
    let failed = constel(["link", "fail", &lab.name, "a", "r1"]);
    assert_eq!(failed.status.code(), Some(0), "{}", stderr(&failed));
    let moved = until("routes lead round the failure", || {
        let now = routes_to_b(&lab);
        let moved = |now: &InstalledRoute| made.iter().all(|old| old.target != now.target);
        now.iter().all(moved).then_some(now)
    });
    assert_eq!(moved.len(), 2, "no copy is left: {moved:?}");
    assert!(moved.iter().all(|route| route.protocol == ROUTE_PROTOCOL));
    for flags in ["-4", "-6"] {
        assert!(pings(&lab, "a", flags, "b"), "{flags}");
    }
    assert_eq!(lab.interrupt().code(), Some(130));
    drop(lab);
    host.assert_as_before("own stack");
}

#[test]
fn zebra_leaves_computed_routes_alone() {
    let zebra = "/usr/lib/frr/zebra";
    if !Path::new(zebra).exists() {
        eprintln!("SKIPPED: {zebra} is not installed (Debian: apt-get install frr)");
        return;
    }
    let start = format!(
        "mkdir -p /tmp/z && chown frr /tmp/z && echo 'hostname a' > /tmp/z/zebra.conf && \
         {zebra} -d -u frr -g frr -f /tmp/z/zebra.conf -z /tmp/z/zserv.api -i /tmp/z/zebra.pid --vty_socket /tmp/z"
    );
    // It has read the kernel's tables when it shows them.
    let runs = "vtysh --vty_socket /tmp/z -c 'show ip route' | grep -q /32";
    beside("own-stack-zebra", &start, runs);
}

/// zebra with every protocol of FRR whose routes have a number of their own: each takes routes of its number for its own. Then zebra ends,
/// and removes its own, and begins again, and removes those that an earlier one might have left.
#[test]
fn every_protocol_of_frr_leaves_computed_routes_alone() {
    let frr = "/usr/lib/frr";
    let daemons = [
        "fabricd", "isisd", "ospfd", "ospf6d", "babeld", "ripd", "ripngd", "eigrpd", "staticd",
    ];
    let there = daemons.map(|name| Path::new(frr).join(name).exists());
    if !Path::new(frr).join("zebra").exists() || !there.contains(&true) {
        eprintln!("SKIPPED: {frr} is not installed (Debian: apt-get install frr)");
        return;
    }
    let start = |name: &str| {
        format!(
            "touch /tmp/z/{name}.conf && {frr}/{name} -d -u frr -g frr -f /tmp/z/{name}.conf -z /tmp/z/zserv.api -i /tmp/z/{name}.pid \
             --vty_socket /tmp/z --log file:/tmp/z/{name}.log"
        )
    };
    let mut script = format!(
        "mkdir -p /tmp/z && chown frr /tmp/z && {zebra} && sleep 0.5 && kill $(cat /tmp/z/zebra.pid) && sleep 0.5 && {zebra}",
        zebra = start("zebra")
    );
    for (name, there) in daemons.into_iter().zip(there) {
        if there {
            write!(script, " && {}", start(name)).unwrap();
        }
    }
    // Each has a process of routing, and redistributes what it is given.
    let routers = [
        "router ospf",
        "redistribute kernel",
        "exit",
        "router ospf6",
        "redistribute kernel",
        "exit",
        "router babel",
        "redistribute ipv4 kernel",
        "redistribute ipv6 kernel",
        "exit",
        "router rip",
        "redistribute kernel",
        "exit",
        "router ripng",
        "redistribute kernel",
        "exit",
        "router isis 1",
        "net 49.0001.0000.0000.0001.00",
        "exit",
        "router openfabric 1",
        "net 49.0001.0000.0000.0001.00",
        "exit",
    ];
    let configure: String = routers.map(|line| format!(" -c '{line}'")).concat();
    script += &format!("; vtysh --vty_socket /tmp/z -c 'configure terminal'{configure}; true");
    let mut runs = "vtysh --vty_socket /tmp/z -c 'show ip route' | grep -q /32".to_owned();
    for (name, there) in daemons.into_iter().zip(there) {
        if there {
            write!(runs, " && kill -0 $(cat /tmp/z/{name}.pid)").unwrap();
        }
    }
    beside("own-stack-frr", &script, &runs);
}

#[test]
fn bird_leaves_computed_routes_alone() {
    let bird = "/usr/sbin/bird";
    if !Path::new(bird).exists() {
        eprintln!("SKIPPED: {bird} is not installed (Debian: apt-get install bird2)");
        return;
    }
    let kernel = |family: &str| {
        format!(
            "protocol kernel k{family} {{ learn; scan time 1; {family} {{ import all; export all; }}; }}"
        )
    };
    let start = format!(
        "printf 'router id 10.255.0.1;\\nprotocol device {{ scan time 1; }}\\n{}\\n{}\\n' > /tmp/bird.conf && \
         {bird} -c /tmp/bird.conf -s /tmp/bird.ctl -P /tmp/bird.pid",
        kernel("ipv4"),
        kernel("ipv6")
    );
    let runs = "birdc -s /tmp/bird.ctl show route | grep -q /32";
    beside("own-stack-bird", &start, runs);
}

/// The document has the commands that are tried here.
#[test]
fn the_document_has_every_command_that_is_tried() {
    let path = support::workspace().join("docs/reference/own-stack.md");
    let text = std::fs::read_to_string(path).unwrap();
    let all = SWITCHES.iter().chain(&FILTERS).chain(&LOSSES);
    for act in all.chain([&UNANNOUNCED]) {
        let command = act.command.replace('|', "\\|");
        assert!(text.contains(&command), "{command} is not in own-stack.md");
    }
}
