//! `gsl.radio`: ground links by link budget.

use constel_topology::radio::Budget;
use constel_units::{Decibels, FigureOfMerit, Frequency, Power, Ratio, Temperature};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Radio of ground links. At each step, the carrier-to-noise ratio of each link follows from its range,
/// elevation, gases (ITU-R P.676-12) and rain (P.618-13, P.838-3, `weather`). The link's rate is that of the
/// modulation and coding that this ratio allows, up to `link.rate`. If it allows none, there is no link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Radio")]
pub struct RawRadio {
    /// From the ground to the satellite.
    pub up: RawCarrier,
    /// From the satellite to the ground.
    pub down: RawCarrier,
    /// Modulation and coding.
    #[serde(default)]
    pub modcod: RawModcod,
    /// With `modcod: dvb-s2`: always this MODCOD instead of the best, such as `8PSK 3/4`.
    #[schemars(length(min = 1))]
    pub fixed: Option<String>,
    /// Bandwidth on top of the symbol rate.
    #[serde(default = "twenty_percent")]
    pub roll_off: Ratio,
    /// Signal to noise kept in reserve.
    #[serde(default = "no_decibels")]
    #[schemars(extend("x-minimum" = "0 dB", "x-maximum" = "100 dB"))]
    pub margin: Decibels,
    /// How waves swing.
    #[serde(default)]
    pub polarization: Polarization,
    /// Whether oxygen and water vapour attenuate the signal (reference atmosphere of ITU-R P.835-6).
    #[serde(default = "yes")]
    pub gases: bool,
    /// Noise temperature of the stations' receivers, for which `down.g_over_t` holds in clear sky: rain then
    /// adds noise of its own. Without it the noise of rain is left out.
    #[schemars(extend("x-minimum" = "1 K", "x-maximum" = "100000 K"))]
    pub system_temperature: Option<Temperature>,
}

fn yes() -> bool {
    true
}

pub(super) fn twenty_percent() -> Ratio {
    Ratio::from_ratio(0.2).expect("a fifth is a ratio")
}

pub(super) fn no_decibels() -> Decibels {
    Decibels::from_db(0.0)
}

/// One direction of a radio link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Carrier")]
pub struct RawCarrier {
    /// Carrier frequency.
    #[schemars(extend("x-minimum" = "1 GHz", "x-maximum" = "55 GHz"))]
    pub frequency: Frequency,
    /// Equivalent isotropically radiated power of the sender.
    #[schemars(extend("x-minimum" = "-100 dBW", "x-maximum" = "200 dBW"))]
    pub eirp: Power,
    /// Figure of merit of the receiver.
    #[schemars(extend("x-minimum" = "-100 dB/K", "x-maximum" = "100 dB/K"))]
    pub g_over_t: FigureOfMerit,
    /// Bandwidth, all of it for one link.
    #[schemars(extend("x-minimum" = "1 kHz", "x-maximum" = "10 GHz"))]
    pub bandwidth: Frequency,
    /// Pointing, polarisation, implementation.
    #[serde(default = "no_decibels")]
    #[schemars(extend("x-minimum" = "0 dB", "x-maximum" = "100 dB"))]
    pub losses: Decibels,
}

impl RawCarrier {
    pub(crate) fn budget(&self) -> Budget {
        Budget {
            eirp_dbw: self.eirp.dbw(),
            g_over_t_db_per_k: self.g_over_t.db_per_k(),
            frequency_hz: self.frequency.hz(),
            bandwidth_hz: self.bandwidth.hz(),
            other_losses_db: self.losses.db(),
        }
    }
}

/// Modulation and coding.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RawModcod {
    /// The best MODCOD of DVB-S2 at the moment (ETSI EN 302 307-1, table 13).
    #[default]
    DvbS2,
    /// Shannon's limit, which no modem reaches.
    Shannon,
    /// BPSK without coding: there is no threshold, but frames are lost to bit errors.
    UncodedBpsk,
    /// QPSK without coding.
    UncodedQpsk,
}

/// Polarization; rain attenuates horizontal waves more.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Polarization {
    /// In circles.
    #[default]
    Circular,
    /// Along the horizon.
    Horizontal,
    /// Across it.
    Vertical,
}
