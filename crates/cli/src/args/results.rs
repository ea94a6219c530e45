//! The arguments of `results`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use constel_control::picture::Width;
use constel_units::TimeSpan;

/// `results`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Results {
    /// The verb.
    #[command(subcommand)]
    pub(crate) verb: Option<ResultsVerb>,
    /// Folder of runs, or of one run.
    #[arg(default_value = "results")]
    pub(crate) dir: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print CSV: a row for each flow.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}

/// Operations on results.
#[derive(Debug, Subcommand)]
pub(crate) enum ResultsVerb {
    /// Plot flows' samples over lab time, interfaces' counters, or a sweep's figures, as SVG, PDF or PNG.
    Plot(PlotRun),
    /// Compare two runs, or two folders of repeated runs.
    Compare(CompareRuns),
    /// Compare a run with a measurement of a real network.
    CompareWith(CompareWith),
    /// Write a run's tables as Parquet, CSV or InfluxDB's line protocol.
    Export(ExportRun),
    /// Pack a run and its scenario into one file, to repeat it elsewhere.
    Pack(PackRun),
}

/// `results pack`.
#[derive(Debug, Args)]
pub(crate) struct PackRun {
    /// Folder of the run.
    pub(crate) run: PathBuf,
    /// File to write; it must not exist. Default: `RUN.tar.gz` beside the run's folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `results export`.
#[derive(Debug, Args)]
pub(crate) struct ExportRun {
    /// Folder of the run.
    pub(crate) run: PathBuf,
    /// Table: `interfaces` and `edges` (of runs with `sample` or `--profile`), `handovers`, `paths`, `series`, or a flow.
    /// Default: all tables of the run.
    pub(crate) table: Option<String>,
    /// Format of the tables.
    #[arg(long, value_enum, default_value_t = TableFormat::Parquet)]
    pub(crate) format: TableFormat,
    /// Folder for TABLE.parquet, TABLE.csv or TABLE.lp; older files are replaced. Default: `tables` in the run's folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The format of a table.
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
    /// Folder of a run, or of repeated runs: a combination of a sweep, or any folder with runs in it.
    pub(crate) a: PathBuf,
    /// Folder of the other run or runs; differences are B minus A.
    pub(crate) b: PathBuf,
    /// Folder for pictures, one for each figure: both medians with their intervals. Older pictures are replaced.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) plot: Option<PathBuf>,
    /// The look of the pictures.
    #[command(flatten)]
    pub(crate) look: PictureLook,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `results compare-with`.
#[derive(Debug, Args)]
pub(crate) struct CompareWith {
    /// Folder of a run, or a recording.
    pub(crate) run: PathBuf,
    /// Recording of a real network: `ping -D`, irtt's JSON, LENS, WetLinks, Mahimahi, or a CSV whose first line names a
    /// time and a value.
    pub(crate) measured: PathBuf,
    /// Flow of the run. Default: all flows, of which one may have probes.
    #[arg(long, value_name = "NAME")]
    pub(crate) flow: Option<String>,
    /// Length of the scheduler's slots.
    #[arg(long, value_name = "SPAN", default_value = "15 s")]
    pub(crate) slot: TimeSpan,
    /// Beginning of a slot after a full minute of UTC, below `--slot`.
    #[arg(long, value_name = "SPAN", default_value = "12 s")]
    pub(crate) phase: TimeSpan,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `results plot`.
#[derive(Debug, Args)]
pub(crate) struct PlotRun {
    /// Folder of a run, or of a sweep.
    pub(crate) run: PathBuf,
    /// Name of a flow. Default: all flows with samples.
    #[arg(group = "one picture")]
    pub(crate) flow: Option<String>,
    /// Plot received and sent bytes of interfaces instead of flows, for a run with `--profile`.
    #[arg(long, group = "one picture", conflicts_with = "flow")]
    pub(crate) ports: bool,
    /// Plot processor time, memory, processes and I/O of nodes instead of flows, for a run with `sample`.
    #[arg(long, group = "one picture", conflicts_with_all = ["flow", "ports"])]
    pub(crate) usage: bool,
    /// Plot one quantity of the flows alone.
    #[arg(long, value_enum, value_name = "QUANTITY", conflicts_with_all = ["ports", "usage"])]
    pub(crate) only: Option<Quantity>,
    /// File for the picture; an older one is replaced. Only with FLOW, `--ports` or `--usage`. Default: `flows/FLOW.svg`,
    /// `interfaces.svg` or `usage.svg` in the run's folder, `plots/FLOW-FIGURE.svg` in a sweep's.
    #[arg(long, value_name = "FILE", requires = "one picture")]
    pub(crate) out: Option<PathBuf>,
    /// The look.
    #[command(flatten)]
    pub(crate) look: PictureLook,
}

/// A quantity of flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Quantity {
    /// Round-trip times.
    RoundTrip,
    /// One-way delays.
    OneWay,
    /// Throughput.
    Throughput,
}

/// The format and the look of pictures.
#[derive(Debug, Args)]
pub(crate) struct PictureLook {
    /// Format of the picture. Default: that of the ending of `--out`, else svg.
    #[arg(long, value_enum)]
    pub(crate) format: Option<PictureFormat>,
    /// Width of the picture, with the unit in, cm, mm, pt or px. A column of a paper has `3.4in`. Default: 6.5in.
    #[arg(long, value_name = "WIDTH")]
    pub(crate) width: Option<Width>,
    /// Style file: letters, lines and colours, by keys of matplotlib's style files.
    #[arg(long, value_name = "FILE")]
    pub(crate) style: Option<PathBuf>,
    /// Draw no title: the caption of a paper replaces it.
    #[arg(long)]
    pub(crate) no_title: bool,
}

impl PictureLook {
    /// Whether any of the options was given.
    pub(crate) fn is_given(&self) -> bool {
        self.format.is_some() || self.width.is_some() || self.style.is_some() || self.no_title
    }
}

/// The format of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PictureFormat {
    /// SVG.
    Svg,
    /// PDF with embedded letters.
    Pdf,
    /// PNG.
    Png,
}
