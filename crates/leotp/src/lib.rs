//! LEOTP, an information-centric transport protocol for lossy, moving,
//! many-hop networks, after Jiang et al., "LEOTP: An Information-Centric
//! Transport Layer Protocol for LEO Satellite Networks", ICDCS 2023.
//!
//! The crate is useful on any network. It has three layers:
//!
//! * [`wire`]: the packets, parsed defensively (`docs/reference/leotp-wire.md`);
//! * [`core`]: Consumer, Midnode and Producer as state machines without clock,
//!   sockets or unsafe code: datagrams and `now` go in, datagrams and the next
//!   deadline come out;
//! * [`rt`]: the Linux runtime: batched UDP, one epoll thread, transparent
//!   Midnodes, and a blocking library interface.
//!
//! [`gateway`] carries ordinary TCP over LEOTP; [`seal`] is the optional authenticated mode on top of the byte stream.
//!
//! Units: times are nanoseconds (`Nanos`), sizes bytes, rates bit/s on the wire
//! and in parameters. Section and equation numbers are the paper's.

#![deny(unsafe_code)]

pub mod core;
pub mod gateway;
pub mod rt;
pub mod seal;
pub mod wire;

/// Nanoseconds since an epoch of the node's own choosing. Two nodes need not
/// share an epoch: only differences taken on one clock, or sums of two one-way
/// differences in which the offset cancels, are ever used.
pub type Nanos = u64;
