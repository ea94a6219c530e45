//! A machine of a cluster: it joins a store under a lease, describes itself there, compares its clock, and leaves.
//!
//! [`run()`] runs an agent from joining to its end. [`machines`] lists the machines of the cluster. The keys and values that
//! agents share are in `keys.rs` and [`Record`]. [`crate::store::Tenure`] decides about joining, leaving and losing: a
//! machine that was cut off or frozen finds out by its own clock that it no longer belongs to the cluster.

mod answers;
mod clocks;
mod compare;
mod facts;
mod hold;
mod join;
mod keys;
pub mod labs;
mod list;
mod measure;
mod options;
mod reach;
mod record;
mod recorder;
mod run;
mod underlay;

pub use facts::host_name;
pub use join::Refusal;
pub use list::{Row, State, forget, machines};
pub use options::{Failure, Options, Watcher};
pub use reach::{EthernetReach, reaches};
pub use record::{Clock, ClockMethod, Record, UnderlayAt};
pub use run::run;
pub(crate) use underlay::is_patience;
pub use underlay::{Listen, ListenError};
