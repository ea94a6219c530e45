//! Probes between two nodes: round trip and, where both are on one host, both one-way delays, to the nanosecond, in bounded memory.
//!
//! Whoever [asks](ask()) sends numbered UDP datagrams at a steady pace; whoever [answers](answer()) sends each back with
//! the instant it came. On one host both read the same `CLOCK_MONOTONIC`, so that one-way delays need no synchronised clocks, and
//! nobody who sets the wall clock disturbs them. Arrivals are stamped by the kernel when the frame comes in: that a program
//! had to wait for a processor before it could read is not in the figures.
//!
//! * [`row`]: a probe and what became of it, as a line of CSV.
//! * [`packet`]: what is in a datagram.
//! * [`book`]: which probes wait for an answer. Pure.
//! * [`ask()`] and [`answer()`]: the two ends.
//!
//! ```
//! use constel_probe::book::Book;
//! use constel_probe::row::Fate;
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
#![deny(unsafe_code)]

mod answer;
mod ask;
pub mod book;
pub mod packet;
pub mod row;
mod stamped;

pub use answer::{LISTENING, answer};
pub use ask::{Ask, ask};
