//! The generated configuration run by real BIRDs: three satellites in a row, two stations, plain veth.
//!
//! Needs root, `ip`, `ping` and `bird`. Makes namespaces of its own and removes them.

mod common;

use constel_link::{Impairment, PortId};
use constel_orbit::WalkerKind;
use constel_routing::bird::{OspfSpec, arguments, configuration};
use constel_routing::{AddressPlan, Route, Table, Walk, walk};
use constel_topology::{Edge, EdgeKind, IslLink, Layout, NodeId, Snapshot};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const OSPF: OspfSpec = OspfSpec {
    hello_s: 1,
    dead_s: 4,
    retransmit_s: 2,
    tick_s: 1,
    isl_cost: 10,
    gsl_cost: 100,
    ipv4: true,
    ipv6: true,
};

/// Runs a command that must succeed; its standard output.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .expect(program);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn ip(line: &str) -> String {
    run("ip", &line.split_whitespace().collect::<Vec<_>>())
}

/// Namespaces with one BIRD each; everything goes when dropped, also when a test fails.
struct Lab {
    layout: Arc<Layout>,
    plan: AddressPlan,
    prefix: String,
    birds: Vec<Child>,
    folder: tempfile::TempDir,
}

impl Drop for Lab {
    fn drop(&mut self) {
        for bird in &mut self.birds {
            let _ = bird.kill();
            let _ = bird.wait();
        }
        let names = self
            .layout
            .nodes()
            .iter()
            .map(|n| self.space(n.id))
            .chain([self.air()]);
        for name in names {
            let _ = Command::new("ip")
                .args(["netns", "del", &name])
                .stderr(Stdio::null())
                .status();
        }
    }
}

impl Lab {
    fn new() -> Lab {
        let stations = vec![
            common::station("west", 0.0, 0.0),
            common::station("east", 0.0, 90.0),
        ];
        let layout = common::lab(WalkerKind::Delta, (3, 1, 0), 60.0, 780.0, stations)
            .layout()
            .clone();
        let plan = AddressPlan::new(&layout).unwrap();
        let prefix = format!("ctr{}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let lab = Lab {
            layout,
            plan,
            prefix,
            birds: Vec::new(),
            folder,
        };
        lab.wire();
        lab
    }

    fn space(&self, node: NodeId) -> String {
        format!("{}-{}", self.prefix, node.0)
    }

    /// The namespace with one bridge per satellite's beam.
    fn air(&self) -> String {
        format!("{}-air", self.prefix)
    }

    /// The ring's first two links; the third would close it.
    fn links(&self) -> &[IslLink] {
        &self.layout.isl_links()[..2]
    }

    fn wire(&self) {
        let air = self.air();
        for space in self
            .layout
            .nodes()
            .iter()
            .map(|n| self.space(n.id))
            .chain([air.clone()])
        {
            ip(&format!("netns add {space}"));
            let settings = [
                "net.ipv4.ip_forward=1",
                "net.ipv6.conf.all.forwarding=1",
                "net.ipv6.conf.all.accept_dad=0",
                "net.ipv6.conf.default.accept_dad=0",
            ];
            run(
                "ip",
                &[&["netns", "exec", &space, "sysctl", "-qw"], &settings[..]].concat(),
            );
            ip(&format!("-n {space} link set lo up"));
        }
        for node in self.layout.nodes() {
            let (space, own) = (self.space(node.id), self.plan.loopback(node.id));
            ip(&format!("-n {space} addr add {}/32 dev lo", own.v4));
            ip(&format!("-n {space} addr add {}/128 dev lo", own.v6));
            ip(&format!(
                "link add gsl0 netns {space} type veth peer name h{} netns {air}",
                node.id.0
            ));
            self.port_up(self.layout.gsl_port(node.id));
            ip(&format!("-n {air} link set h{} up", node.id.0));
        }
        for satellite in 0..3 {
            ip(&format!("-n {air} link add beam{satellite} type bridge"));
            ip(&format!("-n {air} link set beam{satellite} up"));
            self.attach(NodeId(satellite), satellite);
        }
        for link in self.links() {
            let (a, b) = (self.layout.port(link.a), self.layout.port(link.b));
            ip(&format!(
                "link add {} netns {} type veth peer name {} netns {}",
                a.name(),
                self.space(a.node),
                b.name(),
                self.space(b.node)
            ));
            self.port_up(link.a);
            self.port_up(link.b);
        }
    }

    fn port_up(&self, port: PortId) {
        let (own, port) = (self.plan.port(port), self.layout.port(port));
        let (space, name) = (self.space(port.node), port.name());
        let mac = own.mac.map(|b| format!("{b:02x}")).join(":");
        let (v4, len) = own.v4.unwrap();
        ip(&format!("-n {space} link set {name} address {mac}"));
        ip(&format!("-n {space} addr add {v4}/{len} dev {name}"));
        ip(&format!("-n {space} link set {name} up"));
    }

