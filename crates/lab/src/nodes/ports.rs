//! The creation of ports: a veth pair for each, with one end in the node and the other in the link plane's
//! namespaces.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use constel_drivers::forward::Forwarder;
use constel_drivers::relay::{GSO_MAX_SEGS, complete_checksums, send_single_frames, send_tcp_gso};
use constel_drivers::{Plane, host_ifindex};
use constel_host::netlink::{Batch, Mac, Socket, VethEnd};
use constel_link::PortId;
use constel_plan::{Blueprint, node_ifindex};
use constel_topology::Port;

use crate::error::EngineError;
use crate::routing::forwarding::Forwarding;

/// The longest time in which the kernel removes the interfaces of a dead namespace.
const REMOVED_WITHIN: Duration = Duration::from_secs(120);

/// The time without any removal after which remaining interfaces are deleted, `DELETED_AT_ONCE` at a time.
const STUCK: Duration = Duration::from_millis(200);
const DELETED_AT_ONCE: usize = 256;

/// The maker of ports, which also attaches them to the link plane. Several threads use it.
pub(crate) trait PortMaker: Sync {
    /// Returns the tool with which one thread creates ports.
    fn hand(&self) -> Box<dyn PortHand + '_>;

    /// Prepares a node's ports; called inside the node's namespace. With `full_checksums` the frames that they
    /// send have complete checksums.
    ///
    /// # Errors
    /// The refusal of the node's kernel.
    fn prepare(&self, ports: &[Port], full_checksums: bool) -> Result<(), EngineError>;

    /// Attaches existing ports to the link plane.
    ///
    /// # Errors
    /// The refusal of the link plane.
    fn attach(&self, ports: &[PortId]) -> Result<(), EngineError>;

    /// Removes a port, if it exists, wherever its end in the node is now.
    ///
    /// # Errors
    /// The refusal of the kernel.
    fn remove(&self, port: PortId) -> Result<(), EngineError> {
        let _ = port;
        Ok(())
    }

    /// Waits until none of these ports exists.
    ///
    /// # Errors
    /// When the kernel does not remove them.
    fn wait_removed(&self, ports: &[PortId]) -> Result<(), EngineError>;
}

/// A collection of ports that are created together.
pub(crate) trait PortHand {
    /// Adds a port of a node whose namespace stays open as `netns` until the ports are created.
    ///
    /// # Errors
    /// When the link plane has no place for it.
    fn add(
        &mut self,
        blueprint: &Blueprint,
        port: &Port,
        netns: BorrowedFd<'_>,
    ) -> Result<(), EngineError>;

    /// Creates the added ports.
    ///
    /// # Errors
    /// The refusal of the kernel.
    fn make(&mut self) -> Result<(), EngineError>;
}

/// Ports of a kernel.
pub(crate) struct VethPorts<'a> {
    pub(crate) plane: &'a dyn Plane,
    /// Whether nodes send TCP super-frames.
    pub(crate) super_frames: bool,
    /// The map for packets in transit, if there is one.
    pub(crate) forwarding: Option<Arc<Forwarding>>,
}

impl PortMaker for VethPorts<'_> {
    fn hand(&self) -> Box<dyn PortHand + '_> {
        Box::new(VethHand {
            ports: self,
            shards: BTreeMap::new(),
        })
    }

    fn prepare(&self, ports: &[Port], full_checksums: bool) -> Result<(), EngineError> {
        for port in ports {
            // Rate, queue and loss act on frames, so that super-frames must not be used unless the relay carries
            // them whole.
            let set = if self.super_frames {
                send_tcp_gso(port.name())
            } else {
                send_single_frames(port.name())
            };
            set?;
            if full_checksums {
                complete_checksums(port.name())?;
            }
            if let Some(forwarding) = &self.forwarding {
                forwarding.attach(port)?;
            }
        }
        Ok(())
    }

    fn attach(&self, ports: &[PortId]) -> Result<(), EngineError> {
        Ok(self.plane.attach(ports)?)
    }

    fn remove(&self, port: PortId) -> Result<(), EngineError> {
        let mut batch = Batch::new();
        batch
            .delete_link(self.plane.host_ifindex(port)?)
            .tolerate(rustix::io::Errno::NODEV.raw_os_error());
        Ok(Socket::open_in(self.plane.shard_ns(port)?)?.send(&mut batch)?)
    }

    fn wait_removed(&self, ports: &[PortId]) -> Result<(), EngineError> {
        let mut shards = BTreeMap::new();
        for &port in ports {
            let shard = self.plane.shard_ns(port)?;
            if let std::collections::btree_map::Entry::Vacant(entry) =
                shards.entry(shard.as_raw_fd())
            {
                entry.insert(Socket::open_in(shard)?);
            }
        }
        let end = u32::try_from(ports.len()).unwrap_or(u32::MAX);
        // The host ends have consecutive indices, by which they are recognised among other interfaces of the
        // namespace.
        let host_ends = host_ifindex(PortId(0))..host_ifindex(PortId(end));
        let end = Instant::now() + REMOVED_WITHIN;
        for socket in shards.values_mut() {
            wait_empty(socket, &host_ends, end)?;
        }
        Ok(())
    }
}

