//! The `leotp` command.
fn main() {}
