//! Quantities by the name of their JSON-schema `format`, for validators that are driven by a
//! schema and do not know the Rust types.

use crate::error::UnitError;
use crate::quantity::Quantity;
use crate::{
    Angle, DataRate, DataSize, Decibels, FigureOfMerit, Frequency, Length, Power, RainRate, Ratio,
    Speed, Temperature, TimeSpan, Utc, data, radio, scalar, time, utc,
};

pub(crate) const QUANTITIES: &[&Quantity] = &[
    &scalar::LENGTH,
    &scalar::SPEED,
    &scalar::ANGLE,
    &time::TIMESPAN,
    &data::DATARATE,
    &data::DATASIZE,
    &scalar::RATIO,
    &radio::FREQUENCY,
    &radio::POWER,
    &radio::DECIBELS,
    &radio::FIGURE_OF_MERIT,
    &radio::TEMPERATURE,
    &radio::RAIN_RATE,
    &utc::UTC,
];

/// Checks that `text` is a quantity of `format`.
///
/// # Errors
/// The error of the quantity's own parser, or [`UnitError::UnknownFormat`].
pub fn parse_format(format: &str, text: &str) -> Result<(), UnitError> {
    match format {
        "length" => text.parse::<Length>().map(drop),
        "speed" => text.parse::<Speed>().map(drop),
        "angle" => text.parse::<Angle>().map(drop),
        "timespan" => text.parse::<TimeSpan>().map(drop),
        "datarate" => text.parse::<DataRate>().map(drop),
        "datasize" => text.parse::<DataSize>().map(drop),
        "ratio" => text.parse::<Ratio>().map(drop),
        "frequency" => text.parse::<Frequency>().map(drop),
        "power" => text.parse::<Power>().map(drop),
        "decibels" => text.parse::<Decibels>().map(drop),
        "g-over-t" => text.parse::<FigureOfMerit>().map(drop),
        "temperature" => text.parse::<Temperature>().map(drop),
        "rainrate" => text.parse::<RainRate>().map(drop),
        "utc" => text.parse::<Utc>().map(drop),
        _ => Err(UnitError::UnknownFormat {
            format: format.to_owned(),
        }),
    }
}

/// Returns a valid example of `format`, for messages; empty for a format that is not in [`crate::FORMATS`].
pub fn format_example(format: &str) -> &'static str {
    QUANTITIES
        .iter()
        .find(|quantity| quantity.format == format)
        .map_or("", |found| found.example)
}
