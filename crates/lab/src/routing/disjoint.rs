//! Disjoint paths of pairs: found at every step, put into the kernels by difference, and counted.

use constel_host::netlink::Batch;
use constel_link::PortId;
use constel_observe::quantiles::Quantiles;
use constel_routing::disjoint::delay_ns;
use constel_routing::graph::PathHop;
use constel_routing::{Graph, PathChange, PathPair, PathRoutes};

use crate::error::EngineError;
use crate::nodes::builder::LiveNode;
use crate::nodes::wiring::Wiring;
use crate::routing::computed::{Moment, put, send};
use crate::watch::summary::{DisjointPathRow, DisjointRow};

/// The paths of all pairs: by pair, in order of delay.
type Found = Vec<Vec<Vec<PathHop>>>;

/// Routes to the ends of paths as the kernels have them, and what was seen of the paths.
pub(crate) struct Disjoint {
    held: PathRoutes,
    seen: Vec<Seen>,
    news: Vec<PathsNews>,
}

/// What was seen of one pair.
struct Seen {
    /// How many paths there were when somebody was told last; at first as many as were asked for.
    told: usize,
    steps_by_paths: Vec<usize>,
    paths: Vec<SeenPath>,
}

/// What was seen of one path.
#[derive(Clone, Default)]
struct SeenPath {
    hops: Vec<(PortId, PortId)>,
    changes: usize,
    delays_ns: Vec<f64>,
}

/// A pair has more or fewer paths than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathsNews {
    /// Lab time, nanoseconds.
    pub(crate) t_ns: u64,
    /// The pair's number.
    pub(crate) pair: usize,
    /// How many it has now.
    pub(crate) found: usize,
}

/// Paths of a step and the way there.
pub(crate) struct PreparedPaths {
    t_ns: u64,
    moment: Moment,
    found: Found,
    held: PathRoutes,
    changes: Vec<PathChange>,
}

impl PreparedPaths {
    /// How many routes change.
    pub(crate) fn changes(&self) -> usize {
        self.changes.len()
    }

    /// Puts each node's changes together, where order does not matter.
    pub(crate) fn node_by_node(&mut self) {
        self.changes.sort_by_key(|change| change.node);
    }
}

impl Disjoint {
    /// Nothing installed yet; `None` when no pair wants paths.
    pub(crate) fn wanted(wiring: &Wiring) -> Option<Self> {
        let pairs = wiring.addresses.paths().pairs();
        let seen = pairs.iter().map(|pair| Seen {
            told: usize::from(pair.paths),
            steps_by_paths: vec![0; usize::from(pair.paths) + 1],
            paths: vec![SeenPath::default(); usize::from(pair.paths)],
        });
        (!pairs.is_empty()).then(|| Self {
            held: PathRoutes::default(),
            seen: seen.collect(),
            news: Vec::new(),
        })
    }

    /// The paths of a graph, whose step begins at `t_ns`, and what must change for them. Touches no kernel.
    pub(crate) fn prepare(
        &self,
        wiring: &Wiring,
        graph: &Graph,
        t_ns: u64,
        moment: Moment,
    ) -> PreparedPaths {
        let pairs = wiring.addresses.paths().pairs();
        let paths_of = |pair: &PathPair| {
            let [from, to] = pair.ends;
            graph.disjoint(from, to, usize::from(pair.paths))
        };
        let found: Found = pairs.iter().map(paths_of).collect();
        // Within a step what a path has left is still needed by what is under way.
        let (held, changes) = self.held.follow(pairs, &found, moment == Moment::Step);
        PreparedPaths {
            t_ns,
            moment,
            found,
            held,
            changes,
        }
    }

    /// Tells the kernels, in the order that makes no loops. Returns how many requests it took.
    ///
    /// # Errors
    /// When a kernel refuses a route: what is installed is then not what was found.
    pub(crate) fn install(
        &mut self,
        wiring: &Wiring,
        nodes: &[LiveNode],
        prepared: PreparedPaths,
    ) -> Result<usize, EngineError> {
        let addresses = wiring.addresses.paths();
        let mut batch = Batch::new();
        let mut requests = 0;
        for run in prepared.changes.chunk_by(|a, b| a.node == b.node) {
            for change in run {
                let far = change.goal.other();
                // What a pair's node sends to the other end of a path comes from its own end of it: answers then
                // take the same path.
                let source = if addresses.node(far) == change.node {
                    addresses.address(far)
                } else {
                    wiring.addresses.loopback(change.node)
                };
                let goal = addresses.address(change.goal);
                let hops = [(change.hop.port, change.hop.far_port)];
                put(wiring, (goal, source), &hops, change.set, &mut batch)?;
            }
            send(nodes, run[0].node, &mut batch)?;
            requests += 1;
        }
        self.note(&prepared);
        self.held = prepared.held;
        Ok(requests)
    }

    /// Counts what was installed.
    fn note(&mut self, prepared: &PreparedPaths) {
        for (pair, (seen, paths)) in self.seen.iter_mut().zip(&prepared.found).enumerate() {
            if seen.told != paths.len() {
                seen.told = paths.len();
                self.news.push(PathsNews {
                    t_ns: match prepared.moment {
                        Moment::Step => prepared.t_ns,
                        Moment::Within(now_ns) => now_ns,
                    },
                    pair,
                    found: paths.len(),
                });
            }
            if prepared.moment != Moment::Step {
                continue;
            }
            let first = seen.steps_by_paths.iter().all(|steps| *steps == 0);
            seen.steps_by_paths[paths.len()] += 1;
            for (at, row) in seen.paths.iter_mut().enumerate() {
                let path = paths.get(at);
                let hops = path
                    .into_iter()
                    .flatten()
                    .map(|hop| (hop.port, hop.far_port));
                let hops: Vec<_> = hops.collect();
                row.changes += usize::from(!first && hops != row.hops);
                row.hops = hops;
                row.delays_ns.extend(path.map(|path| delay_ns(path) as f64));
            }
        }
    }

    /// Pairs that have more or fewer paths than when last asked.
    pub(crate) fn take_news(&mut self) -> Vec<PathsNews> {
        std::mem::take(&mut self.news)
    }

    /// What the steps came to.
    pub(crate) fn rows(&self, wiring: &Wiring) -> Vec<DisjointRow> {
        let name = |id| wiring.lab.layout.node(id).name.clone();
        let pairs = wiring.addresses.paths().pairs();
        let row = |(pair, seen): (&PathPair, &Seen)| DisjointRow {
            name: pair.name.clone(),
            between: pair.ends.map(name),
            steps_by_paths: seen.steps_by_paths.clone(),
            paths: seen.paths.iter().map(path_row).collect(),
        };
        pairs.iter().zip(&self.seen).map(row).collect()
    }
}

fn path_row(path: &SeenPath) -> DisjointPathRow {
    DisjointPathRow {
        changes: path.changes,
        delay_ns: Quantiles::of(&mut path.delays_ns.clone()),
    }
}
