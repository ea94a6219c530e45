//! Bring-up of nodes without a kernel: what fails on the way leaves nothing.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};

use constel_containers::runtime::memory::MemoryRuntime;
use constel_host::netlink::Batch;
use constel_link::PortId;
use constel_plan::{Blueprint, LocalNodes};
use constel_topology::{NodeId, Port};

use crate::error::EngineError;
use crate::life::together::ClusterPart;
use crate::nodes::builder::{Builder, workers_here};
use crate::nodes::kernels::{Here, Kernels};
use crate::nodes::ports::{PortHand, PortMaker};
use crate::progress::Stage;
use crate::testing::{Silent, blueprint, computed_iridium, iridium, on_two_machines};

/// Ports that are only written down.
#[derive(Default)]
struct PaperPorts {
    made: Mutex<BTreeSet<PortId>>,
    attached: Mutex<BTreeSet<PortId>>,
    prepared: AtomicUsize,
    /// Threads that make a node now, and the most at any time.
    at_once: (AtomicUsize, AtomicUsize),
    /// The threads.
    threads: Mutex<HashSet<ThreadId>>,
    /// The port whose making is refused.
    refused: Option<PortId>,
}

impl PortMaker for PaperPorts {
    fn hand(&self) -> Box<dyn PortHand + '_> {
        Box::new(PaperHand {
            ports: self,
            added: Vec::new(),
        })
    }

    fn prepare(&self, ports: &[Port], _: bool) -> Result<(), EngineError> {
        let now = self.at_once.0.fetch_add(1, Ordering::AcqRel) + 1;
        self.at_once.1.fetch_max(now, Ordering::AcqRel);
        self.threads.lock().unwrap().insert(thread::current().id());
        thread::yield_now();
        self.at_once.0.fetch_sub(1, Ordering::AcqRel);
        self.prepared.fetch_add(ports.len(), Ordering::AcqRel);
        let made = self.made.lock().unwrap();
        assert!(
            ports.iter().all(|port| made.contains(&port.id)),
            "made before"
        );
        Ok(())
    }

    fn attach(&self, ports: &[PortId]) -> Result<(), EngineError> {
        self.attached.lock().unwrap().extend(ports);
        Ok(())
    }

    fn wait_removed(&self, _: &[PortId]) -> Result<(), EngineError> {
        Ok(())
    }
}

struct PaperHand<'a> {
    ports: &'a PaperPorts,
    added: Vec<PortId>,
}

impl PortHand for PaperHand<'_> {
    fn add(&mut self, _: &Blueprint, port: &Port, _: BorrowedFd<'_>) -> Result<(), EngineError> {
        self.added.push(port.id);
        Ok(())
    }

    fn make(&mut self) -> Result<(), EngineError> {
        if self
            .ports
            .refused
            .is_some_and(|port| self.added.contains(&port))
        {
            return Err(EngineError::Interrupted);
        }
        let mut made = self.ports.made.lock().unwrap();
        for port in self.added.drain(..) {
            assert!(made.insert(port), "{port} is made once");
        }
        Ok(())
    }
}

fn build(runtime: &MemoryRuntime, ports: &PaperPorts) -> Result<Kernels, EngineError> {
    build_part(runtime, ports, None)
}

fn build_part(
    runtime: &MemoryRuntime,
    ports: &PaperPorts,
    together: Option<&ClusterPart>,
) -> Result<Kernels, EngineError> {
    build_all_of(iridium(), runtime, ports, together)
}

fn build_all_of(
    blueprint: Blueprint,
    runtime: &MemoryRuntime,
    ports: &PaperPorts,
    together: Option<&ClusterPart>,
) -> Result<Kernels, EngineError> {
    let builder = Builder {
        blueprint: &blueprint,
        runtime,
        ports,
        management: None,
        stackless: None,
        together,
    };
    let (nodes, elsewhere) = builder.build(&Stage::begin(&Silent, "nodes", 80))?;
    Ok(Kernels {
        nodes,
        elsewhere,
        blueprint: std::sync::Arc::new(blueprint),
        forwarding: None,
        stackless: None,
        own_stacks: Default::default(),
        here: Here::new(together.map_or_else(LocalNodes::all, ClusterPart::ours)),
    })
}

