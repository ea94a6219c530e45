//! Nodes whose containers the engine of Docker or Podman creates: the choice of the engine, its images, and the
//! requests to it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use constel_containers::engine::{
    Address, Bind, ContainerOptions, Engine, Kind, NODE_LABEL, Network, Ulimit,
};
use constel_containers::runtime::container::ContainerSpec;
use constel_containers::runtime::docker::{Crew, FIRST_PROCESS, FIRST_PROCESS_AT, NodeContainer};
use constel_containers::runtime::netns::NodeEnvironment;
use constel_host::Error;
use constel_host::globals::Owner;
use constel_host::process::{LAB_VARIABLE, NODE_VARIABLE, OWNER_VARIABLE};
use constel_host::sysctl;
use constel_plan::{Blueprint, Lab, LocalNodes};
use constel_scenario::model::{Capability, Container, Limit, RestartPolicy};
use rustix::process::{Resource, getrlimit};

use crate::error::EngineError;
use crate::nodes::images::Images;
use crate::progress::Progress;

/// The repository name of Constel's copies of images in an engine, for which the engine never contacts a registry.
const REPOSITORY: &str = "localhost/constel";

/// The folders in memory unless something is mounted there, as in Constel's own containers.
const IN_MEMORY: [(&str, &str); 2] = [
    ("/run", "rw,exec,nosuid,nodev,mode=755"),
    ("/tmp", "rw,exec,nosuid,nodev,mode=1777"),
];

/// The engine of a lab with such nodes, and their images.
pub(crate) struct EngineNodes {
    engine: Engine,
    kind: Kind,
    crew: Arc<Crew>,
    /// The engine's names of the scenario's images.
    names: BTreeMap<String, String>,
}

/// Returns the path of the file in a lab's runtime folder that names the engine.
fn socket_file(lab_dir: &Path) -> PathBuf {
    lab_dir.join("engine")
}

/// Returns the socket of the engine of a lab, which may have ended; `None` if no node is by an engine.
#[must_use]
pub fn engine_of(lab_dir: &Path) -> Option<PathBuf> {
    let socket = fs::read(socket_file(lab_dir)).ok()?;
    Some(std::ffi::OsString::from_vec(socket).into())
}

/// Returns the folder of sockets for first processes. The name is short because the kernel limits the path of a
/// socket.
pub(crate) fn doors_folder(lab_dir: &Path) -> PathBuf {
    lab_dir.join("e")
}

fn of_engine<'a>(lab: &'a Lab, ours: &'a LocalNodes) -> impl Iterator<Item = &'a Container> {
    let containers = ours.containers(lab).map(|(_, container)| container);
    containers.filter(|container| container.by_engine)
}

impl EngineNodes {
    /// Finds the engine and gives it the images that it lacks; `None` if no node needs an engine.
    ///
    /// # Errors
    /// [`EngineError::Unable`] when no engine answers, or it does not accept an image.
    pub(crate) fn open(
        (lab, ours): (&Lab, &LocalNodes),
        images: &Images,
        owner: &Owner,
        lab_dir: &Path,
        progress: &dyn Progress,
    ) -> Result<Option<Self>, EngineError> {
        if of_engine(lab, ours).next().is_none() {
            return Ok(None);
        }
        let address = Address::find().map_err(|reason| absent(&reason))?;
        let engine = Engine::at(address.socket);
        let version = engine
            .version()
            .map_err(|error| absent(&error.to_string()))?;
        // The clean-up after a crash reads the engine's socket from this file, so that it is written before any
        // container exists.
        let written = fs::write(
            socket_file(lab_dir),
            engine.socket().as_os_str().as_encoded_bytes(),
        );
        let made = written.and_then(|()| fs::create_dir_all(doors_folder(lab_dir)));
        made.map_err(|source| EngineError::Io {
            what: format!("write {}", socket_file(lab_dir).display()),
            source,
        })?;
        let mut names = BTreeMap::new();
        for container in of_engine(lab, ours) {
            // Several nodes may share an image, which is given to the engine once.
            if names.contains_key(&container.image) {
                continue;
            }
            let name = give(&engine, images, &container.image, progress)?;
            names.insert(container.image.clone(), name);
        }
        Ok(Some(Self {
            crew: Crew::new(engine.clone(), owner.clone()),
            engine,
            kind: version.kind,
            names,
        }))
    }

    /// Returns the lab's containers, and the kind of their engine.
    pub(crate) fn crew(&self) -> (Arc<Crew>, Kind) {
        (Arc::clone(&self.crew), self.kind)
    }

