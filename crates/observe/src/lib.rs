//! What a run saw, and whether it may be trusted.
//!
//! * [`events`]: the run's log, one JSON object per line, snapshot-then-deltas for followers.
//! * [`flows`]: results of the scenario's own traffic, parsed from the tools' raw output, which is kept.
//! * [`quantiles`]: p50/p99 of exact samples.
//! * [`verdict`]: did the host keep up? The only place that decides.
//! * [`results`]: the results folder (`manifest.json`, `summary.json`, `events.ndjson`, `flows/`).
//!
//! This crate reads no clock and starts no process: times come in as arguments.
#![forbid(unsafe_code)]

pub mod events;
pub mod flows;
pub mod plot;
pub mod quantiles;
pub mod results;
pub mod verdict;
