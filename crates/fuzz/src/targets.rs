//! All parsers that read foreign bytes. A parser that is not listed here is not fuzzed: add a row for a new one.

mod agents;
mod answers;
mod documents;
mod files;
mod folders;
mod frames;
mod gateways;
mod images;
mod leotp;
mod tables;
mod transit;
mod wires;

use std::path::Path;

/// A parser, or state machines that parse.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// The seeds of mutation; some of them are accepted.
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
    /// Reads an input; returns whether it was accepted. Panics if a required property does not hold.
    pub(crate) run: fn(&[u8]) -> bool,
}

impl Target {
    const fn new(name: &'static str, seeds: fn() -> Vec<Vec<u8>>, run: fn(&[u8]) -> bool) -> Self {
        Self { name, seeds, run }
    }

    /// Returns whether the target exists for this program's own tests, and fails on purpose.
    pub(crate) fn is_for_tests(&self) -> bool {
        self.name.starts_with("test-")
    }
}

/// Returns all targets.
pub(crate) fn all() -> Vec<Target> {
    let mut all = Vec::new();
    all.extend(files::targets());
    all.extend(documents::targets());
    all.extend(images::targets());
    all.extend(wires::targets());
    all.extend(answers::targets());
    all.extend(leotp::targets());
    all.extend(gateways::targets());
    all.extend(transit::targets());
    all.extend(frames::targets());
    all.extend(tables::targets());
    all.extend(folders::targets());
    all.extend(agents::targets());
    all.extend([
        Target::new("test-panic", one_seed, |bytes| {
            assert!(bytes.len() < 200, "an input of 200 bytes");
            true
        }),
        Target::new("test-hang", one_seed, |bytes| {
            while bytes.len() > 200 {
                std::hint::spin_loop();
            }
            true
        }),
        Target::new("test-memory", one_seed, |bytes| {
            vec![1_u8; bytes.len() << 24].iter().any(|byte| *byte == 0)
        }),
    ]);
    all
}

fn one_seed() -> Vec<Vec<u8>> {
    vec![b"seed".to_vec()]
}

/// Returns the files of a folder of the repository whose names have this ending.
fn files_of(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    paths.sort();
    let read = |path| {
        std::fs::read(path)
            .ok()
            .filter(|bytes| bytes.len() < 200_000)
    };
    paths.iter().filter_map(read).collect()
}

/// Returns a file of the repository; empty if it is missing, which the test of seeds detects.
fn file(path: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    std::fs::read(path).into_iter().collect()
}

/// Returns a temporary folder in memory.
fn in_memory() -> tempfile::TempDir {
    let folder = tempfile::Builder::new()
        .prefix("constel-fuzz-")
        .tempdir_in("/dev/shm");
    folder.expect("a folder in memory")
}

/// Returns the names of the files in a folder, sorted.
fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .collect();
    names.sort();
    names
}

/// Splits an input into several texts, with a zero byte between them.
fn texts<const N: usize>(bytes: &[u8]) -> Option<[&str; N]> {
    let mut parts = bytes.splitn(N, |byte| *byte == 0);
    let mut texts = [""; N];
    for text in &mut texts {
        *text = std::str::from_utf8(parts.next().unwrap_or_default()).ok()?;
    }
    Some(texts)
}
