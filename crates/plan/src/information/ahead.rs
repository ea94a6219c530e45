//! The future of a lab's links and positions as the orbits foresee it, for `orbit.json` and `contacts.json`.
//!
//! Failures, changes by hand and decisions of live policies are not foreseen: a node could not know them either.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use constel_link::PortId;
use constel_topology::{Layout, NodeId, Snapshot, Stepper};

use crate::Lab;
use crate::information::{ComingContact, Contacts, Orbit, Place, Scope, Stamp, Track, VERSION};

/// The number of positions that a node has within the time that it looks ahead.
const PLACES: u64 = 120;

/// A link's time, as far as it is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from_ns: u64,
    to_ns: u64,
    delay_min_ns: u64,
    delay_max_ns: u64,
}

/// The coming contacts and positions from now on, which advance with lab time.
pub struct Foresight {
    layout: Arc<Layout>,
    stepper: Stepper,
    step_ns: u64,
    /// The time that is seen from now on.
    ahead_ns: u64,
    /// The time between two positions: a whole number of steps.
    every_ns: u64,
    /// The nodes whose positions are kept.
    nodes: Vec<NodeId>,
    now_ns: u64,
    /// The end of the time that is seen.
    seen_ns: u64,
    /// Contacts that go on at that end.
    open: BTreeMap<(PortId, PortId), Span>,
    /// Contacts that end before, by their end.
    closed: VecDeque<((PortId, PortId), Span)>,
    /// Positions of the nodes, metres; `None` for a satellite without one.
    places: VecDeque<(u64, Vec<Option<[f64; 3]>>)>,
    /// Memory for the next step.
    snapshot: Snapshot,
}

impl Foresight {
    /// Creates it at lab time zero, for documents that look `ahead_ns` ahead at least, about these nodes' positions. The nodes are in
    /// the order of their numbers.
    #[must_use]
    pub fn new(lab: &Lab, ahead_ns: u64, nodes: Vec<NodeId>) -> Self {
        let step_ns = lab.step_ns();
        let mut foresight = Self {
            layout: Arc::clone(&lab.layout),
            stepper: lab.stepper().foreseen(),
            step_ns,
            // Documents are renewed after half of the time that they look ahead.
            ahead_ns: ahead_ns + ahead_ns / 2,
            every_ns: (ahead_ns / PLACES / step_ns).max(1) * step_ns,
            nodes,
            now_ns: 0,
            seen_ns: 0,
            open: BTreeMap::new(),
            closed: VecDeque::new(),
            places: VecDeque::new(),
            snapshot: Snapshot::default(),
        };
        foresight.advance(0);
        foresight
    }

    /// Advances to lab time `now_ns`: looks as far ahead from there, and forgets the past. Costs about as much as the steps in
    /// between.
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns.max(self.now_ns);
        while self.seen_ns < self.now_ns + self.ahead_ns {
            self.look();
        }
        while self
            .closed
            .front()
            .is_some_and(|(_, span)| span.to_ns <= self.now_ns)
        {
            self.closed.pop_front();
        }
        while self
            .places
            .get(1)
            .is_some_and(|(t_ns, _)| *t_ns <= self.now_ns)
        {
            self.places.pop_front();
        }
    }

    /// Computes one more step.
    fn look(&mut self) {
        self.stepper.advance_into(&mut self.snapshot);
        let (t_ns, end_ns) = (self.snapshot.t_ns, self.snapshot.t_ns + self.step_ns);
        for edge in &self.snapshot.edges {
            let up_ns = edge.impairment.up_from_ns.max(t_ns);
            // Both directions of a link are edges; one of them represents it.
            if edge.from > edge.to || up_ns >= end_ns {
                continue;
            }
            let delay = edge.impairment.delay;
            let delays = [delay.at(up_ns), delay.at(end_ns)];
            let [least, most] = [delays[0].min(delays[1]), delays[0].max(delays[1])];
            let new = Span {
                from_ns: up_ns,
                to_ns: end_ns,
                delay_min_ns: least,
                delay_max_ns: most,
            };
            let key = (edge.from, edge.to);
            let span = self.open.entry(key).or_insert(new);
            if span.to_ns == up_ns {
                span.to_ns = end_ns;
                span.delay_min_ns = span.delay_min_ns.min(least);
                span.delay_max_ns = span.delay_max_ns.max(most);
            } else if *span != new {
                // It comes back after an outage within the step.
                self.closed.push_back((key, std::mem::replace(span, new)));
            }
        }
        let closed = &mut self.closed;
        self.open.retain(|key, span| {
            let goes_on = span.to_ns == end_ns;
            if !goes_on {
                closed.push_back((*key, *span));
            }
            goes_on
        });
        if t_ns.is_multiple_of(self.every_ns) {
            let place = |node: &NodeId| {
                let at = self.snapshot.positions_itrf_m[node.index()];
                (!at.is_nan()).then(|| at.to_array())
            };
            let places = self.nodes.iter().map(place).collect();
            self.places.push_back((t_ns, places));
        }
        self.seen_ns = end_ns;
    }

    /// Returns `orbit.json`: the positions of these nodes, which are among those it was created with.
    #[must_use]
    pub fn orbit(&self, scope: Scope, nodes: &[NodeId], stamp: Stamp) -> Orbit {
        let track = |node: &NodeId| {
            let index = self.nodes.binary_search(node).ok()?;
            let known = self.layout.node(*node);
            let places = self.places.iter().filter_map(|(t_ns, places)| {
                Some(Place {
                    t_ns: *t_ns,
                    itrf_m: places[index]?,
                })
            });
            Some(Track {
                node: known.name.clone(),
                class: known.class.name.to_owned(),
                places: places.collect(),
            })
        };
        Orbit {
            version: VERSION,
            scope,
            revision: stamp.revision,
            t_ns: stamp.t_ns,
            to_ns: self.seen_ns,
            every_ns: self.every_ns,
            nodes: nodes.iter().filter_map(track).collect(),
        }
    }

    /// Returns `contacts.json`: the contacts of a node, or of all nodes.
    #[must_use]
    pub fn contacts(&self, of: Option<NodeId>, stamp: Stamp) -> Contacts {
        let layout = &self.layout;
        let is_wanted = |ends: (PortId, PortId)| {
            let has = |node| {
                [ends.0, ends.1]
                    .map(|port| layout.port(port).node)
                    .contains(&node)
            };
            of.is_none_or(has)
        };
        let contact = |(ends, span, goes_on): ((PortId, PortId), Span, bool)| {
            let (a, b) = (layout.port(ends.0), layout.port(ends.1));
            ComingContact {
                a: layout.node(a.node).name.clone(),
                a_port: a.name().to_owned(),
                b: layout.node(b.node).name.clone(),
                b_port: b.name().to_owned(),
                kind: a.class.name.to_owned(),
                from_ns: span.from_ns,
                to_ns: (!goes_on).then_some(span.to_ns),
                delay_min_ns: span.delay_min_ns,
                delay_max_ns: span.delay_max_ns,
            }
        };
        let closed = self.closed.iter().map(|(ends, span)| (*ends, *span, false));
        let open = self.open.iter().map(|(ends, span)| (*ends, *span, true));
        let all = closed.chain(open).filter(|(ends, ..)| is_wanted(*ends));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(ends, span, _)| (span.from_ns, *ends));
        Contacts {
            version: VERSION,
            scope: if of.is_some() {
                Scope::Neighbourhood
            } else {
                Scope::All
            },
            revision: stamp.revision,
            t_ns: stamp.t_ns,
            to_ns: self.seen_ns,
            contacts: all.into_iter().map(contact).collect(),
        }
    }
}
