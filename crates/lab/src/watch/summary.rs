//! Rows of the document `summary.json`, from the measurements of a run.

use constel_link::Tally;
use constel_link::medium::Counters;
use constel_measure::flows::Rtt;
use constel_measure::quantiles::Quantiles;
use constel_plan::{Blueprint, PairStatistics, PathStatistics};

pub(crate) use constel_api::summary::{
    ChangeRow, ChannelRow, ControlRow, Converged, Convergence, DisjointPathRow, DisjointRow,
    FlowRow, HandoverRow, StackRow, StepRows, Times,
};

use std::collections::BTreeMap;

use constel_topology::NodeId;

use crate::nodes::kernels::Kernels;
use crate::nodes::own_stack::Spans;
use crate::routing::steps::StepTimes;

/// Summarises a run's step times.
pub(crate) fn step_rows(times: &StepTimes) -> StepRows {
    let series = [
        ("compute_ns", &times.compute_ns),
        ("routes_ns", &times.routes_ns),
        ("update_ns", &times.update_ns),
        ("kernel_ns", &times.kernel_ns),
        ("whole_ns", &times.whole_ns),
        ("lateness_ns", &times.lateness_ns),
        ("paths_ns", &times.paths_ns),
        ("edge_changes", &times.edge_changes),
        ("route_changes", &times.route_changes),
        ("route_requests", &times.route_requests),
    ];
    // A series without samples has no row, for example that of routes in a lab with daemons.
    let rows = series
        .into_iter()
        .filter_map(|(name, samples)| Some((name.to_owned(), quantiles(samples)?)));
    StepRows {
        count: times.compute_ns.count() as usize,
        rows: rows.collect(),
    }
}

/// Returns the statistics of each pair with disjoint paths over the steps of a run.
pub(crate) fn disjoint_rows(blueprint: &Blueprint, seen: &[PairStatistics]) -> Vec<DisjointRow> {
    let name = |id| blueprint.lab.layout.node(id).name.clone();
    let path = |path: &PathStatistics| DisjointPathRow {
        changes: path.changes,
        delay_ns: quantiles(&path.delays_ns),
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

/// Returns the nodes whose programs changed the node's own stack. `zero_ns` is the instant of lab time zero on the
/// machine's clock.
pub(crate) fn stack_rows(
    kernels: &Kernels,
    stacks: &BTreeMap<NodeId, Spans>,
    zero_ns: u64,
) -> Vec<StackRow> {
    // Stacks may change before lab time zero, so that times can be negative.
    let lab_ns = |at_ns: u64| at_ns as i64 - zero_ns as i64;
    let row = |(node, own): (&NodeId, &Spans)| {
        let ((first, _), (_, last)) = own.spans.first().zip(own.spans.last())?;
        Some(StackRow {
            node: kernels.blueprint.lab.layout.node(*node).name.clone(),
            first_ns: lab_ns(*first),
            last_ns: lab_ns(*last),
            changed_ns: own.spans.iter().map(|(from, to)| to - from).sum(),
            times: own.times,
            changed: own.listed.clone(),
            restored: kernels.restores(*node),
            left: own.left.clone(),
        })
    };
    stacks.iter().filter_map(row).collect()
}

/// Returns the statistics of each channel's members; `counters` are in the order of
/// [`Lab::channels`](constel_plan::Lab::channels).
pub(crate) fn channel_rows(blueprint: &Blueprint, counters: &[Vec<Counters>]) -> Vec<ChannelRow> {
    let layout = &blueprint.lab.layout;
    let channels = blueprint.lab.channels();
    let rows = channels.iter().zip(counters);
    let rows = rows.flat_map(|((network, shared), counters)| {
        let members = shared.ports.iter().zip(counters);
        members.map(|(port, own)| ChannelRow {
            network: network.clone(),
            node: layout.node(layout.port(*port).node).name.clone(),
            sent: own.sent,
            airtime_ns: own.airtime_ns,
            received: own.heard,
            collisions: own.collisions,
            missed_while_sending: own.deaf,
            noise: own.noise,
            refused_full: own.refused_full,
            refused_long: own.refused_long,
        })
    });
    rows.collect()
}

/// Returns the quantiles of a series, at most 1/1024 too large; `None` for an empty series.
pub(crate) fn quantiles(of: &Tally) -> Option<Quantiles> {
    (of.count() > 0).then(|| Quantiles {
        count: of.count() as usize,
        min: of.min() as f64,
        p50: of.quantile(0.50) as f64,
        p99: of.quantile(0.99) as f64,
        max: of.max() as f64,
        mean: of.mean(),
    })
}

/// Returns the quantiles of sampled round-trip times, at most 1/1024 too large.
pub(crate) fn rtt_of(samples: &Tally) -> Option<Rtt> {
    (samples.count() > 0).then(|| Rtt {
        min_ns: samples.min(),
        p50_ns: samples.quantile(0.50),
        p99_ns: samples.quantile(0.99),
        max_ns: samples.max(),
    })
}
