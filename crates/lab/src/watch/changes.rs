//! Events after which routes must converge again: handovers, failures, links set by command, ended daemons. Each is
//! watched until the kernels' tables are correct again, together with the traffic on the links in that time.

use std::collections::BTreeMap;
use std::sync::Arc;

use constel_api::summary::ChangeKind;
use constel_drivers::Links;
use constel_link::PortId;
use constel_topology::{Broken, FailureTarget, Layout, Snapshot};

use crate::error::EngineError;
use crate::watch::summary::{ChangeRow, ControlRow, HandoverRow};

/// The frames and bytes offered to each edge up to a moment.
pub(crate) type Baseline = Arc<BTreeMap<(PortId, PortId), (u64, u64)>>;

/// Returns the frames and bytes offered to every edge so far.
///
/// # Errors
/// When the link plane has stopped.
pub(crate) fn baseline(plane: &dyn Links) -> Result<Baseline, EngineError> {
    let edges = plane.all_edges()?;
    Ok(Arc::new(
        edges
            .iter()
            .map(|e| {
                let offered = (e.counters.offered, e.counters.offered_bytes);
                ((e.from, e.to), offered)
            })
            .collect(),
    ))
}

/// Returns the traffic offered to the present edges since `before`.
pub(crate) fn since(
    plane: &dyn Links,
    before: &Baseline,
) -> Result<Option<ControlRow>, EngineError> {
    let now = baseline(plane)?;
    let rows: Vec<(u64, u64)> = now
        .iter()
        .map(|(edge, (frames, bytes))| {
            // An edge that disappeared and returned counts from zero.
            let (f, b) = before.get(edge).copied().unwrap_or_default();
            (frames.saturating_sub(f), bytes.saturating_sub(b))
        })
        .collect();
    Ok(ControlRow::of(&rows))
}

/// The row of the summary that a watch belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Row {
    Handover(usize),
    Change(usize),
    /// No kept row: only the convergence is reported.
    None,
}

/// A change whose convergence has not been seen.
pub(crate) struct Watch {
    row: Row,
    t_ns: u64,
    /// How long routes must be correct without interruption; with 0 a single correct sample suffices.
    steady_ns: u64,
    /// The time of the first correct sample after the last incorrect one.
    good_since_ns: Option<u64>,
    /// Whether some sample since the change was incorrect.
    broke: bool,
    /// Whether the convergence was reported since the last incorrect sample.
    told: bool,
    before: Option<Baseline>,
}

/// The result of a sample for the watched changes.
#[derive(Default)]
pub(crate) struct SampledChanges {
    /// Changes that have converged: the row, the convergence time, and the edges' counters at the change.
    pub(crate) over: Vec<(Row, u64, Option<Baseline>)>,
    /// Whether the convergence must be reported: at once after a change that broke routes, not only when it is
    /// certain to last.
    pub(crate) news: bool,
}

/// The largest number of watched changes. If routes never converge, the oldest are dropped, and their rows have no
/// convergence time.
const OPEN: usize = 256;

/// All watched changes.
#[derive(Default)]
pub(crate) struct Watches {
    open: Vec<Watch>,
}

