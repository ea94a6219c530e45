//! The rate of a radio link to a satellite: attenuation by rain and gases, free-space loss, link budget, and
//! the modulation and coding that they allow.
//!
//! Pure: numbers in, numbers out. Frequencies in GHz where a Recommendation has its formulas in GHz, else in Hz.
//! Left out: clouds (ITU-R P.840) and scintillation (P.618, section 2.4).
//!
//! - [`rain`]: ITU-R P.838-3 and P.618-13. [`gas`]: P.676-12. [`budget`]: carrier to noise. [`modcod`]: the
//!   rate at a carrier-to-noise ratio. [`carrier`]: all of it together.
//!
//! ```
//! use constel_topology::radio::{free_space_loss_db, specific};
//!
//! // 550 km straight up at 12 GHz, and a kilometre of heavy rain on the way.
//! let loss_db = free_space_loss_db(550e3, 12e9);
//! assert!((loss_db - 168.8).abs() < 0.1, "{loss_db}");
//! let rain_db = specific(12.0, std::f64::consts::FRAC_PI_2, 0.0).db_per_km(50.0);
//! assert!(rain_db > 1.0 && rain_db < 3.0, "{rain_db}");
//! ```

pub mod budget;
pub mod carrier;
pub mod gas;
mod gas_lines;
pub mod modcod;
pub mod rain;

pub use budget::{Budget, free_space_loss_db};
pub use carrier::{Carried, Carrier, Signal, SlantPath, Waveform};
pub use gas::{Air, Gases, REFERENCE_VAPOUR_G_PER_M3};
pub use modcod::{DVB_S2, Modcod, best};
pub use rain::{RainPath, Specific, default_rain_height_m, specific};
