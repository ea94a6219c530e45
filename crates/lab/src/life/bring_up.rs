//! From nothing to a lab whose edges carry frames.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Instant;

use constel_drivers::{DriverKind, Links, Plane, PlaneConfig, make_plane};
use constel_host::claim::Claim;
use constel_host::globals::{Globals, Owner};
use constel_host::rcu::Expedited;
use constel_host::template::{ROUTER, Setting};
use constel_plan::{Blueprint, Lab};
use constel_runtime::netns::NetnsRuntime;
use constel_scenario::model::Scenario;
use constel_topology::Port;

use crate::answers::impair;
use crate::clock::mono_ns;
use crate::error::EngineError;
use crate::life::limits;
use crate::life::manifest::memory_bytes;
use crate::nodes::builder::{Builder, carries_gso};
use crate::nodes::kernels::Kernels;
use crate::nodes::launcher::{Cgroups, Launcher, hosts_file, namespaces_file};
use crate::nodes::ports::VethPorts;
use crate::progress::{Progress, Stage};
use crate::routing::forwarding::Forwarding;
use crate::routing::router::Router;

/// A lab without routes and without time: nodes, ports and the link plane.
pub(crate) struct Fabric {
    pub(crate) blueprint: Arc<Blueprint>,
    /// The nodes and their kernels.
    pub(crate) kernels: Arc<Kernels>,
    pub(crate) plane: Box<dyn Plane>,
    pub(crate) handle: Arc<dyn Links>,
    pub(crate) launcher: Arc<Launcher>,
    pub(crate) memory_per_node_bytes: u64,
    pub(crate) nodes_s: f64,
    /// Of [`Plane::lost_before_capture`], what was lost before there were edges.
    pub(crate) lost_before_start: u64,
}

/// Makes the fabric. What it makes lives in namespaces held by descriptors, or is recorded in the claim.
///
/// # Errors
/// Whatever the host refuses; then nothing of the fabric is left.
pub(crate) fn fabric(
    lab: Lab,
    driver: DriverKind,
    claim: &Claim,
    globals: &Globals,
    cgroups: Cgroups,
    progress: &dyn Progress,
) -> Result<Fabric, EngineError> {
    let started = Instant::now();
    let seed = lab.scenario.seed;
    let blueprint = Arc::new(Blueprint::new(lab)?);
    let forwarding = Forwarding::wanted(&blueprint)?.map(Arc::new);
    let layout = &blueprint.lab.layout;
    let ports = layout.ports().len();
    let owner = claim.owner();
    make_room(&blueprint, globals, &owner)?;

    let stage = Stage::begin(progress, "link plane", 1);
    // Attaching programs and removing devices wait for RCU grace periods, 25-50 ms each unless expedited.
    let expedited = Expedited::hold(globals, &owner)?;
    let config = PlaneConfig {
        grain_ns: blueprint.lab.scenario.grain.ns().unsigned_abs(),
        ..PlaneConfig::new(
            claim.lab().as_str(),
            u32::try_from(ports).unwrap_or(u32::MAX),
            seed,
        )
    };
    let plane = make_plane(driver, &config)?;
    stage.end("");

    let settings = node_settings(&blueprint.lab.scenario);
    let runtime = NetnsRuntime::new(&settings, globals.clone(), owner.clone())?;
    let stage = Stage::begin(progress, "nodes and ports", layout.nodes().len() as u64);
    let before = memory_bytes("MemAvailable:");
    let veths = VethPorts {
        plane: plane.as_ref(),
        super_frames: carries_gso(plane.as_ref(), &blueprint.lab.scenario),
        forwarding: forwarding.clone(),
    };
    let builder = Builder {
        blueprint: &blueprint,
        runtime: &runtime,
        ports: &veths,
    };
    let kernels = Arc::new(Kernels {
        nodes: builder.build(&stage)?,
        blueprint: Arc::clone(&blueprint),
        forwarding,
    });
    let after = memory_bytes("MemAvailable:");
    stage.end(&format!(
        "{ports} interfaces in {:.2} s",
        started.elapsed().as_secs_f64()
    ));
    expedited.finish()?;
    let used = before
        .zip(after)
        .map_or(0, |(before, after)| before.saturating_sub(after));

    let lost_before_start = plane.lost_before_capture()?;
    let handle = start_links(&blueprint, plane.as_ref())?;
    let launcher = Arc::new(Launcher {
        lab: claim.lab().to_string(),
        lab_dir: claim.dir().to_owned(),
        kernels: Arc::clone(&kernels),
        cgroups,
    });
    publish(&blueprint, &launcher)?;
    Ok(Fabric {
        memory_per_node_bytes: used / kernels.nodes.len().max(1) as u64,
        nodes_s: started.elapsed().as_secs_f64(),
        lost_before_start,
        blueprint,
        plane,
        handle,
        kernels,
        launcher,
    })
}

