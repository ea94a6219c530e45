//! What a front end can show while an image comes in.

/// Told how far an import is. Called often, and from the thread that imports: it should not block.
pub trait Progress {
    /// How far it is.
    fn step(&self, step: &Step<'_>);
}

/// How far an import is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step<'a> {
    /// Something is read before it can be unpacked.
    Reading {
        /// What it is.
        what: &'a str,
        /// Bytes so far.
        bytes: u64,
    },
    /// A layer is unpacked.
    Unpacking {
        /// Which one, counted from 1.
        layer: usize,
        /// How many there are.
        layers: usize,
        /// Entries so far.
        entries: u64,
    },
    /// A layer is there.
    Done {
        /// Which one, counted from 1.
        layer: usize,
        /// How many there are.
        layers: usize,
        /// Whether it was there before.
        reused: bool,
    },
}

/// For those who do not want to know.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _: &Step<'_>) {}
}
