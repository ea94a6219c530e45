//! The measurements of a run, whether they may be trusted, and the tools that make them.
//!
//! * [`flows`]: results of the scenario's own traffic, parsed from the tools' raw output, which is kept.
//! * [`columns`]: units in the names of columns.
//! * [`compare`]: distances between a run and a measurement.
//! * [`quantiles`]: p50/p99 of exact samples.
//! * [`verdict`]: whether the host kept up. Only this module decides it.
//! * [`recording`]: recordings of other tools, and the files by which links replay them.
//! * [`results`]: the results folder (`manifest.json`, `summary.json`, `events.ndjson`, `flows/`).
//! * [`rotating`]: files of labs without an end, with a bound.
//! * [`plot`]: pictures of them.
//!
//! These modules read no clock and start no process: times are arguments. The events of a run are in its event log, which
//! `constel-lab` keeps and whose events `constel-api` defines. Two modules are
//! tools, which send and receive:
//!
//! * [`probe`]: the probes of `ping` flows.
//! * [`transfer`]: bulk transfers over LEOTP, TCP and others; the program `constel-transfer`.
//!
//! ```
//! use constel_measure::verdict::{Bounds, Fidelity};
//!
//! let mut seen = Fidelity { frames_released: 1_000_000, lateness_p99_ns: 40_000, ..Fidelity::default() };
//! assert!(seen.judge(Bounds::default()).trustworthy);
//! seen.emulator_drops.push(("pool".into(), 3));
//! let verdict = seen.judge(Bounds::default());
//! assert!(!verdict.trustworthy);
//! assert_eq!(verdict.reasons.len(), 1);
//! ```
#![deny(unsafe_code)]

pub mod columns;
pub mod compare;
pub mod flows;
pub mod plot;
pub mod probe;
pub mod quantiles;
pub mod recording;
pub mod results;
pub mod rotating;
pub mod transfer;
pub mod verdict;
