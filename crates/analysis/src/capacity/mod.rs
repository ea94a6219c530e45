//! What a lab will take of a machine, estimated before anything is made, and how much of it would fit.
//!
//! [`Needs::of`] counts nodes, interfaces, daemons and frames of a planned lab and multiplies them with [`costs`], which
//! are measured (`benches/capacity`, `docs/capacity.md`). [`Estimate`] compares that with a machine's [`Room`]. Pure:
//! looking at the machine is the caller's.

pub mod costs;
mod figure;
mod load;
mod needs;
mod words;

pub use figure::{Figure, Room, What};
pub use load::{Load, OfFlows};
pub use needs::{Amount, Needs};
pub use words::Estimate;
