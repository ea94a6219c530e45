//! What the relay counts.

use std::collections::BTreeMap;

use constel_link::{Nanos, PlaneReport, Quantiles, Totals};
use constel_transit::Cause;
use serde::Serialize;

use super::transit::TransitCounts;
use crate::DriverKind;
use crate::stats::{BACKLOG, PlaneStats, StallStats};

/// Frames lost by the emulator itself, by cause. All zero in a sound run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnintendedDrops {
    /// No free slot when a frame came in.
    pub pool: u64,
    /// The port held more than its share of the slots or of the ring: it floods, and the others
    /// need room too.
    pub share: u64,
    /// Descriptor ring full.
    pub ring: u64,
    /// Super-frame of another protocol than TCP (the port was made without [`super::send_tcp_gso`]), or of many more
    /// frames than [`super::GSO_MAX_SEGS`].
    pub gso: u64,
    /// Larger than a slot (2,012 bytes with its Ethernet header), or shorter than 16 bytes.
    pub size: u64,
    /// Could not be read, from an interface that is no port, or with a checksum that belongs outside of it.
    pub error: u64,
    /// No slot for the copy of a multicast frame, or for a frame cut out of a GSO frame.
    pub no_buffer: u64,
    /// Let go because the host did not keep up: later than 10 ms on an edge that was behind all the time for 50 ms, or
    /// later than 50 ms if it had come over another edge before.
    pub overload: u64,
    /// Refused by AF_XDP as malformed, or a GSO frame that the kernel did not take: always 0.
    pub trunk: u64,
    /// Sent, but not seen behind the trunk (kernel backlog full). Frames under way at the moment
    /// of the snapshot are counted too, so only a value that stays says something.
    pub backlog: u64,
}

impl UnintendedDrops {
    /// All of them, without `backlog`.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.pool
            + self.share
            + self.ring
            + self.gso
            + self.size
            + self.error
            + self.no_buffer
            + self.overload
            + self.trunk
    }
}

/// The relay at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RelayStats {
    /// When, on `CLOCK_MONOTONIC`.
    pub at_ns: Nanos,
    /// Sums over all edges, past ones included; drops the scenario asked for are in here.
    pub totals: Totals,
    /// Drops nobody asked for.
    pub unintended: UnintendedDrops,
    /// Frames captured at ports; a GSO frame counts as one.
    pub captured: u64,
    /// Frames that ports sent before the thread was started: there was no edge for them.
    pub before_start: u64,
    /// Frames on the relay's own interfaces that it did not send: always 0.
    pub foreign: u64,
    /// Warm-up packets that came to their end (frames of the relay's own, seen by no node).
    #[serde(rename = "rehearsals")]
    pub warm_ups: u64,
    /// Frames given to the kernel for delivery; a super-frame counts as one.
    pub injected: u64,
    /// Frames handed into a node; a super-frame counts as one.
    pub delivered: u64,
    /// Frames of TCP streams that went as parts of super-frames made of them here.
    pub joined: u64,
    /// Actual minus due time of every frame released since the start; never negative.
    pub lateness: Quantiles,
    /// Of that, what the machine is not to blame for: without the time in which the relay's thread
    /// wanted to run and did not.
    pub own_lateness: Quantiles,
    /// That time: waking up later than asked for, and being stopped.
    pub stalls: StallStats,
    /// Frames released before their time. Always 0; counted to prove it.
    pub early: u64,
    /// Slots not in use.
    pub free_slots: usize,
    /// CPU time of the relay's thread.
    pub cpu_ns: Nanos,
    /// For how long processors were kept from deep sleep because frames were under way.
    pub awake_ns: Nanos,
    /// Wall-clock time since the thread was started.
    pub uptime_ns: Nanos,
    /// Times the thread slept and was woken (by a frame, a timer or a command).
    pub sleeps: u64,
    /// Times the kernel did not take a batch for a while; the frames were late, not lost.
    pub trunk_stalls: u64,
    /// Times the kernel's queue of received frames was full and a frame was handed over again; late, not lost.
    pub refused: u64,
    /// How long before a frame is due the thread wakes up at present.
    pub lead_ns: Nanos,
    /// Updates applied.
    pub updates: u64,
    /// Longest time one update took.
    pub longest_update_ns: Nanos,
    /// What nodes without a stack did, if there are any.
    pub transit: Option<TransitCounts>,
}

impl RelayStats {
    /// What only the relay counts, by the names of the fields.
    pub(crate) fn own_counters(&self) -> BTreeMap<String, u64> {
        // A field that is added must be named here: as a counter, or among those that all drivers have.
        let RelayStats {
            at_ns: _,
            totals: _,
            unintended: _,
            captured,
            before_start,
            foreign,
            warm_ups,
            injected,
            delivered,
            joined,
            lateness: _,
            own_lateness: _,
            stalls: _,
            early: _,
            free_slots,
            cpu_ns,
            awake_ns,
            uptime_ns,
            sleeps,
            trunk_stalls,
            refused,
            lead_ns,
            updates,
            longest_update_ns,
            transit,
        } = *self;
        let counters = [
            ("captured", captured),
            ("before_start", before_start),
            ("foreign", foreign),
            ("rehearsals", warm_ups),
            ("injected", injected),
            ("delivered", delivered),
            ("joined", joined),
            ("free_slots", free_slots as u64),
            ("cpu_ns", cpu_ns),
            ("awake_ns", awake_ns),
            ("uptime_ns", uptime_ns),
            ("sleeps", sleeps),
            ("trunk_stalls", trunk_stalls),
            ("refused", refused),
            ("lead_ns", lead_ns),
            ("updates", updates),
            ("longest_update_ns", longest_update_ns),
        ];
        let counters = counters.map(|(name, count)| (name.to_owned(), count));
        let counters = counters.into_iter();
        let in_transit = transit.into_iter().flat_map(|counts| {
            let dropped = Cause::ALL.map(|cause| {
                let name = format!("forward_dropped_{}", cause.word());
                (name, counts.dropped_for(cause))
            });
            let kept = [
                ("forwarded", counts.forwarded),
                ("answered", counts.answered),
            ];
            let kept = kept.map(|(name, count)| (name.to_owned(), count));
            kept.into_iter().chain(dropped)
        });
        counters.chain(in_transit).collect()
    }
}

impl From<RelayStats> for PlaneStats {
    fn from(stats: RelayStats) -> PlaneStats {
        let lost = &stats.unintended;
        let unintended = vec![
            ("pool", lost.pool),
            ("share", lost.share),
            ("ring", lost.ring),
            ("gso", lost.gso),
            ("size", lost.size),
            ("error", lost.error),
            ("no_buffer", lost.no_buffer),
            ("overload", lost.overload),
            ("trunk", lost.trunk),
            (BACKLOG, lost.backlog),
        ];
        PlaneStats {
            driver: DriverKind::Relay,
            totals: stats.totals,
            lateness: stats.lateness,
            own_lateness: stats.own_lateness,
            stalls: stats.stalls,
            early: stats.early,
            detail: PlaneReport {
                driver: DriverKind::Relay,
                at_ns: stats.at_ns,
                totals: stats.totals,
                unintended: unintended.iter().copied().collect(),
                lateness: Some(stats.lateness),
                own_lateness: Some(stats.own_lateness),
                stalls: Some(stats.stalls),
                early: Some(stats.early),
                counters: stats.own_counters(),
            },
            unintended,
        }
    }
}
