//! Real-valued quantities: length, speed, angle, ratio.

use std::fmt;
use std::str::FromStr;

use crate::decimal::Decimal;
use crate::error::UnitError;
use crate::quantity::{Quantity, Unit};
use crate::serial::text_form;

pub(crate) const LENGTH: Quantity = Quantity {
    name: "length",
    format: "length",
    example: "550 km",
    units: &[
        Unit {
            name: "m",
            factor: 1,
        },
        Unit {
            name: "km",
            factor: 1000,
        },
    ],
    hints: &[
        ("meter", "did you mean \"m\"?"),
        ("meters", "did you mean \"m\"?"),
        ("metre", "did you mean \"m\"?"),
        ("metres", "did you mean \"m\"?"),
        ("kilometers", "did you mean \"km\"?"),
        ("kilometres", "did you mean \"km\"?"),
        ("ms", "\"ms\" is a unit of time; did you mean \"m\"?"),
        ("mi", "only SI: one mile is 1.609344 km"),
        ("ft", "only SI: one foot is 0.3048 m"),
        ("nmi", "only SI: one nautical mile is 1.852 km"),
    ],
    range: "it must be a finite number of metres",
};

pub(crate) const SPEED: Quantity = Quantity {
    name: "speed",
    format: "speed",
    example: "0.5 m/s",
    units: &[
        Unit {
            name: "m/s",
            factor: 1,
        },
        Unit {
            name: "mm/s",
            factor: 1,
        },
    ],
    hints: &[
        ("m", "\"m\" is a length; did you mean \"m/s\"?"),
        (
            "km/s",
            "between craft that fly together speeds are in \"m/s\"",
        ),
        ("cm/s", "1 cm/s is \"10 mm/s\""),
    ],
    range: "it must be a finite number of metres per second",
};

pub(crate) const ANGLE: Quantity = Quantity {
    name: "angle",
    format: "angle",
    example: "53 deg",
    units: &[
        Unit {
            name: "deg",
            factor: 1,
        },
        Unit {
            name: "°",
            factor: 1,
        },
        Unit {
            name: "rad",
            factor: 1,
        },
    ],
    hints: &[
        ("degree", "did you mean \"deg\"?"),
        ("degrees", "did you mean \"deg\"?"),
        ("d", "\"d\" is days, a unit of time; did you mean \"deg\"?"),
        ("radian", "did you mean \"rad\"?"),
        ("radians", "did you mean \"rad\"?"),
    ],
    range: "it must be a finite number of degrees",
};

pub(crate) const RATIO: Quantity = Quantity {
    name: "ratio",
    format: "ratio",
    example: "0.1 %",
    units: &[
        Unit {
            name: "%",
            factor: 10_000,
        },
        Unit {
            name: "ppm",
            factor: 1,
        },
    ],
    hints: &[
        ("percent", "did you mean \"%\"?"),
        ("pct", "did you mean \"%\"?"),
        ("ratio", "write it in \"%\": 0.001 is \"0.1 %\""),
    ],
    range: "it must lie between 0 % and 100 %",
};

/// A length in metres, finite, of either sign.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Length(f64);

impl Length {
    /// Returns a length of `m` metres.
    ///
    /// # Panics
    /// If `m` is not finite.
    pub const fn from_m(m: f64) -> Self {
        assert!(m.is_finite(), "a length must be finite");
        Self(m + 0.0) // -0.0 becomes 0.0, so that equal lengths print alike
    }

    /// Returns the length in metres.
    pub const fn m(self) -> f64 {
        self.0
    }
}

impl FromStr for Length {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = LENGTH.split(text)?;
        let m = number
            .shifted(if unit.name == "km" { 3 } else { 0 })
            .to_f64();
        if m.is_finite() {
            Ok(Self::from_m(m))
        } else {
            Err(LENGTH.out_of_range(text))
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = Decimal::from_f64(self.0);
        if self.0.abs() >= 1000.0 {
            write!(f, "{} km", m.shifted(-3))
        } else {
            write!(f, "{m} m")
        }
    }
}

/// A speed in metres per second, finite, of either sign.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Speed(f64);

impl Speed {
    /// Returns a speed of `m_per_s` metres per second.
    ///
    /// # Panics
    /// If `m_per_s` is not finite.
    pub const fn from_m_per_s(m_per_s: f64) -> Self {
        assert!(m_per_s.is_finite(), "a speed must be finite");
        Self(m_per_s + 0.0)
    }

    /// Returns the speed in metres per second.
    pub const fn m_per_s(self) -> f64 {
        self.0
    }
}

impl FromStr for Speed {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = SPEED.split(text)?;
        let m_per_s = number
            .shifted(if unit.name == "mm/s" { -3 } else { 0 })
            .to_f64();
        if m_per_s.is_finite() {
            Ok(Self::from_m_per_s(m_per_s))
        } else {
            Err(SPEED.out_of_range(text))
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} m/s", Decimal::from_f64(self.0))
    }
}

/// A plane angle, finite, of either sign, not reduced to one turn. Stored in degrees, so that values written in degrees stay
/// exact.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Angle(f64);

impl Angle {
    /// Returns an angle of `deg` degrees.
    ///
    /// # Panics
    /// If `deg` is not finite.
    pub const fn from_deg(deg: f64) -> Self {
        assert!(deg.is_finite(), "an angle must be finite");
        Self(deg + 0.0)
    }

    /// Returns the angle in degrees.
    pub const fn deg(self) -> f64 {
        self.0
    }

    /// Returns the angle in radians.
    pub const fn rad(self) -> f64 {
        self.0.to_radians()
    }
}

impl FromStr for Angle {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = ANGLE.split(text)?;
        let value = number.to_f64();
        let deg = if unit.name == "rad" {
            value.to_degrees()
        } else {
            value
        };
        if deg.is_finite() {
            Ok(Self::from_deg(deg))
        } else {
            Err(ANGLE.out_of_range(text))
        }
    }
}

impl fmt::Display for Angle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} deg", Decimal::from_f64(self.0))
    }
}

/// A ratio between 0 and 1 inclusive: a loss probability, a share.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Ratio(f64);

impl Ratio {
    /// Returns a ratio from its plain value.
    ///
    /// # Errors
    /// [`UnitError::OutOfRange`] unless `0 <= ratio <= 1`.
    pub fn from_ratio(ratio: f64) -> Result<Self, UnitError> {
        if (0.0..=1.0).contains(&ratio) {
            Ok(Self(ratio + 0.0))
        } else {
            Err(RATIO.out_of_range(&ratio.to_string()))
        }
    }

    /// Returns the plain value, `0 <= value <= 1`.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Ratio {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = RATIO.split(text)?;
        let ratio = number
            .shifted(if unit.name == "%" { -2 } else { -6 })
            .to_f64();
        Self::from_ratio(ratio).map_err(|_| RATIO.out_of_range(text))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", Decimal::from_f64(self.0).shifted(2))
    }
}

text_form!(Length, LENGTH, Speed, SPEED, Angle, ANGLE, Ratio, RATIO);
