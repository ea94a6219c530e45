//! The command line of `constel box`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use constel_units::TimeSpan;

/// `box`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Middlebox {
    /// The verb for a running box or a file of rules.
    #[command(subcommand)]
    pub(crate) verb: Option<BoxVerb>,
    /// Two interfaces, or several pairs; forward is from the first to the second of each pair.
    #[arg(num_args = 2..=16, value_names = ["A", "B"], required = true)]
    pub(crate) interfaces: Vec<String>,
    /// Make all interfaces ports of a hub that learns addresses as a switch does; a rule's `match` defines the forward
    /// direction.
    #[arg(long, conflicts_with_all = ["address", "route"])]
    pub(crate) hub: bool,
    /// Make the box a router with this address at an interface: `eth1=10.0.1.254/24`. Each interface needs at least one.
    #[arg(long, value_name = "INTERFACE=ADDRESS/LENGTH")]
    pub(crate) address: Vec<String>,
    /// Route of the router, by a next hop: `10.0.9.0/24=10.0.1.9`.
    #[arg(long, value_name = "NETWORK=ADDRESS", requires = "address")]
    pub(crate) route: Vec<String>,
    /// File of rules. Default: all frames pass unchanged.
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// Name of the box among the labs of this host. Default: `box-A-B`.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Folder for the results; it must not exist. Default: `results/<name>-<UTC time>`.
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
    /// Run for this time. Default: until Ctrl-C or `constel down`.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) duration: Option<TimeSpan>,
    /// Put all frames through the box. Default: frames of the host itself do not pass through it.
    #[arg(long)]
    pub(crate) exclusive: bool,
    /// Stop the box unless `constel box confirm NAME` runs within this time; allows rules that could cut off access to the
    /// host.
    #[arg(long, value_name = "DURATION")]
    pub(crate) confirm_within: Option<TimeSpan>,
    /// Print the summary as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `box check`.
#[derive(Debug, Args)]
pub(crate) struct BoxCheck {
    /// File of rules; `-` is standard input.
    pub(crate) file: PathBuf,
    /// Print errors and warnings as one JSON document on stdout.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Operations on a running box or a file of rules.
#[derive(Debug, Subcommand)]
pub(crate) enum BoxVerb {
    /// Show a box: its interfaces, and its rules with their counters.
    Show(super::Lab),
    /// Show a box every second: a table on a terminal, else JSON lines.
    Top(super::Lab),
    /// Print a box's rules as a file for `constel box --rules`.
    Export(super::Lab),
    /// Add a rule to a box.
    Add(BoxAdd),
    /// Replace a rule by another one.
    Edit(BoxEdit),
    /// Move a rule to another position.
    Move(BoxMove),
    /// Remove a rule.
    Remove(BoxRemove),
    /// Replace all rules by those of a file.
    Replace(BoxRule),
    /// Keep a box that was started with `--confirm-within`.
    Confirm(super::Lab),
    /// Check a file of rules; print all errors and unreachable rules.
    Check(BoxCheck),
    /// Convert rows of NIST Net (`cnistnet -R`) to rules.
    #[command(after_help = super::examples::BOX_IMPORT)]
    Import(BoxImport),
}

/// `box import`.
#[derive(Debug, Args)]
pub(crate) struct BoxImport {
    /// File with rows of NIST Net, as `cnistnet -R` prints them.
    pub(crate) file: PathBuf,
    /// File for the rules; it must not exist. Default: standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// `box add`.
#[derive(Debug, Args)]
pub(crate) struct BoxAdd {
    /// Name of the box, as in `constel list`.
    pub(crate) lab: String,
    /// Rule, written as in a file: `{match: {dport: 443}, both: {delay: 100 ms}}`.
    pub(crate) rule: String,
    /// Position of the rule, from 1. Default: the last.
    #[arg(long, value_name = "PLACE")]
    pub(crate) at: Option<usize>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `box edit`.
#[derive(Debug, Args)]
pub(crate) struct BoxEdit {
    /// Name of the box, as in `constel list`.
    pub(crate) lab: String,
    /// Name of the rule.
    pub(crate) name: String,
    /// New rule, written as in a file.
    pub(crate) rule: String,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `box move`.
#[derive(Debug, Args)]
pub(crate) struct BoxMove {
    /// Name of the box, as in `constel list`.
    pub(crate) lab: String,
    /// Name of the rule.
    pub(crate) name: String,
    /// New position, from 1.
    #[arg(long, value_name = "PLACE")]
    pub(crate) at: usize,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `box remove`.
#[derive(Debug, Args)]
pub(crate) struct BoxRemove {
    /// Name of the box, as in `constel list`.
    pub(crate) lab: String,
    /// Name of the rule.
    pub(crate) name: String,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `box replace`.
#[derive(Debug, Args)]
pub(crate) struct BoxRule {
    /// Name of the box, as in `constel list`.
    pub(crate) lab: String,
    /// File of rules.
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}
