//! `addresses`: the blocks that addresses are taken from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The blocks that addresses are taken from. No two overlap, but `links` and `cables` may be the same.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Addresses")]
pub struct RawAddresses {
    /// Addresses of nodes, on their loopback interfaces. Default `{ipv4: 10.0.0.0/10, ipv6: "fdc0:57e1::/64"}`.
    /// Each /24 of the IPv4 block gives 254 addresses.
    #[serde(default)]
    pub loopback: RawBlocks,
    /// Addresses of the ends of disjoint paths (`routing.disjoint`). Default `{ipv4: 10.80.0.0/12, ipv6:
    /// "fdc0:57e1:0:1::/64"}`. Each /24 of the IPv4 block suffices for 15 pairs.
    #[serde(default)]
    pub paths: RawBlocks,
    /// Addresses of links between satellites, two for each link: an IPv4 block, or `none`. Default
    /// `10.128.0.0/9`, where cables follow the links between satellites.
    pub links: Option<String>,
    /// Addresses of the radios between satellites and stations, all in one subnet: an IPv4 block, or `none`.
    /// Default `10.64.0.0/12`.
    pub ground: Option<String>,
    /// Addresses of cables, two for each: an IPv4 block, or `none`. Default `10.128.0.0/9`.
    pub cables: Option<String>,
    /// Addresses of ports in networks: an IPv4 block, or `none`. Default `10.96.0.0/12`. A single network has
    /// the whole block as its subnet. Several networks have a subnet each: equal parts of the block, in the
    /// order of the file. A network with more members than such a part holds has the smallest subnet that holds
    /// them; larger subnets come first then.
    pub networks: Option<String>,
    /// Addresses of management ports (`networks.*.management`): an IPv4 block, /8 to /24. Default
    /// `10.112.0.0/12`. Each lab uses a subnet of it, which follows from the lab's name.
    pub management: Option<String>,
}

/// A block of each family.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Blocks")]
pub struct RawBlocks {
    /// First address and prefix length, such as `10.0.0.0/10`; /8 to /24.
    pub ipv4: Option<String>,
    /// First address and prefix length, such as `fdc0:57e1::/64`; /16 to /112.
    pub ipv6: Option<String>,
}
