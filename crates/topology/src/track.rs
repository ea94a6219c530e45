//! Stations that move.

use crate::spec::{Station, Waypoint};
use constel_orbit::{DVec3, Geodetic, Site};

/// Returns the place of a station at `t_ns`: it moves along the shortest way on a sphere between waypoints,
/// latitude and longitude taken as spherical, and its height changes linearly. Before the first waypoint and
/// after the last it rests.
pub(crate) fn place_at(station: &Station, t_ns: u64) -> Site {
    let at = |w: &Waypoint| (w.latitude_deg, w.longitude_deg, w.altitude_m);
    let next = station.track.partition_point(|w| w.t_ns <= t_ns);
    let (latitude, longitude, height_m) = match (next.checked_sub(1), station.track.get(next)) {
        (None, None) => (
            station.latitude_deg,
            station.longitude_deg,
            station.altitude_m,
        ),
        (None, Some(first)) => at(first),
        (Some(last), None) => at(&station.track[last]),
        (Some(before), Some(after)) => {
            let before = &station.track[before];
            between(
                before,
                after,
                (t_ns - before.t_ns) as f64 / (after.t_ns - before.t_ns) as f64,
            )
        }
    };
    Site::new(&Geodetic {
        latitude_rad: latitude.to_radians(),
        longitude_rad: longitude.to_radians(),
        height_m,
    })
}

fn between(a: &Waypoint, b: &Waypoint, share: f64) -> (f64, f64, f64) {
    let direction = |w: &Waypoint| {
        let (sin_lat, cos_lat) = w.latitude_deg.to_radians().sin_cos();
        let (sin_lon, cos_lon) = w.longitude_deg.to_radians().sin_cos();
        DVec3::new(cos_lat * cos_lon, cos_lat * sin_lon, sin_lat)
    };
    let (p, q) = (direction(a), direction(b));
    let angle = p.angle_between(q);
    let here = if angle < 1e-12 {
        p
    } else {
        (p * ((1.0 - share) * angle).sin() + q * (share * angle).sin()) / angle.sin()
    };
    (
        here.z.atan2(here.x.hypot(here.y)).to_degrees(),
        here.y.atan2(here.x).to_degrees(),
        a.altitude_m + share * (b.altitude_m - a.altitude_m),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flight_follows_the_great_circle() {
        let point = |t_s: u64, latitude_deg: f64, longitude_deg: f64| Waypoint {
            t_ns: t_s * 1_000_000_000,
            latitude_deg,
            longitude_deg,
            altitude_m: 11_000.0,
        };
        let station = Station {
            track: vec![
                point(10, 0.0, -10.0),
                point(110, 0.0, 10.0),
                point(210, 60.0, 10.0),
            ],
            ..Station::default()
        };
        let at = |t_s: f64| {
            let p = place_at(&station, (t_s * 1e9) as u64).position_itrf_m;
            let g = Geodetic::from_itrf_m(p);
            (
                g.latitude_rad.to_degrees(),
                g.longitude_rad.to_degrees(),
                g.height_m,
            )
        };
        for (t, lat, lon) in [
            (0.0, 0.0, -10.0),
            (60.0, 0.0, 0.0),
            (85.0, 0.0, 5.0),
            (160.0, 30.0, 10.0),
            (999.0, 60.0, 10.0),
        ] {
            let (a, o, h) = at(t);
            assert!(
                (a - lat).abs() < 1e-9 && (o - lon).abs() < 1e-9,
                "{t}: {a} {o}"
            );
            assert!((h - 11_000.0).abs() < 1e-3);
        }
    }
}
