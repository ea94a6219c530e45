//! Nodes and ports come into being: a pipeline in which a port is made as soon as its node exists.
//!
//! One thread makes namespaces in batches; workers take each batch and make its veth pairs (one netlink
//! message for many), configure the node from inside, and attach the link plane to the host ends. No process
//! is started and nothing is named on the host: everything lives in namespaces held by descriptors.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use constel_drivers::forward::Forwarder;
use constel_drivers::relay::{send_single_frames, send_tcp_trains};
use constel_drivers::{DriverError, LinkPlane};
use constel_host::NetNs;
use constel_host::globals::{Globals, Owner};
use constel_host::netlink::{Batch, Mac, Socket, VethEnd};
use constel_host::template::NodeTemplate;
use constel_link::PortId;
use constel_scenario::model::{Isl, Scenario};
use constel_topology::NodeId;

use crate::error::EngineError;
use crate::nodes::wiring::{Wiring, node_ifindex};
use crate::progress::Stage;

/// Nodes made at a time: large enough that the switch for inheriting settings (a journal entry on disk each
/// time) is set seldom, small enough that the first links are made while most nodes are still missing.
const NODES_PER_BATCH: usize = 192;

/// Largest frame above Ethernet, bytes.
pub(crate) const MTU_BYTES: u32 = 1500;

/// One node that exists: its namespace and a netlink socket inside it.
pub(crate) struct LiveNode {
    pub(crate) ns: NetNs,
    pub(crate) netlink: Mutex<Socket>,
}

/// What node creation needs from its surroundings.
pub(crate) struct Builder<'a> {
    pub(crate) wiring: &'a Wiring,
    pub(crate) plane: &'a LinkPlane,
    pub(crate) template: &'a NodeTemplate,
    pub(crate) globals: &'a Globals,
    pub(crate) owner: &'a Owner,
    /// Nodes send TCP's super-frames; see [`carries_trains`].
    pub(crate) trains: bool,
}

/// Below this rate the relay would cut full super-frames up again.
const TRAIN_RATE_BPS: u64 = 26_000_000_000;

/// Whether nodes may send TCP's super-frames, which the relay carries whole over links that are fast and do nothing
/// to single frames. If some are slow, cutting them up is better left to the kernels of the nodes.
pub(crate) fn carries_trains(plane: &LinkPlane, scenario: &Scenario) -> bool {
    let lasers = scenario.constellations.iter().filter_map(|c| match &c.isl {
        Isl::None => None,
        Isl::PlusGrid(grid) => Some(&grid.link),
    });
    let ground = scenario
        .constellations
        .iter()
        .filter_map(|c| c.gsl.as_ref());
    let across = scenario.cross_shell.iter().map(|c| &c.link);
    let cables = scenario.cables.iter().map(|c| &c.link);
    let radio = ground.map(|gsl| &gsl.link);
    let mut links = lasers.chain(radio).chain(across).chain(cables);
    matches!(plane, LinkPlane::Relay(_))
        && links.all(|link| {
            link.rate.bps() >= TRAIN_RATE_BPS && link.loss.get() == 0.0 && link.effects.is_empty()
        })
}

/// A batch of namespaces, the first of which is node number `first`.
struct Fresh {
    first: usize,
    nodes: Vec<NetNs>,
}

