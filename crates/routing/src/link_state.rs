//! Orbit-aware link state: every node routes by the predicted sky, and messages contain only the deviations.
//!
//! After OPSPF (Pan et al., "OPSPF: orbit prediction shortest path first routing for resilient LEO satellite networks", ICC
//! 2019): as the orbits are known, every node computes the topology of every moment by itself, so predicted changes need no
//! messages. Only unexpected changes are advertised. This implementation keeps these parts:
//!
//! - When a predicted link fails at a node, or an unpredicted one works, the node detects it after a fixed time and
//!   *originates* a link-state advertisement (LSA): all its links that deviate from the prediction, with a sequence number.
//!   It replaces the node's former LSAs. A repair is another LSA.
//! - LSAs are *flooded*: a node that receives a newer one puts it into its link-state database (LSDB). After a fixed
//!   processing time it sends the LSA over all its links but the one it came by. A hop takes the link's delay and that time.
//! - A node's view is the predicted topology with the LSAs in its database. A link that one end reports gone is gone. An
//!   unpredicted link must be in the LSAs of both ends (OSPF's two-way check). Routes are shortest paths in the view.
//! - With a limit, LSAs stop after this number of hops from their origin (the question of Shan et al., "Routing in LEO
//!   satellite networks: how many link-state updates do we need?", 2023). Nodes beyond the limit route as predicted, and
//!   packets that they send towards the failure may come back to them: loops are possible as long as the failure lasts.
//! - Without a limit, nodes that come into reach of each other send the LSAs that the other's database lacks, as in OSPF's
//!   database exchange.
//!
//! Hello packets, acknowledgements, retransmissions and ages are left out. LSAs are counted and take the links' delays, but
//! are not packets: they have no queueing and no loss. Nodes agree on the predicted sky exactly.
//!
//! Views differ while an LSA spreads, so packets can loop until it has reached all nodes. That is inherent in link-state
//! routing, and the guarantee of [`Routes::changes_from`] holds for one common view only.

use crate::graph::{Graph, GroundTransit};
use crate::routes::{Routes, Rule};
use constel_link::PortId;
use constel_topology::{Layout, NodeId, Snapshot};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

type EdgeKey = (PortId, PortId);

/// A link-state advertisement: the deviations from the prediction of the edges that leave a node. Empty if there is no
/// deviation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Lsa {
    /// Predicted links that do not exist.
    gone: Vec<EdgeKey>,
    /// Unpredicted links that exist.
    new: Vec<EdgeKey>,
}

/// How long things take, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaction {
    /// From a change of a link until its ends detect it.
    pub detect_ns: u64,
    /// From receiving an LSA until it is sent on and the routes follow.
    pub processing_ns: u64,
    /// How many hops an LSA goes at most; `None`: to all.
    pub reach_hops: Option<u32>,
}

/// How many LSAs there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct LsaCount {
    /// LSAs that nodes originated.
    pub originated: u64,
    /// Times that an LSA was sent over one direction of a link.
    pub sent: u64,
}

/// The content of a node's database without empty LSAs: originators and sequence numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LsdbDigest(Vec<(NodeId, u32)>);

/// An LSA in transit: the time when it is processed, the receiver, its originator and its sequence number.
type Arrival = Reverse<(u64, NodeId, NodeId, u32)>;

/// Number of old LSAs at which a node forgets the unused ones.
const FORGETS_AT: usize = 64;

/// The LSAs of a node: the latest one, and those that some node still has or that are in transit.
#[derive(Debug, Clone, Default)]
struct Originated {
    /// By their sequence numbers, which count from 0.
    lsas: BTreeMap<u32, Lsa>,
    /// Old ones are looked for when there are more than this.
    many: usize,
}

impl Originated {
    fn latest(&self) -> Option<(u32, &Lsa)> {
        self.lsas
            .last_key_value()
            .map(|(sequence, lsa)| (*sequence, lsa))
    }
}

/// The LSAs of all nodes, and each node's database. Time is an argument.
#[derive(Debug, Clone)]
pub struct LinkStateProtocol {
    reaction: Reaction,
    originated: BTreeMap<NodeId, Originated>,
    /// Each node's database: the sequence number of the latest LSA it has of each other.
    databases: Vec<BTreeMap<NodeId, u32>>,
    arrivals: BinaryHeap<Arrival>,
    count: LsaCount,
}

impl LinkStateProtocol {
    /// Creates the state without deviations from the prediction.
    #[must_use]
    pub fn new(layout: &Layout, reaction: Reaction) -> LinkStateProtocol {
        LinkStateProtocol {
            reaction,
            originated: BTreeMap::new(),
            databases: vec![BTreeMap::new(); layout.nodes().len()],
            arrivals: BinaryHeap::new(),
            count: LsaCount::default(),
        }
    }

    /// Returns the number of LSAs so far, with those in transit.
    #[must_use]
    pub fn lsa_count(&self) -> LsaCount {
        self.count
    }

