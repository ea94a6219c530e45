//! One scenario many times: the differences between runs, and their combined results.
//!
//! * [`Design`]: every combination of some settings, each with every seed; the [cells](Design::cells) in the order in
//!   which they run, all of them or those of a [`Shard`].
//! * [`Table`]: the figures of all flows over the runs of each combination: means with 95 % confidence
//!   [intervals](Interval), as rows, CSV and a picture.
//! * [`Comparison`]: two runs or two groups of repeats, figure by figure, and whether each difference is more
//!   than noise.
//!
//! This module runs no programs and reads no files; `constel-control` does.
//!
//! ```
//! use constel_analysis::sweep::Design;
//!
//! let axes = ["traffic[0].tcp.congestion=bbr,cubic"].map(|axis| axis.parse().unwrap());
//! let design = Design::new("a.yaml", "constel: 1", axes.to_vec(), (1..=3).collect()).unwrap();
//! assert_eq!(design.cells().count(), 6);
//! ```

mod compare;
mod design;
mod figures;
mod interval;
mod picture;
mod record;
mod seeds;
mod shard;
mod table;

pub use compare::{Compared, Comparison, Noise, SAMPLED, Samples, Side};
pub use design::{Axis, Cell, Design, DesignError, Variant};
pub use figures::{Figure, figures};
pub use interval::Interval;
pub use picture::Picture;
pub use record::{Record, RecordedChoice};
pub use seeds::Seeds;
pub use shard::Shard;
pub use table::{Done, Row, Runs, Table};
