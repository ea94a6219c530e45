//! A node's links in the format of OpenSN, so that images made for it find the files that they expect.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The folder in the node's own, which containers see at [`OPENSN_FOLDER`] as well.
pub const OPENSN: &str = "opensn";

/// The folder where OpenSN's images expect the files.
pub const OPENSN_FOLDER: &str = "/share/topo";

/// `opensn/NODE` and `opensn/NODE.json`: the present links, by the names of their interfaces here. Written in place, as
/// OpenSN does, because programs made for it watch the file itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenSn {
    /// The node's name.
    pub instance_id: String,
    /// By interface.
    pub link_infos: BTreeMap<String, OpenSnLink>,
    /// By interface.
    pub end_infos: BTreeMap<String, OpenSnEnd>,
}

/// A link's near end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenSnLink {
    /// Address and prefix length. Empty if it has none.
    #[serde(rename = "IPV4")]
    pub ipv4: String,
}

/// A link's far end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenSnEnd {
    /// The far node's name.
    pub instance_id: String,
    /// `Satellite`, `GroundStation` or `Host`.
    #[serde(rename = "type")]
    pub kind: String,
    /// OSPF area of the link by the scenario's `areas`. 0 without `areas`.
    pub area: u16,
}

/// OpenSN's word for a class of nodes.
pub(crate) fn kind(class: &str) -> &'static str {
    match class {
        "satellite" | "spacecraft" => "Satellite",
        "ground" => "GroundStation",
        _ => "Host",
    }
}
