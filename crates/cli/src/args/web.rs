//! `web`.

use std::path::PathBuf;

use clap::Args;

use super::Changes;

/// `web`.
#[derive(Debug, Args)]
pub(crate) struct Web {
    /// Running lab, or results folder of a run. Default: the only running lab of this host.
    #[arg(value_name = "LAB|RESULTS", conflicts_with = "plan")]
    pub(crate) target: Option<String>,
    /// Show a scenario without a lab, computed over its whole duration. Needs no root.
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Build a new scenario in the browser. Needs no root.
    #[arg(long, conflicts_with_all = ["plan", "target"])]
    pub(crate) new: bool,
    /// Changes of the scenario's values.
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Port on the loopback address. Default: a free one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Allow the page to change links, nodes, and rules of a box, to start flows, and to capture frames.
    #[arg(long, conflicts_with_all = ["plan", "new"])]
    pub(crate) write: bool,
    /// Allow the page to open shells in nodes, with the privileges of this process.
    #[arg(long, conflicts_with_all = ["plan", "new"])]
    pub(crate) shell: bool,
    /// Do not open a browser.
    #[arg(long)]
    pub(crate) no_open: bool,
}
