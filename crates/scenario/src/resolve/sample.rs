//! `sample`: patterns, and metrics that there is something of.

use crate::diagnostic::Diagnostics;
use crate::model::{NodesNamed, Sampling};
use crate::parse::Parsed;
use crate::raw::{SampleMetric, Sampled};
use crate::walk::Seg::{Index, Key};

/// Checks the sampling; errors go to `errors`. Whether such nodes exist is known when the plan is made.
pub(super) fn resolve(parsed: &Parsed, errors: &mut Diagnostics) -> Option<Sampling> {
    let raw = parsed.raw.sample.as_ref()?;
    let metrics = raw.metrics.as_deref().unwrap_or(SampleMetric::ALL);
    for (index, metric) in metrics.iter().enumerate() {
        if metrics[..index].contains(metric) {
            let path = [Key("sample"), Key("metrics"), Index(index)];
            errors.push(parsed.error_at(&path, "duplicate-name", "this metric is listed twice"));
        }
    }
    let mut named = |key: &'static str, given: &Option<Vec<String>>, own: bool| {
        let Some(given) = given else {
            let all = NodesNamed::written(parsed, &[Key("sample")], "*");
            return if own { vec![all] } else { Vec::new() };
        };
        if !own && !given.is_empty() {
            let message =
                format!("none of `metrics` is of {key}, so that nothing is written down of them");
            let error = parsed.error_at(&[Key("sample"), Key(key)], "no-effect", message);
            errors.push(error.with_suggestion(format!("remove `{key}`, or add a metric of {key}")));
        }
        let written = |(n, text): (usize, &String)| {
            NodesNamed::written(parsed, &[Key("sample"), Key(key), Index(n)], text)
        };
        given.iter().enumerate().map(written).collect()
    };
    let any = |kind| metrics.iter().any(|metric| metric.kind() == kind);
    let interfaces = named("interfaces", &raw.interfaces, any(Sampled::Interfaces));
    let edges = named("edges", &raw.edges, any(Sampled::Edges));
    let usage = named("usage", &raw.usage, any(Sampled::Usage));
    let mut metrics = metrics.to_vec();
    metrics.sort_unstable();
    Some(Sampling {
        every: raw.every,
        interfaces,
        edges,
        usage,
        metrics,
    })
}
