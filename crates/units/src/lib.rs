//! Typed quantities: every number a user writes carries its unit, and every number the code
//! carries has a type that knows it.
//!
//! Text is `<number><optional space><unit>`, for example `550 km`, `12 ms`, `1 Gbit/s`. A unit is
//! always required, also for zero. Integer quantities ([`TimeSpan`], [`DataRate`], [`DataSize`],
//! [`Utc`]) are parsed in exact decimal arithmetic: `0.1 Gbit/s` is 100 000 000 bit/s to the bit,
//! and a number finer than the quantity can hold is an error, not a rounding.
//!
//! Two modules handle bytes from other programs, which every crate reads or prints: [`files`] and [`shown`].
//!
//! Printing and parsing round-trip: `text.parse::<Q>()?.to_string().parse::<Q>()? == q`.
//!
//! ```
//! use constel_units::{DataRate, TimeSpan};
//!
//! let rate: DataRate = "0.1 Gbit/s".parse()?;
//! assert_eq!(rate.bps(), 100_000_000);
//! assert_eq!("12 ms".parse::<TimeSpan>()?.ns(), 12_000_000);
//! let error = "12".parse::<TimeSpan>().unwrap_err();
//! assert!(error.to_string().contains("unit"), "{error}");
//! # Ok::<(), constel_units::UnitError>(())
//! ```

#![forbid(unsafe_code)]

mod data;
mod decimal;
mod error;
pub mod files;
mod format;
mod instant;
mod parse;
mod quantity;
mod radio;
mod scalar;
mod serial;
pub mod shown;
pub mod text;
mod time;
mod utc;

pub use data::{DataRate, DataSize};
pub use error::{FORMATS, UnitError};
pub use format::{format_example, parse_format};
pub use instant::instant;
pub use radio::{Decibels, FigureOfMerit, Frequency, Power, RainRate, Temperature};
pub use scalar::{Angle, Length, Ratio, Speed};
pub use time::TimeSpan;
pub use utc::Utc;

/// Speed of light in vacuum, m/s (exact by definition of the metre).
pub const SPEED_OF_LIGHT_M_PER_S: f64 = 299_792_458.0;
