//! A temporary folder in which other programs build, and the execution of these programs.

use std::ffi::OsStr;
use std::io::Error as IoError;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;

/// A folder of the system's for temporary ones; it is removed with this.
pub(super) struct TempFolder(PathBuf);

impl TempFolder {
    /// Creates a new folder.
    pub(super) fn make(name: &str) -> Result<Self, Error> {
        let unmade = |error: IoError| Error::NotBuilt(format!("cannot make a folder: {error}"));
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(unmade)?;
        Ok(Self(folder))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Whether a program is installed.
pub(super) fn is_there(program: &str) -> bool {
    let search = std::env::var_os("PATH").unwrap_or_default();
    constel_host::process::find_command(OsStr::new(program), &search).is_ok()
}

/// Runs a builder; its own words go to standard error.
pub(super) fn run(mut command: Command) -> Result<(), Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = std::io::stderr();
    let status = command.stdin(Stdio::null()).stdout(output).status();
    let status = status.map_err(|error| Error::NotBuilt(format!("{name}: {error}")))?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::NotBuilt(format!("{name} ended with {status}"))),
    }
}
