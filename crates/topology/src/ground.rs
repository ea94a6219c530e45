//! Whether a station can use a satellite: the tests, in the order in which they are blamed.

use crate::down::Down;
use crate::ground_link::{Path, closes};
use crate::layout::Layout;
use crate::node::NodeId;
use constel_orbit::{DVec3, Geodetic, Site};

/// Distance of geostationary satellites from the Earth's centre, metres (ITU-R S.1503).
const GSO_RADIUS_M: f64 = 42_164_200.0;

/// A satellite a station can use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Seen {
    pub(crate) range_m: f64,
    pub(crate) sin_elevation: f64,
}

/// A satellite as seen from a station.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sight {
    target: DVec3,
    /// From the station to it, metres.
    away: DVec3,
    pub(crate) seen: Seen,
}

/// Directions from a station to points of the geostationary arc one degree of longitude apart, as far as
/// they are above its horizon, from west to east. An angle to the nearest of them exceeds the angle to the arc itself by
/// less than 0.02 degrees where it is 5 degrees or more.
pub(crate) fn gso_arc(site: &Site) -> Vec<DVec3> {
    // Start on the far side of the Earth, so that the points above the horizon are consecutive.
    let behind_deg = (-site.position_itrf_m.y)
        .atan2(-site.position_itrf_m.x)
        .to_degrees()
        .floor();
    let points = (0..360).map(|degrees| {
        let (sin, cos) = (behind_deg + f64::from(degrees)).to_radians().sin_cos();
        DVec3::new(GSO_RADIUS_M * cos, GSO_RADIUS_M * sin, 0.0)
    });
    points
        .filter(|p| site.sin_elevation(*p) >= 0.0)
        .map(|p| (p - site.position_itrf_m).normalize())
        .collect()
}

/// Angle between a direction and the nearest point of the arc, degrees; 180 where there is no arc.
///
/// Every eighth point first, then those around the best of them: along the arc the angle has one lowest place, or
/// its lowest at one of the ends, which are far apart.
fn off_arc_deg(arc: &[DVec3], direction: DVec3) -> f64 {
    const STRIDE: usize = 8;
    let nearer = |best: (f64, usize), i: usize| {
        let cosine = arc[i].dot(direction);
        if cosine > best.0 { (cosine, i) } else { best }
    };
    let coarse = (0..arc.len()).step_by(STRIDE).fold((-1.0, 0), nearer);
    let around = coarse.1.saturating_sub(STRIDE)..(coarse.1 + STRIDE).min(arc.len());
    let nearest = around.fold(coarse, nearer).0;
    f64::clamp(nearest, -1.0, 1.0).acos().to_degrees()
}

/// A station as the tests need it.
#[derive(Debug, Clone)]
pub(crate) struct Watcher {
    pub(crate) site: Site,
    /// Empty where no constellation avoids it.
    pub(crate) arc: Vec<DVec3>,
    /// Geodetic, radians.
    pub(crate) latitude_rad: f64,
    /// Height above the ellipsoid, metres; the sea is assumed to be there.
    pub(crate) height_m: f64,
}

impl Watcher {
    pub(crate) fn new(layout: &Layout, place: usize, t_ns: u64) -> Watcher {
        let site = layout.site_at(place, t_ns);
        let avoids = layout
            .spec()
            .constellations
            .iter()
            .any(|k| k.gso_avoidance_deg > 0.0);
        let arc = if avoids { gso_arc(&site) } else { Vec::new() };
        let place = Geodetic::from_itrf_m(site.position_itrf_m);
        Watcher {
            site,
            arc,
            latitude_rad: place.latitude_rad,
            height_m: place.height_m,
        }
    }

    /// How a satellite at `target` looks, whether it can be used or not.
    pub(crate) fn sight(&self, target: DVec3) -> Sight {
        let away = target - self.site.position_itrf_m;
        let range_m = away.length();
        Sight {
            target,
            away,
            seen: Seen {
                range_m,
                sin_elevation: away.dot(self.site.up_itrf()) / range_m,
            },
        }
    }

