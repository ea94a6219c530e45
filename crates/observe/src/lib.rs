//! What a run saw, and whether it may be trusted.
//!
//! * [`flows`]: results of the scenario's own traffic, parsed from the tools' raw output, which is kept.
//! * [`quantiles`]: p50/p99 of exact samples.
//! * [`verdict`]: did the host keep up? The only place that decides.
//! * [`results`]: the results folder (`manifest.json`, `summary.json`, `events.ndjson`, `flows/`).
//!
//! This crate reads no clock and starts no process: times come in as arguments. What happened while a run went on is
//! in its event log, which `constel-lab` keeps and whose events `constel-api` defines.
#![forbid(unsafe_code)]

pub mod flows;
pub mod plot;
pub mod quantiles;
pub mod results;
pub mod verdict;
