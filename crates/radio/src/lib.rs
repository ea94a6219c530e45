//! What a radio link to a satellite carries: rain attenuation, free-space loss, link budget, and the modulation and
//! coding it leaves room for.
//!
//! Pure: numbers in, numbers out. Frequencies in GHz where a Recommendation has its formulas in GHz, else in Hz.
//! Left out: gases (ITU-R P.676), clouds (P.840) and scintillation (P.618, section 2.4).
//!
//! - [`rain`]: ITU-R P.838-3 and P.618-13. [`budget`]: carrier to noise. [`modcod`]: what that carries.
#![forbid(unsafe_code)]

pub mod budget;
pub mod modcod;
pub mod rain;

pub use budget::{Budget, free_space_loss_db};
pub use modcod::{DVB_S2, Modcod, best};
pub use rain::{RainPath, Specific, default_rain_height_m, specific};
