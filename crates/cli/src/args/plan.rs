//! `check`, `plan`.

use std::path::PathBuf;

use clap::Args;
use constel_units::TimeSpan;

use super::{Changes, OnMachines, OnThere};

/// `check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Scenario file; `-` is standard input, and relative file names in it then refer to the current folder.
    pub(crate) file: PathBuf,
    /// Changes of the scenario's values.
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Also estimate the resources of the lab, and whether they fit on this machine: memory, open files, processes, processors.
    #[arg(long)]
    pub(crate) here: bool,
    /// Also check whether the lab can run on several machines, and whether its edges are longer than the paths between them.
    #[command(flatten)]
    pub(crate) on: OnThere,
    /// Print errors and warnings as one JSON document on stdout.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `plan`.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Scenario file; `-` is standard input, and relative file names in it then refer to the current folder.
    pub(crate) file: PathBuf,
    /// Changes of the scenario's values.
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Lab time of the plan, for example `30s`.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub(crate) at: TimeSpan,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    /// The division over several machines.
    #[command(flatten)]
    pub(crate) on: OnMachines,
    /// The product over an interval instead of an instant.
    #[command(flatten)]
    pub(crate) over: IntervalArgs,
}

/// `plan` over an interval of lab time.
#[derive(Debug, Args)]
pub(crate) struct IntervalArgs {
    /// Contact plan: the times of every link, with minimum and maximum range and delay.
    #[arg(long, group = "product", conflicts_with = "at")]
    pub(crate) contacts: bool,
    /// Delay, hops and changes of the least-delay path between nodes: `A-B,C:D` or `all` ground stations.
    #[arg(long, value_name = "PAIRS", group = "product", conflicts_with = "at")]
    pub(crate) pairs: Option<String>,
    /// Coverage: dark time of each station, and the share of time in which each flow has a path.
    #[arg(long, group = "product", conflicts_with = "at")]
    pub(crate) coverage: bool,
    /// Write the lab in another tool's format: czml, oem and csv over the interval, svg (a map), dot, drawio and graphml (graphs)
    /// at `--at`, hypatia and starperf as folders.
    #[arg(long, value_name = "FORMAT", group = "product")]
    pub(crate) export: Option<Format>,
    /// File or folder for the export. Default: standard output, for formats of one file.
    #[arg(long, value_name = "PATH", requires = "export")]
    pub(crate) out: Option<PathBuf>,
    /// Paths to draw on the map, written as for `--pairs`.
    #[arg(long, value_name = "PAIRS", requires = "export")]
    pub(crate) paths: Option<String>,
    /// Start, in lab time; a whole number of the scenario's steps. [default: 0s]
    #[arg(long, value_name = "TIME", requires = "product")]
    pub(crate) from: Option<TimeSpan>,
    /// End, in lab time. [default: the scenario's duration]
    #[arg(long, value_name = "TIME", requires = "product")]
    pub(crate) to: Option<TimeSpan>,
    /// Interval between two samples. [default: the scenario's step]
    #[arg(long, value_name = "TIME", requires = "product")]
    pub(crate) every: Option<TimeSpan>,
    /// Print CSV: a row for each contact, or for each pair and sample.
    #[arg(long, requires = "product", conflicts_with_all = ["json", "export"])]
    pub(crate) csv: bool,
    /// Number of threads; it does not change the result. [default: all CPUs]
    #[arg(long, value_name = "N", requires = "product", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

/// Formats of other tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Cesium's scenes.
    Czml,
    /// A map.
    Svg,
    /// A graph for Graphviz.
    Dot,
    /// A graph for draw.io (diagrams.net).
    Drawio,
    /// A graph for NetworkX, igraph and Gephi.
    Graphml,
    /// CCSDS Orbit Ephemeris Message.
    Oem,
    /// Ephemerides as CSV.
    Csv,
    /// Hypatia's files.
    Hypatia,
    /// StarPerf's files.
    Starperf,
}
