//! `routing` and `links`: how packets find their way, and how links are made real.

use constel_units::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How packets find their way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Routing")]
pub struct RawRouting {
    /// Who makes the routes.
    #[serde(default)]
    pub mode: RoutingMode,
    /// Which Internet protocols the nodes speak.
    #[serde(default = "both_families")]
    #[schemars(length(min = 1, max = 2))]
    pub families: Vec<Family>,
    /// Which nodes can be reached. Only with `mode: computed`; default `ground`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destinations: Option<Destinations>,
    /// New path first, old link later: links that go stay this long after the routes lead round them, so that
    /// nothing on its way is lost. Shorter than `step`. Only with `mode: computed`; default `0 s`: links go at
    /// once, routes follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0 s"))]
    pub drain: Option<TimeSpan>,
    /// Timers of OSPF. Only with `mode: bird`; default `{hello: 1 s, dead: 4 s}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ospf: Option<RawOspf>,
}

impl Default for RawRouting {
    fn default() -> Self {
        Self {
            mode: RoutingMode::default(),
            families: both_families(),
            destinations: None,
            drain: None,
            ospf: None,
        }
    }
}

fn both_families() -> Vec<Family> {
    vec![Family::Ipv4, Family::Ipv6]
}

/// Who makes the routes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RoutingMode {
    /// Constel: paths of least delay, written into the kernels at every step.
    #[default]
    Computed,
    /// BIRD in every node: OSPFv2 for IPv4, OSPFv3 for IPv6.
    Bird,
    /// Nobody: addresses but no routes.
    None,
}

/// An Internet protocol.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// Which nodes can be reached.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Destinations {
    /// Ground stations. Satellites forward but are no destinations: far fewer routes.
    #[default]
    Ground,
    /// Every node.
    All,
}

/// Timers of OSPF, whole seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Ospf")]
pub struct RawOspf {
    /// Time between two hello packets.
    #[serde(default = "one_second")]
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "65535 s"))]
    pub hello: TimeSpan,
    /// A neighbour not heard for so long is dead. More than `hello`.
    #[serde(default = "four_seconds")]
    #[schemars(extend("x-minimum" = "2 s", "x-maximum" = "65535 s"))]
    pub dead: TimeSpan,
}

impl Default for RawOspf {
    fn default() -> Self {
        Self {
            hello: one_second(),
            dead: four_seconds(),
        }
    }
}

fn one_second() -> TimeSpan {
    TimeSpan::from_ns(1_000_000_000)
}

fn four_seconds() -> TimeSpan {
    TimeSpan::from_ns(4_000_000_000)
}

/// How links are made real.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Links")]
pub struct RawLinks {
    /// Which driver carries the frames.
    #[serde(default)]
    pub driver: DriverChoice,
}

/// Which driver carries the frames.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DriverChoice {
    /// The best this host can do; the run's manifest says which and why.
    #[default]
    Auto,
    /// One process moves all frames. Works on every kernel.
    Relay,
}
