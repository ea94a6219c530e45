//! The nodes whose surroundings changed between two topologies.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use constel_link::PortId;
use constel_topology::{Layout, NodeId, Snapshot};

/// Links of one node that came and went: its own port and the far one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// Links that came.
    pub added: Vec<(PortId, PortId)>,
    /// Links that went.
    pub removed: Vec<(PortId, PortId)>,
}

/// Returns the nodes whose links appeared or disappeared, with these links. A change of a link's properties, such as delay
/// and rate, does not count here. Takes one pass over the edges of both snapshots.
#[must_use]
pub fn changes(layout: &Layout, before: &Snapshot, after: &Snapshot) -> BTreeMap<NodeId, Change> {
    let mut found: BTreeMap<NodeId, Change> = BTreeMap::new();
    let (mut old, mut new) = (
        before.edges.iter().peekable(),
        after.edges.iter().peekable(),
    );
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return found,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(o), Some(n)) => (o.from, o.to).cmp(&(n.from, n.to)),
        };
        let gone = old.next_if(|_| order != Ordering::Greater);
        let come = new.next_if(|_| order != Ordering::Less);
        let of = |port: PortId| layout.port(port).node;
        match (gone, come) {
            (Some(gone), None) => {
                let change = found.entry(of(gone.from)).or_default();
                change.removed.push((gone.from, gone.to));
            }
            (None, Some(come)) => {
                let change = found.entry(of(come.from)).or_default();
                change.added.push((come.from, come.to));
            }
            _ => {}
        }
    }
}
