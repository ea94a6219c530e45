//! Loss detection by sequence holes: Algorithm 1 of section III.B.

use super::RangeSet;
use crate::wire::Range;
use std::collections::VecDeque;

/// Holes kept per flow; the oldest is given up (to Timeout Retransmission) when
/// a new one would exceed it.
const MAX_HOLES: usize = 1024;

#[derive(Debug)]
struct Hole {
    range: Range,
    count: u32,
}

/// The holes that one packet revealed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Bytes now known to be skipped: announce downstream as a VPH, before the
    /// packet itself (lines 4-6).
    pub opened: Vec<Range>,
    /// Bytes now believed lost: ask upstream again (lines 13-14).
    pub lost: Vec<Range>,
}

/// Sequence-hole detector of one flow at one node.
///
/// ```text
///            rs > lastByte: VPH                count > N: Interest
///  (in order) ----------------> (hole, count 0) ----------------> (forgotten)
///                                 |      ^ rs > hole.end: count += 1
///                                 v
///                       bytes arrive: (closed)
/// ```
#[derive(Debug)]
pub struct HoleTracker {
    last_byte: Option<u64>,
    holes: VecDeque<Hole>,
    threshold: u32,
    max_hole_bytes: u64,
}

impl HoleTracker {
    /// Creates a detector. `threshold` is Algorithm 1's N; a jump of more than `max_hole_bytes`
    /// counts as a change of position, not as a loss.
    pub const fn new(threshold: u32, max_hole_bytes: u64) -> Self {
        Self {
            last_byte: None,
            holes: VecDeque::new(),
            threshold,
            max_hole_bytes,
        }
    }

    /// Sets the first byte to expect, if none is known yet.
    pub fn expect(&mut self, first: u64) {
        self.last_byte.get_or_insert(first);
    }

    /// Algorithm 1's `lastByte`.
    pub const fn last_byte(&self) -> Option<u64> {
        self.last_byte
    }

    /// Returns the number of holes that have not been requested.
    pub fn open_holes(&self) -> usize {
        self.holes.len()
    }

    /// Handles one Data packet or VPH with `range` (lines 3-19). `known` returns bytes of a
    /// would-be hole that this node has or awaits by another path, so they are not holes; the
    /// paper's single path has none.
    pub fn on_packet(&mut self, range: Range, known: impl FnOnce(Range) -> Vec<Range>) -> Seen {
        let mut seen = Seen::default();
        // The first packet of a flow sets the position: a Midnode may join in the middle.
        let last = *self.last_byte.get_or_insert(range.start);
        if range.start > last {
            // Lines 4-6: a hole opens, and the caller announces it downstream as a VPH.
            if range.start - last <= self.max_hole_bytes {
                let gap = Range {
                    start: last,
                    end: range.start,
                };
                let mut open = RangeSet::new();
                open.insert(gap);
                for k in known(gap) {
                    open.remove(k);
                }
                // The known bytes may have split the gap into several holes.
                for r in open.iter() {
                    seen.opened.push(r);
                    if self.holes.len() == MAX_HOLES {
                        self.holes.pop_front();
                    }
                    self.holes.push_back(Hole { range: r, count: 0 });
                }
            }
        } else if range.start < last {
            // Lines 7-9: the bytes have arrived (or their repair was announced).
            self.close(range);
        }
        // Lines 10-18: every packet beyond a hole counts; more than N of them mean a loss, not a
        // reordering. A hole is forgotten once it is requested, because SHR does not track
        // repairs.
        let threshold = self.threshold;
        self.holes.retain_mut(|h| {
            if range.start > h.range.end {
                h.count += 1;
                if h.count > threshold {
                    seen.lost.push(h.range);
                    return false;
                }
            }
            true
        });
        // Line 19.
        self.last_byte = Some(last.max(range.end));
        seen
    }

    /// Removes bytes that need no repair any more.
    fn close(&mut self, range: Range) {
        // Only one hole can contain the range on both sides, so there is at most one split.
        let mut split = None;
        self.holes.retain_mut(|h| {
            if !h.range.overlaps(&range) {
                return true;
            }
            let (before, after) = (range.start > h.range.start, range.end < h.range.end);
            if before && after {
                split = Some(Hole {
                    range: Range {
                        start: range.end,
                        end: h.range.end,
                    },
                    count: h.count,
                });
            }
            if before {
                h.range.end = range.start;
            } else if after {
                h.range.start = range.end;
            }
            before || after
        });
        // The list need not be sorted: Algorithm 1 examines every hole.
        if let Some(h) = split {
            self.holes.push_back(h);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(n: u64) -> Range {
        Range {
            start: n * 10,
            end: n * 10 + 10,
        }
    }

    fn feed(t: &mut HoleTracker, n: u64) -> Seen {
        t.on_packet(p(n), |_| vec![])
    }

    #[test]
    fn figure_8b() {
        let mut t = HoleTracker::new(1, 1 << 20);
        assert_eq!(feed(&mut t, 1), Seen::default());
        // Packet 3 reveals the hole: the VPH goes out at once, no Interest yet.
        assert_eq!(
            feed(&mut t, 3),
            Seen {
                opened: vec![p(2)],
                lost: vec![]
            }
        );
        assert_eq!(feed(&mut t, 4), Seen::default());
        // "After receiving packet 4 and packet 5, the Midnode confirms."
        assert_eq!(
            feed(&mut t, 5),
            Seen {
                opened: vec![],
                lost: vec![p(2)]
            }
        );
        // "The hole is deleted": never requested twice.
        assert_eq!(feed(&mut t, 6), Seen::default());
        assert_eq!(t.open_holes(), 0);
    }

    #[test]
    fn downstream_hears_the_header_and_is_quiet() {
        let mut t = HoleTracker::new(1, 1 << 20);
        for n in [1, 2 /* VPH for 2 */, 3, 4, 5, 6] {
            assert_eq!(feed(&mut t, n), Seen::default());
        }
    }

    #[test]
    fn reordering_closes_the_hole() {
        let mut t = HoleTracker::new(1, 1 << 20);
        for n in [1, 3, 4, 2] {
            assert_eq!(feed(&mut t, n).lost, vec![]);
        }
        assert_eq!(t.open_holes(), 0);
        assert_eq!(feed(&mut t, 5), Seen::default());
    }

    #[test]
    fn part_of_a_hole_arrives() {
        let mut t = HoleTracker::new(1, 1 << 20);
        feed(&mut t, 0);
        feed(&mut t, 5);
        t.on_packet(Range { start: 20, end: 30 }, |_| vec![]);
        feed(&mut t, 6);
        let mut lost = feed(&mut t, 7).lost;
        lost.sort();
        assert_eq!(
            lost,
            [Range { start: 10, end: 20 }, Range { start: 30, end: 50 }]
        );
    }

    #[test]
    fn bytes_at_hand_and_leaps_are_no_holes() {
        let mut t = HoleTracker::new(1, 100);
        feed(&mut t, 0);
        let seen = t.on_packet(p(4), |gap| {
            assert_eq!(gap, Range { start: 10, end: 40 });
            vec![Range { start: 10, end: 30 }]
        });
        assert_eq!(seen.opened, [p(3)]);
        assert_eq!(feed(&mut t, 4000), Seen::default());
        assert_eq!(
            feed(&mut t, 4001),
            Seen {
                opened: vec![],
                lost: vec![p(3)]
            }
        );
    }

    #[test]
    fn first_packet_lost_is_seen_when_expected() {
        let mut t = HoleTracker::new(1, 1 << 20);
        t.expect(0);
        assert_eq!(feed(&mut t, 1).opened, [p(0)]);
    }
}
