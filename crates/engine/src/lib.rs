//! Brings a lab up, steps it, watches it, takes it down.
//!
//! [`run`] does all of it in the foreground: claim the lab's name, make nodes and ports by a pipeline, start
//! the link plane, let routes stand, run lab time with the scenario's traffic, sum up, and leave the host as
//! it was. Whatever happens, what was made is removed: by name where it has one, and with our last descriptor
//! where it has none.
#![forbid(unsafe_code)]

mod bring_up;
mod changes;
mod clock;
mod computed;
mod congestion;
mod converged;
mod daemons;
mod disjoint;
mod error;
mod forwarding;
mod helpers;
mod impair;
mod inspect;
mod launcher;
mod life;
mod limits;
mod manifest;
mod nodes;
mod oriented;
mod parting;
mod paths;
mod preflight;
mod progress;
mod run;
mod running;
mod series;
mod session;
mod start;
mod steps;
mod summary;
mod tables;
mod take_down;
mod traffic;
mod usage;
mod view;
mod wiring;

pub use error::EngineError;
pub use launcher::{hosts_file, namespaces_file, node_mounts, search_path};
pub use manifest::bounds;
pub use paths::PathSample;
pub use progress::Progress;
pub use run::{Finished, Options, run};
pub use summary::{
    ChangeRow, ControlRow, Convergence, FlowRow, HandoverRow, Size, StepRows, Summary, Times,
};
pub use usage::DaemonsRow;
