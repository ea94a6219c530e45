//! Link drivers: what makes the edges of `constel-link` real in packets.
//!
//! [`relay`] is the reference: always available where the kernel has tcx and AF_XDP. [`probe`]
//! says whether it has.

mod probe;
pub mod relay;

pub use probe::{Feature, ProbeReport, probe};
