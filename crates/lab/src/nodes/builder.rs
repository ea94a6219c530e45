//! The creation of nodes and ports: a pipeline in which a port is created as soon as its node exists.
//!
//! One thread creates namespaces in batches. Workers take each batch and create its veth pairs (one netlink message
//! for many), configure the node from inside, and attach the link plane to the host ends. No process is started and
//! nothing gets a name on the host: everything is in namespaces held by descriptors.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use constel_containers::runtime::{FreshNode, Node, NodeRuntime};
use constel_drivers::{DriverKind, Plane};
use constel_host::netlink::Batch;
use constel_host::threads::{result_of, results_of};
use constel_link::PortId;
use constel_plan::{Blueprint, LocalNodes};
use constel_scenario::model::{Isl, Scenario};
use constel_topology::{Attachment, NodeId};

use crate::error::EngineError;
use crate::life::together::ClusterPart;
use crate::nodes::elsewhere::Elsewhere;
use crate::nodes::kernels::set_up;
use crate::nodes::management::ManagementNet;
use crate::nodes::ports::PortMaker;
use crate::nodes::stackless::{Stackless, StacklessNode};
use crate::progress::Stage;

/// The number of nodes in a batch. It is large enough that the setting for inherited settings (a journal entry on
/// disk each time) is rarely changed, and small enough that the first links are created while most nodes are still
/// missing.
const NODES_PER_BATCH: usize = 192;

/// The dependencies of node creation.
pub(crate) struct Builder<'a> {
    pub(crate) blueprint: &'a Blueprint,
    pub(crate) runtime: &'a dyn NodeRuntime,
    pub(crate) ports: &'a dyn PortMaker,
    /// The management network, if there is one.
    pub(crate) management: Option<&'a ManagementNet>,
    /// The nodes without a stack, if there are any: nothing is created for them.
    pub(crate) stackless: Option<&'a Arc<Stackless>>,
    /// This machine's part of a lab on several machines.
    pub(crate) together: Option<&'a ClusterPart>,
}

/// The rate below which the relay would divide full super-frames again.
const GSO_RATE_BPS: u64 = 26_000_000_000;

/// Returns whether nodes may send TCP super-frames, which the relay carries as a whole over links that are fast and
/// have no effects on single frames. If some links are slow, the kernels of the nodes divide the frames more
/// cheaply.
pub(crate) fn carries_gso(plane: &dyn Plane, scenario: &Scenario) -> bool {
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
    plane.kind() == DriverKind::Relay
        && links.all(|link| {
            link.rate.bps() >= GSO_RATE_BPS && link.loss.get() == 0.0 && link.effects.is_empty()
        })
}

/// The largest useful number of workers: more threads wait for each other in the kernel.
const MOST_WORKERS: u32 = 4;

/// Returns the default number of threads that create nodes on this host: one per processor, up to four.
#[must_use]
pub fn workers_here() -> NonZeroU32 {
    let processors = thread::available_parallelism().map(|n| n.get() as u32);
    let workers = processors.map_or(1, |n| n.min(MOST_WORKERS));
    NonZeroU32::new(workers).unwrap_or(NonZeroU32::MIN)
}

/// A batch of nodes without ports, and their numbers.
struct Fresh {
    numbers: Vec<usize>,
    nodes: Vec<Box<dyn FreshNode>>,
}

/// Nodes with their numbers.
type Numbered = Vec<(usize, Box<dyn Node>)>;

/// Nodes by number, and those of them that are on other machines.
pub(crate) type Built = (Vec<Box<dyn Node>>, BTreeMap<NodeId, Elsewhere>);

