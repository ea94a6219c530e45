//! Columns of 64-bit integers, little-endian, with one file for each.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::EngineError;

/// The columns of one folder, which are written together.
pub(super) struct Columns {
    what: &'static str,
    files: Vec<BufWriter<File>>,
}

impl Columns {
    /// Creates the folder `what` of the results with an index, and a file for each name.
    ///
    /// # Errors
    /// The refusal of the file system.
    pub(super) fn create<'n>(
        what: &'static str,
        results: &Path,
        index: (&str, &str),
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Self, EngineError> {
        let folder = results.join(what);
        let make = || -> io::Result<_> {
            // Creating an existing folder fails: results are never overwritten.
            fs::create_dir(&folder)?;
            fs::write(folder.join(index.0), index.1)?;
            let file = |name| File::create_new(folder.join(name)).map(BufWriter::new);
            names.map(file).collect()
        };
        let files = make().map_err(|source| EngineError::Io {
            what: format!("make {}", folder.display()),
            source,
        })?;
        Ok(Self { what, files })
    }

    /// Appends a number to a column.
    pub(super) fn put(&mut self, column: usize, number: u64) -> Result<(), EngineError> {
        let written = self.files[column].write_all(&number.to_le_bytes());
        written.map_err(|source| self.failed(source))
    }

    /// Writes all buffered data to the files.
    pub(super) fn finish(mut self) -> Result<(), EngineError> {
        let flushed = self.files.iter_mut().try_for_each(Write::flush);
        flushed.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> EngineError {
        EngineError::Io {
            what: format!("write {}", self.what),
            source,
        }
    }
}
