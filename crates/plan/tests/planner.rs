//! Plans as values: the same on every machine, and cut into shares that make up the whole.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use constel_link::{EdgeChange, PortId};
use constel_plan::{
    Adjacency, Applier, Blueprint, EdgesApplied, FailedEdges, Lab, Planner, RouteDestination,
    RouteRow, RoutesApplied, RoutesPlan, StepPlan,
};
use constel_routing::graph::NextHop;
use constel_routing::{Graph, GroundTransit, Scratch};
use constel_topology::NodeId;
use proptest::prelude::*;

fn blueprint(file: &str, change: impl Fn(String) -> String) -> Arc<Blueprint> {
    let path = format!(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/{}"),
        file
    );
    let text = change(std::fs::read_to_string(&path).unwrap());
    let parsed = constel_scenario::parse(&path, &text).unwrap_or_else(|e| panic!("{e}"));
    let files = constel_scenario::DiskFiles::beside(&path);
    let scenario = constel_scenario::resolve(&parsed, &files).unwrap_or_else(|e| panic!("{e}"));
    let lab = Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"));
    Arc::new(Blueprint::new(lab).unwrap_or_else(|e| panic!("{e}")))
}

/// Shell I of Starlink, whose routes Constel computes.
fn shell1() -> Arc<Blueprint> {
    blueprint("starlink-shell1.yaml", |text| text)
}

/// Everything a machine's kernels hold.
#[derive(Debug, Clone, PartialEq, Default)]
struct Held {
    nodes: BTreeSet<NodeId>,
    edges: BTreeMap<(PortId, PortId), EdgeText>,
    neighbours: BTreeSet<(PortId, PortId)>,
    routes: BTreeMap<(NodeId, NodeId), Vec<NextHop>>,
}

/// The text of an edge: impairments hold floating-point numbers.
type EdgeText = String;

impl Applier for Held {
    type Error = Infallible;
    type Pending = Vec<EdgeChange>;

    fn start(&mut self, _: u64, _: &[EdgeChange]) -> Result<(), Infallible> {
        Ok(())
    }

    fn submit_edges(
        &mut self,
        changes: &[EdgeChange],
        _: Option<u64>,
    ) -> Result<Vec<EdgeChange>, Infallible> {
        Ok(changes.to_vec())
    }

    fn edges_applied(&mut self, changes: Vec<EdgeChange>) -> Result<EdgesApplied, Infallible> {
        for change in changes {
            if matches!(change, EdgeChange::Set { .. }) {
                let text = serde_json::to_string(&change).unwrap();
                self.edges.insert(change.edge(), text);
            } else {
                assert!(self.edges.remove(&change.edge()).is_some());
            }
        }
        Ok(EdgesApplied::default())
    }

    fn put_map(&mut self, _: &[RouteRow]) {}

    fn forget(&mut self, gone: &[Adjacency]) -> Result<(), Infallible> {
        for end in gone {
            assert!(self.neighbours.remove(&(end.port, end.far_port)));
        }
        Ok(())
    }

    fn learn(&mut self, come: &[Adjacency]) -> Result<(), Infallible> {
        let come = come.iter().map(|end| (end.port, end.far_port));
        self.neighbours.extend(come);
        Ok(())
    }

    fn install_routes(&mut self, routes: &RoutesPlan) -> Result<RoutesApplied, Infallible> {
        for row in &routes.rows {
            let RouteDestination::Node(to) = row.goal else {
                continue;
            };
            if row.set {
                self.routes.insert((row.node, to), row.hops().collect());
            } else {
                assert!(self.routes.remove(&(row.node, to)).is_some());
            }
        }
        Ok(RoutesApplied::default())
    }
}

impl Held {
    fn carry_out(&mut self, plan: &StepPlan) {
        self.nodes.extend(&plan.nodes.make);
        self.apply_now(plan).unwrap();
    }

    fn and(mut self, other: Held) -> Held {
        assert!(
            self.nodes.is_disjoint(&other.nodes),
            "a node has one machine"
        );
        self.nodes.extend(other.nodes);
        self.edges.extend(other.edges);
        self.neighbours.extend(other.neighbours);
        self.routes.extend(other.routes);
        self
    }
}

/// The plans of the first steps, and the failures of a link by hand in the middle.
fn plans(blueprint: &Arc<Blueprint>, steps: usize) -> Vec<StepPlan> {
    let mut planner = Planner::new(Arc::clone(blueprint));
    let mut failed = FailedEdges::default();
    let first = planner.first(&failed);
    let mut plans = vec![first.plan.clone()];
    planner.installed(first, &failed);
    for number in 1..steps {
        if number == steps / 2 {
            let edge = &planner.current().edges[0];
            failed.set((edge.from, edge.to), true);
            failed.set((edge.to, edge.from), true);
        }
        let mut step = planner.advance();
        planner.route(&mut step, &failed);
        plans.push(step.plan.clone());
        planner.installed(step, &failed);
    }
    plans
}

fn bytes(plan: &StepPlan) -> String {
    serde_json::to_string(plan).unwrap()
}

