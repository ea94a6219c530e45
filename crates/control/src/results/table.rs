//! Flows of runs as a table: one row a flow, for other programs.

use constel_api::summary::{FlowRow, Summary};

/// The columns, in order. Delays are microseconds. Values that were not measured are empty.
pub const COLUMNS: [&str; 39] = [
    "run",
    "seed",
    "run_trustworthy",
    "flow",
    "kind",
    "from",
    "to",
    "at_s",
    "status",
    "trustworthy",
    "samples",
    "marked_samples",
    "handovers",
    "paths",
    "rtt_min_us",
    "rtt_p50_us",
    "rtt_p99_us",
    "rtt_max_us",
    "owd_min_us",
    "owd_mean_us",
    "owd_p50_us",
    "owd_p95_us",
    "owd_p99_us",
    "owd_max_us",
    "owd_back_min_us",
    "owd_back_p50_us",
    "owd_back_p95_us",
    "owd_back_max_us",
    "path_rtt_p50_us",
    "bound_rtt_min_us",
    "throughput_bps",
    "received_bytes",
    "sent_bytes",
    "sent_packets",
    "loss_ratio",
    "retransmits",
    "client_cpu_s",
    "server_cpu_s",
    "run_failed",
];

/// The rows of a run's flows, cells in the order of [`COLUMNS`].
pub fn rows(run: &str, summary: &Summary) -> Vec<Vec<String>> {
    let row = |flow| row(run, summary, flow);
    summary.flows.iter().map(row).collect()
}

fn row(run: &str, summary: &Summary, flow: &FlowRow) -> Vec<String> {
    let us = |ns: Option<u64>| text(ns.map(|ns| format!("{}.{:03}", ns / 1_000, ns % 1_000)));
    let outcome = &flow.outcome;
    let (rtt, owd, back) = (outcome.rtt, outcome.owd, outcome.owd_back);
    vec![
        run.to_owned(),
        summary.seed.to_string(),
        summary.verdict.trustworthy.to_string(),
        flow.name.clone(),
        flow.kind.clone(),
        flow.from.clone(),
        text(flow.to.clone()),
        (flow.at_ns as f64 / 1e9).to_string(),
        flow.status.as_str().to_owned(),
        text(flow.trustworthy),
        flow.samples.to_string(),
        flow.marked_samples.to_string(),
        flow.handovers.to_string(),
        flow.paths.len().to_string(),
        us(rtt.map(|rtt| rtt.min_ns)),
        us(rtt.map(|rtt| rtt.p50_ns)),
        us(rtt.map(|rtt| rtt.p99_ns)),
        us(rtt.map(|rtt| rtt.max_ns)),
        us(owd.map(|owd| owd.min_ns)),
        us(owd.map(|owd| owd.mean_ns)),
        us(owd.map(|owd| owd.p50_ns)),
        us(owd.map(|owd| owd.p95_ns)),
        us(owd.map(|owd| owd.p99_ns)),
        us(owd.map(|owd| owd.max_ns)),
        us(back.map(|owd| owd.min_ns)),
        us(back.map(|owd| owd.p50_ns)),
        us(back.map(|owd| owd.p95_ns)),
        us(back.map(|owd| owd.max_ns)),
        us(flow.path_rtt.map(|rtt| rtt.p50_ns)),
        us(flow.bound_rtt.map(|rtt| rtt.min_ns)),
        text(outcome.throughput_bps),
        text(outcome.received_bytes),
        text(outcome.sent_bytes),
        text(outcome.sent_packets),
        text(outcome.loss_ratio),
        text(outcome.retransmits),
        text(outcome.client_cpu_s),
        text(outcome.server_cpu_s),
        summary.software.failed.to_string(),
    ]
}

fn text(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
