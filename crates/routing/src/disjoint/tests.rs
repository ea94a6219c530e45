use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn nodes(path: &[PathHop]) -> Vec<u32> {
    let reached = path.iter().map(|hop| hop.to.0);
    path.iter()
        .take(1)
        .map(|hop| hop.from.0)
        .chain(reached)
        .collect()
}

fn found(graph: &Graph, to: u32, most: usize) -> Vec<Vec<u32>> {
    let paths = graph.disjoint(NodeId(0), NodeId(to), most);
    paths.iter().map(|path| nodes(path)).collect()
}

/// The shortest path, 0-1-2-3, uses a node of each of the only two that are disjoint.
const TRAP: &[(u32, u32, u64, u64)] = &[
    (0, 1, 1, 1),
    (1, 2, 1, 1),
    (2, 3, 1, 1),
    (0, 2, 5, 5),
    (1, 3, 6, 6),
];

#[test]
fn an_earlier_path_gives_way_to_a_pair() {
    let graph = Graph::of(4, TRAP, &[]);
    assert_eq!(found(&graph, 3, 1), [[0, 1, 2, 3]]);
    let two = [vec![0, 2, 3], vec![0, 1, 3]];
    assert_eq!(found(&graph, 3, 2), two);
    assert_eq!(found(&graph, 3, 8), two, "there are no more");
    assert_eq!(found(&graph, 0, 2), Vec::<Vec<u32>>::new());
}

#[test]
fn stations_are_passed_by_none_and_ends_may_be_neighbours() {
    let mut links = TRAP.to_vec();
    links.push((0, 3, 40, 40));
    let graph = Graph::of(4, &links, &[0, 1, 3]);
    assert_eq!(found(&graph, 3, 8), [vec![0, 2, 3], vec![0, 3]]);
    let graph = Graph::of(4, &links, &[0, 1, 2, 3]);
    assert_eq!(found(&graph, 3, 8), [[0, 3]]);
}

#[test]
fn equals_come_in_the_order_of_their_nodes() {
    let links = [(0, 2, 1, 1), (2, 3, 1, 1), (0, 1, 1, 1), (1, 3, 1, 1)];
    let graph = Graph::of(4, &links, &[]);
    assert_eq!(found(&graph, 3, 2), [[0, 1, 3], [0, 2, 3]]);
}

/// The plain reference: every simple path, and of every set of disjoint ones the largest of least delay.
struct All<'a> {
    graph: &'a Graph,
    to: u32,
    paths: Vec<(BTreeSet<u32>, usize, u64)>,
}

impl All<'_> {
    fn walk(&mut self, at: u32, first: usize, between: &BTreeSet<u32>, delay_ns: u64) {
        let ways: Vec<(usize, u32, u64)> = self
            .graph
            .ways_out(at)
            .map(|(number, arc)| (number, arc.peer, arc.delay_ns))
            .collect();
        for (number, peer, more_ns) in ways {
            // The first hop tells apart two links between the ends.
            let first = if at == 0 { number } else { first };
            let delay_ns = delay_ns + more_ns;
            if peer == self.to {
                self.paths.push((between.clone(), first, delay_ns));
            } else if peer != 0 && self.graph.is_transit(peer) && !between.contains(&peer) {
                let mut further = between.clone();
                further.insert(peer);
                self.walk(peer, first, &further, delay_ns);
            }
        }
    }

    /// The most paths, up to `most`, and their least delay: negated count first, so that less is better.
    fn best(&self, rest: usize, taken: &[usize], most: usize) -> (isize, u64) {
        let delay_ns = taken.iter().map(|&p| self.paths[p].2).sum();
        let mut best = (-(taken.len() as isize), delay_ns);
        if taken.len() < most {
            for p in rest..self.paths.len() {
                let (nodes, first, _) = &self.paths[p];
                let apart = |&other: &usize| {
                    let (others, other_first, _) = &self.paths[other];
                    first != other_first && nodes.is_disjoint(others)
                };
                if taken.iter().all(apart) {
                    let more: Vec<usize> = taken.iter().copied().chain([p]).collect();
                    best = best.min(self.best(p + 1, &more, most));
                }
            }
        }
        best
    }
}

/// How many nodes, links as for [`Graph::of`], and nodes that nothing passes.
type Small = (usize, Vec<(u32, u32, u64, u64)>, Vec<u32>);

fn small() -> impl Strategy<Value = Small> {
    (3_usize..=7).prop_flat_map(|nodes| {
        let node = 0..nodes as u32;
        let link = (node.clone(), node.clone(), 1_u64..9, 1_u64..9)
            .prop_filter("a link has two ends", |(a, b, _, _)| a != b);
        let links = prop::collection::vec(link, 2..=12);
        (Just(nodes), links, prop::collection::vec(node, 0..2))
    })
}

proptest! {
    #[test]
    fn as_many_as_there_are_and_none_shorter((n, links, ends_only) in small(), most in 1_usize..5) {
        let graph = Graph::of(n, &links, &ends_only);
        let to = n as u32 - 1;
        let paths = graph.disjoint(NodeId(0), NodeId(to), most);
        let mut seen = BTreeSet::new();
        let mut first_hops = BTreeSet::new();
        for path in &paths {
            let nodes = nodes(path);
            prop_assert_eq!((nodes[0], *nodes.last().unwrap()), (0, to));
            for hops in path.windows(2) {
                prop_assert_eq!(hops[0].to, hops[1].from);
            }
            for hop in path {
                let way = |(_, arc): (usize, &crate::graph::Arc)| (arc.peer, arc.port, arc.far_port, arc.delay_ns);
                let known = graph.ways_out(hop.from.0).map(way).collect::<Vec<_>>();
                prop_assert!(known.contains(&(hop.to.0, hop.port, hop.far_port, hop.delay_ns)));
            }
            for node in &nodes[1..nodes.len() - 1] {
                prop_assert!(seen.insert(*node), "{} is on two paths: {:?}", node, paths);
                prop_assert!(!ends_only.contains(node));
            }
            prop_assert!(first_hops.insert(path[0].port));
        }
        let delays: Vec<u64> = paths.iter().map(|path| delay_ns(path)).collect();
        prop_assert!(delays.is_sorted());
        let mut all = All { graph: &graph, to, paths: Vec::new() };
        all.walk(0, 0, &BTreeSet::new(), 0);
        let best = all.best(0, &[], most);
        prop_assert_eq!((-(paths.len() as isize), delays.iter().sum()), best);
    }
}
