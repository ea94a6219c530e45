//! Attenuation by rain: per kilometre (ITU-R P.838-3) and along a path to a satellite (ITU-R P.618-13,
//! section 2.2.1.1, steps 2 to 9).

/// Coefficients of `attenuation = k * rate^alpha`, dB/km with the rain rate in mm/h.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Specific {
    /// Factor.
    pub k: f64,
    /// Exponent.
    pub alpha: f64,
}

impl Specific {
    /// Returns the attenuation, dB/km, in rain of this many millimetres per hour, which must not be negative.
    #[must_use]
    pub fn db_per_km(self, rain_mm_per_h: f64) -> f64 {
        self.k * rain_mm_per_h.powf(self.alpha)
    }
}

/// One curve of P.838-3: Gaussians in the logarithm of the frequency, and a straight line.
struct Curve<const N: usize> {
    /// Height, centre and width of each Gaussian.
    bells: [(f64, f64, f64); N],
    slope: f64,
    offset: f64,
}

impl<const N: usize> Curve<N> {
    fn at(&self, log_frequency: f64) -> f64 {
        let bell = |(a, b, c): &(f64, f64, f64)| a * (-((log_frequency - b) / c).powi(2)).exp();
        self.bells.iter().map(bell).sum::<f64>() + self.slope * log_frequency + self.offset
    }
}

// P.838-3, tables 1 to 4.
const K_HORIZONTAL: Curve<4> = Curve {
    bells: [
        (-5.339_80, -0.100_08, 1.130_98),
        (-0.353_51, 1.269_70, 0.454_00),
        (-0.237_89, 0.860_36, 0.153_54),
        (-0.941_58, 0.645_52, 0.168_17),
    ],
    slope: -0.189_61,
    offset: 0.711_47,
};
const K_VERTICAL: Curve<4> = Curve {
    bells: [
        (-3.805_95, 0.569_34, 0.810_61),
        (-3.449_65, -0.229_11, 0.510_59),
        (-0.399_02, 0.730_42, 0.118_99),
        (0.501_67, 1.073_19, 0.271_95),
    ],
    slope: -0.163_98,
    offset: 0.632_97,
};
const ALPHA_HORIZONTAL: Curve<5> = Curve {
    bells: [
        (-0.143_18, 1.824_42, -0.551_87),
        (0.295_91, 0.775_64, 0.198_22),
        (0.321_77, 0.637_73, 0.131_64),
        (-5.376_10, -0.962_30, 1.478_28),
        (16.172_1, -3.299_80, 3.439_90),
    ],
    slope: 0.678_49,
    offset: -1.955_37,
};
const ALPHA_VERTICAL: Curve<5> = Curve {
    bells: [
        (-0.077_71, 2.338_40, -0.762_84),
        (0.567_27, 0.955_45, 0.540_39),
        (-0.202_38, 1.145_20, 0.268_09),
        (-48.299_1, 0.791_669, 0.116_226),
        (48.583_3, 0.791_459, 0.116_479),
    ],
    slope: -0.053_739,
    offset: 0.834_33,
};

/// Rain's coefficients at a frequency of 1 to 1,000 GHz, on a path at `elevation_rad`, for a polarisation tilted
/// by `tilt_rad` from the horizontal (45 degrees for circular).
#[must_use]
pub fn specific(frequency_ghz: f64, elevation_rad: f64, tilt_rad: f64) -> Specific {
    let log = frequency_ghz.log10();
    let (k_h, k_v) = (
        10_f64.powf(K_HORIZONTAL.at(log)),
        10_f64.powf(K_VERTICAL.at(log)),
    );
    let (alpha_h, alpha_v) = (ALPHA_HORIZONTAL.at(log), ALPHA_VERTICAL.at(log));
    let mix = elevation_rad.cos().powi(2) * (2.0 * tilt_rad).cos();
    let k = f64::midpoint(k_h + k_v, (k_h - k_v) * mix);
    let weighted = f64::midpoint(
        k_h * alpha_h + k_v * alpha_v,
        (k_h * alpha_h - k_v * alpha_v) * mix,
    );
    Specific {
        k,
        alpha: weighted / k,
    }
}

/// A path through rain to a satellite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RainPath {
    /// 1 to 55 GHz: where P.618 holds.
    pub frequency_ghz: f64,
    /// More than 0.
    pub elevation_rad: f64,
    /// 45 degrees for circular polarisation.
    pub tilt_rad: f64,
    /// Latitude of the station; the sign does not matter.
    pub latitude_rad: f64,
    /// Height of the station above the sea, m.
    pub station_m: f64,
    /// Height up to which it rains, above the sea, m: ITU-R P.839, or [`default_rain_height_m`].
    pub rain_height_m: f64,
}

impl RainPath {
    /// Returns the attenuation, dB, at this rain rate at the station.
    ///
    /// P.618 gives the attenuation exceeded 0.01 % of the time from the rain rate exceeded 0.01 % of the time; the
    /// same path lengths are used here for the rain of the moment. 0 for a station above the rain.
    #[must_use]
    pub fn attenuation_db(&self, rain_mm_per_h: f64) -> f64 {
        const EFFECTIVE_RADIUS_KM: f64 = 8500.0;
        let rise_km = (self.rain_height_m - self.station_m) / 1e3;
        if rise_km <= 0.0 || rain_mm_per_h <= 0.0 {
            return 0.0;
        }
        let elevation = self.elevation_rad;
        let (sin, cos) = elevation.sin_cos();
        let slant_km = if elevation >= 5_f64.to_radians() {
            rise_km / sin
        } else {
            2.0 * rise_km / ((sin * sin + 2.0 * rise_km / EFFECTIVE_RADIUS_KM).sqrt() + sin)
        };
        let ground_km = slant_km * cos;
        let specific =
            specific(self.frequency_ghz, elevation, self.tilt_rad).db_per_km(rain_mm_per_h);
        let f = self.frequency_ghz;
        let reduction = 1.0
            / (1.0 + 0.78 * (ground_km * specific / f).sqrt()
                - 0.38 * (1.0 - (-2.0 * ground_km).exp()));
        let zeta = rise_km.atan2(ground_km * reduction);
        let rain_km = if zeta > elevation {
            ground_km * reduction / cos
        } else {
            rise_km / sin
        };
        let chi = (36.0 - self.latitude_rad.to_degrees().abs()).max(0.0);
        let bend = 31.0 * (1.0 - (-elevation.to_degrees() / (1.0 + chi)).exp());
        let vertical =
            1.0 / (1.0 + sin.sqrt() * (bend * (rain_km * specific).sqrt() / (f * f) - 0.45));
        specific * rain_km * vertical
    }
}

/// Mean height of rain above the sea by latitude alone, m, for those who have no map: ITU-R P.839-2's zero-degree
/// isotherm (its formulas for either hemisphere) and 360 m. The maps of P.839-4 differ by up to a kilometre.
#[must_use]
pub fn default_rain_height_m(latitude_rad: f64) -> f64 {
    let latitude = latitude_rad.to_degrees();
    let isotherm_km = if latitude > 23.0 {
        5.0 - 0.075 * (latitude - 23.0)
    } else if latitude >= -21.0 {
        5.0
    } else {
        (5.0 + 0.1 * (latitude + 21.0)).max(0.0)
    };
    1e3 * isotherm_km.max(0.0) + 360.0
}
