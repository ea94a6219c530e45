//! Julian dates and Greenwich mean sidereal time.
//!
//! UT1, which the Earth's rotation follows, differs from UTC by at most 0.9 s (`dut1_s`, published by the
//! IERS). The difference is a parameter; [`DUT1_UNKNOWN_S`] sets it to zero. That turns all ITRF positions of
//! satellites by the same angle: by at most 0.9 s * 465 m/s = 420 m on the ground. Distances between satellites
//! do not change.

use std::f64::consts::TAU;

use constel_units::Utc;

/// UT1 - UTC set to zero, the default; see the module's text for the error.
pub const DUT1_UNKNOWN_S: f64 = 0.0;

/// Julian day number of 1970-01-01T00:00:00 (UTC, so with a half: Julian days begin at noon).
const JD_UNIX_EPOCH: f64 = 2_440_587.5;
/// Julian date of J2000.0.
const JD_J2000: f64 = 2_451_545.0;
const NS_PER_DAY: i64 = 86_400_000_000_000;

/// A Julian date in two parts, so that nanoseconds survive: `day + fraction`, where `day` ends in
/// .5 (midnight UTC) and `0 <= fraction < 1`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JulianDate {
    /// Julian date of the preceding midnight, days.
    pub day: f64,
    /// Part of the day since then.
    pub fraction: f64,
}

/// The Julian date of `utc`, in UTC.
pub fn julian_date(utc: Utc) -> JulianDate {
    JulianDate {
        day: JD_UNIX_EPOCH + utc.unix_ns().div_euclid(NS_PER_DAY) as f64,
        fraction: utc.unix_ns().rem_euclid(NS_PER_DAY) as f64 / NS_PER_DAY as f64,
    }
}

/// Greenwich mean sidereal time in radians, `0 <= gmst < 2 pi`: IAU 1982 (Aoki et al., "The new
/// definition of universal time", A&A 105, 1982), the angle TEME is defined with.
///
/// `dut1_s` is UT1 - UTC in seconds ([`DUT1_UNKNOWN_S`] if not known).
pub fn gmst_rad(utc: Utc, dut1_s: f64) -> f64 {
    let JulianDate { day, fraction } = julian_date(utc);
    let fraction_ut1 = fraction + dut1_s / 86_400.0;
    let centuries = ((day - JD_J2000) + fraction_ut1) / 36_525.0;
    // The linear term holds 876600 h per century, which is the whole turns of UT1 itself: they are
    // left out here and come back as the (small, exact) day fraction.
    let seconds = 67_310.548_41
        + (8_640_184.812_866 + (0.093_104 - 6.2e-6 * centuries) * centuries) * centuries;
    let turns = (day - JD_J2000).rem_euclid(1.0) + fraction_ut1 + (seconds / 86_400.0) % 1.0;
    turns.rem_euclid(1.0) * TAU
}

/// Rate of [`gmst_rad`], rad/s of UT1, at J2000 (it changes by 6e-15 of itself per century).
pub const GMST_RATE_RAD_PER_S: f64 = TAU / 86_400.0 * (1.0 + 8_640_184.812_866 / 3.155_76e9);

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> Utc {
        text.parse().expect("valid instant")
    }

    #[test]
    fn julian_dates() {
        assert_eq!(
            julian_date(utc("2000-01-01T12:00:00Z")),
            JulianDate {
                day: 2_451_544.5,
                fraction: 0.5
            }
        );
        assert_eq!(
            julian_date(utc("1969-12-31T18:00:00Z")),
            JulianDate {
                day: 2_440_586.5,
                fraction: 0.75
            }
        );
    }

    /// Vallado, Fundamentals of Astrodynamics and Applications, example 3-5: 1992-08-20 12:14 UT1
    /// has GMST 152.578 787 81 deg (the book
    /// works with a one-part Julian date, good to 1e-7 deg).
    #[test]
    fn gmst_of_vallado_example_3_5() {
        let deg = gmst_rad(utc("1992-08-20T12:14:00Z"), 0.0).to_degrees();
        assert!((deg - 152.578_787_81).abs() < 1e-7, "{deg}");
    }

    #[test]
    fn dut1_turns_the_earth() {
        let at = utc("2022-09-14T00:00:00Z");
        let turned = gmst_rad(at, 0.5) - gmst_rad(at, 0.0);
        assert!(
            (turned - 0.5 * GMST_RATE_RAD_PER_S).abs() < 1e-13,
            "{turned}"
        );
    }

    #[test]
    fn rate_is_the_slope() {
        let at = utc("2022-09-14T00:00:00Z");
        let later = utc("2022-09-14T00:16:40Z");
        let slope = (gmst_rad(later, 0.0) - gmst_rad(at, 0.0)) / 1000.0;
        assert!((slope - GMST_RATE_RAD_PER_S).abs() < 1e-14, "{slope}");
    }
}
