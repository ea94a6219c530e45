//! LEOTP's packets, parameters and state machines: no clock, no sockets, no
//! unsafe code. The crate `leotp` puts them to work on Linux.
//!
//! * [`wire`]: the packets, parsed defensively (`docs/reference/leotp-wire.md`);
//! * [`Params`]: every number that a user may set, by field or by name;
//! * [`Consumer`], [`Midnode`] and [`Producer`] have the same interface: pass datagrams to
//!   `handle_datagram`, call `poll_transmit` until it returns none, and call `poll_timeout` for
//!   the time to come back. Time is an argument everywhere. State diagrams:
//!   `docs/reference/leotp.md`.
//!
//! ```
//! use leotp_core::wire::{self, Packet};
//! use leotp_core::{Consumer, Params, Path};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = Path { src: "10.0.0.1:4000".parse()?, dst: ([10, 0, 0, 2], wire::DEFAULT_PORT).into() };
//! let mut consumer = Consumer::new(Params::default(), 7, path, 0, None)?;
//! let (now, mut datagram) = (1_000_000, Vec::new());
//! assert_eq!(consumer.poll_transmit(now, &mut datagram), Some(path));
//! assert!(matches!(Packet::parse(&datagram)?, Packet::Interest(i) if i.flow == 7));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod cache;
mod cc;
mod consumer;
mod drain;
mod holes;
mod legs;
mod meta;
mod midnode;
mod pacer;
mod params;
mod producer;
mod ranges;
mod rtt;
mod schedule;
mod sendq;
mod settings;
mod shared;
mod table;
mod timing;
mod window;
pub mod wire;

pub use cache::{BLOCK_BYTES, BlockKey, BlockStore, Cache, CacheStats, StoredBlock};
pub use cc::{CcState, HopCc, Phase};
pub use consumer::{Consumer, ConsumerState, ConsumerStats, FlowError, Freshness};
pub use holes::{HoleTracker, Seen};
pub use meta::{META_LEN, Meta, Sealing};
pub use midnode::{FlowState, Midnode, MidnodeStats};
pub use pacer::TokenBucket;
pub use params::{ParamError, Params};
pub use producer::{Available, Producer, ProducerStats, Source};
pub use ranges::RangeSet;
pub use rtt::{HopRtt, Rto, WindowedMin};
pub use sendq::{HopLimit, SendQueue};
pub use table::{Quota, Recency};

use std::net::SocketAddr;

/// Nanoseconds since an epoch of the node's own. Two nodes need not share an epoch: only
/// differences on one clock are used, or sums of two one-way differences in which the offset
/// cancels.
pub type Nanos = u64;

/// Beginning of the names of nftables tables by which a runtime redirects packets on their path to itself.
pub const REDIRECTION_TABLE: &str = "leotp_";
/// Priority of its routing rules for these packets: before `main`, after `local`.
pub const REDIRECTION_PRIORITY: u32 = 19_525;

/// The two addresses of a datagram. A Midnode sends with the addresses of the
/// endpoints, so both are part of every packet here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// Source address.
    pub src: SocketAddr,
    /// Destination address.
    pub dst: SocketAddr,
}

/// Returns a node's name for its clock toward one neighbour. It is improbable that another node
/// has the same name, which is sufficient.
pub(crate) fn clock_tag(now: crate::Nanos, salt: u64) -> u16 {
    let x = (now ^ salt.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x >> 48) as u16
}

impl Path {
    /// Returns the path in the reverse direction.
    pub const fn reversed(self) -> Self {
        Self {
            src: self.dst,
            dst: self.src,
        }
    }
}
