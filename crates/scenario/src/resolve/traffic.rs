//! Traffic: times, nodes, families, ports.

mod patterns;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use constel_units::TimeSpan;

use super::nodes::{Kind, Nodes};
use crate::deferred::DeferredNode;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::model::{
    Action, Family, Flow, Http, Iperf3, Mode, Name, Ping, PingTool, Routing, Run, Transport,
};
use crate::parse::Parsed;
use crate::raw::{
    self, Destination, PathOf, Protocol, RawFlow, RawHttp, RawIperf3, RawKind, RawPing, RawRun,
};
use crate::walk::Path;
use crate::walk::Seg::{self, Index, Key};

/// The first default ports of servers.
// Not iperf3's own (5201): a user's `iperf3 -s` in the node of a flow's server finds its port free.
const IPERF3_PORT: u16 = 5301;
const HTTP_PORT: u16 = 8001;
const PROBE_PORT: u16 = 7001;

/// The flows of a scenario.
pub(super) struct Flows {
    /// Those without errors, in order of their start.
    pub(super) all: Vec<Flow>,
    /// The names of all flows, also of those with errors, and the number of the entry in `traffic`.
    pub(super) entries: BTreeMap<Name, usize>,
    /// The entries, in which a flow for each node or pair of nodes replaces those with patterns.
    pub(super) written: Vec<RawFlow>,
    pub(super) deferred: Vec<DeferredNode>,
}

pub(super) fn resolve(
    parsed: &Parsed,
    nodes: &Nodes<'_>,
    routing: &Routing,
    errors: &mut Diagnostics,
) -> Flows {
    let mut traffic = Traffic {
        parsed,
        nodes,
        routing,
        errors,
        deferred: Vec::new(),
        index: 0,
        ports: BTreeMap::new(),
    };
    let mut flows = Vec::new();
    for (index, entry) in parsed.raw.traffic.iter().enumerate() {
        traffic.index = index;
        let own = traffic.flows_of(entry, flows.len());
        flows.extend(own.into_iter().map(|flow| (index, flow)));
    }
    traffic.explicit_ports(&flows);
    let mut entries: BTreeMap<Name, usize> = BTreeMap::new();
    let mut all = Vec::new();
    // The entry whose flow had an error: the others of its pattern would have the same.
    let mut wrong = None;
    for (index, raw) in &flows {
        if traffic.errors.is_full() {
            break;
        }
        traffic.index = *index;
        let twin = entries.insert(raw.name.clone(), *index);
        if wrong == Some(*index) {
            continue;
        }
        let before = traffic.errors.len();
        if let Some(first) = twin {
            let error = traffic
                .error(
                    &[Key("name")],
                    "duplicate-name",
                    format!("two flows are called `{}`", raw.name),
                )
                .with_reason(format!(
                    "traffic[{first}] has this name already; results are filed by it"
                ));
            traffic.errors.push(error);
        }
        traffic.times(raw);
        if let Some(action) = traffic.action(raw) {
            all.push(Flow {
                name: raw.name.clone(),
                at: raw.at,
                length: raw.length,
                action,
            });
        }
        if traffic.errors.len() > before {
            wrong = Some(*index);
        }
    }
    all.sort_by_key(|flow| flow.at.ns());
    Flows {
        all,
        entries,
        deferred: traffic.deferred,
        written: flows.into_iter().map(|(_, f)| f.into_owned()).collect(),
    }
}

pub(super) struct Traffic<'a> {
    parsed: &'a Parsed,
    nodes: &'a Nodes<'a>,
    routing: &'a Routing,
    pub(super) errors: &'a mut Diagnostics,
    deferred: Vec<DeferredNode>,
    /// The flow that is looked at.
    index: usize,
    /// Ports of servers by node, and the flow that has each.
    ports: BTreeMap<(Name, u16), usize>,
}

