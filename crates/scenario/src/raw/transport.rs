//! `transport`: protocol functions of nodes on the path, for the flows that pass them.

use constel_units::Ratio;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::transfer::cubic;
use super::{LeotpVariant, Name, NodeName};

/// Protocol functions of nodes on the path, for the flows that pass them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Transport")]
pub struct RawTransport {
    /// LEOTP Midnodes and TCP gateways.
    pub leotp: Option<RawMidnodes>,
    /// Proxies that split TCP connections.
    pub split_tcp: Option<RawSplitTcp>,
    /// Congestion controls of TCP that commands in the nodes may use, besides those of flows. `hybla`,
    /// `westwood` and `vegas` are available even if the kernel does not have them.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub congestion: Vec<String>,
}

/// LEOTP Midnodes: caches, repairs and congestion control of each hop. Every `leotp` flow that passes such a
/// node uses it, except at the flow's own ends. Also two gateways, which carry TCP over LEOTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Midnodes")]
pub struct RawMidnodes {
    /// Share of the satellites that are Midnodes, rounded to whole satellites. The seed selects them; the
    /// satellites of a smaller share are among those of a larger one.
    #[serde(default = "nothing")]
    #[schemars(extend("x-minimum" = "0 %", "x-maximum" = "100 %"))]
    pub satellites: Ratio,
    /// These satellites and stations, too.
    #[serde(default)]
    #[schemars(length(max = 100_000))]
    pub nodes: Vec<NodeName>,
    /// Two stations or hosts that carry TCP connections over LEOTP between the hosts behind them; these hosts
    /// need no changes. The hosts behind a gateway are those that reach all other nodes over it alone, by
    /// cables. Midnodes on the path take part. Default: none.
    #[schemars(length(min = 2, max = 2))]
    pub gateways: Option<Vec<Name>>,
    /// The variant of LEOTP that they use.
    #[serde(default)]
    pub variant: LeotpVariant,
    /// Parameters that differ from the variant's, as `name=value`; `leotp mid --set help` lists them.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub set: Vec<String>,
}

/// Split TCP: each such node terminates the TCP connections to servers of `traffic` that pass it, and opens
/// others towards the servers in the clients' names. A connection breaks when its path leaves one of these
/// nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SplitTcp")]
pub struct RawSplitTcp {
    /// Share of the satellites that are proxies, rounded to whole satellites. The seed selects them; the
    /// satellites of a smaller share are among those of a larger one.
    #[serde(default = "nothing")]
    #[schemars(extend("x-minimum" = "0 %", "x-maximum" = "100 %"))]
    pub satellites: Ratio,
    /// These satellites and stations, too.
    #[serde(default)]
    #[schemars(length(max = 100_000))]
    pub nodes: Vec<NodeName>,
    /// Congestion control of the proxies: one of the kernel's, or `hybla`, `westwood` or `vegas`.
    #[serde(default = "cubic")]
    #[schemars(length(min = 1, max = 15))]
    pub congestion: String,
}

fn nothing() -> Ratio {
    Ratio::from_ratio(0.0).expect("zero is a ratio")
}