impl Builder<'_> {
    /// Creates every node of this machine with its ports, attached to the link plane, and the placeholders of nodes
    /// on other machines. No objects are left after a failure: dropping the nodes removes everything in them.
    ///
    /// # Errors
    /// The first refusal of the runtime, the port maker or a node's kernel.
    pub(crate) fn build(&self, stage: &Stage<'_>) -> Result<Built, EngineError> {
        let lab = &self.blueprint.lab;
        let all = lab.layout.nodes();
        let ours = self
            .together
            .map_or_else(LocalNodes::all, ClusterPart::ours);
        let (here, elsewhere): (Vec<usize>, Vec<usize>) = (0..all.len())
            .filter(|number| !lab.forwards(all[*number].id))
            .partition(|number| ours.has(all[*number].id));
        let mut nodes: BTreeMap<usize, Box<dyn Node>> =
            self.make(&here, stage)?.into_iter().collect();
        if let Some(all) = self.stackless {
            // Every machine has all nodes without a stack, because each follows paths over all of them.
            for node in lab.forwarders() {
                let all = Arc::clone(all);
                nodes.insert(node.index(), Box::new(StacklessNode { all, node }));
            }
        }
        let mut others = BTreeMap::new();
        for number in elsewhere {
            let node = &all[number];
            let machine = self.together.map_or("?", |own| own.machine(node.id));
            let there = Elsewhere::new(&node.name, machine)?;
            others.insert(node.id, there.clone());
            nodes.insert(number, Box::new(there));
        }
        Ok((nodes.into_values().collect(), others))
    }

    /// Creates the nodes with these numbers, which have stacks, with their ports, attached to the link plane.
    /// No objects are left after a failure.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub(crate) fn make(&self, made: &[usize], stage: &Stage<'_>) -> Result<Numbered, EngineError> {
        let all = self.blueprint.lab.layout.nodes();
        let workers = self.together.map_or_else(workers_here, |own| own.workers);
        let workers = workers.get() as usize;
        // The channel is bounded: namespaces are not created much faster than the workers can use them.
        let (sender, receiver) = sync_channel::<Fresh>(workers);
        let receiver = Mutex::new(receiver);
        let done = AtomicU64::new(0);
        thread::scope(|scope| {
            let maker = scope.spawn(move || -> Result<(), EngineError> {
                for numbers in made.chunks(NODES_PER_BATCH) {
                    let names = numbers.iter().map(|number| all[*number].name.as_str());
                    let names: Vec<&str> = names.collect();
                    let nodes = self.runtime.create(&names)?;
                    let numbers = numbers.to_vec();
                    if sender.send(Fresh { numbers, nodes }).is_err() {
                        // Every worker has failed; their error is reported.
                        return Ok(());
                    }
                }
                Ok(())
            });
            let workers: Vec<_> = (0..workers)
                .map(|_| scope.spawn(|| self.work(&receiver, &done, stage)))
                .collect();
            let mut parts = Numbered::new();
            let mut failure = None;
            for ended in results_of(workers) {
                match ended {
                    Ok(part) => parts.extend(part),
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            // The maker may wait for workers that have ended, so that the channel is emptied first.
            drop(receiver.lock().map(|r| while r.try_recv().is_ok() {}));
            match (failure, result_of(maker)) {
                (Some(error), _) | (None, Err(error)) => Err(error),
                (None, Ok(())) => Ok(parts),
            }
        })
    }

    fn work(
        &self,
        receiver: &Mutex<Receiver<Fresh>>,
        done: &AtomicU64,
        stage: &Stage<'_>,
    ) -> Result<Numbered, EngineError> {
        let layout = &self.blueprint.lab.layout;
        let mut pairs = self.ports.hand();
        let mut made = Numbered::new();
        loop {
            // The lock is held during the wait: its owner takes the next batch.
            let fresh = receiver.lock().unwrap_or_else(|e| e.into_inner()).recv();
            let Ok(fresh) = fresh else { return Ok(made) };
            let Fresh { numbers, nodes } = fresh;
            for (&number, node) in numbers.iter().zip(&nodes) {
                for port in layout.ports_of(NodeId(number as u32)) {
                    pairs.add(self.blueprint, port, node.netns())?;
                }
                if let Some(management) = self.management {
                    let id = NodeId(number as u32);
                    management.add_port(id, &layout.node(id).name, node.netns())?;
                }
            }
            // One request creates the pairs of the whole batch, before any node is entered.
            pairs.make()?;
            let mut setup = Batch::new();
            for (&number, node) in numbers.iter().zip(nodes) {
                let id = NodeId(number as u32);
                set_up(&self.blueprint.setup(id), &mut setup)?;
                if let Some(management) = self.management {
                    management.set_up(id, &mut setup)?;
                }
                let ports = layout.ports_of(id);
                let full_checksums = self.blueprint.lab.has_full_checksums(id);
                // The worker thread exists only for these nodes, so that it need not return from their namespaces.
                let mut problem = None;
                let mut prepare = || {
                    self.ports.prepare(ports, full_checksums).map_err(|error| {
                        let said = constel_host::Error::Invalid(error.to_string());
                        problem = Some(error);
                        said
                    })
                };
                let finished = node.finish(&mut prepare, &mut setup);
                // The port maker's own error has more detail.
                let node = finished.map_err(|error| problem.unwrap_or(error.into()))?;
                made.push((number, node));
            }
            // The ports of a whole batch are attached in one call.
            self.ports.attach(&self.ports_of(&numbers))?;
            let count = numbers.len() as u64;
            stage.reach(done.fetch_add(count, Ordering::Relaxed) + count);
        }
    }

    fn ports_of(&self, nodes: &[usize]) -> Vec<PortId> {
        let layout = &self.blueprint.lab.layout;
        let ports = nodes
            .iter()
            .flat_map(|&n| layout.ports_of(NodeId(n as u32)));
        // The interfaces of the machine are attached separately.
        let ours = ports.filter(|port| port.attachment == Attachment::Veth);
        ours.map(|port| port.id).collect()
    }
}
