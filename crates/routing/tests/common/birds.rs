//! Labs of namespaces with one BIRD each, over plain veth. Needs root, `ip`, `ping` and `bird`.

use super::common::OSPF;
use constel_link::{Impairment, PortId};
use constel_routing::daemons::{Served, Spec, Templates, bird_arguments, contexts};
use constel_routing::{AddressBlocks, AddressPlan, Route, Table, Walk, walk};
use constel_topology::{Edge, EdgeClass, GSL, ISL, IslLink, Layout, NodeId, STATION, Snapshot};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

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
///
/// A satellite's beam is a bridge in a namespace of its own; a handover moves a station's port to another.
pub(crate) struct Lab {
    pub(crate) layout: Arc<Layout>,
    pub(crate) plan: AddressPlan,
    pub(crate) birds: Vec<Child>,
    links: Vec<IslLink>,
    prefix: String,
    folder: tempfile::TempDir,
}

impl Drop for Lab {
    fn drop(&mut self) {
        for bird in &mut self.birds {
            let _ = bird.kill();
            let _ = bird.wait();
        }
        let spaces = self
            .layout
            .nodes()
            .iter()
            .map(|n| self.space(n.id))
            .chain([self.air()]);
        for space in spaces {
            let _ = Command::new("ip")
                .args(["netns", "del", &space])
                .stderr(Stdio::null())
                .status();
        }
    }
}

impl Lab {
    /// A lab of this layout with these of its ISLs; stations are in no beam yet.
    pub(crate) fn new(name: &str, layout: Arc<Layout>, links: Vec<IslLink>) -> Lab {
        let plan = AddressPlan::new(&layout, &AddressBlocks::default()).unwrap();
        let prefix = format!("ctr{name}{}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let lab = Lab {
            layout,
            plan,
            birds: Vec::new(),
            links,
            prefix,
            folder,
        };
        lab.wire();
        lab
    }

    fn space(&self, node: NodeId) -> String {
        format!("{}-{}", self.prefix, node.0)
    }

    fn air(&self) -> String {
        format!("{}-air", self.prefix)
    }