/// Waits until none of these interfaces exists in the socket's namespace. A packet that waits for a neighbour which
/// never answers keeps its sender's namespace alive for three seconds: if no interface disappears any more, the
/// rest are deleted.
fn wait_empty(
    socket: &mut Socket,
    indices: &std::ops::Range<u32>,
    end: Instant,
) -> Result<(), EngineError> {
    let mut pause = Duration::from_millis(1);
    let (mut before, mut since) = (usize::MAX, Instant::now());
    loop {
        let links = socket.links()?;
        let ours = links.iter().map(|link| link.ifindex);
        let left: Vec<u32> = ours.filter(|index| indices.contains(index)).collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(EngineError::Io {
                what: "the kernel does not remove the lab's interfaces".to_owned(),
                source: std::io::ErrorKind::TimedOut.into(),
            });
        }
        if left.len() != before {
            (before, since) = (left.len(), Instant::now());
        // Progress is measured by the count; the timer restarts whenever it changes.
        } else if since.elapsed() > STUCK {
            let mut batch = Batch::new();
            for &index in left.iter().take(DELETED_AT_ONCE) {
                batch
                    .delete_link(index)
                    .tolerate(rustix::io::Errno::NODEV.raw_os_error());
            }
            socket.send(&mut batch)?;
        }
        std::thread::sleep(pause);
        // Listing thousands of interfaces holds the lock that their removal needs, so the pauses grow.
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// The tool of one thread: a netlink socket and a batch for each of the link plane's namespaces.
struct VethHand<'a> {
    ports: &'a VethPorts<'a>,
    shards: BTreeMap<i32, (Socket, Batch)>,
}

impl PortHand for VethHand<'_> {
    fn add(
        &mut self,
        blueprint: &Blueprint,
        port: &Port,
        netns: BorrowedFd<'_>,
    ) -> Result<(), EngineError> {
        let shard = self.ports.plane.shard_ns(port.id)?;
        let (_, batch) = match self.shards.entry(shard.as_raw_fd()) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert((Socket::open_in(shard)?, Batch::new()))
            }
        };
        // Names in the shard are for people only: all code finds the host ends by their indices.
        let host_name = format!("h{}", port.id.0);
        let ours = VethEnd {
            name: &host_name,
            ifindex: Some(self.ports.plane.host_ifindex(port.id)?),
            mtu: Some(port.mtu_bytes),
            // Frames reach the node by `bpf_redirect_peer`, which a native XDP program in the node would not see.
            // The kernel refuses such a program on an end with fewer RX queues than this end has TX queues. The
            // attachment then fails instead of having no effect.
            tx_queues: Some(2),
            up: true,
            ..VethEnd::default()
        };
        // The interface group is the node's key in the map.
        let group = self.ports.forwarding.as_ref();
        let theirs = VethEnd {
            name: port.name(),
            netns: Some(netns),
            ifindex: Some(node_ifindex(port)),
            mac: Some(Mac(blueprint.addresses.port(port.id).mac)),
            mtu: Some(port.mtu_bytes),
            gso_max_segs: self.ports.super_frames.then_some(GSO_MAX_SEGS),
            group: group.map(|_| Forwarder::group(port.node.0)),
            ..VethEnd::default()
        };
        batch.create_veth(&ours, &theirs)?;
        Ok(())
    }

    fn make(&mut self) -> Result<(), EngineError> {
        for (socket, batch) in self.shards.values_mut() {
            if !batch.is_empty() {
                socket.send(batch)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_host::netlink::{AddressSpec, IpPrefix, LinkChange};
    use constel_host::netns::NetNs;
    use std::net::{Ipv4Addr, UdpSocket};

    /// The sender of a packet, and with it its namespace, lives on while the packet waits for a neighbour: three seconds.
    #[test]
    fn a_packet_that_waits_for_nobody_keeps_no_interface() {
        let (trunk, node) = (NetNs::new().unwrap(), NetNs::new().unwrap());
        let mut socket = Socket::open_in(&trunk).unwrap();
        let (ours, theirs) = (100, 102);
        let far = VethEnd {
            name: "eth0",
            netns: Some(node.fd()),
            ifindex: Some(theirs),
            ..VethEnd::default()
        };
        let near = VethEnd {
            name: "h0",
            ifindex: Some(ours),
            up: true,
            ..VethEnd::default()
        };
        let mut batch = Batch::new();
        batch.create_veth(&near, &far).unwrap();
        socket.send(&mut batch).unwrap();
        let sent = node.run(|| {
            let mut batch = Batch::new();
            let up = LinkChange {
                ifindex: theirs,
                up: Some(true),
                ..LinkChange::default()
            };
            batch.change_link(&up).unwrap();
            let prefix = IpPrefix::new(Ipv4Addr::new(10, 9, 0, 1).into(), 24).unwrap();
            batch.add_address(&AddressSpec::new(theirs, prefix));
            Socket::open().unwrap().send(&mut batch).unwrap();
            let sender = UdpSocket::bind("10.9.0.1:0").unwrap();
            sender.send_to(b"hello", "10.9.0.2:9").unwrap()
        });
        assert_eq!(sent.unwrap(), 5);
        drop(node);
        let end = Instant::now() + Duration::from_secs(240);
        wait_empty(&mut socket, &(ours..ours + 1), end).unwrap();
    }
}
