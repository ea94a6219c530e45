//! The command line of `constel network`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `network`.
#[derive(Debug, Args)]
pub(crate) struct Network {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: NetworkVerb,
    /// Of a lab on several machines, which share this store: `etcd://HOST:PORT`, or the path of a folder. All of them make a change at one
    /// lab time, two seconds from now.
    #[arg(long, global = true, value_name = "STORE")]
    pub(crate) store: Option<constel_store::Place>,
    /// Print one JSON document.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What can be done to a lab's networks.
#[derive(Debug, Subcommand)]
pub(crate) enum NetworkVerb {
    /// The networks and who is in them.
    Show {
        /// The lab's name.
        lab: String,
    },
    /// Bring a member in; returns when computed routes have followed. It is one that the scenario lists, in `members`.
    Join(NetworkMember),
    /// Take a member out: it keeps its port and has no edges there until it joins again.
    Leave(NetworkMember),
    /// Put the delays of a file on a network's edges, all in one instant, until they are reset or set again.
    Set(NetworkDelays),
}

/// Delays of a network.
#[derive(Debug, Args)]
pub(crate) struct NetworkDelays {
    /// The lab's name.
    pub(crate) lab: String,
    /// The network's name; one with `medium: links`.
    pub(crate) network: String,
    /// A square of one-way delays, or a table with the columns `from`, `to` and `delay_ms`, as for `law: {matrix: ...}`. Edges
    /// that it does not have stay as they are.
    #[arg(long, value_name = "FILE", required_unless_present = "reset")]
    pub(crate) matrix: Option<PathBuf>,
    /// Take away what was set so.
    #[arg(long, conflicts_with = "matrix")]
    pub(crate) reset: bool,
}

/// A member of a network.
#[derive(Debug, Args)]
pub(crate) struct NetworkMember {
    /// The lab's name.
    pub(crate) lab: String,
    /// The network's name.
    pub(crate) network: String,
    /// The member's node.
    pub(crate) node: String,
}
