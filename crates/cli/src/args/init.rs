//! `demo`, `init`, `completion` and `man`.

use std::path::PathBuf;

use clap::Args;

use super::Time;

/// `demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Folder for the results; it must not exist. Default: `results/demo-<UTC time>`.
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
    /// Name of the lab. Default: `demo`.
    #[arg(long, value_name = "LAB")]
    pub(crate) name: Option<String>,
    /// Print the scenario without running it.
    #[arg(long)]
    pub(crate) print: bool,
    /// How time passes in the lab, as for `run`.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) time: Time,
}

/// `init`.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// File to write; it must not exist. `-` is standard output.
    #[arg(default_value = "mine.yaml")]
    pub(crate) file: PathBuf,
    /// Name of the scenario. Default: the file's name.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Name of a constellation: iridium, oneweb, kuiper, starlink-shell1... (`preset` in docs/reference/scenario/constellations.md).
    #[arg(long, value_name = "NAME")]
    pub(crate) constellation: Option<String>,
    /// Names of cities, of the 1,000 largest; the first two ping each other.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub(crate) cities: Vec<String>,
    /// Source of the routes: computed, bird or frr.
    #[arg(long, value_name = "MODE")]
    pub(crate) routing: Option<String>,
    /// Duration of the scenario, for example `60s`.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) duration: Option<String>,
}

/// `completion`.
#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// Shell to print the script for.
    pub(crate) shell: clap_complete::Shell,
}

/// `names`.
#[derive(Debug, Args)]
pub(crate) struct Names {
    /// Words after the name of the program; the last one is completed.
    #[arg(last = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

/// `man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Folder for the pages; created if it does not exist.
    pub(crate) folder: PathBuf,
}
