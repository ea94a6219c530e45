//! `test`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;

use super::Time;

/// `test`.
#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Scenario files, each with `expect`.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// File for a report in JUnit's XML format. Default: no report.
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Runs of each scenario. Default: one for each seed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat: Option<u16>,
    /// Seeds to use one after the other, instead of the scenario's: `1..20` or one number.
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    pub(crate) seeds: Option<RangeInclusive<u64>>,
    /// Runs in parallel. Runs share the host, so figures may not be trustworthy.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) jobs: u8,
    /// Folder for each run's results and log.
    #[arg(long, value_name = "DIR", default_value = "results/tests")]
    pub(crate) results: PathBuf,
    /// Judge the run in this results folder by the one FILE, without running anything. May be repeated.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["repeat", "seeds", "jobs", "results"])]
    pub(crate) judge: Vec<PathBuf>,
    /// End a run as soon as a statement about events (`alive`, `order`) can no longer become true.
    #[arg(long, conflicts_with = "judge")]
    pub(crate) fail_fast: bool,
    /// Capture the frames of this node, or of this port as `NODE/PORT`, from lab time zero on. The file is kept in `captures`
    /// of the run's results if a statement is false or not judged, and removed otherwise. May be repeated.
    #[arg(long, value_name = "NODE|PORT", conflicts_with = "judge")]
    pub(crate) capture: Vec<String>,
    /// How time passes in the labs, as for `run`.
    #[arg(long, value_enum, conflicts_with_all = ["judge", "capture"])]
    pub(crate) time: Option<Time>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses `A..B`, both included, or one seed; at most 1,000 seeds.
fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |part: &str| {
        part.parse::<u64>()
            .map_err(|_| format!("`{part}` is no seed"))
    };
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    match last.checked_sub(first) {
        Some(0..1000) => Ok(first..=last),
        Some(_) => Err("more than 1,000 seeds".to_owned()),
        None => Err(format!("{last} comes before {first}")),
    }
}

#[cfg(test)]
mod tests {
    use super::seeds;

    #[test]
    fn seeds_are_a_range_or_one() {
        assert_eq!(seeds("1..20"), Ok(1..=20));
        assert_eq!(seeds("7"), Ok(7..=7));
        for wrong in ["", "a", "1..", "3..1", "1..2000", "-1"] {
            assert!(seeds(wrong).is_err(), "{wrong}");
        }
    }
}
