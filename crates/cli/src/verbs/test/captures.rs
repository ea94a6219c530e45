//! Captures of a tested run: started at lab time zero, kept if a statement is false or unknown.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time for a capture to end after its lab; then it is ended.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// The captures of one run.
#[derive(Default)]
pub(super) struct Captures {
    begun: bool,
    running: Vec<Child>,
    folder: PathBuf,
}

impl Captures {
    /// Starts one capture for each of `of`, nodes or ports, into `captures` of the run's results; only once.
    ///
    /// # Errors
    /// If the folder or a process cannot be created.
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
            // The capture's messages go to the run's log.
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

    /// Waits for the captures after the end of the run, and removes them unless they are to be kept.
    ///
    /// # Errors
    /// If a process cannot be waited for, or the files cannot be removed.
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
