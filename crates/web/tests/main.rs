//! The crate's integration tests: one program, so that they are linked once.

mod hostile;
mod openapi;
mod served;
mod server;
mod shell;
mod typescript;
