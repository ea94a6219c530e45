//! What reads foreign bytes. A parser that is not here is not fuzzed: a new one gets a row.

mod answers;
mod documents;
mod files;
mod gateways;
mod images;
mod leotp;
mod transit;
mod wires;

use std::path::Path;

/// A parser, or machines that parse.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Inputs that others are made of; some are accepted.
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
    /// Reads an input; returns whether it was accepted. Panics when something holds that must not.
    pub(crate) run: fn(&[u8]) -> bool,
}

impl Target {
    const fn new(name: &'static str, seeds: fn() -> Vec<Vec<u8>>, run: fn(&[u8]) -> bool) -> Self {
        Self { name, seeds, run }
    }

    /// Whether it is there for this program's own tests, and fails.
    pub(crate) fn is_for_tests(&self) -> bool {
        self.name.starts_with("test-")
    }
}

/// All of them.
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

/// The files of a folder of the repository whose names end so.
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

/// A file of the repository; nothing where it is gone, which the test of seeds finds.
fn file(path: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    std::fs::read(path).into_iter().collect()
}

/// Several texts in one input, with a zero byte between.
fn texts<const N: usize>(bytes: &[u8]) -> Option<[&str; N]> {
    let mut parts = bytes.splitn(N, |byte| *byte == 0);
    let mut texts = [""; N];
    for text in &mut texts {
        *text = std::str::from_utf8(parts.next().unwrap_or_default()).ok()?;
    }
    Some(texts)
}
