//! Answers about a planned scenario that no running lab needs.
//!
//! All of them look at the links of a [`constel_plan::Lab`] at many instants of an [`Interval`] and put together what
//! they see: when who hears whom ([`ContactPlan`]), where there is coverage and whether flows have a path
//! ([`Coverage`]), delays and paths between pairs of nodes over time ([`Series`], over [`Paths`]), and files for other
//! tools ([`exports`]). Nothing here touches the host.
// Not `forbid`: `paths::lanes` asks for vector instructions that only some processors have.
#![deny(unsafe_code)]

mod contacts;
mod coverage;
pub mod exports;
mod interval;
mod paths;
mod series;

pub use contacts::{Contact, ContactPlan, ContactRow};
pub use coverage::{Coverage, FlowCover, StationCover};
pub use interval::{Interval, IntervalError};
pub use paths::{LANES, Paths};
pub use series::{MAX_POINTS, Point, Series, SeriesError, Summary, parse_pairs};
