//! Node isolation and resource limits: files of the host that programs in nodes see, and limits of processor
//! time, memory and processes.

use serde::Serialize;

use super::Name;

/// Something of the host that nodes see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The path as in the scenario: relative to its folder, or absolute.
    pub host: String,
    /// Absolute; without `.` and `..`; in neither `/proc` nor `/sys`.
    pub at: String,
    /// Whether it cannot be written there.
    pub read_only: bool,
    /// The nodes that see it; `None`: all.
    pub nodes: Option<Vec<Name>>,
}

/// Resource limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Limit {
    /// Processor time, thousandths of a processor; `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_thousandths: Option<u64>,
    /// Memory, bytes; `None`: the default of whatever has the limit.
    pub memory_bytes: Option<u64>,
    /// Processes and threads; `None` as above.
    pub processes: Option<u64>,
}

impl Limit {
    /// Whether it sets no limit.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Limits of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// Limits of all nodes together.
    pub lab: Limit,
    /// Limits of single nodes, by name; none is above the lab's. Each limits something.
    pub nodes: Vec<(Name, Limit)>,
}
