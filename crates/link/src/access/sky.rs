//! Signal and rain: the share of the rate that they leave.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Signal of a terminal, and its loss in rain. The rate is proportional to Shannon's `log2(1 + SNR)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sky {
    /// Ratio of signal to noise with the satellite in the zenith of a clear sky, dB.
    pub snr_db: f64,
    /// Largest attenuation by rain, with the wet antenna, dB.
    pub rain_most_db: f64,
    /// Rain rate at which the attenuation is 63 % of the largest, mm/h, above 0.
    pub rain_mm_per_h: f64,
}

impl Sky {
    /// Returns the factor of the rate, 0 to 1. `range_ratio` is the satellite's range divided by its height (1 in the
    /// zenith), `rain_mm_per_h` the rain rate, and `attenuation_db` any other attenuation.
    #[must_use]
    pub fn factor(&self, range_ratio: f64, rain_mm_per_h: f64, attenuation_db: f64) -> f64 {
        let range_db = 20.0 * range_ratio.max(1.0).log10();
        let wet = 1.0 - (-rain_mm_per_h.max(0.0) / self.rain_mm_per_h).exp();
        let loss_db = range_db + self.rain_most_db * wet + attenuation_db.max(0.0);
        let bits = |db: f64| 10f64.powf(db / 10.0).ln_1p();
        bits(self.snr_db - loss_db) / bits(self.snr_db)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_and_rain_only_take_rate() {
        let sky = Sky {
            snr_db: 9.0,
            rain_most_db: 5.0,
            rain_mm_per_h: 5.0,
        };
        let exact = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        exact(sky.factor(1.0, 0.0, 0.0), 1.0);
        // Twice the range is 6.02 dB: log2(1 + 7.943 / 4) / log2(1 + 7.943).
        exact(
            sky.factor(2.0, 0.0, 0.0),
            (1.0 + 10f64.powf(0.9) / 4.0).ln() / (1.0 + 10f64.powf(0.9)).ln(),
        );
        let mut last = 1.0;
        for rain in [0.1, 1.0, 5.0, 20.0, 100.0] {
            let factor = sky.factor(1.0, rain, 0.0);
            assert!(factor < last, "{rain} mm/h: {factor}");
            last = factor;
        }
        assert!(last > sky.factor(1.0, 0.0, 5.001), "rain has a bound");
    }
}
