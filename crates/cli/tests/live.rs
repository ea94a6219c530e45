//! A running lab answers for what holds in it, and its networks behave as networks: changes by hand, addresses of ports, further
//! Ethernet addresses behind a port, multicast, XDP. Needs root.

use crate::support;

use serde_json::Value;
use support::lab::Lab;
use support::scenario;

fn answer(words: &[&str]) -> Value {
    let done = support::constel(words);
    assert!(done.status.success(), "{words:?}: {done:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

/// The output of a shell in a node; it must succeed.
fn shell(lab: &Lab, node: &str, script: &str) -> String {
    let done = support::constel(["exec", &lab.name, node, "--", "sh", "-c", script]);
    assert!(done.status.success(), "{node}: {script}: {done:?}");
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// The IPv4 address of a node's interface.
fn address(lab: &Lab, node: &str, port: &str) -> String {
    let script = format!("ip -4 -o addr show dev {port} | awk '{{print $4}}' | cut -d/ -f1");
    shell(lab, node, &script)
}

const DIAMOND: &str = "constel: 1
name: diamond
start: 2026-11-21T00:00:00Z
duration: 10 min
step: 1 s
ground:
  hosts:
    a: {latitude: 0 deg, longitude: 0 deg}
    r1: {latitude: 0 deg, longitude: 0 deg}
    r2: {latitude: 0 deg, longitude: 0 deg}
    b: {latitude: 0 deg, longitude: 0 deg}
  cables:
  - {from: a, to: r1, delay: 5 ms, link: {rate: 100 Mbit/s}}
  - {from: r1, to: b, delay: 5 ms, link: {rate: 100 Mbit/s}}
  - {from: a, to: r2, delay: 20 ms, link: {rate: 100 Mbit/s}}
  - {from: r2, to: b, delay: 20 ms, link: {rate: 100 Mbit/s}}
routing: {mode: computed, destinations: all}
";

#[test]
fn a_path_is_over_the_links_as_they_were_changed_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::write(dir.path(), "diamond.yaml", DIAMOND);
    let lab = Lab::up("live-path", &file, dir.path(), &[]);
    let name = lab.name.as_str();
    let path = || {
        let found = answer(&["path", name, "a", "b", "--json"]);
        let optimum = &found["optimum"];
        let via = optimum["hops"][0]["to"].as_str().unwrap().to_owned();
        let [way, least] =
            [&found["kernel"][0], optimum].map(|way| way["delay_ns"].as_u64().unwrap() / 1_000_000);
        (way, least, via)
    };
    assert_eq!(path(), (10, 10, "r1".to_owned()));
    answer(&["link", "fail", name, "a", "r1", "--json"]);
    assert_eq!(path(), (40, 40, "r2".to_owned()));
    let shown = answer(&["show", name, "--json"]);
    let links = |node: &str| {
        let nodes = shown["node_list"].as_array().unwrap();
        nodes.iter().find(|n| n["name"] == node).unwrap()["links"].clone()
    };
    assert_eq!((links("a"), links("r2")), (1.into(), 2.into()));
    // Four cables are eight edges, of which two have failed.
    assert_eq!(shown["edges"], 6);
    answer(&["link", "heal", name, "a", "r1", "--json"]);
    // Routes do not see a delay that is set by hand; the path does, and what would be best.
    answer(&["link", "set", name, "a", "r1", "--delay", "100ms", "--json"]);
    assert_eq!(path(), (105, 40, "r2".to_owned()));
    answer(&["link", "set", name, "a", "r1", "--reset", "--json"]);
    assert_eq!(path(), (10, 10, "r1".to_owned()));
    // All that leaves a port, whatever is at its other end.
    answer(&[
        "link",
        "set",
        name,
        "a/eth0",
        "--extra-delay",
        "7ms",
        "--json",
    ]);
    assert_eq!(path().0, 17);
    // Jitter that a delay has no room for.
    let refused = support::constel([
        "link", "set", name, "a", "r2", "--delay", "1 ms", "--jitter", "50 ms",
    ]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("cut off at 0"),
        "{said}"
    );
    let done = support::constel([
        "link",
        "set",
        name,
        "a",
        "r2",
        "--jitter",
        "5 ms",
        "--jitter-order",
        "smooth",
    ]);
    assert!(done.status.success(), "{done:?}");
}

/// A scenario of hosts `h-*` at one place, with networks.
fn hosts(count: usize, networks: &str) -> String {
    format!(
        "constel: 1
name: hosts
start: 2026-11-21T00:00:00Z
duration: 10 min
step: 1 s
ground:
  hosts:
    h: {{count: {count}, latitude: 0 deg, longitude: 0 deg}}
networks:
{networks}
routing: {{mode: computed, destinations: all}}
"
    )
}

#[test]
fn members_of_two_networks_use_each_for_its_addresses() {
    let dir = tempfile::tempdir().unwrap();
    for (name, ms) in [("fast", 1), ("slow", 100)] {
        let text = format!("delay_ms,h-0,h-1\nh-0,,{ms}\nh-1,{ms},\n");
        std::fs::write(dir.path().join(format!("{name}.csv")), text).unwrap();
    }
    let networks = "  fast: {members: ['h-*'], law: {matrix: fast.csv}, link: {rate: 10 Mbit/s}}
  slow: {members: ['h-*'], law: {matrix: slow.csv}, link: {rate: 10 Mbit/s}}";
    let file = scenario::write(dir.path(), "two.yaml", &hosts(2, networks));
    let lab = Lab::up("live-two", &file, dir.path(), &[]);
    let rtt_ms = |words: &str| -> f64 {
        let out = shell(&lab, "h-0", &format!("ping -c2 -W2 {words} | tail -1"));
        let least = out.split(" = ").nth(1).unwrap().split('/').next().unwrap();
        least.parse().unwrap()
    };
    let (fast, slow) = (address(&lab, "h-1", "net0"), address(&lab, "h-1", "net1"));
    // Never less than the links' delays, and not by the other network.
    assert!((2.0..150.0).contains(&rtt_ms(&fast)));
    assert!(rtt_ms(&slow) >= 200.0);
    assert!(rtt_ms(&format!("-I net1 {slow}")) >= 200.0);
}

const CHAIN: &str = "constel: 1
name: chain
start: 2026-11-21T00:00:00Z
duration: 10 min
step: 1 s
spacecraft:
  craft: {orbit: {altitude: 560 km, inclination: 97.6 deg}, preset: string-of-pearls, craft: 4, size: 10 km}
networks:
  crosslink: {members: [craft-*], law: {range: 15 km}, link: {rate: 1 Mbit/s, queue: 64 KiB}}
routing: {mode: computed}
";

#[test]
fn the_address_of_a_port_is_reached_over_several_hops() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::write(dir.path(), "chain.yaml", CHAIN);
    let lab = Lab::up("live-chain", &file, dir.path(), &[]);
    for far in ["craft-1", "craft-2", "craft-3"] {
        let to = address(&lab, far, "net0");
        // From its own port's address, as a program does that is bound to it.
        shell(&lab, "craft-0", &format!("ping -c1 -W3 -I net0 {to}"));
        shell(&lab, "craft-0", &format!("ping -c1 -W3 {to}"));
    }
}

#[test]
fn a_switch_learns_addresses_behind_its_ports() {
    let dir = tempfile::tempdir().unwrap();
    let text = hosts(3, "  lan: {members: ['h-*'], medium: switched}");
    let file = scenario::write(dir.path(), "lan.yaml", &text);
    let lab = Lab::up("live-lan", &file, dir.path(), &[]);
    // As VRRP has it: an address of its own on a macvlan, which moves to another node.
    let own = |node: &str| {
        shell(
            &lab,
            node,
            "sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
             ip link add mv0 link net0 address 00:00:5e:00:01:01 type macvlan mode bridge
             ip addr add 10.96.200.1/32 dev mv0; ip link set mv0 up",
        )
    };
    own("h-0");
    shell(&lab, "h-1", "ping -c2 -W2 10.96.200.1");
    shell(&lab, "h-0", "ip link del mv0");
    own("h-2");
    shell(
        &lab,
        "h-2",
        "arping -q -U -c1 -I mv0 10.96.200.1 || ping -c1 -W2 -I mv0 10.96.0.2 || true",
    );
    shell(&lab, "h-1", "ping -c2 -W3 10.96.200.1");
    // The port itself has another address.
    shell(&lab, "h-2", "ip link set net0 address 02:00:00:00:be:ef");
    let to = address(&lab, "h-1", "net0");
    shell(&lab, "h-2", &format!("ping -c3 -W2 {to}"));
    shell(&lab, "h-0", "ping -c3 -W2 h-2");
}

#[test]
fn multicast_needs_no_interface_and_native_xdp_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::write(dir.path(), "diamond.yaml", DIAMOND);
    let lab = Lab::up("live-mc", &file, dir.path(), &[]);
    let join = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 5000))
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.3') + bytes(4))
s.settimeout(20)
print(s.recvfrom(100)[0].decode())";
    let send = "import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b'hello', ('239.1.2.3', 5000))";
    std::thread::scope(|scope| {
        let heard = scope.spawn(|| shell(&lab, "r1", &format!("python3 -c \"{join}\"")));
        support::until("the group is joined", || {
            let words = [
                "exec",
                &lab.name,
                "r1",
                "--",
                "grep",
                "-qi",
                "030201EF",
                "/proc/net/igmp",
            ];
            support::constel(words).status.success().then_some(())
        });
        // `a` has the cable to `r1` first.
        shell(&lab, "a", &format!("python3 -c \"{send}\""));
        assert_eq!(heard.join().unwrap(), "hello");
    });

    // Two instructions, `return XDP_DROP`, attached by a link: 4 asks for native mode, 2 for generic.
    let attach = "import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def bpf(cmd, attr):
    buf = ctypes.create_string_buffer(attr, 128)
    fd = libc.syscall(321 if os.uname().machine == 'x86_64' else 280, cmd, buf, 128)
    return fd if fd >= 0 else -ctypes.get_errno()
