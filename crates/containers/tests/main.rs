//! The crate's integration tests: one program, so that they are linked once.

mod engine;
mod image;
