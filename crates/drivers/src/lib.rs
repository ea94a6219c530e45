//! Link drivers: what makes the edges of `constel-link` real in packets.
//!
//! [`relay`] is the reference: always available where the kernel has tcx and AF_XDP. [`edt`] and [`netem`] have the
//! kernel's own queueing disciplines hold the frames. [`Plane`] and [`Links`] are one interface to all of them, which
//! [`make_plane`] gives; [`Capabilities`] says what each can do, [`probe`] which ones this host has.
//! [`memory`] needs neither kernel nor rights: everything above drivers is tested with it.

mod asked;
mod clock;
mod config;
pub mod edt;
mod error;
mod kernel_plane;
mod ledger;
pub mod memory;
mod named;
pub mod netem;
mod plane;
mod ports;
mod probe;
mod quiet;
pub mod relay;
mod stats;
mod tap;
mod traits;
mod update;
mod worker;

pub use clock::mono_ns;
pub use config::PlaneConfig;
pub use constel_link::{Capabilities, DriverKind};
pub use error::{DriverError, Result};
pub use plane::make_plane;
pub use ports::host_ifindex;
pub use probe::{Chosen, DriverReport, Feature, choose, probe};
pub use stats::{
    BACKLOG, CAPTURE, ClassLateness, LateSpell, LateSpells, PlaneStats, Stall, StallStats,
};
pub use tap::{Sight, Tapped, Tapping, Wanted};
pub use traits::{Links, Plane};
pub use update::{Applied, KnownEffects, PendingUpdate};
