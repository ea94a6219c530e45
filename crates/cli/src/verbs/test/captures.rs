//! Captures of a run that is tested: begun with its lab time, kept where something did not hold.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A capture ends with its lab; one that has not by then is ended.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// What one run is captured by.
#[derive(Default)]
pub(super) struct Captures {
    begun: bool,
    running: Vec<Child>,
    folder: PathBuf,
}

impl Captures {
    /// Begins one capture for each of `of`, nodes or ports, into `captures` of the run's results; once.
    ///
    /// # Errors
    /// When the folder or a process cannot be made.
    pub(super) fn begin(
        &mut self,
        lab: &str,
        of: &[String],
        results: &Path,
    ) -> std::io::Result<()> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        self.folder = results.join("captures");
        fs::create_dir_all(&self.folder)?;
        for what in of {
            let file = self
                .folder
                .join(format!("{}.pcapng", what.replace('/', "-")));
            // What it says stands with what the run says.
            let log = OpenOptions::new()
                .append(true)
                .create(true)
                .open(results.with_extension("log"))?;
            let child = Command::new(std::env::current_exe()?)
                .args(["capture", lab, what, "-w"])
                .arg(file)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()?;
            self.running.push(child);
        }
        Ok(())
    }

    /// The run is over: waits for its captures, and removes them unless they are to be kept.
    ///
    /// # Errors
    /// When a process cannot be waited for, or the files cannot be removed.
    pub(super) fn end(mut self, kept: bool) -> std::io::Result<()> {
        let by = Instant::now() + ENDS_WITHIN;
        for child in &mut self.running {
            while child.try_wait()?.is_none() {
                if Instant::now() > by {
                    child.kill()?;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        if self.begun && !kept {
            fs::remove_dir_all(&self.folder)?;
        }
        Ok(())
    }
}