impl<'a> Traffic<'a> {
    fn path<'p>(&self, tail: &[Seg<'p>]) -> Vec<Seg<'p>> {
        let mut path = vec![Key("traffic"), Index(self.index)];
        path.extend_from_slice(tail);
        path
    }

    /// An error at `tail` of this flow; the path names the flow, which a number alone does not.
    pub(super) fn error(
        &self,
        tail: &[Seg<'_>],
        code: &'static str,
        message: String,
    ) -> Diagnostic {
        let path = self.path(tail);
        let name = &self.parsed.raw.traffic[self.index].name;
        let shown = format!("{} (in `{name}`)", Path(&path));
        self.parsed.error_at(&path, code, message).with_path(shown)
    }

    fn times(&mut self, raw: &RawFlow) {
        let Some(duration) = self.parsed.raw.duration else {
            return;
        };
        let end = raw.at.checked_add(raw.length);
        if end.is_some_and(|end| end <= duration) {
            return;
        }
        let left = duration.ns() - raw.at.ns();
        let (tail, message) = if left <= 0 {
            (
                Key("at"),
                format!("starts at {}, when the lab is over", raw.at),
            )
        } else {
            (
                Key("for"),
                format!(
                    "starts at {} and lasts {}, beyond the lab's end",
                    raw.at, raw.length
                ),
            )
        };
        let mut error = self
            .error(&[tail], "order", format!("`{}` {message}", raw.name))
            .with_reason(format!("the scenario's `duration` is {duration}"));
        if left > 0 {
            error =
                error.with_suggestion(format!("at most `for: {}` fits", TimeSpan::from_ns(left)));
        }
        self.errors.push(error);
    }

    fn action(&mut self, raw: &RawFlow) -> Option<Action> {
        match &raw.kind {
            RawKind::Ping(ping) => Some(self.ping(ping)),
            RawKind::Iperf3(iperf3) => self.iperf3(iperf3, raw),
            RawKind::Http(http) => Some(self.http(http)),
            RawKind::Leotp(leotp) => self.leotp(leotp),
            RawKind::Tcp(tcp) => self.tcp(tcp),
            RawKind::Vivace(vivace) => Some(self.vivace(vivace)),
            RawKind::Run(run) => Some(self.run(run)),
        }
    }

    fn ping(&mut self, raw: &RawPing) -> Action {
        self.ends("ping", &raw.from, &raw.to);
        let tool = match raw.tool {
            raw::PingTool::Probe => PingTool::Probe {
                port: self.port(&raw.to.node, None, PROBE_PORT),
            },
            raw::PingTool::Ping => PingTool::Ping,
        };
        Action::Ping(Ping {
            from: raw.from.name().clone(),
            to: raw.to.clone(),
            interval: raw.interval,
            family: self.family("ping", raw.family),
            size: raw.size,
            tool,
        })
    }

    fn iperf3(&mut self, raw: &RawIperf3, flow: &RawFlow) -> Option<Action> {
        self.ends("iperf3", &raw.from, &raw.to);
        if flow.length.ns() % 1_000_000_000 != 0 {
            let error = self
                .error(
                    &[Key("for")],
                    "whole-seconds",
                    format!("`for` is {}", flow.length),
                )
                .with_reason("iperf3 counts whole seconds");
            self.errors.push(error);
        }
        let family = self.family("iperf3", raw.family);
        let port = self.port(iperf3_server(raw), raw.port, IPERF3_PORT);
        Some(Action::Iperf3(Iperf3 {
            from: raw.from.name().clone(),
            to: raw.to.clone(),
            transport: self.transport(raw)?,
            reverse: raw.reverse,
            family,
            port,
        }))
    }

    fn transport(&mut self, raw: &RawIperf3) -> Option<Transport> {
        match (raw.protocol, raw.rate) {
            (Protocol::Tcp, rate) => {
                if rate.is_some() {
                    let error = self
                        .error(
                            &[Key("iperf3"), Key("rate")],
                            "no-effect",
                            "`rate` is only for UDP".into(),
                        )
                        .with_reason("TCP sends as fast as its congestion control goes")
                        .with_suggestion("remove `rate`, or add `protocol: udp`");
                    self.errors.push(error);
                }
                let congestion = raw.congestion.clone().unwrap_or_else(|| "cubic".into());
                let congestion = self.congestion("iperf3", congestion)?;
                Some(Transport::Tcp { congestion })
            }
            (Protocol::Udp, rate) => {
                if raw.congestion.is_some() {
                    let tail = [Key("iperf3"), Key("congestion")];
                    let error = self
                        .error(&tail, "no-effect", "`congestion` is only for TCP".into())
                        .with_reason("UDP has no congestion control")
                        .with_suggestion("remove `congestion`, or add `protocol: tcp`");
                    self.errors.push(error);
                }
                if rate.is_none() {
                    let error = self
                        .error(&[Key("iperf3")], "missing-key", "missing key `rate`".into())
                        .with_reason("UDP needs a rate to send at")
                        .with_suggestion("add `rate: 2 Mbit/s`");
                    self.errors.push(error);
                }
                rate.map(|rate| Transport::Udp { rate })
            }
        }
    }

    /// Checks the name of a congestion control.
    pub(super) fn congestion(&mut self, kind: &'static str, congestion: String) -> Option<String> {
        if !is_congestion_control(&congestion) {
            let error = self
                .error(
                    &[Key(kind), Key("congestion")],
                    "bad-name",
                    format!("`{congestion}` is no name of a congestion control"),
                )
                .with_reason("such names are like `cubic`, `bbr` and `reno`");
            self.errors.push(error);
            return None;
        }
        Some(congestion)
    }

    fn http(&mut self, raw: &RawHttp) -> Action {
        self.ends("http", &raw.from, &raw.to);
        Action::Http(Http {
            from: raw.from.name().clone(),
            to: raw.to.clone(),
            size: raw.size,
            family: self.family("http", raw.family),
            port: self.port(raw.from.name(), raw.port, HTTP_PORT),
        })
    }

    fn run(&mut self, raw: &RawRun) -> Action {
        self.node(&[Key("run"), Key("node")], &raw.node, false);
        if raw.command.first().is_some_and(String::is_empty) {
            let tail = [Key("run"), Key("command"), Index(0)];
            let error = self.error(&tail, "empty-value", "the program has no name".into());
            self.errors.push(error);
        }
        for (index, _) in raw
            .command
            .iter()
            .enumerate()
            .filter(|(_, word)| word.contains('\0'))
        {
            let tail = [Key("run"), Key("command"), Index(index)];
            let error = self.error(
                &tail,
                "bad-value",
                "a NUL character cannot be passed".into(),
            );
            self.errors.push(error);
        }
        Action::Run(Run {
            node: raw.node.name().clone(),
            command: raw.command.clone(),
        })
    }

    /// Checks both ends of a flow.
    pub(super) fn ends(&mut self, kind: &'static str, from: &Name, to: &Destination) {
        self.node(&[Key(kind), Key("from")], from, true);
        if *from == to.node {
            let error = self
                .error(
                    &[Key(kind), Key("to")],
                    "same-node",
                    format!("`{from}` is both ends of the flow"),
                )
                .with_reason("nothing would cross the network");
            self.errors.push(error);
            return;
        }
        self.node(&[Key(kind), Key("to")], &to.node, true);
        let known = self.nodes.kind(&to.node) != Kind::Unknown;
        if let Some(path) = to.path.as_ref().filter(|_| known) {
            self.path_of(&[Key(kind), Key("to")], from, &to.node, path);
        }
    }

    /// A disjoint path is one of a pair's, and leads between the flow's ends.
    fn path_of(&mut self, tail: &[Seg<'_>], from: &Name, to: &Name, path: &PathOf) {
        let pairs = &self.parsed.raw.routing.disjoint;
        let PathOf { pair, number } = path;
        let error = match pairs.get(pair) {
            None => self
                .error(
                    tail,
                    "unknown-path",
                    format!("no pair with disjoint paths is called `{pair}`"),
                )
                .with_allowed(pairs.keys().map(ToString::to_string))
                .with_next("`routing.disjoint` has the pairs and how many paths each wants"),
            Some(known)
                if ![from, to]
                    .into_iter()
                    .all(|end| known.between.iter().any(|own| own.name() == end)) =>
            {
                let between = known.between.iter().map(|end| format!("`{end}`"));
                let between = between.collect::<Vec<_>>().join(" and ");
                let message = format!("the paths of `{pair}` lead between {between}");
                self.error(tail, "unknown-path", message)
                    .with_reason("a path is for flows between its own ends")
            }
            Some(known) if *number > known.paths => {
                let message = format!("`{pair}` has {} paths, not {number}", known.paths);
                self.error(tail, "unknown-path", message)
            }
            Some(_) => return,
        };
        self.errors.push(error);
    }

    fn node(&mut self, tail: &[Seg<'_>], name: &Name, must_be_reached: bool) {
        let unknown = self
            .nodes
            .unknown(name, |code, message| self.error(tail, code, message));
        let unknown = unknown.map(|error| {
            error
                .with_next("a name is one of `ground.stations`, of `ground.from`, or a satellite's")
        });
        let deferred = self.nodes.deferred(self.parsed, &self.path(tail), name);
        self.deferred.extend(deferred);
        let unreached = match &self.routing.mode {
            Mode::Computed(computed) if must_be_reached => {
                let error = |code, message| self.error(tail, code, message);
                self.nodes.out_of_reach(name, computed.destinations, error)
            }
            _ => None,
        };
        for error in unknown.into_iter().chain(unreached) {
            self.errors.push(error);
        }
    }

    pub(super) fn family(&mut self, kind: &'static str, wanted: Option<Family>) -> Family {
        let families = self.routing.families;
        // The schema requires at least one family.
        let first = self
            .parsed
            .raw
            .routing
            .families
            .first()
            .copied()
            .unwrap_or(Family::Ipv4);
        let family = wanted.unwrap_or(first);
        if !families.has(family) {
            let error = self
                .error(&[Key(kind), Key("family")], "no-family", {
                    "this family is not one of `routing.families`".into()
                })
                .with_suggestion("add it to `routing.families`");
            self.errors.push(error);
        }
        family
    }

    /// Notes the ports that the file gives, so that defaults keep away from them.
    fn explicit_ports(&mut self, flows: &[(usize, Cow<'_, RawFlow>)]) {
        let mut wrong = None;
        for (index, flow) in flows {
            let (kind, server, port) = match &flow.kind {
                RawKind::Iperf3(own) => ("iperf3", iperf3_server(own), own.port),
                RawKind::Http(own) => ("http", own.from.name(), own.port),
                RawKind::Leotp(own) => ("leotp", own.from.name(), own.port),
                RawKind::Tcp(own) => ("tcp", own.from.name(), own.port),
                RawKind::Vivace(own) => ("vivace", own.from.name(), own.port),
                RawKind::Ping(_) | RawKind::Run(_) => continue,
            };
            let Some(port) = port else { continue };
            self.index = *index;
            if let Some(other) = self.ports.insert((server.clone(), port), *index)
                && wrong.replace(*index) != Some(*index)
            {
                let error = self
                    .error(
                        &[Key(kind), Key("port")],
                        "duplicate-port",
                        format!("port {port} of `{server}` is taken"),
                    )
                    .with_reason(format!("traffic[{other}] has its server there"))
                    .with_suggestion("remove `port`: every server then gets its own");
                self.errors.push(error);
            }
        }
    }

    /// The given port, or the next free one of the node.
    pub(super) fn port(&mut self, to: &Name, given: Option<u16>, first: u16) -> u16 {
        if let Some(port) = given {
            return port;
        }
        let taken: BTreeSet<u16> = self
            .ports
            .range((to.clone(), first)..=(to.clone(), u16::MAX))
            .map(|((_, port), _)| *port)
            .collect();
        // At most 10,000 flows are allowed, fewer than there are ports.
        let port = (first..=u16::MAX)
            .find(|port| !taken.contains(port))
            .unwrap_or(u16::MAX);
        self.ports.insert((to.clone(), port), self.index);
        port
    }
}

/// Returns the node that listens.
fn iperf3_server(raw: &RawIperf3) -> &Name {
    match raw.reverse {
        false => &raw.to.node,
        true => raw.from.name(),
    }
}

/// Whether Linux would name a congestion control so; it becomes an argument of a program.
pub(super) fn is_congestion_control(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..16).contains(&name.len()) && name.bytes().all(good) && !name.starts_with('-')
}
