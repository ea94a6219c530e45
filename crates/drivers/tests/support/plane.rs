//! Nodes and ports around any driver, for the conformance suite and for measurements.

use constel_drivers::relay::send_single_frames;
use constel_drivers::{DriverKind, LinkHandle, LinkPlane, PlaneConfig};
use constel_host::netlink::{Batch, Mac, Socket, VethEnd};
use constel_link::{EdgeChange, EdgeUpdate, PortId, mac_of};

use super::{ETH0, Node};

/// Decides what gets lost.
pub(crate) const SEED: u64 = 7;

/// Nodes 1, 2, ... whose only ports are 0, 1, ...
pub(crate) struct PlaneLab {
    pub(crate) handle: LinkHandle,
    pub(crate) nodes: Vec<Node>,
    /// Held: the ports go with it.
    _plane: LinkPlane,
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
        let plane = LinkPlane::new(kind, &PlaneConfig::new("test", nodes, SEED)).unwrap();
        let nodes: Vec<Node> = (0..nodes)
            .map(|port| {
                let node = Node::new();
                if silent {
                    node.run(|| {
                        let path = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
                        std::fs::write(path, "1").unwrap();
                    });
                }
                plug(&plane, &node, PortId(port));
                node
            })
            .collect();
        let handle = plane.start().unwrap();
        PlaneLab {
            handle,
            nodes,
            _plane: plane,
        }
    }

    pub(crate) fn apply(&self, changes: Vec<EdgeChange>) {
        self.handle.apply(EdgeUpdate { changes }, None).unwrap();
    }
}

fn plug(plane: &LinkPlane, node: &Node, port: PortId) {
    let host_name = format!("h{}", port.0);
    let host = VethEnd {
        name: &host_name,
        ifindex: Some(LinkPlane::host_ifindex(port)),
        up: true,
        ..VethEnd::default()
    };
    let end = VethEnd {
        name: "eth0",
        netns: Some(node.ns.fd()),
        ifindex: Some(ETH0),
        mac: Some(Mac(mac_of(port))),
        ..VethEnd::default()
    };
    let mut batch = Batch::new();
    batch.create_veth(&host, &end).unwrap();
    let mut socket = Socket::open_in(plane.shard_ns(port).unwrap()).unwrap();
    socket.send(&mut batch).unwrap();
    node.run(|| send_single_frames("eth0").unwrap());
    plane.attach(&[port]).unwrap();
}
