//! The step loop in virtual time, with an applier that records: no root, no kernel.

use super::*;
use crate::testing::{blueprint, computed_iridium, iridium, shipped};
use constel_link::{EdgeChange, EdgeUpdate, PortId};
use constel_plan::{EdgesApplied, RouteDestination, RouteRow, RoutesApplied, RoutesPlan};
use constel_topology::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Records the state of one machine's kernels, and the times of its updates.
struct Recorder {
    clock: Arc<LabClock>,
    zero_ns: u64,
    edges: BTreeSet<(PortId, PortId)>,
    neighbours: BTreeSet<(PortId, PortId)>,
    routes: BTreeMap<(NodeId, NodeId), Vec<PortId>>,
    /// Lab times at which updates of the edge table were due.
    due_ns: Vec<u64>,
    /// The update that is refused, counted from 1.
    refuses: Option<usize>,
    updates: usize,
}

impl Recorder {
    fn new(clock: &Arc<LabClock>) -> Self {
        Self {
            clock: Arc::clone(clock),
            zero_ns: 0,
            edges: BTreeSet::new(),
            neighbours: BTreeSet::new(),
            routes: BTreeMap::new(),
            due_ns: Vec::new(),
            refuses: None,
            updates: 0,
        }
    }
}

impl Applier for Recorder {
    type Error = String;
    type Pending = (Vec<EdgeChange>, Option<u64>);

    fn start(&mut self, zero_ns: u64, glide: &[EdgeChange]) -> Result<(), String> {
        self.zero_ns = zero_ns;
        let edges: BTreeSet<_> = glide.iter().map(EdgeChange::edge).collect();
        assert_eq!(edges, self.edges, "what glides is what is there");
        Ok(())
    }

    fn submit_edges(
        &mut self,
        changes: &[EdgeChange],
        at_ns: Option<u64>,
    ) -> Result<Self::Pending, String> {
        self.updates += 1;
        if self.refuses == Some(self.updates) {
            return Err(format!("update {} refused", self.updates));
        }
        self.due_ns.extend(at_ns);
        Ok((changes.to_vec(), at_ns))
    }

    fn edges_applied(&mut self, (changes, at_ns): Self::Pending) -> Result<EdgesApplied, String> {
        if let (Some(at_ns), Some(now_ns)) = (at_ns, self.clock.now_ns()) {
            assert!(now_ns >= at_ns, "nothing takes effect before its time");
        }
        for change in changes {
            match change {
                EdgeChange::Set { from, to, .. } => drop(self.edges.insert((from, to))),
                EdgeChange::Remove { from, to } => assert!(self.edges.remove(&(from, to))),
            }
        }
        Ok(EdgesApplied::default())
    }

    fn put_map(&mut self, _: &[RouteRow]) {}

    fn forget(&mut self, gone: &[Adjacency]) -> Result<(), String> {
        for end in gone {
            assert!(self.neighbours.remove(&(end.port, end.far_port)));
        }
        Ok(())
    }

    fn learn(&mut self, come: &[Adjacency]) -> Result<(), String> {
        self.neighbours
            .extend(come.iter().map(|end| (end.port, end.far_port)));
        Ok(())
    }

    fn install_routes(&mut self, routes: &RoutesPlan) -> Result<RoutesApplied, String> {
        for row in &routes.rows {
            let RouteDestination::Node(destination) = row.goal else {
                return Err("no pairs in this lab".to_owned());
            };
            let key = (row.node, destination);
            let hops: Vec<PortId> = row.hops().map(|hop| hop.port).collect();
            if row.set {
                self.routes.insert(key, hops);
            } else {
                assert_eq!(self.routes.remove(&key), Some(hops), "named whole");
            }
        }
        Ok(RoutesApplied {
            requests: routes.len(),
            stood_ns: self.clock.machine_ns(),
        })
    }
}

fn steps(text: &str, refuses: Option<usize>) -> Steps<Recorder> {
    let clock = Arc::new(LabClock::held_virtual());
    let planner = Planner::new(Arc::new(blueprint(text)));
    let recorder = Recorder {
        refuses,
        ..Recorder::new(&clock)
    };
    Steps::new(planner, recorder, clock, Arc::default())
}

/// Runs lab time until `end_ns`.
fn run(steps: &mut Steps<Recorder>, end_ns: u64) -> Result<(), String> {
    steps.begin_held()?;
    let zero = steps.clock.machine_ns();
    steps.release(zero)?;
    steps.clock.start(zero);
    let step_ns = steps.planner.blueprint().lab.step_ns();
    while steps.current().t_ns + step_ns < end_ns {
        let next = steps.prepare();
        assert!(steps.take_effect(next, |_| false)?);
    }
    Ok(())
}

