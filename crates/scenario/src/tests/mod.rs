//! Tests that need the crate's private parts.

mod reference;
