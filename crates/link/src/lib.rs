//! The edge model of Constel, in virtual time.
//!
//! An *edge* is a directed connection between two ports with one impairment. It has three stages:
//! **service** (rate, one frame at a time) with a byte-limited **queue** in front of it, then a
//! **delay line** (propagation, FIFO). Nothing here reads a clock, draws from a global generator
//! or touches the kernel: `now` comes in as an argument, so the relay and the tests run the same
//! code.
#![forbid(unsafe_code)]

mod mac;
mod types;
mod update;

pub use mac::{MAC_PREFIX, MAX_PORT, is_group, mac_of, port_of_mac};
pub use types::{Delay, DropCause, Impairment, Loss, Nanos, PortId, QueueLimit};
pub use update::{ChangeError, CheckedUpdate, EdgeChange, EdgeUpdate, UpdateError};
