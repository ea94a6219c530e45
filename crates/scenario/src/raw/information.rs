//! `information`: nodes that receive information about themselves and their surroundings, and its extent.

use constel_units::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Nodes whose programs find in `/run/constel` the node's own name, its links, and changes of them. Without
/// `classes` and `nodes`: all nodes. If several entries match a node, the later one adds to the earlier, and
/// replaces it where they differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Information")]
pub struct RawInformation {
    /// Nodes of these kinds. Default: of all kinds.
    #[schemars(length(min = 1, max = 4))]
    pub classes: Option<Vec<NodeKind>>,
    /// Nodes of these names; `*` stands for any characters and `?` for one, as in `iridium-p00-*`. Default: of all names.
    #[schemars(length(min = 1, max = 10_000), inner(length(min = 1, max = 64)))]
    pub nodes: Option<Vec<String>>,
    /// The part of the topology that the nodes receive. Default: `neighbourhood`.
    pub topology: Option<TopologyScope>,
    /// How far the nodes look ahead: `orbit.json` has their coming positions, and `contacts.json` their coming links; those of all
    /// nodes with `topology: all`. Failures are not foreseen. Default: the nodes have neither file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "1 d"))]
    pub ahead: Option<TimeSpan>,
    /// Whether the nodes also receive their links in the form of OpenSN, as `opensn/NODE` and
    /// `opensn/NODE.json` in that folder; nodes made of images see it as `/share/topo` too. Default: `false`.
    pub opensn: Option<bool>,
    /// Data of the user's own, as files in `/run/constel/user`. `constel info put` changes them while the lab runs.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub user: Vec<RawUserFile>,
}

/// A kind of node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// Satellites.
    Satellite,
    /// Ground stations.
    Ground,
    /// Hosts.
    Host,
    /// Craft of formations.
    Spacecraft,
}

impl NodeKind {
    /// The word for the kind, in files and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Satellite => "satellite",
            Self::Ground => "ground",
            Self::Host => "host",
            Self::Spacecraft => "spacecraft",
        }
    }
}

/// The part of the topology that a node receives.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyScope {
    /// The node's own links.
    #[default]
    Neighbourhood,
    /// All links of the lab.
    All,
}

/// A file of the user's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "UserFile",
    extend("oneOf" = [{"required": ["text"]}, {"required": ["file"]}])
)]
pub struct RawUserFile {
    /// The file's name: letters, digits, `.`, `_` and `-`, not beginning with `.`.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// The file's content.
    #[schemars(length(max = 1_048_576))]
    pub text: Option<String>,
    /// A file of the host with the content: text, at most 1 MiB. Relative to the scenario's folder, or
    /// absolute.
    #[schemars(length(min = 1, max = 4095))]
    pub file: Option<String>,
}
