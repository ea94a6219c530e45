//! Probes between two nodes: round-trip times and, if both are on one host, one-way delays in both directions, with
//! nanosecond resolution and in bounded memory.
//!
//! The [sender](ask()) sends numbered UDP datagrams at a steady rate; the [responder](answer()) returns each of
//! them with the instant at which it arrived. On one host both read the same `CLOCK_MONOTONIC`, so that one-way
//! delays need no synchronised clocks, and setting the wall clock does not disturb them. The kernel stamps an
//! arrival when the frame comes in. The time that a program waits for a processor before it reads the datagram is
//! therefore not part of the results.
//!
//! * [`row`]: a probe and its fate, as a line of CSV.
//! * [`packet`]: the format of a datagram.
//! * [`book`]: the probes that wait for an answer. Pure.
//! * [`ask()`] and [`answer()`]: the two ends.
//!
//! ```
//! use constel_measure::probe::book::Book;
//! use constel_measure::probe::row::Fate;
//!
//! let mut book = Book::default();
//! let (first, _) = book.sent(1_000_000);
//! let (second, _) = book.sent(2_000_000);
//! let row = book.answered(second as u32, 5_500_000, 9_000_000, 0).unwrap();
//! assert_eq!((row.there_ns, row.back_ns), (Some(3_500_000), Some(3_500_000)));
//! // The first one's answer comes after the second's.
//! let row = book.answered(first as u32, 5_600_000, 9_100_000, 0).unwrap();
//! assert_eq!(row.fate, Fate::Reordered);
//! ```

mod answer;
mod ask;
pub mod book;
pub mod packet;
pub mod row;
mod stamped;

pub use answer::{LISTENING, answer};
pub use ask::{ProbeOptions, ask};
