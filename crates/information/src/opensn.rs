//! A node's links as OpenSN tells its containers of them, so that images made for it find what they look for.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The folder in the node's own, which containers see at [`OPENSN_FOLDER`] as well.
pub const OPENSN: &str = "opensn";

/// Where OpenSN's images look for it.
pub const OPENSN_FOLDER: &str = "/share/topo";

/// `opensn/NODE` and `opensn/NODE.json`: the links that stand, by the names of their interfaces here. Written in place, as
/// OpenSN writes it, since programs made for it watch the file itself.
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
    /// Its address and prefix length; empty where it has none.
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
    /// OSPF's area of the link, as the scenario's `areas` say; 0 where there are none.
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
