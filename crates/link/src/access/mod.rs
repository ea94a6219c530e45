//! Access: the link between a terminal, its satellite and its gateway, beyond geometry.
//!
//! Geometry gives the delay of light. A terminal measures more: it waits for its turn in a frame and for grants, shares
//! its cell, and loses its link for a moment when the scheduler assigns another satellite. [`Access`] describes these
//! parts. Each part can be left out.
//!
//! All random numbers are functions of a [`Terminal`] and of the position in time, not of the traffic. Two frames that
//! are sent at the same instant have the same delay, and another frame in between changes neither. Time is an argument:
//! [`Access::fate`] reads no clock.
//!
//! ```
//! use constel_link::access::{Access, Direction, Fate, Passage, Terminal, preset};
//!
//! let access: Access = preset("starlink-2025").unwrap().access;
//! let terminal = Terminal::new(42, 7);
//! let mut up = Passage::new(Direction::Up);
//! match up.send(&access, &terminal, 1_000_000_000) {
//!     Fate::Out { at_ns } => assert!(at_ns > 1_000_000_000),
//!     Fate::Lost(cause) => println!("lost: {}", cause.as_str()),
//! }
//! ```

mod check;
mod draw;
mod edge;
mod partial;
mod parts;
mod pass;
mod presets;
mod report;
mod sky;
mod slot;

pub use draw::Terminal;
pub(crate) use edge::AccessState;
pub use edge::EdgeAccess;
pub use parts::{
    Access, Blockage, Cell, Changes, Direction, Gap, Grants, HOURS, Leg, Partial, Rate,
    Retransmission, Slots, Step,
};
pub use pass::{Fate, LostBy, Passage};
pub use presets::{PRESETS, Preset, Residual, preset, preset_names};
pub use report::Part;
pub use sky::Sky;
pub use slot::{Interval, Slot};
