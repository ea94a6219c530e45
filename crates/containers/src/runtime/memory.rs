//! Nodes without a kernel: a namespace is a table in this process. For tests of everything above.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use constel_host::netlink::{
    Batch, BatchError, Decoded, InstalledRoute, RequestError, RouteTarget,
};
use constel_host::process::Child;
use constel_host::{Error, Result};

use crate::runtime::{FreshNode, Node, NodeEntry, NodeRuntime, Program};

/// The table in which routes are looked up.
const MAIN: u32 = 254;

/// Creates nodes in memory, and can be set to fail.
#[derive(Debug, Clone, Default)]
pub struct MemoryRuntime {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    made: AtomicUsize,
    alive: AtomicUsize,
    told: AtomicUsize,
    /// The node that cannot be made, counted from 1; 0: none.
    fails_at_node: AtomicUsize,
    /// The requests that are refused, counted from 1 over all nodes; 0: none.
    fails_at_request: AtomicUsize,
    /// The request that fails like in a kernel, which refuses one request and executes the others.
    refuses_at_request: AtomicUsize,
}

impl MemoryRuntime {
    /// The `n`th node, counted from 1, cannot be made.
    pub fn fail_at_node(&self, n: usize) {
        self.shared.fails_at_node.store(n, Ordering::Release);
    }

    /// Makes the `n`th batch of requests to any node fail, counted from 1.
    pub fn fail_at_request(&self, n: usize) {
        self.shared.fails_at_request.store(n, Ordering::Release);
    }

    /// Makes the `n`th batch of requests to any node fail as in a kernel, counted from 1.
    pub fn refuse_at_request(&self, n: usize) {
        self.shared.refuses_at_request.store(n, Ordering::Release);
    }

    /// How many of its nodes there are now.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.shared.alive.load(Ordering::Acquire)
    }

    /// Returns the number of batches of requests that its nodes got.
    #[must_use]
    pub fn told(&self) -> usize {
        self.shared.told.load(Ordering::Acquire)
    }
}

fn refused(what: String) -> Error {
    Error::Invalid(format!("{what}: refused, as the test requested"))
}

impl NodeRuntime for MemoryRuntime {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn create(&self, names: &[&str]) -> Result<Vec<Box<dyn FreshNode>>> {
        let one = |_: &&str| -> Result<Box<dyn FreshNode>> {
            let number = self.shared.made.fetch_add(1, Ordering::AcqRel) + 1;
            if number == self.shared.fails_at_node.load(Ordering::Acquire) {
                return Err(refused(format!("make node {number}")));
            }
            self.shared.alive.fetch_add(1, Ordering::AcqRel);
            let presence = Presence {
                shared: Arc::clone(&self.shared),
            };
            // A descriptor without meaning: this runtime does not create ports.
            let file = File::open("/dev/null").map_err(|e| Error::Invalid(e.to_string()))?;
            Ok(Box::new(FreshMemory { presence, file }))
        };
        names.iter().map(one).collect()
    }
}

/// Counts a node as long as it exists.
#[derive(Debug)]
struct Presence {
    shared: Arc<Shared>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.shared.alive.fetch_sub(1, Ordering::AcqRel);
    }
}

struct FreshMemory {
    presence: Presence,
    file: File,
}

impl FreshNode for FreshMemory {
    fn netns(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn finish(
        self: Box<Self>,
        inside: &mut dyn FnMut() -> Result<()>,
        setup: &mut Batch,
    ) -> Result<Box<dyn Node>> {
        inside()?;
        let node = MemoryNode {
            presence: self.presence,
            tables: Mutex::default(),
        };
        Node::tell(&node, setup)?;
        Ok(Box::new(node))
    }
}

/// The requests that a node in memory got.
#[derive(Debug, Default)]
struct Tables {
    /// By table, prefix, length and metric.
    routes: BTreeMap<(u32, IpAddr, u8, u32), InstalledRoute>,
}

struct MemoryNode {
    presence: Presence,
    tables: Mutex<Tables>,
}

impl MemoryNode {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Node for MemoryNode {
    fn netns_path(&self) -> PathBuf {
        PathBuf::from("/dev/null")
    }

    fn tell(&self, batch: &mut Batch) -> Result<()> {
        let shared = &self.presence.shared;
        let number = shared.told.fetch_add(1, Ordering::AcqRel) + 1;
        if number == shared.fails_at_request.load(Ordering::Acquire) {
            batch.clear();
            return Err(refused(format!("batch {number}")));
        }
        if number == shared.refuses_at_request.load(Ordering::Acquire) {
            let total = batch.len();
            batch.clear();
            let failure = RequestError {
                index: 0,
                what: format!("batch {number}"),
                errno: 101,
                explanation: None,
            };
            let failures = vec![failure];
            return Err(BatchError { failures, total }.into());
        }
        let mut tables = self.tables();
        for request in batch.decoded() {
            match request {
                Decoded::SetRoute(route) => {
                    let key = (route.table, route.dst.addr, route.dst.len, route.metric);
                    tables.routes.insert(key, route);
                }
                Decoded::DeleteRoute(route) => {
                    let key = (route.table, route.dst.addr, route.dst.len, route.metric);
                    tables.routes.remove(&key);
                }
                Decoded::Other => {}
            }
        }
        batch.clear();
        Ok(())
    }

    fn routes(&self) -> Result<Vec<InstalledRoute>> {
        Ok(self.tables().routes.values().cloned().collect())
    }

    fn lookup(&self, addresses: &[IpAddr]) -> Result<Vec<Option<InstalledRoute>>> {
        let tables = self.tables();
        let longest = |address: &IpAddr| {
            let main = tables.routes.values().filter(|r| r.table == MAIN);
            let fits = main.filter(|r| r.dst.contains(*address));
            fits.max_by_key(|r| (r.dst.len, std::cmp::Reverse(r.metric)))
                .filter(|r| matches!(r.target, RouteTarget::Hop(_) | RouteTarget::Multipath(_)))
                .cloned()
        };
        Ok(addresses.iter().map(longest).collect())
    }

    fn door(&self, name: &str) -> Result<NodeEntry> {
        Err(refused(format!("enter {name}")))
    }

    fn start(&self, program: Program<'_>) -> Result<Child> {
        Err(refused(format!("start {}", program.argv.join(" "))))
    }

    fn end_connections(&self) -> Result<()> {
        Ok(())
    }
}