    pub(crate) fn stations(&self) -> Vec<NodeId> {
        let ground = self.layout.nodes().iter().filter(|n| n.class == &STATION);
        ground.map(|n| n.id).collect()
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
            let (space, own, n) = (self.space(node.id), self.plan.loopback(node.id), node.id.0);
            ip(&format!("-n {space} addr add {}/32 dev lo", own.v4));
            ip(&format!("-n {space} addr add {}/128 dev lo", own.v6));
            ip(&format!(
                "link add gsl0 netns {space} type veth peer name h{n} netns {air}"
            ));
            self.port_up(self.layout.gsl_port(node.id));
            ip(&format!("-n {air} link set h{n} up"));
            if node.class.flies {
                ip(&format!("-n {air} link add beam{n} type bridge"));
                ip(&format!("-n {air} link set beam{n} up"));
                self.attach(node.id, node.id);
            }
        }
        for link in &self.links {
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
    pub(crate) fn attach(&self, node: NodeId, satellite: NodeId) {
        ip(&format!(
            "-n {} link set h{} master beam{}",
            self.air(),
            node.0,
            satellite.0
        ));
    }

    /// One BIRD per node; `satellites` are those each station knows, in the order of stations.
    pub(crate) fn start_birds(&mut self, satellites: &[Served]) {
        self.start_birds_of(&OSPF, satellites);
    }

    /// Starts the programs with other settings.
    pub(crate) fn start_birds_of(&mut self, spec: &Spec, satellites: &[Served]) {
        let spec = spec.clone().with_uplinks(&self.layout, satellites);
        let mut known = satellites.iter();
        let templates = Templates::new(None).unwrap();
        for node in self.layout.nodes() {
            let none = Served::new();
            let list = if node.seat.is_none() {
                known.next().unwrap()
            } else {
                &none
            };
            let file = |ending: &str| self.folder.path().join(format!("{}.{ending}", node.id.0));
            let (layout, plan) = (&self.layout, &self.plan);
            let contexts = contexts(layout, plan, &spec, None, node.id, list).unwrap();
            let text = templates.render(&contexts[0]).unwrap();
            std::fs::write(file("conf"), text).unwrap();
            let log = std::fs::File::create(file("log")).unwrap();
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
                .args(bird_arguments(&file("conf"), &file("ctl")))
                .stderr(log)
                .spawn()
                .unwrap();
            self.birds.push(child);
        }
    }

    /// The entries of BIRD in a node's main table, as text.
    pub(crate) fn bird_routes(&self, node: NodeId, family: &str) -> String {
        ip(&format!(
            "-n {} {family} route show proto bird",
            self.space(node)
        ))
    }

    fn table(&self, node: NodeId) -> Table {
        let text = self.bird_routes(node, "-4") + &self.bird_routes(node, "-6");
        let own = self.plan.loopback(node);
        let parse = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let after = |key| words.iter().position(|w| *w == key).map(|at| words[at + 1]);
            let prefix: IpAddr = words[0].parse().expect("a host route");
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
                choices: 1,
            }
        };
        Table::new(text.lines().map(parse))
    }

    /// The edges there are when the stations use these satellites.
    pub(crate) fn snapshot(&self, serving: &[NodeId]) -> Snapshot {
        let mut pairs: Vec<(PortId, PortId, &'static EdgeClass)> =
            self.links.iter().map(|l| (l.a, l.b, &ISL)).collect();
        for (station, satellite) in self.stations().iter().zip(serving) {
            let gsl = |n| self.layout.gsl_port(n);
            pairs.push((gsl(*station), gsl(*satellite), &GSL));
        }
        let impairment = Impairment::delay_only(1);
        let mut edges: Vec<Edge> = pairs
            .iter()
            .flat_map(|&(a, b, class)| [(a, b, class), (b, a, class)])
            .map(|(from, to, class)| Edge {
                from,
                to,
                class,
                impairment,
            })
            .collect();
        edges.sort_by_key(|e| (e.from, e.to));
        Snapshot {
            edges,
            ..Snapshot::default()
        }
    }

    /// Follows the kernels' tables between all stations, in both families.
    pub(crate) fn walks(&self, snapshot: &Snapshot) -> Vec<Walk> {
        let tables: Vec<Table> = self
            .layout
            .nodes()
            .iter()
            .map(|n| self.table(n.id))
            .collect();
        let stations = self.stations();
        let mut walks = Vec::new();
        for &a in &stations {
            for &b in stations.iter().filter(|b| **b != a) {
                let own = self.plan.loopback(b);
                for to in [IpAddr::from(own.v4), IpAddr::from(own.v6)] {
                    walks.push(walk(&self.layout, snapshot, &self.plan, &tables, a, to));
                }
            }
        }
        walks
    }

    /// Waits until all walks arrive. Returns how long that took, and the longest of the rounds of this loop: a tenth of a second on
    /// an idle host, longer where other programs have the processors, of BIRD as well.
    pub(crate) fn wait_for_routes(&self, serving: &[NodeId]) -> (Duration, Duration) {
        // Only recognises what hangs.
        let limit = Duration::from_secs(240);
        let snapshot = self.snapshot(serving);
        let (begun, mut longest) = (Instant::now(), Duration::ZERO);
        loop {
            let round = Instant::now();
            let walks = self.walks(&snapshot);
            let missing = walks.iter().find(|w| !w.arrived());
            let Some(missing) = missing else {
                return (begun.elapsed(), longest);
            };
            assert!(
                begun.elapsed() < limit,
                "no routes after {limit:?}: {missing:?}\n{}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(50));
            longest = longest.max(round.elapsed());
        }
    }

    /// The logs of all BIRDs.
    pub(crate) fn logs(&self) -> String {
        let log = |n: NodeId| {
            let file = self.folder.path().join(format!("{}.log", n.0));
            format!(
                "-- {n}\n{}",
                std::fs::read_to_string(file).unwrap_or_default()
            )
        };
        self.layout.nodes().iter().map(|n| log(n.id)).collect()
    }

    /// Two pings in each family must come back.
    pub(crate) fn ping(&self, from: NodeId, to: NodeId) {
        let own = self.plan.loopback(to);
        for address in [own.v4.to_string(), own.v6.to_string()] {
            let space = self.space(from);
            let asked = [
                "netns", "exec", &space, "ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", &address,
            ];
            run("ip", &asked);
        }
    }

    /// Memory that is each BIRD's own share, KiB.
    pub(crate) fn pss_kib(&self) -> Vec<u64> {
        let own = |bird: &Child| {
            let file = format!("/proc/{}/smaps_rollup", bird.id());
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let line = text
                .lines()
                .find(|l| l.starts_with("Pss:"))
                .unwrap_or("0 0");
            line.split_whitespace()
                .nth(1)
                .and_then(|w| w.parse().ok())
                .unwrap_or(0)
        };
        self.birds.iter().map(own).collect()
    }

    /// Processor time all BIRDs have used so far, seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        let ns = |bird: &Child| {
            let text = std::fs::read_to_string(format!("/proc/{}/schedstat", bird.id()));
            let text = text.unwrap_or_default();
            text.split_whitespace()
                .next()
                .and_then(|w| w.parse::<f64>().ok())
                .unwrap_or(0.0)
        };
        self.birds.iter().map(ns).sum::<f64>() / 1e9
    }
}
