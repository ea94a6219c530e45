//! Forwarding by one map that all nodes of a lab share, in front of their kernels' tables.
//!
//! A program at the ingress of every node's port looks up (node, destination), decrements the TTL or hop limit, writes
//! the next link's MAC addresses and sends the frame out at the next port. Everything else passes to the node's kernel
//! as if there were no program:
//!
//! - frames for the node itself, and destinations without an entry;
//! - packets whose TTL expires here, so that the kernel sends "time exceeded";
//! - options and fragments, and packets too large for the next link.
//!
//! A change of a route is one store into memory shared with the kernel: no system call, no lock, and both families at
//! once. Map and program live by descriptors: they end with the [`Forwarder`] and the ports that it was attached to.
//!
//! The program identifies a node by the group of its interfaces ([`Forwarder::group`]), which frames cannot choose.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use constel_host::netns::NetNs;
use constel_host::probe::ProbeItem;
use constel_link::{MAC_PREFIX, PortId};
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};

use crate::bpf::{Aligned, BpfError, Mapped, Result};

static OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/forward.bpf.o")));

const PROGRAM: &str = "cst_forward";

/// Bits of a way that hold a port number.
const PORT_BITS: u32 = 24;

/// The route from a node to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRoute {
    /// Index of the interface in the node, 1 to 65,535.
    pub ifindex: u32,
    /// The node's port at that interface.
    pub port: PortId,
    /// The port at the far end.
    pub far_port: PortId,
}

impl NodeRoute {
    fn pack(self) -> u64 {
        let there_are = 1..1 << (u64::BITS - 2 * PORT_BITS);
        assert!(
            there_are.contains(&self.ifindex),
            "no interface {}",
            self.ifindex
        );
        u64::from(self.ifindex) << (2 * PORT_BITS)
            | u64::from(self.port.0) << PORT_BITS
            | u64::from(self.far_port.0)
    }

    fn unpack(word: u64) -> Option<NodeRoute> {
        let port = |word: u64| PortId(word as u32 & ((1 << PORT_BITS) - 1));
        let ifindex = (word >> (2 * PORT_BITS)) as u32;
        (ifindex != 0).then_some(NodeRoute {
            ifindex,
            port: port(word >> PORT_BITS),
            far_port: port(word),
        })
    }
}

/// The program and its map.
#[derive(Debug)]
pub struct Forwarder {
    ways: Mapped,
    nodes: usize,
    goals: usize,
    object: Object,
}

// SAFETY: an `Object` is a bundle of descriptors and libbpf's bookkeeping about them. After `load` returns nothing
// changes it: the methods below only use descriptors.
unsafe impl Send for Forwarder {}
// SAFETY: as above.
unsafe impl Sync for Forwarder {}

