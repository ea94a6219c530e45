//! The state that a live policy receives before a step.

use std::collections::{BTreeMap, BTreeSet};

use constel_api::answers::{PolicyCandidate, PolicyEdge, PolicyPart, PolicyState, PolicyStation};
use constel_drivers::{DriverError, Links};
use constel_link::{EdgeStats, PortId};
use constel_plan::Planner;
use constel_topology::{Layout, NodeId, Snapshot, StationCandidates};

use super::turns::Counts;

/// Bytes delivered by edges at an instant.
type Delivered = BTreeMap<(PortId, PortId), u64>;

/// Collects states. Throughput is that since the state before.
#[derive(Debug, Default)]
pub(crate) struct States {
    before: Option<(u64, Delivered)>,
}

impl States {
    /// Returns the state before the step that is planned next. The link plane's counters are read at `now_ns` of the machine's clock.
    ///
    /// # Errors
    /// When the link plane has stopped, or its counters cannot be read.
    pub(crate) fn collect(
        &mut self,
        planner: &mut Planner,
        links: &dyn Links,
        (wants, counts, now_ns): (&BTreeSet<PolicyPart>, &Counts, u64),
    ) -> Result<PolicyState, DriverError> {
        let blueprint = std::sync::Arc::clone(planner.blueprint());
        let layout = blueprint.lab.layout.as_ref();
        let wants = |part| wants.contains(&part);
        let stations = wants(PolicyPart::Stations).then(|| {
            let all = planner.candidates();
            all.iter().map(|own| station(layout, own)).collect()
        });
        let current = planner.current();
        let positions_m = wants(PolicyPart::Positions).then(|| {
            let all = current.positions_itrf_m.iter();
            all.map(|p| (!p.is_nan()).then(|| p.to_array())).collect()
        });
        let edges = match wants(PolicyPart::Edges) {
            true => Some(self.edges(layout, current, &links.all_edges()?, now_ns)),
            false => None,
        };
        Ok(PolicyState {
            step: current.step + 1,
            t_ns: planner.next_t_ns(),
            late: counts.late,
            refused: counts.refused,
            positions_m,
            stations,
            edges,
        })
    }

    fn edges(
        &mut self,
        layout: &Layout,
        current: &Snapshot,
        stats: &[EdgeStats],
        now_ns: u64,
    ) -> Vec<PolicyEdge> {
        let of: BTreeMap<(PortId, PortId), &EdgeStats> =
            stats.iter().map(|own| ((own.from, own.to), own)).collect();
        let delivered = of
            .iter()
            .map(|(ends, own)| (*ends, own.counters.delivered_bytes));
        let now = (now_ns, delivered.collect());
        let before = self.before.replace(now);
        let name = |port: PortId| layout.node(layout.port(port).node).name.clone();
        let edge = |edge: &constel_topology::Edge| {
            let ends = (edge.from, edge.to);
            let own = of.get(&ends).copied();
            let counters = own.map(|own| own.counters).unwrap_or_default();
            // Effects set by hand are in the link plane's values.
            let impairment = own
                .and_then(|own| own.impairment)
                .unwrap_or(edge.impairment);
            let carried_bps = before.as_ref().and_then(|(then_ns, delivered)| {
                let bytes = counters
                    .delivered_bytes
                    .checked_sub(*delivered.get(&ends)?)?;
                let took_ns = now_ns.checked_sub(*then_ns).filter(|ns| *ns > 0)?;
                Some(8e9 * bytes as f64 / took_ns as f64)
            });
            PolicyEdge {
                from: name(edge.from),
                port: layout.port(edge.from).name().to_owned(),
                to: name(edge.to),
                delay_ns: edge.impairment.delay.delay_ns,
                rate_bps: impairment.rate_bps.map(u64::from),
                queue_bytes: own.map_or(0, |own| own.queue_bytes),
                delivered_bytes: counters.delivered_bytes,
                carried_bps,
                dropped_frames: counters.dropped_queue + counters.dropped_aqm,
            }
        };
        current.edges.iter().map(edge).collect()
    }
}

fn station(layout: &Layout, own: &StationCandidates) -> PolicyStation {
    let name = |node: NodeId| layout.node(node).name.clone();
    let candidates = own.satellites.iter().map(|candidate| PolicyCandidate {
        satellite: name(candidate.satellite),
        range_m: candidate.range_m,
        elevation_deg: candidate.elevation_deg(),
        remaining_s: candidate.remaining_s,
        links: candidate.load,
    });
    PolicyStation {
        station: name(own.station),
        serving: own.serving.iter().map(|node| name(*node)).collect(),
        candidates: candidates.collect(),
    }
}
