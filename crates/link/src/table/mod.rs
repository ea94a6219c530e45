//! All edges between all ports: lookup of a frame's edge, the next due frame, and updates at one instant.

mod apply;
mod effects;
mod frames;
mod keys;
mod passage;
mod stats;
mod turns;

use std::sync::Arc;

use crate::counters::EdgeCounters;
use crate::edge::Edge;
use crate::effects::Effects;
use crate::types::{DropCause, Nanos, PortId};
use crate::wheel::Wheel;

pub use apply::Applied;
pub use frames::{Delivery, Frames};
pub use stats::{EdgeStats, Totals};
pub use turns::LatenessLimits;

use frames::Counting;
use keys::{KeyMap, key};
use turns::Behind;

/// The fields that an update needs come first, within two cache lines: with tens of thousands of edges, memory access
/// dominates the time of an update.
#[derive(Debug)]
#[repr(C, align(64))]
struct Entry<F> {
    from: u32,
    to: u32,
    /// Place in the port's list, while open.
    position: u32,
    /// False while the last frames of a removed edge are still in flight.
    open: bool,
    /// Waits in the list of edges that are behind, not in the wheel.
    behind: bool,
    edge: Edge<F>,
    /// Number of frames in a row that came out while the next one was already due.
    together: u32,
    /// Since when the edge has been late by more than the table's patience without catching up.
    late_since_ns: Option<Nanos>,
}

const _: () = assert!(std::mem::offset_of!(Entry<u32>, edge) + Edge::<u32>::UPDATED_BYTES <= 128);

#[derive(Clone, Copy, Debug, Default)]
struct Past {
    lives: u32,
    counters: EdgeCounters,
}

/// The edges of a lab.
#[derive(Debug)]
pub struct EdgeTable<F> {
    seed: u64,
    /// Open edges of each port.
    ports: Vec<Vec<u32>>,
    /// Frames of each port that found no edge.
    no_edge: Vec<u64>,
    entries: Vec<Option<Entry<F>>>,
    free: Vec<u32>,
    index: KeyMap<u32>,
    past: KeyMap<Past>,
    /// Effects of each profile, from number 1 on.
    profiles: Vec<Option<Arc<Effects>>>,
    /// Effects of all edges of a port; on top of them those of single edges.
    port_effects: Vec<Option<Arc<Effects>>>,
    edge_effects: KeyMap<Arc<Effects>>,
    open: usize,
    held: usize,
    /// Maintained at every change, so that reading it costs the same for any number of edges.
    sum: EdgeCounters,
    sum_no_edge: u64,
    wheel: Wheel,
    behind: Behind,
    patience: Option<LatenessLimits>,
    /// Ports whose frames come out early, and by how much; empty: no port.
    far: Vec<bool>,
    ahead_ns: Nanos,
}

impl<F> EdgeTable<F> {
    /// Creates a table of `ports` ports without edges. The seed determines all random draws of all edges.
    #[must_use]
    pub fn new(ports: u32, seed: u64) -> EdgeTable<F> {
        EdgeTable {
            seed,
            ports: (0..ports).map(|_| Vec::new()).collect(),
            no_edge: vec![0; ports as usize],
            entries: Vec::new(),
            free: Vec::new(),
            index: KeyMap::default(),
            past: KeyMap::default(),
            profiles: Vec::new(),
            port_effects: vec![None; ports as usize],
            edge_effects: KeyMap::default(),
            open: 0,
            held: 0,
            sum: EdgeCounters::default(),
            sum_no_edge: 0,
            wheel: Wheel::new(),
            behind: Behind::default(),
            patience: None,
            far: Vec::new(),
            ahead_ns: 0,
        }
    }

    /// Makes edges to these ports that are added from here on release their frames `ahead_ns` before they are due
    /// ([`Delivery::due_ns`]), but not before they have been served: another mechanism carries them to their ports.
    /// Ports that the table does not have are ignored.
    pub fn come_out_ahead(&mut self, to: &[PortId], ahead_ns: Nanos) {
        self.far = vec![false; self.ports.len()];
        for port in to {
            if let Some(far) = self.far.get_mut(port.0 as usize) {
                *far = true;
            }
        }
        self.ahead_ns = ahead_ns;
    }

    /// Makes frames for these ports come out when they are due from here on, like all others.
    pub fn come_out_in_time(&mut self, to: &[PortId]) {
        for port in to {
            if let Some(far) = self.far.get_mut(port.0 as usize) {
                *far = false;
            }
        }
        // A removed edge that still holds frames keeps the old setting and would reuse it when it is added again, so
        // such edges are changed too.
        for entry in self.entries.iter_mut().flatten() {
            if self.far.get(entry.to as usize) == Some(&false) {
                entry.edge.come_out_ahead(0);
            }
        }
    }

    /// Returns how long before their due time frames for this port come out.
    fn ahead_ns(&self, to: u32) -> Nanos {
        match self.far.get(to as usize) {
            Some(true) => self.ahead_ns,
            _ => 0,
        }
    }

    /// Returns the number of ports.
    #[must_use]
    pub fn ports(&self) -> u32 {
        self.ports.len() as u32
    }

    /// Changes an edge. Frames that it drops are counted, and the number of held frames is updated.
    fn change_edge(
        &mut self,
        id: u32,
        frames: &mut impl Frames<F>,
        change: impl FnOnce(&mut Edge<F>, &mut dyn FnMut(F, DropCause)),
    ) {
        let Some(entry) = self.entries[id as usize].as_mut() else {
            return;
        };
        let before = entry.edge.held();
        let mut counting = Counting {
            frames,
            sum: &mut self.sum,
        };
        change(&mut entry.edge, &mut |frame, cause| {
            counting.discard(frame, cause);
        });
        // A change can only drop frames, so the number does not rise.
        self.held -= before - entry.edge.held();
    }

    fn open_entry(&self, from: u32, to: u32) -> Option<&Entry<F>> {
        let id = *self.index.get(&key(from, to))?;
        self.entries[id as usize].as_ref().filter(|e| e.open)
    }

    /// Frees the entry of a removed edge after its last frame has left it.
    fn forget(&mut self, id: u32) {
        self.wheel.remove(id);
        if let Some(entry) = self.entries[id as usize].take() {
            let k = key(entry.from, entry.to);
            // The next edge between these ports is a new one, with its own random numbers.
            self.index.remove(&k);
            self.past
                .entry(k)
                .or_default()
                // Counters of all lives of an edge add up: a GSL may come and go many times in a run.
                .counters
                .add(entry.edge.counters());
            self.free.push(id);
        }
    }

    fn rearm(&mut self, id: u32) {
        let Some(entry) = self.entries[id as usize].as_ref() else {
            return;
        };
        // Edges that are behind get their turns from their own list, not from the wheel.
        if entry.behind {
            return;
        }
        match entry.edge.next_event() {
            Some(at) => self.wheel.set(id, at),
            None => self.wheel.remove(id),
        }
    }
}
