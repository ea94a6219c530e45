//! The crate's integration tests: one program, so that they are linked once.

mod agent;
mod crossing;
mod machines;
mod store;
mod underlay;
