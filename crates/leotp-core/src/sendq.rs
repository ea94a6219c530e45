//! A Midnode's sending buffer toward one Consumer (section III.A, Fig. 7).

use super::RangeSet;
use crate::Nanos;
use crate::wire::Range;
use std::collections::VecDeque;

/// The IPv4 TTL or IPv6 hop limit with which a packet leaves; `None`: the packet begins here and
/// gets the system's default.
pub type HopLimit = Option<u8>;

/// A packet waiting for tokens.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) range: Range,
    /// `None`: a Void Packet Header.
    pub(crate) payload: Option<Box<[u8]>>,
    pub(crate) fin: bool,
    pub(crate) rtx: bool,
    /// Time waited in nodes upstream, us; `MAX_QUEUED_US`: not known.
    pub(crate) queued_us: u32,
    /// Whether it arrived with [`Timing`](crate::wire::Timing) or must leave with it.
    pub(crate) timed: bool,
    pub(crate) since: Nanos,
    pub(crate) hop_limit: HopLimit,
}

/// FIFO of packets with a lane for repairs in front.
///
/// Only repairs of bytes that the next node already expects (sent or announced as void) may use
/// the lane: a packet that overtakes earlier bytes looks like a hole. Other repairs go to their
/// place in the order, or replace their own header if that still waits. Headers keep their place
/// for the same reason.
#[derive(Debug, Default)]
pub struct SendQueue {
    repairs: VecDeque<Queued>,
    fifo: VecDeque<Queued>,
    waiting: RangeSet,
    bytes: u64,
    sent_end: u64,
}

impl SendQueue {
    /// Payload bytes waiting: BL of equation 9.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.fifo.is_empty() && self.repairs.is_empty()
    }

    /// Returns the number of waiting packets.
    pub fn len(&self) -> usize {
        self.fifo.len() + self.repairs.len()
    }

    /// Whether all of `r` already waits as Data.
    pub fn holds(&self, r: Range) -> bool {
        self.waiting.contains(r)
    }

    /// Adds a packet; `false` when it was dropped because the buffer is full.
    pub(crate) fn push(&mut self, q: Queued, limit: u64) -> bool {
        let n = q.payload.as_ref().map_or(0, |p| p.len() as u64);
        // Headers have no payload but need memory; their number is bounded.
        if self.bytes + n > limit || self.len() as u64 > limit / 64 {
            return false;
        }
        self.bytes += n;
        if q.payload.is_some() {
            self.waiting.insert(q.range);
        }
        // New Data, headers and the record keep the order of arrival.
        if !q.rtx || q.payload.is_none() || q.range.is_meta() {
            self.fifo.push_back(q);
        } else if q.range.end <= self.sent_end {
            // The next node already expects these bytes, so their repair may overtake.
            self.repairs.push_back(q);
        } else {
            // A repair of bytes that were not announced yet goes where they belong in the order.
            let at = self
                .fifo
                .iter()
                .position(|f| f.range.start >= q.range.start && !f.range.is_meta());
            match at {
                // The VPH of these bytes still waits: the Data replaces it, and the next node
                // never sees the hole.
                Some(i) if self.fifo[i].payload.is_none() && self.fifo[i].range == q.range => {
                    self.fifo[i] = q
                }
                Some(i) => self.fifo.insert(i, q),
                None => self.fifo.push_back(q),
            }
        }
        true
    }

    /// The next packet.
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        let q = self.repairs.pop_front().or_else(|| self.fifo.pop_front())?;
        if !q.range.is_meta() {
            self.sent_end = self.sent_end.max(q.range.end);
        }
        if let Some(p) = &q.payload {
            self.bytes -= p.len() as u64;
            self.waiting.remove(q.range);
        }
        Some(q)
    }

    /// Bytes of the next packet's payload.
    pub(crate) fn peek_is_vph(&self) -> bool {
        self.repairs.is_empty() && self.fifo.front().is_some_and(|q| q.payload.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn q(start: u64, n: usize, rtx: bool) -> Queued {
        let payload = (n > 0).then(|| vec![0; n].into_boxed_slice());
        Queued {
            range: Range {
                start,
                end: start + n.max(5) as u64,
            },
            payload,
            fin: false,
            rtx,
            queued_us: 0,
            timed: false,
            since: 0,
            hop_limit: None,
        }
    }

    #[test]
    fn repairs_first_headers_in_place_bytes_bounded() {
        let mut s = SendQueue::default();
        assert!(s.push(q(7000, 100, false), 1000));
        assert_eq!(s.pop().map(|q| q.range.end), Some(7100));
        assert!(s.push(q(7100, 100, false), 1000));
        assert!(s.push(q(7200, 0, false), 1000));
        assert!(s.push(q(7205, 500, false), 1000));
        assert!(!s.push(q(7900, 500, false), 1000));
        // Old news overtakes; news goes where it belongs.
        assert!(s.push(q(6000, 200, true), 1000));
        assert!(s.push(q(7200, 5, true), 1000));
        assert_eq!(s.bytes(), 805);
        assert!(s.holds(Range {
            start: 6000,
            end: 6200
        }));
        let order: Vec<u64> = std::iter::from_fn(|| s.pop().map(|q| q.range.start)).collect();
        assert_eq!(order, [6000, 7100, 7200, 7205]);
        assert_eq!(s.bytes(), 0);
    }
}
