//! The statistics of rules: the edges' counters, together with those of earlier versions of a rule, and rates.

use std::collections::HashMap;

use constel_api::answers::DirectionCounters;
use constel_link::rules::Direction;
use constel_link::{EdgeCounters, EdgeStats, Nanos};

use crate::ports::Slot;

/// Converts bytes in a time to bits per second.
fn bps(bytes: u64, ns: Nanos) -> f64 {
    if ns == 0 {
        return 0.0;
    }
    bytes as f64 * 8e9 / ns as f64
}

/// The edges of a box at an instant, found by slot and direction.
pub(crate) struct Edges(HashMap<(u32, u32), EdgeStats>);

impl Edges {
    pub(crate) fn new(all: Vec<EdgeStats>) -> Edges {
        let all = all.into_iter();
        Edges(
            all.map(|stats| ((stats.from.0, stats.to.0), stats))
                .collect(),
        )
    }

    pub(crate) fn get(&self, slot: Slot, direction: Direction) -> Option<&EdgeStats> {
        let (from, to) = slot.edge(direction);
        self.0.get(&(from.0, to.0))
    }
}

/// The rates of each rule, across its versions, in the last whole second, forward and reverse.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    at_ns: Nanos,
    bytes: HashMap<String, [u64; 2]>,
    present: HashMap<String, [f64; 2]>,
}

impl Rates {
    /// Takes the bytes that each rule has counted in all its versions.
    pub(crate) fn sample(&mut self, now: Nanos, bytes: HashMap<String, [u64; 2]>) {
        let took = now.saturating_sub(self.at_ns);
        let present = bytes.iter().filter_map(|(name, all)| {
            let before = self.bytes.get(name)?;
            let rate = |n: usize| bps(all[n].saturating_sub(before[n]), took);
            Some((name.clone(), [rate(0), rate(1)]))
        });
        self.present = present.collect();
        self.bytes = bytes;
        self.at_ns = now;
    }

    /// Returns the bits per second, forward and reverse.
    pub(crate) fn present(&self, name: &str) -> [f64; 2] {
        self.present.get(name).copied().unwrap_or_default()
    }
}

/// The arrival times of the first and the last frame; `None` without frames.
pub(crate) type FirstAndLast = Option<(Nanos, Nanos)>;

/// Combines the times of two versions of a rule.
pub(crate) fn of_both(a: FirstAndLast, b: FirstAndLast) -> FirstAndLast {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (one, other) => one.or(other),
    }
}

/// Converts a rule in one direction to its form in answers. `counters` and `seen` cover all versions of the rule,
/// and so do the averages.
pub(crate) fn way(
    now: Nanos,
    counters: EdgeCounters,
    stats: Option<&EdgeStats>,
    (seen, present_bps): (FirstAndLast, f64),
) -> DirectionCounters {
    let active = seen.map_or(0, |(first, _)| now.saturating_sub(first));
    DirectionCounters {
        frames: counters.offered,
        bytes: counters.offered_bytes,
        drops: counters.dropped(),
        duplicates: counters.duplicated,
        queue_frames: stats.map_or(0, |stats| stats.held as u64),
        average_bps: bps(counters.offered_bytes, active),
        present_bps,
        last_frame_s: seen.map(|(_, last)| now.saturating_sub(last) as f64 / 1e9),
        queue_bytes: stats.map_or(0, |stats| stats.queue_bytes),
        inside: None,
        lateness: None,
        counters,
        via: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule of which a megabit came each second for ten seconds, and that was edited a second ago.
    #[test]
    fn an_average_is_of_all_forms_of_a_rule() {
        const S: Nanos = 1_000_000_000;
        let counters = EdgeCounters {
            offered: 1_000,
            offered_bytes: 1_250_000,
            ..EdgeCounters::default()
        };
        let (old, new) = (Some((S, 10 * S)), Some((10 * S + 1, 11 * S)));
        let shown = way(11 * S, counters, None, (of_both(new, old), 0.0));
        assert_eq!(shown.average_bps, 1e6);
        // No frame has come yet in its new form.
        let shown = way(11 * S, counters, None, (of_both(None, old), 0.0));
        assert_eq!((shown.average_bps, shown.last_frame_s), (1e6, Some(1.0)));
    }

    #[test]
    fn a_present_rate_is_of_a_rule_whatever_its_form() {
        let mut rates = Rates::default();
        let bytes = |n: u64| HashMap::from([("calls".to_owned(), [n, 0])]);
        rates.sample(1_000_000_000, bytes(1_000));
        assert_eq!(rates.present("calls"), [0.0, 0.0]);
        rates.sample(2_000_000_000, bytes(2_000));
        assert_eq!(rates.present("calls"), [8_000.0, 0.0]);
        assert_eq!(rates.present("others"), [0.0, 0.0]);
    }
}
