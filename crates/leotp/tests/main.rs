//! The crate's integration tests: one program, so that they are linked once.

mod files;
mod gateway;
mod netns;
mod ns;
mod sealed;
#[path = "../../leotp-core/tests/vnet/mod.rs"]
mod vnet;
mod wireshark;
