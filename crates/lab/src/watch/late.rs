//! The times at which frames on a flow's path left late, in lab time, which determine the affected samples.

use std::collections::BTreeSet;

use constel_drivers::LateSpells;
use constel_link::PortId;

/// The largest number of late spells of a flow that are kept; further ones are only counted as gaps.
const KEPT: usize = 65_536;

/// The late spells of one flow: spans of lab time in which frames to a port on its path left later than the run's
/// bound.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// The ports on the path in both directions at this step, and below it at the one before, whose frames may
    /// still be in flight.
    now: BTreeSet<PortId>,
    before: BTreeSet<PortId>,
    /// Beginnings and ends, nanoseconds; overlapping spells are merged.
    spans: Vec<(u64, u64)>,
    worst_ns: u64,
    /// Whether some spells are not known.
    gaps: bool,
    sorted: bool,
}

impl Late {
    /// Sets the ports on the path at a step.
    pub(crate) fn way(&mut self, ports: BTreeSet<PortId>) {
        self.before = std::mem::replace(&mut self.now, ports);
    }

    /// Records the link plane's report. Its instants are of a clock that showed `zero_ns` at lab time zero.
    pub(crate) fn see(&mut self, told: &LateSpells, zero_ns: u64) {
        // The link plane forgets spells when its list is full.
        self.gaps |= told.forgotten > 0;
        for spell in &told.spells {
            // Frames to other ports do not belong to this flow's path.
            if !self.now.contains(&spell.to) && !self.before.contains(&spell.to) {
                continue;
            }
            self.worst_ns = self.worst_ns.max(spell.worst_ns);
            let lab_ns = |at_ns: u64| at_ns.saturating_sub(zero_ns);
            let (from_ns, to_ns) = (lab_ns(spell.from_ns), lab_ns(spell.to_ns));
            let full = self.spans.len() == KEPT;
            // Spells mostly arrive in order and overlap, so that merging with the last one keeps the list short.
            match self.spans.last_mut() {
                Some(last) if last.0 <= from_ns && from_ns <= last.1 => {
                    last.1 = last.1.max(to_ns);
                }
                _ if full => self.gaps = true,
                _ => {
                    self.sorted = false;
                    self.spans.push((from_ns, to_ns));
                }
            }
        }
    }

    /// Returns the largest lateness of a frame on the path, nanoseconds; 0 when none exceeded the bound.
    pub(crate) fn worst_ns(&self) -> u64 {
        self.worst_ns
    }

    /// Returns whether there were more spells than are kept.
    pub(crate) fn has_gaps(&self) -> bool {
        self.gaps
    }

    /// Returns the spells in order, without overlaps; for [`overlap`].
    pub(crate) fn spans(&mut self) -> &[(u64, u64)] {
        if !self.sorted {
            self.spans.sort_unstable();
            let mut joined: Vec<(u64, u64)> = Vec::with_capacity(self.spans.len());
            for &(from_ns, to_ns) in &self.spans {
                match joined.last_mut() {
                    Some(last) if from_ns <= last.1 => last.1 = last.1.max(to_ns),
                    _ => joined.push((from_ns, to_ns)),
                }
            }
            self.spans = joined;
            self.sorted = true;
        }
        &self.spans
    }
}

/// Returns whether the time between two instants touches one of these spans, which are in order and do not overlap.
pub(crate) fn overlap(spans: &[(u64, u64)], from_ns: u64, to_ns: u64) -> bool {
    // The first span that ends at or after the beginning.
    let first = spans.partition_point(|span| span.1 < from_ns);
    spans.get(first).is_some_and(|span| span.0 <= to_ns)
}

/// Returns how much of the time between two instants is in these spans, nanoseconds.
pub(crate) fn covered_ns(spans: &[(u64, u64)], from_ns: u64, to_ns: u64) -> u64 {
    let first = spans.partition_point(|span| span.1 < from_ns);
    let touched = spans[first..].iter().take_while(|span| span.0 < to_ns);
    touched
        .map(|span| span.1.min(to_ns).saturating_sub(span.0.max(from_ns)))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_drivers::LateSpell;

    fn told(spells: &[(u32, u64, u64)]) -> LateSpells {
        let spell = |&(to, from_ns, to_ns): &(u32, u64, u64)| LateSpell {
            to: PortId(to),
            from_ns,
            to_ns,
            worst_ns: to_ns - from_ns,
            frames: 1,
        };
        LateSpells {
            spells: spells.iter().map(spell).collect(),
            forgotten: 0,
        }
    }

    #[test]
    fn only_what_is_late_on_the_way_counts() {
        let mut late = Late::default();
        late.way([PortId(1), PortId(2)].into());
        late.see(&told(&[(1, 1_100, 1_200), (3, 1_000, 9_000)]), 1_000);
        // The way before still counts for a step.
        late.way([PortId(5)].into());
        late.see(&told(&[(2, 1_500, 1_600), (5, 1_150, 1_300)]), 1_000);
        late.way([PortId(5)].into());
        late.see(&told(&[(2, 1_700, 1_900)]), 1_000);
        assert_eq!(late.spans(), [(100, 300), (500, 600)]);
        assert_eq!(late.worst_ns(), 150);
        assert!(!late.has_gaps());
        late.see(
            &LateSpells {
                forgotten: 1,
                ..LateSpells::default()
            },
            1_000,
        );
        assert!(late.has_gaps());
    }

    #[test]
    fn a_sample_is_marked_when_it_was_under_way_in_a_spell() {
        let spans = [(100, 300), (500, 600)];
        for (from, to, marked) in [
            (0, 99, false),
            (0, 100, true),
            (150, 160, true),
            (300, 400, true),
            (301, 499, false),
            (301, 500, true),
            (600, 700, true),
            (601, 700, false),
        ] {
            assert_eq!(overlap(&spans, from, to), marked, "{from}..{to}");
        }
        assert!(!overlap(&[], 0, u64::MAX));
        assert_eq!(covered_ns(&spans, 0, 1_000), 300);
        assert_eq!(covered_ns(&spans, 150, 510), 160);
        assert_eq!(covered_ns(&spans, 310, 490), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut late = Late::default();
        late.way([PortId(1)].into());
        for k in 0..KEPT as u64 + 2 {
            late.see(&told(&[(1, 10 * k, 10 * k + 1)]), 0);
        }
        assert!(late.has_gaps());
        assert_eq!(late.spans().len(), KEPT);
    }
}
