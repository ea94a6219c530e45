//! The one way to the files a scenario names.

use std::io;
use std::path::PathBuf;

use constel_units::files;

/// Reads the files a scenario names.
pub trait Files {
    /// The contents of the file that the scenario calls `path` (relative to the scenario file,
    /// or absolute).
    ///
    /// # Errors
    /// Any reason that prevents reading; the message is shown to the user.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// How errors inside the file should name it. The default is `path` as it is.
    fn shown(&self, path: &str) -> String {
        path.to_owned()
    }
}

/// Largest file that [`DiskFiles`] reads, bytes.
pub const MAX_FILE_BYTES: u64 = files::MAX_TEXT_BYTES;

/// Files on disk, relative to a folder.
#[derive(Debug, Clone)]
pub struct DiskFiles {
    folder: PathBuf,
}

impl DiskFiles {
    /// Files relative to `folder`.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Files relative to the folder of the scenario file at `scenario`.
    pub fn beside(scenario: impl AsRef<std::path::Path>) -> Self {
        Self::in_folder(
            scenario
                .as_ref()
                .parent()
                .map(PathBuf::from)
                .unwrap_or_default(),
        )
    }
}

impl Files for DiskFiles {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        files::read(&self.folder.join(path), MAX_FILE_BYTES)
    }

    fn shown(&self, path: &str) -> String {
        self.folder.join(path).display().to_string()
    }
}
