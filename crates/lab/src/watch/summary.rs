//! Rows of the document `summary.json`, made of what a run measured.

use constel_observe::flows::Rtt;
use constel_observe::quantiles::Quantiles;
use constel_plan::{Blueprint, PairSeen, PathSeen};

pub(crate) use constel_api::summary::{
    ChangeRow, ControlRow, Converged, Convergence, DisjointPathRow, DisjointRow, FlowRow,
    HandoverRow, StepRows, Times,
};

use crate::routing::steps::StepTimes;

/// Sums up a run's step times.
pub(crate) fn step_rows(times: &StepTimes) -> StepRows {
    let series = [
        ("compute_ns", &times.compute_ns),
        ("routes_ns", &times.routes_ns),
        ("update_ns", &times.update_ns),
        ("kernel_ns", &times.kernel_ns),
        ("lateness_ns", &times.lateness_ns),
        ("paths_ns", &times.paths_ns),
        ("edge_changes", &times.edge_changes),
        ("route_changes", &times.route_changes),
        ("route_requests", &times.route_requests),
    ];
    let rows = series.into_iter().filter_map(|(name, samples)| {
        Some((name.to_owned(), Quantiles::of(&mut samples.clone())?))
    });
    StepRows {
        count: times.compute_ns.len(),
        rows: rows.collect(),
    }
}

/// What the steps of a run saw of each pair with disjoint paths.
pub(crate) fn disjoint_rows(blueprint: &Blueprint, seen: &[PairSeen]) -> Vec<DisjointRow> {
    let name = |id| blueprint.lab.layout.node(id).name.clone();
    let path = |path: &PathSeen| DisjointPathRow {
        changes: path.changes,
        delay_ns: Quantiles::of(&mut path.delays_ns.clone()),
    };
    let pairs = blueprint.addresses.paths().pairs();
    let rows = pairs.iter().zip(seen).map(|(pair, seen)| DisjointRow {
        name: pair.name.clone(),
        between: pair.ends.map(name),
        steps_by_paths: seen.steps_by_paths.clone(),
        paths: seen.paths.iter().map(path).collect(),
    });
    rows.collect()
}

/// Quantiles of sampled round trips.
pub(crate) fn rtt_of(samples: impl Iterator<Item = u64>) -> Option<Rtt> {
    let q = Quantiles::of(&mut samples.map(|ns| ns as f64).collect::<Vec<_>>())?;
    Some(Rtt {
        min_ns: q.min as u64,
        p50_ns: q.p50 as u64,
        p99_ns: q.p99 as u64,
        max_ns: q.max as u64,
    })
}
