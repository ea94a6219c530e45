//! A set of bytes of a flow, kept as disjoint, non-adjacent ranges.

use crate::wire::Range;
use std::collections::BTreeMap;

/// Set of byte positions. Operations cost O(log n) plus the ranges touched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    map: BTreeMap<u64, u64>,
    bytes: u64,
}

impl RangeSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self {
            map: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Returns `whole` without its `gaps`.
    pub fn between(whole: Range, gaps: impl IntoIterator<Item = Range>) -> RangeSet {
        let mut set = RangeSet::new();
        set.insert(whole);
        gaps.into_iter().for_each(|gap| set.remove(gap));
        set
    }

    /// Number of bytes in the set.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of disjoint ranges.
    pub fn count(&self) -> usize {
        self.map.len()
    }

    /// Whether no byte is in the set.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        self.map.iter().map(|(&start, &end)| Range { start, end })
    }

    /// Adds every byte of `r`.
    pub fn insert(&mut self, r: Range) {
        if r.is_empty() {
            return;
        }
        let (mut start, mut end) = (r.start, r.end);
        // Merges every range that touches [start, end].
        while let Some((&s, &e)) = self.map.range(..=end).next_back() {
            if e < start {
                break;
            }
            self.map.remove(&s);
            self.bytes -= e - s;
            start = start.min(s);
            end = end.max(e);
        }
        self.map.insert(start, end);
        self.bytes += end - start;
    }

    /// Removes every byte of `r`.
    pub fn remove(&mut self, r: Range) {
        if r.is_empty() {
            return;
        }
        // From the last range that begins before `r.end` back: each is cut, split, or removed.
        while let Some((&s, &e)) = self.map.range(..r.end).next_back() {
            if e <= r.start {
                break;
            }
            self.map.remove(&s);
            self.bytes -= e - s;
            if e > r.end {
                self.map.insert(r.end, e);
                self.bytes += e - r.end;
            }
            if s < r.start {
                self.map.insert(s, r.start);
                self.bytes += r.start - s;
            }
        }
    }

    /// Whether every byte of `r` is in the set.
    // Ranges are not adjacent, so one range must have all of `r`.
    pub fn contains(&self, r: Range) -> bool {
        r.is_empty()
            || self
                .map
                .range(..=r.start)
                .next_back()
                .is_some_and(|(_, &e)| e >= r.end)
    }

    /// Whether any byte of `r` is in the set.
    pub fn overlaps(&self, r: Range) -> bool {
        self.map
            .range(..r.end)
            .next_back()
            .is_some_and(|(_, &e)| e > r.start)
            && !r.is_empty()
    }

    /// The parts of `r` that are in the set.
    pub fn within(&self, r: Range) -> RangeSet {
        Self::between(r, self.missing(r))
    }

    /// The parts of `r` that are not in the set, in order.
    pub fn missing(&self, r: Range) -> Vec<Range> {
        let mut out = Vec::new();
        let mut at = r.start;
        // A range that begins before `r` may cover its start.
        if let Some((_, &e)) = self.map.range(..=r.start).next_back() {
            at = at.max(e);
        }
        for (&s, &e) in self
            .map
            .range(r.start.saturating_add(1)..r.end.max(r.start.saturating_add(1)))
        {
            if s > at {
                out.push(Range { start: at, end: s });
            }
            at = at.max(e);
        }
        if at < r.end {
            out.push(Range {
                start: at,
                end: r.end,
            });
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_set_of_bytes(ops in proptest::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..60), q in (0u64..60, 0u64..30)) {
            let mut set = RangeSet::new();
            let mut model = [false; 100];
            for (add, s, n) in ops {
                let r = Range { start: s, end: s + n };
                if add { set.insert(r) } else { set.remove(r) }
                for b in &mut model[s as usize..(s + n) as usize] {
                    *b = add;
                }
            }
            prop_assert_eq!(set.bytes(), model.iter().filter(|b| **b).count() as u64);
            let q = Range { start: q.0, end: q.0 + q.1 };
            let slice = &model[q.start as usize..q.end as usize];
            prop_assert_eq!(set.contains(q), slice.iter().all(|b| *b));
            prop_assert_eq!(set.overlaps(q), slice.iter().any(|b| *b));
            let mut gaps = RangeSet::new();
            for m in set.missing(q) {
                prop_assert!(!m.is_empty());
                gaps.insert(m);
            }
            for i in q.start..q.end {
                prop_assert_eq!(gaps.contains(Range { start: i, end: i + 1 }), !model[i as usize]);
            }
            let ranges: Vec<_> = set.iter().collect();
            prop_assert!(ranges.windows(2).all(|w| w[0].end < w[1].start));
        }
    }
}
