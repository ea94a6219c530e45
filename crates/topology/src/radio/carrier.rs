//! One direction of a radio link, from its design and the weather to its rate.

use crate::radio::budget::Budget;
use crate::radio::gas::Gases;
use crate::radio::modcod::{DVB_S2, Modcod, best};
use crate::radio::rain::{RainPath, default_rain_height_m};

/// How bits become symbols.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Waveform {
    /// The best MODCOD of DVB-S2 that the moment leaves room for (adaptive coding and modulation).
    DvbS2,
    /// Always the same MODCOD of [`DVB_S2`].
    Fixed(Modcod),
    /// Shannon's limit: `log2(1 + C/N)` bits per symbol.
    Shannon,
    /// This number of bits per symbol, 1 (BPSK) or 2 (QPSK), without coding: no threshold, but bit errors.
    Uncoded(u8),
}

/// A carrier as designed.
#[derive(Debug, Clone, PartialEq)]
pub struct Carrier {
    /// Power, antenna, bandwidth.
    pub budget: Budget,
    /// Symbols per second are the bandwidth divided by one and this; 0 or more.
    pub roll_off: f64,
    /// Noise temperature of the receiver for which the budget's G/T holds, K, in clear sky: rain then adds noise of
    /// its own to a receiver on the ground. `None` leaves that out.
    pub system_temperature_k: Option<f64>,
    /// Tilt of the polarisation from the horizontal, radians; 45 degrees for circular.
    pub tilt_rad: f64,
    /// Air along the path; `None` leaves gases out.
    pub gases: Option<Gases>,
    /// How bits become symbols.
    pub waveform: Waveform,
    /// Es/N0 kept in reserve, dB.
    pub margin_db: f64,
}

/// The station's end of a path to a satellite, and the rain there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlantPath {
    /// Distance to the satellite, m.
    pub range_m: f64,
    /// More than 0: at and below the horizon, 0.1 degree is used.
    pub elevation_rad: f64,
    /// Latitude of the station; the sign does not matter for rain.
    pub latitude_rad: f64,
    /// Height of the station above the sea, m.
    pub station_m: f64,
    /// Rain at the station.
    pub rain_mm_per_h: f64,
}

/// The losses and the rate of a carrier at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Signal {
    /// Attenuation by gases, dB.
    pub gas_db: f64,
    /// Lost to rain, dB.
    pub rain_db: f64,
    /// Carrier to noise in the bandwidth, dB, noise of the rain included.
    pub c_n_db: f64,
    /// The rate that it carries; `None`: none, the link does not close.
    pub carried: Option<Carried>,
}

/// The rate and the coding of a carrier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Carried {
    /// Name of the MODCOD; of other waveforms, theirs.
    pub name: &'static str,
    /// Bits per second, 1 or more.
    pub rate_bps: f64,
    /// Chance that a frame of 1,514 bytes has a bit wrong, 0 to 1.
    pub loss_ratio: f64,
}

/// Physical temperature of rain as a noise source, K (P.618-13, section 3).
const RAIN_K: f64 = 275.0;
/// A full Ethernet frame, bits.
const FRAME_BITS: f64 = 1514.0 * 8.0;
/// Packets of 188 bytes that DVB-S2 loses at its thresholds (ETSI EN 302 307-1, section 6).
const QUASI_ERROR_FREE: f64 = 1e-7;

impl Carrier {
    /// Returns the losses and the rate of the carrier along a path. `to_ground`: the receiver is the station.
    ///
    /// The carrier's frequency must be 1 to 55 GHz for the rain to have a meaning.
    #[must_use]
    pub fn signal(&self, path: &SlantPath, to_ground: bool) -> Signal {
        let elevation_rad = path.elevation_rad.max(0.1_f64.to_radians());
        let gas_db = self
            .gases
            .as_ref()
            .map_or(0.0, |g| g.attenuation_db(path.station_m, elevation_rad));
        let rain = RainPath {
            frequency_ghz: self.budget.frequency_hz / 1e9,
            elevation_rad,
            tilt_rad: self.tilt_rad,
            latitude_rad: path.latitude_rad,
            station_m: path.station_m,
            rain_height_m: default_rain_height_m(path.latitude_rad),
        };
        let rain_db = rain.attenuation_db(path.rain_mm_per_h);
        let mut c_n_db = self
            .budget
            .carrier_to_noise_db(path.range_m, gas_db + rain_db);
        if let (Some(clear_k), true) = (self.system_temperature_k, to_ground) {
            let added_k = RAIN_K * (1.0 - 10_f64.powf(-rain_db / 10.0));
            c_n_db -= 10.0 * (1.0 + added_k / clear_k).log10();
        }
        Signal {
            gas_db,
            rain_db,
            c_n_db,
            carried: self.carried(c_n_db).filter(|c| c.rate_bps >= 1.0),
        }
    }

