//! A machine among others: it joins a store under a lease, says there how it is, compares its clock, and leaves.
//!
//! [`run()`] is an agent from joining to its end; [`machines`] is who is there. What they share is in `keys.rs` and
//! [`Record`]. Joining, leaving and losing go by [`constel_store::Tenure`]: a machine that was cut off or frozen knows by its
//! own clock that it is none any more.
#![forbid(unsafe_code)]

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
mod reach;
mod record;
mod recorder;
mod run;
mod underlay;

pub use facts::host_name;
pub use join::Refusal;
pub use list::{Row, State, forget, machines};
pub use reach::{Reach, reaches};
pub use record::{By, Clock, Record, UnderlayAt};
pub use run::{Failure, Options, Watcher, run};
pub use underlay::{Listen, ListenError};
