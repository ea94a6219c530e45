//! The crate's integration tests: one program, so that they are linked once.

mod box_scenario;
mod golden;
mod mending;
mod properties;
mod reference;
mod rules;
mod shipped;
