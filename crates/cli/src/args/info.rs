//! The command line of `constel info`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `info`.
#[derive(Debug, Args)]
pub(crate) struct Info {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: InfoVerb,
    /// Of a lab on several machines, which share this store: `etcd://HOST:PORT`, or the path of a folder. What is asked is run on the
    /// machine that has the node.
    #[arg(long, global = true, value_name = "STORE")]
    pub(crate) store: Option<constel_store::Place>,
    /// Print one JSON document.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What can be done to what a node is told. The node is one that the scenario's `information` is for.
#[derive(Debug, Subcommand)]
pub(crate) enum InfoVerb {
    /// Put a file in; the node sees it as `/run/constel/user/NAME` from one instant to the next.
    Put(InfoPut),
    /// Take a file away.
    #[command(visible_alias = "rm")]
    Remove(InfoFile),
    /// Send a command to the node's programs: an event of the kind `command`.
    Send(InfoSend),
}

/// `info put`.
#[derive(Debug, Args)]
pub(crate) struct InfoPut {
    /// The lab's name.
    pub(crate) lab: String,
    /// The node's name.
    pub(crate) node: String,
    /// What the file is called in the node: letters, digits, `.`, `_` and `-`.
    pub(crate) name: String,
    /// What is in it, text of at most 1 MiB; `-` is standard input.
    pub(crate) file: PathBuf,
}

/// `info remove`.
#[derive(Debug, Args)]
pub(crate) struct InfoFile {
    /// The lab's name.
    pub(crate) lab: String,
    /// The node's name.
    pub(crate) node: String,
    /// The file's name.
    pub(crate) name: String,
}

/// `info send`.
#[derive(Debug, Args)]
pub(crate) struct InfoSend {
    /// The lab's name.
    pub(crate) lab: String,
    /// The node's name.
    pub(crate) node: String,
    /// The command: JSON, such as `'{"do": "reload"}'`; what is none is sent as a text.
    pub(crate) data: String,
}
