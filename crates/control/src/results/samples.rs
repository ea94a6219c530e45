//! Tables that a run leaves behind, read line by line.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use constel_units::files;

use crate::error::Error;

/// The lines of a table after its first, which names the columns.
pub(super) struct Table {
    path: PathBuf,
    columns: Vec<String>,
    lines: files::Lines<BufReader<File>>,
}

impl Table {
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let failed = |source| Error::NoDocument {
            path: path.clone(),
            source,
        };
        let mut lines = files::lines(&path).map_err(failed)?;
        let head = lines
            .next()
            .transpose()
            .map_err(failed)?
            .unwrap_or_default();
        Ok(Self {
            columns: head.split(',').map(str::to_owned).collect(),
            path,
            lines,
        })
    }

    /// The next line's cells in these columns; those that it does not have are empty.
    pub(super) fn next<const N: usize>(
        &mut self,
        columns: [&str; N],
    ) -> Result<Option<[String; N]>, Error> {
        let Some(line) = self.lines.next() else {
            return Ok(None);
        };
        let line = line.map_err(|source| Error::NoDocument {
            path: self.path.clone(),
            source,
        })?;
        let cells: Vec<&str> = line.split(',').collect();
        Ok(Some(columns.map(|column| {
            let place = self.columns.iter().position(|known| known == column);
            let cell = place.and_then(|place| cells.get(place));
            cell.map_or_else(String::new, |cell| (*cell).to_owned())
        })))
    }
}
