//! Controlled Delay, RFC 8289 section 5. When frames have waited for longer than the target during a whole interval,
//! frames are dropped from the head, more and more often, until the wait is below the target.
//!
//! With ECN, a frame that can be marked is marked and sent instead.

use super::{Fifo, Packet};
use crate::discipline::CodelParams;
use crate::types::Nanos;

/// State of one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Codel {
    /// Instant at which the delay will have been above the target for an interval.
    first_above_ns: Option<Nanos>,
    drop_next_ns: Nanos,
    /// Drops since the dropping state was entered.
    count: u32,
    last_count: u32,
    dropping: bool,
    /// The largest frame seen. If no more bytes than this wait, there is no standing queue.
    largest_bytes: u32,
}

impl Codel {
    pub(super) fn dequeue<F>(
        &mut self,
        params: &CodelParams,
        now: Nanos,
        queue: &mut Fifo<F>,
        drop: &mut impl FnMut(F),
    ) -> Option<Packet<F>> {
        let (mut head, mut ok_to_drop) = self.take(params, now, queue);
        if self.dropping {
            self.dropping = ok_to_drop;
            while self.dropping && now >= self.drop_next_ns {
                match marked(head.take()?, params.ecn) {
                    Ok(packet) => {
                        self.schedule(params);
                        return Some(packet);
                    }
                    Err(packet) => drop(packet.frame),
                }
                (head, ok_to_drop) = self.take(params, now, queue);
                if ok_to_drop {
                    self.schedule(params);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop {
            match marked(head.take()?, params.ecn) {
                Ok(packet) => head = Some(packet),
                Err(packet) => {
                    drop(packet.frame);
                    head = self.take(params, now, queue).0;
                }
            }
            self.dropping = true;
            // If dropping stopped a short while ago, continue at the rate that worked then. The RFC's pseudocode calls
            // 16 intervals a short while.
            let drops = self.count.wrapping_sub(self.last_count);
            let recent = now.saturating_sub(self.drop_next_ns) < 16 * params.interval_ns;
            self.count = if drops > 1 && recent { drops } else { 1 };
            self.drop_next_ns = law(now, params, self.count);
            self.last_count = self.count;
        }
        head
    }

    /// Counts one more drop and computes the instant of the next.
    fn schedule(&mut self, params: &CodelParams) {
        self.count = self.count.saturating_add(1);
        self.drop_next_ns = law(self.drop_next_ns, params, self.count);
    }

    /// Takes the head of the queue. The flag says whether the delay has been above the target for an interval.
    fn take<F>(
        &mut self,
        params: &CodelParams,
        now: Nanos,
        queue: &mut Fifo<F>,
    ) -> (Option<Packet<F>>, bool) {
        let Some(packet) = queue.pop() else {
            self.first_above_ns = None;
            return (None, false);
        };
        self.largest_bytes = self.largest_bytes.max(packet.len_bytes);
        let waited = now.saturating_sub(packet.arrived_ns);
        if waited < params.target_ns || queue.bytes <= u64::from(self.largest_bytes) {
            self.first_above_ns = None;
            return (Some(packet), false);
        }
        // The interval starts at the first frame above the target; later frames only compare with its end.
        let above = *self
            .first_above_ns
            .get_or_insert(now.saturating_add(params.interval_ns));
        (Some(packet), now >= above)
    }
}

/// Returns the frame with its mark, or `Err` with the unchanged frame if it cannot be marked.
fn marked<F>(mut packet: Packet<F>, ecn: bool) -> Result<Packet<F>, Packet<F>> {
    if ecn && packet.traits.ecn_capable {
        packet.ce = true;
        Ok(packet)
    } else {
        Err(packet)
    }
}

/// Returns the instant of the next drop: `t` plus the interval divided by the square root of the number of drops.
/// Throughput of TCP falls with the inverse square root of the loss rate, so this schedule lowers it linearly.
fn law(t: Nanos, params: &CodelParams, count: u32) -> Nanos {
    let step = params.interval_ns as f64 / f64::from(count).sqrt();
    t.saturating_add(step as u64)
}