impl Watches {
    pub(crate) fn add(&mut self, row: Row, t_ns: u64, steady_ns: u64, before: Option<Baseline>) {
        // Routing that never converges would open a watch at every handover. The oldest is given up.
        if self.open.len() == OPEN {
            self.open.remove(0);
        }
        self.open.push(Watch {
            row,
            t_ns,
            steady_ns,
            good_since_ns: None,
            broke: false,
            told: false,
            before,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Records a sample of the tables, and removes the changes that have converged.
    pub(crate) fn look(&mut self, now_ns: u64, stand: bool) -> SampledChanges {
        let mut looked = SampledChanges::default();
        let SampledChanges { over, news } = &mut looked;
        self.open.retain_mut(|watch| {
            // An incorrect sample restarts the count of uninterrupted correct ones.
            if !stand {
                watch.good_since_ns = None;
                watch.broke = true;
                watch.told = false;
                return true;
            }
            if watch.broke && !watch.told {
                watch.told = true;
                *news = true;
            }
            // The convergence time ends with the first of the uninterrupted correct samples, although it is known
            // only after `steady_ns`.
            let good = *watch.good_since_ns.get_or_insert(now_ns);
            let last_bad_allows = now_ns.saturating_sub(good) >= watch.steady_ns;
            // The kernel keeps the routes of an ended daemon for a while, so that correct samples right after its
            // end prove nothing.
            let long_enough = now_ns.saturating_sub(watch.t_ns) >= watch.steady_ns;
            if last_bad_allows && long_enough {
                *news |= !watch.told;
                over.push((
                    watch.row,
                    good.saturating_sub(watch.t_ns),
                    watch.before.take(),
                ));
                return false;
            }
            true
        });
        looked
    }
}

/// Writes the result of a watch to its row.
pub(crate) fn close(
    handovers: &mut [HandoverRow],
    changes: &mut [ChangeRow],
    (row, after_ns): (Row, u64),
    control: Option<ControlRow>,
) {
    match row {
        Row::Handover(at) => {
            handovers[at].converged_after_ns = Some(after_ns);
            handovers[at].control = control;
        }
        Row::Change(at) => {
            changes[at].converged_after_ns = Some(after_ns);
            changes[at].control = control;
        }
        Row::None => {}
    }
}

/// Returns the failures and repairs between two steps, each with its layout, one row for each of the scenario's failures.
pub(crate) fn broken(before: (&Layout, &Snapshot), after: (&Layout, &Snapshot)) -> Vec<ChangeRow> {
    let mut rows = Vec::new();
    let (was, is) = ((before.0, &before.1.broken), (after.0, &after.1.broken));
    let t_ns = after.1.t_ns;
    // A repair is a failure with the two topologies exchanged.
    for (kind, from, to) in [
        (ChangeKind::Failure, was, is),
        (ChangeKind::Repair, is, was),
    ] {
        // One row for each failure and not for each link: a failed plane takes dozens of links with it.
        let mut by_failure: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        let layout = to.0;
        for (failure, name) in only_in(layout, to.1, from.1) {
            by_failure.entry(failure).or_default().push(name);
        }
        rows.extend(by_failure.into_iter().map(|(failure, objects)| ChangeRow {
            t_ns,
            kind,
            cause: layout.spec().failures[usize::from(failure)].name.clone(),
            objects,
            converged_after_ns: None,
            lost_probes: None,
            control: None,
        }));
    }
    rows
}

/// Returns the names of objects that are broken in `these` and not in `others`, each with its failure.
fn only_in(layout: &Layout, these: &Broken, others: &Broken) -> Vec<(u16, String)> {
    let node_of = |port: PortId| layout.node(layout.port(port).node).name.as_str();
    let nodes = these
        .nodes
        .iter()
        .filter(|(node, _)| others.node(*node).is_none())
        .map(|(node, failure)| (*failure, layout.node(*node).name.clone()));
    let links = these
        .links
        .iter()
        .filter(|(link, _)| others.link(*link).is_none())
        .map(|(link, failure)| {
            let link = &layout.isl_links()[*link as usize];
            (*failure, format!("{}-{}", node_of(link.a), node_of(link.b)))
        });
    let name = |failure: u16| match &layout.spec().failures[usize::from(failure)].what {
        FailureTarget::Network { network, .. } => layout.spec().networks[*network].name.clone(),
        _ => String::new(),
    };
    let networks = these
        .networks
        .iter()
        .filter(|failure| !others.networks.contains(failure))
        .map(|failure| (*failure, name(*failure)));
    let cables = these
        .cables
        .iter()
        .filter(|(cable, _)| others.cable(*cable).is_none())
        .map(|(cable, failure)| {
            let cable = &layout.cables()[*cable as usize];
            (
                *failure,
                format!("{}-{}", node_of(cable.a), node_of(cable.b)),
            )
        });
    nodes.chain(links).chain(cables).chain(networks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_good_look_ends_a_handover_and_a_daemons_death_needs_quiet() {
        let mut watches = Watches::default();
        watches.add(Row::Handover(0), 100, 0, None);
        watches.add(Row::Change(0), 100, 50, None);
        let mut look = |at_ns, stand| {
            let SampledChanges { over, news } = watches.look(at_ns, stand);
            let ends = over.iter().map(|(_, after, _)| *after);
            (ends.collect::<Vec<u64>>(), news)
        };
        // Kernels keep the routes of an ended daemon for a while: they are correct at first, then not.
        assert_eq!(look(110, true), (vec![10], true));
        assert_eq!(look(130, false), (vec![], false));
        // The convergence is reported at once; the later certainty that it lasts is not reported again.
        assert_eq!(look(140, true), (vec![], true));
        assert_eq!(look(189, true), (vec![], false));
        assert_eq!(look(190, true), (vec![40], false));
        assert!(watches.is_empty());
        // Routes that never converge do not make the list grow.
        for change in 0..10 * OPEN {
            watches.add(Row::Change(change), 200, 0, None);
        }
        assert_eq!(watches.open.len(), OPEN);
        let over = watches.look(300, true).over;
        assert!(matches!(over[0].0, Row::Change(first) if first == 9 * OPEN));
    }
}
