//! A node of another machine: it cannot be entered, and has the planned routes. It may come here if that machine is
//! lost.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use constel_containers::runtime::memory::MemoryRuntime;
use constel_containers::runtime::{Node, NodeEntry, NodeRuntime, Program};
use constel_host::netlink::{Batch, InstalledRoute, Stack, StackWatch};
use constel_host::process::Child;
use constel_host::{Error, Result};

/// The placeholder of such a node; clones share it.
#[derive(Clone)]
pub(crate) struct Elsewhere(Arc<RemoteNode>);

struct RemoteNode {
    name: String,
    machine: RwLock<String>,
    /// The planned routes, as far as paths through the node are followed from this machine.
    planned: Box<dyn Node>,
    /// The node itself once it is on this machine, which it never leaves again.
    here: OnceLock<Box<dyn Node>>,
}

impl Elsewhere {
    /// Creates the placeholder for the node with this name on that machine.
    ///
    /// # Errors
    /// When its memory-only node cannot be created.
    pub(crate) fn new(name: &str, machine: &str) -> Result<Self> {
        // The placeholder contains a node in memory, which stores the planned routes.
        let fresh = MemoryRuntime::default().create(&[name])?.pop();
        let fresh = fresh.ok_or_else(|| Error::Invalid(format!("nothing stands for {name}")))?;
        Ok(Self(Arc::new(RemoteNode {
            name: name.to_owned(),
            machine: RwLock::new(machine.to_owned()),
            planned: fresh.finish(&mut || Ok(()), &mut Batch::new())?,
            here: OnceLock::new(),
        })))
    }

    /// Replaces the placeholder by the node, which was created again on this machine.
    pub(crate) fn comes_here(&self, node: Box<dyn Node>) {
        // It is set at most once: a machine that loses a node that it took in is lost itself.
        drop(self.0.here.set(node));
    }

    /// Records that the node was created again on that machine.
    pub(crate) fn goes_to(&self, machine: &str) {
        let known = self.0.machine.write();
        machine.clone_into(&mut known.unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the node itself, or the error that refuses access.
    fn there(&self) -> Result<&dyn Node> {
        if let Some(node) = self.0.here.get() {
            return Ok(node.as_ref());
        }
        let machine = self.0.machine.read();
        let (name, machine) = (
            &self.0.name,
            machine.unwrap_or_else(PoisonError::into_inner),
        );
        Err(Error::Invalid(format!(
            "{name} is on machine {machine}: send the request there"
        )))
    }

    /// Returns the node itself, or its planned state.
    fn known(&self) -> &dyn Node {
        let here = self.0.here.get();
        here.unwrap_or(&self.0.planned).as_ref()
    }
}

impl Node for Elsewhere {
    /// The path is not used as long as the node is on another machine.
    fn netns_path(&self) -> PathBuf {
        self.known().netns_path()
    }

    fn tell(&self, batch: &mut Batch) -> Result<()> {
        self.known().tell(batch)
    }

    fn routes(&self) -> Result<Vec<InstalledRoute>> {
        self.there()?.routes()
    }

    fn lookup(&self, addresses: &[IpAddr]) -> Result<Vec<Option<InstalledRoute>>> {
        self.known().lookup(addresses)
    }

    fn stack(&self) -> Result<Option<Stack>> {
        self.0.here.get().map_or(Ok(None), |node| node.stack())
    }

    fn watch(&self, watch: &StackWatch, number: u32) -> Result<()> {
        let here = self.0.here.get();
        here.map_or(Ok(()), |node| node.watch(watch, number))
    }

    fn door(&self, name: &str) -> Result<NodeEntry> {
        self.there()?.door(name)
    }

    fn boot(&self, program: Program<'_>) -> Result<Option<Child>> {
        self.there()?.boot(program)
    }

    fn start(&self, program: Program<'_>) -> Result<Child> {
        self.there()?.start(program)
    }

    fn end_connections(&self) -> Result<()> {
        let here = self.0.here.get();
        here.map_or(Ok(()), |node| node.end_connections())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_comes_here_is_entered_here() {
        let elsewhere = Elsewhere::new("tokyo", "b").unwrap();
        let same = elsewhere.clone();
        let refused = |node: &Elsewhere| node.routes().unwrap_err().to_string();
        assert!(refused(&elsewhere).contains("tokyo is on machine b"));
        same.goes_to("c");
        assert!(refused(&elsewhere).contains("tokyo is on machine c"));
        let fresh = MemoryRuntime::default().create(&["tokyo"]).unwrap().pop();
        let fresh = fresh.unwrap().finish(&mut || Ok(()), &mut Batch::new());
        same.comes_here(fresh.unwrap());
        assert_eq!(elsewhere.routes().unwrap(), []);
    }
}
