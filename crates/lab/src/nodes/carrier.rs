//! The carrier of ports that follows their links: a port without a link loses it, so that programs in the node notice at once.
//!
//! The carrier of a veth interface is the state of its other end. A thread compares the topology in force with the one before and
//! sets the ends in the link plane's namespaces up or down. Frames in flight still arrive, because they are put into the node's
//! end directly.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use constel_host::netlink::{Batch, Socket};
use constel_link::PortId;
use constel_topology::{Access, Layout, Medium, Port, Snapshot};

use crate::answers::view::View;
use crate::error::EngineError;
use crate::life::bring_up::Fabric;

/// How often the topology is compared.
const LOOK: Duration = Duration::from_millis(10);

/// Follows the links of this machine's ports until `over`.
///
/// # Errors
/// When an interface cannot be set up or down.
pub(crate) fn follow(fabric: &Fabric, view: &View, over: &AtomicBool) -> Result<(), EngineError> {
    let layout = &fabric.blueprint.lab.layout;
    let ours = fabric.kernels.ours();
    let wired = fabric.blueprint.lab.wired_ports();
    let own = wired.filter(|port| ours.has(port.node) && has_one_link(layout, port));
    let mut carriers = Carriers::new(own.map(|port| port.id));
    let mut wires = Wires::default();
    let mut seen: Option<(Arc<Snapshot>, u64)> = None;
    while !over.load(Ordering::Acquire) {
        let (snapshot, failed) = (view.snapshot(), view.failed.now());
        let is_new = |now: &Arc<Snapshot>| {
            let same = |(was, version): &(Arc<Snapshot>, u64)| {
                // Snapshots are never changed in place, so the same pointer is the same topology.
                Arc::ptr_eq(was, now) && *version == failed.version()
            };
            !seen.as_ref().is_some_and(same)
        };
        if let Some(now) = snapshot.filter(is_new) {
            let edges = now.edges.iter().map(|edge| (edge.from, edge.to));
            let changes = carriers.step(edges.filter(|edge| !failed.contains(*edge)));
            // Down comes before up: daemons then see the old neighbour go before the new one appears.
            wires.set(fabric, &changes.down, false)?;
            wires.set(fabric, &changes.up, true)?;
            seen = Some((now, failed.version()));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Returns whether a port has one far end at a time. Other ports are radios that send to several, or switches.
fn has_one_link(layout: &Layout, port: &Port) -> bool {
    let chooses = layout.node(port.node).class.access == Access::Chooses;
    port.medium.made && (!port.medium.several || chooses && port.medium == Medium::SERVED)
}

/// The sockets in the link plane's namespaces, by descriptor.
#[derive(Default)]
struct Wires(BTreeMap<i32, Socket>);

impl Wires {
    /// Sets the ends of these ports in the link plane up or down, with one request for each namespace.
    fn set(&mut self, fabric: &Fabric, ports: &[PortId], up: bool) -> Result<(), EngineError> {
        let mut batches: BTreeMap<i32, Batch> = BTreeMap::new();
        for &port in ports {
            let shard = fabric.plane.shard_ns(port)?;
            let key = shard.as_raw_fd();
            if let std::collections::btree_map::Entry::Vacant(entry) = self.0.entry(key) {
                entry.insert(Socket::open_in(shard)?);
            }
            let (batch, index) = (
                batches.entry(key).or_default(),
                fabric.plane.host_ifindex(port)?,
            );
            match up {
                true => batch.link_up(index),
                false => batch.link_down(index),
            };
            // A program in the node may have removed the port.
            batch.tolerate(rustix::io::Errno::NODEV.raw_os_error());
        }
        for (key, mut batch) in batches {
            if let Some(socket) = self.0.get_mut(&key) {
                socket.send(&mut batch)?;
            }
        }
        Ok(())
    }
}

/// Whether each followed port had a link in the topology before. A port without one has no carrier. At a handover a station's port
/// keeps it: a daemon that sees it go announces that in an LSA, and the next LSA is at least 5 s later (MinLSInterval,
/// RFC 2328, appendix B).
#[derive(Debug)]
struct Carriers {
    linked: BTreeMap<PortId, bool>,
}

/// The ports whose carrier changes.
#[derive(Debug, Default, PartialEq)]
struct Changes {
    down: Vec<PortId>,
    up: Vec<PortId>,
}

impl Carriers {
    fn new(ports: impl Iterator<Item = PortId>) -> Self {
        Self {
            linked: ports.map(|port| (port, true)).collect(),
        }
    }

    /// Compares the edges that carry frames with those before.
    fn step(&mut self, edges: impl Iterator<Item = (PortId, PortId)>) -> Changes {
        // A link that works in one direction is up at both ends.
        let now: BTreeSet<PortId> = edges.flat_map(|(from, to)| [from, to]).collect();
        let mut changes = Changes::default();
        for (port, was) in &mut self.linked {
            let is = now.contains(port);
            match (*was, is) {
                (true, false) => changes.down.push(*port),
                (false, true) => changes.up.push(*port),
                _ => {}
            }
            *was = is;
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports<const N: usize>(numbers: [u32; N]) -> Vec<PortId> {
        numbers.map(PortId).to_vec()
    }

    #[test]
    fn ports_without_a_link_lose_their_carrier_and_handovers_keep_it() {
        let mut carriers = Carriers::new(ports([0, 1, 2]).into_iter());
        let mut step = |edges: &[(u32, u32)]| {
            let edges = edges.iter().map(|(from, to)| (PortId(*from), PortId(*to)));
            carriers.step(edges)
        };
        let none = Changes::default;
        // All have their carrier at first; 9 is not followed.
        let first = step(&[(0, 1), (1, 0), (9, 0)]);
        assert_eq!(
            first,
            Changes {
                down: ports([2]),
                ..none()
            }
        );
        assert_eq!(step(&[(0, 1), (1, 0)]), none());
        // One direction is enough.
        assert_eq!(step(&[(1, 0)]), none());
        assert_eq!(
            step(&[(2, 9)]),
            Changes {
                down: ports([0, 1]),
                up: ports([2]),
            }
        );
        // Break before make, and make before break.
        assert_eq!(step(&[(2, 8)]), none());
        assert_eq!(step(&[(2, 8), (2, 7)]), none());
        assert_eq!(step(&[(2, 7)]), none());
    }
}
