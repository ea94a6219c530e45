//! Nodes that are network namespaces, held by descriptors: `kill -9` of the holding process removes them.
//!
//! Their programs run in the lab's [`Enclosure`]. The file system view of a node's programs is created when the first of
//! them starts, because most nodes of a large lab never have one. Nodes with an image are such namespaces too. Their own
//! program runs in a container, and the host's tools can still be used beside it.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use constel_host::enclosure::{Enclosure, Shown, View};
use constel_host::globals::{Globals, Owner};
use constel_host::netlink::{Batch, InstalledRoute, Socket, Stack, StackWatch, destroy_tcp};
use constel_host::process::{Child, Spawn};
use constel_host::template::{NodeTemplate, Setting};
use constel_host::{NetNs, Result};

use crate::runtime::container::{Container, ContainerSpec};
use crate::runtime::{FreshNode, Node, NodeEntry, NodeRuntime, Program};

/// A function that returns the parts of the host that only this node sees, by its name. Their files must exist when it
/// returns.
pub type ShownTo = dyn Fn(&str) -> Result<Vec<Shown>> + Send + Sync;

/// A function that returns the components of a node's container, by its name, or `None` if it has none.
pub type ContainerOf = dyn Fn(&str) -> Result<Option<ContainerSpec>> + Send + Sync;

/// The environment of the programs of a lab's nodes.
pub struct NodeEnvironment {
    /// The lab's.
    pub enclosure: Arc<Enclosure>,
    /// The differences between nodes.
    pub shown_to: Box<ShownTo>,
    /// The nodes with images.
    pub container_of: Box<ContainerOf>,
}

/// Makes namespaces that are born with a lab's settings.
pub struct NetnsRuntime {
    template: NodeTemplate,
    globals: Globals,
    owner: Owner,
    quarters: Arc<NodeEnvironment>,
}

impl NetnsRuntime {
    /// Every node will have these settings; host-wide switches that making them takes belong to `owner`.
    ///
    /// # Errors
    /// When the kernel refuses a setting.
    pub fn new(
        settings: &[Setting],
        globals: Globals,
        owner: Owner,
        quarters: Arc<NodeEnvironment>,
    ) -> Result<Self> {
        Ok(Self {
            template: NodeTemplate::prepare(settings)?,
            globals,
            owner,
            quarters,
        })
    }
}

impl NodeRuntime for NetnsRuntime {
    fn name(&self) -> &'static str {
        "netns"
    }

    fn create(&self, names: &[&str]) -> Result<Vec<Box<dyn FreshNode>>> {
        let made = self
            .template
            .create(names.len(), &self.globals, &self.owner)?;
        let fresh = |ns| {
            let quarters = Arc::clone(&self.quarters);
            Box::new(FreshNetns { ns, quarters }) as Box<dyn FreshNode>
        };
        Ok(made.nodes.into_iter().map(fresh).collect())
    }
}

struct FreshNetns {
    ns: NetNs,
    quarters: Arc<NodeEnvironment>,
}

impl FreshNode for FreshNetns {
    fn netns(&self) -> BorrowedFd<'_> {
        self.ns.fd()
    }

    fn finish(
        self: Box<Self>,
        inside: &mut dyn FnMut() -> Result<()>,
        setup: &mut Batch,
    ) -> Result<Box<dyn Node>> {
        let node = NetnsNode::finish(self.ns, self.quarters, inside, setup)?;
        Ok(Box::new(node))
    }
}

/// A namespace and a netlink socket inside it.
pub(crate) struct NetnsNode {
    ns: NetNs,
    netlink: Mutex<Socket>,
    quarters: Arc<NodeEnvironment>,
    /// Set when a program was started, or the access was requested.
    view: Mutex<Option<Arc<View>>>,
    /// Once its own program was started.
    container: Mutex<Option<Container>>,
}

