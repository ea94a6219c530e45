//! What rules did: the edges' counters, with those of earlier forms of a rule, and rates.

use std::collections::HashMap;

use constel_api::answers::WayShown;
use constel_link::{EdgeCounters, EdgeStats, Nanos};
use constel_rules::Direction;

use crate::ports::Slot;
use crate::steer::Seen;

/// So many bits per second, of bytes in a time.
fn bps(bytes: u64, ns: Nanos) -> f64 {
    if ns == 0 {
        return 0.0;
    }
    bytes as f64 * 8e9 / ns as f64
}

/// What was counted since an earlier count.
pub(crate) fn since(now: &EdgeCounters, before: &EdgeCounters) -> EdgeCounters {
    EdgeCounters {
        offered: now.offered - before.offered,
        offered_bytes: now.offered_bytes - before.offered_bytes,
        delivered: now.delivered - before.delivered,
        delivered_bytes: now.delivered_bytes - before.delivered_bytes,
        duplicated: now.duplicated - before.duplicated,
        corrupted: now.corrupted - before.corrupted,
        marked: now.marked - before.marked,
        dropped_queue: now.dropped_queue - before.dropped_queue,
        dropped_aqm: now.dropped_aqm - before.dropped_aqm,
        dropped_loss: now.dropped_loss - before.dropped_loss,
        dropped_outage: now.dropped_outage - before.dropped_outage,
        dropped_removed: now.dropped_removed - before.dropped_removed,
        dropped_no_buffer: now.dropped_no_buffer - before.dropped_no_buffer,
        dropped_overload: now.dropped_overload - before.dropped_overload,
    }
}

/// All edges of a box at an instant, found by slot and direction.
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

/// How much came by each slot and direction in the last whole second.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    at_ns: Nanos,
    bytes: HashMap<usize, u64>,
    present: HashMap<usize, f64>,
}

impl Rates {
    /// Looks at the edges of these slots again.
    pub(crate) fn sample(&mut self, now: Nanos, edges: &Edges, slots: impl Iterator<Item = Slot>) {
        let took = now.saturating_sub(self.at_ns);
        let mut bytes = HashMap::new();
        self.present.clear();
        for slot in slots {
            for direction in Direction::BOTH {
                let Some(stats) = edges.get(slot, direction) else {
                    continue;
                };
                let (place, all) = (slot.place(direction), stats.counters.offered_bytes);
                if let Some(before) = self.bytes.get(&place) {
                    self.present
                        .insert(place, bps(all.saturating_sub(*before), took));
                }
                bytes.insert(place, all);
            }
        }
        self.bytes = bytes;
        self.at_ns = now;
    }

    pub(crate) fn present(&self, slot: Slot, direction: Direction) -> f64 {
        let place = slot.place(direction);
        self.present.get(&place).copied().unwrap_or(0.0)
    }
}

/// A rule in one direction, in the words of answers. `counters` are those of all its forms.
pub(crate) fn way(
    now: Nanos,
    (slot, direction): (Slot, Direction),
    counters: EdgeCounters,
    stats: Option<&EdgeStats>,
    (seen, rates): (&Seen, &Rates),
) -> WayShown {
    let seen = seen.get(slot, direction);
    let active = seen.map_or(0, |(first, _)| now.saturating_sub(first));
    WayShown {
        frames: counters.offered,
        bytes: counters.offered_bytes,
        drops: counters.dropped(),
        duplicates: counters.duplicated,
        queue_frames: stats.map_or(0, |stats| stats.held as u64),
        average_bps: bps(counters.offered_bytes, active),
        present_bps: rates.present(slot, direction),
        last_frame_s: seen.map(|(_, last)| now.saturating_sub(last) as f64 / 1e9),
        queue_bytes: stats.map_or(0, |stats| stats.queue_bytes),
        inside: None,
        lateness: None,
        counters,
        via: None,
    }
}
