//! The crate's integration tests: one program, so that they are linked once.

mod hostile;
mod no_panic;
mod odd;
mod overlay;
mod registry;
mod sources;
mod store;
mod support;
