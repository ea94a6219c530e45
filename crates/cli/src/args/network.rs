//! The command line of `constel network`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `network`.
#[derive(Debug, Args)]
pub(crate) struct Network {
    /// The verb.
    #[command(subcommand)]
    pub(crate) verb: NetworkVerb,
    /// Store of a lab on several machines: `etcd://HOST:PORT`, or the path of a folder. All machines make a change at one lab
    /// time, two seconds from now.
    #[arg(long, global = true, value_name = "STORE")]
    pub(crate) store: Option<constel_cluster::store::StoreLocation>,
    /// Print one JSON document.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Operations on a lab's networks.
#[derive(Debug, Subcommand)]
pub(crate) enum NetworkVerb {
    /// Show the networks and their members.
    Show {
        /// Name of the lab.
        lab: String,
    },
    /// Add a member that the scenario lists in `members`.
    Join(NetworkMember),
    /// Remove a member; it keeps its port, without edges.
    Leave(NetworkMember),
    /// Set the delays of a network's edges from a file, at one instant.
    Set(NetworkDelays),
}

/// Delays of a network.
#[derive(Debug, Args)]
pub(crate) struct NetworkDelays {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Name of the network; it must have `medium: links`.
    pub(crate) network: String,
    /// File with a square of one-way delays, or a table with the columns `from`, `to` and `delay_ms`, as for `law: {matrix:
    /// ...}`. Edges that it does not contain are unchanged.
    #[arg(long, value_name = "FILE", required_unless_present = "reset")]
    pub(crate) matrix: Option<PathBuf>,
    /// Remove the delays that were set.
    #[arg(long, conflicts_with = "matrix")]
    pub(crate) reset: bool,
}

/// A member of a network.
#[derive(Debug, Args)]
pub(crate) struct NetworkMember {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Name of the network.
    pub(crate) network: String,
    /// Name of the member's node.
    pub(crate) node: String,
}
