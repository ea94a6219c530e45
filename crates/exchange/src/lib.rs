//! Foreign formats, in and out.
//!
//! - [`oem`], [`csv`], [`sp3`], [`stk`]: ephemerides as CCSDS Orbit Ephemeris Messages, as CSV, as SP3 and as STK's files;
//!   [`position_files`] reads any of them, [`ephemeris`] interpolates.
//! - [`czml`]: scenes for Cesium. [`map`]: a static map as SVG. [`graph`]: a network as DOT, for draw.io, as GraphML.
//! - [`hypatia`], [`starperf`], [`starrynet`], [`celestial`], [`opensn`], [`compose`]: other tools'
//!   descriptions of a network, read into a [`draft::Draft`] that prints as a Constel scenario and notes which
//!   settings could not be carried over.
//! - [`nistnet`]: NIST Net's rows, read as the rules of a box.
//! - [`pcapng`]: captured frames.
//!
//! Pure: texts in, texts out; no files, no clock. Readers never panic, whatever their input.
//!
//! ```
//! use constel_exchange::csv;
//!
//! let text = "t_utc,sat_id,x_m,y_m,z_m,frame\n\
//!             2026-11-22T00:00:00Z,one,7000000,0,0,itrf\n\
//!             2026-11-22T00:00:10Z,one,7000000,75000,0,itrf\n";
//! let objects = csv::parse(text)?;
//! assert_eq!(objects.len(), 1);
//! assert_eq!(csv::parse(&csv::write(&objects))?.len(), 1);
//!
//! let errors = csv::parse("t_utc,where\n").unwrap_err();
//! assert!(errors.to_string().contains("the first line"), "every error says its line");
//! # Ok::<(), constel_exchange::ReadErrors>(())
//! ```
#![forbid(unsafe_code)]

pub mod celestial;
pub mod compose;
pub mod csv;
pub mod czml;
pub mod draft;
pub mod ephemeris;
pub mod graph;
pub mod hypatia;
pub mod map;
pub mod nistnet;
pub mod oem;
pub mod opensn;
pub mod pcapng;
pub mod position_files;
mod reference;
pub mod sp3;
pub mod starperf;
pub mod starrynet;
mod states;
pub mod stk;
mod text;
mod xml;

pub use text::{ReadError, ReadErrors};
