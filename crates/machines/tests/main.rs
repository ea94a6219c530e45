//! The crate's integration tests: one program, so that they are linked once.

mod common;
mod moves;
mod placement;
