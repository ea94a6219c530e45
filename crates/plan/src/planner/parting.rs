//! The division of a step into changes at its time and removals after draining.

use constel_link::{EdgeChange, PortId};
use constel_topology::{Delta, Layout, Snapshot};

/// A divided delta.
pub(super) struct Parted {
    /// Changes of the edge table at the step's time.
    pub(super) now: Vec<EdgeChange>,
    /// Edges that are removed by them.
    pub(super) gone: Vec<(PortId, PortId)>,
    /// Removals that wait until the routes avoid the edges.
    pub(super) later: Vec<EdgeChange>,
    /// Edges that are removed by those.
    pub(super) gone_later: Vec<(PortId, PortId)>,
}

/// Divides a delta. With draining, edges that disappear because of satellite motion are removed later. Edges that
/// fail are removed at once, because a failure is not predictable.
pub(super) fn part(layout: &Layout, snapshot: &Snapshot, delta: &Delta, drains: bool) -> Parted {
    let waits = |from, to| drains && !snapshot.broken.cuts(layout, from, to);
    let (later, now) = delta
        .changes(0)
        .partition(|change| matches!(change, EdgeChange::Remove { from, to } if waits(*from, *to)));
    let removed = delta.removed.iter().copied();
    let (gone_later, gone) = removed.partition(|(from, to)| waits(*from, *to));
    Parted {
        now,
        gone,
        later,
        gone_later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::iridium;
    use constel_topology::diff;

    #[test]
    fn what_breaks_goes_at_once_and_what_sets_drains() {
        let blueprint = iridium();
        let layout = &blueprint.lab.layout;
        let before = blueprint.lab.stepper().advance();
        let link = |e: &&constel_topology::Edge| layout.isl_of_port(e.from).is_some();
        let mut lasers = before.edges.iter().filter(link).map(|e| (e.from, e.to));
        let sets = lasers.next().unwrap();
        let broken = lasers.find(|(from, _)| layout.port(*from).node != layout.port(sets.0).node);
        let broken = broken.unwrap();
        let dead = layout
            .node(layout.port(before.edges.last().unwrap().from).node)
            .id;
        let mut after = before.clone();
        let both = |(from, to): (PortId, PortId)| [(from, to), (to, from)];
        let number = layout.isl_of_port(broken.0).unwrap().number;
        after.broken.links.push((number, 0));
        after.broken.nodes.push((dead, 0));
        after.edges.retain(|e| {
            let of_dead = [e.from, e.to]
                .iter()
                .any(|port| layout.port(*port).node == dead);
            let listed = [sets, broken].into_iter().flat_map(both);
            !of_dead && !listed.into_iter().any(|key| key == (e.from, e.to))
        });
        let delta = diff(layout, &before, &after);

        let drained = part(layout, &after, &delta, true);
        let mut waiting = both(sets).to_vec();
        waiting.sort_unstable();
        assert_eq!(drained.gone_later, waiting);
        assert_eq!(drained.later.len(), 2);
        assert!(both(broken).iter().all(|key| drained.gone.contains(key)));
        assert_eq!(drained.gone.len() + 2, delta.removed.len());
        assert!(drained.gone.len() > 2, "the dead node had links");
        let removals = |changes: &[EdgeChange]| {
            let removal = |c: &&EdgeChange| matches!(c, EdgeChange::Remove { .. });
            changes.iter().filter(removal).count()
        };
        assert_eq!(removals(&drained.now), drained.gone.len());

        let at_once = part(layout, &after, &delta, false);
        assert!(at_once.later.is_empty() && at_once.gone_later.is_empty());
        assert_eq!(at_once.gone, delta.removed);
    }
}