impl Builder<'_> {
    /// Makes every node with its ports, attached to the link plane. Nothing is left on failure: dropping
    /// the namespaces removes all that was made in them.
    pub(crate) fn build(&self, stage: &Stage<'_>) -> Result<Vec<LiveNode>, EngineError> {
        let total = self.wiring.lab.layout.nodes().len();
        let workers = thread::available_parallelism()
            .map_or(1, |n| n.get())
            .min(4);
        let (sender, receiver) = sync_channel::<Fresh>(workers);
        let receiver = Mutex::new(receiver);
        let done = AtomicU64::new(0);
        let parts = thread::scope(|scope| {
            let maker = scope.spawn(move || -> Result<(), EngineError> {
                let mut first = 0;
                while first < total {
                    let count = NODES_PER_BATCH.min(total - first);
                    let nodes = self.template.create(count, self.globals, self.owner)?.nodes;
                    if sender.send(Fresh { first, nodes }).is_err() {
                        // Every worker has failed; theirs is the error to report.
                        return Ok(());
                    }
                    first += count;
                }
                Ok(())
            });
            let hands: Vec<_> = (0..workers)
                .map(|_| scope.spawn(|| self.work(&receiver, &done, stage)))
                .collect();
            let mut parts = Vec::new();
            let mut failure = None;
            for hand in hands {
                match hand
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                {
                    Ok(part) => parts.extend(part),
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            // A maker that waits for workers which are gone must be let go first.
            drop(receiver.lock().map(|r| while r.try_recv().is_ok() {}));
            let made = maker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match (failure, made) {
                (Some(error), _) | (None, Err(error)) => Err(error),
                (None, Ok(())) => Ok(parts),
            }
        })?;
        let mut nodes: BTreeMap<usize, LiveNode> = parts.into_iter().collect();
        Ok((0..total)
            .filter_map(|index| nodes.remove(&index))
            .collect())
    }

    fn work(
        &self,
        receiver: &Mutex<Receiver<Fresh>>,
        done: &AtomicU64,
        stage: &Stage<'_>,
    ) -> Result<Vec<(usize, LiveNode)>, EngineError> {
        let mut shards = BTreeMap::new();
        let mut made = Vec::new();
        loop {
            // The lock is held while waiting: whoever has it takes the next batch.
            let fresh = receiver.lock().unwrap_or_else(|e| e.into_inner()).recv();
            let Ok(fresh) = fresh else { return Ok(made) };
            self.make_ports(&fresh, &mut shards)?;
            let mut batch = Batch::new();
            let count = fresh.nodes.len();
            for (offset, ns) in fresh.nodes.into_iter().enumerate() {
                let index = fresh.first + offset;
                // This thread lives for the nodes it makes; it need not come back from any.
                ns.enter_for_good()?;
                for port in self.wiring.lab.layout.ports_of(NodeId(index as u32)) {
                    // Rate, queue and loss act on frames, not on super-frames.
                    if self.trains {
                        send_tcp_trains(port.name()).map_err(DriverError::from)?;
                    } else {
                        send_single_frames(port.name()).map_err(DriverError::from)?;
                    }
                }
                if let Some(forwarding) = &self.wiring.forwarding {
                    let ports = self.wiring.lab.layout.ports_of(NodeId(index as u32));
                    ports.iter().try_for_each(|port| forwarding.attach(port))?;
                }
                let mut netlink = Socket::open()?;
                self.wiring.configure_node(NodeId(index as u32), &mut batch);
                netlink.send(&mut batch)?;
                made.push((
                    index,
                    LiveNode {
                        ns,
                        netlink: Mutex::new(netlink),
                    },
                ));
            }
            let ports: Vec<PortId> = self.ports_of(fresh.first..fresh.first + count).collect();
            self.plane.attach(&ports)?;
            stage.reach(done.fetch_add(count as u64, Ordering::Relaxed) + count as u64);
        }
    }

    fn ports_of(&self, nodes: std::ops::Range<usize>) -> impl Iterator<Item = PortId> + '_ {
        let layout = &self.wiring.lab.layout;
        nodes
            .flat_map(|n| layout.ports_of(NodeId(n as u32)))
            .map(|port| port.id)
    }

    /// Makes the veth pairs of a batch of nodes: the far end in the node, our end in its switch namespace.
    fn make_ports(
        &self,
        fresh: &Fresh,
        shards: &mut BTreeMap<i32, (Socket, Batch)>,
    ) -> Result<(), EngineError> {
        let layout = &self.wiring.lab.layout;
        for (offset, ns) in fresh.nodes.iter().enumerate() {
            for port in layout.ports_of(NodeId((fresh.first + offset) as u32)) {
                let shard = self.plane.shard_ns(port.id)?;
                let (_, batch) = match shards.entry(shard.as_raw_fd()) {
                    std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                    std::collections::btree_map::Entry::Vacant(entry) => {
                        entry.insert((Socket::open_in(shard)?, Batch::new()))
                    }
                };
                let host_name = format!("h{}", port.id.0);
                let ours = VethEnd {
                    name: &host_name,
                    ifindex: Some(LinkPlane::host_ifindex(port.id)),
                    mtu: Some(MTU_BYTES),
                    up: true,
                    ..VethEnd::default()
                };
                let theirs = VethEnd {
                    name: port.name(),
                    netns: Some(ns.fd()),
                    ifindex: Some(node_ifindex(port)),
                    mac: Some(Mac(self.wiring.addresses.port(port.id).mac)),
                    mtu: Some(MTU_BYTES),
                    // By it the map knows the node.
                    group: self
                        .wiring
                        .forwarding
                        .as_ref()
                        .map(|_| Forwarder::group(port.node.0)),
                    ..VethEnd::default()
                };
                batch.create_veth(&ours, &theirs)?;
            }
        }
        for (socket, batch) in shards.values_mut() {
            if !batch.is_empty() {
                socket.send(batch)?;
            }
        }
        Ok(())
    }
}