code = ctypes.create_string_buffer(struct.pack('<BBhiBBhi', 0xb7, 0, 0, 1, 0x95, 0, 0, 0))
name = ctypes.create_string_buffer(b'GPL')
prog = bpf(5, struct.pack('<IIQQ', 6, 2, ctypes.addressof(code), ctypes.addressof(name)))
assert prog > 0, prog
for flags in (4, 2):
    print(bpf(28, struct.pack('<IIII', prog, socket.if_nametoindex('eth0'), 37, flags)) > 0)";
    std::fs::write(dir.path().join("xdp.py"), attach).unwrap();
    let script = format!("python3 {}", dir.path().join("xdp.py").display());
    assert_eq!(shell(&lab, "a", &script), "False\nTrue");
}

/// Counts, by sender, frames of TCP and UDP to port 7777 whose checksums are right and wrong, as a switch in user space sees them.
const SWITCH: &str = "import socket, struct, threading, time
def total(data):
    data += bytes(len(data) % 2)
    s = sum(struct.unpack('>%dH' % (len(data) // 2), data))
    while s >> 16: s = (s & 0xffff) + (s >> 16)
    return s
def serve(kind):
    s = socket.socket(socket.AF_INET, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(('', 7777))
    if kind == socket.SOCK_DGRAM:
        while True: s.recv(2000)
    s.listen()
    while True:
        c = s.accept()[0]
        while c.recv(100000): pass
        c.close()
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    threading.Thread(target=serve, args=(kind,), daemon=True).start()
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
raw.settimeout(0.2)
open('/run/constel-node/ready', 'w').close()
seen, end, done = {}, time.time() + 60, set()
while time.time() < end and len(done) < 2:
    try: frame = raw.recv(70000)
    except socket.timeout: continue
    ip = frame[14:14 + struct.unpack('>H', frame[16:18])[0]]
    head, proto = (ip[0] & 15) * 4, ip[9]
    body = ip[head:]
    if proto not in (6, 17) or struct.unpack('>H', body[2:4])[0] != 7777: continue
    whole = total(ip[12:20] + bytes((0, proto)) + struct.pack('>H', len(body)) + body) == 0xffff
    key = (socket.inet_ntoa(ip[12:16]), proto)
    seen.setdefault(key, [0, 0])[not whole] += 1
    if body.endswith(b'done'): done.add(key[0])
for (who, proto), (right, wrong) in sorted(seen.items()): print(who, proto, right, wrong)
";

#[test]
fn a_switch_in_user_space_sees_complete_checksums_where_asked() {
    let dir = tempfile::tempdir().unwrap();
    let text =
        format!("{DIAMOND}nodes: {{overrides: [{{nodes: [a], set: {{checksums: full}}}}]}}\n");
    let file = scenario::write(dir.path(), "diamond.yaml", &text);
    let lab = Lab::up("live-sums", &file, dir.path(), &[]);
    std::fs::write(dir.path().join("switch.py"), SWITCH).unwrap();
    let script = format!("python3 {}", dir.path().join("switch.py").display());
    let send = "import socket
s = socket.create_connection(('r1', 7777)); s.sendall(bytes(range(256)) * 800); s.close()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(10): u.sendto(b'x' * 100 + b'%d' % n, ('r1', 7777))
u.sendto(b'done', ('r1', 7777))";
    let said = std::thread::scope(|scope| {
        let said = scope.spawn(|| shell(&lab, "r1", &script));
        support::until("the switch listens", || {
            let words = [
                "exec",
                &lab.name,
                "r1",
                "--",
                "test",
                "-e",
                "/run/constel-node/ready",
            ];
            support::constel(words).status.success().then_some(())
        });
        for node in ["a", "b"] {
            shell(&lab, node, &format!("python3 -c \"{send}\""));
        }
        said.join().unwrap()
    });
    let counts = |node: &str, protocol: &str| -> (u64, u64) {
        let from = support::netns::loopback(&lab.node(node));
        let line = said
            .lines()
            .find(|line| line.starts_with(&format!("{from} {protocol} ")));
        let line = line.unwrap_or_else(|| panic!("{node} {from}: {said}"));
        let mut numbers = line.split(' ').skip(2).map(|n| n.parse().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap())
    };
    for protocol in ["6", "17"] {
        let (right, wrong) = counts("a", protocol);
        assert!(right >= 11 && wrong == 0, "{said}");
        assert!(counts("b", protocol).1 > 0, "over any veth: {said}");
    }
    // The remaining wire is complete as before, and the path works both ways.
    shell(&lab, "a", "ping -c1 -W2 b");
}
