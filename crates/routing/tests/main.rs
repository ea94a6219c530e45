//! The crate's integration tests: one program, so that they are linked once.

mod areas;
mod bird_real;
#[path = "common/birds.rs"]
mod birds;
mod common;
mod daemons;
mod laws;
mod link_state;
mod paths;
mod speed;
