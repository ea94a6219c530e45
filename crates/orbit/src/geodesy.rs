//! WGS84: geodetic coordinates, and the view of an observer on the ellipsoid.

use constel_units::{Angle, Length};
use glam::DVec3;

/// Semi-major axis of WGS84, m.
pub const WGS84_A_M: f64 = crate::EARTH_EQUATORIAL_RADIUS_M;
/// Flattening of WGS84.
pub const WGS84_F: f64 = 1.0 / 298.257_223_563;
const WGS84_B_M: f64 = WGS84_A_M * (1.0 - WGS84_F);
/// First eccentricity squared.
const E2: f64 = WGS84_F * (2.0 - WGS84_F);
/// Second eccentricity squared.
const E2_SECOND: f64 = E2 / (1.0 - E2);

/// A point in geodetic coordinates of WGS84.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Geodetic {
    /// Latitude, rad, -pi/2 to pi/2, north positive.
    pub latitude_rad: f64,
    /// Longitude, rad, east positive; -pi to pi where this crate makes it.
    pub longitude_rad: f64,
    /// Height above the ellipsoid (not the geoid), m.
    pub height_m: f64,
}

impl Geodetic {
    /// A point from typed quantities. Latitudes beyond the poles are the caller's to refuse.
    pub fn new(latitude: Angle, longitude: Angle, height: Length) -> Self {
        Self {
            latitude_rad: latitude.rad(),
            longitude_rad: longitude.rad(),
            height_m: height.m(),
        }
    }

    /// Returns the point in ITRF, m.
    pub fn position_itrf_m(&self) -> DVec3 {
        let (sin_latitude, cos_latitude) = self.latitude_rad.sin_cos();
        let (sin_longitude, cos_longitude) = self.longitude_rad.sin_cos();
        let normal_m = WGS84_A_M / (1.0 - E2 * sin_latitude * sin_latitude).sqrt();
        let from_axis_m = (normal_m + self.height_m) * cos_latitude;
        DVec3::new(
            from_axis_m * cos_longitude,
            from_axis_m * sin_longitude,
            (normal_m * (1.0 - E2) + self.height_m) * sin_latitude,
        )
    }

    /// The geodetic coordinates of a point in ITRF more than 100 km from the Earth's centre
    /// (nearer, the nearest point of the ellipsoid is not unique). Bowring's method ("Transformation
    /// from spatial to geographical coordinates", Survey Review 23, 1976), iterated until it is
    /// exact to rounding at any height.
    pub fn from_itrf_m(position_itrf_m: DVec3) -> Self {
        let DVec3 { x, y, z } = position_itrf_m;
        let from_axis_m = x.hypot(y);
        let mut reduced_latitude = (z * WGS84_A_M).atan2(from_axis_m * WGS84_B_M);
        let mut latitude_rad = 0.0;
        for _ in 0..5 {
            let (sin, cos) = reduced_latitude.sin_cos();
            latitude_rad = (z + E2_SECOND * WGS84_B_M * sin.powi(3))
                .atan2(from_axis_m - E2 * WGS84_A_M * cos.powi(3));
            let (sin, cos) = f64::sin_cos(latitude_rad);
            let next = ((1.0 - WGS84_F) * sin).atan2(cos);
            let change = (next - reduced_latitude).abs();
            reduced_latitude = next;
            if change < 1e-15 {
                break;
            }
        }
        let (sin, cos) = latitude_rad.sin_cos();
        Self {
            latitude_rad,
            longitude_rad: y.atan2(x),
            height_m: from_axis_m * cos + z * sin - WGS84_A_M * (1.0 - E2 * sin * sin).sqrt(),
        }
    }
}

/// The direction and distance of an object as seen from a [`Site`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LookAngles {
    /// Azimuth, rad, clockwise from north, `0 <= azimuth < 2 pi`; 0 straight overhead.
    pub azimuth_rad: f64,
    /// Elevation above the plane normal to the ellipsoid, rad; geometric, without refraction.
    pub elevation_rad: f64,
    /// Distance, m.
    pub range_m: f64,
}

/// An observer on the ground, with the local directions worked out once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Site {
    /// Position, m.
    pub position_itrf_m: DVec3,
    east: DVec3,
    north: DVec3,
    up: DVec3,
}

impl Site {
    /// An observer at `geodetic`; up is the ellipsoid's normal.
    pub fn new(geodetic: &Geodetic) -> Self {
        let (sin_latitude, cos_latitude) = geodetic.latitude_rad.sin_cos();
        let (sin_longitude, cos_longitude) = geodetic.longitude_rad.sin_cos();
        Self {
            position_itrf_m: geodetic.position_itrf_m(),
            east: DVec3::new(-sin_longitude, cos_longitude, 0.0),
            north: DVec3::new(
                -sin_latitude * cos_longitude,
                -sin_latitude * sin_longitude,
                cos_latitude,
            ),
            up: DVec3::new(
                cos_latitude * cos_longitude,
                cos_latitude * sin_longitude,
                sin_latitude,
            ),
        }
    }

    /// The local vertical (the ellipsoid's normal), a unit vector in ITRF.
    pub fn up_itrf(&self) -> DVec3 {
        self.up
    }

    /// Azimuth, elevation and range of a point in ITRF. Seen from itself: all zero.
    pub fn look(&self, position_itrf_m: DVec3) -> LookAngles {
        let away = position_itrf_m - self.position_itrf_m;
        let (east, north, up) = (away.dot(self.east), away.dot(self.north), away.dot(self.up));
        let azimuth_rad = if east == 0.0 && north == 0.0 {
            0.0
        } else {
            let turned = east.atan2(north);
            // The second step matters: a tiny negative angle plus a turn rounds to a full turn.
            let turned = if turned < 0.0 {
                turned + std::f64::consts::TAU
            } else {
                turned
            };
            if turned >= std::f64::consts::TAU {
                0.0
            } else {
                turned
            }
        };
        LookAngles {
            azimuth_rad,
            elevation_rad: up.atan2(east.hypot(north)),
            range_m: away.length(),
        }
    }

    /// Sine of the elevation of a point in ITRF: enough to compare with a mask, and cheap.
    /// NaN for the observer's own position.
    pub fn sin_elevation(&self, position_itrf_m: DVec3) -> f64 {
        let away = position_itrf_m - self.position_itrf_m;
        away.dot(self.up) / away.length()
    }
}
