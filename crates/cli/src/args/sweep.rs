//! `sweep`.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::Args;
use constel_control::sweep::{Axis, Seeds};

/// `sweep`.
#[derive(Debug, Args)]
pub(crate) struct Sweep {
    /// The scenario file.
    pub(crate) file: PathBuf,
    /// The seeds: `1..10` are ten, `1,5,9` are three.
    #[arg(long, value_name = "SEEDS", default_value = "1..5")]
    pub(crate) seeds: Seeds,
    /// The values that a place of the scenario takes in turn, as for `run --set`; commas part them. Of several places all
    /// combinations are run.
    #[arg(long, value_name = "KEY=A,B")]
    pub(crate) set: Vec<Axis>,
    /// A file of named choices that are compared, `NAME: {KEY: VALUE, ...}` each; with `--set` all combinations are run.
    #[arg(long, value_name = "FILE")]
    pub(crate) choices: Option<PathBuf>,
    /// Folder of all runs and of the tables; `results/sweep-<scenario>` unless given. A sweep that was stopped goes on where it was.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What the labs are called, with a number behind it; `sweep-<process>` unless given.
    #[arg(long, value_name = "LAB")]
    pub(crate) name: Option<String>,
    /// Runs at a time. More than one and they disturb each other on a small machine; the verdicts tell.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) jobs: NonZeroU16,
    /// How often a run is made again whose figures are not to be trusted.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) again: u16,
    /// Leave runs out of the figures that are still not to be trusted then.
    #[arg(long)]
    pub(crate) trustworthy_only: bool,
    /// Print the table as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the table as CSV.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}