    /// Tests whether a terminal of the station, by its place among all, can use the satellite at `index` in the node
    /// table, which is at `target` at `t_ns`.
    pub(crate) fn test(
        &self,
        layout: &Layout,
        terminal: usize,
        index: usize,
        target: DVec3,
        t_ns: u64,
    ) -> Result<Seen, Down> {
        let node = NodeId(index as u32);
        match layout.node(node).seat {
            Some(seat) => {
                let constellation = usize::from(seat.constellation);
                self.test_one_of(
                    layout,
                    terminal,
                    (constellation, node),
                    self.sight(target),
                    t_ns,
                )
            }
            None => Err(Down::NotForGround { node }),
        }
    }

    /// As [`test`](Self::test), for a caller that knows the satellite's constellation.
    pub(crate) fn test_one_of(
        &self,
        layout: &Layout,
        terminal: usize,
        (constellation, node): (usize, NodeId),
        sight: Sight,
        t_ns: u64,
    ) -> Result<Seen, Down> {
        let constellations = &layout.spec().constellations;
        if sight.seen.range_m.is_nan() {
            return Err(Down::NoPosition { node });
        }
        if !layout.serves_ground(node.index()) {
            return Err(Down::NotForGround { node });
        }
        let Sight { target, away, seen } = sight;
        let range_m = seen.range_m;
        let elevation_deg = || seen.sin_elevation.clamp(-1.0, 1.0).asin().to_degrees();
        let Some((sin_mask, mask_deg)) = layout.mask(terminal, constellation) else {
            return Err(Down::NoTerminal { node });
        };
        if seen.sin_elevation < sin_mask {
            let elevation_deg = elevation_deg();
            return Err(Down::BelowMask {
                elevation_deg,
                mask_deg,
            });
        }
        let place = layout.terminals()[terminal].station;
        let obstacles = &layout.spec().stations[place].obstacles;
        if !obstacles.is_empty() {
            let look = self.site.look(target);
            let (azimuth_deg, elevation_deg) = (
                look.azimuth_rad.to_degrees(),
                look.elevation_rad.to_degrees(),
            );
            for obstacle in obstacles {
                if obstacle.spans(azimuth_deg) && elevation_deg < obstacle.elevation_deg {
                    return Err(Down::Obstructed {
                        azimuth_deg,
                        elevation_deg,
                        obstacle_deg: obstacle.elevation_deg,
                    });
                }
            }
        }
        let limit_deg = constellations[constellation].gso_avoidance_deg;
        if limit_deg > 0.0 {
            let angle_deg = off_arc_deg(&self.arc, away / range_m);
            if angle_deg < limit_deg {
                return Err(Down::GsoArc {
                    angle_deg,
                    limit_deg,
                });
            }
        }
        let path = Path {
            watcher: self,
            place,
            range_m,
            sin_elevation: seen.sin_elevation,
            t_ns,
        };
        if let Some(signals) = path.signals(layout, &constellations[constellation]) {
            closes(&signals)?;
        }
        Ok(seen)
    }
}

/// How a satellite flies, for [`remaining_s`]: found once for all stations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    /// Unit vector from the Earth's centre towards it.
    radial: DVec3,
    /// Unit vector along its motion.
    along: DVec3,
    /// Distance from the Earth's centre, metres.
    radius_m: f64,
    /// Radians per second along a great circle.
    rate: f64,
}

impl Flight {
    /// From `now` to `later` in `dt_s`.
    pub(crate) fn new(now: DVec3, later: DVec3, dt_s: f64) -> Flight {
        let radius_m = now.length();
        let radial = now / radius_m;
        let height = radial.dot(later);
        let across = later - radial * height;
        Flight {
            radial,
            along: across.normalize_or_zero(),
            radius_m,
            rate: across.length().atan2(height) / dt_s,
        }
    }
}

