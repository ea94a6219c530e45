//! Time scales of foreign files, and the leap seconds between them and UTC.
//!
//! | scale | difference from TAI | exact to |
//! |---|---|---|
//! | UTC | leap seconds, 37 s since 2017 | 1 ns |
//! | TT (TDT) | +32.184 s | 1 ns |
//! | GPS (also Galileo's, QZSS's and NavIC's) | -19 s | 1 ns |
//! | BDT (BeiDou) | -33 s | 1 ns |
//! | TDB | TT within 1.7 ms, by its largest term | 50 us, which moves a satellite in low orbit by 0.4 m |
//!
//! UT1 is not included: it needs the measured rotation of the Earth.

use constel_units::Utc;

use crate::time::julian_date;

const NS_PER_S: i64 = 1_000_000_000;
const S_PER_DAY: i64 = 86_400;
/// TT - TAI.
const TT_AHEAD_OF_TAI_NS: i64 = 32_184_000_000;

/// TAI - UTC in seconds from the day on (days since 1970-01-01), as announced in IERS Bulletin C. It has not
/// changed since 2017, and no change is announced. Before 1972 the first row is used.
const TAI_MINUS_UTC: [(i64, i64); 28] = [
    (730, 10),    // 1972-01-01
    (912, 11),    // 1972-07-01
    (1_096, 12),  // 1973-01-01
    (1_461, 13),  // 1974-01-01
    (1_826, 14),  // 1975-01-01
    (2_191, 15),  // 1976-01-01
    (2_557, 16),  // 1977-01-01
    (2_922, 17),  // 1978-01-01
    (3_287, 18),  // 1979-01-01
    (3_652, 19),  // 1980-01-01
    (4_199, 20),  // 1981-07-01
    (4_564, 21),  // 1982-07-01
    (4_929, 22),  // 1983-07-01
    (5_660, 23),  // 1985-07-01
    (6_574, 24),  // 1988-01-01
    (7_305, 25),  // 1990-01-01
    (7_670, 26),  // 1991-01-01
    (8_217, 27),  // 1992-07-01
    (8_582, 28),  // 1993-07-01
    (8_947, 29),  // 1994-07-01
    (9_496, 30),  // 1996-01-01
    (10_043, 31), // 1997-07-01
    (10_592, 32), // 1999-01-01
    (13_149, 33), // 2006-01-01
    (14_245, 34), // 2009-01-01
    (15_522, 35), // 2012-07-01
    (16_617, 36), // 2015-07-01
    (17_167, 37), // 2017-01-01
];

/// The time scale of a clock that wrote a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeScale {
    /// Coordinated Universal Time.
    Utc,
    /// International Atomic Time.
    Tai,
    /// Terrestrial Time.
    Tt,
    /// GPS time.
    Gps,
    /// BeiDou time.
    Bdt,
    /// Barycentric Dynamical Time.
    Tdb,
}

/// TAI - UTC at `utc`, whole seconds.
pub fn tai_minus_utc_s(utc: Utc) -> i64 {
    let day = utc.unix_ns().div_euclid(NS_PER_S * S_PER_DAY);
    let rows = TAI_MINUS_UTC.partition_point(|(from, _)| *from <= day);
    TAI_MINUS_UTC[rows.saturating_sub(1)].1
}

/// The reading of a clock in TT at `utc`.
pub(crate) fn tt(utc: Utc) -> Utc {
    shifted(utc, tai_minus_utc_s(utc) * NS_PER_S + TT_AHEAD_OF_TAI_NS)
}

/// Beyond the range of 64 bits, its limit.
fn shifted(at: Utc, ns: i64) -> Utc {
    Utc::from_unix_ns(at.unix_ns().saturating_add(ns))
}

impl TimeScale {
    /// The scale that a file calls `name`, whatever the case of its letters.
    ///
    /// # Errors
    /// A text that names the scales that are read.
    pub fn named(name: &str) -> Result<Self, String> {
        Ok(match name.trim().to_ascii_uppercase().as_str() {
            "UTC" | "GLO" | "UTCG" => Self::Utc,
            "TAI" => Self::Tai,
            "TT" | "TDT" => Self::Tt,
            "GPS" | "GAL" | "GST" | "QZS" | "IRN" => Self::Gps,
            "BDT" => Self::Bdt,
            "TDB" => Self::Tdb,
            _ => {
                let name: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
                return Err(format!(
                    "time system {name} is not supported, only UTC, TAI, TT, GPS, BDT and TDB"
                ));
            }
        })
    }

