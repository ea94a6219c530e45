//! The command line of `constel info`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `info`.
#[derive(Debug, Args)]
pub(crate) struct Info {
    /// The verb.
    #[command(subcommand)]
    pub(crate) verb: InfoVerb,
    /// Store of a lab on several machines: `etcd://HOST:PORT`, or the path of a folder. The command runs on the machine that
    /// has the node.
    #[arg(long, global = true, value_name = "STORE")]
    pub(crate) store: Option<constel_cluster::store::StoreLocation>,
    /// Print one JSON document.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Changes of a node's information. The scenario's `information` must include the node.
#[derive(Debug, Subcommand)]
pub(crate) enum InfoVerb {
    /// Put a file into the node, as `/run/constel/user/NAME`.
    Put(InfoPut),
    /// Remove a file.
    #[command(visible_alias = "rm")]
    Remove(InfoFile),
    /// Send a command to the node's programs, as an event of kind `command`.
    Send(InfoSend),
}

/// `info put`.
#[derive(Debug, Args)]
pub(crate) struct InfoPut {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Name of the node.
    pub(crate) node: String,
    /// Name of the file in the node: letters, digits, `.`, `_` and `-`.
    pub(crate) name: String,
    /// File with the content, text of at most 1 MiB; `-` is standard input.
    pub(crate) file: PathBuf,
}

/// `info remove`.
#[derive(Debug, Args)]
pub(crate) struct InfoFile {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Name of the node.
    pub(crate) node: String,
    /// Name of the file.
    pub(crate) name: String,
}

/// `info send`.
#[derive(Debug, Args)]
pub(crate) struct InfoSend {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Name of the node.
    pub(crate) node: String,
    /// Command as JSON, such as `'{"do": "reload"}'`; other texts are sent as a JSON string.
    pub(crate) data: String,
}