/// Raises what the host allows, where the lab needs more.
fn make_room(blueprint: &Blueprint, globals: &Globals, owner: &Owner) -> Result<(), EngineError> {
    let lab = &blueprint.lab;
    limits::raise(globals, owner, lab.layout.ports().len())?;
    // A namespace and a socket for each node, and one for each daemon to wait for it; for each flow one for its client
    // and one for its server; a shard namespace for every few hundred ports; some to spare.
    let daemons = Router::of(&lab.scenario).processes(lab);
    let processes = daemons + 2 * lab.scenario.traffic.len();
    let wanted = 2 * lab.layout.nodes().len() as u64 + processes as u64 + 1024;
    let allowed = constel_host::limits::raise_open_files(wanted)?;
    if allowed < wanted {
        return Err(EngineError::Unable {
            what: format!("the lab needs {wanted} open files, this process may have {allowed}"),
            remedy: "raise the hard limit of open files (ulimit -Hn)".to_owned(),
        });
    }
    Ok(())
}

/// Starts the link plane, which keeps the lateness of frames apart by the class of their edge.
fn start_links(blueprint: &Blueprint, plane: &dyn Plane) -> Result<Arc<dyn Links>, EngineError> {
    let links = plane.start()?;
    let layout = &blueprint.lab.layout;
    let classes = layout.edge_classes();
    let class_of = |port: &Port| classes.iter().position(|class| *class == port.class);
    let of_ports = layout
        .ports()
        .iter()
        .map(|port| class_of(port).unwrap_or(0) as u8);
    let names = classes.iter().map(|class| class.name.into()).collect();
    links.classify(names, of_ports.collect())?;
    // Until the clock starts, laws of time run from here.
    impair::put_profiles(blueprint, links.as_ref(), mono_ns())?;
    Ok(links)
}

/// Settings of every node. They live and die with its namespace.
pub(crate) fn node_settings(scenario: &Scenario) -> Vec<Setting> {
    let routing = &scenario.routing;
    let mut settings = ROUTER.to_vec();
    settings.extend(Router::of(scenario).settings());
    if !routing.families.ipv6 {
        settings.retain(|(key, _)| !key.contains("/ipv6/"));
        settings.push(("net/ipv6/conf/all/disable_ipv6", "1"));
        settings.push(("net/ipv6/conf/default/disable_ipv6", "1"));
    }
    settings
}

/// What other processes need to find nodes: names, and paths to their namespaces that work as long as this
/// process lives. Two files, not one a node: `/run` may be a disk.
fn publish(blueprint: &Blueprint, launcher: &Launcher) -> Result<(), EngineError> {
    let write = |path: std::path::PathBuf, text: String| {
        fs::write(&path, text).map_err(|source| EngineError::Io {
            what: format!("write {}", path.display()),
            source,
        })
    };
    let names = blueprint.addresses.hosts(&blueprint.lab.layout);
    write(
        hosts_file(&launcher.lab_dir),
        format!("127.0.0.1 localhost\n::1 localhost\n{names}"),
    )?;
    let paths: BTreeMap<&str, std::path::PathBuf> = blueprint
        .lab
        .layout
        .nodes()
        .iter()
        .zip(launcher.kernels.nodes.iter())
        .map(|(node, live)| (node.name.as_str(), live.netns_path()))
        .collect();
    let text = serde_json::to_string(&paths).map_err(|error| EngineError::Io {
        what: "list the nodes' namespaces".to_owned(),
        source: error.into(),
    })?;
    write(namespaces_file(&launcher.lab_dir), text)
}
