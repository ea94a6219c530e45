//! Frames: the traffic that flows and daemons will send, and the number of links that it uses.

use std::collections::BTreeSet;

use constel_plan::Lab;
use constel_routing::{Graph, GroundTransit, PathHop};
use constel_scenario::model::{Action, Flow, Transport};
use constel_topology::Snapshot;
use serde::Serialize;

use crate::capacity::costs::{FORWARDED_LINKS, FRAME_NS, RELAY_FRAME_NS};

/// Bytes of Ethernet, IP and a transport's header.
const HEADERS_BYTES: f64 = 54.0;
/// A full frame of most links, bytes.
const FULL_FRAME_BYTES: f64 = 1_514.0;
/// Payload of a full frame, bytes.
const FULL_PAYLOAD_BYTES: f64 = 1_448.0;

/// Frames that cross links, in a second: one frame over three links counts three times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Load {
    /// Frames times links.
    pub frames_per_s: f64,
    /// Bytes per second, times links.
    pub bytes_per_s: f64,
}

impl Load {
    /// Returns the load of this number of frames of this length over this number of links.
    #[must_use]
    pub fn new(frames_per_s: f64, length_bytes: f64, links: f64) -> Self {
        Self {
            frames_per_s: frames_per_s * links,
            bytes_per_s: frames_per_s * length_bytes * links,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            frames_per_s: self.frames_per_s + other.frames_per_s,
            bytes_per_s: self.bytes_per_s + other.bytes_per_s,
        }
    }

    fn with((of_frame_ns, of_byte_ns): (f64, f64), load: Self) -> f64 {
        (load.frames_per_s * of_frame_ns + load.bytes_per_s * of_byte_ns) / 1e9
    }

    /// Processors that carrying it keeps busy.
    #[must_use]
    pub fn processors(self) -> f64 {
        Self::with(FRAME_NS, self)
    }

    /// Returns the load of the single thread that carries the frames of all links, as a share; above 1 it is
    /// overloaded.
    #[must_use]
    pub fn carrier(self) -> f64 {
        Self::with(RELAY_FRAME_NS, self)
    }
}

/// The traffic that the scenario's flows will send.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FlowTraffic {
    /// The load at the time of most traffic.
    pub most: Load,
    /// Lab time of that, seconds.
    pub at_s: f64,
    /// Flows with an unknown amount of traffic: commands, and transfers over links without a rate.
    pub unknown: Vec<String>,
}

impl FlowTraffic {
    /// All flows, each over the least-delay path of lab time zero.
    #[must_use]
    pub fn of(lab: &Lab) -> Self {
        let mut found = Self::default();
        if lab.scenario.traffic.is_empty() {
            return found;
        }
        let snapshot = lab.stepper().advance();
        let snapshot = lab.at_start()(&snapshot).unwrap_or(snapshot);
        let graph = Graph::new(&lab.layout, &snapshot, GroundTransit::Never);
        let mut loads = Vec::new();
        for flow in &lab.scenario.traffic {
            match load(lab, &graph, &snapshot, flow) {
                Some(load) => loads.push((flow, load)),
                None => found.unknown.push(flow.name.to_string()),
            }
        }
        let starts: BTreeSet<i64> = loads.iter().map(|(flow, _)| flow.at.ns()).collect();
        for at_ns in starts {
            let under_way = loads
                .iter()
                .filter(|(flow, _)| (flow.at.ns()..flow.end().ns()).contains(&at_ns));
            let sum = under_way.fold(Load::default(), |sum, (_, load)| sum.plus(*load));
            if sum.processors() > found.most.processors() {
                (found.most, found.at_s) = (sum, at_ns as f64 / 1e9);
            }
        }
        found
    }
}

/// Returns the load of one flow; `None` if it is unknown.
fn load(lab: &Lab, graph: &Graph, snapshot: &Snapshot, flow: &Flow) -> Option<Load> {
    let (from, to) = flow.action.ends()?;
    let [from, to] = [from, to].map(|name| lab.layout.find(name.as_str()));
    let (from, to) = (from?.id, to?.id);
    let tree = graph.tree(to, &mut constel_routing::Scratch::default());
    // Without a path now there will be one later, or the flow will not send.
    let path = graph.path(&tree, from).unwrap_or_default();
    let links = links(lab, &path);
    match &flow.action {
        Action::Ping(ping) => {
            let each_way = 1e9 / ping.interval.ns() as f64;
            let length_bytes = ping.size.bytes() as f64 + HEADERS_BYTES;
            Some(Load::new(2.0 * each_way, length_bytes, links))
        }
        Action::Iperf3(iperf3) => match &iperf3.transport {
            Transport::Udp { rate } => {
                let frames_per_s = rate.bps() as f64 / 8.0 / FULL_PAYLOAD_BYTES;
                Some(Load::new(frames_per_s, FULL_FRAME_BYTES, links))
            }
            Transport::Tcp { .. } => stream(snapshot, &path, links),
        },
        Action::Http(_) | Action::Transfer(_) => stream(snapshot, &path, links),
        Action::Run(_) => None,
    }
}

/// How many links a path costs as much as, whose ends have a stack each: into a node that only forwards it is less.
fn links(lab: &Lab, path: &[PathHop]) -> f64 {
    let cost = |hop: &PathHop| {
        if lab.forwards(hop.to) {
            FORWARDED_LINKS
        } else {
            1.0
        }
    };
    path.iter().map(cost).sum()
}

/// A stream that fills the slowest link of its path, and an answer for every second frame.
fn stream(snapshot: &Snapshot, path: &[PathHop], links: f64) -> Option<Load> {
    if path.is_empty() {
        return Some(Load::default());
    }
    let rate = |hop: &PathHop| snapshot.edge(hop.port, hop.far_port)?.impairment.rate_bps;
    let least_bps = path.iter().filter_map(rate).min()?.get();
    let frames_per_s = least_bps as f64 / 8.0 / FULL_FRAME_BYTES;
    let answers = Load::new(frames_per_s / 2.0, HEADERS_BYTES, links);
    Some(Load::new(frames_per_s, FULL_FRAME_BYTES, links).plus(answers))
}
