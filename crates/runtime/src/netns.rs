//! Nodes that are network namespaces, held by descriptors: `kill -9` of their holder removes them.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use constel_host::globals::{Globals, Owner};
use constel_host::netlink::{Batch, InstalledRoute, Socket, destroy_tcp};
use constel_host::process::{Child, Spawn, Stdio};
use constel_host::template::{NodeTemplate, Setting};
use constel_host::{NetNs, Result};

use crate::{FreshNode, Node, NodeRuntime, Program};

/// Makes namespaces that are born with a lab's settings.
pub struct NetnsRuntime {
    template: NodeTemplate,
    globals: Globals,
    owner: Owner,
}

impl NetnsRuntime {
    /// Every node will have these settings; host-wide switches that making them takes belong to `owner`.
    ///
    /// # Errors
    /// When the kernel refuses a setting.
    pub fn new(settings: &[Setting], globals: Globals, owner: Owner) -> Result<Self> {
        Ok(Self {
            template: NodeTemplate::prepare(settings)?,
            globals,
            owner,
        })
    }
}

impl NodeRuntime for NetnsRuntime {
    fn name(&self) -> &'static str {
        "netns"
    }

    fn create(&self, count: usize) -> Result<Vec<Box<dyn FreshNode>>> {
        let made = self.template.create(count, &self.globals, &self.owner)?;
        let fresh = |ns| Box::new(FreshNetns { ns }) as Box<dyn FreshNode>;
        Ok(made.nodes.into_iter().map(fresh).collect())
    }
}

struct FreshNetns {
    ns: NetNs,
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
        self.ns.enter_for_good()?;
        inside()?;
        let mut netlink = Socket::open()?;
        netlink.send(setup)?;
        Ok(Box::new(NetnsNode {
            ns: self.ns,
            netlink: Mutex::new(netlink),
        }))
    }
}

/// A namespace and a netlink socket inside it.
struct NetnsNode {
    ns: NetNs,
    netlink: Mutex<Socket>,
}

impl NetnsNode {
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

    fn start(&self, program: Program<'_>) -> Result<Child> {
        let Program { stdout, stderr, .. } = program;
        let file = |path: &std::path::Path| {
            if stdout == stderr {
                Stdio::Append(path.to_owned())
            } else {
                Stdio::Create(path.to_owned())
            }
        };
        let spawn = Spawn::new(program.lab, program.argv)
            .node(program.node)
            .env("PATH", program.search_path)
            .netns(&self.ns)
            .mounts(program.mounts)
            .stdout(file(stdout))
            .stderr(file(stderr));
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
