//! The log of a lab that stays: its process's standard output and standard error, in a file with a bound.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use constel_control::Progress;
use constel_measure::rotating::Rotating;

use crate::progress::{Lines, as_lines};

/// The bytes of each of the two files.
const MOST_BYTES: u64 = 8 << 20;

/// The log, once it has begun. Until then messages go to the process that waits for the lab.
#[derive(Clone, Default)]
pub(super) struct LabLog(Arc<Mutex<Option<Rotating>>>);

impl LabLog {
    /// Makes a new file standard output and standard error of this process.
    ///
    /// # Errors
    /// When the file exists or cannot be created.
    pub(super) fn begin(&self, path: &Path) -> io::Result<()> {
        let file = Rotating::create_new(path, Some(MOST_BYTES), "")?;
        as_output(file.file())?;
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = Some(file);
        Ok(())
    }

    /// Returns a progress display that keeps the log within its bound.
    pub(super) fn progress(&self) -> Arc<dyn Progress> {
        Arc::new(Logged {
            lines: as_lines(),
            log: self.clone(),
        })
    }

    /// Begins a new file if the present one is full. An error leaves the present one, which then grows.
    fn bound(&self) {
        let mut log = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let Some(file) = log.as_mut() else { return };
        // Other parts of the program have written to it as well.
        if file.measure().and_then(|()| file.turn()).unwrap_or(false) {
            let _ = as_output(file.file());
        }
    }
}

fn as_output(file: &File) -> io::Result<()> {
    rustix::stdio::dup2_stdout(file)?;
    Ok(rustix::stdio::dup2_stderr(file)?)
}

struct Logged {
    lines: Lines,
    log: LabLog,
}

impl Progress for Logged {
    fn stage(&self, name: &str, done: u64, total: u64, note: &str) {
        self.lines.stage(name, done, total, note);
        self.log.bound();
    }

    fn say(&self, line: &str) {
        Progress::say(&self.lines, line);
        self.log.bound();
    }
}
