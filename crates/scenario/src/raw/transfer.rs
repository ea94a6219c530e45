//! Bulk transfers in `traffic`: LEOTP, TCP and PCC Vivace, all measured by the same probe.

use constel_units::DataSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Destination, Family, NodeName};

/// A download over LEOTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Leotp")]
pub struct RawLeotp {
    /// The Producer, which sends.
    pub from: NodeName,
    /// The Consumer, which receives: a node, or its end of a disjoint path.
    pub to: Destination,
    /// Size of the download. Default: as much as the time allows.
    #[schemars(extend("x-minimum" = "1 B", "x-maximum" = "1 TB"))]
    pub size: Option<DataSize>,
    /// The variant of LEOTP at both ends.
    #[serde(default)]
    pub variant: LeotpVariant,
    /// Parameters of both ends that differ from the variant's, as `name=value`; `leotp get --set help` lists
    /// them.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub set: Vec<String>,
    /// Internet protocol. Default: the first of `routing.families`.
    pub family: Option<Family>,
    /// Port of the Producer. Default: the first free one of the node from 5047 on.
    #[schemars(range(min = 5047, max = 15_047))]
    pub port: Option<u16>,
    /// Whether each record's times are kept in the results folder, in `flows/<name>.records.csv`.
    #[serde(default)]
    pub records: bool,
}

/// Which LEOTP.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LeotpVariant {
    /// The paper's protocol.
    #[default]
    Faithful,
    /// With five constants of the authors' published program, which has other timers and another slow start besides.
    AuthorsConstants,
    /// An extended variant: losses are repaired where they happen, and fast hops refill sooner.
    Beyond,
}

impl LeotpVariant {
    /// The variant's name in LEOTP's tools.
    pub fn as_str(self) -> &'static str {
        match self {
            LeotpVariant::Faithful => "faithful",
            LeotpVariant::AuthorsConstants => "authors-constants",
            LeotpVariant::Beyond => "beyond",
        }
    }
}

/// A download over UDP with PCC Vivace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Vivace")]
pub struct RawVivace {
    /// The server, which sends.
    pub from: NodeName,
    /// The client, which receives: a node, or its end of a disjoint path.
    pub to: Destination,
    /// Size of the download. Default: as much as the time allows.
    #[schemars(extend("x-minimum" = "1 B", "x-maximum" = "1 TB"))]
    pub size: Option<DataSize>,
    /// Internet protocol. Default: the first of `routing.families`.
    pub family: Option<Family>,
    /// UDP port of the server. Default: the first free one of the node from 6001 on.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
    /// Whether each record's times are kept in the results folder, in `flows/<name>.records.csv`.
    #[serde(default)]
    pub records: bool,
}

/// A download over TCP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tcp")]
pub struct RawTcp {
    /// The server, which sends.
    pub from: NodeName,
    /// The client, which receives: a node, or its end of a disjoint path.
    pub to: Destination,
    /// Size of the download. Default: as much as the time allows.
    #[schemars(extend("x-minimum" = "1 B", "x-maximum" = "1 TB"))]
    pub size: Option<DataSize>,
    /// Congestion control of the sender: one of the kernel's, or `hybla`, `westwood` or `vegas`, which Constel
    /// supplies.
    #[serde(default = "cubic")]
    #[schemars(length(min = 1, max = 15))]
    pub congestion: String,
    /// Internet protocol. Default: the first of `routing.families`.
    pub family: Option<Family>,
    /// Port of the server. Default: the first free one of the node from 5501 on.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
    /// Whether each record's times are kept in the results folder, in `flows/<name>.records.csv`.
    #[serde(default)]
    pub records: bool,
}

pub(super) fn cubic() -> String {
    "cubic".to_owned()
}
