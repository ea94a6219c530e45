//! Finding the satellites above a station's horizon without testing all of them.
//!
//! Satellites are sorted into cells of latitude and longitude; a station looks only into the cells its
//! visibility cap touches. The cap is taken a little too large, and every candidate is then tested exactly.
//!
//! Cells are even not in angles but in [`turned`], which grows with an angle and needs no arc tangent: sorting is
//! done for every satellite at every step.

use constel_orbit::DVec3;
use std::f64::consts::FRAC_PI_2;

/// Cells from pole to pole.
const BANDS: usize = 48;
/// Cells round the Earth.
const COLUMNS: usize = 96;
/// The ellipsoid's normal leans at most 0.193 degrees from the geocentric one; a little more for safety.
const NORMAL_LEAN_DEG: f64 = 0.25;
/// Windows are made for satellites up to this much higher than the highest, so that they seldom have to be made
/// again.
const HEADROOM_M: f64 = 1e3;

/// Satellites of one constellation by cell.
#[derive(Debug, Clone, Default)]
pub(crate) struct CapIndex {
    /// First item of each cell, and one past the last.
    starts: Vec<u32>,
    /// Places in the slice given to `rebuild`.
    items: Vec<u32>,
    cell_of: Vec<u16>,
    max_radius_m: f64,
    /// A bit for each place; all 0 between two calls.
    marks: Vec<u64>,
}

/// The cells in which satellites can be that a station sees.
#[derive(Debug, Clone, Default)]
pub(crate) struct Window {
    /// Cells from .. to.
    runs: Vec<(u32, u32)>,
    /// For satellites no farther from the centre than this.
    radius_m: f64,
}

/// Grows with the angle from the x axis to (x, y), from -2 to 2 as the angle goes from -180 to 180 degrees, and is
/// 1 at 90 degrees. Not a number at the origin.
fn turned(x: f64, y: f64) -> f64 {
    let part = y / (x.abs() + y.abs());
    match (x >= 0.0, y >= 0.0) {
        (true, _) => part,
        (false, true) => 2.0 - part,
        (false, false) => -2.0 - part,
    }
}

/// Returns the band of a geocentric latitude, from the distances from the Earth's axis and, northwards, from
/// the equator's plane.
fn band_of(out: f64, north: f64) -> usize {
    // Conversions saturate.
    (((turned(out, north) + 1.0) * (BANDS as f64 / 2.0)) as usize).min(BANDS - 1)
}

fn column_of(x: f64, y: f64) -> usize {
    (((turned(x, y) + 2.0) * (COLUMNS as f64 / 4.0)) as usize).min(COLUMNS - 1)
}

/// The latitude at which a band begins, radians.
fn band_start_rad(band: usize) -> f64 {
    // The angle whose `turned` is t has a tangent of t / (1 - |t|).
    let t = band as f64 * 2.0 / BANDS as f64 - 1.0;
    t.atan2(1.0 - t.abs())
}

