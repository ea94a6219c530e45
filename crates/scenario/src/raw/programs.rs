//! `mounts` and `limits`: files of the host that programs in nodes see, and resource limits.

use std::collections::BTreeMap;

use constel_units::DataSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Name, NodeName};

/// A file or folder of the host that programs in nodes see at another place, or that would otherwise be hidden
/// from them. Programs see the host's files except `/tmp`, `/run` and `/dev/shm`, which are each node's own, and
/// `/sys` and `/proc`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Mount")]
pub struct RawMount {
    /// The file or folder of the host; relative to the scenario's folder, or absolute.
    #[schemars(length(min = 1, max = 4095))]
    pub host: String,
    /// The place in the node, absolute. It must exist on the host as the same kind as `host`, a file or a
    /// folder; below `/tmp`, `/run` and `/dev/shm` it is created.
    #[schemars(length(min = 1, max = 4095))]
    pub at: String,
    /// Whether programs cannot write there.
    #[serde(default = "yes")]
    pub read_only: bool,
    /// The nodes whose programs see it. Default: all.
    #[schemars(length(min = 1, max = 10_000))]
    pub nodes: Option<Vec<NodeName>>,
}

pub(super) fn yes() -> bool {
    true
}

/// Resource limits of all programs in nodes together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub struct RawLimits {
    /// Memory, including files in `/tmp`, `/run` and `/dev/shm`. Default: three quarters of the machine's.
    #[schemars(extend("x-minimum" = "16 MiB", "x-maximum" = "64 TiB"))]
    pub memory: Option<DataSize>,
    /// Processes and threads. Default: 4,096 and 64 for each node, but at most three quarters of the processes
    /// that the machine can number.
    #[schemars(range(min = 16, max = 4_194_304))]
    pub processes: Option<u32>,
    /// Lower limits of the programs of one node, by the node's name.
    #[serde(default)]
    pub nodes: BTreeMap<Name, RawNodeLimits>,
}

/// Resource limits of the programs of one node. At least one of the two.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NodeLimits")]
pub struct RawNodeLimits {
    /// Memory. Default: no limit of the node's own.
    #[schemars(extend("x-minimum" = "1 MiB", "x-maximum" = "64 TiB"))]
    pub memory: Option<DataSize>,
    /// Processes and threads. Default: no limit of the node's own.
    #[schemars(range(min = 1, max = 4_194_304))]
    pub processes: Option<u32>,
}
