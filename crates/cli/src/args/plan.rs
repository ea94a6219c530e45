//! `check`, `plan`.

use std::path::PathBuf;

use clap::Args;
use constel_units::TimeSpan;

use super::{Changes, OnMachines, OnThere};

/// `check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The scenario file; `-` is standard input, and the files that it names are then looked for in this folder.
    pub(crate) file: PathBuf,
    /// What is different from the file.
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Also estimate what it takes of this machine, and whether that fits: memory, open files, processes, processors.
    #[arg(long)]
    pub(crate) here: bool,
    /// Also look whether it can be on several machines, and whether its edges are longer than the ways between these.
    #[command(flatten)]
    pub(crate) on: OnThere,
    /// Print the findings as one JSON document on stdout.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `plan`.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// The scenario file; `-` is standard input, and the files that it names are then looked for in this folder.
    pub(crate) file: PathBuf,
    /// What is different from the file.
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Lab time, for example `30s`.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub(crate) at: TimeSpan,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    /// What becomes of it on several machines.
    #[command(flatten)]
    pub(crate) on: OnMachines,
    /// What to compute over an interval instead of at an instant.
    #[command(flatten)]
    pub(crate) over: Over,
}

/// `plan` over an interval of lab time.
#[derive(Debug, Args)]
pub(crate) struct Over {
    /// Contact plan: every link's stretches of time, with its least and greatest range and delay.
    #[arg(long, group = "product", conflicts_with = "at")]
    pub(crate) contacts: bool,
    /// Delay, hops and changes of the least-delay path between nodes: `A-B,C:D` or `all` ground stations.
    #[arg(long, value_name = "PAIRS", group = "product", conflicts_with = "at")]
    pub(crate) pairs: Option<String>,
    /// Can the sky do what the scenario asks? Dark time per station, share of time with a path per flow.
    #[arg(long, group = "product", conflicts_with = "at")]
    pub(crate) coverage: bool,
    /// Write the lab in another tool's format: czml, oem and csv over the interval, svg (a map) at `--at`,
    /// hypatia and starperf as folders.
    #[arg(long, value_name = "FORMAT", group = "product")]
    pub(crate) export: Option<Format>,
    /// File or folder the export goes to; stdout for one file.
    #[arg(long, value_name = "PATH", requires = "export")]
    pub(crate) out: Option<PathBuf>,
    /// Paths drawn on the map, as for `--pairs`.
    #[arg(long, value_name = "PAIRS", requires = "export")]
    pub(crate) paths: Option<String>,
    /// First instant, in lab time; a whole number of the scenario's steps. [default: 0s]
    #[arg(long, value_name = "TIME", requires = "product")]
    pub(crate) from: Option<TimeSpan>,
    /// End, in lab time. [default: the scenario's duration]
    #[arg(long, value_name = "TIME", requires = "product")]
    pub(crate) to: Option<TimeSpan>,
    /// Time between two samples. [default: the scenario's step]
    #[arg(long, value_name = "TIME", requires = "product")]
    pub(crate) every: Option<TimeSpan>,
    /// Print CSV: one row a contact, or one row a pair and sample.
    #[arg(long, requires = "product", conflicts_with_all = ["json", "export"])]
    pub(crate) csv: bool,
    /// Threads to compute with; the result does not depend on it. [default: all CPUs]
    #[arg(long, value_name = "N", requires = "product", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

/// Formats of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Cesium's scenes.
    Czml,
    /// A map.
    Svg,
    /// CCSDS Orbit Ephemeris Message.
    Oem,
    /// Ephemerides as CSV.
    Csv,
    /// Hypatia's files.
    Hypatia,
    /// StarPerf's files.
    Starperf,
}
