//! Passing captured frames to their edges.

use constel_link::{Nanos, PortId};

use super::data_path::DataPath;
use super::layout::SlotRef;

/// Frames taken in before checking whether others are due; frames that one is cut up into or copied to count too.
pub(super) const INTAKE: usize = 64;
/// A GSO frame passes as one if its bytes take no longer than this.
const GSO_NS: Nanos = 20_000;

impl DataPath {
    /// Passes captured frames to their edges. Returns whether there may be more.
    pub(super) fn intake(&mut self, until: Nanos) -> bool {
        if self.across.as_ref().is_some_and(|a| a.instants.waits()) {
            return false;
        }
        let mut count = 0;
        while count < INTAKE
            && let Some(captured) = self.rings.next(until, &mut self.pool)
        {
            let frame = captured.frame;
            let from = self.wires.port(captured.port);
            let destination = self.pool.destination(frame);
            let taken = if self.externals.has(from) {
                self.take_external(captured.ts_ns, from, destination, frame)
            } else if self.air.has(from.0) {
                // A channel's time advances for all its ports: no frame can be sent in its past.
                self.take_to_air(captured.ts_ns, from, destination, frame)
            } else {
                let at_ns = self.enters_at(captured.ts_ns, from, frame);
                let (switches, pool) = (&self.switches, &self.pool);
                let destination = switches.destination(from, destination, || pool.source(frame));
                self.enter(at_ns, from, destination, frame)
            };
            count += taken.max(1);
        }
        if count > 0 {
            self.state.took_in_ns = until;
            self.rings.release(&mut self.pool);
            self.state.frames(until);
        }
        count >= INTAKE
    }

    /// Returns when a frame enters its edges: without the time of the stack of the node that forwarded it, if that is
    /// known.
    #[inline]
    fn enters_at(&mut self, ts_ns: Nanos, from: PortId, frame: SlotRef) -> Nanos {
        let Some(passed) = &mut self.passed else {
            return ts_ns;
        };
        // A super-frame differs from the packets that it consists of, so it cannot be recognised.
        let mark = if frame.is_new() || frame.is_gso() {
            None
        } else {
            passed.mark(from, self.pool.whole(frame).1)
        };
        passed.enters(from, ts_ns, mark)
    }

    /// Passes a GSO frame as one if its edge allows, otherwise frame by frame. Returns the number of frames to which
    /// the work amounts.
    pub(super) fn take_gso(
        &mut self,
        ts_ns: Nanos,
        from: PortId,
        destination: [u8; 6],
        gso: SlotRef,
    ) -> usize {
        let (table, pool) = (&mut self.table, &mut self.pool);
        let pieces = pool.gso(gso).map_or(0, |t| t.slots.len());
        // With a VLAN tag set by the node, and with UDP, the sending socket could not pass the super-frame on.
        let plain = pool.gso(gso).filter(|t| t.vlan_tci.is_none() && !t.udp);
        let plain = plain.filter(|t| pool.gso_headers(t).is_some());
        if let Some(len) = plain.map(|t| t.len)
            && table.takes_gso(from, destination, len, GSO_NS)
        {
            pool.enters(ts_ns, from, gso);
            table.arrive(ts_ns, from, destination, len, gso, pool);
            return pieces;
        }
        let one_by_one = self.each_frame(gso, |relay, frame| {
            let (table, pool) = (&mut relay.table, &mut relay.pool);
            pool.enters(ts_ns, from, frame);
            table.arrive(ts_ns, from, destination, u32::from(frame.len), frame, pool);
        });
        one_by_one.max(pieces)
    }

    /// Passes frames over a channel that several ports share, frame by frame. Returns the number of frames to which the
    /// work amounts.
    fn take_to_air(
        &mut self,
        ts_ns: Nanos,
        from: PortId,
        destination: [u8; 6],
        frame: SlotRef,
    ) -> usize {
        self.each_frame(frame, |relay, frame| {
            let (air, table, pool) = (&mut relay.air, &mut relay.table, &mut relay.pool);
            pool.enters(ts_ns, from, frame);
            air.send(ts_ns, from, destination, frame, table, pool);
        })
    }

    /// Applies `act` to a frame, or to each frame of a GSO frame. Returns the number of frames to which the work
    /// amounts.
    pub(super) fn each_frame(
        &mut self,
        frame: SlotRef,
        mut act: impl FnMut(&mut Self, SlotRef),
    ) -> usize {
        if !frame.is_gso() {
            act(self, frame);
            return 1;
        }
        let mut frames = std::mem::take(&mut self.state.cut);
        let lost = self.pool.cut_up(frame, &mut frames);
        self.state.no_slot += lost.no_slot;
        self.state.over_share += lost.over_share;
        for &frame in &frames {
            act(self, frame);
        }
        let work = frames.len().max(1);
        self.state.cut = frames;
        work
    }

    /// Passes frames from an interface of the host, frame by frame, whatever the edge. Returns the number of frames to
    /// which the work amounts.
    fn take_external(
        &mut self,
        ts_ns: Nanos,
        at: PortId,
        destination: [u8; 6],
        frame: SlotRef,
    ) -> usize {
        self.each_frame(frame, |relay, frame| {
            let (from, frame) = relay.externals.steer(ts_ns, at, frame, &mut relay.pool);
            relay.enter(ts_ns, from, destination, frame);
        })
    }
}