    /// Returns the rate over `range_m` metres of free space; `None`: the link does not close.
    #[must_use]
    pub fn in_space(&self, range_m: f64) -> Option<Carried> {
        let c_n_db = self.budget.carrier_to_noise_db(range_m, 0.0);
        self.carried(c_n_db).filter(|c| c.rate_bps >= 1.0)
    }

    fn carried(&self, c_n_db: f64) -> Option<Carried> {
        let symbols = self.budget.bandwidth_hz / (1.0 + self.roll_off);
        // Noise in the bandwidth is more than noise in the symbol rate.
        let es_n0_db = c_n_db + 10.0 * (1.0 + self.roll_off).log10() - self.margin_db;
        let coded = |m: &Modcod| Carried {
            name: m.name,
            rate_bps: symbols * m.efficiency,
            loss_ratio: QUASI_ERROR_FREE * (1514.0 / 188.0),
        };
        let linear = || 10_f64.powf(es_n0_db / 10.0);
        match self.waveform {
            Waveform::DvbS2 => best(&DVB_S2, es_n0_db, 0.0).map(coded),
            Waveform::Fixed(modcod) => best(&[modcod], es_n0_db, 0.0).map(coded),
            Waveform::Shannon => Some(Carried {
                name: "Shannon's limit",
                rate_bps: symbols * linear().ln_1p() / std::f64::consts::LN_2,
                loss_ratio: 0.0,
            }),
            Waveform::Uncoded(bits) => {
                let bit_error = q_function((2.0 * linear() / f64::from(bits)).sqrt());
                Some(Carried {
                    name: if bits == 1 {
                        "uncoded BPSK"
                    } else {
                        "uncoded QPSK"
                    },
                    rate_bps: symbols * f64::from(bits),
                    loss_ratio: -(FRAME_BITS * (-bit_error).ln_1p()).exp_m1(),
                })
            }
        }
    }
}

