//! Time spans in whole nanoseconds.

use std::fmt;
use std::ops::{Add, Neg, Sub};
use std::str::FromStr;

use crate::error::UnitError;
use crate::quantity::{Quantity, Unit};
use crate::serial::text_form;

pub(crate) const TIMESPAN: Quantity = Quantity {
    name: "time span",
    format: "timespan",
    example: "12 ms",
    units: &[
        Unit {
            name: "ns",
            factor: 1,
        },
        Unit {
            name: "us",
            factor: 1_000,
        },
        Unit {
            name: "µs",
            factor: 1_000,
        },
        Unit {
            name: "ms",
            factor: 1_000_000,
        },
        Unit {
            name: "s",
            factor: 1_000_000_000,
        },
        Unit {
            name: "min",
            factor: 60_000_000_000,
        },
        Unit {
            name: "h",
            factor: 3_600_000_000_000,
        },
        Unit {
            name: "d",
            factor: 86_400_000_000_000,
        },
    ],
    hints: &[
        (
            "m",
            "\"m\" is metres, a unit of length; did you mean \"min\" or \"ms\"?",
        ),
        ("μs", "did you mean \"us\"?"), // Greek mu, not the micro sign
        ("usec", "did you mean \"us\"?"),
        ("msec", "did you mean \"ms\"?"),
        ("sec", "did you mean \"s\"?"),
        ("secs", "did you mean \"s\"?"),
        ("second", "did you mean \"s\"?"),
        ("seconds", "did you mean \"s\"?"),
        ("mins", "did you mean \"min\"?"),
        ("minute", "did you mean \"min\"?"),
        ("minutes", "did you mean \"min\"?"),
        ("hr", "did you mean \"h\"?"),
        ("hour", "did you mean \"h\"?"),
        ("hours", "did you mean \"h\"?"),
        ("day", "did you mean \"d\"?"),
        ("days", "did you mean \"d\"?"),
    ],
    range: "it must lie within about 292 years (64-bit nanoseconds)",
};

/// A span of time in whole nanoseconds, of either sign, up to about 292 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TimeSpan(i64);

impl TimeSpan {
    /// A span of length zero.
    pub const ZERO: Self = Self(0);

    /// Returns a span of `ns` nanoseconds.
    pub const fn from_ns(ns: i64) -> Self {
        Self(ns)
    }

    /// Returns the span in nanoseconds.
    pub const fn ns(self) -> i64 {
        self.0
    }

    /// Returns the span in seconds, rounded to the nearest f64.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns a span of `seconds`, rounded to the nearest nanosecond.
    ///
    /// # Errors
    /// [`UnitError::OutOfRange`] if not finite or beyond 64-bit nanoseconds.
    pub fn try_from_secs_f64(seconds: f64) -> Result<Self, UnitError> {
        let ns = (seconds * 1e9).round();
        // i64::MAX as f64 rounds up to 2^63, which does not fit: hence the strict upper bound.
        if ns >= i64::MIN as f64 && ns < i64::MAX as f64 {
            Ok(Self(ns as i64))
        } else {
            Err(TIMESPAN.out_of_range(&format!("{seconds} s")))
        }
    }

    /// As [`Self::try_from_secs_f64`], for values known to be in range.
    ///
    /// # Panics
    /// If `seconds` is not finite or out of range.
    pub fn from_secs_f64(seconds: f64) -> Self {
        match Self::try_from_secs_f64(seconds) {
            Ok(span) => span,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the sum, or `None` if out of range.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(ns) => Some(Self(ns)),
            None => None,
        }
    }

    /// Returns the difference, or `None` if out of range.
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(ns) => Some(Self(ns)),
            None => None,
        }
    }

    /// Returns the span multiplied by `factor`, or `None` if out of range.
    pub const fn checked_mul(self, factor: i64) -> Option<Self> {
        match self.0.checked_mul(factor) {
            Some(ns) => Some(Self(ns)),
            None => None,
        }
    }
}

/// Panics if the sum is out of range.
impl Add for TimeSpan {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.checked_add(other)
            .expect("sum of time spans is out of range")
    }
}

/// Panics if the difference is out of range.
impl Sub for TimeSpan {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.checked_sub(other)
            .expect("difference of time spans is out of range")
    }
}

/// Panics for the one span that has no opposite, `i64::MIN`.
impl Neg for TimeSpan {
    type Output = Self;
    fn neg(self) -> Self {
        Self(
            self.0
                .checked_neg()
                .expect("opposite of time span is out of range"),
        )
    }
}

impl FromStr for TimeSpan {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let ns = TIMESPAN.parse_integer(text, "ns")?;
        i64::try_from(ns)
            .map(Self)
            .map_err(|_| TIMESPAN.out_of_range(text))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0 s");
        }
        // The largest unit that holds the span as a whole number; "1.5 s" prints as "1500 ms".
        let unit = TIMESPAN
            .units
            .iter()
            .rev()
            .find(|unit| unit.name != "µs" && self.0.unsigned_abs().is_multiple_of(unit.factor))
            .unwrap_or(&TIMESPAN.units[0]);
        write!(f, "{} {}", self.0 / unit.factor as i64, unit.name)
    }
}

text_form!(TimeSpan, TIMESPAN);
