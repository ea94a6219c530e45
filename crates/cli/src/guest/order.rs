//! The order that a guest carries out: written by the host's side, read by the guest's first process.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The hidden verb by which the guest's kernel starts this program as its first process.
pub(crate) const VERB: &str = "guest";

/// The variable of the first process that names the folder of the order.
pub(crate) const FOLDER: &str = "CONSTEL_GUEST";

/// The order, in the folder that [`FOLDER`] names.
pub(crate) const ORDER: &str = "order.json";

/// The command's standard input, in the same folder.
pub(crate) const INPUT: &str = "input";

/// The outcome, in the same folder: written last, by the guest.
pub(crate) const OUTCOME: &str = "outcome.json";

/// A command to be run in a guest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GuestCommand {
    /// The program's arguments, without its name.
    pub(crate) arguments: Vec<String>,
    /// The standard input; empty for most commands.
    pub(crate) input: String,
    /// The working folder, absolute.
    pub(crate) folder: PathBuf,
    /// The environment.
    pub(crate) environment: BTreeMap<String, String>,
    /// Folders of the host that the guest may write to, absolute.
    pub(crate) shared: Vec<PathBuf>,
    /// Seed of the guest's random numbers.
    pub(crate) seed: u64,
    /// Memory of the guest, bytes. It is taken from the host as the guest uses it.
    pub(crate) memory_bytes: u64,
    /// The guest's wall clock at its start, nanoseconds since 1970.
    pub(crate) starts_at_ns: u64,
}

/// The outcome of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// The command ended: its exit code, or 128 and its signal.
    Ended(u8),
    /// It was never started.
    Unprepared(String),
}
