//! One radio channel that several ports share, in virtual time.
//!
//! A [`Medium`] has ports. [`Medium::hear`] sets which port hears which, how late and how well. A port's frames wait in
//! its queue until its [`Access`] lets it send. A frame then occupies the channel for [`Spec::airtime_ns`], once,
//! however many ports hear it. A port is deaf while it sends, and if two frames overlap at a receiver, both are lost
//! there. Everything that happens to a frame is an [`Event`] and is counted.
//!
//! The module does not read a clock: [`Medium::next_ns`] returns the next instant at which an event is due,
//! [`Medium::advance`] processes it. The same seed, ports and frames give the same events.
//!
//! ```
//! use constel_link::medium::{Access, Event, Frame, Reception, Medium, Spec};
//!
//! let spec = Spec { rate_bps: 1_000_000, preamble_ns: 192_000, guard_ns: 50_000, access: Access::Aloha, queue_bytes: 64_000, seed: 1 };
//! let mut radio = Medium::new(spec, 3)?;
//! for to in [1, 2] {
//!     radio.hear(0, to, Some(Reception { delay_ns: 213_500, ..Reception::default() }));
//! }
//! assert!(radio.send(0, 0, Frame { id: 7, bytes: 1000, rate_bps: None }).is_ok());
//! let mut events = Vec::new();
//! while let Some(at_ns) = radio.next_ns() {
//!     radio.advance(at_ns, &mut events);
//! }
//! // One airtime, two receivers: 192 us of preamble, 8 ms of bits, 213.5 us of way.
//! let heard = events.iter().filter(|e| matches!(e, Event::Heard { at_ns: 8_405_500, .. }));
//! assert_eq!(heard.count(), 2);
//! assert_eq!(radio.counters(0).airtime_ns, 8_192_000);
//! # Ok::<(), constel_link::medium::SpecError>(())
//! ```

mod agenda;
mod channel;
mod port;
mod spec;

pub use channel::{Event, Medium};
pub use port::{Counters, Refused};
pub use spec::{Access, Frame, Reception, ReceptionLoss, Shared, Spec, SpecError};
