//! The box: a network between interfaces of the host to which external machines are connected.
//!
//! A box is a lab without nodes of its own. A frame that arrives at one interface leaves at another (`joined`)
//! after the actions of the first rule that matches it. Each rule and direction is an edge of the relay between two
//! ports that belong to no node. Rules therefore have the statistics of edges, and frames of one rule never delay
//! those of another.
//!
//! [`run`] does everything in the foreground: it checks the interfaces and refuses what would harm the host, claims
//! the name, starts the relay, lets frames in, answers on the socket, and releases everything. It changes nothing
//! on the interfaces that would outlive this process: a program attached by a BPF link, and promiscuous mode held
//! by a socket. A box may also run between two machines that it creates itself, in which a scenario's programs run.
#![forbid(unsafe_code)]

mod answers;
mod captures;
mod counters;
mod edits;
mod error;
mod joined;
mod live;
mod machines;
mod options;
mod ports;
mod programs;
mod report;
mod router;
mod run;
mod skies;
mod sky;
mod steer;

pub use error::BoxError;
pub use options::{Finished, Options};
pub use run::run;
