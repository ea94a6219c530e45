//! The edge model of Constel, in virtual time.
//!
//! An *edge* is a directed connection between two ports with one impairment. It has three stages: **service** (rate,
//! one frame at a time) with a limited **queue** under a discipline in front of it, then a **delay line** (propagation,
//! FIFO). The crate never reads a clock, draws from a global generator or touches the kernel: `now` is an argument, so
//! the relay and the tests run the same code.
//!
//! ```
//! use constel_link::{DropCause, EdgeChange, EdgeTable, EdgeUpdate, Frames, Impairment, PortId};
//!
//! struct Numbers;
//! impl Frames<u32> for Numbers {
//!     fn duplicate(&mut self, frame: &u32) -> Option<u32> { Some(*frame) }
//!     fn discard(&mut self, _: u32, _: DropCause) {}
//!     fn flip_bit(&mut self, _: &mut u32, _: u64) {}
//! }
//!
//! let mut table = EdgeTable::new(2, 42);
//! let (from, to) = (PortId(0), PortId(1));
//! let impairment = Impairment::delay_only(5_000_000);
//! let update = EdgeUpdate { changes: vec![EdgeChange::Set { from, to, impairment }] };
//! table.apply(0, &update.check(table.ports())?, &mut Numbers)?;
//!
//! table.arrive(1_000, from, constel_link::mac_of(to), 64, 7, &mut Numbers);
//! assert_eq!(table.next_event(), Some(5_001_000));
//! assert_eq!(table.pop_due(5_000_999, &mut Numbers), None);
//! assert_eq!(table.pop_due(5_001_000, &mut Numbers).map(|d| d.frame), Some(7));
//! # Ok::<(), constel_link::UpdateError>(())
//! ```
#![forbid(unsafe_code)]

mod aqm;
mod capabilities;
mod counters;
mod discipline;
mod edge;
mod effects;
mod histogram;
mod jitter;
mod laws;
mod loss;
mod mac;
pub mod medium;
pub mod packet;
mod rate;
mod report;
mod rng;
pub mod rules;
mod supply;
mod table;
mod tally;
pub mod trace;
pub mod transit;
mod types;
mod update;
pub mod wheel;

pub use capabilities::{Capabilities, DriverKind, Refusal};
pub use counters::EdgeCounters;
pub use discipline::{CodelParams, Discipline, PieParams, RedParams};
pub use edge::{Edge, Refused, Released};
pub use effects::{CheckedEffects, EffectField, Effects, EffectsChange, EffectsError, Reorder};
pub use histogram::{Histogram, Quantiles};
pub use jitter::{Jitter, JitterLaw, JitterOrder};
pub use laws::Marks;
pub use loss::LossLaw;
pub use mac::{MAC_PREFIX, MAX_PORT, is_group, mac_of, port_of_mac};
pub use rate::{MAX_BPS, MIN_MEAN_BPS, OPPORTUNITY_BYTES, RateLaw, SLOT_NS};
pub use report::{Causes, ClassLateness, LateFrames, PlaneReport, StallStats};
pub use rng::{Rng, loss_generator, loss_threshold};
pub use table::{Applied, Delivery, EdgeStats, EdgeTable, Frames, LatenessLimits, Totals};
pub use tally::Tally;
pub use types::{Delay, DropCause, Impairment, Loss, Nanos, PortId, QueueLimit};
pub use update::{ChangeError, CheckedUpdate, EdgeChange, EdgeUpdate, UpdateError};
