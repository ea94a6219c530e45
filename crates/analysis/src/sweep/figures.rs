//! The figures of a run that repeats are compared by.

use constel_api::summary::{FlowRow, FlowStatus, Summary};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// A figure of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Figure {
    /// The figure's name, with its unit: a column's name.
    pub name: &'static str,
    /// Name of the unit that people read it in.
    #[serde(skip)]
    pub unit: &'static str,
    /// The quantity in words, for pictures.
    #[serde(skip)]
    pub words: &'static str,
}

impl<'de> Deserialize<'de> for Figure {
    /// Finds a figure by its name.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let Named { name } = Named::deserialize(deserializer)?;
        let mut known = FIGURES.iter().map(|(figure, _)| *figure);
        known
            .find(|figure| figure.name == name)
            .ok_or_else(|| D::Error::custom(format!("`{name}` is not a figure of a flow")))
    }
}

impl Figure {
    /// The values that it can have.
    pub(crate) fn bounds(self) -> [f64; 2] {
        match self.unit {
            "%" => [0.0, 100.0],
            _ => [0.0, f64::INFINITY],
        }
    }
}

type Read = fn(&FlowRow) -> Option<f64>;

/// In the units of the names.
const FIGURES: &[(Figure, Read)] = &[
    (figure("throughput_mbps", "Mbit/s", "throughput"), |f| {
        f.outcome.throughput_bps.map(|bps| bps / 1e6)
    }),
    (figure("rtt_p50_ms", "ms", "median round-trip time"), |f| {
        f.outcome.rtt.map(|rtt| ms(rtt.p50_ns))
    }),
    (
        figure("rtt_p99_ms", "ms", "99 % quantile of the round-trip time"),
        |f| f.outcome.rtt.map(|rtt| ms(rtt.p99_ns)),
    ),
    (figure("owd_mean_ms", "ms", "mean one-way delay"), |f| {
        f.outcome.owd.map(|owd| ms(owd.mean_ns))
    }),
    (figure("owd_p50_ms", "ms", "median one-way delay"), |f| {
        f.outcome.owd.map(|owd| ms(owd.p50_ns))
    }),
    (
        figure("owd_p95_ms", "ms", "95 % quantile of the one-way delay"),
        |f| f.outcome.owd.map(|owd| ms(owd.p95_ns)),
    ),
    (
        figure("owd_p99_ms", "ms", "99 % quantile of the one-way delay"),
        |f| f.outcome.owd.map(|owd| ms(owd.p99_ns)),
    ),
    (figure("loss_percent", "%", "loss"), |f| {
        f.outcome.loss_ratio.map(|ratio| 100.0 * ratio)
    }),
    (figure("sent_mbytes", "MB", "data sent"), |f| {
        f.outcome.sent_bytes.map(|bytes| bytes as f64 / 1e6)
    }),
    (figure("received_mbytes", "MB", "data received"), |f| {
        f.outcome.received_bytes.map(|bytes| bytes as f64 / 1e6)
    }),
    (figure("retransmits", "segments", "retransmissions"), |f| {
        f.outcome.retransmits.map(|count| count as f64)
    }),
    (figure("took_s", "s", "duration of the transfer"), |f| {
        f.outcome.took_ns.map(|ns| ns as f64 / 1e9)
    }),
];

pub(crate) const fn figure(name: &'static str, unit: &'static str, words: &'static str) -> Figure {
    Figure { name, unit, words }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Returns every figure of a run, with the flow's name. Flows without a result have none.
pub fn figures(summary: &Summary) -> impl Iterator<Item = (&str, Figure, f64)> {
    let flows = summary.flows.iter();
    flows
        .filter(|flow| flow.status == FlowStatus::Ok)
        .flat_map(|flow| {
            let read = move |(figure, read): &(Figure, Read)| {
                Some((flow.name.as_str(), *figure, read(flow)?))
            };
            FIGURES.iter().filter_map(read)
        })
}

/// The place of a figure among all, for sorting.
pub(crate) fn rank(figure: Figure) -> usize {
    let known = FIGURES.iter().position(|(known, _)| *known == figure);
    known.unwrap_or(FIGURES.len())
}
