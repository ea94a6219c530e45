//! The routes over time, if a file fixes them in advance: `routing.choices`.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use constel_routing::{Graph, GroundTransit, Scratch, UNREACHABLE};
use constel_scenario::{Diagnostics, TextFile};
use constel_topology::{Layout, NodeId, Snapshot};

use crate::lab::Lab;
use crate::live::RouteChoice;
use crate::table::Rows;

/// The columns of `routing.choices`, in this order.
pub const ROUTE_COLUMNS: &str = "t_s,node,destination,next";

/// A row of the file: from `t_ns` on, the node forwards packets for the destination to `next`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    t_ns: u64,
    /// The index of the destination among all destinations.
    destination: u32,
    node: NodeId,
    next: Option<NodeId>,
}

/// The rows of the file, by time, and those that a live policy has added.
#[derive(Debug)]
pub struct NextNodes {
    /// All holders of a lab see the rows that its run adds: the planner, and the checks of kernels' tables.
    rows: RwLock<Vec<Row>>,
    /// The destinations, by number.
    destinations: Vec<NodeId>,
    nodes: usize,
}

/// The routes at a time, for queries in order of time.
#[derive(Debug, Clone)]
pub(crate) struct NextNodesAt {
    /// The number of rows applied.
    taken: usize,
    /// The next node, by destination and by node.
    now: Vec<Vec<Option<NodeId>>>,
}

impl NextNodes {
    /// Reads a file of routes towards `destinations`, which are in the order of node numbers.
    ///
    /// # Errors
    /// All errors in the file, each with its line.
    pub(crate) fn read(
        file: &TextFile,
        layout: &Layout,
        destinations: &[NodeId],
    ) -> Result<Self, Diagnostics> {
        let names = layout.nodes().iter().map(|node| node.name.as_str());
        let numbers: BTreeMap<&str, NodeId> = names.zip((0..).map(NodeId)).collect();
        let mut lines = Rows::new(file, ROUTE_COLUMNS);
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
            rows: RwLock::new(rows),
            destinations: destinations.to_vec(),
            nodes,
        })
    }

    /// Returns whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        rows.is_empty()
    }

    /// Returns whether routes lead to a node.
    #[must_use]
    pub fn lead_to(&self, node: NodeId) -> bool {
        self.destinations.binary_search(&node).is_ok()
    }

    /// Adds routes from `t_ns` on, which must not be before any row. Routes to nodes that are no destinations are left out.
    pub(crate) fn add(&self, t_ns: u64, routes: &[RouteChoice]) {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        rows.extend(routes.iter().filter_map(|route| {
            let place = self.destinations.binary_search(&route.destination).ok()?;
            Some(Row {
                t_ns,
                destination: place as u32,
                node: route.node,
                next: route.next,
            })
        }));
    }

    /// Returns the state before the first row, without any routes.
    pub(crate) fn start(&self) -> NextNodesAt {
        NextNodesAt {
            taken: 0,
            now: vec![vec![None; self.nodes]; self.destinations.len()],
        }
    }
}

impl NextNodesAt {
    /// Returns the next node at `t_ns`, by destination and by node.
    pub(crate) fn at(&mut self, chosen: &NextNodes, t_ns: u64) -> &[Vec<Option<NodeId>>] {
        let rows = chosen.rows.read().unwrap_or_else(PoisonError::into_inner);
        if self.taken > 0 && rows[self.taken - 1].t_ns > t_ns {
            *self = chosen.start();
        }
        while let Some(row) = rows.get(self.taken).filter(|row| row.t_ns <= t_ns) {
            self.now[row.destination as usize][row.node.index()] = row.next;
            self.taken += 1;
        }
        &self.now
    }
}

/// The reachability between nodes at a time, over the existing links or, if a file fixes the routes, over these.
pub struct Reachability {
    graph: Graph,
    scratch: Scratch,
    chosen: Option<(Arc<NextNodes>, NextNodesAt)>,
    t_ns: u64,
}

impl Reachability {
    /// Creates it for a lab with the links of the snapshot.
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

    /// Returns for each node, by number, whether it can reach this one.
    ///
    /// # Panics
    /// When `node` is not in the lab.
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