    /// Compares the actual topology at `now_ns` with the predicted one. Nodes at which the difference has changed originate
    /// LSAs, which are flooded over the existing edges. LSAs that some database lacks and can now receive are sent too.
    /// Times are lab time, nanoseconds.
    pub fn detect(&mut self, layout: &Layout, foreseen: &Snapshot, actual: &Snapshot, now_ns: u64) {
        let mut lsas = differences(layout, foreseen, actual);
        // The end of a deviation needs an LSA too.
        for origin in self.originated.keys() {
            lsas.entry(*origin).or_default();
        }
        let detected_ns = now_ns + self.reaction.detect_ns;
        let adjacent = Adjacent::new(layout, actual);
        for (origin, lsa) in lsas {
            let own = self.originated.entry(origin).or_default();
            let (next, known) = match own.latest() {
                Some((sequence, latest)) => (sequence + 1, *latest == lsa),
                None => (0, lsa == Lsa::default()),
            };
            if known {
                continue;
            }
            own.lsas.insert(next, lsa);
            let sequence = next;
            if own.lsas.len() > own.many.max(FORGETS_AT) {
                self.forget(origin);
            }
            self.count.originated += 1;
            self.flood(&adjacent, &[(origin, detected_ns)], (origin, sequence));
        }
        if self.reaction.reach_hops.is_none() {
            self.exchange_databases(&adjacent, detected_ns);
        }
    }

    /// Forgets a node's LSAs that no node has, that are not in transit, and that are not the latest.
    fn forget(&mut self, origin: NodeId) {
        let held = self
            .databases
            .iter()
            .filter_map(|database| database.get(&origin));
        let arrivals = self.arrivals.iter();
        let under_way =
            arrivals.filter_map(|Reverse((_, _, o, sequence))| (*o == origin).then_some(sequence));
        let wanted: BTreeSet<u32> = held.chain(under_way).copied().collect();
        let own = self.originated.entry(origin).or_default();
        let latest = own.latest().map(|(sequence, _)| sequence);
        own.lsas
            .retain(|sequence, _| wanted.contains(sequence) || Some(*sequence) == latest);
        // Not again for every one, where many are wanted.
        own.many = 2 * own.lsas.len();
    }

    /// Sends the latest LSAs that databases lack, and that are not in transit, from nodes that have them.
    fn exchange_databases(&mut self, adjacent: &Adjacent, at_ns: u64) {
        let arrivals = self.arrivals.iter();
        let spreading: BTreeSet<NodeId> = arrivals.map(|Reverse((_, _, o, _))| *o).collect();
        let latest: Vec<(NodeId, u32)> = self
            .originated
            .iter()
            .filter(|(origin, _)| !spreading.contains(origin))
            .filter_map(|(origin, own)| Some((*origin, own.latest()?.0)))
            .collect();
        for (origin, sequence) in latest {
            let nodes = (0..).map(NodeId).zip(&self.databases);
            let holders: Vec<(NodeId, u64)> = nodes
                .filter(|(_, database)| database.get(&origin) == Some(&sequence))
                .map(|(node, _)| (node, at_ns))
                .collect();
            if holders.len() < self.databases.len() {
                self.flood(adjacent, &holders, (origin, sequence));
            }
        }
    }

    /// Sends an LSA on from nodes that have it at a time, to all that can be reached and have not.
    fn flood(
        &mut self,
        adjacent: &Adjacent,
        from: &[(NodeId, u64)],
        (origin, sequence): (NodeId, u32),
    ) {
        let most = self.reaction.reach_hops.unwrap_or(u32::MAX);
        let sources: BTreeMap<NodeId, u64> = from.iter().copied().collect();
        // When it is received first, and after how many hops.
        let mut best: BTreeMap<NodeId, (u64, u32)> =
            from.iter().map(|(node, at)| (*node, (*at, 0))).collect();
        let mut open: BinaryHeap<Reverse<(u64, u32, NodeId)>> = from
            .iter()
            .map(|(node, at)| Reverse((*at, 0, *node)))
            .collect();
        while let Some(Reverse((at_ns, hops, node))) = open.pop() {
            if (at_ns, hops) > best[&node] || hops == most {
                continue;
            }
            for &(peer, delay_ns) in adjacent.of(node) {
                let received = (at_ns + delay_ns + self.reaction.processing_ns, hops + 1);
                if best.get(&peer).is_none_or(|known| received < *known) {
                    best.insert(peer, received);
                    open.push(Reverse((received.0, received.1, peer)));
                }
            }
        }
        let whole = from.iter().map(|(node, _)| *node).eq([origin]);
        for (node, (at_ns, hops)) in best {
            let source = sources.contains_key(&node);
            if whole || !source {
                self.arrivals.push(Reverse((at_ns, node, origin, sequence)));
            }
            let links = adjacent.of(node).len() as u64;
            self.count.sent += match (whole, source) {
                // The first receiver sends it over all links but the one it came by.
                (true, true) => links,
                (true, false) if hops == most => 0,
                (true, false) => links.saturating_sub(1),
                // Databases are compared first, so only missing LSAs are sent.
                (false, true) => 0,
                (false, false) => 1,
            };
        }
    }

