//! When frames on a flow's own way left late, in lab time: which of its samples may be wrong for that.

use std::collections::BTreeSet;

use constel_drivers::LateSpells;
use constel_link::PortId;

/// So many spells of a flow are kept; those beyond are counted.
const KEPT: usize = 65_536;

/// Spells of one flow: stretches of lab time in which frames to a port on its way left later than the run's bound.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// Ports on the way, there and back: at this step and at the one before, of which frames may still be on their way.
    now: BTreeSet<PortId>,
    before: BTreeSet<PortId>,
    /// Beginning and end, nanoseconds; those that overlap are one.
    spans: Vec<(u64, u64)>,
    worst_ns: u64,
    /// Whether what is known has gaps.
    gaps: bool,
    sorted: bool,
}

impl Late {
    /// The ports on the way at a step.
    pub(crate) fn way(&mut self, ports: BTreeSet<PortId>) {
        self.before = std::mem::replace(&mut self.now, ports);
    }

    /// What the link plane told; its instants are of a clock that showed `zero_ns` at lab time zero.
    pub(crate) fn see(&mut self, told: &LateSpells, zero_ns: u64) {
        self.gaps |= told.forgotten > 0;
        for spell in &told.spells {
            if !self.now.contains(&spell.to) && !self.before.contains(&spell.to) {
                continue;
            }
            self.worst_ns = self.worst_ns.max(spell.worst_ns);
            let lab_ns = |at_ns: u64| at_ns.saturating_sub(zero_ns);
            let (from_ns, to_ns) = (lab_ns(spell.from_ns), lab_ns(spell.to_ns));
            let full = self.spans.len() == KEPT;
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

    /// How late the latest frame on the way was, nanoseconds; 0 when none was later than the bound.
    pub(crate) fn worst_ns(&self) -> u64 {
        self.worst_ns
    }

    /// Whether there were more spells than are known.
    pub(crate) fn has_gaps(&self) -> bool {
        self.gaps
    }

    /// The spells in order, none touching another; for [`overlap`].
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

/// Whether the time from one instant to another touches one of these spans, which are in order and apart.
pub(crate) fn overlap(spans: &[(u64, u64)], from_ns: u64, to_ns: u64) -> bool {
    let first = spans.partition_point(|span| span.1 < from_ns);
    spans.get(first).is_some_and(|span| span.0 <= to_ns)
}

/// How much of the time from one instant to another is in these spans, nanoseconds.
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
