//! `sweep`.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use constel_control::sweep::{Axis, Seeds, Shard};

use super::Time;

/// `sweep`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Sweep {
    /// An action other than making runs.
    #[command(subcommand)]
    pub(crate) verb: Option<SweepVerb>,
    /// Scenario file.
    #[arg(required = true)]
    pub(crate) file: Option<PathBuf>,
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
    /// Make only the runs of shard I of N, I from 1 to N; `constel sweep merge` makes the tables. Shards may run on several
    /// machines at a time.
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Shard>,
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

/// Verbs of `sweep`.
#[derive(Debug, Subcommand)]
pub(crate) enum SweepVerb {
    /// Make the tables of a sweep whose shards are done. Makes no runs and needs no scenario.
    #[command(after_help = super::examples::SWEEP_MERGE)]
    Merge(SweepMerge),
}

/// `sweep merge`.
#[derive(Debug, Args)]
pub(crate) struct SweepMerge {
    /// Folder of the shards. Several folders, for example of machines without a common file system, need `--out`.
    #[arg(required = true, value_name = "DIR")]
    pub(crate) dirs: Vec<PathBuf>,
    /// New folder for a copy of all runs and the tables.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Exclude runs from the figures that are not trustworthy.
    #[arg(long)]
    pub(crate) trustworthy_only: bool,
    /// Print the table as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the table as CSV.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}
