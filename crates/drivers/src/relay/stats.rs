//! What the relay counts.

use std::collections::BTreeMap;

use constel_link::transit::Cause;
use constel_link::{Histogram, LateFrames, Nanos, PlaneReport, Quantiles, Totals};
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
    fn add(&mut self, more: &UnintendedDrops) {
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
    /// What was taken off the ways of frames that nodes' stacks passed on, one by one, where that is asked for.
    pub deducted: Quantiles,
    /// Actual minus due time of every frame released since the start; never negative.
    pub lateness: Quantiles,
    /// Of that, what the machine is not to blame for: without the time in which the relay's thread
    /// wanted to run and did not.
    pub own_lateness: Quantiles,
    /// How many frames were how late.
    pub late_frames: LateFrames,
    /// That time: waking up later than asked for, and being stopped.
    pub stalls: StallStats,
    /// Frames released before their time. Always 0; counted to prove it.
    pub early: u64,
    /// Slots not in use.
    pub free_slots: usize,
    /// Threads of the relay.
    pub threads: u32,
    /// CPU time of the relay's threads.
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
    /// For how long the last thread has had a processor of its own, where there are as many threads as processors.
    pub apart_ns: Nanos,
    /// What nodes without a stack did, if there are any.
    pub transit: Option<TransitCounts>,
}

/// One thread of the relay at an instant: what only all of them tell is not there yet.
#[derive(Clone, Debug)]
pub(crate) struct ThreadStats {
    pub(crate) stats: RelayStats,
    pub(crate) lateness: Histogram,
    pub(crate) own_lateness: Histogram,
    pub(crate) deducted: Histogram,
}

impl RelayStats {
    /// What all threads have to say, as one. `None`: there is none.
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
        stats.unintended.backlog = stats.injected.saturating_sub(stats.delivered);
        Some(stats)
    }

    /// Another thread's. Of what all threads do at once the most counts, of what they share the sum.
    fn add(&mut self, more: &RelayStats) {
        let (totals, others) = (&mut self.totals, &more.totals);
        totals.edges += others.edges;
        totals.counters.add(&others.counters);
        totals.dropped_no_edge += others.dropped_no_edge;
        totals.held += others.held;
        self.unintended.add(&more.unintended);
        let stalls = &mut self.stalls;
        stalls.count += more.stalls.count;
        stalls.total_ns += more.stalls.total_ns;
        stalls.longest_ns = stalls.longest_ns.max(more.stalls.longest_ns);
        stalls.in_run_queue_ns += more.stalls.in_run_queue_ns;
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
        // Nodes without a stack are all with one of them.
        self.transit = self.transit.or(more.transit);
    }

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
                late_frames: Some(stats.late_frames),
                stalls: Some(stats.stalls),
                early: Some(stats.early),
                counters: stats.own_counters(),
            },
            unintended,
        }
    }
}
