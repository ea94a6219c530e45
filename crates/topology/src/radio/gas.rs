//! Attenuation by oxygen and water vapour: ITU-R P.676-12, annex 1, in the mean annual global reference
//! atmosphere of ITU-R P.835-6, with rays bent as annex 1, section 2.2 says (refractive index: ITU-R P.453).

use crate::radio::gas_lines::{OXYGEN, WATER};

/// The air at a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Air {
    /// Pressure of the dry air, hPa.
    pub pressure_hpa: f64,
    /// Density of the water vapour, g/m³.
    pub vapour_g_per_m3: f64,
    /// Temperature, K.
    pub temperature_k: f64,
}

impl Air {
    /// Returns P.835's reference atmosphere at a height above the sea, 0 to 90 km, with
    /// `ground_vapour_g_per_m3` of water vapour at the ground (7.5 g/m³ in the reference), half of it 1.4 km
    /// higher. P.835's pressure is taken as that of the dry air, as in P.676's own examples.
    #[must_use]
    pub fn reference(height_km: f64, ground_vapour_g_per_m3: f64) -> Air {
        /// Base, km of geopotential height; temperature there, K; lapse rate, K/km; pressure there, hPa.
        const LAYERS: [(f64, f64, f64, f64); 7] = [
            (0.0, 288.15, -6.5, 1013.25),
            (11.0, 216.65, 0.0, 226.3226),
            (20.0, 216.65, 1.0, 54.749_80),
            (32.0, 228.65, 2.8, 8.680_422),
            (47.0, 270.65, 0.0, 1.109_106),
            (51.0, 270.65, -2.8, 0.669_416_7),
            (71.0, 214.65, -2.0, 0.039_566_49),
        ];
        let h = 6356.766 * height_km / (6356.766 + height_km);
        let at = LAYERS.partition_point(|l| l.0 < h).max(1) - 1;
        let (base, base_k, lapse, base_hpa) = LAYERS[at];
        let temperature_k = base_k + lapse * (h - base);
        let pressure_hpa = if lapse == 0.0 {
            base_hpa * (-34.1632 * (h - base) / base_k).exp()
        } else {
            base_hpa * (base_k / temperature_k).powf(34.1632 / lapse)
        };
        Air {
            pressure_hpa,
            vapour_g_per_m3: ground_vapour_g_per_m3 * (-height_km / 2.0).exp(),
            temperature_k,
        }
    }

    fn vapour_hpa(self) -> f64 {
        self.vapour_g_per_m3 * self.temperature_k / 216.7
    }

    fn refractive_index(self) -> f64 {
        let (t, e) = (self.temperature_k, self.vapour_hpa());
        1.0 + 1e-6 * (77.6 * self.pressure_hpa / t + 72.0 * e / t + 3.75e5 * e / (t * t))
    }

    /// Attenuation at 1 to 1,000 GHz, dB/km.
    #[must_use]
    pub fn db_per_km(self, frequency_ghz: f64) -> f64 {
        let f = frequency_ghz;
        let (p, e, theta) = (
            self.pressure_hpa,
            self.vapour_hpa(),
            300.0 / self.temperature_k,
        );
        // Line shape: width and interference.
        let shape = |line: f64, width: f64, delta: f64| {
            let side = |off: f64| (width - delta * off) / (off * off + width * width);
            f / line * (side(line - f) + side(line + f))
        };
        let oxygen: f64 = OXYGEN
            .iter()
            .map(|&[line, a1, a2, a3, a4, a5, a6]| {
                let strength = a1 * 1e-7 * p * theta.powi(3) * (a2 * (1.0 - theta)).exp();
                let width = a3 * 1e-4 * (p * theta.powf(0.8 - a4) + 1.1 * e * theta);
                let zeeman = (width * width + 2.25e-6).sqrt();
                let delta = (a5 + a6 * theta) * 1e-4 * (p + e) * theta.powf(0.8);
                strength * shape(line, zeeman, delta)
            })
            .sum();
        let debye = 5.6e-4 * (p + e) * theta.powf(0.8);
        let dry = f
            * p
            * theta.powi(2)
            * (6.14e-5 / (debye * (1.0 + (f / debye).powi(2)))
                + 1.4e-12 * p * theta.powf(1.5) / (1.0 + 1.9e-5 * f.powf(1.5)));
        let water: f64 = WATER
            .iter()
            .map(|&[line, b1, b2, b3, b4, b5, b6]| {
                let strength = b1 * 1e-1 * e * theta.powf(3.5) * (b2 * (1.0 - theta)).exp();
                let width = b3 * 1e-4 * (p * theta.powf(b4) + b5 * e * theta.powf(b6));
                let doppler = 0.535 * width
                    + (0.217 * width * width + 2.1316e-12 * line * line / theta).sqrt();
                strength * shape(line, doppler, 0.0)
            })
            .sum();
        0.1820 * f * (oxygen + dry + water)
    }
}

/// Water vapour of the reference atmosphere at the ground, g/m³ (P.835-6, section 1.2).
pub const REFERENCE_VAPOUR_G_PER_M3: f64 = 7.5;

/// Top of the atmosphere here, km. The air above adds less than a millionth.
const TOP_KM: f64 = 80.0;
const EARTH_KM: f64 = 6371.0;

/// Attenuation by gases along paths from the ground to space at one frequency.
///
/// Made once (some milliseconds), then cheap: paths from twelve heights at eighteen elevations are traced, others
/// lie between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Gases {
    /// Logarithm of attenuation times [`airmass`]'s inverse, by height, then elevation.
    table: Vec<[f64; ELEVATIONS_DEG.len()]>,
}