impl CapIndex {
    /// Sorts positions into cells. Order inside a cell is the order given.
    pub(crate) fn rebuild(&mut self, positions: &[DVec3]) {
        self.starts.clear();
        self.starts.resize(BANDS * COLUMNS + 1, 0);
        self.cell_of.clear();
        let mut max_sq = 0.0_f64;
        for &p in positions {
            let out_sq = p.x * p.x + p.y * p.y;
            let cell = band_of(out_sq.sqrt(), p.z) * COLUMNS + column_of(p.x, p.y);
            self.cell_of.push(cell as u16);
            self.starts[cell + 1] += 1;
            max_sq = max_sq.max(out_sq + p.z * p.z);
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
        self.starts.copy_within(0..BANDS * COLUMNS, 1);
        self.starts[0] = 0;
        self.marks.resize(positions.len().div_ceil(64), 0);
    }

    /// Calls `found`, in rising order, with the index of every satellite that could be at or above `mask_deg`
    /// for a station at `from`, and of some more. `window` is the result of the previous call for the station;
    /// a [`Window::default`] for one that has moved.
    pub(crate) fn candidates(
        &mut self,
        window: &mut Window,
        from: DVec3,
        mask_deg: f64,
        mut found: impl FnMut(usize),
    ) {
        if self.items.is_empty() {
            return;
        }
        if window.radius_m < self.max_radius_m {
            *window = Window::new(from, self.max_radius_m + HEADROOM_M, mask_deg);
        }
        for &(first, end) in &window.runs {
            let [from, to] = [first, end].map(|cell| self.starts[cell as usize] as usize);
            for &i in &self.items[from..to] {
                self.marks[i as usize / 64] |= 1 << (i % 64);
            }
        }
        for (word, marks) in self.marks.iter_mut().enumerate() {
            let mut left = std::mem::take(marks);
            while left != 0 {
                found(word * 64 + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }
}

impl Window {
    /// Returns the cells that a station at `from` can see at `mask_deg` or higher, of satellites up to
    /// `radius_m` from the centre.
    fn new(from: DVec3, radius_m: f64, mask_deg: f64) -> Window {
        let mut window = Window {
            runs: Vec::new(),
            radius_m,
        };
        let cap_rad = cap_deg(from.length(), radius_m, mask_deg).to_radians();
        let latitude_rad = from.z.atan2(from.x.hypot(from.y));
        let (south, north) = (latitude_rad - cap_rad, latitude_rad + cap_rad);
        // The latitude at which the cap is widest; for a cap over a pole, the pole.
        let widest_rad = (latitude_rad.sin() / cap_rad.cos()).clamp(-1.0, 1.0).asin();
        let whole = cap_rad >= FRAC_PI_2;
        for band in 0..BANDS {
            let row = (band * COLUMNS) as u32;
            let (begin, end) = (band_start_rad(band), band_start_rad(band + 1));
            let (low, high) = (begin.max(south), end.min(north));
            if low > high && !whole {
                continue;
            }
            let half_rad = if whole {
                std::f64::consts::PI
            } else {
                half_width_rad(latitude_rad, cap_rad, widest_rad.clamp(low, high))
            };
            window.row(row, from, half_rad);
        }
        window
    }

    /// Adds the cells of a band that are within `half_rad` of a station's longitude.
    fn row(&mut self, row: u32, from: DVec3, half_rad: f64) {
        let columns = COLUMNS as u32;
        let turned_by = |by: f64| {
            let (sin, cos) = by.sin_cos();
            column_of(from.x * cos - from.y * sin, from.x * sin + from.y * cos) as u32
        };
        let (west, east) = (turned_by(-half_rad), turned_by(half_rad));
        // A cell is at most 6 degrees wide: a band that is almost completely covered is taken as a whole.
        if half_rad > 0.9 * std::f64::consts::PI {
            self.runs.push((row, row + columns));
        } else if west <= east {
            self.runs.push((row + west, row + east + 1));
        } else {
            // Across 180 degrees.
            self.runs.push((row, row + east + 1));
            self.runs.push((row + west, row + columns));
        }
    }
}

/// Half the width in longitude, radians, of a cap of `cap_rad` round `centre_rad` at a latitude in it.
fn half_width_rad(centre_rad: f64, cap_rad: f64, latitude_rad: f64) -> f64 {
    let across = cap_rad.cos() - centre_rad.sin() * latitude_rad.sin();
    let along = centre_rad.cos() * latitude_rad.cos();
    // At a pole there is no width; a cap that holds it has all longitudes.
    (across / along).clamp(-1.0, 1.0).acos() + 1e-6
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
            let (mut window, mut last) = (Window::default(), None);
            index.candidates(&mut window, site.position_itrf_m, mask, |i| {
                seen[i] += 1;
                assert!(last.replace(i) < Some(i), "in order");
            });
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
    fn a_window_is_made_anew_for_what_flies_higher() {
        let at = |deg: f64, height_m: f64| point(0.0, deg, height_m);
        let mut index = CapIndex::default();
        let mut window = Window::default();
        let mut look = |positions: &[DVec3]| {
            index.rebuild(positions);
            let mut seen = Vec::new();
            index.candidates(&mut window, at(0.0, 0.0), 25.0, |i| seen.push(i));
            seen
        };
        // At 550 km the cap ends 8.5 degrees away, at 5,000 km 34.
        assert_eq!(look(&[at(5.0, 550e3), at(30.0, 550e3)]), [0]);
        assert_eq!(look(&[at(5.0, 550e3), at(30.0, 5e6)]), [0, 1]);
    }

    #[test]
    fn turning_is_in_order_and_bands_are_where_they_begin() {
        let mut last = f64::NEG_INFINITY;
        for half_deg in -359..=359 {
            let (sin, cos) = (f64::from(half_deg) / 2.0).to_radians().sin_cos();
            let now = turned(cos, sin);
            assert!(now > last, "{half_deg}");
            last = now;
        }
        for band in 0..BANDS {
            for (offset, expected) in [(1e-9, band), (-1e-9, band.saturating_sub(1))] {
                let (sin, cos) = (band_start_rad(band) + offset).sin_cos();
                assert_eq!(band_of(cos.max(0.0), sin), expected);
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
        index.candidates(&mut Window::default(), point(40.0, 10.0, 0.0), 25.0, |_| {
            n += 1
        });
        // 21.7 of them on average are in a cap of 8.45 degrees.
        assert!((15..60).contains(&n), "{n}");
    }
}
