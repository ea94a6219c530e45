//! Distances between two series, usually a run and a measurement: distributions, slots, memory, losses.
//!
//! ```
//! use constel_measure::compare::{Distance, Probe, Series, SlotTimes};
//!
//! let series = |add_ms: f64| Series {
//!     probes: (0..600).map(|n| Probe { t_s: f64::from(n) / 10.0, rtt_ms: Some(30.0 + add_ms) }).collect(),
//!     ..Series::default()
//! };
//! let distance = Distance::between(&series(2.0), &series(0.0), Some(SlotTimes::default()));
//! assert_eq!(distance.rtt_ms.unwrap().w1, 2.0);
//! ```

mod distance;
mod loss;
mod series;
mod slots;
mod spread;

pub use distance::Distance;
pub use loss::Losses;
pub use series::{Probe, Series, Values};
pub use slots::{Profile, SlotTimes, medians, profile};
pub use spread::{Pair, QUANTILES, Spread, autocorrelation, ks, w1};
