//! Tests that need the crate's private parts.

mod paths;
mod reference;
