//! Nodes that are containers of Docker's or Podman's engine.
//!
//! The engine creates a container without a network, whose [first process](FIRST_PROCESS) is Constel's and waits. The node's
//! namespace is the container's own, so ports are created in it as in any other. The first process then receives the message to begin. It
//! becomes the image's program, or stays and starts that program if it may be started again. The host's tools run beside it
//! in the same network, as in all nodes. A container whose first process was killed is created again, in the network that
//! the node keeps.

mod crew;
mod first;
mod maker;

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use constel_host::netlink::{Batch, InstalledRoute, Stack, StackWatch};
use constel_host::process::Child;
use constel_host::template::{NodeTemplate, Setting, UNPRIVILEGED, settle};
use constel_host::{Error, NetNs, Result};

use crate::engine::{ContainerOptions, Kind};
use crate::runtime::container::ContainerSpec;
use crate::runtime::netns::{NetnsNode, NodeEnvironment};
use crate::runtime::{FreshNode, Node, NodeEntry, NodeRuntime, Program};
pub use crew::Crew;
use maker::{Container, Maker};

/// The program that is the first process of each container: static, and needs nothing of the image.
pub const FIRST_PROCESS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/first"));

/// Path of [`FIRST_PROCESS`] in images for the engine, relative to their root.
pub const FIRST_PROCESS_AT: &str = ".constel/first";

/// The request to an engine for one node.
#[derive(Debug, Clone)]
pub struct NodeContainer {
    /// The container, whose image has [`FIRST_PROCESS`]. Its `argv` is that of `spec`.
    pub order: ContainerOptions,
    /// The container in Constel's own terms, for programs that are started beside it. The engine manages layers and state.
    pub spec: ContainerSpec,
    /// Whether its program may be started again.
    pub stays: bool,
}

/// A function that returns the components of the container of a node, by the node's name.
pub type NodeContainerOf = dyn Fn(&str) -> Result<NodeContainer> + Send + Sync;

/// Has an engine make nodes.
pub struct DockerRuntime {
    crew: Arc<Crew>,
    template: NodeTemplate,
    quarters: Arc<NodeEnvironment>,
    maker: Arc<Maker>,
}

impl DockerRuntime {
    /// Creates a runtime whose nodes will all have these settings. `folder` contains the sockets of first processes. It must
    /// exist and have a short path. `kind` is the engine of the crew.
    ///
    /// If the kernel refuses a setting.
    pub fn new(
        (crew, kind): (Arc<Crew>, Kind),
        settings: &[Setting],
        quarters: Arc<NodeEnvironment>,
        folder: PathBuf,
        order_of: Box<NodeContainerOf>,
    ) -> Result<Self> {
        Ok(Self {
            template: NodeTemplate::prepare(settings)?,
            quarters,
            maker: Arc::new(Maker {
                crew: Arc::clone(&crew),
                kind,
                folder,
                order_of,
            }),
            crew,
        })
    }

    fn one(&self, name: &str) -> Result<FreshDocker> {
        let container = self.maker.make(name)?;
        let ns = NetNs::of_process(container.first.pid())?;
        self.template.complete(&ns)?;
        // Podman leaves them as the kernel has them.
        settle(&ns, &UNPRIVILEGED)?;
        Ok(FreshDocker {
            ns,
            quarters: Arc::clone(&self.quarters),
            maker: Arc::clone(&self.maker),
            container,
        })
    }
}

impl NodeRuntime for DockerRuntime {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn create(&self, names: &[&str]) -> Result<Vec<Box<dyn FreshNode>>> {
        let made = self.crew.each(names.len(), |n| {
            let name = names[n];
            self.one(name)
                .map_err(|error| Error::Conflict(format!("make a container for {name}: {error}")))
        });
        match made {
            Ok(made) => Ok(made
                .into_iter()
                .map(|node| Box::new(node) as Box<dyn FreshNode>)
                .collect()),
            Err(error) => {
                // Finished containers were removed one by one. This removes those that the engine created without reporting
                // them.
                drop(self.crew.remove_all());
                Err(error)
            }
        }
    }
}

