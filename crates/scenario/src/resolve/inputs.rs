//! Reads and hashes the files a scenario names, each once.

use std::collections::BTreeMap;
use std::rc::Rc;

use constel_units::files::in_words;
use constel_units::text::{decode, decode_records};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::files::Files;
use crate::model::InputFile;
use crate::parse::Document;
use crate::source::{Source, position_of};
use crate::text_file::{TextFile, hash};
use crate::walk::{Path, Seg};

/// A file that was read: how errors name it, its text (as [`decode`] gives it, or [`decode_records`] if that fails) and
/// the hash of its bytes.
pub(super) struct Input {
    pub(super) shown: String,
    pub(super) text: String,
    pub(super) sha256: String,
    bytes: u64,
    /// The error of readers that need every byte to be text.
    invalid: Option<Diagnostic>,
}

/// The files read so far. A file that could not be read is reported at every place that names it.
pub(super) struct Inputs<'a> {
    parsed: &'a Document,
    files: &'a dyn Files,
    read: BTreeMap<String, Result<Rc<Input>, Problem>>,
}

#[derive(Clone)]
enum Problem {
    Unreadable(String),
    NotText(Box<Diagnostic>),
}

impl<'a> Inputs<'a> {
    pub(super) fn new(parsed: &'a Document, files: &'a dyn Files) -> Self {
        Self {
            parsed,
            files,
            read: BTreeMap::new(),
        }
    }

    /// Returns the text of the file `name`, which the key at `path` names.
    pub(super) fn text(
        &mut self,
        name: &str,
        path: &[Seg<'_>],
        errors: &mut Diagnostics,
    ) -> Option<Rc<Input>> {
        let input = self.input(name, path, errors)?;
        if let Some(error) = &input.invalid {
            errors.push(error.clone());
            return None;
        }
        Some(input)
    }

    fn input(
        &mut self,
        name: &str,
        path: &[Seg<'_>],
        errors: &mut Diagnostics,
    ) -> Option<Rc<Input>> {
        let files = self.files;
        let result = self
            .read
            .entry(name.to_owned())
            .or_insert_with(|| read(files, name));
        match result {
            Ok(input) => Some(Rc::clone(input)),
            Err(Problem::Unreadable(why)) => {
                let error = self
                    .parsed
                    .error_at(path, "unreadable-file", format!("cannot read `{name}`"))
                    .with_reason(why.clone())
                    .with_next("paths are relative to the scenario file");
                errors.push(error);
                None
            }
            Err(Problem::NotText(error)) => {
                errors.push((**error).clone());
                None
            }
        }
    }

    /// Returns the file `name` for a later stage, unread; the key at `path` names it.
    pub(super) fn file(
        &mut self,
        name: &str,
        path: &[Seg<'_>],
        errors: &mut Diagnostics,
    ) -> Option<TextFile> {
        let input = self.text(name, path, errors)?;
        Some(self.unread(name, path, &input))
    }

    /// As [`file`](Self::file) for a file of records: invalid bytes are U+FFFD, so that they spoil their own records only.
    pub(super) fn records(
        &mut self,
        name: &str,
        path: &[Seg<'_>],
        errors: &mut Diagnostics,
    ) -> Option<TextFile> {
        let input = self.input(name, path, errors)?;
        Some(self.unread(name, path, &input))
    }

    fn unread(&self, name: &str, path: &[Seg<'_>], input: &Input) -> TextFile {
        TextFile::new(
            name,
            &input.shown,
            input.sha256.clone(),
            &input.text,
            self.parsed.source().clone(),
            self.parsed.place(path, false),
            Path(path).to_string(),
        )
    }

    /// All files for the run's manifest: the scenario, then the others by path.
    pub(super) fn finish(self) -> Vec<InputFile> {
        let source = self.parsed.source();
        let scenario = InputFile {
            path: source.file().to_owned(),
            bytes: source.text().len() as u64,
            sha256: hash(source.text().as_bytes()),
        };
        let others = self.read.into_iter().filter_map(|(path, result)| {
            let input = result.ok()?;
            Some(InputFile {
                path,
                bytes: input.bytes,
                sha256: input.sha256.clone(),
            })
        });
        std::iter::once(scenario).chain(others).collect()
    }
}

fn read(files: &dyn Files, name: &str) -> Result<Rc<Input>, Problem> {
    let shown = files.shown(name);
    let bytes = files
        .read(name)
        .map_err(|error| Problem::Unreadable(format!("{shown}: {}", in_words(&error))))?;
    let sha256 = hash(&bytes);
    let length = bytes.len() as u64;
    let invalid = decode(&bytes).err().map(|error| {
        let source = Source::new(&shown, &String::from_utf8_lossy(&bytes));
        let place = position_of(&bytes, error.offset());
        Diagnostic::new(&source, place, "not-utf8", error.to_string())
    });
    match (decode_records(&bytes), invalid) {
        (Err(_), Some(error)) => Err(Problem::NotText(Box::new(error))),
        (text, invalid) => Ok(Rc::new(Input {
            // The arm above has taken the errors.
            text: text.unwrap_or_default().into_owned(),
            shown,
            sha256,
            bytes: length,
            invalid,
        })),
    }
}
