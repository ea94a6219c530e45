//! `mounts` and `limits`: what programs in nodes see of the host, and how much of it they may take.

use std::collections::BTreeMap;

use constel_units::DataSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Name, NodeName};

/// A file or folder of the host that programs in nodes see at another place, or that they could not see. They see the
/// host's files but `/tmp`, `/run` and `/dev/shm`, which are each node's own, and `/sys` and `/proc`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Mount")]
pub struct RawMount {
    /// What is seen; relative to the scenario's folder, or absolute.
    #[schemars(length(min = 1, max = 4095))]
    pub host: String,
    /// Where, absolute. It must exist on the host as what `host` is, a file or a folder, but below `/tmp`, `/run` and
    /// `/dev/shm`, where it is made.
    #[schemars(length(min = 1, max = 4095))]
    pub at: String,
    /// Whether it cannot be written there.
    #[serde(default = "yes")]
    pub read_only: bool,
    /// The nodes whose programs see it. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10_000))]
    pub nodes: Option<Vec<NodeName>>,
}

pub(super) fn yes() -> bool {
    true
}

/// How much all programs in nodes together may take.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub struct RawLimits {
    /// Memory, with what they keep in `/tmp`, `/run` and `/dev/shm`. Default: three quarters of the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "16 MiB", "x-maximum" = "64 TiB"))]
    pub memory: Option<DataSize>,
    /// Processes and threads. Default: 4,096 and 64 for each node, but three quarters of what the machine can number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 16, max = 4_194_304))]
    pub processes: Option<u32>,
    /// How much those of one node may take, below that; by the node's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<Name, RawNodeLimits>,
}

/// How much the programs of one node may take. At least one of the two.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NodeLimits")]
pub struct RawNodeLimits {
    /// Memory. Default: no limit of the node's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1 MiB", "x-maximum" = "64 TiB"))]
    pub memory: Option<DataSize>,
    /// Processes and threads. Default: no limit of the node's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_194_304))]
    pub processes: Option<u32>,
}