/// As two machines will: each plans the whole by itself, byte for byte the same, and makes its half of the kernels equal
/// it. Together they hold what one machine would.
#[test]
fn two_appliers_make_the_halves_of_shell_one_equal_the_same_plan() {
    let (here, there) = (shell1(), shell1());
    let plans_here = plans(&here, 8);
    let plans_there = plans(&there, 8);
    let layout = &here.lab.layout;
    assert!(layout.nodes().len() > 1584);
    // Planes alternate; nodes on the ground go by their number.
    let first = |node: NodeId| {
        let seat = layout.node(node).seat;
        seat.map_or(node.0 % 2, |seat| u32::from(seat.plane) % 2) == 0
    };
    let (mut one, mut a, mut b) = (Held::default(), Held::default(), Held::default());
    for (plan, same) in plans_here.iter().zip(&plans_there) {
        assert_eq!(bytes(plan), bytes(same), "step {}", plan.step);
        let read: StepPlan = serde_json::from_str(&bytes(plan)).unwrap();
        assert_eq!(read, *plan, "a plan comes back from its text");
        one.carry_out(plan);
        a.carry_out(&plan.share(layout, first));
        b.carry_out(&same.share(layout, |node| !first(node)));
    }
    assert!(a.nodes.len() > 700 && b.nodes.len() > 700);
    assert!(!a.edges.is_empty() && !b.routes.is_empty());
    assert_eq!(a.and(b), one);
}

#[test]
fn a_plan_that_is_thrown_away_leaves_no_trace() {
    let blueprint = blueprint("iridium.yaml", |text| {
        let text = text.replace("mode: bird", "mode: computed");
        text.replace("  ospf: {hello: 1 s, dead: 4 s}\n", "")
    });
    let failed = FailedEdges::default();
    let mut planner = Planner::new(blueprint);
    let first = planner.first(&failed);
    planner.installed(first, &failed);
    assert!(planner.within(0, &failed).is_none(), "nothing has changed");
    let mut broken = failed.clone();
    let edge = planner.current().edges[0];
    broken.set((edge.from, edge.to), true);
    broken.set((edge.to, edge.from), true);
    let once = planner.within(0, &broken).unwrap();
    let again = planner.within(0, &broken).unwrap();
    assert_eq!(once.plan, again.plan);
    assert!(!once.plan.is_empty());
    planner.installed_within(again);
    assert!(planner.within(0, &broken).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// However nodes are dealt to machines, each row of a plan is carried out by exactly one of them, in the plan's order.
    #[test]
    fn shares_make_up_the_whole(machines in 1_u32..6, salt in any::<u32>()) {
        let blueprint = blueprint("iridium.yaml", |text| text);
        let layout = &blueprint.lab.layout;
        let machine = |node: NodeId| node.0.wrapping_mul(2_654_435_761).wrapping_add(salt) % machines;
        for plan in plans(&blueprint, 4) {
            let shares: Vec<StepPlan> = (0..machines)
                .map(|m| plan.share(layout, |node| machine(node) == m))
                .collect();
            let count = |rows: fn(&StepPlan) -> usize| shares.iter().map(rows).sum::<usize>();
            prop_assert_eq!(count(|p| p.edges.len()), plan.edges.len());
            prop_assert_eq!(count(|p| p.learn.len()), plan.learn.len());
            prop_assert_eq!(count(|p| p.forget.len()), plan.forget.len());
            prop_assert_eq!(count(|p| p.routes.len()), plan.routes.len());
            prop_assert_eq!(count(|p| p.nodes.make.len()), plan.nodes.make.len());
            for share in &shares {
                let order: Vec<_> = plan.edges.iter().filter(|c| share.edges.contains(c)).collect();
                prop_assert_eq!(order, share.edges.iter().collect::<Vec<_>>());
                prop_assert!(share.routes.first <= share.routes.rows.len());
            }
        }
    }
}

/// The routes of a step equal a search of its links; with a link failed by hand, or routes by hops, they are not used.
#[test]
fn the_least_delay_is_known_from_the_routes_of_the_step() {
    let by_delay = shell1();
    let layout = &by_delay.lab.layout;
    let mut failed = FailedEdges::default();
    let mut planner = Planner::new(Arc::clone(&by_delay));
    let first = planner.first(&failed);
    planner.installed(first, &failed);
    let stations: Vec<NodeId> = layout
        .nodes()
        .iter()
        .filter(|n| n.class.endpoint)
        .map(|n| n.id)
        .collect();
    for round in 0..3 {
        let snapshot = Arc::clone(planner.current());
        let graph = Graph::new(layout, &snapshot, GroundTransit::Never);
        for to in stations.iter().step_by(7) {
            let found = graph.tree(*to, &mut Scratch::default()).distance_ns;
            for from in (0..layout.nodes().len() as u32).map(NodeId).step_by(11) {
                let found = found[from.index()];
                let found = Some(found).filter(|ns| *ns != constel_routing::UNREACHABLE);
                assert_eq!(
                    planner.least_delay_ns(from, *to),
                    Some(found),
                    "round {round}"
                );
            }
        }
        let mut step = planner.advance();
        planner.route(&mut step, &failed);
        planner.installed(step, &failed);
    }
    // No route leads to a satellite.
    let satellite = layout
        .nodes()
        .iter()
        .find(|n| !n.class.endpoint)
        .unwrap()
        .id;
    assert_eq!(planner.least_delay_ns(stations[0], satellite), None);
    let edge = planner.current().edges[0];
    failed.set((edge.from, edge.to), true);
    let mut step = planner.advance();
    planner.route(&mut step, &failed);
    planner.installed(step, &failed);
    assert_eq!(planner.least_delay_ns(stations[0], stations[1]), None);

    let by_hops = blueprint("starlink-shell1.yaml", |text| {
        text.replace("mode: computed", "mode: computed\n  metric: hops")
    });
    let mut planner = Planner::new(by_hops);
    let first = planner.first(&FailedEdges::default());
    planner.installed(first, &FailedEdges::default());
    assert_eq!(planner.least_delay_ns(stations[0], stations[1]), None);
}
