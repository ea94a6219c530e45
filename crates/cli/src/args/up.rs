//! `up`, `restart` and `logs`.

use std::path::PathBuf;

use clap::Args;
use constel_units::TimeSpan;

use super::Changes;

/// `up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Scenario file; `-` is standard input, and relative file names in it then refer to the current folder.
    pub(crate) file: PathBuf,
    /// Changes of the scenario's values.
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Name of the lab. Default: the scenario's name.
    #[arg(long, value_name = "LAB")]
    pub(crate) name: Option<String>,
    /// Folder for the results; it must not exist. Default: `results/<lab>-<UTC time>`.
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
    /// Take the lab down after this lab time. Default: the scenario's duration; without one, the lab stays until `constel
    /// down`.
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "no_end")]
    pub(crate) duration: Option<TimeSpan>,
    /// Ignore the scenario's duration: the lab stays until `constel down`.
    #[arg(long)]
    pub(crate) no_end: bool,
    /// Do not run the scenario's traffic.
    #[arg(long)]
    pub(crate) no_traffic: bool,
    /// Start even if the lab does not fit on this machine (`constel check --here`).
    #[arg(long)]
    pub(crate) anyway: bool,
    /// Follow the lab's messages until it ends; Ctrl-C leaves it running.
    #[arg(long)]
    pub(crate) attach: bool,
    /// Print the lab as one JSON document when it is up.
    #[arg(long)]
    pub(crate) json: bool,
    /// Be the process of the lab; `up` starts it.
    #[arg(long, hide = true)]
    pub(crate) staying: bool,
}

/// `restart`.
#[derive(Debug, Args)]
pub(crate) struct Restart {
    /// Name of a lab that `constel up` started, living or dead.
    pub(crate) lab: String,
    /// Follow the lab's messages until it ends; Ctrl-C leaves it running.
    #[arg(long)]
    pub(crate) attach: bool,
    /// Print the lab as one JSON document when it is up.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `logs`.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Print the output of this node's programs instead: routing daemons, programs of images, Midnodes.
    pub(crate) node: Option<String>,
    /// Also print later lines, until the lab ends.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Lines of each file to begin with, the latest ones, of at most its last MiB.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 200)]
    pub(crate) lines: usize,
}
