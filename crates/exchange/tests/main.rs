//! The crate's integration tests: one program, so that they are linked once.

mod compose;
mod imports;
mod no_panic;
