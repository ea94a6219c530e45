//! The record of a live policy's decisions: files with which the run repeats without it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use constel_plan::{
    Decision, LINK_COLUMNS, ROUTE_COLUMNS, STATION_COLUMNS, link_row, route_row, station_row,
};
use constel_topology::Layout;

/// The files, each made with its first row.
#[derive(Debug)]
pub(crate) struct Record {
    dir: PathBuf,
    stations: Option<BufWriter<File>>,
    links: Option<BufWriter<File>>,
    routes: Option<BufWriter<File>>,
}

impl Record {
    /// Creates a record without files, in the folder `choices` of a results folder.
    pub(crate) fn new(results: &Path) -> Self {
        Self {
            dir: results.join("choices"),
            stations: None,
            links: None,
            routes: None,
        }
    }

    /// Writes decisions from `t_ns` of lab time on.
    ///
    /// # Errors
    /// When a file cannot be made or written.
    pub(crate) fn write(
        &mut self,
        layout: &Layout,
        t_ns: u64,
        decision: &Decision,
    ) -> io::Result<()> {
        let (chosen, switched) = decision.at(t_ns);
        let stations = chosen.map(|(station, chosen)| station_row(layout, station, &chosen));
        let links = switched.map(|switched| link_row(layout, &switched));
        let routes = decision.routes.iter();
        let routes = routes.map(|route| route_row(layout, t_ns, route));
        let (dir, name) = (&self.dir, ["stations.csv", "links.csv", "routes.csv"]);
        append(
            &mut self.stations,
            dir,
            (name[0], STATION_COLUMNS),
            stations,
        )?;
        append(&mut self.links, dir, (name[1], LINK_COLUMNS), links)?;
        append(&mut self.routes, dir, (name[2], ROUTE_COLUMNS), routes)
    }
}

fn append(
    file: &mut Option<BufWriter<File>>,
    dir: &Path,
    (name, columns): (&str, &str),
    rows: impl Iterator<Item = String>,
) -> io::Result<()> {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    let out = match file {
        Some(out) => out,
        None => {
            fs::create_dir_all(dir)?;
            let mut out = BufWriter::new(File::create_new(dir.join(name))?);
            writeln!(out, "{columns}")?;
            file.insert(out)
        }
    };
    for row in rows {
        writeln!(out, "{row}")?;
    }
    // A lab whose process is killed has its decisions so far.
    out.flush()
}
