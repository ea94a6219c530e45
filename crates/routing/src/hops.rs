//! The first hops of all nodes to a destination, as they are kept.

use std::sync::Arc;

use crate::graph::NextHop;

/// The index of a link to a destination that forbids transit.
pub(crate) const DIRECT: u8 = u8::MAX - 1;
/// The index that means no link.
pub(crate) const NONE: u8 = u8::MAX;

/// The links of all nodes to nodes that allow transit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    /// By node: its first, and one past the last node's last.
    starts: Vec<u32>,
    hops: Vec<NextHop>,
}

/// First hops, by node.
#[derive(Debug, Clone)]
pub(crate) enum Hops {
    /// Each by itself.
    Listed(Vec<Option<NextHop>>),
    /// By their places.
    Placed(Placed),
}

/// First hops by their indices among their node's links: one byte each.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    /// One for many destinations.
    pub(crate) rows: Arc<Rows>,
    pub(crate) places: Vec<u8>,
    /// Links to the destination itself that are in no row, by node.
    pub(crate) direct: Vec<(u32, NextHop)>,
    /// The nodes in an order in which almost each follows the nodes on its path.
    pub(crate) order: Arc<[u32]>,
}

impl Rows {
    pub(crate) fn with_room(nodes: usize, ways: usize) -> Self {
        let mut starts = Vec::with_capacity(nodes + 1);
        starts.push(0);
        Self {
            starts,
            hops: Vec::with_capacity(ways),
        }
    }

    pub(crate) fn push(&mut self, hop: NextHop) {
        self.hops.push(hop);
    }

    /// Ends a row: the next link belongs to the next node. Returns `None` if the node has more links than an index can hold.
    pub(crate) fn end_row(&mut self) -> Option<()> {
        let end = self.hops.len() as u32;
        let first = self.starts.last().copied().unwrap_or(0);
        self.starts.push(end);
        (end - first <= u32::from(DIRECT)).then_some(())
    }

    #[inline]
    pub(crate) fn start(&self, node: u32) -> usize {
        self.starts[node as usize] as usize
    }

    #[inline]
    pub(crate) fn range(&self, node: u32) -> std::ops::Range<usize> {
        self.start(node)..self.start(node + 1)
    }

    #[inline]
    pub(crate) fn row(&self, node: u32) -> &[NextHop] {
        &self.hops[self.range(node)]
    }

    /// Returns the index of a hop among a node's links.
    pub(crate) fn place(&self, node: u32, hop: NextHop) -> u8 {
        let place = self.row(node).iter().position(|known| *known == hop);
        place.map_or(NONE, |place| place as u8)
    }

    /// Returns the nodes whose row differs from that of `earlier`.
    pub(crate) fn differing(&self, earlier: &Rows) -> Vec<u32> {
        let nodes = self.starts.len().min(earlier.starts.len()) as u32 - 1;
        let differs = |node: &u32| self.row(*node) != earlier.row(*node);
        (0..nodes).filter(differs).collect()
    }
}

impl Hops {
    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Hops::Listed(hops) => hops.len(),
            Hops::Placed(placed) => placed.places.len(),
        }
    }

    /// A node's first hop.
    #[inline]
    pub(crate) fn of(&self, node: u32) -> Option<NextHop> {
        match self {
            Hops::Listed(hops) => *hops.get(node as usize)?,
            Hops::Placed(placed) => match *placed.places.get(node as usize)? {
                NONE => None,
                DIRECT => {
                    let direct = &placed.direct;
                    let at = direct.binary_search_by_key(&node, |direct| direct.0);
                    at.ok().map(|at| direct[at].1)
                }
                place => Some(placed.rows.row(node)[usize::from(place)]),
            },
        }
    }

    pub(crate) fn placed(&self) -> Option<&Placed> {
        match self {
            Hops::Listed(_) => None,
            Hops::Placed(placed) => Some(placed),
        }
    }

    pub(crate) fn rows(&self) -> Option<&Arc<Rows>> {
        self.placed().map(|placed| &placed.rows)
    }

    pub(crate) fn order(&self) -> Option<&Arc<[u32]>> {
        self.placed().map(|placed| &placed.order)
    }

    /// Each by itself, to be changed.
    pub(crate) fn listed(&mut self) -> &mut Vec<Option<NextHop>> {
        if let Hops::Placed(_) = self {
            *self = Hops::Listed((0..self.len() as u32).map(|node| self.of(node)).collect());
        }
        match self {
            Hops::Listed(hops) => hops,
            Hops::Placed(_) => unreachable!("just listed"),
        }
    }
}

/// Compares the hops, whatever their representation.
impl PartialEq for Hops {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && (0..self.len() as u32).all(|node| self.of(node) == other.of(node))
    }
}

impl Eq for Hops {}
