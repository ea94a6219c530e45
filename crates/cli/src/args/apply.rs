//! The command line of `constel apply` and `constel station`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Changes;

/// `apply`.
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The changed scenario file; `-` is standard input, and relative file names in it then refer to the current folder.
    pub(crate) file: PathBuf,
    /// Changes of the scenario's values. Those with which the lab was started must be given again.
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Name of the running lab. Default: the scenario's name.
    #[arg(long, value_name = "LAB")]
    pub(crate) name: Option<String>,
    /// Only print the differences; change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `station`.
#[derive(Debug, Args)]
pub(crate) struct StationArgs {
    /// The change.
    #[command(subcommand)]
    pub(crate) verb: StationVerb,
    /// Print one JSON document.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Changes of the satellites that stations use.
#[derive(Debug, Subcommand)]
pub(crate) enum StationVerb {
    /// Have an antenna of a station use one satellite, whatever its policy says.
    Attach {
        /// Name of the lab.
        lab: String,
        /// Name of the station.
        #[arg(value_name = "STATION")]
        node: String,
        /// Name of the satellite. While the station cannot use it, the antenna is dark.
        satellite: String,
        /// Number of the antenna, from 0 in the order of the station's terminals. Default: the one that is attached to the
        /// satellite already, or else 0.
        #[arg(long, value_name = "N")]
        antenna: Option<usize>,
    },
    /// Take an antenna of a station off its satellite: it is dark until `attach` or `policy`.
    Detach {
        /// Name of the lab.
        lab: String,
        /// Name of the station.
        #[arg(value_name = "STATION")]
        node: String,
        /// Number of the antenna. Default: all antennas.
        #[arg(long, value_name = "N")]
        antenna: Option<usize>,
    },
    /// Have all antennas of stations choose by a policy.
    Policy {
        /// Name of the lab.
        lab: String,
        /// Names of stations, or patterns, in which `*` matches any characters and `?` matches one.
        #[arg(required = true, value_name = "STATION")]
        nodes: Vec<String>,
        /// The policy: a word as in a scenario, `hysteresis=ANGLE` or `scheduler=SLOT`. Default: the one of the scenario.
        #[arg(long, value_name = "POLICY")]
        to: Option<String>,
    },
}
