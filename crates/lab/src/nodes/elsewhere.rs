//! A node that another machine has: it refuses to be entered, and routes as was planned. If that machine is lost, it may come here.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use constel_host::netlink::{Batch, InstalledRoute, Stack, StackWatch};
use constel_host::process::Child;
use constel_host::{Error, Result};
use constel_runtime::memory::MemoryRuntime;
use constel_runtime::{Door, Node, NodeRuntime, Program};

/// What stands here for it. Clones are the same.
#[derive(Clone)]
pub(crate) struct Elsewhere(Arc<Place>);

struct Place {
    name: String,
    machine: RwLock<String>,
    /// The routes that it was planned to have, as far as ways through it are followed from here.
    planned: Box<dyn Node>,
    /// Itself, once it has come here: it never leaves again.
    here: OnceLock<Box<dyn Node>>,
}

impl Elsewhere {
    /// For the node of this name, which is on that machine.
    ///
    /// # Errors
    /// When nothing can be kept of it.
    pub(crate) fn new(name: &str, machine: &str) -> Result<Self> {
        let fresh = MemoryRuntime::default().create(&[name])?.pop();
        let fresh = fresh.ok_or_else(|| Error::Invalid(format!("nothing stands for {name}")))?;
        Ok(Self(Arc::new(Place {
            name: name.to_owned(),
            machine: RwLock::new(machine.to_owned()),
            planned: fresh.finish(&mut || Ok(()), &mut Batch::new())?,
            here: OnceLock::new(),
        })))
    }

    /// It was made anew, here.
    pub(crate) fn comes_here(&self, node: Box<dyn Node>) {
        // It comes once: a machine that loses what it took is lost itself.
        drop(self.0.here.set(node));
    }

    /// It was made anew, on that machine.
    pub(crate) fn goes_to(&self, machine: &str) {
        let known = self.0.machine.write();
        machine.clone_into(&mut known.unwrap_or_else(PoisonError::into_inner));
    }

    /// Itself, or how it refuses.
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
            "{name} is on machine {machine}: ask there"
        )))
    }

    /// Itself, or what was planned.
    fn known(&self) -> &dyn Node {
        let here = self.0.here.get();
        here.unwrap_or(&self.0.planned).as_ref()
    }
}

impl Node for Elsewhere {
    /// Nobody enters it by this while it is elsewhere.
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

    fn door(&self, name: &str) -> Result<Door> {
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
