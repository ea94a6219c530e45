//! The crate's integration tests: one program, so that they are linked once.

mod forward;
#[path = "../../drivers/tests/support/mod.rs"]
mod support;
