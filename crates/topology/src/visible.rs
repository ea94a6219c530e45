//! Finding the satellites above a station's horizon without looking at all of them.
//!
//! Satellites are sorted into cells of latitude and longitude; a station looks only into the cells its
//! visibility cap touches. The cap is taken a little too large, and every candidate is then tested exactly.

use crate::geometry::geocentric_latitude_deg;
use constel_orbit::DVec3;

/// Cell size, degrees.
const CELL_DEG: f64 = 5.0;
const BANDS: usize = 36;
const CELLS_PER_BAND: usize = 72;
/// The ellipsoid's normal leans at most 0.193 degrees from the geocentric one; a little more for safety.
const NORMAL_LEAN_DEG: f64 = 0.25;

/// Satellites of one constellation by cell.
#[derive(Debug, Clone, Default)]
pub(crate) struct CapIndex {
    /// First item of each cell, and one past the last.
    starts: Vec<u32>,
    /// Places in the slice given to `rebuild`.
    items: Vec<u32>,
    cell_of: Vec<u16>,
    max_radius_m: f64,
}

/// Where a station is, as the index needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Viewpoint {
    latitude_deg: f64,
    longitude_deg: f64,
    radius_m: f64,
}

impl Viewpoint {
    pub(crate) fn new(position: DVec3) -> Viewpoint {
        let (latitude_deg, longitude_deg) = direction_deg(position);
        Viewpoint {
            latitude_deg,
            longitude_deg,
            radius_m: position.length(),
        }
    }
}

fn direction_deg(p: DVec3) -> (f64, f64) {
    (geocentric_latitude_deg(p), p.y.atan2(p.x).to_degrees())
}

fn band_of(latitude_deg: f64) -> usize {
    (((latitude_deg + 90.0) / CELL_DEG) as usize).min(BANDS - 1)
}

fn column_of(longitude_deg: f64) -> usize {
    (((longitude_deg + 180.0) / CELL_DEG) as usize).min(CELLS_PER_BAND - 1)
}

impl CapIndex {
    /// Sorts positions into cells. Order inside a cell is the order given.
    pub(crate) fn rebuild(&mut self, positions: &[DVec3]) {
        self.starts.clear();
        self.starts.resize(BANDS * CELLS_PER_BAND + 1, 0);
        self.cell_of.clear();
        let mut max_sq = 0.0_f64;
        for &p in positions {
            let (lat, lon) = direction_deg(p);
            let cell = band_of(lat) * CELLS_PER_BAND + column_of(lon);
            self.cell_of.push(cell as u16);
            self.starts[cell + 1] += 1;
            max_sq = max_sq.max(p.length_squared());
        }
        self.max_radius_m = max_sq.sqrt();
        for i in 1..self.starts.len() {
            self.starts[i] += self.starts[i - 1];
        }
        self.items.clear();
        self.items.resize(positions.len(), 0);
        // `starts` itself is the moving cursor of each cell; afterwards it points one cell too far on and is
        // shifted back.
        for (i, &cell) in self.cell_of.iter().enumerate() {
            let cursor = &mut self.starts[usize::from(cell)];
            self.items[*cursor as usize] = i as u32;
            *cursor += 1;
        }
        for cell in (1..self.starts.len()).rev() {
            self.starts[cell] = self.starts[cell - 1];
        }
        self.starts[0] = 0;
    }

    /// Calls `found` with the place of every satellite that could be at or above `mask_deg`, and some more.
    pub(crate) fn candidates(&self, from: &Viewpoint, mask_deg: f64, mut found: impl FnMut(usize)) {
        if self.items.is_empty() {
            return;
        }
        let cap = cap_deg(from.radius_m, self.max_radius_m, mask_deg);
        let low = band_of((from.latitude_deg - cap).max(-90.0));
        let high = band_of((from.latitude_deg + cap).min(90.0));
        // Half width in longitude of a cap that contains no pole: sin w = sin cap / cos latitude.
        let ratio = cap.to_radians().sin() / from.latitude_deg.to_radians().cos();
        let holds_pole = from.latitude_deg.abs() + cap >= 90.0;
        let whole_band = holds_pole || cap >= 90.0 || ratio >= 1.0;
        for band in low..=high {
            let row = band * CELLS_PER_BAND;
            if whole_band {
                self.visit(row, row + CELLS_PER_BAND, &mut found);
                continue;
            }
            let half = ratio.asin().to_degrees();
            let (west, east) = (from.longitude_deg - half, from.longitude_deg + half);
            if west < -180.0 {
                self.visit(row, row + column_of(east) + 1, &mut found);
                let first = column_of(west + 360.0).max(column_of(east) + 1);
                self.visit(row + first, row + CELLS_PER_BAND, &mut found);
            } else if east > 180.0 {
                let end = (column_of(east - 360.0) + 1).min(column_of(west));
                self.visit(row, row + end, &mut found);
                self.visit(row + column_of(west), row + CELLS_PER_BAND, &mut found);
            } else {
                self.visit(row + column_of(west), row + column_of(east) + 1, &mut found);
            }
        }
    }

