//! A run as one file: its results, and everything that another machine needs to run it again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use constel_containers::image::Digest;
use constel_units::files as bounded;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use tar::{Builder, Header};

use super::Run;
use crate::error::Error;

/// A bundle that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Packed {
    /// The file.
    pub bundle: PathBuf,
    /// How many files are in it.
    pub files: usize,
    /// In it: the scenario, which runs as it ran.
    pub scenario: PathBuf,
    /// In it: the results of the run.
    pub results: PathBuf,
    /// Images of nodes and programs of daemons, which are not in it. The other machine must have them, by name.
    pub images: Vec<String>,
}

/// Writes a gzipped tar with all files of a run's folder and with the scenario and the files that it names. Their relative
/// paths stay the same. A run always gives the same bytes.
///
/// # Errors
/// [`Error::NotPacked`] for a file that is named by an absolute path, is missing, or has changed since the run, and if a
/// file of the bundle's name exists; [`Error::NoDocument`], [`Error::BadDocument`], [`Error::Unwritable`].
pub fn pack(run: &Run, bundle: &Path) -> Result<Packed, Error> {
    let manifest = run.head()?;
    let name = run.dir().canonicalize().ok();
    let name = name.as_deref().and_then(Path::file_name);
    let root = PathBuf::from(name.unwrap_or_else(|| manifest.lab.as_ref()));
    // A box between interfaces has a file of rules in place of a scenario.
    let sources = ["scenario.yaml", "rules.yaml"];
    let source = sources
        .into_iter()
        .find(|name| run.dir().join(name).exists());
    let source = source.unwrap_or("scenario.yaml");
    let text = run.dir().join(source);
    let text = bounded::read(&text, bounded::MAX_TEXT_BYTES);
    let text = text.map_err(|error| Error::NoDocument {
        path: run.dir().join(source),
        source: error,
    })?;
    let named = manifest.inputs.first().map(|input| Path::new(&input.path));
    let folder = named.and_then(Path::parent).unwrap_or(Path::new(""));

    let mut inputs = Vec::new();
    for input in manifest.inputs.iter().skip(1) {
        let path = plain(Path::new(&input.path)).ok_or_else(|| {
            Error::NotPacked(format!(
                "{} is named by a path from the root, which is another file elsewhere: name it relative to the scenario, and run that",
                input.path
            ))
        })?;
        let at = folder.join(&input.path);
        let bytes = bounded::read(&at, bounded::MAX_TEXT_BYTES).map_err(|error| {
            Error::NotPacked(format!(
                "{}, which the scenario names: {error}; pack where it was run",
                at.display()
            ))
        })?;
        if Digest::of(&bytes).hex() != input.sha256 {
            return Err(Error::NotPacked(format!(
                "{} is not what it was when this ran",
                at.display()
            )));
        }
        inputs.push((path, bytes));
    }
    // How far above the scenario the highest of them is: so deep the scenario lies in the bundle.
    let above = |path: &Path| {
        path.components()
            .take_while(|part| *part == Component::ParentDir)
            .count()
    };
    let depth = inputs
        .iter()
        .map(|(path, _)| above(path))
        .max()
        .unwrap_or(0);
    let place = (0..depth).fold(root.join("scenario"), |place, level| {
        place.join(format!("level-{}", level + 1))
    });
    let scenario = place.join(source);
    let results = root.join("results");

    let mut files = vec![(scenario.clone(), Content::Bytes(text))];
    for (path, bytes) in inputs {
        let at = plain(&place.join(path)).unwrap_or_default();
        files.push((at, Content::Bytes(bytes)));
    }
    for path in below(run.dir(), Path::new(""))? {
        files.push((results.join(&path), Content::File(run.dir().join(path))));
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));
    let out = File::create_new(bundle)
        .map_err(|error| Error::NotPacked(format!("{}: {error}", bundle.display())))?;
    let count = files.len();
    write(out, files).map_err(|source| {
        // An incomplete bundle is useless, so it is removed.
        let _ = fs::remove_file(bundle);
        Error::Unwritable {
            path: bundle.to_owned(),
            source,
        }
    })?;
    let mut images: Vec<String> = manifest
        .images
        .into_iter()
        .map(|image| image.name)
        .collect();
    images.sort();
    images.dedup();
    Ok(Packed {
        bundle: bundle.to_owned(),
        files: count,
        scenario,
        results,
        images,
    })
}

enum Content {
    Bytes(Vec<u8>),
    File(PathBuf),
}

/// A path without `.`, with `..` at its beginning only; `None` for one from the root.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir
                if matches!(plain.components().next_back(), Some(Component::Normal(_))) =>
            {
                plain.pop();
            }
            Component::ParentDir => plain.push(".."),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// All regular files below a folder, as seen from it.
fn below(folder: &Path, inner: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::NoDocument {
        path: folder.join(inner),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.join(inner)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (kind, path) = (
            entry.file_type().map_err(failed)?,
            inner.join(entry.file_name()),
        );
        if kind.is_dir() {
            found.extend(below(folder, &path)?);
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(found)
}

fn write(out: impl Write, files: Vec<(PathBuf, Content)>) -> io::Result<()> {
    let mut tar = Builder::new(GzEncoder::new(out, Compression::default()));
    for (path, content) in files {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        match content {
            Content::Bytes(bytes) => {
                header.set_size(bytes.len() as u64);
                tar.append_data(&mut header, path, &*bytes)?;
            }
            Content::File(file) => {
                let file = constel_units::files::open(&file)?;
                header.set_size(file.metadata()?.len());
                tar.append_data(&mut header, path, file)?;
            }
        }
    }
    tar.into_inner()?.finish()?.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_plain() {
        let plain = |path: &str| plain(Path::new(path)).map(|path| path.display().to_string());
        assert_eq!(plain("./a/../b/c.csv").as_deref(), Some("b/c.csv"));
        assert_eq!(plain("../../x").as_deref(), Some("../../x"));
        assert_eq!(plain("a/../../x").as_deref(), Some("../x"));
        assert_eq!(plain("/etc/passwd"), None);
    }

    #[test]
    fn the_same_files_are_the_same_bytes() {
        let pack = || {
            let mut out = Vec::new();
            write(
                &mut out,
                vec![(PathBuf::from("a/b"), Content::Bytes(b"text".to_vec()))],
            )
            .unwrap();
            out
        };
        assert_eq!(pack(), pack());
    }
}
