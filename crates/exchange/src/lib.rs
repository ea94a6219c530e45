//! Foreign formats, in and out.
//!
//! - [`oem`], [`csv`]: ephemerides as CCSDS Orbit Ephemeris Messages and as CSV; [`ephemeris`] interpolates them.
//! - [`czml`]: scenes for Cesium. [`map`]: a static map as SVG.
//! - [`hypatia`], [`starperf`], [`starrynet`], [`celestial`]: other simulators' descriptions of a network, read
//!   into a [`draft::Draft`] that prints as a Constel scenario and says what could not be carried over.
//!
//! Pure: texts in, texts out; no files, no clock. Readers never panic, whatever they are given.
#![forbid(unsafe_code)]

pub mod celestial;
pub mod csv;
pub mod czml;
pub mod draft;
pub mod ephemeris;
pub mod hypatia;
pub mod map;
pub mod oem;
pub mod starperf;
pub mod starrynet;
mod text;
mod toml;
mod xml;

pub use text::{ReadError, ReadErrors};