    /// Returns the instant at which a clock of this scale shows the reading that `reading` shows in UTC. A
    /// reading within a leap second becomes the second after it, as in POSIX time.
    pub fn to_utc(self, reading: Utc) -> Utc {
        let behind_tai_ns = match self {
            Self::Utc => return reading,
            Self::Tai => 0,
            Self::Tt => -TT_AHEAD_OF_TAI_NS,
            Self::Gps => 19 * NS_PER_S,
            Self::Bdt => 33 * NS_PER_S,
            Self::Tdb => -TT_AHEAD_OF_TAI_NS - tdb_minus_tt_ns(reading),
        };
        let tai = shifted(reading, behind_tai_ns);
        let by = |seconds: i64| shifted(tai, -seconds * NS_PER_S);
        let row = TAI_MINUS_UTC
            .iter()
            .rev()
            .find(|(day, seconds)| by(*seconds).unix_ns() >= day * S_PER_DAY * NS_PER_S);
        by(row.unwrap_or(&TAI_MINUS_UTC[0]).1)
    }
}

/// The largest term of TDB - TT: the Earth's eccentricity (Astronomical Almanac, section B).
fn tdb_minus_tt_ns(tt: Utc) -> i64 {
    let date = julian_date(tt);
    let days = (date.day - 2_451_545.0) + date.fraction;
    let anomaly = (357.53 + 0.985_600_28 * days).to_radians();
    ((0.001_657 * anomaly.sin() + 0.000_014 * (2.0 * anomaly).sin()) * 1e9).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_units::TimeSpan;

    fn utc(text: &str) -> Utc {
        text.parse().expect("an instant")
    }

    /// IERS Bulletin C and the interface specifications of the systems.
    #[test]
    fn scales_differ_as_published() {
        let noon = utc("2026-11-21T12:00:00Z");
        for (scale, ahead_ms) in [
            (TimeScale::Utc, 0),
            (TimeScale::Tai, 37_000),
            (TimeScale::Tt, 69_184),
            (TimeScale::Gps, 18_000),
            (TimeScale::Bdt, 4_000),
        ] {
            let reading = noon + TimeSpan::from_ns(ahead_ms * 1_000_000);
            assert_eq!(scale.to_utc(reading), noon, "{scale:?}");
        }
        let tdb = TimeScale::Tdb.to_utc(noon + TimeSpan::from_ns(69_184_000_000));
        let off_ns = (tdb - noon).ns().abs();
        assert!(off_ns < 1_700_000, "{off_ns}");
    }

    #[test]
    fn a_leap_second_lies_between_two_days() {
        let before = utc("2016-12-31T23:59:59Z");
        let after = utc("2017-01-01T00:00:00Z");
        assert_eq!((tai_minus_utc_s(before), tai_minus_utc_s(after)), (36, 37));
        let tai = TimeScale::Tai;
        assert_eq!(tai.to_utc(utc("2017-01-01T00:00:35Z")), before);
        assert_eq!(tai.to_utc(utc("2017-01-01T00:00:37Z")), after);
        assert_eq!(tai.to_utc(utc("2017-01-01T00:00:36Z")), after);
        assert_eq!(tai_minus_utc_s(utc("1972-06-30T00:00:00Z")), 10);
        assert_eq!(tai_minus_utc_s(utc("1960-06-30T00:00:00Z")), 10);
    }

    #[test]
    fn names_are_read_whatever_their_case() {
        assert_eq!(TimeScale::named("gps"), Ok(TimeScale::Gps));
        assert_eq!(TimeScale::named(" UTC "), Ok(TimeScale::Utc));
        let error = TimeScale::named("UT1").unwrap_err();
        assert!(error.contains("only UTC, TAI"), "{error}");
    }
}