const ELEVATIONS_DEG: [f64; 18] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 75.0,
    90.0,
];
const HEIGHTS_KM: [f64; 12] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 12.0, 16.0, 20.0,
];

/// The approximate ratio of a slant path through the air to a vertical one: it removes most of the curvature
/// from the table.
fn airmass(elevation_deg: f64) -> f64 {
    1.0 / (elevation_deg.to_radians().sin() + 0.025)
}

impl Gases {
    /// Returns the attenuation at 1 to 1,000 GHz, with `ground_vapour_g_per_m3` of water vapour at the ground,
    /// g/m³.
    #[must_use]
    pub fn new(frequency_ghz: f64, ground_vapour_g_per_m3: f64) -> Gases {
        let trace = |height_km: f64| {
            let ray = Layers::above(height_km, frequency_ghz, ground_vapour_g_per_m3);
            ELEVATIONS_DEG.map(|deg| (ray.slant_db(deg.to_radians()) / airmass(deg)).ln())
        };
        Gases {
            table: HEIGHTS_KM.map(trace).to_vec(),
        }
    }

    /// dB from a station `station_m` above the sea to space. Below the horizon as at the horizon; stations below
    /// the sea or above 20 km as at these.
    #[must_use]
    pub fn attenuation_db(&self, station_m: f64, elevation_rad: f64) -> f64 {
        let (h, u) = place(&HEIGHTS_KM, station_m / 1e3);
        let elevation_deg = elevation_rad.to_degrees();
        let (e, v) = place(&ELEVATIONS_DEG, elevation_deg);
        let along = |row: &[f64]| row[e] + v * (row[e + 1] - row[e]);
        let (low, high) = (along(&self.table[h]), along(&self.table[h + 1]));
        (low + u * (high - low)).exp() * airmass(elevation_deg.clamp(0.0, 90.0))
    }
}

/// Returns the cell of a grid that has a value, and the place in the cell, 0 to 1.
fn place(grid: &[f64], value: f64) -> (usize, f64) {
    let value = value.clamp(grid[0], grid[grid.len() - 1]);
    let cell = grid
        .partition_point(|g| *g <= value)
        .clamp(1, grid.len() - 1)
        - 1;
    (cell, (value - grid[cell]) / (grid[cell + 1] - grid[cell]))
}

/// The atmosphere above a height in layers that grow with it, 20 m to about 3 km thick, each with the air of its
/// middle. (Annex 1 has 922 layers and the air of their lower edges; the tests compare with that.)
struct Layers {
    /// Lower edge from the Earth's centre, km; thickness, km; dB/km; refractive index.
    layers: Vec<(f64, f64, f64, f64)>,
}

impl Layers {
    fn above(height_km: f64, frequency_ghz: f64, ground_vapour_g_per_m3: f64) -> Layers {
        let mut layers = Vec::new();
        let (mut h, mut thick) = (height_km, 0.02);
        while h < TOP_KM {
            let air = Air::reference(h + thick / 2.0, ground_vapour_g_per_m3);
            layers.push((
                EARTH_KM + h,
                thick,
                air.db_per_km(frequency_ghz),
                air.refractive_index(),
            ));
            h += thick;
            thick *= 1.04;
        }
        Layers { layers }
    }

    /// Annex 1, equations 13 and 17 to 19.
    fn slant_db(&self, elevation_rad: f64) -> f64 {
        // Snell's law on a sphere: n r sin(angle to the vertical) stays the same along the ray.
        let (r0, _, _, n0) = self.layers[0];
        let invariant = n0 * r0 * elevation_rad.cos();
        let mut sum_db = 0.0;
        for &(r, thick, db_per_km, n) in &self.layers {
            let sine = (invariant / (n * r)).min(1.0);
            let drop = r * (1.0 - sine * sine).sqrt();
            let path = (drop * drop + 2.0 * r * thick + thick * thick).sqrt() - drop;
            sum_db += path * db_per_km;
        }
        sum_db
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_the_grid_lines_it_is_as_traced() {
        let mut worst: f64 = 0.0;
        for f in [1.6, 12.0, 22.2, 30.0, 47.0, 60.0, 90.0] {
            let gases = Gases::new(f, 7.5);
            for height_km in [0.0, 0.2, 1.2, 2.6, 5.0, 7.7, 11.0, 18.5] {
                let ray = Layers::above(height_km, f, 7.5);
                for deg in [0.2, 0.8, 2.4, 5.5, 7.0, 12.0, 25.0, 37.0, 52.0, 88.0_f64] {
                    let traced = ray.slant_db(deg.to_radians());
                    let found = gases.attenuation_db(height_km * 1e3, deg.to_radians());
                    worst = worst.max((found / traced - 1.0).abs());
                }
            }
        }
        println!("largest relative difference: {worst}");
        assert!(worst < 0.05, "{worst}");
    }

    #[test]
    fn more_air_takes_more() {
        let gases = Gases::new(20.0, 7.5);
        let db = |m: f64, deg: f64| gases.attenuation_db(m, deg.to_radians());
        assert!(db(0.0, 5.0) > db(0.0, 10.0) && db(0.0, 10.0) > db(0.0, 90.0));
        assert!(db(0.0, 30.0) > db(3000.0, 30.0) && db(3000.0, 30.0) > db(11_000.0, 30.0));
        assert!(Gases::new(20.0, 20.0).attenuation_db(0.0, 0.5) > gases.attenuation_db(0.0, 0.5));
    }
}