struct FreshDocker {
    ns: NetNs,
    quarters: Arc<NodeEnvironment>,
    maker: Arc<Maker>,
    container: Container,
}

impl FreshNode for FreshDocker {
    fn netns(&self) -> BorrowedFd<'_> {
        self.ns.fd()
    }

    fn finish(
        self: Box<Self>,
        inside: &mut dyn FnMut() -> Result<()>,
        setup: &mut Batch,
    ) -> Result<Box<dyn Node>> {
        Ok(Box::new(DockerNode {
            node: NetnsNode::finish(self.ns, self.quarters, inside, setup)?,
            maker: self.maker,
            container: Mutex::new(Arc::new(self.container)),
            booting: Mutex::default(),
        }))
    }
}

struct DockerNode {
    /// The network of the node, and programs in it that do not come from its image.
    node: NetnsNode,
    maker: Arc<Maker>,
    /// The present container, dead or alive.
    container: Mutex<Arc<Container>>,
    booting: Mutex<()>,
}

impl DockerNode {
    fn container(&self) -> Arc<Container> {
        let container = self.container.lock();
        Arc::clone(&container.unwrap_or_else(PoisonError::into_inner))
    }

    /// A container in place of one that has ended.
    fn recreate(&self, name: &str, ended: &Container) -> Result<Arc<Container>> {
        let made = Arc::new(self.maker.recreate(name, self.node.ns(), ended)?);
        let held = self.container.lock();
        *held.unwrap_or_else(PoisonError::into_inner) = Arc::clone(&made);
        Ok(made)
    }
}

impl Node for DockerNode {
    fn netns_path(&self) -> PathBuf {
        self.node.netns_path()
    }

    fn tell(&self, batch: &mut Batch) -> Result<()> {
        self.node.tell(batch)
    }

    fn routes(&self) -> Result<Vec<InstalledRoute>> {
        self.node.routes()
    }

    fn lookup(&self, addresses: &[std::net::IpAddr]) -> Result<Vec<Option<InstalledRoute>>> {
        self.node.lookup(addresses)
    }

    fn stack(&self) -> Result<Option<Stack>> {
        self.node.stack()
    }

    fn watch(&self, watch: &StackWatch, number: u32) -> Result<()> {
        self.node.watch(watch, number)
    }

    fn door(&self, _: &str) -> Result<NodeEntry> {
        let container = self.container();
        let (mounts, pids, mut inner) = container.spec.inner(&container.inside)?;
        let groups = container.cgroups.iter();
        inner.cgroups = groups.map(|group| group.path().to_owned()).collect();
        Ok(NodeEntry {
            netns: self.netns_path(),
            mounts,
            pids,
            inner: Some(inner),
        })
    }

    fn boot(&self, program: Program<'_>) -> Result<Option<Child>> {
        let _one_at_a_time = self.booting.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.may_boot() {
            let why = "its container has ended, and the node's programs with it";
            return Err(Error::Conflict(why.to_owned()));
        }
        let mut container = self.container();
        if !container.first.lives() {
            container = self.recreate(program.node, &container)?;
        }
        container.begun.store(true, Ordering::Release);
        let name = container.spec.argv[0].as_str();
        let child = container
            .first
            .begin(name, program.stdout, program.stderr)?;
        Ok(Some(child))
    }

    fn may_boot(&self) -> bool {
        let container = self.container();
        let begun = container.begun.load(Ordering::Acquire);
        container.first.stays() || (!begun && container.first.lives())
    }

    fn ran_out_of_memory(&self) -> bool {
        self.container().ran_out_of_memory()
    }

    fn start(&self, program: Program<'_>) -> Result<Child> {
        if !program.of_image {
            return self.node.start(program);
        }
        let container = self.container();
        let program = Program {
            cgroups: container.cgroups.iter().collect(),
            ..program
        };
        container
            .spec
            .beside(&container.inside, self.node.ns(), &program)
    }

    fn end_connections(&self) -> Result<()> {
        self.node.end_connections()
    }
}
