//! The crate's integration tests: one program, so that they are linked once.

mod compose;
mod ephemeris_files;
mod foreign_syntax;
mod imports;
mod no_panic;
