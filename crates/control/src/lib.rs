//! The operations that all front ends of Constel use. The command line is one front end. Others (HTTP, Python, a web view)
//! must be as thin.
//!
//! * [`Scenario`]: a scenario file, loaded: [check](Scenario::check) it, [plan](Scenario::plan) it, [start](Scenario::start)
//!   a lab of it in this process.
//! * [`Running`]: that lab: its events as they happen, stop, wait for the summary.
//! * [`Starter`]: the generator of a first scenario; [`DEMO`]: a scenario that needs no installed software.
//! * [`Scenario::start_on`]: a lab on several machines, whose agents call [`run_part`] for their parts.
//! * [`ComingUp`], [`Staying`]: labs that stay in the background, and records of them.
//! * [`list`], [`Observer`] and [`Lab`]: labs of other processes, by name. An observer can only read; a lab can also be
//!   changed, entered and taken down.
//! * [`run_box`]: a network between two interfaces of the host, by [rules](load_rules), or of a [scenario](load_box).
//! * [`results`]: the results of runs; [`picture`]: files of pictures.
//! * [`mod@sweep`]: many runs of one scenario, with their summary.
//! * [`images`]: images of nodes: import, list, show, remove, prune.
//! * [`clean`], [`doctor`]: the host.
//! * [`Error`]: the errors, with the [exit](Error::exit) that scripts rely on.
//!
//! This crate does not print, parse a command line or end the process, except that [`OpenNode::exec`] replaces the process, as
//! it documents. Requests and answers have the types of `constel-api`.
//!
//! ```
//! use constel_control::{Quiet, RunOptions, Scenario};
//!
//! let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/");
//! let scenario = Scenario::load(&std::path::Path::new(folder).join("iridium.yaml"))?;
//! assert_eq!(scenario.plan("0 s".parse().unwrap())?.nodes.len(), 80);
//!
//! # fn run(scenario: Scenario) -> Result<(), constel_control::Error> {
//! // With the rights of root, and on a host that is able:
//! let running = scenario.start(RunOptions::default(), std::sync::Arc::new(Quiet))?;
//! for event in running.events() {
//!     println!("{:?}", event.what);
//! }
//! println!("trustworthy: {}", running.wait()?.summary.verdict.trustworthy);
//! # Ok(()) }
//! # Ok::<(), constel_control::Error>(())
//! ```
#![forbid(unsafe_code)]

mod check;
pub mod copy;
mod demo;
mod doctor;
mod engines;
mod error;
pub mod expect;
pub mod images;
mod labs;
mod machines;
mod many;
pub mod metrics;
mod middlebox;
mod node;
pub mod picture;
pub mod results;
mod run;
mod scenario;
mod staying;
pub mod sweep;
mod tether;
mod together;

pub use check::Check;
pub use copy::Copied;
pub use demo::{DEMO, Starter, StarterError};
pub use doctor::{Diagnosis, DriverInUse, Finding, Runtimes, doctor};
pub use error::{Error, Exit};
pub use labs::{Lab, Observer, clean, list};
pub use machines::{Division, MachineChanges, Rows, Share, Steps};
pub use many::NodeResult;
pub use middlebox::{BoxFinished, BoxOptions, BoxSource, load_box, load_rules, run_box};
pub use node::{OpenNode, require_privilege};
pub use run::{End, EventStream, Finished, Quiet, RunOptions, Running, default_results};
pub use scenario::Scenario;
pub use staying::{ComingUp, LOG, Staying, Stopped, Went, clear_stopped, end_for_restart, staying};
pub use tether::when_ended;
pub use together::{
    ChosenMachines, ClusterRun, EventsComing, MachineCheck, MachinePair, OnMachines, SeenEvent,
    TransportChoice, Underlay, machine_of, merge_events, run_part,
};

pub use constel_host::clean::{CleanReport, HostReport};
pub use constel_host::sealed::{enter as seal, own_program};
pub use constel_lab::{ENDLESS, Progress, workers_here};
