//! Link drivers: they emulate the edges of `constel-link` with real packets.
//!
//! [`relay`] is the reference: it works on every kernel with tcx and AF_XDP. With [`edt`] and [`netem`] the kernel's
//! own queueing disciplines hold the frames. [`Plane`] and [`Links`] are the common interface of all drivers, and
//! [`make_plane`] creates one. [`Capabilities`] describes the abilities of each driver, [`probe`] which drivers work on
//! this host. [`memory`] needs neither kernel nor rights: the code above the drivers is tested with it.
//!
//! BPF programs that are no link drivers are here as well: [`forward`], the forwarding in nodes, and [`congestion`], controls
//! of TCP. All of them are loaded by [`bpf`].

mod asked;
pub mod bpf;
mod clock;
mod config;
pub mod congestion;
pub mod edt;
mod error;
pub mod forward;
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
    BACKLOG, CAPTURE, ClassLateness, LateSpell, LateSpells, Stall, StallStats, settle_backlog,
};
pub use tap::{TapFilter, TapPoint, Tapped, Tapping};
pub use traits::{Links, Plane};
pub use update::{Applied, KnownEffects, PendingUpdate};
