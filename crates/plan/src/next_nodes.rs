//! Which way packets take when, as far as that was chosen beforehand: `routing.choices`.

use std::collections::BTreeMap;
use std::sync::Arc;

use constel_routing::{Graph, GroundTransit, Scratch, UNREACHABLE};
use constel_scenario::{Diagnostics, TextFile};
use constel_topology::{Layout, NodeId, Snapshot};

use crate::lab::Lab;
use crate::table::Rows;

/// The columns, in this order.
const COLUMNS: &str = "t_s,node,destination,next";

/// A row of the file: from `t_ns` on the node hands packets for the destination to `next`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    t_ns: u64,
    /// Place of the destination among all.
    destination: u32,
    node: NodeId,
    next: Option<NodeId>,
}

/// All that was chosen, by time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextNodes {
    rows: Vec<Row>,
    /// By number.
    destinations: Vec<NodeId>,
    nodes: usize,
}

/// What is chosen at a time, for times that go on.
#[derive(Debug, Clone)]
pub(crate) struct NextNodesAt {
    /// How many rows are in it.
    taken: usize,
    /// By destination, by node.
    now: Vec<Vec<Option<NodeId>>>,
}

impl NextNodes {
    /// Reads a file of choices towards `destinations`, which are in the order of node numbers.
    ///
    /// # Errors
    /// Everything wrong with it, each with its line.
    pub(crate) fn read(
        file: &TextFile,
        layout: &Layout,
        destinations: &[NodeId],
    ) -> Result<Self, Diagnostics> {
        let names = layout.nodes().iter().map(|node| node.name.as_str());
        let numbers: BTreeMap<&str, NodeId> = names.zip((0..).map(NodeId)).collect();
        let mut lines = Rows::new(file, COLUMNS);
        let mut rows: Vec<Row> = Vec::new();
        while let Some((line, [t_s, node, destination, next])) = lines.next() {
            let t_ns = lines.time_ns(line, &t_s);
            let mut named = |name: &str| {
                let found = numbers.get(name).copied();
                if found.is_none() {
                    let message = format!("no node is called `{name}`");
                    lines.unknown(line, "unknown-node", message, name, numbers.keys().copied());
                }
                found
            };
            let (node, to) = (named(&node), named(&destination));
            let next = if next.is_empty() {
                Some(None)
            } else {
                named(&next).map(Some)
            };
            let (Some(t_ns), Some(node), Some(to), Some(next)) = (t_ns, node, to, next) else {
                continue;
            };
            let Ok(place) = destinations.binary_search(&to) else {
                let message =
                    format!("`{destination}` is no destination of `routing.destinations`");
                lines.wrong(line, "unknown-destination", message);
                continue;
            };
            if node == to || next == Some(node) {
                lines.wrong(line, "bad-value", "a node is no way to itself".to_owned());
                continue;
            }
            if rows.last().is_some_and(|last| last.t_ns > t_ns) {
                lines.wrong(line, "order", "rows must be in order of time".to_owned());
                continue;
            }
            rows.push(Row {
                t_ns,
                destination: place as u32,
                node,
                next,
            });
        }
        let nodes = layout.nodes().len();
        lines.errors.or(Self {
            rows,
            destinations: destinations.to_vec(),
            nodes,
        })
    }

    /// Before the first row: nobody hands anything to anybody.
    pub(crate) fn start(&self) -> NextNodesAt {
        NextNodesAt {
            taken: 0,
            now: vec![vec![None; self.nodes]; self.destinations.len()],
        }
    }
}

impl NextNodesAt {
    /// What is chosen at `t_ns`, by destination, by node.
    pub(crate) fn at(&mut self, chosen: &NextNodes, t_ns: u64) -> &[Vec<Option<NodeId>>] {
        if self.taken > 0 && chosen.rows[self.taken - 1].t_ns > t_ns {
            *self = chosen.start();
        }
        while let Some(row) = chosen.rows.get(self.taken).filter(|row| row.t_ns <= t_ns) {
            self.now[row.destination as usize][row.node.index()] = row.next;
            self.taken += 1;
        }
        &self.now
    }
}

/// Who can be reached from where at a time: over the links that there are, and where ways were chosen beforehand by these.
pub struct Reach {
    graph: Graph,
    scratch: Scratch,
    chosen: Option<(Arc<NextNodes>, NextNodesAt)>,
    t_ns: u64,
}

impl Reach {
    /// Of a lab whose links are those of the snapshot.
    #[must_use]
    pub fn new(lab: &Lab, snapshot: &Snapshot) -> Self {
        let chosen = lab.next_nodes.as_ref();
        Self {
            graph: Graph::new(&lab.layout, snapshot, GroundTransit::Never),
            scratch: Scratch::default(),
            chosen: chosen.map(|all| (Arc::clone(all), all.start())),
            t_ns: snapshot.t_ns,
        }
    }

    /// Whether each node, by number, can reach this one.
    ///
    /// # Panics
    /// When it is not of the lab.
    #[must_use]
    pub fn towards(&mut self, node: NodeId) -> Vec<bool> {
        let Some((all, chosen)) = &mut self.chosen else {
            let tree = self.graph.tree(node, &mut self.scratch);
            let distances = tree.distance_ns.iter();
            return distances.map(|d| *d != UNREACHABLE).collect();
        };
        let Ok(place) = all.destinations.binary_search(&node) else {
            return vec![false; all.nodes];
        };
        let chosen = &chosen.at(all, self.t_ns)[place];
        let ways = self.graph.chosen_ways(node, chosen);
        ways.cost.iter().map(|cost| *cost != UNREACHABLE).collect()
    }
}
