//! A scenario file, read, checked and laid out.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use constel_plan::{Document, Lab};
use constel_scenario::{DiskFiles, Files, Setting, set};
use constel_units::{TimeSpan, files};

use crate::error::Error;

/// A scenario that can be planned and run.
pub struct Scenario {
    /// Laid out.
    pub lab: Lab,
    /// The file as read.
    pub text: String,
    /// The file as the user named it.
    pub file: String,
}

impl Scenario {
    /// Reads, validates, resolves and lays out a scenario file; other files are looked for beside it.
    ///
    /// # Errors
    /// [`Error::Scenario`] with every finding; [`Error::Unreadable`], [`Error::NoFile`].
    pub fn load(file: &Path) -> Result<Self, Error> {
        Self::load_with(file, &[])
    }

    /// Loads a scenario like [`load`](Self::load) after changing values of the file. [`text`](Self::text) is then the
    /// changed one.
    ///
    /// # Errors
    /// As [`load`](Self::load), and for every setting that cannot be applied.
    pub fn load_with(file: &Path, settings: &[Setting]) -> Result<Self, Error> {
        let shown = file.display().to_string();
        if file.file_name().is_none() {
            return Err(Error::NoFile(shown));
        }
        let read = files::read(file, files::MAX_TEXT_BYTES);
        match read {
            Ok(bytes) if settings.is_empty() => Self::of_bytes(&shown, &bytes, file),
            Ok(bytes) => Self::changed(&shown, &bytes, settings, file),
            Err(error) => Err(Error::Unreadable {
                file: shown,
                reason: error.to_string(),
            }),
        }
    }

    /// Loads a scenario from a text that is in no file. `shown` replaces its name in messages, and other files are searched
    /// in `folder`.
    ///
    /// # Errors
    /// [`Error::Scenario`] with every finding.
    pub fn from_text(shown: &str, text: &str, folder: &Path) -> Result<Self, Error> {
        Self::of_bytes(shown, text.as_bytes(), &folder.join("scenario.yaml"))
    }

    /// Loads a scenario from a text after changing values of the text.
    ///
    /// # Errors
    /// As [`from_text`](Self::from_text), and for every setting that cannot be applied.
    pub fn from_text_with(
        shown: &str,
        text: &str,
        settings: &[Setting],
        folder: &Path,
    ) -> Result<Self, Error> {
        if settings.is_empty() {
            return Self::from_text(shown, text, folder);
        }
        Self::changed(
            shown,
            text.as_bytes(),
            settings,
            &folder.join("scenario.yaml"),
        )
    }

    /// Loads a scenario from a text and files that are not on a disk here. `files` contains each file with its name in the
    /// scenario.
    ///
    /// # Errors
    /// [`Error::Scenario`] with every finding.
    pub fn given(shown: &str, text: &[u8], files: Vec<(String, Vec<u8>)>) -> Result<Self, Error> {
        let files = Given(files.into_iter().collect());
        let read = Lab::read(shown, text, &files);
        Ok(Self {
            lab: read.map_err(Error::Scenario)?,
            text: String::from_utf8_lossy(text).into_owned(),
            file: shown.to_owned(),
        })
    }

    /// Returns the files that the scenario names, each with its name in the scenario.
    ///
    /// # Errors
    /// [`Error::Unreadable`] for a file that no longer exists.
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let disk = DiskFiles::beside(&self.file);
        let mut files: Vec<(String, Vec<u8>)> = Vec::new();
        // The first is the scenario itself.
        for input in self.lab.scenario.inputs.iter().skip(1) {
            if files.iter().any(|(path, _)| *path == input.path) {
                continue;
            }
            let bytes = disk.read(&input.path).map_err(|error| Error::Unreadable {
                file: input.path.clone(),
                reason: error.to_string(),
            })?;
            files.push((input.path.clone(), bytes));
        }
        Ok(files)
    }

    /// Changes values of the text. Errors contain the lines after the change, so their messages state that.
    fn changed(
        shown: &str,
        bytes: &[u8],
        settings: &[Setting],
        beside: &Path,
    ) -> Result<Self, Error> {
        let text = std::str::from_utf8(bytes);
        let text = match text {
            Ok(text) => set(shown, text, settings).map_err(Error::Scenario)?,
            Err(_) => return Self::of_bytes(shown, bytes, beside),
        };
        let lab = laid_out(&format!("{shown} (as set)"), text.as_bytes(), beside)?;
        let file = shown.to_owned();
        Ok(Self { lab, text, file })
    }

    fn of_bytes(shown: &str, bytes: &[u8], beside: &Path) -> Result<Self, Error> {
        Ok(Self {
            lab: laid_out(shown, bytes, beside)?,
            text: String::from_utf8_lossy(bytes).into_owned(),
            file: shown.to_owned(),
        })
    }

    /// Returns the links at a lab time. Changes nothing.
    ///
    /// # Errors
    /// [`Error::BadTime`] for a time before lab time zero or beyond the calendar, or one that depends on more of the past
    /// than can be computed in some seconds.
    pub fn plan(&self, at: TimeSpan) -> Result<Document, Error> {
        Document::at(&self.lab, at).map_err(|error| Error::BadTime(error.to_string()))
    }

    /// Returns the warnings about the age of the scenario's data, one line each without a line break. Fresh data has no warnings.
    pub fn age_warnings(&self) -> impl Iterator<Item = String> {
        self.lab.ages.iter().filter_map(|age| {
            let warning = age.warning.as_ref()?;
            Some(format!("{}: {}: {warning}", age.constellation, age.file))
        })
    }
}

/// The files of a scenario, by their names in it.
struct Given(BTreeMap<String, Vec<u8>>);

impl Files for Given {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let file = self.0.get(path).cloned();
        file.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it was not sent along"))
    }
}

fn laid_out(shown: &str, bytes: &[u8], beside: &Path) -> Result<Lab, Error> {
    Lab::read(shown, bytes, &DiskFiles::beside(beside)).map_err(Error::Scenario)
}
