//! The results folder of one run. Its files are never overwritten: an existing folder is refused.
//!
//! ```text
//! results/<lab>-<UTC stamp>/
//!   manifest.json    what ran: versions, seed, hashes, driver, host, command line
//!   summary.json     what came out: flows, convergence, handovers, verdict
//!   events.ndjson    what happened, line by line
//!   scenario.yaml    the scenario as read
//!   series.csv       the machine and the lab, second by second; series.svg is its picture
//!   paths.csv        the path of each flow in lab time, and the delays that geometry gives it
//!   stalls.json      when the machine kept the link plane from running
//!   flows/NAME.out   each flow's raw output
//!   flows/NAME.csv   what it measured, in lab time, with its path and marks
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::rotating::{MOST_BYTES, Rotating};

/// A results folder that is being filled.
#[derive(Debug, Clone)]
pub struct Results {
    dir: PathBuf,
    /// The permissions that it gets when it is opened to others; `None` if it already has them.
    open: Option<fs::Permissions>,
    /// The bound of files that grow with lab time; `None` if the lab has an end.
    most_bytes: Option<u64>,
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

impl Results {
    /// Creates the folder (and its parents) with its `flows/`. An empty folder is accepted: its maker wants the results in it.
    ///
    /// # Errors
    /// When the folder has contents or cannot be created.
    pub fn create(dir: &Path) -> io::Result<Self> {
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent)?;
        }
        match fs::create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_empty(dir) => {}
            made => made?,
        }
        fs::create_dir(dir.join("flows"))?;
        Ok(Self {
            dir: fs::canonicalize(dir)?,
            open: None,
            most_bytes: None,
        })
    }

    /// Bounds the files that grow with lab time, for a lab without an end: each keeps its latest 64 to 128 MiB, in `NAME` and
    /// `NAME.1`.
    #[must_use]
    pub fn bounded(self) -> Self {
        Self {
            most_bytes: Some(MOST_BYTES),
            ..self
        }
    }

    /// Creates the folder so that only its owner can enter it until [`open_to_others`](Self::open_to_others). Files
    /// written before that are not yet results.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_closed(dir: &Path) -> io::Result<Self> {
        let made = Self::create(dir)?;
        let open = fs::metadata(&made.dir)?.permissions();
        fs::set_permissions(&made.dir, fs::Permissions::from_mode(0o700))?;
        Ok(Self {
            open: Some(open),
            ..made
        })
    }

    /// Gives a closed folder its normal permissions.
    ///
    /// # Errors
    /// When the folder does not exist any more.
    pub fn open_to_others(&self) -> io::Result<()> {
        match &self.open {
            Some(open) => fs::set_permissions(&self.dir, open.clone()),
            None => Ok(()),
        }
    }

    /// Returns the absolute path of the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of a flow's raw output.
    pub fn flow(&self, name: &str, suffix: &str) -> PathBuf {
        self.dir.join("flows").join(format!("{name}.{suffix}"))
    }

    /// Opens `events.ndjson` for the event log.
    ///
    /// # Errors
    /// As [`Rotating::create_new`].
    pub fn events(&self) -> io::Result<Rotating> {
        self.growing("events.ndjson", "")
    }

    /// Opens `series.csv`, which is written row by row below `header`.
    ///
    /// # Errors
    /// As [`Rotating::create_new`].
    pub fn series(&self, header: &'static str) -> io::Result<Rotating> {
        self.growing("series.csv", header)
    }

    /// Opens `paths.csv`, which is written row by row below `header`.
    ///
    /// # Errors
    /// As [`Rotating::create_new`].
    pub fn paths(&self, header: &'static str) -> io::Result<Rotating> {
        self.growing("paths.csv", header)
    }

    fn growing(&self, name: &str, header: &'static str) -> io::Result<Rotating> {
        Rotating::create_new(&self.dir.join(name), self.most_bytes, header)
    }

    /// Writes a JSON document completely or not at all (temporary file, then rename).
    ///
    /// # Errors
    /// When the document cannot be serialised or written.
    pub fn write_json<T: Serialize>(&self, name: &str, document: &T) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(document).map_err(io::Error::other)?;
        text.push('\n');
        self.write(name, text.as_bytes())
    }

    /// Writes a file completely or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let partial = self.dir.join(format!(".{name}.partial"));
        fs::write(&partial, bytes)?;
        fs::rename(partial, self.dir.join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_never_reused() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("runs/one");
        let results = Results::create(&dir).unwrap();
        results
            .write_json("summary.json", &serde_json::json!({"a": 1}))
            .unwrap();
        assert_eq!(
            fs::read_to_string(dir.join("summary.json")).unwrap(),
            "{\n  \"a\": 1\n}\n"
        );
        assert_eq!(
            Results::create(&dir).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
    }
}
