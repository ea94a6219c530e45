//! A circle on the ground, and the satellites over it.

use constel_orbit::DVec3;

/// Mean radius of the Earth (IUGG), for distances on its surface, metres.
const MEAN_RADIUS_M: f64 = 6_371_008.8;

/// A circle on the ground.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Circle {
    /// Direction of its centre from the Earth's, ITRF.
    centre: DVec3,
    /// Cosine of the angle that its radius spans there.
    cosine: f64,
}

impl Circle {
    /// Around a place; its radius is measured on the ground.
    #[must_use]
    pub fn new(latitude_deg: f64, longitude_deg: f64, radius_m: f64) -> Circle {
        let (sin_lat, cos_lat) = latitude_deg.to_radians().sin_cos();
        let (sin_lon, cos_lon) = longitude_deg.to_radians().sin_cos();
        Circle {
            centre: DVec3::new(cos_lat * cos_lon, cos_lat * sin_lon, sin_lat),
            cosine: (radius_m / MEAN_RADIUS_M).min(std::f64::consts::PI).cos(),
        }
    }

    /// Whether a position in ITRF is in it, or over it.
    #[must_use]
    pub fn is_below(&self, position_m: DVec3) -> bool {
        position_m.dot(self.centre) >= self.cosine * position_m.length()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_a_circle_is_so_at_any_height() {
        // A tenth of the way from the equator to the pole.
        let degrees_9_m = MEAN_RADIUS_M * 9.0_f64.to_radians();
        let circle = Circle::new(0.0, 90.0, degrees_9_m * 1.001);
        let at = |latitude: f64, longitude: f64, height_m: f64| {
            let (lat, lon) = (latitude.to_radians(), longitude.to_radians());
            let up = DVec3::new(lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin());
            up * (MEAN_RADIUS_M + height_m)
        };
        for height_m in [0.0, 550e3, 36_000e3] {
            for (latitude, longitude, is_in) in [
                (0.0, 90.0, true),
                (9.0, 90.0, true),
                (0.0, 81.0, true),
                (9.1, 90.0, false),
                (0.0, -90.0, false),
            ] {
                let position = at(latitude, longitude, height_m);
                assert_eq!(circle.is_below(position), is_in, "{latitude} {longitude}");
            }
        }
        assert!(
            Circle::new(0.0, 0.0, 20_100e3).is_below(at(10.0, 179.0, 550e3)),
            "all of it"
        );
        assert!(!circle.is_below(DVec3::NAN), "nowhere");
    }
}