const MINUTE_NS: u64 = 60_000_000_000;

/// After a minute of lab time the recorder holds just what the topology of that moment has, and a link plane's own table
/// would have taken every update.
#[test]
fn iridium_runs_a_minute_without_a_kernel() {
    let mut steps = steps(&shipped("iridium"), None);
    run(&mut steps, MINUTE_NS).unwrap();
    let current = Arc::clone(steps.current());
    assert_eq!(
        current.t_ns,
        MINUTE_NS - steps.planner.blueprint().lab.step_ns()
    );
    assert_eq!(steps.times.lateness_ns.count(), current.step);
    let held: BTreeSet<_> = current.edges.iter().map(|e| (e.from, e.to)).collect();
    assert_eq!(steps.applier.edges, held);
    let layout = &steps.planner.blueprint().lab.layout;
    let served = |e: &&constel_topology::Edge| layout.far_port(e.from).is_none();
    let served: BTreeSet<_> = current
        .edges
        .iter()
        .filter(served)
        .map(|e| (e.from, e.to))
        .collect();
    assert_eq!(steps.applier.neighbours, served);
    let due = &steps.applier.due_ns;
    assert!(
        due.windows(2).all(|two| two[0] <= two[1]),
        "in order: {due:?}"
    );
}

/// Routes by diffs equal those of a planner that begins again.
#[test]
fn computed_routes_follow_by_diffs() {
    let mut steps = steps(&computed_iridium(), None);
    run(&mut steps, MINUTE_NS).unwrap();
    let blueprint = steps.planner.blueprint();
    let graph = constel_routing::Graph::new(
        &blueprint.lab.layout,
        steps.current(),
        constel_routing::GroundTransit::Never,
    );
    let stations: BTreeSet<NodeId> = steps.applier.routes.keys().map(|(_, to)| *to).collect();
    let goals: Vec<NodeId> = stations.into_iter().collect();
    let fresh = constel_routing::Routes::compute(&graph, &goals);
    assert!(goals.len() > 10);
    for node in blueprint.lab.layout.nodes() {
        for goal in &goals {
            let wanted = fresh.next_hop(node.id, *goal).map(|hop| vec![hop.port]);
            let held = steps.applier.routes.get(&(node.id, *goal)).cloned();
            assert_eq!(held, wanted, "{} to {goal}", node.name);
        }
    }
}

/// A link failed by hand is routed round within the step, and its routes come back.
#[test]
fn failures_by_hand_are_planned_within_a_step() {
    let mut steps = steps(&computed_iridium(), None);
    run(&mut steps, 2_000_000_000).unwrap();
    let before = steps.applier.routes.clone();
    let used = before.values().next().unwrap()[0];
    let layout = Arc::clone(&steps.planner.blueprint().lab.layout);
    let far = steps.current().edges_from(used)[0].to;
    let set = |failed| [((used, far), failed), ((far, used), failed)];
    steps.failed.set("a-b", 0, set(true));
    steps.route_round_failures().unwrap();
    let node = layout.port(used).node;
    let around =
        |((at, _), hops): (&(NodeId, NodeId), &Vec<PortId>)| *at != node || hops[0] != used;
    assert!(steps.applier.routes.iter().all(around));
    steps.failed.set("a-b", 0, set(false));
    steps.route_round_failures().unwrap();
    assert_eq!(steps.applier.routes, before);
}

/// A refusal of a machine ends the run, and the planner does not count the step as done.
#[test]
fn a_refused_update_is_an_error_and_leaves_the_plan_where_it_was() {
    let mut steps = steps(&shipped("iridium"), Some(5));
    let error = run(&mut steps, MINUTE_NS).unwrap_err();
    assert_eq!(error, "update 5 refused");
    // The first is that of lab time zero.
    assert_eq!(steps.current().step, 3);
}

/// Every update is sound for a table of the link plane.
#[test]
fn a_link_planes_table_takes_every_update() {
    let blueprint = Arc::new(iridium());
    let ports = u32::try_from(blueprint.lab.layout.ports().len()).unwrap();
    let mut planner = Planner::new(blueprint);
    let failed = constel_plan::FailedEdges::default();
    let first = planner.first(&failed);
    let check = |changes: &[EdgeChange]| {
        let update = EdgeUpdate {
            changes: changes.to_vec(),
        };
        update.check(ports).map(|_| ())
    };
    check(&first.plan.edges).unwrap();
    planner.installed(first, &failed);
    for _ in 0..20 {
        let mut step = planner.advance();
        planner.route(&mut step, &failed);
        check(&step.plan.edges).unwrap();
        planner.installed(step, &failed);
    }
}
