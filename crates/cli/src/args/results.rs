//! The words of `results`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `results`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Results {
    /// What to make of it.
    #[command(subcommand)]
    pub(crate) verb: Option<ResultsVerb>,
    /// A folder of runs, or one run's folder.
    #[arg(default_value = "results")]
    pub(crate) dir: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print CSV: a row for each flow.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}

/// What to make of results.
#[derive(Debug, Subcommand)]
pub(crate) enum ResultsVerb {
    /// Draw what flows measured in lab time, over what geometry gives their paths, or what interfaces received and sent: SVG.
    Plot(PlotRun),
    /// Compare two runs, or two folders of repeats: which figures differ, and whether by more than noise.
    Compare(CompareRuns),
    /// Write a table of a run for other tools: Parquet, CSV, or InfluxDB's line protocol.
    Export(ExportRun),
    /// Make a run one file, with the scenario and all that it names, so that another machine can run it again and compare.
    Pack(PackRun),
}

/// `results pack`.
#[derive(Debug, Args)]
pub(crate) struct PackRun {
    /// The run's folder.
    pub(crate) run: PathBuf,
    /// The file; `RUN.tar.gz` beside the run's folder unless given. It must not be there yet.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `results export`.
#[derive(Debug, Args)]
pub(crate) struct ExportRun {
    /// The run's folder.
    pub(crate) run: PathBuf,
    /// `interfaces` and `edges` (of runs with `sample` or `--profile`), `handovers`, `paths`, `series`, or a flow; all that the run has
    /// unless given.
    pub(crate) table: Option<String>,
    /// How they are written.
    #[arg(long, value_enum, default_value_t = TableFormat::Parquet)]
    pub(crate) format: TableFormat,
    /// The folder they go to, as TABLE.parquet, TABLE.csv or TABLE.lp; the run's own `tables` unless given. Older ones are replaced.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// Apache Parquet, with units and the version of the schema in its metadata.
    Parquet,
    /// CSV.
    Csv,
    /// InfluxDB's line protocol.
    Influx,
}

/// `results compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareRuns {
    /// One run's folder, or a folder of repeats: a combination of a sweep, or any with runs in it.
    pub(crate) a: PathBuf,
    /// The other; differences are this one less the first.
    pub(crate) b: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `results plot`.
#[derive(Debug, Args)]
pub(crate) struct PlotRun {
    /// The run's folder.
    pub(crate) run: PathBuf,
    /// The flow; all that have samples unless given.
    #[arg(group = "one picture")]
    pub(crate) flow: Option<String>,
    /// Instead of flows: what interfaces received and sent, of a run with `--profile`.
    #[arg(long, group = "one picture", conflicts_with = "flow")]
    pub(crate) ports: bool,
    /// File that the picture goes to, `flows/FLOW.svg` or `interfaces.svg` of the run unless given; an older one is replaced.
    /// With FLOW or `--ports` only.
    #[arg(long, value_name = "FILE", requires = "one picture")]
    pub(crate) out: Option<PathBuf>,
}
