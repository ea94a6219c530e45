//! The memory shared with `bpf/edt.bpf.c`, mirrored field by field.

use std::mem::size_of;

use constel_link::{Discipline, Effects, Impairment, Loss, loss_generator, loss_threshold};

/// Index of the first trunk's sending end; its receiving end has the next index.
pub(super) const FIRST_TRUNK: u32 = constel_host::netlink::FIRST_OWN_IFINDEX;
/// Buckets of the lateness histogram: four for each power of two, the first one for 4 ns.
const LATENESS_BUCKETS: usize = 160;

const EXISTS: u32 = 1;
const DOWN: u32 = 2;
const LOSES_ALL: u32 = 4;

/// Parameters of an edge.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Params {
    t0_ns: u64,
    delay_ns: u64,
    slope_ns_per_s: i64,
    rate_bps: u64,
    queue_bytes: u64,
    loss: u64,
    up_from_ns: u64,
    rng: [u64; 4],
    pub(super) life: u32,
    to: u32,
    pub(super) next: u32,
    flags: u32,
    overhead_bytes: u32,
    flow: u32,
    ce_above_ns: u64,
    reserved: u64,
}

impl Params {
    /// Returns parameters of an edge that does not exist yet and gets this flow in the fq.
    pub(super) fn new(flow: u32) -> Params {
        Params {
            flow,
            ..Params::default()
        }
    }

    /// Sets all parameters except the edge's identity: `life`, `next`, `flow` and the generator stay.
    pub(super) fn set(&mut self, to: u32, base: &Impairment, effects: &Effects) {
        let wanted = effects.over(base);
        self.t0_ns = wanted.delay.t0_ns;
        self.delay_ns = wanted.delay.delay_ns;
        self.slope_ns_per_s = wanted.delay.slope_ns_per_s;
        self.rate_bps = wanted.rate_bps.map_or(0, u64::from);
        self.queue_bytes = wanted.queue.bytes;
        self.up_from_ns = wanted.up_from_ns;
        self.to = to;
        // An edge that must not mark has a threshold that no wait reaches.
        self.ce_above_ns = match effects.discipline {
            Some(Discipline::CeThreshold { above_ns }) => above_ns,
            _ => u64::MAX,
        };
        self.overhead_bytes = effects.overhead_bytes.unwrap_or(0);
        self.flags = EXISTS;
        self.loss = 0;
        if effects.down == Some(true) {
            self.flags |= DOWN;
        }
        if let Loss::Bernoulli { loss_ratio } = wanted.loss {
            // A ratio of 1 has no threshold within 64 bits, so a flag stands for it.
            match loss_threshold(loss_ratio) {
                Some(threshold) => self.loss = threshold,
                None => self.flags |= LOSES_ALL,
            }
        }
    }

    /// Begins a new life, with its own draws and an empty queue.
    pub(super) fn begin(&mut self, life: u32, seed: u64, edge: (u32, u32), nth: u32) {
        self.life = life;
        self.rng = loss_generator(seed, edge.0, edge.1, nth);
        self.flags = 0;
    }

    pub(super) fn end(&mut self) {
        self.flags &= !EXISTS;
    }
}

/// List of the edges that leave a port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Port {
    pub(super) first: u32,
    pub(super) edges: u32,
}

/// State of an edge.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    lock: u32,
    life: u32,
    pub(super) free_ns: u64,
    rem: u64,
    last_due_ns: u64,
    rng: [u64; 4],
    pub(super) offered: u64,
    pub(super) offered_bytes: u64,
    pub(super) accepted: u64,
    pub(super) accepted_bytes: u64,
    pub(super) dropped_queue: u64,
    pub(super) dropped_loss: u64,
    pub(super) dropped_outage: u64,
    pub(super) marked: u64,
}

/// Counters of one CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) steered: u64,
    pub(super) no_edge: u64,
    pub(super) dropped_gso: u64,
    pub(super) dropped_size: u64,
    pub(super) dropped_copy: u64,
    pub(super) gone: u64,
    pub(super) released: u64,
    pub(super) released_bytes: u64,
    pub(super) early: u64,
    pub(super) foreign: u64,
    pub(super) lateness: [u64; LATENESS_BUCKETS],
}

/// Returns the largest value of a bucket of the lateness histogram, ns.
pub(super) fn lateness_of(bucket: usize) -> u64 {
    // Each power of two is divided into four buckets of equal width; the first power is 2^2.
    let (power, quarter) = (bucket / 4 + 2, bucket as u64 % 4);
    (1u64 << power) + (quarter + 1) * (1u64 << (power - 2)) - 1
}

/// Offset of the epoch in the shared map.
pub(super) const EPOCH_AT: usize = 0;
/// Offset of the difference between `CLOCK_TAI` and `CLOCK_REALTIME`.
pub(super) const TAI_AT: usize = 8;
pub(super) const SHARED_BYTES: usize = 16;

const _: () = assert!(size_of::<Params>() == 128 && size_of::<State>() == 128);
const _: () = assert!(size_of::<Counts>() == 8 * (10 + LATENESS_BUCKETS));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_end_where_the_next_begins() {
        assert_eq!(lateness_of(0), 4);
        assert_eq!(lateness_of(3), 7);
        assert_eq!(lateness_of(4), 9);
        assert_eq!(lateness_of(7), 15);
        assert_eq!(lateness_of(8), 19);
    }
}
