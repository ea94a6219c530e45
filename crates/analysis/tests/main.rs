//! The crate's integration tests: one program, so that they are linked once.

mod contacts;
mod coverage;
mod exports;
mod series;
mod speed;
