//! The crate's integration tests: one program, so that they are linked once.

mod bytes;
mod elements;
mod geometry;
mod notations;
mod rings;
mod sgp4_verification;
mod shells;
mod skyfield;
mod sun;
