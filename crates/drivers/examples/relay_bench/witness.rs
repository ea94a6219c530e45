//! What of a figure is the relay's, and what the machine's: by witnesses on both sides of it.
//!
//! The sender knows from when to when each of its system calls took, and when it woke up late; the relay's thread
//! keeps book of when it wanted to run and did not (`stalls`, 0.2 ms and more).

use std::ops::Range;

use constel_drivers::Links;
use constel_drivers::mono_ns;
use constel_drivers::relay::RelayHandle;
use constel_link::{Histogram, Quantiles};

use crate::support::real_ns;

/// A frame that arrived, by `CLOCK_REALTIME`, ns.
pub(crate) struct Passage {
    /// The system call that sent it.
    pub(crate) sent: Range<u64>,
    /// The kernel's stamp at the far end.
    pub(crate) at: u64,
}

/// When the relay's thread wanted to run and did not, by `CLOCK_REALTIME`, in order.
pub(crate) fn stalls(handle: &RelayHandle) -> Vec<Range<u64>> {
    let ahead = real_ns() - mono_ns();
    let stalls = handle.stalls().unwrap();
    let shift = |s: &constel_drivers::Stall| s.from_ns + ahead..s.to_ns + ahead;
    stalls.iter().map(shift).collect()
}

/// How late frames were at least: from the end of the system call that sent each, without the time in which the
/// relay's thread was kept from running since it was due.
pub(crate) fn unexplained(passages: &[Passage], delay_ns: u64, stalls: &[Range<u64>]) -> Quantiles {
    let mut errors = Histogram::new();
    for passage in passages {
        let due = passage.sent.end + delay_ns;
        let within = |s: &Range<u64>| s.end.min(passage.at).saturating_sub(s.start.max(due));
        let first = stalls.partition_point(|s| s.end <= due);
        let of_machine: u64 = stalls[first..]
            .iter()
            .take_while(|s| s.start < passage.at)
            .map(within)
            .sum();
        errors.record(passage.at.saturating_sub(due).saturating_sub(of_machine));
    }
    errors.quantiles()
}
