//! Tables of a run for other tools: Parquet, CSV, InfluxDB's line protocol.

mod columns;
mod edges;
mod handovers;
mod interfaces;
mod parquet;
mod rows;
mod text;

use std::fs::File;
use std::path::{Path, PathBuf};

use constel_scenario::model::Sampled;
use constel_units::Utc;
use serde::{Deserialize, Serialize};

use super::Run;
use crate::error::Error;
use columns::{Failed, Source};

/// The table of the counters of interfaces, of runs with samples of them.
const INTERFACES: &str = "interfaces";
/// The table of the effects and counters of edges, of runs with samples of them.
const EDGES: &str = "edges";
/// The table of the resources that nodes use, of runs with samples of them.
const USAGE: &str = "usage";
/// The table of satellites that served each station over time.
const HANDOVERS: &str = "handovers";
/// The table of the flows' paths with their durations.
const PATHS: &str = "paths";
/// The table of the machine and the lab, second by second.
const SERIES: &str = "series";

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Apache Parquet: typed columns, their units and the version of the schema in the file's metadata.
    Parquet,
    /// CSV as RFC 4180 has it; no value is an empty cell.
    Csv,
    /// InfluxDB's line protocol: measurements `constel_*`, tags for names, fields for numbers. Times of the lab become times
    /// of the scenario, UTC.
    Influx,
}

impl Format {
    /// The end of a file's name.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::Influx => "lp",
        }
    }
}

/// A table that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exported {
    /// Which.
    pub table: String,
    /// The file.
    pub file: PathBuf,
    /// How it is written.
    pub format: Format,
    /// Rows.
    pub rows: u64,
    /// Names of columns, units in them.
    pub columns: Vec<String>,
    /// Bytes of the file.
    pub bytes: u64,
}

/// The tables that a run has: `interfaces`, `edges` and `usage` of runs with samples, `handovers`, `paths`, `series`, and flows with samples by name.
#[must_use]
pub fn tables(run: &Run) -> Vec<String> {
    let own = [
        (INTERFACES, "interfaces/index.csv"),
        (EDGES, "edges/index.csv"),
        (USAGE, "usage/index.csv"),
        (HANDOVERS, "events.ndjson"),
        (PATHS, "paths.csv"),
        (SERIES, "series.csv"),
    ];
    let own = own
        .into_iter()
        .filter(|(_, file)| run.dir().join(file).is_file());
    let own = own.map(|(name, _)| name.to_owned());
    own.chain(run.flows_with_samples()).collect()
}

/// Writes a table of a run to a file. The file is complete or absent, and replaces an older one.
///
/// # Errors
/// [`Error::NoTable`] for a table that the run does not have; [`Error::NoDocument`] and [`Error::BadTable`] if it cannot be
/// read; [`Error::Unwritable`] if the file cannot be written.
pub fn export(run: &Run, table: &str, file: &Path, format: Format) -> Result<Exported, Error> {
    let known = tables(run);
    if !known.iter().any(|name| name == table) {
        return Err(Error::NoTable {
            table: table.to_owned(),
            known,
        });
    }
    let head = run.head()?;
    let mut source: Box<dyn Source> = match table {
        INTERFACES => {
            let folder = run.dir().join(INTERFACES);
            Box::new(interfaces::Interfaces::open(&folder, Sampled::Interfaces)?)
        }
        USAGE => {
            let folder = run.dir().join(USAGE);
            Box::new(interfaces::Interfaces::open(&folder, Sampled::Usage)?)
        }
        EDGES => Box::new(edges::Edges::open(&run.dir().join(EDGES))?),
        HANDOVERS => Box::new(handovers::Handovers::of(run)?),
        PATHS => Box::new(rows::Rows::open(run.dir().join("paths.csv"))?),
        SERIES => Box::new(rows::Rows::open(run.dir().join("series.csv"))?),
        flow => Box::new(rows::Rows::open(run.samples_file(flow))?),
    };
    let about = About {
        table: table.to_owned(),
        lab: head.lab,
        seed: head.seed,
        // Boxes of earlier versions did not write down when they began.
        start_unix_ns: head.start.map_or(0, Utc::unix_ns),
    };
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let mut write = || -> Result<(u64, u64), Failed> {
        let out = File::create(&part)?;
        let rows = match format {
            Format::Parquet => parquet::write(&mut *source, &about, out),
            Format::Csv => text::csv(&mut *source, out),
            Format::Influx => text::influx(&mut *source, &about, out),
        }?;
        let bytes = std::fs::metadata(&part)?.len();
        std::fs::rename(&part, file)?;
        Ok((rows, bytes))
    };
    let (rows, bytes) = write().map_err(|failed| {
        // It may not even be there.
        drop(std::fs::remove_file(&part));
        match failed {
            Failed::Read(error) => error,
            Failed::Write(source) => Error::Unwritable {
                path: file.to_owned(),
                source,
            },
        }
    })?;
    Ok(Exported {
        table: table.to_owned(),
        file: file.to_owned(),
        format,
        rows,
        columns: source.columns().iter().map(|c| c.name.clone()).collect(),
        bytes,
    })
}

/// The description of a file's origin, for its header.
struct About {
    table: String,
    lab: String,
    seed: u64,
    /// Lab time zero.
    start_unix_ns: i64,
}
