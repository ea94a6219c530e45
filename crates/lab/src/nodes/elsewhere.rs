//! A node that another machine has: it refuses to be entered, and routes as was planned.

use std::net::IpAddr;
use std::path::PathBuf;

use constel_host::netlink::{Batch, InstalledRoute};
use constel_host::process::Child;
use constel_host::{Error, Result};
use constel_runtime::memory::MemoryRuntime;
use constel_runtime::{Door, Node, NodeRuntime, Program};

/// What stands here for it.
pub(crate) struct Elsewhere {
    name: String,
    machine: String,
    /// The routes that it was planned to have, as far as ways through it are followed from here.
    planned: Box<dyn Node>,
}

impl Elsewhere {
    /// For the node of this name, which is on that machine.
    ///
    /// # Errors
    /// When nothing can be kept of it.
    pub(crate) fn new(name: &str, machine: &str) -> Result<Self> {
        let fresh = MemoryRuntime::default().create(&[name])?.pop();
        let fresh = fresh.ok_or_else(|| Error::Invalid(format!("nothing stands for {name}")))?;
        Ok(Self {
            name: name.to_owned(),
            machine: machine.to_owned(),
            planned: fresh.finish(&mut || Ok(()), &mut Batch::new())?,
        })
    }

    fn refused<T>(&self) -> Result<T> {
        let (name, machine) = (&self.name, &self.machine);
        Err(Error::Invalid(format!(
            "{name} is on machine {machine}: ask there"
        )))
    }
}

impl Node for Elsewhere {
    /// Nobody enters it by this.
    fn netns_path(&self) -> PathBuf {
        self.planned.netns_path()
    }

    fn tell(&self, batch: &mut Batch) -> Result<()> {
        self.planned.tell(batch)
    }

    fn routes(&self) -> Result<Vec<InstalledRoute>> {
        self.refused()
    }

    fn lookup(&self, addresses: &[IpAddr]) -> Result<Vec<Option<InstalledRoute>>> {
        self.planned.lookup(addresses)
    }

    fn door(&self, _: &str) -> Result<Door> {
        self.refused()
    }

    fn boot(&self, _: Program<'_>) -> Result<Option<Child>> {
        self.refused()
    }

    fn start(&self, _: Program<'_>) -> Result<Child> {
        self.refused()
    }

    fn end_connections(&self) -> Result<()> {
        Ok(())
    }
}