    fn visit(&self, first_cell: usize, end_cell: usize, found: &mut impl FnMut(usize)) {
        let (from, to) = (
            self.starts[first_cell] as usize,
            self.starts[end_cell] as usize,
        );
        self.items[from..to].iter().for_each(|&i| found(i as usize));
    }
}

/// Earth-centred half angle of the cap in which a satellite at up to `radius_m` can be seen at `mask_deg` or
/// higher from a point at `station_m` from the centre.
fn cap_deg(station_m: f64, radius_m: f64, mask_deg: f64) -> f64 {
    let mask = (mask_deg - NORMAL_LEAN_DEG).max(-90.0).to_radians();
    let ratio = station_m * mask.cos() / radius_m;
    if ratio >= 1.0 {
        // Satellites no higher than the station: the formula does not hold, look everywhere.
        return 180.0;
    }
    ((ratio.acos() - mask).to_degrees() + 0.01).clamp(0.0, 180.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_orbit::{Geodetic, Site};
    use proptest::prelude::*;

    fn geodetic(lat: f64, lon: f64, height_m: f64) -> Geodetic {
        let (latitude_rad, longitude_rad) = (lat.to_radians(), lon.to_radians());
        Geodetic {
            latitude_rad,
            longitude_rad,
            height_m,
        }
    }

    fn site(lat: f64, lon: f64) -> Site {
        Site::new(&geodetic(lat, lon, 0.0))
    }

    fn point(lat: f64, lon: f64, height_m: f64) -> DVec3 {
        geodetic(lat, lon, height_m).position_itrf_m()
    }

    proptest! {
        #[test]
        fn nobody_above_the_mask_is_missed_and_nobody_comes_twice(
            lat in -90.0..90.0_f64,
            lon in -180.0..180.0_f64,
            mask in -5.0..85.0_f64,
            sats in prop::collection::vec((-90.0..90.0_f64, -180.0..180.0_f64, 300e3..36e6_f64), 1..200),
            near in prop::collection::vec((-20.0..20.0_f64, -30.0..30.0_f64), 0..50),
        ) {
            let site = site(lat, lon);
            let mut all: Vec<_> = sats.iter().map(|s| point(s.0, s.1, s.2)).collect();
            // Some that are sure to be near, across the date line and the poles too.
            all.extend(near.iter().map(|n| point(lat + n.0, lon + n.1, 550e3)));
            let mut index = CapIndex::default();
            index.rebuild(&all);
            let mut seen = vec![0; all.len()];
            index.candidates(&Viewpoint::new(site.position_itrf_m), mask, |i| seen[i] += 1);
            for (i, &p) in all.iter().enumerate() {
                prop_assert!(seen[i] <= 1);
                let elevation = site.look(p).elevation_rad.to_degrees();
                if elevation >= mask {
                    prop_assert_eq!(seen[i], 1, "elevation {}", elevation);
                }
            }
        }
    }

    #[test]
    fn looks_at_few() {
        // 4,000 satellites evenly spread: a station with a 25 degree mask should test a few dozen.
        let all: Vec<_> = (0..4000)
            .map(|i| {
                let z = 1.0 - (2.0 * f64::from(i) + 1.0) / 4000.0;
                let (s, c) = (f64::from(i) * 2.399_963).sin_cos();
                let r = 6_928e3 * (1.0 - z * z).sqrt();
                DVec3::new(r * c, r * s, 6_928e3 * z)
            })
            .collect();
        let mut index = CapIndex::default();
        index.rebuild(&all);
        let mut n = 0;
        index.candidates(&Viewpoint::new(point(40.0, 10.0, 0.0)), 25.0, |_| n += 1);
        assert!((20..120).contains(&n), "{n}");
    }
}
