//! The command line of `constel node`.

use clap::{Args, Subcommand};

/// `node`.
#[derive(Debug, Args)]
pub(crate) struct Node {
    /// The change.
    #[command(subcommand)]
    pub(crate) verb: NodeVerb,
    /// Print one JSON document.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Changes of nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeVerb {
    /// Kill all processes of nodes and fail all their links, as by a loss of power.
    Stop(Nodes),
    /// Start the programs of stopped nodes again, and heal their links.
    Start(Nodes),
    /// Kill all processes of nodes and start their programs again; links stay.
    Restart(Nodes),
    /// Halt all processes of nodes; their kernels still forward and answer pings.
    Pause(Nodes),
    /// Continue paused processes.
    Resume(Nodes),
    /// Fail all links of nodes; their programs go on.
    Fail(Nodes),
    /// Heal the links of failed nodes.
    Heal(Nodes),
    /// Take nodes out of the lab: as `stop`, and their flows end.
    Remove(Nodes),
    /// Bring removed nodes back, as they were when the lab started.
    Add(Nodes),
}

/// The nodes of a change.
#[derive(Debug, Args)]
pub(crate) struct Nodes {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Names of nodes, or patterns, in which `*` matches any characters and `?` matches one.
    #[arg(required = true, value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// Return at once, before computed routes avoid links that failed.
    #[arg(long)]
    pub(crate) no_wait: bool,
}