impl NetnsNode {
    /// Goes inside with the calling thread, and makes a node of the namespace.
    pub(crate) fn finish(
        ns: NetNs,
        quarters: Arc<NodeEnvironment>,
        inside: &mut dyn FnMut() -> Result<()>,
        setup: &mut Batch,
    ) -> Result<Self> {
        ns.enter_for_good()?;
        inside()?;
        let mut netlink = Socket::open_known()?;
        netlink.send(setup)?;
        Ok(Self {
            ns,
            netlink: Mutex::new(netlink),
            quarters,
            view: Mutex::default(),
            container: Mutex::default(),
        })
    }

    /// Its namespace.
    pub(crate) fn ns(&self) -> &NetNs {
        &self.ns
    }

    /// Returns the view of its programs, and creates it if necessary.
    fn view(&self, name: &str) -> Result<Arc<View>> {
        let mut view = self.view.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(view) = view.as_ref() {
            return Ok(Arc::clone(view));
        }
        let own = (self.quarters.shown_to)(name)?;
        let made = Arc::new(self.quarters.enclosure.view(&self.ns, name, &own)?);
        *view = Some(Arc::clone(&made));
        Ok(made)
    }

    fn container(&self) -> MutexGuard<'_, Option<Container>> {
        self.container.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn netlink(&self) -> MutexGuard<'_, Socket> {
        self.netlink.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Node for NetnsNode {
    fn netns_path(&self) -> PathBuf {
        self.ns.proc_path()
    }

    fn tell(&self, batch: &mut Batch) -> Result<()> {
        self.netlink().send(batch)
    }

    fn routes(&self) -> Result<Vec<InstalledRoute>> {
        self.netlink().routes()
    }

    fn lookup(&self, addresses: &[IpAddr]) -> Result<Vec<Option<InstalledRoute>>> {
        self.netlink().lookup(addresses)
    }

    fn stack(&self) -> Result<Option<Stack>> {
        let mut stack = self.netlink().stack()?;
        stack.add_filters(&self.ns)?;
        Ok(Some(stack))
    }

    fn watch(&self, watch: &StackWatch, number: u32) -> Result<()> {
        watch.add(self.ns.fd(), number)
    }

    fn door(&self, name: &str) -> Result<NodeEntry> {
        let netns = self.ns.proc_path();
        if let Some(container) = self.container().as_ref() {
            let (mounts, pids, inner) = container.inner(name)?;
            return Ok(NodeEntry {
                netns,
                mounts,
                pids,
                inner: Some(inner),
            });
        }
        let (mounts, pids) = self.view(name)?.paths();
        Ok(NodeEntry {
            netns,
            mounts,
            pids,
            inner: None,
        })
    }

    fn boot(&self, program: Program<'_>) -> Result<Option<Child>> {
        let mut container = self.container();
        if container.is_none() {
            let Some(spec) = (self.quarters.container_of)(program.node)? else {
                return Ok(None);
            };
            let enclosure = &self.quarters.enclosure;
            *container = Some(Container::new(enclosure, &self.ns, program.node, spec)?);
        }
        let container = container.as_mut().map(|own| own.boot(&self.ns, &program));
        container.transpose()
    }

    fn start(&self, program: Program<'_>) -> Result<Child> {
        if let (true, Some(container)) = (program.of_image, self.container().as_ref()) {
            return container.start(&self.ns, &program);
        }
        let view = self.view(program.node)?;
        let [out, err] = [program.stdout, program.stderr].map(|path| program.file(path));
        let spawn = Spawn::new(program.lab, program.argv)
            .node(program.node)
            .env("PATH", program.search_path)
            .netns(&self.ns)
            .view(&view)
            .stdout(out)
            .stderr(err);
        let variables = program.env.into_iter();
        let spawn = variables.fold(spawn, |spawn, (key, value)| spawn.env(key, value));
        let spawn = program.cgroups.into_iter().fold(spawn, Spawn::cgroup);
        let spawn = if program.kernel_events {
            spawn
        } else {
            spawn.deaf()
        };
        spawn.start()
    }

    fn end_connections(&self) -> Result<()> {
        destroy_tcp(&self.ns).map(|_| ())
    }
}
