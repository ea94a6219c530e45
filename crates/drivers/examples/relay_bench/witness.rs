//! Separation of the relay's part of a figure from the machine's, by records on both sides.
//!
//! The sender records the start and end of each of its system calls, and late wake-ups. The relay's thread records when
//! it was ready but did not run (`stalls`, 0.2 ms and more).

use std::ops::Range;

use constel_drivers::Links;
use constel_drivers::mono_ns;
use constel_drivers::relay::RelayHandle;
use constel_link::{Histogram, Quantiles};

use crate::support::real_ns;

/// A frame that arrived, by `CLOCK_REALTIME`, ns.
pub(crate) struct Passage {
    /// Start and end of the system call that sent it.
    pub(crate) sent: Range<u64>,
    /// The kernel's stamp at the far end.
    pub(crate) at: u64,
}

/// Periods in which the relay's thread was ready but did not run, by `CLOCK_REALTIME`, in order.
pub(crate) fn stalls(handle: &RelayHandle) -> Vec<Range<u64>> {
    let ahead = real_ns() - mono_ns();
    let stalls = handle.stalls().unwrap();
    let shift = |s: &constel_drivers::Stall| s.from_ns + ahead..s.to_ns + ahead;
    stalls.iter().map(shift).collect()
}

/// Lower bound of the frames' lateness: from the end of the system call that sent each, without the time in which the
/// relay's thread was kept from running since the frame was due.
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
