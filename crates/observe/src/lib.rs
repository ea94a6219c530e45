//! What a run saw, and whether it may be trusted.
//!
//! * [`flows`]: results of the scenario's own traffic, parsed from the tools' raw output, which is kept.
//! * [`quantiles`]: p50/p99 of exact samples.
//! * [`verdict`]: did the host keep up? The only place that decides.
//! * [`results`]: the results folder (`manifest.json`, `summary.json`, `events.ndjson`, `flows/`).
//!
//! This crate reads no clock and starts no process: times come in as arguments. What happened while a run went on is
//! in its event log, which `constel-lab` keeps and whose events `constel-api` defines.
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
