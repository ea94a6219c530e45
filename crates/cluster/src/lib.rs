//! A lab on several machines.
//!
//! * [`machines`]: the division of a lab's nodes among machines, and the edges that cross. Has only values.
//! * [`store`]: the keys that the machines share, with leases, transactions and watches; embedded, in a folder, or etcd.
//! * [`agent`]: one machine among others: it joins a store, reports its state, compares its clock, and leaves.
//! * `channel`: the encrypted connection that carries commands, their input and their output to a machine's agent.
//! * [`underlay`]: the network between machines in virtual time: frames in transit, their seals, offsets of clocks. Has only values.
//! * [`crossing`]: the socket that carries frames from the relay of one machine to the relay of another.
#![forbid(unsafe_code)]

pub mod agent;
mod channel;
pub mod crossing;
pub mod machines;
pub mod store;
pub mod underlay;
