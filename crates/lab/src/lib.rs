//! Brings up a lab, steps it, observes it, and takes it down.
//!
//! [`run`] does everything in the foreground. It claims the lab's name, creates nodes and ports in a pipeline,
//! starts the link plane, and waits for routes. Then it runs lab time with the scenario's traffic, writes the
//! summary, and leaves the host as it was. Everything created is removed in any case: by name, or, without a name, with the last
//! descriptor of this process.
#![forbid(unsafe_code)]

mod answers;
mod clock;
mod error;
mod failed;
mod information;
mod life;
mod nodes;
mod policy;
mod progress;
mod routing;
#[cfg(test)]
mod testing;
mod traffic;
mod watch;
pub mod wires;

pub use answers::by_hand::{Delays, EffectTarget, Impairing, ManualChange, MemberMove};
pub use answers::orders::ScheduledChange;
pub use error::EngineError;
pub use life::losses::{Change, Loss, Return, back_ns, gone_ns};
pub use life::manifest::{bounds, data_ages};
pub use life::options::{Finished, Options};
pub use life::room::room;
pub use life::run::run;
pub use life::together::{ClusterPart, Gate, PartReady, not_on_several};
pub use nodes::builder::workers_here;
pub use nodes::engine::engine_of;
pub use nodes::importing::ImportProgress;
pub use nodes::launcher::{own_folder, search_path};
pub use nodes::management::{probe_management, probe_management_reach};
pub use progress::{ENDLESS, Progress};
pub use traffic::{Ended, NOT_STARTED, exit_in_full};
pub use watch::capture::{Capture, Filter, FrameText};
pub use watch::event_log::EventLog;
pub use watch::stood::{MachineSamples, OUTCOMES_FILE, record_convergence};
