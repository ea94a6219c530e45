//! Service: one frame at a time, at the rate of the moment.

use super::{Edge, Waiting};
use crate::aqm::Limit;
use crate::supply::{Point, Supply, work_of};
use crate::types::{DropCause, Nanos};

impl<F> Edge<F> {
    /// Returns the rate that serves the edge; `None` if service takes no time.
    pub(super) fn supply(&self) -> Option<Supply<'_>> {
        let law = self.laws.as_ref().and_then(|laws| laws.supply());
        law.or_else(|| self.impairment.rate_bps.map(Supply::Constant))
    }

    /// Returns the work of serving the frame, with the framing overhead of the link.
    fn on_link(&self, len_bytes: u32) -> u128 {
        let overhead = self.laws.as_ref().and_then(|l| l.set.overhead_bytes);
        work_of(len_bytes.saturating_add(overhead.unwrap_or(0)))
    }

    pub(super) fn limit(&self) -> Limit {
        let frames = self.laws.as_ref().and_then(|l| l.set.queue_frames);
        Limit {
            bytes: self.impairment.queue.bytes,
            frames: frames.unwrap_or(u64::MAX),
        }
    }

    pub(super) fn is_full(&self, len_bytes: u32) -> bool {
        let limit = self.limit();
        // The first frame in the queue is in service and does not count, so the queue may hold one more than the limit.
        self.queue_bytes + u64::from(len_bytes) > limit.bytes
            || self.queue.len() as u64 > limit.frames
    }

    /// Begins to serve the next frame, at the exact end of the previous service if given, otherwise at `now`.
    pub(super) fn serve_next(
        &mut self,
        after: Option<Point>,
        now: Nanos,
        out: &mut impl FnMut(F, DropCause),
    ) {
        self.service = None;
        let counters = &mut self.counters;
        if let Some(aqm) = &mut self.aqm {
            let next = aqm.dequeue(now, &mut |frame, cause| {
                counters.count_drop(cause);
                out(frame, cause);
            });
            self.queue.extend(next.map(Waiting::from));
        } else if let Some(next) = self.queue.front() {
            self.queue_bytes -= u64::from(next.len_bytes);
        }
        // `after` is exact, including fractions of a nanosecond: starting at a rounded instant would lose rate over
        // many frames.
        if let (Some(next), Some(supply)) = (self.queue.front(), self.supply()) {
            let from = after.unwrap_or_else(|| supply.fresh(now));
            self.service = Some(supply.finish(from, self.on_link(next.len_bytes)));
        } else {
            self.free_from_ns = now;
        }
    }

    /// Processes every service that ends by `now`.
    pub fn advance(&mut self, now: Nanos, out: &mut impl FnMut(F, DropCause)) {
        while let (Some(end), Some(supply)) = (self.service, self.supply()) {
            let done_ns = supply.done_ns(end);
            if done_ns > now {
                break;
            }
            if let Some(aqm) = &mut self.aqm {
                // Actions of the clock at an instant follow the service ends at the same instant.
                aqm.tick(done_ns.saturating_sub(1));
            }
            let Some(frame) = self.queue.pop_front() else {
                break;
            };
            // The next service starts first, because `served` may draw from a generator but does not change the queue.
            self.serve_next(Some(end), done_ns, out);
            self.served(done_ns, frame, out);
        }
        if let Some(aqm) = &mut self.aqm {
            aqm.tick(now);
        }
    }
}
