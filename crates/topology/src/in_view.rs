//! The satellites that a terminal may see during a stretch of time, from their positions at its two ends.

use crate::layout::Layout;
use constel_orbit::{DVec3, Site};
use std::f64::consts::FRAC_PI_2;

/// The largest speed of an object in free flight up to 100,000 km against the Earth's surface, metres per
/// second: escape velocity at sea level is 11.2 km/s, and the Earth turns below it at 0.5 km/s.
const FASTEST_M_PER_S: f64 = 12_000.0;

/// Beyond all rounding, metres.
const SLACK_M: f64 = 10.0;

/// Shorter than the distance of any place on the ground from the Earth's centre, metres.
const LEAST_RADIUS_M: f64 = 6.3e6;

/// A stretch of lab time, and all positions at its ends.
pub(crate) struct Stretch<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// ITRF positions of all satellites at `from_ns`, metres.
    pub(crate) start: &'a [DVec3],
    /// ITRF positions of all satellites at `to_ns`, metres.
    pub(crate) end: &'a [DVec3],
}

impl Stretch<'_> {
    /// Calls `found`, in rising order, with the index of every satellite that is at or above a terminal's mask
    /// at some time of the stretch, and of some more. Satellites that have no position at an end, or have moved
    /// farther than any object in free flight, are included, because their positions in between are not known.
    pub(crate) fn may_see(&self, terminal: usize, mut found: impl FnMut(usize)) {
        let layout = self.layout;
        let station = layout.terminals()[terminal].station;
        let seconds = (self.to_ns - self.from_ns) as f64 / 1e9;
        let farthest_m = FASTEST_M_PER_S * seconds + SLACK_M;
        let wander_m = self.wander_m(station);
        // Every instant is at most half of the stretch away from one of the ends.
        let reach_m = farthest_m / 2.0 + wander_m;
        let lean_rad = wander_m / LEAST_RADIUS_M;
        let ends = [(self.from_ns, self.start), (self.to_ns, self.end)];
        let sites = ends.map(|(t_ns, _)| layout.site_at(station, t_ns));
        for shell in 0..layout.spec().constellations.len() {
            let Some((_, mask_deg)) = layout.mask(terminal, shell) else {
                continue;
            };
            let mask_rad = mask_deg.to_radians() - lean_rad;
            for satellite in layout.satellites_of(shell) {
                if !layout.serves_ground(satellite) {
                    continue;
                }
                let moved_m = self.start[satellite].distance(self.end[satellite]);
                // Not a number where a position is missing.
                let known = moved_m <= farthest_m;
                let near = |(site, (_, positions)): (&Site, &(u64, &[DVec3]))| {
                    comes_into_view(site, mask_rad, positions[satellite], reach_m)
                };
                if !known || sites.iter().zip(&ends).any(near) {
                    found(satellite);
                }
            }
        }
    }

    /// Returns the largest distance of a station from its positions at both ends, metres; 0 for one at rest.
    fn wander_m(&self, station: usize) -> f64 {
        let track = &self.layout.spec().stations[station].track;
        let on_the_way = track
            .iter()
            .map(|point| point.t_ns)
            .filter(|t_ns| (self.from_ns + 1..self.to_ns).contains(t_ns));
        if track.is_empty() {
            return 0.0;
        }
        let times: Vec<u64> = std::iter::once(self.from_ns)
            .chain(on_the_way)
            .chain([self.to_ns])
            .collect();
        let at = |t_ns| self.layout.site_at(station, t_ns).position_itrf_m;
        let straight_m: f64 = times.windows(2).map(|w| at(w[0]).distance(at(w[1]))).sum();
        // An arc is never longer than this times its chord.
        straight_m * FRAC_PI_2
    }
}

/// Whether a point within `reach_m` of `target` is at or above the elevation `mask_rad` as seen from `site`. All points that
/// are make a cone with its tip at the site.
fn comes_into_view(site: &Site, mask_rad: f64, target: DVec3, reach_m: f64) -> bool {
    let away = target - site.position_itrf_m;
    let range_m = away.length();
    let sine = (away.dot(site.up_itrf()) / range_m).clamp(-1.0, 1.0);
    let below_rad = mask_rad - sine.asin();
    // From far behind, the tip is the nearest point of the cone.
    range_m <= reach_m
        || below_rad <= 0.0
        || (below_rad < FRAC_PI_2 && range_m * below_rad.sin() <= reach_m)
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_orbit::Geodetic;

    #[test]
    fn a_cone_by_hand() {
        let site = Site::new(&Geodetic {
            latitude_rad: 0.0,
            longitude_rad: 0.0,
            height_m: 0.0,
        });
        let at = |up_m: f64, north_m: f64| site.position_itrf_m + DVec3::new(up_m, 0.0, north_m);
        let mask = 30_f64.to_radians();
        let comes = |p, reach| comes_into_view(&site, mask, p, reach);
        assert!(comes(at(1000.0, 0.0), 0.0));
        // At elevation 0 and 1,000 m away, the cone is 500 m away.
        assert!(comes(at(0.0, 1000.0), 500.1) && !comes(at(0.0, 1000.0), 499.9));
        // From below, its tip is nearest.
        assert!(comes(at(-1000.0, 0.0), 1000.1) && !comes(at(-1000.0, 0.0), 999.9));
    }
}
