//! Where satellites are: element sets, propagation, frames and visibility.
//!
//! Pure: no clock, no files, no network. Time comes in as [`constel_units::Utc`].

#![forbid(unsafe_code)]
