//! The namespaces and interfaces between AF_XDP and the nodes.
//!
//! ```text
//! trunk namespace:   tb0 ==veth== ta0      u0 ... uN       (tb*: AF_XDP, one a thread; ta*: cst_trunk)
//! shard namespace k: x (peer of uk)        h<port> ...     (x: cst_shard, h*: cst_capture)
//! warm-up node namespace:   eth0 (peer of hd, which is in shard 0 and has cst_capture)
//! ```
//! All of them are held by descriptors only: they have no name and are deleted when the relay ends.

use constel_host::netlink::{Batch, FIRST_OWN_IFINDEX, LinkChange, Mac, Socket, VethEnd};
use constel_host::netns::NetNs;

use super::layout::{FIRST_UPLINK, SHARD_PORTS, THREADS_MAX, WARM_UP_END};
use super::object::{Loaded, Program};
use super::warm_up_node;
use crate::error::{DriverError, Result};
use crate::ports::FIRST_PORT;
use crate::quiet::be_silent;

/// Returns the index of the trunk end on which a thread's AF_XDP socket sends.
pub(crate) fn trunk_send(thread: usize) -> u32 {
    FIRST_OWN_IFINDEX + 2 * thread as u32
}

/// Returns the index of the trunk end at which its frames arrive.
fn trunk_receive(thread: usize) -> u32 {
    trunk_send(thread) + 1
}

const _: () = assert!(FIRST_OWN_IFINDEX + 2 * THREADS_MAX as u32 <= FIRST_UPLINK);

/// A shard's end of its uplink.
const SHARD_END: u32 = FIRST_OWN_IFINDEX;
/// Larger than any frame in a slot with the relay's tag.
const TRUNK_MTU: u32 = 3400;

/// The relay's own namespaces.
#[derive(Debug)]
pub(crate) struct Plumbing {
    pub(crate) trunk: NetNs,
    pub(crate) shards: Vec<NetNs>,
    /// Node through which warm-up packets pass.
    warm_up_node: NetNs,
}

impl Plumbing {
    /// Creates the namespaces and interfaces for `ports` ports and `threads` threads, and attaches the programs.
    pub(crate) fn new(ports: u32, threads: usize, loaded: &Loaded) -> Result<Plumbing> {
        let shards = ports.div_ceil(SHARD_PORTS) as usize;
        let mut all = NetNs::create_many(shards + 2, None)?;
        for ns in &all {
            ns.run(be_silent)?.map_err(|source| DriverError::Os {
                what: "turn IPv6 off".into(),
                source,
            })?;
        }
        // Two namespaces more than shards: the trunk's and the warm-up node's.
        let trunk = all.remove(0);
        let warm_up_node = all.remove(0);
        let plumbing = Plumbing {
            trunk,
            shards: all,
            warm_up_node,
        };
        plumbing.wire(threads)?;
        warm_up_node::wire(&plumbing.warm_up_node, &plumbing.shards[0])?;
        plumbing.shards[0].run(|| loaded.attach(Program::Capture, WARM_UP_END))??;
        plumbing.trunk.run(|| {
            let mut threads = 0..threads;
            threads.try_for_each(|thread| loaded.attach(Program::Trunk, trunk_receive(thread)))
        })??;
        for shard in &plumbing.shards {
            shard.run(|| loaded.attach(Program::Shard, SHARD_END))??;
        }
        Ok(plumbing)
    }

    fn wire(&self, threads: usize) -> Result<()> {
        let mut socket = Socket::open_in(&self.trunk)?;
        let mut batch = Batch::new();
        for thread in 0..threads {
            let (send, receive) = (trunk_send(thread), trunk_receive(thread));
            let names = (format!("tb{thread}"), format!("ta{thread}"));
            batch.create_veth(&end(&names.0, send), &end(&names.1, receive))?;
            batch.link_up(send).link_up(receive);
        }
        for (k, shard) in self.shards.iter().enumerate() {
            let uplink = FIRST_UPLINK + k as u32;
            let name = format!("u{k}");
            let near = end(&name, uplink);
            let far = VethEnd {
                netns: Some(shard.fd()),
                ..end("x", SHARD_END)
            };
            batch.create_veth(&near, &far)?;
            batch.link_up(uplink);
        }
        socket.send(&mut batch)?;
        // The far ends of the uplinks are in the shards, so sockets of those namespaces set them up.
        for shard in &self.shards {
            let mut batch = Batch::new();
            batch.change_link(&LinkChange {
                ifindex: SHARD_END,
                up: Some(true),
                ..LinkChange::default()
            })?;
            Socket::open_in(shard)?.send(&mut batch)?;
        }
        Ok(())
    }

    /// Returns the namespace of a port's host end, by its number among those that are interfaces.
    pub(crate) fn shard_of(&self, wire: u32) -> Option<&NetNs> {
        self.shards.get((wire / SHARD_PORTS) as usize)
    }

    /// Attaches the capture program to the host ends of these ports, all of which exist.
    pub(crate) fn attach(&self, loaded: &Loaded, mut wires: Vec<u32>) -> Result<()> {
        // Sorted, the ports of a shard are adjacent, so each namespace is entered once.
        wires.sort_unstable();
        for chunk in wires.chunk_by(|a, b| a / SHARD_PORTS == b / SHARD_PORTS) {
            let Some(shard) = self.shard_of(chunk[0]) else {
                continue;
            };
            shard.run(|| {
                chunk
                    .iter()
                    .try_for_each(|wire| loaded.attach(Program::Capture, FIRST_PORT + wire))
            })??;
        }
        Ok(())
    }
}

pub(super) fn end(name: &str, ifindex: u32) -> VethEnd<'_> {
    let [_, _, high, low] = ifindex.to_be_bytes();
    VethEnd {
        name,
        ifindex: Some(ifindex),
        mac: Some(Mac([0x02, 0xc5, 0xff, 0, high, low])),
        mtu: Some(TRUNK_MTU),
        ..VethEnd::default()
    }
}
