//! Link drivers: what makes the edges of `constel-link` real in packets.
//!
//! [`relay`] is the reference: always available where the kernel has tcx and AF_XDP.

pub mod relay;
