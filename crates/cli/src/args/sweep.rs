//! `sweep`.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::Args;
use constel_control::sweep::{Axis, Seeds};

use super::Time;

/// `sweep`.
#[derive(Debug, Args)]
pub(crate) struct Sweep {
    /// Scenario file.
    pub(crate) file: PathBuf,
    /// Seeds: `1..10` are ten, `1,5,9` are three.
    #[arg(long, value_name = "SEEDS", default_value = "1..5")]
    pub(crate) seeds: Seeds,
    /// Values of a place of the scenario, as for `run --set`, separated by commas. With several places all combinations are
    /// run.
    #[arg(long, value_name = "KEY=A,B")]
    pub(crate) set: Vec<Axis>,
    /// File of named choices to compare, `NAME: {KEY: VALUE, ...}` each; with `--set` all combinations are run.
    #[arg(long, value_name = "FILE")]
    pub(crate) choices: Option<PathBuf>,
    /// Folder for all runs and the tables; a stopped sweep resumes in it. Default: `results/sweep-<scenario>`.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the labs, followed by a number. Default: `sweep-<process>`.
    #[arg(long, value_name = "LAB")]
    pub(crate) name: Option<String>,
    /// Runs in parallel. On a small machine parallel runs disturb each other, which their verdicts show.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) jobs: NonZeroU16,
    /// Maximum number of repetitions of a run that is not trustworthy.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) again: u16,
    /// Exclude runs from the figures that are not trustworthy after all repetitions.
    #[arg(long)]
    pub(crate) trustworthy_only: bool,
    /// How time passes in the labs, as for `run`. With `virtual` one job a processor is right.
    #[arg(long, value_enum)]
    pub(crate) time: Option<Time>,
    /// Print the table as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the table as CSV.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}
