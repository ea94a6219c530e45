//! Orbit-aware link state: every node forwards by the sky as foreseen, and messages tell only what is otherwise.
//!
//! After OPSPF (Pan et al., "OPSPF: orbit prediction shortest path first routing for resilient LEO satellite networks",
//! ICC 2019): as the orbits are known, every node computes the topology of every moment by itself, so predicted
//! changes need no messages; only what nobody foresaw is told. What is kept of it here:
//!
//! - A node at which a link fails that was foreseen, or works that was not, notices so after a fixed time and
//!   *originates* a message with all its present surprises, numbered, in place of its former ones. A repair is one more.
//! - Messages are *flooded*: whoever hears a newer one keeps it, and after a fixed time for handling it sends it on over
//!   all its links but the one it came by. A hop takes the link's delay and that time.
//! - A node's view is the foreseen topology with the surprises it has heard of. A link that some end calls gone is gone;
//!   one that nobody foresaw must be told by both ends (OSPF's two-way check). Routes are shortest paths in the view.
//! - With a limit, messages end so many hops from where they began (the question of Shan et al., "Routing in LEO satellite
//!   networks: how many link-state updates do we need?", 2023). Nodes beyond forward as foreseen, and what
//!   they send towards the failure may come back to them: loops that last as long as the failure are possible.
//! - Without one, nodes that come into reach of each other pass on what the other has not heard, as when OSPF's databases are
//!   exchanged.
//!
//! Not kept: hello packets, acknowledgements, retransmissions and ages. Messages are counted and take the links' delays,
//! but are no packets: they meet no queue and no loss. Nodes agree on the predicted sky exactly.
//!
//! Views differ while a message spreads, so packets can go round until it has reached all: that is link-state
//! routing, and what [`Routes::changes_from`] promises holds for one common view only.

use crate::graph::{Graph, GroundTransit};
use crate::routes::{Routes, Rule};
use constel_link::PortId;
use constel_topology::{Layout, NodeId, Snapshot};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

type EdgeKey = (PortId, PortId);

/// What a node says of edges that leave it. Empty: all is as foreseen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Surprise {
    /// Foreseen, but not there.
    gone: Vec<EdgeKey>,
    /// There, but not foreseen.
    new: Vec<EdgeKey>,
}

/// How long things take, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaction {
    /// From a change of a link until its ends notice.
    pub detect_ns: u64,
    /// From hearing a message until it is sent on and the routes follow.
    pub processing_ns: u64,
    /// How many hops a message goes at most; `None`: to all.
    pub reach_hops: Option<u32>,
}

/// What telling the surprises took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Told {
    /// Messages that nodes made of their own surprises.
    pub originated: u64,
    /// Times that a message was sent over one direction of a link.
    pub sent: u64,
}

/// Which messages, of those that say something, a node has heard: whose, and their numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Heard(Vec<(NodeId, u32)>);

/// A message on its way: when it is handled, by whom, whose it is, and its number.
type Arrival = Reverse<(u64, NodeId, NodeId, u32)>;

/// What has been told, to whom. Time is an argument.
#[derive(Debug, Clone)]
pub struct Foresight {
    reaction: Reaction,
    /// Each node's messages, by their numbers from 0.
    said: BTreeMap<NodeId, Vec<Surprise>>,
    /// Of each node, the number of the latest message it has heard of each other.
    known: Vec<BTreeMap<NodeId, u32>>,
    arrivals: BinaryHeap<Arrival>,
    told: Told,
}

impl Foresight {
    /// Nothing is otherwise than foreseen.
    #[must_use]
    pub fn new(layout: &Layout, reaction: Reaction) -> Foresight {
        Foresight {
            reaction,
            said: BTreeMap::new(),
            known: vec![BTreeMap::new(); layout.nodes().len()],
            arrivals: BinaryHeap::new(),
            told: Told::default(),
        }
    }

    /// Messages so far, those under way included.
    #[must_use]
    pub fn told(&self) -> Told {
        self.told
    }

    /// Compares the topology of `now_ns` with the one foreseen: nodes whose surprises have changed originate
    /// messages, which will be heard over the edges that there are. What some node has not heard and now
    /// can is passed on too. Times are lab time, nanoseconds.
    pub fn notice(&mut self, layout: &Layout, foreseen: &Snapshot, actual: &Snapshot, now_ns: u64) {
        let mut surprises = surprises(layout, foreseen, actual);
        // What was otherwise and is so no longer is news as well.
        for origin in self.said.keys() {
            surprises.entry(*origin).or_default();
        }
        let noticed_ns = now_ns + self.reaction.detect_ns;
        let adjacent = Adjacent::new(layout, actual);
        for (origin, surprise) in surprises {
            let messages = self.said.entry(origin).or_default();
            if messages.last().cloned().unwrap_or_default() == surprise {
                continue;
            }
            messages.push(surprise);
            let number = messages.len() as u32 - 1;
            self.told.originated += 1;
            self.flood(&adjacent, &[(origin, noticed_ns)], (origin, number));
        }
        if self.reaction.reach_hops.is_none() {
            self.catch_up(&adjacent, noticed_ns);
        }
    }

    /// Latest messages that nodes lack and none is on its way with, from those that have them.
    fn catch_up(&mut self, adjacent: &Adjacent, at_ns: u64) {
        let arrivals = self.arrivals.iter();
        let spreading: BTreeSet<NodeId> = arrivals.map(|Reverse((_, _, o, _))| *o).collect();
        let latest: Vec<(NodeId, u32)> = self
            .said
            .iter()
            .filter(|(origin, _)| !spreading.contains(origin))
            .map(|(origin, messages)| (*origin, messages.len() as u32 - 1))
            .collect();
        for (origin, number) in latest {
            let nodes = (0..).map(NodeId).zip(&self.known);
            let holders: Vec<(NodeId, u64)> = nodes
                .filter(|(_, known)| known.get(&origin) == Some(&number))
                .map(|(node, _)| (node, at_ns))
                .collect();
            if holders.len() < self.known.len() {
                self.flood(adjacent, &holders, (origin, number));
            }
        }
    }

