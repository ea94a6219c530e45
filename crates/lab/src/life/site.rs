//! The site of a lab: an interface to the host. Bring-up, take-down and the end of a run use it, so that a whole
//! run can be tested without a kernel.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use constel_containers::runtime::NodeRuntime;
use constel_containers::runtime::docker::DockerRuntime;
use constel_containers::runtime::mixed::MixedRuntime;
use constel_containers::runtime::netns::NetnsRuntime;
use constel_drivers::{DriverKind, Plane, PlaneConfig, make_plane};
use constel_host::claim::{Claim, LabName, RuntimeDir};
use constel_host::enclosure::Enclosure;
use constel_host::globals::{Globals, Owner};
use constel_host::rcu::Expedited;
use constel_plan::{Blueprint, LocalNodes, Management};

use crate::error::EngineError;
use crate::life::attached::Attached;
use crate::life::limits;
use crate::life::sweep::end_processes;
use crate::nodes::cgroups::Cgroups;
use crate::nodes::engine::{EngineNodes, doors_folder};
use crate::nodes::images::Images;
use crate::nodes::management::ManagementNet;
use crate::nodes::ports::{PortMaker, VethPorts};
use crate::nodes::quarters::{self, Folders};
use crate::nodes::settings::node_settings;
use crate::progress::Progress;
use crate::routing::forwarding::Forwarding;
use crate::routing::router::Router;

/// The time after which a killed process that still exists will not end at all.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// Creates the site of the lab whose name was claimed, and whose results go to the folder, which exists.
pub(crate) type Ground<'g> = dyn Fn(&Claim, &Path) -> Box<dyn Site> + 'g;

/// The site of one lab.
pub(crate) trait Site {
    /// Raises the host's limits as far as the lab needs, and creates the cgroups of its processes.
    ///
    /// # Errors
    /// When the host does not allow what the lab needs.
    fn make_room(&self, blueprint: &Blueprint) -> Result<Cgroups, EngineError>;

    /// Runs work that creates or removes thousands of interfaces, with expedited RCU grace periods.
    ///
    /// # Errors
    /// Those of `work`, and errors of the setting.
    fn hurried(&self, work: &mut dyn FnMut() -> Result<(), EngineError>)
    -> Result<(), EngineError>;

    /// Creates the link plane.
    ///
    /// # Errors
    /// When the driver cannot be used.
    fn plane(&self, config: &PlaneConfig) -> Result<Box<dyn Plane>, EngineError>;

    /// Holds the images of this machine's nodes. Images that can be assembled are, if they are missing.
    ///
    /// # Errors
    /// When one is missing, or no node can be created from it.
    fn images(
        &self,
        blueprint: &Blueprint,
        ours: &LocalNodes,
        progress: &dyn Progress,
    ) -> Result<Arc<Images>, EngineError>;

    /// Takes the interfaces of the machine behind which there are hosts of the lab.
    ///
    /// # Errors
    /// All reasons against them.
    fn attached(&self, _: &Blueprint) -> Result<Attached, EngineError> {
        Ok(Attached::default())
    }

    /// Creates the management network.
    ///
    /// # Errors
    /// As [`ManagementNet::raise`].
    fn management(&self, _: Management) -> Result<Option<ManagementNet>, EngineError> {
        Ok(None)
    }

    /// Returns the runtime that creates this machine's nodes.
    ///
    /// # Errors
    /// When the host refuses something that all nodes have in common.
    fn runtime(
        &self,
        blueprint: &Arc<Blueprint>,
        ours: &LocalNodes,
        images: &Arc<Images>,
    ) -> Result<Box<dyn NodeRuntime>, EngineError>;

    /// Returns the folder of the nodes' information files; `None` if no node receives any. The runtime creates it.
    fn information(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the port maker for this plane.
    fn ports<'a>(
        &self,
        plane: &'a dyn Plane,
        super_frames: bool,
        forwarding: Option<Arc<Forwarding>>,
    ) -> Box<dyn PortMaker + 'a>;