    /// Puts a node's ground port into a satellite's beam.
    fn attach(&self, node: NodeId, satellite: u32) {
        ip(&format!(
            "-n {} link set h{} master beam{satellite}",
            self.air(),
            node.0
        ));
    }

    fn start_birds(&mut self) {
        for node in self.layout.nodes() {
            let neighbours: BTreeSet<NodeId> = if node.seat.is_none() {
                (0..3).map(NodeId).collect()
            } else {
                BTreeSet::new()
            };
            let file = |ending: &str| self.folder.path().join(format!("{}.{ending}", node.id.0));
            let text = configuration(
                &self.layout,
                &self.plan,
                &OSPF,
                node.id,
                &neighbours,
                &file("log"),
            )
            .unwrap();
            std::fs::write(file("conf"), text).unwrap();
            let checked = Command::new("bird")
                .arg("-p")
                .arg("-c")
                .arg(file("conf"))
                .output()
                .unwrap();
            assert!(
                checked.status.success(),
                "{}",
                String::from_utf8_lossy(&checked.stderr)
            );
            let child = Command::new("ip")
                .args(["netns", "exec", &self.space(node.id), "bird"])
                .args(arguments(&file("conf"), &file("ctl")))
                .spawn()
                .unwrap();
            self.birds.push(child);
        }
    }

    /// What BIRD has put into a node's main table, as text.
    fn bird_routes(&self, node: NodeId, family: &str) -> String {
        ip(&format!(
            "-n {} {family} route show proto bird",
            self.space(node)
        ))
    }

