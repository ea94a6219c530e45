//! The measurements of a run, and whether they may be trusted.
//!
//! * [`flows`]: results of the scenario's own traffic, parsed from the tools' raw output, which is kept.
//! * [`quantiles`]: p50/p99 of exact samples.
//! * [`verdict`]: whether the host kept up. Only this module decides it.
//! * [`results`]: the results folder (`manifest.json`, `summary.json`, `events.ndjson`, `flows/`).
//!
//! This crate reads no clock and starts no process: times are arguments. The events of a run are in its event log,
//! which `constel-lab` keeps and whose events `constel-api` defines.
//!
//! ```
//! use constel_observe::verdict::{Bounds, Fidelity};
//!
//! let mut seen = Fidelity { frames_released: 1_000_000, lateness_p99_ns: 40_000, ..Fidelity::default() };
//! assert!(seen.judge(Bounds::default()).trustworthy);
//! seen.unintended_drops.push(("pool".into(), 3));
//! let verdict = seen.judge(Bounds::default());
//! assert!(!verdict.trustworthy);
//! assert_eq!(verdict.reasons.len(), 1);
//! ```
#![forbid(unsafe_code)]

pub mod flows;
pub mod plot;
pub mod quantiles;
pub mod results;
pub mod verdict;