    /// Ends every process of the lab, whatever started it: a process that is left in a node keeps the node.
    ///
    /// # Errors
    /// The first failure, after every step was tried.
    fn end_processes(&self) -> Result<(), EngineError>;

    /// Returns how the lab's init ended early, and with it every process.
    ///
    /// # Errors
    /// When the kernel does not report it.
    fn init_ended(&self) -> Result<Option<String>, EngineError>;
}

/// The site on this machine's kernel.
pub(crate) struct KernelSite {
    driver: DriverKind,
    lab: LabName,
    owner: Owner,
    globals: Globals,
    folders: Folders,
    enclosure: OnceCell<Arc<Enclosure>>,
    /// Set once images are held; `None` inside if no node needs an engine.
    engine: OnceCell<Option<EngineNodes>>,
}

impl KernelSite {
    /// Creates the site for the lab whose name is claimed. `results` exists; `scenario_file` is the user's path.
    pub(crate) fn new(
        driver: DriverKind,
        claim: &Claim,
        globals: Globals,
        results: &Path,
        scenario_file: &str,
    ) -> Self {
        let parent = Path::new(scenario_file).parent();
        Self {
            driver,
            lab: claim.lab().clone(),
            owner: claim.owner(),
            globals,
            folders: Folders {
                lab: claim.dir().to_owned(),
                results: absolute(results),
                scenario: absolute(parent.unwrap_or(Path::new(""))),
            },
            enclosure: OnceCell::new(),
            engine: OnceCell::new(),
        }
    }
}