    /// Returns a function from node names to the requests for their containers.
    pub(crate) fn orders(
        &self,
        blueprint: &Arc<Blueprint>,
        quarters: &Arc<NodeEnvironment>,
        owner: &Owner,
    ) -> impl Fn(&str) -> constel_host::Result<NodeContainer> + Send + Sync + use<> {
        let (blueprint, quarters) = (Arc::clone(blueprint), Arc::clone(quarters));
        let (names, owner, kind) = (self.names.clone(), owner.clone(), self.kind);
        move |node| {
            let lab = &blueprint.lab;
            let number = lab.layout.find(node).map(|node| node.id.index());
            let software = number.and_then(|number| lab.software.get(number));
            let asked = software.and_then(|own| Some((own.container.as_ref()?, own.limits)));
            let (container, limits) = asked.ok_or_else(|| none(node))?;
            let spec = (quarters.container_of)(node)?.ok_or_else(|| none(node))?;
            let image = names.get(&container.image).ok_or_else(|| none(node))?;
            // Engines have no ambient capabilities, which another user would need.
            if spec.confinement.uid != 0 && container.capabilities_added != 0 {
                return Err(Error::Invalid(format!(
                    "capabilities are added, and its user is number {}: engines give them to root alone",
                    spec.confinement.uid
                )));
            }
            let order = order((node, image), &spec, container, limits, (&owner, kind));
            Ok(NodeContainer {
                order,
                spec,
                stays: container.restart != RestartPolicy::Never,
            })
        }
    }
}

impl std::fmt::Debug for EngineNodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.kind, self.engine.socket().display())
    }
}

fn none(node: &str) -> Error {
    Error::Invalid(format!("{node} is not for an engine"))
}

fn absent(reason: &str) -> EngineError {
    EngineError::Unable {
        what: format!("the scenario has nodes with `runtime: docker`, and no engine: {reason}"),
        remedy: "start dockerd or `podman system service`, name its socket by DOCKER_HOST=unix://PATH, or take `runtime: oci`, \
                 which needs none"
            .to_owned(),
    }
}

/// Gives the engine a copy of an image, unless it has one. Returns its name there.
fn give(
    engine: &Engine,
    images: &Images,
    image: &str,
    progress: &dyn Progress,
) -> Result<String, EngineError> {
    let refused = |error: String| EngineError::Unable {
        what: format!("the image {image} cannot be given to the engine: {error}"),
        remedy: "see what its log says, and `df` for its disk".to_owned(),
    };
    // The name contains the digests of the image and of the added program, so that an existing copy is always the
    // right one.
    let name = format!("{REPOSITORY}:{}", images.fingerprint(image, FIRST_PROCESS)?);
    let there = engine.image(&name).map_err(|e| refused(e.to_string()))?;
    if there.is_none() {
        progress.say(&format!(
            "{image} is given to the engine, where it is called {name}"
        ));
        let saved = images.save(image, &name, (FIRST_PROCESS_AT, FIRST_PROCESS), progress)?;
        engine.load(&saved).map_err(|e| refused(e.to_string()))?;
    }
    Ok(name)
}

fn order(
    (node, image): (&str, &str),
    spec: &ContainerSpec,
    container: &Container,
    limits: Limit,
    (owner, kind): (&Owner, Kind),
) -> ContainerOptions {
    let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    let mut env: Vec<(String, String)> = spec
        .env
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect();
    // The mark that every process of a lab has in its environment.
    let marks = [
        (LAB_VARIABLE, owner.name.clone()),
        (NODE_VARIABLE, node.to_owned()),
        (OWNER_VARIABLE, owner.process.mark()),
    ];
    env.extend(marks.map(|(name, value)| (name.to_owned(), value)));
    let binds = spec.shown.iter().map(|shown| Bind {
        source: text(shown.source.as_os_str()),
        target: text(shown.target.as_os_str()),
        read_only: shown.read_only,
    });
    let mut mounted: BTreeMap<String, Bind> = BTreeMap::new();
    // If two mounts have one path, the later one is used.
    mounted.extend(binds.map(|bind| (bind.target.clone(), bind)));
    // A mount at the same path replaces the folder in memory.
    let free = IN_MEMORY
        .iter()
        .filter(|(at, _)| !mounted.contains_key(*at));
    let own = &spec.confinement;
    let mut labels = Crew::labels(owner).to_vec();
    labels.push((NODE_LABEL.to_owned(), node.to_owned()));
    ContainerOptions {
        name: format!("constel-{}-{node}", owner.name),
        image: image.to_owned(),
        argv: spec.argv.clone(),
        env,
        workdir: Some(text(spec.workdir.as_os_str())),
        user: Some(format!("{}:{}", own.uid, own.gid)),
        // The first group is already part of the user.
        groups: own
            .groups
            .iter()
            .copied()
            .filter(|g| *g != own.gid)
            .collect(),
        hostname: node.to_owned(),
        network: Network::None,
        labels,
        in_memory: free
            .map(|(at, how)| ((*at).to_owned(), (*how).to_owned()))
            .collect(),
        binds: mounted.into_values().collect(),
        capabilities: Capability::words(own.capabilities.0)
            .into_iter()
            .map(str::to_owned)
            .collect(),
        all_system_calls: !own.filtered,
        no_new_privileges: container.no_new_privileges,
        cpu_thousandths: limits.cpu_thousandths,
        memory_bytes: limits.memory_bytes,
        processes: limits.processes,
        ulimits: ulimits(kind),
    }
}

/// Returns the limits of open files, equal to those of this process, and of processes, limited to the process
/// numbers of the kernel, which is also Podman's maximum.
fn ulimits(kind: Kind) -> Vec<Ulimit> {
    let most = |resource| getrlimit(resource).maximum;
    let numbers = sysctl::read_as::<u64>("kernel/pid_max").ok();
    let processes = most(Resource::Nproc).into_iter().chain(numbers).min();
    kind.ulimits(most(Resource::Nofile), processes)
}
