//! Instants in UTC, whole nanoseconds since the Unix epoch, written as RFC 3339 with `Z`.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use crate::error::UnitError;
use crate::quantity::Quantity;
use crate::serial::text_form;
use crate::time::TimeSpan;

pub(crate) const UTC: Quantity = Quantity {
    name: "instant",
    format: "utc",
    example: "2022-09-14T12:00:00Z",
    units: &[],
    hints: &[],
    range: "it must lie between 1677-09-21T00:12:43.145224192Z and \
            2262-04-11T23:47:16.854775807Z (64-bit nanoseconds)",
};

const NS_PER_S: i64 = 1_000_000_000;
const S_PER_DAY: i64 = 86_400;

/// An instant in UTC: whole nanoseconds since 1970-01-01T00:00:00Z, leap seconds not counted
/// (as in POSIX time).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Utc(i64);

impl Utc {
    /// Returns the instant `ns` nanoseconds after the Unix epoch.
    pub const fn from_unix_ns(ns: i64) -> Self {
        Self(ns)
    }

    /// Returns the nanoseconds since the Unix epoch.
    pub const fn unix_ns(self) -> i64 {
        self.0
    }

    /// Returns the instant `span` later, or `None` if out of range.
    pub const fn checked_add(self, span: TimeSpan) -> Option<Self> {
        match self.0.checked_add(span.ns()) {
            Some(ns) => Some(Self(ns)),
            None => None,
        }
    }

    /// Returns the time since `earlier`, or `None` if out of range.
    pub const fn checked_since(self, earlier: Self) -> Option<TimeSpan> {
        match self.0.checked_sub(earlier.0) {
            Some(ns) => Some(TimeSpan::from_ns(ns)),
            None => None,
        }
    }
}

/// Panics if the result is out of range.
impl Add<TimeSpan> for Utc {
    type Output = Self;
    fn add(self, span: TimeSpan) -> Self {
        self.checked_add(span).expect("instant is out of range")
    }
}

/// Panics if the result is out of range.
impl Sub<TimeSpan> for Utc {
    type Output = Self;
    fn sub(self, span: TimeSpan) -> Self {
        Self(
            self.0
                .checked_sub(span.ns())
                .expect("instant is out of range"),
        )
    }
}

/// Panics if the result is out of range.
impl Sub for Utc {
    type Output = TimeSpan;
    fn sub(self, earlier: Self) -> TimeSpan {
        self.checked_since(earlier)
            .expect("time between instants is out of range")
    }
}

/// Returns the days since 1970-01-01 of a proleptic Gregorian date. Years are counted from March, so that the leap day is the
/// last day of a year; 146 097 days make 400 years.
pub(crate) fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_date`]: (year, month, day).
fn date_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

pub(crate) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the instant `seconds` and `fraction_ns` after the begin of a day, which is `days` after 1970-01-01; `None` if out of
/// range.
pub(crate) fn from_parts(days: i64, seconds: i64, fraction_ns: i64) -> Option<Utc> {
    let seconds = i128::from(days) * i128::from(S_PER_DAY) + i128::from(seconds);
    let ns = seconds * i128::from(NS_PER_S) + i128::from(fraction_ns);
    i64::try_from(ns).ok().map(Utc)
}

impl FromStr for Utc {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bad = |reason: &str| UnitError::BadInstant {
            text: text.to_owned(),
            reason: reason.to_owned(),
            example: UTC.example,
        };
        let Some(body) = text.strip_suffix('Z') else {
            return Err(bad(
                "it must end in \"Z\" (UTC); other offsets are not taken",
            ));
        };
        let bytes = body.as_bytes();
        if bytes.len() < 19 || !body.is_ascii() {
            return Err(bad("expected YYYY-MM-DDThh:mm:ss"));
        }
        for (at, separator) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')] {
            if bytes[at] != separator {
                return Err(bad("expected YYYY-MM-DDThh:mm:ss"));
            }
        }
        let digits = |from: usize, to: usize| -> Result<i64, UnitError> {
            bytes[from..to]
                .iter()
                .try_fold(0, |value, byte| match byte {
                    b'0'..=b'9' => Ok(value * 10 + i64::from(byte - b'0')),
                    _ => Err(bad("expected digits in YYYY-MM-DDThh:mm:ss")),
                })
        };
        let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
        let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
        if !(1..=12).contains(&month) {
            return Err(bad("month must be 01 to 12"));
        }
        if !(1..=days_in_month(year, month)).contains(&day) {
            return Err(bad("that month has no such day"));
        }
        if hour > 23 || minute > 59 {
            return Err(bad("time of day must be 00:00:00 to 23:59:59"));
        }
        if second > 59 {
            return Err(bad(
                "second must be 00 to 59 (leap seconds are not represented)",
            ));
        }
        let fraction_ns = match bytes.get(19) {
            None => 0,
            Some(b'.') if bytes.len() > 20 => {
                let width = bytes.len() - 20;
                let significant = 20
                    + bytes[20..]
                        .iter()
                        .rposition(|byte| *byte != b'0')
                        .map_or(0, |at| at + 1);
                if bytes[20..].iter().any(|byte| !byte.is_ascii_digit()) {
                    return Err(bad("expected digits after the decimal point"));
                }
                if significant - 20 > 9 {
                    return Err(UnitError::LosesPrecision {
                        quantity: UTC.name,
                        text: text.to_owned(),
                        smallest: "ns",
                    });
                }
                let kept = width.min(9);
                digits(20, 20 + kept)? * 10_i64.pow(9 - kept as u32)
            }
            Some(_) => return Err(bad("expected \"Z\" or a fraction after the seconds")),
        };
        let seconds = hour * 3600 + minute * 60 + second;
        from_parts(days_from_date(year, month, day), seconds, fraction_ns)
            .ok_or_else(|| UTC.out_of_range(text))
    }
}

/// A time before 1677 or after 2262 becomes the first or last instant that there is.
impl From<SystemTime> for Utc {
    fn from(time: SystemTime) -> Self {
        let ns = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        Self(match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => ns(after),
            Err(before) => ns(before.duration()).saturating_neg(),
        })
    }
}

/// With a precision (`{:.6}`) the seconds have this many decimal places, at most nine, further ones cut off; else as many as
/// the instant needs.
impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(NS_PER_S);
        let fraction_ns = self.0.rem_euclid(NS_PER_S);
        let (year, month, day) = date_from_days(seconds.div_euclid(S_PER_DAY));
        let of_day = seconds.rem_euclid(S_PER_DAY);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )?;
        let digits = format!("{fraction_ns:09}");
        let digits = match f.precision() {
            Some(places) => &digits[..places.min(9)],
            None => digits.trim_end_matches('0'),
        };
        if !digits.is_empty() {
            write!(f, ".{digits}")?;
        }
        f.write_str("Z")
    }
}

text_form!(Utc, UTC);
