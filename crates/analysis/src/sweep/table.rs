//! The combined results of runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use constel_api::summary::{FlowStatus, Summary};
use serde::{Deserialize, Serialize};

use crate::sweep::design::{Design, Variant};
use crate::sweep::figures::{Figure, figures, rank};
use crate::sweep::interval::Interval;

/// A finished run.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// Place of its combination among all.
    pub variant: usize,
    /// Its seed.
    pub seed: u64,
    /// The run's results; `None` when it failed.
    pub summary: Option<Summary>,
}

/// One figure of one flow, over the runs of one combination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The settings that differ from the other variants.
    pub variant: String,
    /// The flow.
    pub flow: String,
    /// The figure.
    #[serde(flatten)]
    pub figure: Figure,
    /// Over the repeats.
    #[serde(flatten)]
    pub interval: Interval,
    /// The value of each run.
    pub values: Vec<f64>,
}

/// The runs of one combination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    /// The settings that differ from the other variants.
    pub variant: String,
    /// All settings, as `KEY=VALUE`.
    pub settings: Vec<String>,
    /// The number of runs.
    pub runs: usize,
    /// The number of runs that are trustworthy.
    pub trustworthy: usize,
    /// The number of runs that failed and have no figures.
    pub failed: usize,
    /// The number of runs in which software of the lab failed: that is a result, whatever the figures.
    pub software_failed: usize,
    /// Flows without a result, over all runs: they have no figures either.
    pub failed_flows: usize,
}

/// A sweep in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Version of this document.
    pub version: u32,
    /// The scenario's file.
    pub scenario: String,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// Whether runs that are not to be trusted are left out of the figures.
    pub trustworthy_only: bool,
    /// A row for each combination.
    pub runs: Vec<Runs>,
    /// A row for each figure.
    pub rows: Vec<Row>,
}

impl Table {
    /// Sums up. Runs that are not to be trusted count, and are counted, unless they are left out.
    #[must_use]
    pub fn of(design: &Design, done: &[Done], trustworthy_only: bool) -> Self {
        let variants = design.variants();
        let runs = variants.iter().map(|variant| runs_of(variant, done));
        let mut samples: BTreeMap<(usize, usize, &str), (Figure, Vec<f64>)> = BTreeMap::new();
        for run in done {
            let Some(summary) = &run.summary else {
                continue;
            };
            if trustworthy_only && !summary.verdict.trustworthy {
                continue;
            }
            for (flow, figure, value) in figures(summary) {
                let key = (rank(figure), run.variant, flow);
                samples
                    .entry(key)
                    .or_insert((figure, Vec::new()))
                    .1
                    .push(value);
            }
        }
        // By flow, then figure, then combination: values that are compared are next to each other.
        let mut rows: Vec<((&str, usize, usize), Row)> = samples
            .iter()
            .filter_map(|(&(rank, variant, flow), (figure, values))| {
                let row = Row {
                    variant: variants.get(variant)?.label.clone(),
                    flow: flow.to_owned(),
                    figure: *figure,
                    interval: Interval::of(values)?,
                    values: values.clone(),
                };
                Some(((flow, rank, variant), row))
            })
            .collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        Self {
            version: 1,
            scenario: design.file().to_owned(),
            seeds: design.seeds().to_vec(),
            trustworthy_only,
            runs: runs.collect(),
            rows: rows.into_iter().map(|(_, row)| row).collect(),
        }
    }

    /// All rows as CSV, with a head.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text =
            String::from("variant,flow,figure,n,mean,ci95,min,max,median,median_low,median_high\n");
        for row in &self.rows {
            let Interval {
                n,
                mean,
                ci95,
                min,
                max,
                median,
                median_ci95,
            } = row.interval;
            let [low, high] = [0, 1]
                .map(|end| median_ci95.map_or_else(String::new, |ends| ends[end].to_string()));
            let ci95 = ci95.map_or_else(String::new, |half| half.to_string());
            let (variant, flow) = (cell(&row.variant), cell(&row.flow));
            let _ = writeln!(
                text,
                "{variant},{flow},{},{n},{mean},{ci95},{min},{max},{median},{low},{high}",
                row.figure.name
            );
        }
        text
    }
}

/// RFC 4180.
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn runs_of(variant: &Variant, done: &[Done]) -> Runs {
    let all: Vec<&Done> = done
        .iter()
        .filter(|run| run.variant == variant.index)
        .collect();
    let summaries = || all.iter().filter_map(|run| run.summary.as_ref());
    let came_to_nothing = |summary: &Summary| {
        let flows = summary.flows.iter();
        flows.filter(|flow| flow.status != FlowStatus::Ok).count()
    };
    Runs {
        variant: variant.label.clone(),
        settings: variant.settings.iter().map(ToString::to_string).collect(),
        runs: all.len(),
        trustworthy: summaries().filter(|s| s.verdict.trustworthy).count(),
        failed: all.len() - summaries().count(),
        software_failed: summaries().filter(|s| s.software.failed).count(),
        failed_flows: summaries().map(came_to_nothing).sum(),
    }
}
