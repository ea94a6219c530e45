//! A runtime with nodes of two kinds: namespaces, and containers of an engine.

use constel_host::Result;

use crate::runtime::docker::DockerRuntime;
use crate::runtime::netns::NetnsRuntime;
use crate::runtime::{FreshNode, NodeRuntime};

/// Whether an engine makes the node of a name.
pub type ByEngine = dyn Fn(&str) -> bool + Send + Sync;

/// Makes some nodes by an engine, and the others as namespaces.
pub struct MixedRuntime {
    netns: NetnsRuntime,
    docker: DockerRuntime,
    by_engine: Box<ByEngine>,
}

impl MixedRuntime {
    /// Creates a runtime. `by_engine` selects the nodes of the engine.
    #[must_use]
    pub fn new(netns: NetnsRuntime, docker: DockerRuntime, by_engine: Box<ByEngine>) -> Self {
        Self {
            netns,
            docker,
            by_engine,
        }
    }
}

impl NodeRuntime for MixedRuntime {
    fn name(&self) -> &'static str {
        "mixed"
    }

    fn create(&self, names: &[&str]) -> Result<Vec<Box<dyn FreshNode>>> {
        let is_engines = |name: &&&str| (self.by_engine)(name);
        let (engines, others): (Vec<&str>, Vec<&str>) =
            names.iter().partition(|name| is_engines(name));
        // The cheap nodes first: a failure that affects both kinds shows sooner.
        let mut others = self.netns.create(&others)?.into_iter();
        let mut engines = self.docker.create(&engines)?.into_iter();
        let made = names.iter().filter_map(|name| match is_engines(&name) {
            true => engines.next(),
            false => others.next(),
        });
        Ok(made.collect())
    }
}
