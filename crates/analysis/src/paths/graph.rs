//! The links of some instants, as paths need them.

use std::collections::BTreeMap;

use constel_link::PortId;
use constel_topology::{Layout, NodeId, Snapshot};

use super::lanes::{LANES, NEVER, Times};

/// A station's way to or from a node that passes traffic on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    /// Satellite, or whatever else passes traffic on.
    pub(super) node: u32,
    port: PortId,
    /// Delay from the station.
    pub(super) up: Times,
    /// Delay to it.
    pub(super) down: Times,
}

/// A way on from a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arc {
    pub(super) peer: u32,
    /// Indices in [`Graph::delays`]: forward and reverse.
    pub(super) there: u32,
    pub(super) back: u32,
}

/// Up to [`LANES`] snapshots of one layout, as a graph with a delay of each link at each of them.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// How many snapshots there are.
    pub(super) lanes: usize,
    /// Two for each link: from its first end, and back.
    pub(super) delays: Vec<Times>,
    /// Links that are not lasers: cables, and links between satellites and gateways.
    others: BTreeMap<(PortId, PortId), u32>,
    /// For each node, its first index in `arcs`, and one past the last.
    starts: Vec<u32>,
    /// Sorted by node, then by far end.
    arcs: Vec<Arc>,
    /// A counter that increases when new links appear.
    pub(super) shape: u64,
    /// For each station, by its index after the satellites.
    access: Vec<Vec<Access>>,
    satellites: usize,
    /// For each node, whether it forwards traffic of others.
    passes: Vec<bool>,
}

impl Graph {
    /// Forgets the snapshots, not the links.
    pub(super) fn clear(&mut self) {
        self.lanes = 0;
        self.delays.fill(NEVER);
        self.access.iter_mut().for_each(Vec::clear);
    }

    /// Takes in the edges of `snapshot` (those of them usable before its step ends, as routes do).
    pub(super) fn load(&mut self, layout: &Layout, snapshot: &Snapshot) {
        assert!(self.lanes < LANES, "no room for another snapshot");
        let (nodes, isls) = (layout.nodes().len(), layout.isl_links().len());
        if self.passes.len() != nodes {
            self.satellites = layout.satellite_count();
            self.passes = (0..nodes as u32)
                .map(|n| layout.is_transit(NodeId(n)))
                .collect();
            self.access = vec![Vec::new(); nodes - self.satellites];
            self.delays = vec![NEVER; 2 * isls];
            self.lay(layout);
        }
        let lane = self.lanes;
        self.lanes += 1;
        let end_ns = snapshot.t_ns + layout.spec().step_ns;
        let links = self.others.len();
        for edge in &snapshot.edges {
            if edge.impairment.up_from_ns >= end_ns {
                continue;
            }
            let delay_ns = edge.impairment.delay.delay_ns.max(1) as f64;
            let place = match layout.isl_of_port(edge.from) {
                Some(link) => 2 * link.number + u32::from(edge.from == link.b),
                None => {
                    let ends = [edge.from, edge.to].map(|p| layout.port(p).node.0);
                    match ends.map(|n| self.passes[n as usize]) {
                        [true, true] => self.other(edge.from, edge.to),
                        [false, true] => {
                            self.reach(ends[0], ends[1], edge.from).up[lane] = delay_ns;
                            continue;
                        }
                        [true, false] => {
                            self.reach(ends[1], ends[0], edge.to).down[lane] = delay_ns;
                            continue;
                        }
                        // Stations have no links with one another.
                        [false, false] => continue,
                    }
                }
            };
            self.delays[place as usize][lane] = delay_ns;
        }
        if self.others.len() > links {
            self.lay(layout);
        }
    }

    /// The place of a link that is no laser, in the direction from `from` to `to`.
    fn other(&mut self, from: PortId, to: PortId) -> u32 {
        let delays = &mut self.delays;
        let first = *self
            .others
            .entry((from.min(to), from.max(to)))
            .or_insert_with(|| {
                let place = delays.len() as u32;
                delays.resize(delays.len() + 2, NEVER);
                place
            });
        first + u32::from(from > to)
    }

    fn reach(&mut self, station: u32, node: u32, port: PortId) -> &mut Access {
        let list = &mut self.access[station as usize - self.satellites];
        let at = list.iter().position(|a| (a.node, a.port) == (node, port));
        let at = at.unwrap_or_else(|| {
            list.push(Access {
                node,
                port,
                up: NEVER,
                down: NEVER,
            });
            list.len() - 1
        });
        &mut list[at]
    }

    /// Arcs by node, of all links there may be.
    fn lay(&mut self, layout: &Layout) {
        self.shape += 1;
        let isls = layout.isl_links().iter();
        let isls = isls.map(|l| ((l.a, l.b), 2 * l.number));
        let others = self.others.iter().map(|(ends, place)| (*ends, *place));
        let mut items: Vec<(u32, Arc)> = Vec::new();
        for ((a, b), place) in isls.chain(others) {
            let (a, b) = (layout.port(a).node.0, layout.port(b).node.0);
            let (out, back) = (place, place + 1);
            let arc = |peer, there, back| Arc { peer, there, back };
            items.push((a, arc(b, out, back)));
            items.push((b, arc(a, back, out)));
        }
        items.sort_unstable_by_key(|(node, arc)| (*node, arc.peer, arc.there));
        self.starts.clear();
        self.starts.resize(self.passes.len() + 1, 0);
        for (node, _) in &items {
            self.starts[*node as usize + 1] += 1;
        }
        for node in 1..self.starts.len() {
            self.starts[node] += self.starts[node - 1];
        }
        self.arcs.clear();
        self.arcs.extend(items.iter().map(|(_, arc)| *arc));
    }

    /// How many nodes there are, whether traffic passes through them or not.
    pub(super) fn nodes(&self) -> usize {
        self.passes.len()
    }

    /// How many links there may be.
    pub(super) fn links(&self) -> usize {
        self.arcs.len() / 2
    }

    /// The ways on from a node that passes traffic on, in order of the far end.
    pub(super) fn arcs(&self, node: u32) -> &[Arc] {
        let [from, to] = [0, 1].map(|i| self.starts[node as usize + i] as usize);
        &self.arcs[from..to]
    }

    /// Returns the links of a node that does not forward; `None` for others.
    pub(super) fn access(&self, node: u32) -> Option<&[Access]> {
        let passes = self.passes[node as usize];
        (!passes).then(|| self.access[node as usize - self.satellites].as_slice())
    }
}