/// Returns the chance that a Gaussian exceeds `x` standard deviations, for x >= 0. Craig's form: `1/pi` times
/// the integral of `exp(-x² / (2 sin² t))` over a quarter turn, by the midpoint rule, which is exact to
/// rounding for such periodic functions.
fn q_function(x: f64) -> f64 {
    const STEPS: u32 = 64;
    let width = std::f64::consts::FRAC_PI_2 / f64::from(STEPS);
    let sum: f64 = (0..STEPS)
        .map(|i| (f64::from(i) + 0.5) * width)
        .map(|t| (-x * x / (2.0 * t.sin().powi(2))).exp())
        .sum();
    sum * width / std::f64::consts::PI
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carrier(waveform: Waveform) -> Carrier {
        Carrier {
            budget: Budget {
                eirp_dbw: 36.0,
                g_over_t_db_per_k: 9.0,
                frequency_hz: 12e9,
                bandwidth_hz: 240e6,
                other_losses_db: 0.0,
            },
            roll_off: 0.2,
            system_temperature_k: Some(150.0),
            tilt_rad: 45_f64.to_radians(),
            gases: Some(Gases::new(12.0, 7.5)),
            waveform,
            margin_db: 1.0,
        }
    }

    fn path(rain_mm_per_h: f64) -> SlantPath {
        SlantPath {
            range_m: 1.0e6,
            elevation_rad: 30_f64.to_radians(),
            latitude_rad: 0.9,
            station_m: 0.0,
            rain_mm_per_h,
        }
    }

    #[test]
    fn rain_takes_signal_and_adds_noise() {
        let own = carrier(Waveform::DvbS2);
        let (clear, wet) = (own.signal(&path(0.0), true), own.signal(&path(40.0), true));
        assert_eq!(clear.rain_db, 0.0);
        assert!(wet.rain_db > 1.0 && wet.gas_db == clear.gas_db);
        let added = 10.0 * (1.0 + 275.0 * (1.0 - 10_f64.powf(-wet.rain_db / 10.0)) / 150.0).log10();
        assert!((clear.c_n_db - wet.c_n_db - wet.rain_db - added).abs() < 1e-9);
        // The satellite's antenna points at the warm Earth anyhow: the rain adds no noise.
        let up = own.signal(&path(40.0), false);
        assert!((clear.c_n_db - up.c_n_db - wet.rain_db).abs() < 1e-9);
        let rate = |s: Signal| s.carried.unwrap().rate_bps;
        assert!(rate(wet) < rate(clear));
    }

    #[test]
    fn rates_by_hand() {
        // C/N 15.77 dB minus gases, Es/N0 0.79 dB more in 200 Msymbol/s, 1 dB margin: 32APSK 5/6, which needs 14.28 dB.
        let clear = carrier(Waveform::DvbS2).signal(&path(0.0), true);
        let by_hand = 36.0 + 9.0 - 174.03 + 228.60 - 83.80 - clear.gas_db;
        assert!((clear.c_n_db - by_hand).abs() < 0.02, "{clear:?}");
        let carried = clear.carried.unwrap();
        assert_eq!(carried.name, "32APSK 5/6");
        assert!((carried.rate_bps - 200e6 * 4.119_540).abs() < 1.0);
        let fixed = carrier(Waveform::Fixed(DVB_S2[3])).signal(&path(0.0), true);
        assert_eq!(fixed.carried.unwrap().name, "QPSK 1/2");
        let shannon = carrier(Waveform::Shannon).signal(&path(0.0), true);
        let es_n0 = 10_f64.powf((clear.c_n_db + 0.7918 - 1.0) / 10.0);
        let rate = shannon.carried.unwrap().rate_bps;
        assert!((rate / (200e6 * (1.0 + es_n0).log2()) - 1.0).abs() < 1e-4);
    }

    #[test]
    fn farther_is_slower_until_nothing_is_left() {
        // The budget of `rates_by_hand` at the same range, without gases: 16.4 dB less 1 dB of margin, 32APSK 8/9 at 15.69.
        let own = carrier(Waveform::DvbS2);
        let rate = |range_m| own.in_space(range_m).map(|c| c.rate_bps);
        assert!(rate(1e6) >= own.signal(&path(0.0), true).carried.map(|c| c.rate_bps));
        let by_range: Vec<_> = (1..40).map(|n| rate(2.5e5 * f64::from(n))).collect();
        assert!(by_range.is_sorted_by(|near, far| near >= far));
        assert!(by_range[0] > by_range[30] && rate(1e8).is_none());
    }

    #[test]
    fn a_link_that_does_not_close_carries_nothing() {
        let mut weak = carrier(Waveform::DvbS2);
        weak.budget.eirp_dbw = 10.0;
        assert_eq!(weak.signal(&path(0.0), true).carried, None);
    }

    #[test]
    fn bit_errors_are_the_textbooks() {
        // Q(0) = 1/2, Q(1) = 0.158655, Q(4.264891) = 1e-5 (Abramowitz and Stegun, 26.2).
        for (x, q) in [
            (0.0, 0.5),
            (1.0, 0.158_655_254),
            (3.0, 1.349_898e-3),
            (4.264_891, 1e-5),
        ] {
            assert!((q_function(x) / q - 1.0).abs() < 1e-5, "{x}");
        }
        // Eb/N0 of 9.588 dB: bit error ratio 1e-5, so 11.4 % of 12,112-bit frames.
        let mut own = carrier(Waveform::Uncoded(2));
        own.margin_db = 0.0;
        let clear = own.signal(&path(0.0), true);
        own.budget.eirp_dbw += 9.588 + 10.0 * 2_f64.log10() - (clear.c_n_db + 0.7918);
        let carried = own.signal(&path(0.0), true).carried.unwrap();
        assert!((carried.loss_ratio - 0.1141).abs() < 0.002, "{carried:?}");
        assert!((carried.rate_bps - 400e6).abs() < 1.0);
    }
}
