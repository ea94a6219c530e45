//! The crate's integration tests: one program, so that they are linked once.

mod cleanup;
mod conformance;
mod forward;
#[path = "support/hostile.rs"]
mod hostile_node;
mod memory;
#[path = "support/plane.rs"]
mod plane;
mod probe;
mod relay;
mod support;
#[path = "support/victim.rs"]
mod victim;
