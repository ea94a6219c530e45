//! Frames that enter the table: the choice of their edges.

use super::EdgeTable;
use super::frames::{Counting, Frames};
use super::keys::key;
use crate::edge::{Edge, Refused};
use crate::mac::{is_group, port_of_mac};
use crate::packet::Traits;
use crate::types::{DropCause, Impairment, Nanos, PortId};

impl<F> EdgeTable<F> {
    /// Handles a frame that leaves `from` at `now`. Multicast and broadcast frames take every edge of the port. A
    /// unicast frame takes the edge to the port that owns `dst_mac`, or the only edge of the port whatever the address.
    /// Returns the number of edges that accepted it.
    pub fn arrive(
        &mut self,
        now: Nanos,
        from: PortId,
        dst_mac: [u8; 6],
        len_bytes: u32,
        frame: F,
        frames: &mut impl Frames<F>,
    ) -> usize {
        let edges = self.ports.get(from.0 as usize).map_or(0, Vec::len);
        // A port with one edge is a point-to-point link, which has no use for addresses.
        if edges == 1 {
            let id = self.ports[from.0 as usize][0];
            return usize::from(self.offer(id, now, len_bytes, frame, frames));
        }
        if edges == 0 {
            return self.refuse(from, frame, frames);
        }
        if !is_group(dst_mac) {
            let id = port_of_mac(dst_mac).and_then(|to| {
                let id = *self.index.get(&key(from.0, to.0))?;
                self.entries[id as usize]
                    .as_ref()
                    .filter(|e| e.open)
                    .map(|_| id)
            });
            return match id {
                Some(id) => usize::from(self.offer(id, now, len_bytes, frame, frames)),
                None => self.refuse(from, frame, frames),
            };
        }
        // The frame itself goes to the last edge, so that a group of n edges needs n - 1 copies.
        let mut accepted = 0;
        for i in 0..edges - 1 {
            let id = self.ports[from.0 as usize][i];
            match frames.duplicate(&frame) {
                Some(copy) => {
                    accepted += usize::from(self.offer(id, now, len_bytes, copy, frames));
                }
                None => {
                    // The edge would have received this frame, so the drop is counted there to keep the sum of counters
                    // balanced.
                    if let Some(entry) = self.entries[id as usize].as_mut() {
                        for counters in [entry.edge.counters_mut(), &mut self.sum] {
                            counters.offered += 1;
                            counters.offered_bytes += u64::from(len_bytes);
                            counters.count_drop(DropCause::NoBuffer);
                        }
                    }
                }
            }
        }
        let id = self.ports[from.0 as usize][edges - 1];
        accepted + usize::from(self.offer(id, now, len_bytes, frame, frames))
    }

    /// Returns whether the edge of a frame from `from` to `dst_mac` may get many frames as one GSO frame of
    /// `len_bytes`: it has no law that acts on single frames, and serves all of them within `within_ns`. Also true if
    /// there is no such edge.
    #[must_use]
    pub fn takes_gso(
        &self,
        from: PortId,
        dst_mac: [u8; 6],
        len_bytes: u32,
        within_ns: Nanos,
    ) -> bool {
        let Some(edges) = self.ports.get(from.0 as usize) else {
            return true;
        };
        let id = match edges[..] {
            [only] => Some(only),
            _ if is_group(dst_mac) => return false,
            _ => port_of_mac(dst_mac).and_then(|to| self.index.get(&key(from.0, to.0)).copied()),
        };
        let entry = id.and_then(|id| self.entries[id as usize].as_ref());
        entry.is_none_or(|entry| entry.edge.takes_gso(len_bytes, within_ns))
    }

    /// Passes a frame that a channel has carried: its last bit left `from` at `left_ns`, and `to` received it. The edge
    /// between them applies its loss, delay and other effects, but not its rate and queue. Returns false if the frame
    /// is dropped.
    pub fn pass(
        &mut self,
        left_ns: Nanos,
        (from, to): (PortId, PortId),
        len_bytes: u32,
        frame: F,
        frames: &mut impl Frames<F>,
    ) -> bool {
        let id = self.index.get(&key(from.0, to.0)).copied();
        let open = |id: &u32| self.entries[*id as usize].as_ref().is_some_and(|e| e.open);
        let Some(id) = id.filter(open) else {
            self.refuse(from, frame, frames);
            return false;
        };
        self.give(id, len_bytes, frame, frames, |edge, frame, out| {
            edge.pass(left_ns, frame, len_bytes, &mut |f, cause| out(f, cause))
        })
    }