/// Returns how long a satellite stays above the mask, seconds, if its present motion continues along a great
/// circle and the Earth is a sphere. Accurate to a few seconds.
pub(crate) fn remaining_s(station: DVec3, flight: &Flight, sin_mask: f64) -> f64 {
    let station_m = station.length();
    let cos_mask = (1.0 - sin_mask * sin_mask).sqrt();
    let ratio = station_m * cos_mask / flight.radius_m;
    // An orbit at rest, or one without a position, does not leave the cap.
    if !(flight.rate > 0.0 && ratio < 1.0) {
        return f64::INFINITY;
    }
    // The cap's half angle is acos(ratio) - mask.
    let cap_cosine = ratio * cos_mask + (1.0 - ratio * ratio).sqrt() * sin_mask;
    let zenith = station / station_m;
    let (a, b) = (zenith.dot(flight.radial), zenith.dot(flight.along));
    let highest = (a * a + b * b).sqrt();
    if cap_cosine >= highest {
        return 0.0;
    }
    if cap_cosine <= -highest {
        return f64::INFINITY;
    }
    // cos(angle to the zenith) = highest * cos(rate t - ahead): falls to the cap's at the end of the pass.
    let ahead = b.atan2(a);
    ((ahead + (cap_cosine / highest).acos()) / flight.rate).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_orbit::Geodetic;

    fn site(lat: f64, lon: f64) -> Site {
        Site::new(&Geodetic {
            latitude_rad: lat.to_radians(),
            longitude_rad: lon.to_radians(),
            height_m: 0.0,
        })
    }

    #[test]
    fn the_arc_is_where_dishes_point() {
        // From the equator the arc goes through the zenith; from 45 north its top stands at elevation
        // 38.0 degrees due south (e.g. ITU-R S.1503): atan((cos 45 - 0.15127) / sin 45).
        assert!(off_arc_deg(&gso_arc(&site(0.0, 10.0)), site(0.0, 10.0).up_itrf()) < 0.6);
        let north = site(45.0, 0.0);
        let arc = gso_arc(&north);
        let highest = arc
            .iter()
            .map(|g| g.dot(north.up_itrf()).asin().to_degrees())
            .fold(0.0, f64::max);
        assert!((highest - 38.2).abs() < 0.3, "{highest}");
        assert!((off_arc_deg(&arc, north.up_itrf()) - (90.0 - highest)).abs() < 0.1);
        // Beyond 81.3 degrees it is below the horizon.
        assert!(gso_arc(&site(82.0, 0.0)).is_empty());
    }

    #[test]
    fn the_nearest_point_of_the_arc_is_found_without_looking_at_all() {
        for (lat, lon) in [
            (0.0, 0.0),
            (5.0, 179.0),
            (45.0, -60.0),
            (-70.0, 33.0),
            (81.0, 0.0),
        ] {
            let site = site(lat, lon);
            let arc = gso_arc(&site);
            for azimuth in 0..72 {
                for elevation in 0..18 {
                    let (sa, ca) = (5.0 * f64::from(azimuth)).to_radians().sin_cos();
                    let (se, ce) = (5.0 * f64::from(elevation)).to_radians().sin_cos();
                    let east = DVec3::Z.cross(site.up_itrf()).normalize();
                    let north = site.up_itrf().cross(east);
                    let direction = ce * (sa * east + ca * north) + se * site.up_itrf();
                    let all = arc.iter().map(|g| g.dot(direction)).fold(-1.0, f64::max);
                    let all_deg = all.clamp(-1.0, 1.0).acos().to_degrees();
                    let found_deg = off_arc_deg(&arc, direction);
                    // Directions far from the arc need not be exact: limits end at 45 degrees.
                    assert!(
                        (found_deg - all_deg).abs() < 1e-9 || (all_deg > 60.0 && found_deg > 60.0),
                        "{lat} {lon}: {azimuth} {elevation}: {found_deg} {all_deg}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_rest_of_a_pass_by_hand() {
        // A satellite at 550 km overhead, flying along the equator at one degree in 15 s: with a mask of
        // 25 degrees the cap's half angle is 8.45 degrees, so 126.7 s remain.
        let (r, e): (f64, f64) = (6_928_137.0, 6_378_137.0);
        let at = |deg: f64| DVec3::new(r * deg.to_radians().cos(), r * deg.to_radians().sin(), 0.0);
        let cap = ((e * 25_f64.to_radians().cos() / r).acos() - 25_f64.to_radians()).to_degrees();
        let station = DVec3::new(e, 0.0, 0.0);
        let sin_mask = 25_f64.to_radians().sin();
        let flight = |from: f64| Flight::new(at(from), at(from + 1.0 / 15.0), 1.0);
        let left = |from: f64| remaining_s(station, &flight(from), sin_mask);
        assert!((left(0.0) - cap * 15.0).abs() < 1e-6, "{}", left(0.0));
        assert!((left(-cap) - 2.0 * cap * 15.0).abs() < 1e-6);
        assert!((left(3.0) - (cap - 3.0) * 15.0).abs() < 1e-6);
    }
}
