//! `web`.

use std::path::PathBuf;

use clap::Args;

use super::Changes;

/// `web`.
#[derive(Debug, Args)]
pub(crate) struct Web {
    /// A running lab, or the results folder of a run; the lab of this host where there is one alone.
    #[arg(value_name = "LAB|RESULTS", conflicts_with = "plan")]
    pub(crate) target: Option<String>,
    /// Show a scenario without a lab: all of its time is computed. No root is needed.
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// What is different from the file.
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// The port of the loopback; any that is free unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Let the page change links, and rules of a box.
    #[arg(long, conflicts_with = "plan")]
    pub(crate) write: bool,
    /// Let the page open shells in nodes, with the rights of this process.
    #[arg(long, conflicts_with = "plan")]
    pub(crate) shell: bool,
    /// Do not open a browser.
    #[arg(long)]
    pub(crate) no_open: bool,
}
