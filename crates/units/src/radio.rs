//! Quantities of radio links: frequency, decibels, temperature, rain.

use std::fmt;
use std::str::FromStr;

use crate::decimal::Decimal;
use crate::error::UnitError;
use crate::quantity::{Quantity, Unit};
use crate::serial::text_form;

/// Returns a unit without a factor: the types apply decimal shifts and offsets themselves.
const fn named(name: &'static str) -> Unit {
    Unit { name, factor: 1 }
}

pub(crate) const FREQUENCY: Quantity = Quantity {
    name: "frequency",
    format: "frequency",
    example: "12 GHz",
    units: &[named("Hz"), named("kHz"), named("MHz"), named("GHz")],
    hints: &[("THz", "radio ends at 3000 GHz; light is what lasers use")],
    range: "it must be a finite number of hertz, not negative",
};

pub(crate) const POWER: Quantity = Quantity {
    name: "power",
    format: "power",
    example: "36 dBW",
    units: &[named("dBW"), named("dBm")],
    hints: &[
        ("W", "powers are in decibels here: 1 W is \"0 dBW\""),
        (
            "dB",
            "\"dB\" is a ratio; a power is relative to 1 W (\"dBW\") or 1 mW (\"dBm\")",
        ),
        ("dBi", "\"dBi\" is an antenna's gain; EIRP is a power"),
    ],
    range: "it must be a finite number of decibels",
};

pub(crate) const DECIBELS: Quantity = Quantity {
    name: "decibels",
    format: "decibels",
    example: "1.5 dB",
    units: &[named("dB")],
    hints: &[],
    range: "it must be a finite number of decibels",
};

pub(crate) const FIGURE_OF_MERIT: Quantity = Quantity {
    name: "figure of merit",
    format: "g-over-t",
    example: "9 dB/K",
    units: &[named("dB/K")],
    hints: &[("dB", "a receiver's G/T is in \"dB/K\"")],
    range: "it must be a finite number of decibels per kelvin",
};

pub(crate) const TEMPERATURE: Quantity = Quantity {
    name: "temperature",
    format: "temperature",
    example: "150 K",
    units: &[named("K"), named("degC")],
    hints: &[
        ("C", "did you mean \"degC\"?"),
        ("°C", "did you mean \"degC\"?"),
    ],
    range: "it must be finite and not below absolute zero",
};

pub(crate) const RAIN_RATE: Quantity = Quantity {
    name: "rain rate",
    format: "rainrate",
    example: "25 mm/h",
    units: &[named("mm/h")],
    hints: &[("mm", "how much in an hour: \"mm/h\"")],
    range: "it must be a finite number of millimetres an hour, not negative",
};

/// Defines a real-valued quantity: its struct, its base unit, and its conversions.
macro_rules! real {
    ($(#[$doc:meta])* $name:ident, $quantity:ident, $make:ident, $get:ident, $what:literal, $unit:literal,
     least $least:expr, $convert:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
        pub struct $name(f64);

        impl $name {
            #[doc = concat!("So many ", $what, ".")]
            ///
            /// # Panics
            /// If it is not finite, or below the quantity's minimum.
            pub const fn $make(value: f64) -> Self {
                assert!(value.is_finite() && value >= $least, "out of range");
                Self(value + 0.0)
            }

            #[doc = concat!("In ", $what, ".")]
            pub const fn $get(self) -> f64 {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                let (number, unit) = $quantity.split(text)?;
                let convert: fn(Decimal, &str) -> f64 = $convert;
                let value = convert(number, unit.name);
                if value.is_finite() && value >= $least {
                    Ok(Self::$make(value))
                } else {
                    Err($quantity.out_of_range(text))
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{} ", $unit), Decimal::from_f64(self.0))
            }
        }
    };
}

/// A frequency or a bandwidth, finite, not negative.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Frequency(f64);

impl Frequency {
    /// Returns a frequency of `hz` hertz.
    ///
    /// # Panics
    /// If it is not finite, or negative.
    pub const fn from_hz(hz: f64) -> Self {
        assert!(hz.is_finite() && hz >= 0.0, "out of range");
        Self(hz + 0.0)
    }

    /// Returns the frequency in hertz.
    pub const fn hz(self) -> f64 {
        self.0
    }
}

impl FromStr for Frequency {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = FREQUENCY.split(text)?;
        let power = match unit.name {
            "GHz" => 9,
            "MHz" => 6,
            "kHz" => 3,
            _ => 0,
        };
        let hz = number.shifted(power).to_f64();
        if hz.is_finite() && hz >= 0.0 {
            Ok(Self::from_hz(hz))
        } else {
            Err(FREQUENCY.out_of_range(text))
        }
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hz = Decimal::from_f64(self.0);
        match self.0 {
            1e9.. => write!(f, "{} GHz", hz.shifted(-9)),
            1e6.. => write!(f, "{} MHz", hz.shifted(-6)),
            1e3.. => write!(f, "{} kHz", hz.shifted(-3)),
            _ => write!(f, "{hz} Hz"),
        }
    }
}

real!(
    /// A power relative to one watt, finite.
    Power, POWER, from_dbw, dbw, "decibels above one watt", "dBW", least f64::MIN,
    |number, unit| number.to_f64() - if unit == "dBm" { 30.0 } else { 0.0 }
);

real!(
    /// A gain or a loss, finite, of either sign.
    Decibels, DECIBELS, from_db, db, "decibels", "dB", least f64::MIN,
    |number, _| number.to_f64()
);

real!(
    /// A receiver's gain over its noise temperature, finite.
    FigureOfMerit, FIGURE_OF_MERIT, from_db_per_k, db_per_k, "decibels per kelvin", "dB/K", least f64::MIN,
    |number, _| number.to_f64()
);

real!(
    /// A temperature, finite, not below absolute zero.
    Temperature, TEMPERATURE, from_k, k, "kelvin", "K", least 0.0,
    |number, unit| number.to_f64() + if unit == "degC" { 273.15 } else { 0.0 }
);

real!(
    /// A rain rate, finite, not negative.
    RainRate, RAIN_RATE, from_mm_per_h, mm_per_h, "millimetres an hour", "mm/h", least 0.0,
    |number, _| number.to_f64()
);

text_form!(
    Frequency,
    FREQUENCY,
    Power,
    POWER,
    Decibels,
    DECIBELS,
    FigureOfMerit,
    FIGURE_OF_MERIT,
    Temperature,
    TEMPERATURE,
    RainRate,
    RAIN_RATE
);
