//! Carrier to noise of a link.

use constel_units::SPEED_OF_LIGHT_M_PER_S;

/// Boltzmann's constant, dBW/K/Hz.
const BOLTZMANN_DB: f64 = -228.599_167;

/// Free-space basic transmission loss, dB (ITU-R P.525): `20 log10(4 pi d f / c)`. Both positive.
#[must_use]
pub fn free_space_loss_db(range_m: f64, frequency_hz: f64) -> f64 {
    20.0 * (4.0 * std::f64::consts::PI * range_m * frequency_hz / SPEED_OF_LIGHT_M_PER_S).log10()
}

/// One direction of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Equivalent isotropically radiated power of the sender, dBW.
    pub eirp_dbw: f64,
    /// Figure of merit of the receiver, dB/K.
    pub g_over_t_db_per_k: f64,
    /// Carrier frequency, Hz.
    pub frequency_hz: f64,
    /// Noise bandwidth; with a roll-off of 0 also the symbol rate, Hz.
    pub bandwidth_hz: f64,
    /// Pointing, polarisation, implementation, dB.
    pub other_losses_db: f64,
}

impl Budget {
    /// Returns the carrier-to-noise ratio, dB, over `range_m` with the attenuation `weather_db` by the weather.
    /// The noise that rain itself adds is not counted.
    #[must_use]
    pub fn carrier_to_noise_db(&self, range_m: f64, weather_db: f64) -> f64 {
        self.eirp_dbw + self.g_over_t_db_per_k
            - free_space_loss_db(range_m, self.frequency_hz)
            - self.other_losses_db
            - weather_db
            - BOLTZMANN_DB
            - 10.0 * self.bandwidth_hz.log10()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // 20 log10(d/km) + 20 log10(f/GHz) + 92.45 (P.525, equation 4).
        let loss = free_space_loss_db(550e3, 12e9);
        let by_hand = 20.0 * 550_f64.log10() + 20.0 * 12_f64.log10() + 92.45;
        assert!((loss - by_hand).abs() < 0.005, "{loss} {by_hand}");
        // 36 + 9 - 168.84 + 228.60 - 10 log10(240e6) = 20.96 dB.
        let budget = Budget {
            eirp_dbw: 36.0,
            g_over_t_db_per_k: 9.0,
            frequency_hz: 12e9,
            bandwidth_hz: 240e6,
            other_losses_db: 0.0,
        };
        let c_n = budget.carrier_to_noise_db(550e3, 0.0);
        assert!((c_n - 20.96).abs() < 0.02, "{c_n}");
        assert!((budget.carrier_to_noise_db(550e3, 3.0) - (c_n - 3.0)).abs() < 1e-12);
        assert!((budget.carrier_to_noise_db(1100e3, 0.0) - (c_n - 6.0206)).abs() < 1e-3);
    }
}
