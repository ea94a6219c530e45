//! The box: a network between interfaces of the host, that others' machines are plugged into.
//!
//! A box is a lab without nodes of its own. What comes in at one interface leaves at the other, or at another
//! (`joined`), after what the first rule that takes it says. Each rule and direction is an edge of the relay between two ports that are in no node; so rules have
//! the statistics of edges, and frames of one rule are never in the way of another's.
//!
//! [`run`] does all of it in the foreground: look at the interfaces and refuse what would harm the host, claim the name,
//! start the relay, let frames in, answer on the socket, and let go again. Nothing is changed on the interfaces but what goes
//! with this process: a program attached by a link, and promiscuity by a socket. A box may also stand between two machines that
//! it makes itself, to which programs of a scenario are given.
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