impl Forwarder {
    /// Loads the program for nodes 0 to `nodes` - 1 and destinations 0 to `goals` - 1, with the addresses of each
    /// destination. The map has no routes yet.
    ///
    /// # Errors
    /// When the kernel refuses the program or has no memory for 8 bytes for every node and destination.
    pub fn new(nodes: usize, goals: usize, addresses: &BTreeMap<IpAddr, u32>) -> Result<Forwarder> {
        crate::bpf::listen();
        let error = BpfError::refused("load the forwarding program");
        let ways = nodes.max(1) * goals.max(1);
        let too_many = |_| {
            BpfError::Mismatch(format!(
                "a map for {nodes} nodes and {goals} destinations is too large; leave `forwarding` out"
            ))
        };
        let entries = u32::try_from(ways).map_err(too_many)?;
        let mut builder = ObjectBuilder::default();
        builder.name("cst_fwd").map_err(&error)?;
        let mut open = builder.open_memory(&OBJECT.0).map_err(&error)?;
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            match name.as_str() {
                "cst_goals" => map
                    .set_max_entries(addresses.len().max(1) as u32)
                    .map_err(&error)?,
                "cst_ways" => map.set_max_entries(entries).map_err(&error)?,
                _ if name.ends_with(".rodata") => {
                    set_constants(map.initial_value_mut(), nodes as u32, goals.max(1) as u32)?;
                }
                _ => {}
            }
        }
        let object = open.load().map_err(&error)?;
        let numbers = crate::bpf::map(&object, "cst_goals")?;
        for (address, goal) in addresses {
            let put = numbers.update(&key(*address), &goal.to_ne_bytes(), MapFlags::ANY);
            put.map_err(BpfError::refused(
                "name the destinations to the forwarding program",
            ))?;
        }
        let ways = crate::bpf::mapped(&object, "cst_ways", ways * size_of::<u64>())?;
        Ok(Forwarder {
            ways,
            nodes,
            goals,
            object,
        })
    }

    /// Returns the interface group that all ports of this node must be in.
    #[must_use]
    pub const fn group(node: u32) -> u32 {
        node + 1
    }

    /// Puts the program on an interface of the calling thread's namespace. It is detached when the interface is
    /// deleted.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach(&self, ifindex: u32) -> Result<()> {
        crate::bpf::attach(&self.object, PROGRAM, ifindex)
    }

    /// Sets the node's route to the destination. With `None` the node's kernel decides. The program sees successive
    /// changes in the order in which they were made.
    ///
    /// # Panics
    /// When there is no such node, destination or interface.
    pub fn set(&self, node: u32, goal: u32, way: Option<NodeRoute>) {
        self.word(node, goal)
            .store(way.map_or(0, NodeRoute::pack), Ordering::Release);
    }

    /// Returns the node's route to the destination.
    ///
    /// # Panics
    /// When there is no such node or destination.
    #[must_use]
    pub fn way(&self, node: u32, goal: u32) -> Option<NodeRoute> {
        NodeRoute::unpack(self.word(node, goal).load(Ordering::Acquire))
    }

    fn word(&self, node: u32, goal: u32) -> &AtomicU64 {
        let (node, goal) = (node as usize, goal as usize);
        assert!(
            node < self.nodes && goal < self.goals,
            "no way from {node} to {goal}"
        );
        // SAFETY: an atomic at a multiple of its size in a page-aligned mapping, of which any value is valid.
        unsafe {
            self.ways
                .shared((node * self.goals + goal) * size_of::<u64>())
        }
    }
}

/// Tests in a temporary namespace whether this host supports the forwarding program.
#[must_use]
pub fn probe() -> ProbeItem {
    let addresses = BTreeMap::from([(Ipv6Addr::LOCALHOST.into(), 0)]);
    let tried = NetNs::new()
        .and_then(|node| node.run(|| Forwarder::new(1, 1, &addresses)?.attach(LOOPBACK)));
    let result = tried.map_or_else(|e| Err(e.to_string()), |r| r.map_err(|e| e.to_string()));
    ProbeItem {
        name: "routing.forwarding: map".into(),
        ok: result.is_ok(),
        required: false,
        detail: result.err().unwrap_or_default(),
        remedy: "Linux 6.6 or newer with CONFIG_BPF_SYSCALL and CONFIG_NET_XGRESS, and CAP_BPF, CAP_NET_ADMIN; \
                 without, scenarios leave `forwarding` out"
            .into(),
    }
}

/// Index of `lo` in every namespace.
const LOOPBACK: u32 = 1;

/// Returns the map key of an address: IPv4 addresses are mapped to IPv6.
fn key(address: IpAddr) -> [u8; 16] {
    let v6 = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    Ipv6Addr::octets(&v6)
}

fn set_constants(value: Option<&mut [u8]>, nodes: u32, goals: u32) -> Result<()> {
    let value = crate::bpf::constants(value, &[0, 1, 0])?;
    let [a, b, c] = MAC_PREFIX;
    let constants = [nodes, goals, u32::from_be_bytes([a, b, c, 0])];
    for (at, constant) in value.chunks_exact_mut(4).zip(constants) {
        at.copy_from_slice(&constant.to_ne_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_come_back_as_they_were_packed() {
        for (ifindex, port, far) in [(1, 0, 0), (10, 1, 2), (0xffff, 0xff_ffff, 0xff_fffe)] {
            let way = NodeRoute {
                ifindex,
                port: PortId(port),
                far_port: PortId(far),
            };
            assert_eq!(NodeRoute::unpack(way.pack()), Some(way));
        }
        assert_eq!(NodeRoute::unpack(0), None);
    }
}