    /// Returns the time when the next LSA is processed, or `None` if none is in transit.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.arrivals.peek().map(|Reverse((at_ns, ..))| *at_ns)
    }

    /// Handles all LSAs that have arrived by `now_ns`. True when some node's database has changed.
    pub fn receive(&mut self, now_ns: u64) -> bool {
        let mut changed = false;
        while let Some(Reverse((at_ns, node, origin, sequence))) = self.arrivals.peek().copied() {
            if at_ns > now_ns {
                break;
            }
            self.arrivals.pop();
            let database = &mut self.databases[node.index()];
            if database.get(&origin).is_none_or(|held| *held < sequence) {
                database.insert(origin, sequence);
                changed = true;
            }
        }
        changed
    }

    /// Returns every node's routes by its own view. `known` keeps the results: the routes of earlier views with the same
    /// topologies, destinations and rule.
    #[must_use]
    pub fn routes(
        &self,
        layout: &Layout,
        (foreseen, actual): (&Snapshot, &Snapshot),
        destinations: &[NodeId],
        rule: Rule,
        known: &mut BTreeMap<LsdbDigest, Routes>,
    ) -> Routes {
        // Nodes with the same database have the same view, and an empty LSA changes none.
        let mut views: BTreeMap<LsdbDigest, Vec<NodeId>> = BTreeMap::new();
        for (node, database) in (0..).map(NodeId).zip(&self.databases) {
            let counts = |(origin, sequence): (&NodeId, &u32)| {
                let lsa = &self.originated[origin].lsas[sequence];
                (*lsa != Lsa::default()).then_some((*origin, *sequence))
            };
            let digest = LsdbDigest(database.iter().filter_map(counts).collect());
            views.entry(digest).or_default().push(node);
        }
        for digest in views
            .keys()
            .filter(|digest| !known.contains_key(digest))
            .cloned()
            .collect::<Vec<_>>()
        {
            let view = self.view(foreseen, actual, &digest.0);
            let graph = Graph::new(layout, &view, GroundTransit::Never);
            known.insert(digest, Routes::compute_by(&graph, destinations, rule));
        }
        let parts = views
            .iter()
            .map(|(digest, nodes)| (&known[digest], nodes.as_slice()));
        Routes::mixed(parts)
    }

    /// Returns the topology in the view of a node with these LSAs.
    fn view(&self, foreseen: &Snapshot, actual: &Snapshot, held: &[(NodeId, u32)]) -> Snapshot {
        let mut view = Snapshot {
            step: foreseen.step,
            t_ns: foreseen.t_ns,
            edges: foreseen.edges.clone(),
            ..Snapshot::default()
        };
        let lsas = || held.iter().map(|(o, n)| &self.originated[o].lsas[n]);
        let gone: BTreeSet<EdgeKey> = lsas()
            .flat_map(|lsa| lsa.gone.iter().copied())
            .flat_map(|(from, to)| [(from, to), (to, from)])
            .collect();
        let new: BTreeSet<EdgeKey> = lsas().flat_map(|lsa| lsa.new.iter().copied()).collect();
        view.edges.retain(|e| !gone.contains(&(e.from, e.to)));
        let both = new
            .iter()
            .filter(|(from, to)| new.contains(&(*to, *from)))
            // Advertised by now, but gone again: nothing is known of its delay.
            .filter_map(|(from, to)| actual.edge(*from, *to));
        view.edges.extend(both);
        view.edges.sort_by_key(|e| (e.from, e.to));
        view.edges.dedup_by_key(|e| (e.from, e.to));
        view
    }
}

/// Returns the deviations of the actual topology from the predicted one, by the node at the edges' near end.
fn differences(layout: &Layout, foreseen: &Snapshot, actual: &Snapshot) -> BTreeMap<NodeId, Lsa> {
    let mut found: BTreeMap<NodeId, Lsa> = BTreeMap::new();
    let near = |(from, _): EdgeKey| layout.port(from).node;
    for key in foreseen.edges.iter().map(|e| (e.from, e.to)) {
        if actual.edge(key.0, key.1).is_none() {
            found.entry(near(key)).or_default().gone.push(key);
        }
    }
    for key in actual.edges.iter().map(|e| (e.from, e.to)) {
        if foreseen.edge(key.0, key.1).is_none() {
            found.entry(near(key)).or_default().new.push(key);
        }
    }
    found
}

/// Neighbours of each node over the edges that there are, with the delay of the step's start.
struct Adjacent {
    of: Vec<Vec<(NodeId, u64)>>,
}

impl Adjacent {
    fn new(layout: &Layout, snapshot: &Snapshot) -> Adjacent {
        let mut of = vec![Vec::new(); layout.nodes().len()];
        for e in &snapshot.edges {
            let (a, b) = (layout.port(e.from).node, layout.port(e.to).node);
            of[a.index()].push((b, e.impairment.delay.delay_ns));
        }
        Adjacent { of }
    }

    fn of(&self, node: NodeId) -> &[(NodeId, u64)] {
        &self.of[node.index()]
    }
}
