//! Statistics of the relay.

use std::collections::BTreeMap;

use constel_link::transit::Cause;
use constel_link::{Histogram, LateFrames, Nanos, PlaneReport, Quantiles, Totals};
use serde::Serialize;

use super::transit::TransitCounts;
use crate::DriverKind;
use crate::stats::{BACKLOG, StallStats};

/// Frames dropped by the emulator, by cause. All counts are zero in a sound run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EmulatorDrops {
    /// No slot was free when a frame came in.
    pub pool: u64,
    /// The port held more than its share of the slots or of the ring: it floods, and the other ports need room too.
    pub share: u64,
    /// The descriptor ring was full.
    pub ring: u64,
    /// A super-frame of a protocol other than TCP (the port was made without [`super::send_tcp_gso`]), or of many more
    /// frames than [`super::GSO_MAX_SEGS`].
    pub gso: u64,
    /// The frame was larger than a slot (2,012 bytes with its Ethernet header), or shorter than 16 bytes.
    pub size: u64,
    /// The frame could not be read, came from an interface that is not a port, or had a checksum field outside of it.
    pub error: u64,
    /// No slot was free for the copy of a multicast frame, or for a frame cut out of a GSO frame.
    pub no_buffer: u64,
    /// Dropped because the host did not keep up: later than 10 ms on an edge that had been behind for 50 ms, or later
    /// than 50 ms if the frame had crossed another edge before.
    pub overload: u64,
    /// Refused by AF_XDP as malformed, or a GSO frame that the kernel refused: always 0.
    pub trunk: u64,
    /// Sent, but not received behind the trunk (kernel backlog full). Frames in transit at the moment of the snapshot
    /// are counted too, so only a value that persists is meaningful.
    pub backlog: u64,
}

impl EmulatorDrops {
    fn add(&mut self, more: &EmulatorDrops) {
        let sums = [
            (&mut self.pool, more.pool),
            (&mut self.share, more.share),
            (&mut self.ring, more.ring),
            (&mut self.gso, more.gso),
            (&mut self.size, more.size),
            (&mut self.error, more.error),
            (&mut self.no_buffer, more.no_buffer),
            (&mut self.overload, more.overload),
            (&mut self.trunk, more.trunk),
            (&mut self.backlog, more.backlog),
        ];
        for (sum, more) in sums {
            *sum += more;
        }
    }

    /// Returns the sum of all causes except `backlog`.
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

/// State and counters of the relay at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RelayStats {
    /// The instant, on `CLOCK_MONOTONIC`.
    pub at_ns: Nanos,
    /// Sums over all edges, including past ones. Drops that the scenario requests are included.
    pub totals: Totals,
    /// Frames dropped by the emulator.
    pub emulator_drops: EmulatorDrops,
    /// Frames captured at ports; a GSO frame counts as one.
    pub captured: u64,
    /// Frames that ports sent before the thread was started: no edge existed for them.
    pub before_start: u64,
    /// Frames on the relay's own interfaces that it did not send: always 0.
    pub foreign: u64,
    /// Warm-up packets that completed their path (frames of the relay's own, which no node of the lab receives).
    #[serde(rename = "rehearsals")]
    pub warm_ups: u64,
    /// Frames passed to the kernel for delivery; a super-frame counts as one.
    pub injected: u64,
    /// Frames delivered into a node; a super-frame counts as one.
    pub delivered: u64,
    /// Frames of TCP streams that were joined here and sent as parts of super-frames.
    pub joined: u64,
    /// Times deducted for nodes' stacks from forwarded frames, frame by frame, if that is enabled.
    pub deducted: Quantiles,
    /// Actual minus due time of every frame released since the start; never negative.
    pub lateness: Quantiles,
    /// Lateness without the part for which the machine is responsible: the time in which the relay's thread was ready
    /// but did not run.
    pub own_lateness: Quantiles,
    /// Numbers of frames by lateness.
    pub late_frames: LateFrames,
    /// Times in which the thread woke up later than requested, or was stopped.
    pub stalls: StallStats,
    /// Frames released before their time. Always 0; counted to prove it.
    pub early: u64,
    /// Free slots.
    pub free_slots: usize,
    /// Number of the relay's threads.
    pub threads: u32,
    /// CPU time of the relay's threads.
    pub cpu_ns: Nanos,
    /// How long processors were kept from deep sleep because frames were in flight.
    pub awake_ns: Nanos,
    /// Wall-clock time since the thread was started.
    pub uptime_ns: Nanos,
    /// Number of times that the thread slept and was woken (by a frame, a timer or a command).
    pub sleeps: u64,
    /// Number of times that the kernel did not take a batch for a while; the frames were late, not lost.
    pub trunk_stalls: u64,
    /// Number of times that the kernel's queue of received frames was full and a frame was sent again; late, not lost.
    pub refused: u64,
    /// Present lead: how long before a frame is due the thread wakes up.
    pub lead_ns: Nanos,
    /// Number of applied updates.
    pub updates: u64,
    /// Longest duration of one update.
    pub longest_update_ns: Nanos,
    /// How long the last thread has had a processor of its own, if there are as many threads as processors.
    pub apart_ns: Nanos,
    /// Counters of nodes without a stack, if there are any.
    pub transit: Option<TransitCounts>,
}

/// Statistics of one thread. Values that only all threads together give are missing.
#[derive(Clone, Debug)]
pub(crate) struct ThreadStats {
    pub(crate) stats: RelayStats,
    pub(crate) lateness: Histogram,
    pub(crate) own_lateness: Histogram,
    pub(crate) deducted: Histogram,
}