/// A machine makes no more nodes at a time than its agent's limit.
#[test]
fn a_part_is_made_by_as_many_threads_as_the_machine_is_to_use() {
    let sky = computed_iridium()
        .replace("satellites: 66", "satellites: 2400")
        .replace("planes: 6", "planes: 60");
    for workers in [1, 3] {
        let blueprint = blueprint(sky.split("traffic:").next().unwrap());
        let together = ClusterPart {
            workers: NonZeroU32::new(workers).unwrap(),
            ..on_two_machines(&blueprint)
        };
        let (runtime, ports) = (MemoryRuntime::default(), PaperPorts::default());
        build_all_of(blueprint, &runtime, &ports, Some(&together)).unwrap();
        let prepared = ports.prepared.load(Ordering::Acquire);
        assert!(prepared > 1_200, "several batches: {prepared}");
        let most = ports.at_once.1.load(Ordering::Acquire);
        assert!((1..=workers as usize).contains(&most), "{most} at a time");
        let threads = ports.threads.lock().unwrap().len();
        assert!((1..=workers as usize).contains(&threads), "{threads}");
    }
    assert!(workers_here().get() <= 4);
}

#[test]
fn every_node_has_its_ports_and_going_down_leaves_nothing() {
    let (runtime, ports) = (MemoryRuntime::default(), PaperPorts::default());
    let kernels = build(&runtime, &ports).unwrap();
    let layout = &kernels.blueprint.lab.layout;
    assert_eq!(kernels.nodes.len(), layout.nodes().len());
    assert_eq!(runtime.alive(), layout.nodes().len());
    let all: BTreeSet<PortId> = layout.ports().iter().map(|port| port.id).collect();
    assert_eq!(*ports.made.lock().unwrap(), all);
    assert_eq!(*ports.attached.lock().unwrap(), all);
    assert_eq!(ports.prepared.load(Ordering::Acquire), all.len());
    drop(kernels);
    assert_eq!(runtime.alive(), 0);
}

/// In a lab on two machines, only our nodes are made; the others refuse, and name their machine.
#[test]
fn nodes_of_other_machines_refuse_and_say_where_they_are() {
    let (runtime, ports) = (MemoryRuntime::default(), PaperPorts::default());
    let together = on_two_machines(&iridium());
    let kernels = build_part(&runtime, &ports, Some(&together)).unwrap();
    let layout = &kernels.blueprint.lab.layout;
    assert_eq!((kernels.nodes.len(), kernels.count()), (80, 40));
    assert_eq!(runtime.alive(), 40);
    let ours = |port: &&Port| kernels.ours().has(port.node);
    let ours: BTreeSet<PortId> = layout.ports().iter().filter(ours).map(|p| p.id).collect();
    assert_eq!(*ports.made.lock().unwrap(), ours);
    assert_eq!(*ports.attached.lock().unwrap(), ours);
    let far = layout
        .nodes()
        .iter()
        .find(|node| !kernels.ours().has(node.id));
    let far = far.unwrap();
    let error = kernels
        .node(far.id)
        .door(&far.name)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&far.name) && error.contains("machine other"),
        "{error}"
    );
    drop(kernels);
    assert_eq!(runtime.alive(), 0);
}

#[test]
fn a_runtime_that_fails_at_the_37th_node_leaves_nothing() {
    let (runtime, ports) = (MemoryRuntime::default(), PaperPorts::default());
    runtime.fail_at_node(37);
    let error = build(&runtime, &ports).err().unwrap();
    assert!(error.to_string().contains("node 37"), "{error}");
    assert_eq!(runtime.alive(), 0);
    assert!(ports.attached.lock().unwrap().is_empty());
}

#[test]
fn a_node_that_refuses_its_setup_ends_the_bring_up() {
    let (runtime, ports) = (MemoryRuntime::default(), PaperPorts::default());
    runtime.fail_at_request(20);
    let error = build(&runtime, &ports).err().unwrap();
    assert!(error.to_string().contains("batch 20"), "{error}");
    assert_eq!(runtime.alive(), 0);
}

#[test]
fn a_port_that_cannot_be_made_ends_the_bring_up() {
    let runtime = MemoryRuntime::default();
    let ports = PaperPorts {
        refused: Some(PortId(40)),
        ..PaperPorts::default()
    };
    assert!(build(&runtime, &ports).is_err());
    assert_eq!(runtime.alive(), 0);
}

/// A program may block changes in its own node; in other nodes a refusal is an error.
#[test]
fn a_refusal_is_an_error_only_in_a_node_that_no_program_was_ever_in() {
    let runtime = MemoryRuntime::default();
    let kernels = build(&runtime, &PaperPorts::default()).unwrap();
    let [entered, untouched] = [NodeId(3), NodeId(4)];
    kernels.entered(entered);
    let tell = |node: NodeId| {
        runtime.refuse_at_request(runtime.told() + 1);
        kernels.tell(node, Batch::new().link_up(99))
    };
    tell(entered).unwrap();
    let error = tell(untouched).unwrap_err().to_string();
    assert!(error.contains("Network is unreachable"), "{error}");
}
