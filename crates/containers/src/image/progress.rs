//! The progress of an import, for front ends.

/// Receives the progress of an import. Called often, and from the thread that imports: it must not block.
pub trait Progress {
    /// Called at each step.
    fn step(&self, step: &Step<'_>);
}

/// A step of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step<'a> {
    /// A stream is read completely before it can be unpacked.
    Reading {
        /// The name of the stream.
        what: &'a str,
        /// Bytes read so far.
        bytes: u64,
    },
    /// A layer is being unpacked.
    Unpacking {
        /// The layer's number, from 1.
        layer: usize,
        /// The number of layers.
        layers: usize,
        /// Entries unpacked so far.
        entries: u64,
    },
    /// A layer is complete.
    Done {
        /// The layer's number, from 1.
        layer: usize,
        /// The number of layers.
        layers: usize,
        /// Whether the store had the layer already.
        reused: bool,
    },
}

/// Ignores all progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _: &Step<'_>) {}
}
