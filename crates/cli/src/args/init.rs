//! `demo`, `init`, and what packages carry: `completion` and `man`.

use std::path::PathBuf;

use clap::Args;

/// `demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Folder that receives the results; `results/demo-<UTC time>` unless given. Must not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
    /// Name of the lab; `demo` unless given.
    #[arg(long, value_name = "LAB")]
    pub(crate) name: Option<String>,
    /// Only print the scenario; touches nothing.
    #[arg(long)]
    pub(crate) print: bool,
}

/// `init`.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The file to write, which must not exist; `-` is standard output.
    #[arg(default_value = "mine.yaml")]
    pub(crate) file: PathBuf,
    /// The scenario's name; the file's unless given.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// A constellation by name: iridium, oneweb, kuiper, starlink-shell1... (`preset` in docs/reference/scenario.md).
    #[arg(long, value_name = "NAME")]
    pub(crate) constellation: Option<String>,
    /// Cities of the 1,000 largest, by name; the first two ping each other.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub(crate) cities: Vec<String>,
    /// Who makes the routes: computed, bird or frr.
    #[arg(long, value_name = "MODE")]
    pub(crate) routing: Option<String>,
    /// How long it runs, for example `60s`.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) duration: Option<String>,
}

/// `completion`.
#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

/// `man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder that receives the pages; made if it is not there.
    pub(crate) folder: PathBuf,
}
