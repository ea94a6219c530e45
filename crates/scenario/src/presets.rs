//! Constellations by name: one Walker shell each, with the source of its numbers.
//!
//! Filings and papers give altitude, inclination, planes and satellites, but mostly no phasing. For these the
//! phasing here is the one that keeps satellites farthest apart on circular orbits, as a designer has to choose
//! it; a test computes it again.

use constel_units::{Angle, Length};

use crate::model::Walker;
use crate::raw::{Preset, WalkerPattern};

/// Returns the shell of a preset.
pub(crate) fn walker(preset: Preset) -> Walker {
    use Preset as P;
    use WalkerPattern::{Delta, Star};
    let (pattern, altitude_km, inclination_deg, planes, slots, phasing) = match preset {
        P::Iridium => (Star, 780.0, 86.4, 6, 11, 2),
        P::Oneweb => (Star, 1200.0, 87.9, 18, 40, 9),
        P::Kuiper => (Delta, 630.0, 51.9, 34, 34, 7),
        P::Kuiper610 => (Delta, 610.0, 42.0, 36, 36, 11),
        P::Kuiper590 => (Delta, 590.0, 33.0, 28, 28, 17),
        P::StarlinkShell1 => (Delta, 550.0, 53.0, 72, 22, 65),
        P::StarlinkShell2 => (Delta, 540.0, 53.2, 72, 22, 65),
        P::StarlinkShell3 => (Delta, 570.0, 70.0, 36, 20, 25),
        P::StarlinkShell4 => (Star, 560.0, 97.6, 6, 58, 0),
        P::StarlinkShell5 => (Star, 560.0, 97.6, 4, 43, 1),
        P::StarlinkCore => (Delta, 1150.0, 53.0, 32, 50, 27),
        P::TelesatPolar => (Star, 1015.0, 98.98, 27, 13, 13),
        P::TelesatInclined => (Delta, 1325.0, 50.88, 40, 33, 24),
        P::StarlinkGen2At340 => (Delta, 340.0, 53.0, 48, 110, 25),
        P::StarlinkGen2At345 => (Delta, 345.0, 46.0, 48, 110, 1),
        P::StarlinkGen2At350 => (Delta, 350.0, 38.0, 48, 110, 35),
        P::StarlinkGen2At360 => (Delta, 360.0, 96.9, 30, 120, 17),
        P::StarlinkGen2At525 => (Delta, 525.0, 53.0, 28, 120, 27),
        P::StarlinkGen2At530 => (Delta, 530.0, 43.0, 28, 120, 11),
        P::StarlinkGen2At535 => (Delta, 535.0, 33.0, 28, 120, 15),
        P::StarlinkGen2At604 => (Delta, 604.0, 148.0, 12, 12, 1),
        P::StarlinkGen2At614 => (Delta, 614.0, 115.7, 18, 18, 1),
    };
    Walker {
        pattern,
        inclination: Angle::from_deg(inclination_deg),
        satellites: planes * slots,
        planes,
        phasing,
        altitude: Length::from_m(altitude_km * 1e3),
        raan0: Angle::from_deg(0.0),
        plane_spacing: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    /// Smallest distance between any two satellites at any time, km; circular orbits of one radius and
    /// inclination, two-body motion.
    ///
    /// The cosine of the angle between two satellites varies as A + B cos(2u + c) with the phase u of one.
    /// Three phases give A and B, and with them the exact smallest angle.
    fn nearest_km(walker: &Walker, phasing: u32) -> f64 {
        let (planes, total) = (walker.planes, walker.satellites);
        let (sin_i, cos_i) = walker.inclination.rad().sin_cos();
        let spread = match walker.pattern {
            WalkerPattern::Star => TAU / 2.0,
            WalkerPattern::Delta => TAU,
        };
        let place = |node: f64, u: f64| {
            let (x, y, z) = (u.cos(), u.sin() * cos_i, u.sin() * sin_i);
            let (s, c) = node.sin_cos();
            [x * c - y * s, x * s + y * c, z]
        };
        let mut widest_cosine: f64 = -1.0;
        for plane in 1..planes {
            let node = spread * f64::from(plane) / f64::from(planes);
            for slot in 0..walker.slots() {
                let lead = f64::from((slot * planes + plane * phasing) % total) / f64::from(total);
                let cosine = |u: f64| {
                    let (a, b) = (place(0.0, u), place(node, u + lead * TAU));
                    a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>()
                };
                let (f0, f1, f2) = (cosine(0.0), cosine(TAU / 8.0), cosine(TAU / 4.0));
                let mean = f64::midpoint(f0, f2);
                let swing = ((f0 - f2) / 2.0).hypot(f1 - mean);
                widest_cosine = widest_cosine.max((mean + swing).min(1.0));
            }
        }
        let radius_km = 6378.137 + walker.altitude.m() / 1e3;
        radius_km * (2.0 - 2.0 * widest_cosine).sqrt()
    }

    #[test]
    fn numbers_are_those_of_the_sources() {
        // OpenSN, table IV: satellites and orbits.
        for (preset, satellites, planes) in [
            (Preset::Iridium, 66, 6),
            (Preset::Oneweb, 720, 18),
            (Preset::Kuiper, 1156, 34),
            (Preset::StarlinkShell1, 1584, 72),
            (Preset::StarlinkShell2, 1584, 72),
            (Preset::StarlinkShell3, 720, 36),
            (Preset::StarlinkShell4, 348, 6),
            (Preset::StarlinkShell5, 172, 4),
            (Preset::StarlinkCore, 1600, 32),
        ] {
            let w = walker(preset);
            assert_eq!((w.satellites, w.planes), (satellites, planes), "{preset:?}");
        }
        let sum = |presets: &[Preset]| presets.iter().map(|p| walker(*p).satellites).sum::<u32>();
        // The totals the filings name.
        use Preset as P;
        let gen1 = [
            P::StarlinkShell1,
            P::StarlinkShell2,
            P::StarlinkShell3,
            P::StarlinkShell4,
            P::StarlinkShell5,
        ];
        assert_eq!(sum(&gen1), 4408);
        assert_eq!(sum(&[P::Kuiper, P::Kuiper610, P::Kuiper590]), 3236);
        assert_eq!(sum(&[P::TelesatPolar, P::TelesatInclined]), 1671);
        let low = [
            P::StarlinkGen2At340,
            P::StarlinkGen2At345,
            P::StarlinkGen2At350,
            P::StarlinkGen2At360,
        ];
        let middle = [
            P::StarlinkGen2At525,
            P::StarlinkGen2At530,
            P::StarlinkGen2At535,
        ];
        let high = [P::StarlinkGen2At604, P::StarlinkGen2At614];
        assert_eq!((sum(&low), sum(&middle), sum(&high)), (19_440, 10_080, 468));
    }

    #[test]
    #[ignore = "prints the best phasings"]
    fn best_phasings() {
        for preset in Preset::ALL {
            let own = walker(preset);
            let all = (0..own.planes).map(|f| (f, nearest_km(&own, f)));
            let (phasing, km) = all.fold((0, 0.0), |b, n| if n.1 > b.1 + 1e-3 { n } else { b });
            println!(
                "{preset:?}: F={phasing}, {km:.1} km; own {}",
                nearest_km(&own, own.phasing)
            );
        }
    }

    #[test]
    fn no_phasing_keeps_satellites_farther_apart() {
        for preset in Preset::ALL {
            let own = walker(preset);
            let distance = nearest_km(&own, own.phasing);
            assert!(distance > 15.0, "{preset:?}: {distance} km");
            // All phasings of the large shells take long in a debug build; the small ones show it.
            if own.satellites <= 1600 {
                for other in 0..own.planes {
                    let there = nearest_km(&own, other);
                    assert!(
                        there <= distance + 1e-3,
                        "{preset:?}: F={other}: {there} {distance}"
                    );
                }
            }
        }
    }
}
