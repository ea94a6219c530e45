//! The resources of a machine that a lab needs, estimated before it is made, and the size of a lab that would
//! fit.
//!
//! [`Needs::of`] counts nodes, interfaces, daemons and frames of a planned lab and multiplies them with
//! [`costs`], which are measured (`benches/capacity`, `docs/capacity.md`). [`Estimate`] compares the result
//! with a machine's [`MachineCapacity`]. Pure: the caller inspects the machine.

pub mod costs;
mod figure;
mod load;
mod needs;
mod words;

pub use figure::{Figure, MachineCapacity, Resource};
pub use load::{FlowTraffic, Load};
pub use needs::{Amount, Needs};
pub use words::Estimate;
