//! Answers about a planned scenario that no running lab needs.
//!
//! All of them sample the links of a [`constel_plan::Lab`] at many instants of an [`Interval`] and combine the
//! samples: contacts over time ([`ContactPlan`]), coverage and the availability of paths for flows
//! ([`Coverage`]), the satellites that stations could use ([`candidates`]), positions of all nodes
//! ([`Positions`]), delays and paths between pairs of nodes over time ([`Series`], over [`Paths`]), and files
//! for other tools ([`exports`]). This crate does not touch the host.
//!
//! ```
//! use constel_analysis::{ContactPlan, Interval};
//! use constel_plan::Lab;
//! use constel_scenario::{DiskFiles, parse, resolve};
//!
//! let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/iridium.yaml");
//! let text = std::fs::read_to_string(path).unwrap();
//! let lab = Lab::new(resolve(&parse(path, &text)?, &DiskFiles::beside(path))?)?;
//! let minute = Interval::new(&lab, "0 s".parse().unwrap(), "60 s".parse().unwrap(), None).unwrap();
//! let contacts = ContactPlan::new(&lab, minute, 1);
//! assert_eq!(contacts.rows(&lab).count(), contacts.contacts.len());
//! assert!(contacts.contacts.iter().all(|contact| contact.from_ns < contact.to_ns));
//! # Ok::<(), constel_scenario::Diagnostics>(())
//! ```
// Not `forbid`: `paths::lanes` asks for vector instructions that only some processors have.
#![deny(unsafe_code)]

mod candidates;
pub mod capacity;
mod contacts;
mod coverage;
pub mod exports;
mod forest;
mod interval;
mod paths;
mod positions;
mod series;
pub mod sweep;
mod warnings;

pub use candidates::{CandidatesError, MAX_USABLE, Usable, candidates};
pub use contacts::{Contact, ContactPlan, ContactRow};
pub use coverage::{Coverage, FlowCover, StationCover};
pub use interval::{Interval, IntervalError};
pub use paths::{LANES, Paths};
pub use positions::{MAX_POSITIONS, Positions, TooManyPositions};
pub use series::{MAX_POINTS, Point, Series, SeriesError, Summary, parse_pairs};
pub use warnings::{switches_that_do_not_learn, warnings};