    /// Counts and discards a frame for whose destination the port has no edge.
    pub fn no_way(&mut self, from: PortId, frame: F, frames: &mut impl Frames<F>) {
        self.refuse(from, frame, frames);
    }

    /// Returns whether this edge exists.
    #[must_use]
    pub fn has(&self, from: PortId, to: PortId) -> bool {
        self.open_entry(from.0, to.0).is_some()
    }

    /// Counts frames that were dropped before they reached an edge (`None`: all edges of the port), because the host
    /// did not keep up. They count as offered to that edge, or as frames without an edge if it no longer exists.
    pub fn turned_away(&mut self, from: PortId, to: Option<PortId>, frames: u64, bytes: u64) {
        let ids = match to {
            Some(to) => {
                let id = self.index.get(&key(from.0, to.0)).copied();
                id.into_iter().collect()
            }
            None => self.ports.get(from.0 as usize).cloned().unwrap_or_default(),
        };
        if ids.is_empty() {
            if let Some(count) = self.no_edge.get_mut(from.0 as usize) {
                *count += frames;
            }
            self.sum_no_edge += frames;
        }
        // A frame for all edges of the port would have been copied to each of them, so each edge counts it.
        for id in ids {
            if let Some(entry) = self.entries[id as usize].as_mut() {
                for counters in [entry.edge.counters_mut(), &mut self.sum] {
                    counters.offered += frames;
                    counters.offered_bytes += bytes;
                    counters.dropped_overload += frames;
                }
            }
        }
    }

    /// Returns the impairment of an edge that exists and has not failed.
    #[must_use]
    pub fn carries(&self, from: PortId, to: PortId) -> Option<&Impairment> {
        let entry = self.open_entry(from.0, to.0)?;
        (!entry.edge.is_down()).then(|| entry.edge.impairment())
    }

    fn refuse(&mut self, from: PortId, frame: F, frames: &mut impl Frames<F>) -> usize {
        if let Some(count) = self.no_edge.get_mut(from.0 as usize) {
            *count += 1;
        }
        self.sum_no_edge += 1;
        frames.discard(frame, DropCause::NoEdge);
        0
    }

    fn offer(
        &mut self,
        id: u32,
        now: Nanos,
        len_bytes: u32,
        frame: F,
        frames: &mut impl Frames<F>,
    ) -> bool {
        let entry = self.entries[id as usize].as_ref();
        // Reading a frame's headers takes time, so it is done only for edges that use the traits.
        let traits = if entry.is_some_and(|entry| entry.edge.wants_traits()) {
            frames.traits(&frame)
        } else {
            Traits::default()
        };
        self.give(id, len_bytes, frame, frames, |edge, frame, out| {
            edge.arrive_as(now, frame, len_bytes, traits, &mut |f, cause| out(f, cause))
        })
    }

    /// Puts a frame into an edge by `enter`. Returns true if the edge accepted it.
    fn give<S: Frames<F>>(
        &mut self,
        id: u32,
        len_bytes: u32,
        frame: F,
        frames: &mut S,
        enter: impl FnOnce(&mut Edge<F>, F, &mut dyn FnMut(F, DropCause)) -> Result<(), Refused<F>>,
    ) -> bool {
        let Some(entry) = self.entries[id as usize].as_mut() else {
            return false;
        };
        self.sum.offered += 1;
        self.sum.offered_bytes += u64::from(len_bytes);
        let mut frames = Counting {
            frames,
            sum: &mut self.sum,
        };
        let before = entry.edge.held();
        let result = enter(&mut entry.edge, frame, &mut |f, cause| {
            frames.discard(f, cause)
        });
        self.held = self.held + entry.edge.held() - before;
        // An edge that is behind is not in the wheel; it gets its turn from the list.
        if !entry.behind {
            match entry.edge.next_event() {
                Some(at) => self.wheel.set(id, at),
                None => self.wheel.remove(id),
            }
        }
        match result {
            Ok(()) => true,
            Err(refused) => {
                frames.discard(refused.frame, refused.cause);
                false
            }
        }
    }
}
