//! What lies between the machines of one lab, as values: frames on their way, what became of them, how far clocks are apart.
//!
//! - [`pack`], [`unpack`]: a frame as VXLAN (RFC 7348), with what the other machine must know of it.
//! - [`Carriage`], [`Endpoint`]: by what frames go, and where to.
//! - [`Sender`], [`Receiver`]: both ends of the way; what is lost, doubled, overtaken and late is counted.
//! - [`Ping`], [`OffsetEstimate`]: round trips with four times, and what they say of another machine's clock and of the way.
//! - [`Room`]: what of an edge's delay is left when the way is taken from it, or by how much the edge is too short.
//!
//! Pure: nothing here touches a machine, a clock or a network.
//!
//! ```
//! use constel_underlay::{Exchange, OffsetEstimate};
//!
//! let mut estimate = OffsetEstimate::new();
//! // The other clock is 1,000 ns ahead; each way takes 200 ns.
//! estimate.learn(Exchange { t1_ns: 5_000, t2_ns: 6_200, t3_ns: 6_300, t4_ns: 5_500 });
//! let offset = estimate.at(5_500).unwrap();
//! assert_eq!((offset.ahead_ns, offset.error_ns), (1_000, 200));
//! ```
#![forbid(unsafe_code)]

mod arrivals;
mod clock;
mod crossing;
mod endpoint;
mod frame;
mod ping;
mod room;
mod seal;

pub use arrivals::{Arrivals, Came, WINDOW};
pub use clock::{Exchange, Offset, OffsetEstimate, Ways};
pub use crossing::{CrossingCounts, Due, Receiver, Refused, Sender, Whose};
pub use endpoint::{Carriage, ETHER_TYPE, Endpoint};
pub use frame::{Label, NotOurs, OVERHEAD_BYTES, pack, unpack};
pub use ping::{PING_BYTES, PING_MARK, Ping};
pub use room::Room;
pub use seal::{Cipher, Key, TAG_BYTES};
