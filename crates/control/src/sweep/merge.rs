//! The tables of a sweep whose shards were made apart.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use constel_analysis::sweep::{Cell, Design, Table};

use super::folder::Folder;
use crate::error::Error;

/// The result of a merge.
#[derive(Debug, Clone)]
pub struct Merged {
    /// The figures.
    pub table: Table,
    /// The folder of the merged sweep.
    pub out: PathBuf,
    /// The runs of the sweep without a result. A table without them says less than the sweep was to say.
    pub missing: Vec<String>,
}

/// Summarises a sweep whose shards are done, and writes its tables, as [`sweep`](super::sweep) does. Makes no runs.
///
/// With one folder, the tables are written there. With several, `out` gets a copy of all runs, so that it is the folder of a
/// sweep like any other.
///
/// # Errors
/// [`Error::BadSweep`] if a folder is no sweep's, belongs to another sweep, is in use, or has a run that another one also has;
/// if `out` is missing or not empty. [`Error::SweepFolder`].
pub fn merge(
    from: &[PathBuf],
    out: Option<&Path>,
    trustworthy_only: bool,
) -> Result<Merged, Error> {
    let opened: Result<Vec<_>, Error> = from.iter().map(|dir| Folder::existing(dir)).collect();
    let mut sources = opened?;
    let bad = |why: String| Err(Error::BadSweep(why));
    let Some((first, design)) = sources.first() else {
        return bad("there is no folder to merge".to_owned());
    };
    let design = design.clone();
    for (source, other) in &sources {
        let (own, theirs) = (design.record(), other.record());
        if (&own.scenario_sha256, &own.axes, &own.seeds)
            != (&theirs.scenario_sha256, &theirs.axes, &theirs.seeds)
        {
            return bad(format!(
                "{} and {} are of different sweeps: compare their sweep.json",
                first.dir().display(),
                source.dir().display()
            ));
        }
    }
    let cells: Vec<Cell> = design.cells().collect();
    let folder = match (out, sources.len()) {
        (Some(out), _) => collect(out, &design, &cells, &sources)?,
        (None, 1) => sources.swap_remove(0).0,
        (None, _) => return bad("several folders need --out DIR for the merged sweep".to_owned()),
    };
    let runs = folder.done(&cells)?;
    let with_result = runs.iter().filter(|run| run.summary.is_some());
    let with_result: BTreeSet<_> = with_result.map(|run| (run.variant, run.seed)).collect();
    let missing = cells
        .iter()
        .filter(|cell| !with_result.contains(&(cell.variant.index, cell.seed)))
        .map(|cell| format!("{}, seed {}", cell.variant.label, cell.seed));
    let table = Table::of(&design, &runs, trustworthy_only);
    folder.write(&table)?;
    Ok(Merged {
        missing: missing.collect(),
        table,
        out: folder.dir().to_owned(),
    })
}

/// Copies the runs of all folders into a new one.
fn collect(
    out: &Path,
    design: &Design,
    cells: &[Cell],
    sources: &[(Folder, Design)],
) -> Result<Folder, Error> {
    let mut plan: Vec<(PathBuf, &Cell)> = Vec::new();
    for cell in cells {
        let mut found = None;
        for (source, _) in sources {
            if source.state(cell)?.last == 0 {
                continue;
            }
            if let Some(other) = found.replace(source) {
                return Err(Error::BadSweep(format!(
                    "{} and {} both have runs of {}, seed {}; give each run's folder once",
                    other.dir().display(),
                    source.dir().display(),
                    cell.variant.label,
                    cell.seed
                )));
            }
            plan.push((source.cell(cell), cell));
        }
    }
    let folder = Folder::new(out, design)?;
    for (from, cell) in plan {
        let to = folder.cell(cell);
        copy(&from, &to).map_err(|(path, source)| Error::SweepFolder { path, source })?;
    }
    Ok(folder)
}

/// Copies a folder of results. Sockets, pipes and devices, which programs of nodes may have left, have no content and are
/// left out.
fn copy(from: &Path, to: &Path) -> Result<(), (PathBuf, io::Error)> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| (path, error)
    };
    fs::create_dir_all(to).map_err(at(to))?;
    for entry in fs::read_dir(from).map_err(at(from))? {
        let entry = entry.map_err(at(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(at(&source))?;
        if kind.is_dir() {
            copy(&source, &target)?;
        } else if kind.is_symlink() {
            let link = fs::read_link(&source).map_err(at(&source))?;
            std::os::unix::fs::symlink(link, &target).map_err(at(&target))?;
        } else if kind.is_file() {
            fs::copy(&source, &target).map_err(at(&source))?;
        }
    }
    Ok(())
}
