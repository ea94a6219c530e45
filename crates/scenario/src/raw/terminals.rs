//! `terminals`: radios of a station, for the satellites of several operators.

use constel_units::Angle;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Name, RawHandover, RawPolicy};

/// A radio of a station: an interface of its own (`gsl0`, `gsl1`, ... in the order of the list), with antennas that choose
/// among the satellites of its constellations. No two antennas of a station use one satellite at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "Terminal",
    extend("x-instead" = {
        "hysteresis": "write `policy: {hysteresis: VALUE}`",
        "slot": "write `policy: {scheduler: {slot: VALUE}}`"
    })
)]
pub struct RawTerminal {
    /// The constellations whose satellites it uses. A terminal has one rule for its antennas and one MTU:
    /// constellations whose `gsl.policy`, `gsl.handover` or `gsl.link.mtu` differ need a terminal each.
    #[schemars(length(min = 1, max = 1_000))]
    pub constellations: Vec<Name>,
    /// The number of satellites that it can use at the same time; default 1. A gateway's terminal has one
    /// antenna for each shell of its constellations instead.
    #[schemars(range(min = 1, max = 32))]
    pub antennas: Option<u8>,
    /// It uses satellites only while they stand at least this high above its horizon. Default:
    /// `gsl.min_elevation` of each constellation.
    #[schemars(extend("x-minimum" = "0 deg", "x-exclusive-maximum" = "90 deg"))]
    pub min_elevation: Option<Angle>,
    /// The rule by which it chooses its satellites. Default: `gsl.policy` of its constellations.
    pub policy: Option<RawPolicy>,
    /// The cost of a change of satellite. Default: `gsl.handover` of its constellations.
    pub handover: Option<RawHandover>,
}
