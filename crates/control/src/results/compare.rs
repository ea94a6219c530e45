//! Runs of two folders, read for a comparison.

use std::path::Path;

use constel_analysis::sweep::{Comparison, SAMPLED, Samples, Side};
use constel_api::summary::Summary;

use super::Run;
use super::samples::Table;
use crate::error::Error;
use crate::sweep::{Attempts, SEED};

/// Folders of runs are looked for at most so deep: those of a sweep are three below its own.
const DEEPEST: usize = 5;

/// Compares two runs, or two folders of repeats: those of a sweep, of one of its combinations, or any.
///
/// # Errors
/// [`Error::NoResults`] for a place without a run that came to its end; [`Error::NoDocument`], [`Error::BadDocument`].
pub fn compare(a: &Path, b: &Path) -> Result<Comparison, Error> {
    let (mut a, mut b) = (side(a)?, side(b)?);
    // With several repeats, the spread over lab time is less informative than the spread over repeats.
    if a.summaries.len() > 1 || b.summaries.len() > 1 {
        a.samples.clear();
        b.samples.clear();
    }
    Ok(Comparison::of(&a, &b))
}

fn side(place: &Path) -> Result<Side, Error> {
    let mut side = Side::default();
    if let Some(run) = Run::open(place) {
        side.summaries.push(run.summary()?);
        for flow in run.flows_with_samples() {
            let samples = samples(&run, &flow)?;
            side.samples.insert(flow, samples);
        }
        return Ok(side);
    }
    collect(place, 0, &mut side.summaries)?;
    if side.summaries.is_empty() {
        return Err(Error::NoResults {
            dir: place.to_owned(),
            why: std::io::Error::other("it has no run that came to its end"),
        });
    }
    Ok(side)
}

/// Collects the finished runs below a folder, sorted by their names. If a seed of a sweep has several attempts, it takes
/// the one that the sweep counts.
fn collect(folder: &Path, depth: usize, found: &mut Vec<Summary>) -> Result<(), Error> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with(SEED) {
        found.extend(Attempts::of(folder)?.counts());
        return Ok(());
    }
    let no_results = |why| Error::NoResults {
        dir: folder.to_owned(),
        why,
    };
    let mut places = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(no_results)? {
        let path = entry.map_err(no_results)?.path();
        if path.is_dir() {
            places.push(path);
        }
    }
    places.sort();
    let (runs, folders): (Vec<_>, Vec<_>) = places
        .into_iter()
        .map(|place| (Run::open(&place), place))
        .partition(|(run, _)| run.is_some());
    let ended = runs.into_iter().filter_map(|(run, _)| run?.summary().ok());
    found.extend(ended);
    if depth < DEEPEST {
        for (_, folder) in folders {
            collect(&folder, depth + 1, found)?;
        }
    }
    Ok(())
}

/// A flow's samples in the order and the units of [`SAMPLED`].
fn samples(run: &Run, flow: &str) -> Result<[Samples; SAMPLED.len()], Error> {
    let mut table = Table::open(run.dir().join("flows").join(format!("{flow}.csv")))?;
    let mut samples: [Samples; SAMPLED.len()] = Default::default();
    while let Some([t_s, values @ ..]) =
        table.next(["t_s", "rtt_us", "owd_us", "owd_back_us", "throughput_bps"])?
    {
        let Ok(t_s) = t_s.parse::<f64>() else {
            continue;
        };
        for ((samples, value), per_unit) in samples.iter_mut().zip(values).zip([1e3, 1e3, 1e3, 1e6])
        {
            samples.extend(
                value
                    .parse::<f64>()
                    .ok()
                    .map(|value| (t_s, value / per_unit)),
            );
        }
    }
    Ok(samples)
}
