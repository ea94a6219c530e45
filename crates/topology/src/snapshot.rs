//! The topology at an instant, and the difference between two.

use crate::class::EdgeClass;
use crate::down::Down;
use crate::failures::Broken;
use crate::layout::Layout;
use crate::node::NodeId;
use crate::sky::NoPosition;
use constel_link::{EdgeChange, Impairment, PortId};
use constel_orbit::DVec3;
use std::cmp::Ordering;

/// With more edges than this, edges whose delay only continues to change smoothly are separated from the
/// others.
const MANY_EDGES: usize = 16_384;
/// A delay continues on a straight line if the end of one step's change and the start of the next differ by at
/// most this.
const GLIDE_NS: u64 = 1_000;

/// One direction of a link that exists. Times in the impairment (`t0_ns`, `up_from_ns`) are nanoseconds after
/// the start of the lab; the caller that runs the lab converts them to its clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// Port the frames leave.
    pub from: PortId,
    /// Port they reach.
    pub to: PortId,
    /// Kind of link.
    pub class: &'static EdgeClass,
    /// The impairment of frames between the ports. `up_from_ns` is 0 once the edge is usable.
    pub impairment: Impairment,
}

impl Edge {
    /// True when frames pass at `t_ns` (not in a handover's outage).
    #[must_use]
    pub fn usable_at(&self, t_ns: u64) -> bool {
        self.impairment.up_from_ns <= t_ns
    }

    /// True when `self`, following `before`, differs from it in its delay alone, which glides on.
    fn glides_on(&self, before: &Edge) -> bool {
        let (a, b) = (&before.impairment, &self.impairment);
        let t = b.delay.t0_ns;
        self.class == before.class
            && a.rate_bps == b.rate_bps
            && a.queue == b.queue
            && a.loss == b.loss
            && a.profile == b.profile
            && a.up_from_ns <= t
            && b.up_from_ns <= t
            && a.delay.at(t).abs_diff(b.delay.delay_ns) <= GLIDE_NS
    }

    /// True when `self`, following `before` at `self`'s start, has the same effect as `before` has from then
    /// on.
    fn continues(&self, before: &Edge) -> bool {
        let (a, b) = (&before.impairment, &self.impairment);
        let t = b.delay.t0_ns;
        let up = |i: &Impairment| i.up_from_ns.max(t);
        self.class == before.class
            && a.delay.slope_ns_per_s == b.delay.slope_ns_per_s
            && a.delay.at(t) == b.delay.delay_ns
            && a.rate_bps == b.rate_bps
            && a.queue == b.queue
            && a.loss == b.loss
            && a.profile == b.profile
            && up(a) == up(b)
    }
}

/// All edges at the start of a step, and the positions and failures that they were computed from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// Step number.
    pub step: u64,
    /// The step's start, nanoseconds after the start of the lab.
    pub t_ns: u64,
    /// ITRF positions of all nodes, metres, by node number; NaN for satellites in `lost`.
    pub positions_itrf_m: Vec<DVec3>,
    /// All edges, sorted by (from, to), both directions of every link.
    pub edges: Vec<Edge>,
    /// Satellites without a position at the start of the step.
    pub lost: Vec<NoPosition>,
    /// A satellite of each station, in the order of the spec's stations; `None`: dark. With several antennas,
    /// the first of `beams`.
    pub serving: Vec<Option<NodeId>>,
    /// The satellites of each terminal's antennas, at [its places](crate::TerminalLayout::beams), by node number, `None`
    /// last.
    pub beams: Vec<Option<NodeId>>,
    /// The failures at the step's start.
    pub broken: Broken,
    /// The lasers and cables that are switched off, by their ends, the lower node number first.
    pub switched_off: Vec<(NodeId, NodeId)>,
    /// Why laser links are down, by link number; those not listed are up.
    pub isl_down: Vec<(u32, Down)>,
}

/// A station that changed its satellite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    /// The station.
    pub station: NodeId,
    /// The port of its terminal.
    pub port: PortId,
    /// The satellite used before; `None`: there was no link.
    pub from: Option<NodeId>,
    /// The satellite used now; `None`: there is no link.
    pub to: Option<NodeId>,
}

