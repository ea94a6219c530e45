//! Ground links as radio and measurements make them, resolved.

use constel_units::{
    DataRate, Decibels, FigureOfMerit, Frequency, Power, Ratio, Temperature, TimeSpan,
};
use serde::Serialize;

use crate::raw::Polarization;

/// Radio of a constellation's ground links.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Radio {
    /// From the ground to the satellite.
    pub up: Carrier,
    /// From the satellite to the ground.
    pub down: Carrier,
    /// How bits become symbols.
    pub modcod: Modcod,
    /// Bandwidth on top of the symbol rate.
    pub roll_off: Ratio,
    /// Signal to noise kept in reserve.
    pub margin: Decibels,
    /// How waves swing.
    pub polarization: Polarization,
    /// Whether gases take their part.
    pub gases: bool,
    /// Noise temperature of stations; `None`: rain adds no noise.
    pub system_temperature: Option<Temperature>,
}

/// One direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Carrier {
    /// Carrier frequency, 1 to 55 GHz.
    pub frequency: Frequency,
    /// Power of the sender.
    pub eirp: Power,
    /// Figure of merit of the receiver.
    pub g_over_t: FigureOfMerit,
    /// Bandwidth.
    pub bandwidth: Frequency,
    /// Other losses.
    pub losses: Decibels,
}

/// How bits become symbols.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Modcod {
    /// The best of DVB-S2's.
    DvbS2,
    /// Always the one of DVB-S2 with this name, as the standard writes it.
    Fixed(&'static str),
    /// Shannon's limit.
    Shannon,
    /// This number of bits per symbol, 1 or 2, without coding.
    Uncoded(u8),
}

/// Measurements of a station's ground links.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Recording {
    /// In order of time, the first at 0; each holds until the next.
    pub points: Vec<Recorded>,
    /// After how long it begins again; `None`: never.
    pub repeat: Option<TimeSpan>,
}

/// One point of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Recorded {
    /// Lab time, or time of the repetition.
    pub at: TimeSpan,
    /// Rate from the ground up; `None`: as without a recording.
    pub up: Option<DataRate>,
    /// Rate down to the ground; `None`: as without a recording.
    pub down: Option<DataRate>,
    /// Chance that a frame is lost, on top of the link's.
    pub loss: Ratio,
    /// Delay on top of the link's.
    pub extra_delay: TimeSpan,
}
