//! The crate's integration tests: one program, so that they are linked once.

mod correctness;
mod figures;
mod mechanisms;
mod slow_links;
mod vnet;
