//! The network between the machines of one lab, as values: the format of frames, their counters, and the offsets of clocks.
//!
//! - [`pack`], [`unpack`]: a frame as VXLAN (RFC 7348), with data for the other machine.
//! - [`MachineTransport`], [`Endpoint`]: the transport and the destination of frames.
//! - [`Sender`], [`Receiver`]: both ends of the path, which count lost, doubled, overtaken and late frames.
//! - [`Ping`], [`OffsetEstimate`]: exchanges with four times, and the derived offset and delay of another machine.
//! - [`DelayCheck`]: the part of an edge's delay that exceeds the delay between the machines, or the amount by which the edge is
//!   too short.
//!
//! This module is pure: it does not use a machine, a clock or a network.
//!
//! ```
//! use constel_cluster::underlay::{Exchange, OffsetEstimate};
//!
//! let mut estimate = OffsetEstimate::new();
//! // The other clock is 1,000 ns ahead; each way takes 200 ns.
//! estimate.learn(Exchange { t1_ns: 5_000, t2_ns: 6_200, t3_ns: 6_300, t4_ns: 5_500 });
//! let offset = estimate.at(5_500).unwrap();
//! assert_eq!((offset.ahead_ns, offset.error_ns), (1_000, 200));
//! ```

mod arrivals;
mod clock;
mod crossing;
mod endpoint;
mod frame;
mod ping;
mod room;
mod seal;

pub use arrivals::{ArrivalOrder, Arrivals, WINDOW};
pub use clock::{Exchange, Offset, OffsetEstimate, OneWayDelays};
pub use crossing::{CrossingCounts, Due, PortOwner, Receiver, Refused, Sender};
pub use endpoint::{ETHER_TYPE, Endpoint, MachineTransport};
pub use frame::{FrameError, Label, OVERHEAD_BYTES, pack, unpack};
pub use ping::{PING_BYTES, PING_MARK, Ping};
pub use room::DelayCheck;
pub use seal::{Cipher, Key, TAG_BYTES};
