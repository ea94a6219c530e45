//! The command line of `constel box`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use constel_units::TimeSpan;

/// `box`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Example:\n  constel box eth1 eth2 --rules box.yaml\n  constel box show box-eth1-eth2"
)]
pub(crate) struct Middlebox {
    /// What to do with a box that runs, or with rules.
    #[command(subcommand)]
    pub(crate) verb: Option<BoxVerb>,
    /// Two interfaces, or several pairs; forward is from the first of each to the second.
    #[arg(num_args = 2..=16, value_names = ["A", "B"], required = true)]
    pub(crate) interfaces: Vec<String>,
    /// All interfaces are a hub, a switch that learns who is where; a rule's `match` says which way is forward.
    #[arg(long, conflicts_with_all = ["address", "route"])]
    pub(crate) hub: bool,
    /// The box is a router with this address at an interface: `eth1=10.0.1.254/24`. Each has one at least.
    #[arg(long, value_name = "INTERFACE=ADDRESS/LENGTH")]
    pub(crate) address: Vec<String>,
    /// The router leads to a network by somebody: `10.0.9.0/24=10.0.1.9`.
    #[arg(long, value_name = "NETWORK=ADDRESS", requires = "address")]
    pub(crate) route: Vec<String>,
    /// The file of rules; without it, everything passes.
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// Name of the box among the labs of this host; `box-A-B` unless given.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Folder that receives the results; `results/<name>-<UTC time>` unless given. Must not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
    /// Run for this long; until Ctrl-C or `constel down` unless given.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) duration: Option<TimeSpan>,
    /// All frames go through the box; else those of the host itself stay the host's.
    #[arg(long)]
    pub(crate) exclusive: bool,
    /// Take the box down unless `constel box confirm NAME` comes within this; allows what could cut the host off.
    #[arg(long, value_name = "DURATION")]
    pub(crate) confirm_within: Option<TimeSpan>,
    /// Print the summary as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `box check`.
#[derive(Debug, Args)]
pub(crate) struct BoxCheck {
    /// The file of rules; `-` is standard input.
    pub(crate) file: PathBuf,
    /// Print the findings as one JSON document on stdout.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be done with a box that runs, or with rules.
#[derive(Debug, Subcommand)]
pub(crate) enum BoxVerb {
    /// Show a box: its interfaces, and its rules with what they did.
    Show(super::Lab),
    /// The same every second: a table that stands still on a terminal, else one JSON object a line.
    Top(super::Lab),
    /// Print a box's rules as a file that `constel box --rules` takes.
    Export(super::Lab),
    /// Put a new rule into a box.
    Add(BoxAdd),
    /// Put another rule in the place of one.
    Edit(BoxEdit),
    /// Move a rule to another place.
    Move(BoxMove),
    /// Take a rule out.
    Remove(BoxRemove),
    /// Put all rules of a file in the place of those that are there.
    Replace(BoxRule),
    /// Let a box go on that was started with `--confirm-within`.
    Confirm(super::Lab),
    /// Is a file of rules good? Prints every error at once, and rules that are never reached; touches nothing.
    Check(BoxCheck),
    /// Turn rows of NIST Net (`cnistnet -R`) into rules; says what could not be carried over.
    Import(super::Import),
}

/// `box add`.
#[derive(Debug, Args)]
pub(crate) struct BoxAdd {
    /// The box's name, as in `constel list`.
    pub(crate) lab: String,
    /// The rule, as in a file: `{match: {dport: 443}, both: {delay: 100 ms}}`.
    pub(crate) rule: String,
    /// Its place, counted from 1; the last unless given.
    #[arg(long, value_name = "PLACE")]
    pub(crate) at: Option<usize>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `box edit`.
#[derive(Debug, Args)]
pub(crate) struct BoxEdit {
    /// The box's name, as in `constel list`.
    pub(crate) lab: String,
    /// The rule's name.
    pub(crate) name: String,
    /// The new rule, as in a file.
    pub(crate) rule: String,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `box move`.
#[derive(Debug, Args)]
pub(crate) struct BoxMove {
    /// The box's name, as in `constel list`.
    pub(crate) lab: String,
    /// The rule's name.
    pub(crate) name: String,
    /// Where to, counted from 1.
    #[arg(long, value_name = "PLACE")]
    pub(crate) at: usize,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `box remove`.
#[derive(Debug, Args)]
pub(crate) struct BoxRemove {
    /// The box's name, as in `constel list`.
    pub(crate) lab: String,
    /// The rule's name.
    pub(crate) name: String,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `box replace`.
#[derive(Debug, Args)]
pub(crate) struct BoxRule {
    /// The box's name, as in `constel list`.
    pub(crate) lab: String,
    /// The file of rules.
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}
