//! Options of an agent, its callbacks, and the reasons why it ends.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::agent::join::Refusal;
use crate::agent::underlay::Listen;
use crate::store::Error;

/// Interval at which the end flag and the end of the lease are checked.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The properties of the machine that an agent publishes, and the address where it listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Name of the machine.
    pub name: String,
    /// Version of Constel. All machines must have the same version.
    pub version: String,
    /// Share of a lab's nodes, in proportion to the weights of the other machines. At least 1.
    pub weight: u32,
    /// Maximum number of nodes.
    pub capacity: Option<u32>,
    /// Number of threads that create nodes. Each thread creates one node at a time.
    pub workers: NonZeroU32,
    /// The interface where it listens for other machines. Default: none.
    pub underlay: Option<Listen>,
    /// The program `constel`, which runs this machine's share of a lab. Without it, or without a listening address, the
    /// machine accepts no labs.
    pub program: Option<PathBuf>,
}

/// The reason why an agent could not begin, or ended without a request.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The machine may not join.
    #[error("{0}")]
    Refused(Refusal),
    /// The store cannot be reached.
    #[error(transparent)]
    Store(#[from] Error),
    /// The requested address cannot be used.
    #[error("--underlay {0}")]
    Underlay(String),
    /// The machine no longer belongs to the cluster. Another agent may have taken the name.
    #[error(
        "the lease of machine {name} is over: {reason}. It is not one of the machines any more; start the agent again"
    )]
    Lost {
        /// Name of the machine.
        name: String,
        /// The reason, if known.
        reason: String,
    },
    /// The operating system refused an operation.
    #[error(transparent)]
    Os(#[from] std::io::Error),
}

/// Callbacks of a running agent.
pub trait Watcher: Sync {
    /// Returns the number of nodes of labs that run on this machine.
    fn nodes(&self) -> u64;
    /// Reports a message for the operator.
    fn tell(&self, text: &str);
}

/// Returns the failure of a machine that no longer belongs to the cluster.
pub(crate) fn lost(name: &str, reason: &str) -> Failure {
    Failure::Lost {
        name: name.to_owned(),
        reason: reason.to_owned(),
    }
}