/// Returns the absolute path, whether it exists or not.
fn absolute(path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() {
        return std::env::current_dir().unwrap_or_default();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl Site for KernelSite {
    fn make_room(&self, blueprint: &Blueprint) -> Result<Cgroups, EngineError> {
        let lab = &blueprint.lab;
        limits::raise(&self.globals, &self.owner, lab.wired_ports().count())?;
        // Descriptors: a namespace and a socket for each node; one for each daemon, to wait for it; two for each
        // flow, for its client and its server; one for each node that has a program; one for the socket of each
        // node with information; a shard namespace for every few hundred ports; and a reserve.
        let daemons = Router::of(&lab.scenario).processes(lab, &LocalNodes::all());
        let processes = daemons + 2 * lab.scenario.traffic.len();
        let nodes = lab.stacks();
        let told = if lab.scenario.information.is_empty() {
            0
        } else {
            nodes
        };
        // A container needs two descriptors each for its files, and its processes with the first process.
        let containers = 4 * lab.containers().count();
        let wanted = (3 * nodes + processes + told + containers) as u64 + 1024;
        let allowed = constel_host::limits::raise_open_files(wanted)?;
        if allowed < wanted {
            return Err(EngineError::Unable {
                what: format!("the lab needs {wanted} open files, this process may have {allowed}"),
                remedy: "raise the hard limit of open files (ulimit -Hn)".to_owned(),
            });
        }
        let sharing = daemons > 0 || lab.containers().next().is_some();
        Cgroups::create(&self.lab, lab, sharing)
    }

    fn hurried(
        &self,
        work: &mut dyn FnMut() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        // Attaching programs and removing devices wait for RCU grace periods, 25-50 ms each unless expedited.
        let mut expedited = Expedited::hold(&self.globals, &self.owner)?;
        // The setting's record needs disk space; the lab's reserve file is there for this case.
        if expedited.lacks_room() && RuntimeDir::default().free_reserve(&self.lab) {
            expedited = Expedited::hold(&self.globals, &self.owner)?;
        }
        let done = work();
        let finished = expedited.finish();
        done?;
        finished?;
        Ok(())
    }

    fn plane(&self, config: &PlaneConfig) -> Result<Box<dyn Plane>, EngineError> {
        Ok(make_plane(self.driver, config)?)
    }

    fn images(
        &self,
        blueprint: &Blueprint,
        ours: &LocalNodes,
        progress: &dyn Progress,
    ) -> Result<Arc<Images>, EngineError> {
        let lab = (&blueprint.lab, ours);
        let images = Images::hold(lab, &self.folders.scenario, progress)?;
        let (owner, folder) = (&self.owner, &self.folders.lab);
        let engine = EngineNodes::open(lab, &images, owner, folder, progress)?;
        // A lab's images are held once, so that the cell is empty before.
        drop(self.engine.set(engine));
        Ok(Arc::new(images))
    }

    fn attached(&self, blueprint: &Blueprint) -> Result<Attached, EngineError> {
        Attached::take(&blueprint.lab)
    }

    fn runtime(
        &self,
        blueprint: &Arc<Blueprint>,
        ours: &LocalNodes,
        images: &Arc<Images>,
    ) -> Result<Box<dyn NodeRuntime>, EngineError> {
        let folders = self.folders.clone();
        let name = self.lab.as_str();
        let (quarters, enclosure) = quarters::make(name, (blueprint, ours), folders, images)?;
        // Only one runtime is made per site, so that the cell is empty before.
        drop(self.enclosure.set(enclosure));
        let settings = node_settings(&blueprint.lab.scenario);
        let (globals, owner) = (self.globals.clone(), self.owner.clone());
        let netns = NetnsRuntime::new(&settings, globals, owner, Arc::clone(&quarters))?;
        let Some(engine) = self.engine.get().and_then(Option::as_ref) else {
            return Ok(Box::new(netns));
        };
        let orders = engine.orders(blueprint, &quarters, &self.owner);
        let (crew, doors) = (engine.crew(), doors_folder(&self.folders.lab));
        let docker = DockerRuntime::new(crew, &settings, quarters, doors, Box::new(orders))?;
        let blueprint = Arc::clone(blueprint);
        let by_engine = move |name: &str| {
            let node = blueprint.lab.layout.find(name).map(|node| node.id.index());
            let software = node.and_then(|node| blueprint.lab.software.get(node));
            let container = software.and_then(|software| software.container.as_ref());
            container.is_some_and(|container| container.by_engine)
        };
        let mixed = MixedRuntime::new(netns, docker, Box::new(by_engine));
        Ok(Box::new(mixed))
    }

    fn management(&self, own: Management) -> Result<Option<ManagementNet>, EngineError> {
        ManagementNet::raise(own, &self.lab).map(Some)
    }

    fn information(&self) -> Option<PathBuf> {
        Some(crate::information::root(&self.folders.lab))
    }

    fn ports<'a>(
        &self,
        plane: &'a dyn Plane,
        super_frames: bool,
        forwarding: Option<Arc<Forwarding>>,
    ) -> Box<dyn PortMaker + 'a> {
        Box::new(VethPorts {
            plane,
            super_frames,
            forwarding,
        })
    }

    fn end_processes(&self) -> Result<(), EngineError> {
        let enclosed = self.enclosure.get();
        // Processes outside the enclosure are found by their cgroup or their mark.
        let killed = enclosed.map_or(Ok(()), |enclosure| enclosure.kill(KILLED_WITHIN));
        let ended = end_processes(&self.lab);
        let engine = self.engine.get().and_then(Option::as_ref);
        let removed = engine.map_or(Ok(()), |engine| engine.crew().0.remove_all());
        killed?;
        ended?;
        Ok(removed?)
    }

    fn init_ended(&self) -> Result<Option<String>, EngineError> {
        let Some(enclosure) = self.enclosure.get() else {
            return Ok(None);
        };
        let exit = enclosure.ended()?;
        Ok(exit.map(|exit| {
            format!("the lab's init ended ({exit}), and every program in its nodes with it")
        }))
    }
}
