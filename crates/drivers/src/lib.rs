//! Link drivers: what makes the edges of `constel-link` real in packets.
//!
//! [`relay`] is the reference: always available where the kernel has tcx and AF_XDP. [`edt`] and [`netem`] have the
//! kernel's own queueing disciplines hold the frames. [`LinkPlane`] and [`LinkHandle`] are one interface to all of
//! them; [`Capabilities`] says what each can do, [`probe`] which ones this host has.
//! [`forward`] is no link driver: it forwards packets in the nodes, in front of their kernels' tables.

mod bpf;
pub mod edt;
mod error;
pub mod forward;
mod ledger;
mod named;
pub mod netem;
mod plane;
mod probe;
mod quiet;
pub mod relay;
mod worker;

pub use constel_link::{Capabilities, DriverKind};
pub use error::DriverError;
pub use plane::{BACKLOG, CAPTURE, LinkHandle, LinkPlane, PendingUpdate, PlaneConfig, PlaneStats};
pub use probe::{Chosen, DriverReport, Feature, choose, probe};
pub use worker::WorkerHandle;