impl RelayStats {
    /// Combines the statistics of all threads; `None` if there is no thread.
    pub(crate) fn of(threads: Vec<ThreadStats>) -> Option<RelayStats> {
        let count = threads.len() as u32;
        let all = threads.into_iter().reduce(|mut sum, more| {
            sum.lateness.merge(&more.lateness);
            sum.own_lateness.merge(&more.own_lateness);
            sum.deducted.merge(&more.deducted);
            sum.stats.add(&more.stats);
            sum
        })?;
        let mut stats = all.stats;
        stats.threads = count;
        stats.lateness = all.lateness.quantiles();
        stats.own_lateness = all.own_lateness.quantiles();
        stats.late_frames = LateFrames::of(&all.lateness);
        stats.deducted = all.deducted.quantiles();
        stats.emulator_drops.backlog = stats.injected.saturating_sub(stats.delivered);
        Some(stats)
    }

    /// Adds another thread's statistics: sums of shared quantities, and the maximum of those that all threads have at
    /// once.
    fn add(&mut self, more: &RelayStats) {
        let (totals, others) = (&mut self.totals, &more.totals);
        totals.edges += others.edges;
        totals.counters.add(&others.counters);
        totals.dropped_no_edge += others.dropped_no_edge;
        totals.held += others.held;
        self.emulator_drops.add(&more.emulator_drops);
        let stalls = &mut self.stalls;
        stalls.count += more.stalls.count;
        stalls.total_ns += more.stalls.total_ns;
        stalls.longest_ns = stalls.longest_ns.max(more.stalls.longest_ns);
        stalls.in_run_queue_ns += more.stalls.in_run_queue_ns;
        // Times of one processor and not of frames: threads may share it, so the largest value counts and not the sum.
        stalls.slow_ns = stalls.slow_ns.max(more.stalls.slow_ns);
        let speeds = [stalls.least_speed_ratio, more.stalls.least_speed_ratio];
        stalls.least_speed_ratio = speeds.into_iter().flatten().reduce(f64::min);
        let sums = [
            (&mut self.captured, more.captured),
            (&mut self.before_start, more.before_start),
            (&mut self.foreign, more.foreign),
            (&mut self.warm_ups, more.warm_ups),
            (&mut self.injected, more.injected),
            (&mut self.delivered, more.delivered),
            (&mut self.joined, more.joined),
            (&mut self.early, more.early),
            (&mut self.cpu_ns, more.cpu_ns),
            (&mut self.sleeps, more.sleeps),
            (&mut self.trunk_stalls, more.trunk_stalls),
            (&mut self.refused, more.refused),
        ];
        for (sum, more) in sums {
            *sum += more;
        }
        self.free_slots += more.free_slots;
        // All threads run at the same time and make the same updates, so a sum would count them several times.
        let greatest = [
            (&mut self.at_ns, more.at_ns),
            (&mut self.awake_ns, more.awake_ns),
            (&mut self.uptime_ns, more.uptime_ns),
            (&mut self.lead_ns, more.lead_ns),
            (&mut self.updates, more.updates),
            (&mut self.longest_update_ns, more.longest_update_ns),
            (&mut self.apart_ns, more.apart_ns),
        ];
        for (most, more) in greatest {
            *most = (*most).max(more);
        }
        // Nodes without a stack all belong to one thread.
        self.transit = self.transit.or(more.transit);
    }

    /// Returns the counters that only the relay has, by the names of the fields.
    pub(crate) fn own_counters(&self) -> BTreeMap<String, u64> {
        // A new field must be listed here (the pattern is exhaustive): as a counter, or among those that all drivers
        // have.
        let RelayStats {
            at_ns: _,
            totals: _,
            emulator_drops: _,
            captured,
            before_start,
            foreign,
            warm_ups,
            injected,
            delivered,
            joined,
            deducted,
            lateness: _,
            own_lateness: _,
            late_frames: _,
            stalls: _,
            early: _,
            free_slots,
            threads,
            cpu_ns,
            awake_ns,
            uptime_ns,
            sleeps,
            trunk_stalls,
            refused,
            lead_ns,
            updates,
            longest_update_ns,
            apart_ns,
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
            ("deducted", deducted.count),
            ("deducted_p50_ns", deducted.p50_ns),
            ("deducted_p99_ns", deducted.p99_ns),
            ("deducted_max_ns", deducted.max_ns),
            ("free_slots", free_slots as u64),
            ("threads", threads.into()),
            ("cpu_ns", cpu_ns),
            ("awake_ns", awake_ns),
            ("uptime_ns", uptime_ns),
            ("sleeps", sleeps),
            ("trunk_stalls", trunk_stalls),
            ("refused", refused),
            ("lead_ns", lead_ns),
            ("updates", updates),
            ("longest_update_ns", longest_update_ns),
            ("apart_ns", apart_ns),
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

impl From<RelayStats> for PlaneReport {
    fn from(stats: RelayStats) -> PlaneReport {
        let lost = &stats.emulator_drops;
        let emulator_drops = [
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
        PlaneReport {
            driver: DriverKind::Relay,
            at_ns: stats.at_ns,
            totals: stats.totals,
            emulator_drops: emulator_drops.into_iter().collect(),
            lateness: Some(stats.lateness),
            own_lateness: Some(stats.own_lateness),
            late_frames: Some(stats.late_frames),
            stalls: Some(stats.stalls),
            early: Some(stats.early),
            counters: stats.own_counters(),
        }
    }
}
