//! `via`: a rule's path through a constellation.

use constel_units::{Angle, RainRate, TimeSpan, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::radio::RawRadio;

/// A path through the sky: two devices plugged into a box exchange frames as if from one place to the other
/// through a constellation. The delay changes smoothly with the satellites; no frames pass during outages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Via")]
pub struct RawVia {
    /// The constellation. Satellites of low orbits have lasers to their four neighbours; those of `meo` and
    /// `geo` only relay between places that see them at the same time.
    pub constellation: SkyName,
    /// Longitude of the satellite of `geo`, east positive. Required with `constellation: geo`, and only there.
    #[schemars(extend("x-minimum" = "-180 deg", "x-maximum" = "180 deg"))]
    pub orbital_slot: Option<Angle>,
    /// Place of the device at the first interface, in both directions.
    pub from: RawPlace,
    /// Place of the device at the second interface.
    pub to: RawPlace,
    /// UTC at which the path begins, RFC 3339 with `Z`. Default: when the rule takes effect.
    pub at: Option<Utc>,
    /// The least elevation at which a satellite is used. Default `25 deg`; of `meo` and `geo` `5 deg`.
    #[schemars(extend("x-minimum" = "0 deg", "x-exclusive-maximum" = "90 deg"))]
    pub min_elevation: Option<Angle>,
    /// Time in which no frames pass when an end changes its satellite.
    #[serde(default = "no_outage")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 s"))]
    pub outage: TimeSpan,
    /// Radio between the ends and their satellites, as `gsl.radio` of a scenario. The rate that it allows,
    /// computed each second, bounds the path's `rate`; if it allows none, no frames pass. Only with `rate`.
    pub radio: Option<RawRadio>,
    /// Rain at the ends. Only with `radio`.
    pub rain: Option<RawRain>,
}

/// Rain at the ends of a path; an end without a key has none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RainAtEnds")]
pub struct RawRain {
    /// At `from`.
    #[serde(default = "no_rain")]
    #[schemars(extend("x-minimum" = "0 mm/h", "x-maximum" = "500 mm/h"))]
    pub from: RainRate,
    /// At `to`.
    #[serde(default = "no_rain")]
    #[schemars(extend("x-minimum" = "0 mm/h", "x-maximum" = "500 mm/h"))]
    pub to: RainRate,
}

fn no_rain() -> RainRate {
    RainRate::from_mm_per_h(0.0)
}

fn no_outage() -> TimeSpan {
    TimeSpan::from_ns(0)
}

/// A place on the ground.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Place")]
pub struct RawPlace {
    /// WGS84 geodetic latitude, north positive.
    #[schemars(extend("x-minimum" = "-90 deg", "x-maximum" = "90 deg"))]
    pub latitude: Angle,
    /// Longitude, east positive.
    #[schemars(extend("x-minimum" = "-180 deg", "x-maximum" = "180 deg"))]
    pub longitude: Angle,
}

/// The constellation of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SkyName {
    /// As the preset of scenarios; ends change their satellite when another is nearer.
    Iridium,
    /// As the preset of scenarios; ends change their satellite when another is nearer.
    Oneweb,
    /// As the preset of scenarios; ends change their satellite when another is nearer.
    Kuiper,
    /// As the preset of scenarios; ends change their satellites at seconds 12, 27, 42 and 57 of a minute, as the scheduler does.
    #[serde(rename = "starlink-shell1")]
    StarlinkShell1,
    /// As `starlink-shell1`.
    #[serde(rename = "starlink-shell2")]
    StarlinkShell2,
    /// As `starlink-shell1`.
    #[serde(rename = "starlink-shell3")]
    StarlinkShell3,
    /// As the preset of scenarios; ends change their satellite when another is nearer.
    TelesatPolar,
    /// As the preset of scenarios; ends change their satellite when another is nearer.
    TelesatInclined,
    /// 20 satellites over the equator, 8062 km high, as in O3b's orbits.
    Meo,
    /// One satellite over the equator, 35786 km high, at `orbital_slot`.
    Geo,
}

impl SkyName {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Iridium => "iridium",
            Self::Oneweb => "oneweb",
            Self::Kuiper => "kuiper",
            Self::StarlinkShell1 => "starlink-shell1",
            Self::StarlinkShell2 => "starlink-shell2",
            Self::StarlinkShell3 => "starlink-shell3",
            Self::TelesatPolar => "telesat-polar",
            Self::TelesatInclined => "telesat-inclined",
            Self::Meo => "meo",
            Self::Geo => "geo",
        }
    }
}