/// The changes from one snapshot to the next.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delta {
    /// Edges that are new.
    pub added: Vec<Edge>,
    /// Edges (from, to) that were removed.
    pub removed: Vec<(PortId, PortId)>,
    /// Edges that stay and have another impairment. A delay that only continues its linear change is not one.
    pub changed: Vec<Edge>,
    /// The number of the last entries in `changed` that differ only in a delay that continues to change
    /// smoothly. Counted only when very many edges change.
    pub gliding: usize,
    /// Stations that changed their satellite.
    pub handovers: Vec<Handover>,
}

impl Snapshot {
    /// The edge from one port to another.
    #[must_use]
    pub fn edge(&self, from: PortId, to: PortId) -> Option<&Edge> {
        let at = self
            .edges
            .binary_search_by_key(&(from, to), |e| (e.from, e.to))
            .ok()?;
        Some(&self.edges[at])
    }

    /// The edges that leave a port.
    #[must_use]
    pub fn edges_from(&self, port: PortId) -> &[Edge] {
        let first = self.edges.partition_point(|e| e.from < port);
        let end = self.edges.partition_point(|e| e.from <= port);
        &self.edges[first..end]
    }
}

/// The difference between two snapshots of one layout.
#[must_use]
pub fn diff(layout: &Layout, before: &Snapshot, after: &Snapshot) -> Delta {
    let mut delta = Delta::default();
    let (mut old, mut new) = (
        before.edges.iter().peekable(),
        after.edges.iter().peekable(),
    );
    let mut gliding = Vec::new();
    let many = after.edges.len() > MANY_EDGES;
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(o), Some(n)) => (o.from, o.to).cmp(&(n.from, n.to)),
        };
        if order == Ordering::Less {
            delta.removed.extend(old.next().map(|o| (o.from, o.to)));
        } else if order == Ordering::Greater {
            delta.added.extend(new.next());
        } else if let (Some(o), Some(n)) = (old.next(), new.next())
            && !n.continues(o)
        {
            if many && n.glides_on(o) {
                gliding.push(*n);
            } else {
                delta.changed.push(*n);
            }
        }
    }
    delta.gliding = gliding.len();
    delta.changed.append(&mut gliding);
    for terminal in layout.terminals() {
        let beams = &terminal.beams;
        let (old, new) = (&before.beams[beams.clone()], &after.beams[beams.clone()]);
        if old == new {
            continue;
        }
        let only = |a: &[Option<NodeId>], b: &[Option<NodeId>]| -> Vec<NodeId> {
            a.iter()
                .flatten()
                .copied()
                .filter(|s| !b.contains(&Some(*s)))
                .collect()
        };
        // It is not known which antenna turned to which satellite, and does not matter.
        let (left, taken) = (only(old, new), only(new, old));
        for i in 0..left.len().max(taken.len()) {
            delta.handovers.push(Handover {
                station: layout.station_node(terminal.station),
                port: terminal.port,
                from: left.get(i).copied(),
                to: taken.get(i).copied(),
            });
        }
    }
    delta
}

impl Delta {
    /// True when there is no change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// The delta as changes of an edge table, removals first. Times are still the lab's; `shift_ns` is added
    /// to them (an edge that is up at once keeps `up_from_ns` 0).
    pub fn changes(&self, shift_ns: u64) -> impl Iterator<Item = EdgeChange> + '_ {
        let removed = self
            .removed
            .iter()
            .map(|&(from, to)| EdgeChange::Remove { from, to });
        let set = self.added.iter().chain(&self.changed).map(move |e| {
            let mut impairment = e.impairment;
            impairment.delay.t0_ns += shift_ns;
            if impairment.up_from_ns > 0 {
                impairment.up_from_ns += shift_ns;
            }
            EdgeChange::Set {
                from: e.from,
                to: e.to,
                impairment,
            }
        });
        removed.chain(set)
    }
}
