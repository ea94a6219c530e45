//! LEOTP, an information-centric transport protocol for lossy, moving,
//! many-hop networks, after Jiang et al., "LEOTP: An Information-Centric
//! Transport Layer Protocol for LEO Satellite Networks", ICDCS 2023.
//!
//! The crate is useful on any network. It has three layers:
//!
//! * [`wire`]: the packets, parsed defensively (`docs/reference/leotp-wire.md`);
//! * [`core`]: Consumer, Midnode and Producer as state machines without clock,
//!   sockets or unsafe code: datagrams and `now` go in, datagrams and the next
//!   deadline come out. It is a crate of its own, `leotp-core`, for those who need
//!   no more;
//! * [`rt`]: the Linux runtime: batched UDP, one epoll thread, transparent
//!   Midnodes, and a blocking library interface.
//!
//! [`gateway`] carries ordinary TCP over LEOTP; [`seal`] is the optional authenticated mode on top of the byte stream.
//!
//! # A stream between two programs
//!
//! ```
//! use leotp::core::Params;
//! use leotp::rt::{Fetch, FetchOptions, Publisher};
//! use std::io::{Read, Write};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // One end publishes a flow, here one that is written while it is served. Files and memory: `FileSource`, `MemorySource`.
//! let mut publisher = Publisher::bind(&["127.0.0.1:0".parse()?], Params::default())?;
//! let (address, flow_id) = (publisher.locals()[0], 0x5eed);
//! let mut flow = publisher.publish_live(flow_id, 1 << 20);
//! flow.write_all(b"made while it is read")?;
//! flow.finish();
//! // It is served as long as somebody polls it.
//! std::thread::spawn(move || while publisher.poll(Duration::from_millis(100)).is_ok() {});
//!
//! // The other end reads it, blocking.
//! let mut text = String::new();
//! Fetch::open(FetchOptions::new(address, flow_id))?.read_to_string(&mut text)?;
//! assert_eq!(text, "made while it is read");
//! # Ok(())
//! # }
//! ```
//!
//! [`rt::AsyncFetch`] is the equivalent for asynchronous programs; `examples/stream.rs` is
//! longer.
//!
//! Units: times are nanoseconds (`Nanos`), sizes bytes, rates bit/s on the wire
//! and in parameters. Section and equation numbers are the paper's.

#![deny(unsafe_code)]

pub mod gateway;
pub mod rt;
pub mod seal;

pub use leotp_core as core;
pub use leotp_core::{Nanos, wire};
