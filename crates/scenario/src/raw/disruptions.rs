//! `failures` of networks: partitions, jamming, edges that are worse for a time.

use constel_units::{Angle, Length, Ratio, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::constellations::no_time;
use super::link::no_loss;
use super::{Name, NodeName};

/// A partition of a network into groups without edges between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Partition")]
pub struct RawPartition {
    /// The network.
    pub network: Name,
    /// The groups, by names or patterns of members. Members in none of them are a group of their own.
    #[schemars(
        length(min = 1, max = 1_000),
        inner(length(min = 1, max = 10_000), inner(length(min = 1, max = 64)))
    )]
    pub groups: Vec<Vec<String>>,
}

/// Members of a network within a sphere receive badly or nothing; their own frames are received as before. The
/// centre of the sphere is a `node`, which may move, or a place that turns with the Earth: `latitude`,
/// `longitude` and `altitude`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "Jamming",
    extend("oneOf" = [{"required": ["node"]}, {"required": ["latitude"]}])
)]
pub struct RawJamming {
    /// The network.
    pub network: Name,
    /// The node at the centre, of any kind.
    pub node: Option<NodeName>,
    /// Latitude of the centre.
    #[schemars(extend("x-minimum" = "-90 deg", "x-maximum" = "90 deg"))]
    pub latitude: Option<Angle>,
    /// Longitude of the centre.
    #[schemars(extend("x-minimum" = "-180 deg", "x-maximum" = "180 deg"))]
    pub longitude: Option<Angle>,
    /// Height of the centre above the WGS84 ellipsoid.
    #[schemars(extend("x-minimum" = "-1 km", "x-maximum" = "1000000 km"))]
    pub altitude: Option<Length>,
    /// Radius of the sphere.
    #[schemars(extend("x-exclusive-minimum" = "0 km", "x-maximum" = "1000000 km"))]
    pub radius: Length,
    /// Chance that a frame is lost there, besides the loss of the network itself. With `100 %` there is no edge
    /// to members there, and computed routes avoid them.
    #[serde(default = "all_loss")]
    pub loss: Ratio,
}

/// Edges of a network are worse for a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Disturbance")]
pub struct RawDisturbance {
    /// The network.
    pub network: Name,
    /// Edges from these members, by names or patterns.
    #[serde(default = "everyone")]
    #[schemars(length(min = 1, max = 10_000), inner(length(min = 1, max = 64)))]
    pub from: Vec<String>,
    /// Edges to these members.
    #[serde(default = "everyone")]
    #[schemars(length(min = 1, max = 10_000), inner(length(min = 1, max = 64)))]
    pub to: Vec<String>,
    /// Chance that a frame is lost, besides the loss of the network itself; with `100 %` there is no edge.
    #[serde(default = "no_loss")]
    pub loss: Ratio,
    /// Addition to the network's delay. Computed routes have the least delay unless `routing.metric` is
    /// another: they then avoid such edges if another path is shorter. With `metric: hops` they stay.
    #[serde(default = "no_time")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub extra_delay: TimeSpan,
}

fn all_loss() -> Ratio {
    Ratio::from_ratio(1.0).expect("one is a ratio")
}

fn everyone() -> Vec<String> {
    vec!["*".to_owned()]
}
