//! Nodes and ports around any driver, for the conformance suite and for measurements.
#![allow(
    dead_code,
    reason = "a module of several programs; each uses its own part"
)]

use constel_drivers::relay::send_single_frames;
use constel_drivers::{DriverKind, Links, Plane, PlaneConfig, Stall, make_plane, mono_ns};
use constel_host::netlink::{Batch, Socket};
use constel_link::{EdgeChange, EdgeUpdate, PortId};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use crate::support::{ETH0, Node, real_ns};

/// Decides what gets lost.
pub(crate) const SEED: u64 = 7;

/// Nodes 1, 2, ... whose only ports are 0, 1, ...
pub(crate) struct PlaneLab {
    pub(crate) handle: Arc<dyn Links>,
    pub(crate) nodes: Vec<Node>,
    /// Held: the ports go with it.
    plane: Box<dyn Plane>,
}

impl PlaneLab {
    /// With addresses 10.0.0.n/24 and fd00::n/64 for nodes 1, 2, ...
    pub(crate) fn new(kind: DriverKind, nodes: u32) -> PlaneLab {
        let lab = PlaneLab::build(kind, nodes, false);
        for (n, node) in (1..).zip(&lab.nodes) {
            node.addresses(ETH0, n);
        }
        lab
    }

    /// Nodes whose kernels send nothing of their own, so that every frame counts.
    pub(crate) fn silent(kind: DriverKind, nodes: u32) -> PlaneLab {
        let lab = PlaneLab::build(kind, nodes, true);
        for node in &lab.nodes {
            node.netlink(|batch| {
                batch.link_up(ETH0);
            });
        }
        lab
    }

    fn build(kind: DriverKind, nodes: u32, silent: bool) -> PlaneLab {
        let plane = make_plane(kind, &PlaneConfig::new("test", nodes, SEED)).unwrap();
        let nodes: Vec<Node> = (0..nodes)
            .map(|port| {
                let node = Node::new();
                if silent {
                    node.run(|| {
                        let path = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
                        std::fs::write(path, "1").unwrap();
                    });
                }
                plug(plane.as_ref(), &node, PortId(port));
                node
            })
            .collect();
        let handle = plane.start().unwrap();
        PlaneLab {
            handle,
            nodes,
            plane,
        }
    }

    /// Makes the port of a silent node again after its interface was deleted.
    pub(crate) fn plug_again(&self, port: PortId) {
        let node = &self.nodes[port.0 as usize];
        plug(self.plane.as_ref(), node, port);
        node.netlink(|batch| {
            batch.link_up(ETH0);
        });
    }

    /// The plane was given something between `sent` and gave it out at `at`, which took `due` at least and less than
    /// `late` more, but for the time in which the machine kept the plane from running.
    pub(crate) fn assert_took(&self, sent: &Sent, at: u64, due: u64, late: u64) {
        self.assert_took_between(sent, at, due, due + late);
    }

    /// As [`PlaneLab::assert_took`], with the least and the most given each.
    pub(crate) fn assert_took_between(&self, sent: &Sent, at: u64, least: u64, most: u64) {
        // From the last moment that it can have come in at, and to the first.
        let (longest, shortest) = (at - sent.real.start, at.saturating_sub(sent.real.end));
        let stalled = self.stalled_ns(sent.mono.start, sent.mono.start + longest);
        assert!(
            longest >= least && shortest < most + stalled,
            "{shortest} to {longest} ns instead of {least} to {most} and {stalled} of standing still"
        );
    }

    /// How long the machine kept the plane from running between two moments (`CLOCK_MONOTONIC`).
    pub(crate) fn stalled_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let stalls = self.handle.stalls().unwrap();
        let within = |s: &Stall| s.to_ns.min(to_ns).saturating_sub(s.from_ns.max(from_ns));
        stalls.iter().map(within).sum()
    }

    pub(crate) fn apply(&self, changes: Vec<EdgeChange>) {
        self.handle.apply(EdgeUpdate { changes }, None).unwrap();
    }
}

/// Between which moments something was handed to the kernel, by both clocks.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) mono: Range<u64>,
    pub(crate) real: Range<u64>,
}

impl Sent {
    /// The time that `send` takes.
    pub(crate) fn by(send: impl FnOnce()) -> Sent {
        let (mono, real) = (mono_ns(), real_ns());
        send();
        Sent {
            mono: mono..mono_ns(),
            real: real..real_ns(),
        }
    }
}

fn plug(plane: &dyn Plane, node: &Node, port: PortId) {
    let mut batch = Batch::new();
    let name = node.veth(&mut batch, port, 0);
    let mut socket = Socket::open_in(plane.shard_ns(port).unwrap()).unwrap();
    socket.send(&mut batch).unwrap();
    node.run(|| send_single_frames(&name).unwrap());
    plane.attach(&[port]).unwrap();
}

/// Ports of one node, `eth<port>` with an index that follows from the port's, up, none of which sends anything of its
/// own.
pub(crate) fn plug_ports(plane: &dyn Plane, node: &Node, ports: &[PortId]) {
    node.run(|| std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap());
    for of_shard in ports.chunk_by(|a, b| {
        let shard = |port: &PortId| plane.shard_ns(*port).unwrap().fd().as_raw_fd();
        shard(a) == shard(b)
    }) {
        let mut batch = Batch::new();
        let mut up = Batch::new();
        for &port in of_shard {
            node.veth(&mut batch, port, port.0);
            up.link_up(ETH0 + port.0);
        }
        let mut socket = Socket::open_in(plane.shard_ns(of_shard[0]).unwrap()).unwrap();
        socket.send(&mut batch).unwrap();
        Socket::open_in(&node.ns).unwrap().send(&mut up).unwrap();
        plane.attach(of_shard).unwrap();
    }
    let first = format!("eth{}", ports[0].0);
    node.run(|| send_single_frames(&first).unwrap());
}
