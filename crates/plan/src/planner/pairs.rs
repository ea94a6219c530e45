//! Disjoint paths of pairs: computed at every step, planned as differences, and counted.

use constel_link::{PortId, Tally};
use constel_routing::disjoint::delay_ns;
use constel_routing::graph::PathHop;
use constel_routing::{Graph, PathChange, PathPair, PathRoutes};

use constel_topology::NodeId;

use super::moment::Moment;
use crate::blueprint::Blueprint;
use crate::step_plan::{RouteDestination, RouteRow};

/// The paths of all pairs: by pair, in order of delay.
type Found = Vec<Vec<Vec<PathHop>>>;

/// The routes to the ends of paths as planned last, and the statistics of the paths.
pub(super) struct Pairs {
    held: PathRoutes,
    seen: Vec<PairStatistics>,
    news: Vec<PathCountChange>,
}

/// The statistics of one pair.
#[derive(Debug, Clone, PartialEq)]
pub struct PairStatistics {
    /// The number of paths in the last report; at first the requested number.
    told: usize,
    /// The number of steps with each number of paths, from none to the requested number.
    pub steps_by_paths: Vec<usize>,
    /// The paths, in order of delay.
    pub paths: Vec<PathStatistics>,
}

/// The statistics of one path.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PathStatistics {
    hops: Vec<(PortId, PortId)>,
    /// The number of steps at which its nodes differed from those before.
    pub changes: usize,
    /// The one-way delay at the beginning of each step that had it, nanoseconds.
    pub delays_ns: Tally,
}

/// A change in the number of paths of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathCountChange {
    /// Lab time, nanoseconds.
    pub t_ns: u64,
    /// The pair's number.
    pub pair: usize,
    /// The present number of paths.
    pub found: usize,
}

/// The paths of a step and the changes that lead to them.
pub(super) struct PlannedPaths {
    t_ns: u64,
    moment: Moment,
    found: Found,
    held: PathRoutes,
    /// The changes, in the order that creates no loops.
    pub(super) changes: Vec<PathChange>,
}

impl Pairs {
    /// Creates the state; `None` when no pair has paths.
    pub(super) fn wanted(blueprint: &Blueprint) -> Option<Self> {
        let pairs = blueprint.addresses.paths().pairs();
        let seen = pairs.iter().map(|pair| PairStatistics {
            told: usize::from(pair.paths),
            steps_by_paths: vec![0; usize::from(pair.paths) + 1],
            paths: vec![PathStatistics::default(); usize::from(pair.paths)],
        });
        (!pairs.is_empty()).then(|| Self {
            held: PathRoutes::default(),
            seen: seen.collect(),
            news: Vec::new(),
        })
    }

    /// Computes the paths of a graph, whose step begins at `t_ns`, and the necessary changes.
    pub(super) fn plan(
        &self,
        blueprint: &Blueprint,
        graph: &Graph,
        t_ns: u64,
        moment: Moment,
    ) -> PlannedPaths {
        let pairs = blueprint.addresses.paths().pairs();
        let paths_of = |pair: &PathPair| {
            let [from, to] = pair.ends;
            graph.disjoint(from, to, usize::from(pair.paths))
        };
        let found: Found = pairs.iter().map(paths_of).collect();
        // Within a step, packets in flight still need the routes that a path has left.
        let (held, changes) = self.held.follow(pairs, &found, moment == Moment::Step);
        PlannedPaths {
            t_ns,
            moment,
            found,
            held,
            changes,
        }
    }

    /// Records that the plan is in the kernels, and counts it.
    pub(super) fn installed(&mut self, planned: PlannedPaths) {
        for (pair, (seen, paths)) in self.seen.iter_mut().zip(&planned.found).enumerate() {
            if seen.told != paths.len() {
                seen.told = paths.len();
                self.news.push(PathCountChange {
                    t_ns: match planned.moment {
                        Moment::Step => planned.t_ns,
                        Moment::Within(now_ns) => now_ns,
                    },
                    pair,
                    found: paths.len(),
                });
            }
            if planned.moment == Moment::Step {
                seen.count(paths);
            }
        }
        self.held = planned.held;
    }

    /// Returns the routes to ends of paths in a node's table.
    pub(super) fn rows_of(&self, node: NodeId) -> impl Iterator<Item = RouteRow> {
        let row = move |(end, hop)| RouteRow {
            node,
            goal: RouteDestination::Path(end),
            set: true,
            hop,
            others: Vec::new(),
        };
        self.held.of_node(node).map(row)
    }

    /// Returns the pairs whose number of paths changed since the last call.
    pub(super) fn take_news(&mut self) -> Vec<PathCountChange> {
        std::mem::take(&mut self.news)
    }

    /// Returns the statistics of each pair.
    pub(super) fn seen(&self) -> &[PairStatistics] {
        &self.seen
    }
}

impl PairStatistics {
    /// Counts one more step, with these paths.
    fn count(&mut self, paths: &[Vec<PathHop>]) {
        let first = self.steps_by_paths.iter().all(|steps| *steps == 0);
        self.steps_by_paths[paths.len()] += 1;
        for (at, row) in self.paths.iter_mut().enumerate() {
            let path = paths.get(at);
            let hops = path.into_iter().flatten();
            let hops: Vec<_> = hops.map(|hop| (hop.port, hop.far_port)).collect();
            row.changes += usize::from(!first && hops != row.hops);
            row.hops = hops;
            path.into_iter()
                .for_each(|path| row.delays_ns.record(delay_ns(path)));
        }
    }
}