    fn table(&self, node: NodeId) -> Table {
        let text = self.bird_routes(node, "-4") + &self.bird_routes(node, "-6");
        let parse = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let after = |key| words.iter().position(|w| *w == key).map(|at| words[at + 1]);
            let prefix: IpAddr = words[0].parse().expect("a host route");
            let own = self.plan.loopback(node);
            let source: IpAddr = after("src").expect("a preferred source").parse().unwrap();
            assert!(
                source == IpAddr::from(own.v4) || source == IpAddr::from(own.v6),
                "{line}"
            );
            let device = after("dev").unwrap();
            let ports = self.layout.ports_of(node);
            Route {
                prefix,
                prefix_len: if prefix.is_ipv4() { 32 } else { 128 },
                port: ports.iter().find(|p| p.name() == device).unwrap().id,
                gateway: Some(after("via").expect("a gateway").parse().unwrap()),
                metric: after("metric").unwrap().parse().unwrap(),
            }
        };
        Table::new(text.lines().map(parse))
    }

    /// The edges there are when the stations use these satellites.
    fn snapshot(&self, serving: [u32; 2]) -> Snapshot {
        let gsl = |n: u32| self.layout.gsl_port(NodeId(n));
        let mut pairs: Vec<(PortId, PortId, EdgeKind)> = self
            .links()
            .iter()
            .map(|l| (l.a, l.b, EdgeKind::Isl))
            .collect();
        pairs.extend([
            (gsl(3), gsl(serving[0]), EdgeKind::Gsl),
            (gsl(4), gsl(serving[1]), EdgeKind::Gsl),
        ]);
        let impairment = Impairment::delay_only(1);
        let mut edges: Vec<Edge> = pairs
            .iter()
            .flat_map(|&(a, b, kind)| [(a, b, kind), (b, a, kind)])
            .map(|(from, to, kind)| Edge {
                from,
                to,
                kind,
                impairment,
            })
            .collect();
        edges.sort_by_key(|e| (e.from, e.to));
        Snapshot {
            edges,
            ..Snapshot::default()
        }
    }

    /// Follows the kernels' tables between the stations, both ways and both families.
    fn walks(&self, snapshot: &Snapshot) -> Vec<Walk> {
        let tables: Vec<Table> = self
            .layout
            .nodes()
            .iter()
            .map(|n| self.table(n.id))
            .collect();
        [(NodeId(3), NodeId(4)), (NodeId(4), NodeId(3))]
            .iter()
            .flat_map(|&(a, b)| {
                let own = self.plan.loopback(b);
                [(a, IpAddr::from(own.v4)), (a, IpAddr::from(own.v6))]
            })
            .map(|(a, to)| walk(&self.layout, snapshot, &self.plan, &tables, a, to))
            .collect()
    }

    /// Waits until all walks arrive; how long that took.
    fn wait_for_routes(&self, serving: [u32; 2], limit: Duration) -> Duration {
        let snapshot = self.snapshot(serving);
        let begun = Instant::now();
        loop {
            let walks = self.walks(&snapshot);
            if walks.iter().all(Walk::arrived) {
                return begun.elapsed();
            }
            assert!(
                begun.elapsed() < limit,
                "no routes after {limit:?}: {walks:?}\n{}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn logs(&self) -> String {
        let log = |n: NodeId| {
            let file = self.folder.path().join(format!("{}.log", n.0));
            format!(
                "-- {n}\n{}",
                std::fs::read_to_string(file).unwrap_or_default()
            )
        };
        self.layout.nodes().iter().map(|n| log(n.id)).collect()
    }

    fn ping(&self, from: NodeId, to: NodeId) {
        let own = self.plan.loopback(to);
        for address in [own.v4.to_string(), own.v6.to_string()] {
            let space = self.space(from);
            run(
                "ip",
                &[
                    "netns", "exec", &space, "ping", "-n", "-c", "2", "-i", "0.2", "-W", "1",
                    &address,
                ],
            );
        }
    }
}

/// Memory that is a process's own share, KiB.
fn pss_kib(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let line = text
        .lines()
        .find(|l| l.starts_with("Pss:"))
        .unwrap_or("0 0");
    line.split_whitespace()
        .nth(1)
        .and_then(|w| w.parse().ok())
        .unwrap_or(0)
}

#[test]
fn real_birds_follow_a_handover() {
    let mut lab = Lab::new();
    let (west, east) = (NodeId(3), NodeId(4));
    // Where the row of satellites starts and ends depends on how its two links are numbered.
    let ends: Vec<u32> = lab
        .links()
        .iter()
        .flat_map(|l| [l.a, l.b])
        .map(|p| lab.layout.port(p).node.0)
        .collect();
    let middle = (0..3)
        .find(|n| ends.iter().filter(|e| *e == n).count() == 2)
        .unwrap();
    let outer: Vec<u32> = (0..3).filter(|n| *n != middle).collect();
    lab.attach(west, outer[0]);
    lab.attach(east, outer[1]);
    lab.start_birds();
    let took = lab.wait_for_routes([outer[0], outer[1]], Duration::from_secs(25));
    println!("from nothing: {:.1} s", took.as_secs_f64());
    let hops: Vec<usize> = lab
        .walks(&lab.snapshot([outer[0], outer[1]]))
        .iter()
        .map(|w| w.hops.len())
        .collect();
    assert_eq!(hops, [4, 4, 4, 4]);
    lab.ping(west, east);
    // One route for each other node and family, none to links.
    for family in ["-4", "-6"] {
        assert_eq!(lab.bird_routes(west, family).lines().count(), 4);
    }
    let each: Vec<u64> = lab.birds.iter().map(|b| pss_kib(b.id())).collect();
    println!("memory of each bird, KiB: {each:?}");

    for (to, expected) in [(middle, 3), (outer[1], 2)] {
        // A settled network: BIRD originates no router LSA within 5 s of its last, and the last of a
        // handover comes up to 5 s after the old neighbour is dropped.
        std::thread::sleep(Duration::from_secs(10));
        lab.attach(west, to);
        let took = lab.wait_for_routes([to, outer[1]], Duration::from_secs(12));
        println!("handover: {:.1} s", took.as_secs_f64());
        let walks = lab.walks(&lab.snapshot([to, outer[1]]));
        assert!(walks.iter().all(|w| w.hops.len() == expected), "{walks:?}");
        lab.ping(west, east);
        assert!(
            took < Duration::from_secs(6),
            "slower than the dead time and a calculation"
        );
    }
    assert!(!lab.logs().contains("<ERR>"), "{}", lab.logs());
}

#[test]
fn wrong_asks_are_refused() {
    let layout = common::lab(WalkerKind::Delta, (3, 1, 0), 60.0, 780.0, common::cities())
        .layout()
        .clone();
    let plan = AddressPlan::new(&layout).unwrap();
    let spec = OspfSpec {
        hello_s: 0,
        dead_s: 1,
        isl_cost: 0,
        ipv4: false,
        ipv6: false,
        ..OSPF
    };
    let (satellite, station) = (NodeId(0), NodeId(3));
    let listed: BTreeSet<NodeId> = [station].into();
    let log = Path::new("/tmp/a\"b");
    let errors = configuration(&layout, &plan, &spec, satellite, &listed, log).unwrap_err();
    let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
    for part in [
        "hello time in seconds is 0",
        "ISL cost is 0",
        "IPv4 or IPv6",
        "`sat-0-0` is a satellite",
        "`london` is no satellite",
        "log's path",
    ] {
        assert!(
            text.iter().any(|t| t.contains(part)),
            "{part} missing in {text:?}"
        );
    }
    let short = OspfSpec {
        hello_s: 3,
        dead_s: 5,
        ..OSPF
    };
    assert!(
        short.check().unwrap_err()[0]
            .to_string()
            .contains("at least 6")
    );
}