    /// Sends a message on from nodes that have it at a time, to all that can be reached and have not.
    fn flood(
        &mut self,
        adjacent: &Adjacent,
        from: &[(NodeId, u64)],
        (origin, number): (NodeId, u32),
    ) {
        let most = self.reaction.reach_hops.unwrap_or(u32::MAX);
        let sources: BTreeMap<NodeId, u64> = from.iter().copied().collect();
        // When it is heard first, and after how many hops.
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
                let heard = (at_ns + delay_ns + self.reaction.processing_ns, hops + 1);
                if best.get(&peer).is_none_or(|known| heard < *known) {
                    best.insert(peer, heard);
                    open.push(Reverse((heard.0, heard.1, peer)));
                }
            }
        }
        let whole = from.iter().map(|(node, _)| *node).eq([origin]);
        for (node, (at_ns, hops)) in best {
            let source = sources.contains_key(&node);
            if whole || !source {
                self.arrivals.push(Reverse((at_ns, node, origin, number)));
            }
            let links = adjacent.of(node).len() as u64;
            self.told.sent += match (whole, source) {
                // Whoever hears it first sends it on over all links but the one it came by.
                (true, true) => links,
                (true, false) if hops == most => 0,
                (true, false) => links.saturating_sub(1),
                // Databases are compared first: only what lacks is sent.
                (false, true) => 0,
                (false, false) => 1,
            };
        }
    }

    /// When the next message is handled; `None`: none is on its way.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.arrivals.peek().map(|Reverse((at_ns, ..))| *at_ns)
    }

    /// Handles all messages that have arrived by `now_ns`. True when some node's view has changed.
    pub fn hear(&mut self, now_ns: u64) -> bool {
        let mut changed = false;
        while let Some(Reverse((at_ns, node, origin, number))) = self.arrivals.peek().copied() {
            if at_ns > now_ns {
                break;
            }
            self.arrivals.pop();
            let known = &mut self.known[node.index()];
            if known.get(&origin).is_none_or(|known| *known < number) {
                known.insert(origin, number);
                changed = true;
            }
        }
        changed
    }

    /// Every node's routes by its own view. `known` keeps what was computed: the routes of views met before with the
    /// same topologies, destinations and rule.
    #[must_use]
    pub fn routes(
        &self,
        layout: &Layout,
        (foreseen, actual): (&Snapshot, &Snapshot),
        destinations: &[NodeId],
        rule: Rule,
        known: &mut BTreeMap<Heard, Routes>,
    ) -> Routes {
        // Nodes that have heard the same have the same view, and messages that say nothing make none.
        let mut views: BTreeMap<Heard, Vec<NodeId>> = BTreeMap::new();
        for (node, known) in (0..).map(NodeId).zip(&self.known) {
            let says = |(origin, number): (&NodeId, &u32)| {
                let surprise = &self.said[origin][*number as usize];
                (*surprise != Surprise::default()).then_some((*origin, *number))
            };
            let heard = Heard(known.iter().filter_map(says).collect());
            views.entry(heard).or_default().push(node);
        }
        for heard in views
            .keys()
            .filter(|heard| !known.contains_key(heard))
            .cloned()
            .collect::<Vec<_>>()
        {
            let view = self.view(foreseen, actual, &heard.0);
            let graph = Graph::new(layout, &view, GroundTransit::Never);
            known.insert(heard, Routes::compute_by(&graph, destinations, rule));
        }
        let parts = views
            .iter()
            .map(|(heard, nodes)| (&known[heard], nodes.as_slice()));
        Routes::mixed(parts)
    }

    /// The topology as it looks to a node that has heard these messages.
    fn view(&self, foreseen: &Snapshot, actual: &Snapshot, heard: &[(NodeId, u32)]) -> Snapshot {
        let mut view = Snapshot {
            step: foreseen.step,
            t_ns: foreseen.t_ns,
            edges: foreseen.edges.clone(),
            ..Snapshot::default()
        };
        let heard = || heard.iter().map(|(o, n)| &self.said[o][*n as usize]);
        let gone: BTreeSet<EdgeKey> = heard()
            .flat_map(|said| said.gone.iter().copied())
            .flat_map(|(from, to)| [(from, to), (to, from)])
            .collect();
        let new: BTreeSet<EdgeKey> = heard().flat_map(|said| said.new.iter().copied()).collect();
        view.edges.retain(|e| !gone.contains(&(e.from, e.to)));
        let both = new
            .iter()
            .filter(|(from, to)| new.contains(&(*to, *from)))
            // Told of by now, but gone again: nothing is known of its delay.
            .filter_map(|(from, to)| actual.edge(*from, *to));
        view.edges.extend(both);
        view.edges.sort_by_key(|e| (e.from, e.to));
        view.edges.dedup_by_key(|e| (e.from, e.to));
        view
    }
}

/// Where what is there differs from what was foreseen, by the node at the edges' near end.
fn surprises(
    layout: &Layout,
    foreseen: &Snapshot,
    actual: &Snapshot,
) -> BTreeMap<NodeId, Surprise> {
    let mut found: BTreeMap<NodeId, Surprise> = BTreeMap::new();
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
