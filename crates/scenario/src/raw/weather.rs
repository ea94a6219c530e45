//! `weather` and `recordings`: conditions at stations over time.

use constel_units::{RainRate, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Name;

/// Rain at stations, for constellations with `gsl.radio` or with `gsl.access` that has the part `sky`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Weather")]
pub struct RawWeather {
    /// The stations. A station has one weather.
    #[schemars(length(min = 1, max = 100_000))]
    pub stations: Vec<Name>,
    /// The rain.
    #[serde(flatten)]
    pub rain: RawRainfall,
}

/// Rain over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawRainfall {
    /// A constant rain rate.
    Rain(#[schemars(extend("x-minimum" = "0 mm/h", "x-maximum" = "500 mm/h"))] RainRate),
    /// A CSV file of rain with the columns `t_s` (lab time) and `rain_mm_per_h`; each row holds until the next,
    /// and there is no rain before the first. Relative to the scenario file.
    File(#[schemars(length(min = 1))] String),
}

/// Measurements of a link, applied to the ground links of stations at each step: rates replace theirs, loss and
/// delay are added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Recording")]
pub struct RawRecording {
    /// The stations whose ground links are changed. A station has one recording.
    #[schemars(length(min = 1, max = 100_000))]
    pub stations: Vec<Name>,
    /// A CSV file with the column `t_s` (lab time, the first row at 0) and one or more of `down_bit_per_s`,
    /// `up_bit_per_s`, `loss_ratio` and `extra_delay_s`; each row holds until the next. Relative to the scenario
    /// file.
    #[schemars(length(min = 1))]
    pub file: String,
    /// The period after which it begins again, more than the last row's time. Without it, the last row holds
    /// for good.
    #[schemars(extend("x-exclusive-minimum" = "0 s", "x-maximum" = "366 d"))]
    pub repeat: Option<TimeSpan>,
}
