//! Bring-up: from nothing to a lab whose edges carry frames.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use constel_containers::runtime::NodeRuntime;
use constel_drivers::{Links, Plane, PlaneConfig};
use constel_host::claim::LabName;
use constel_host::limits::memory_bytes;
use constel_plan::{Blueprint, Lab, LocalNodes, Management};
use constel_scenario::model::{OnMachineLoss, StackTime};
use constel_topology::{Failure, FailureTarget, FailureTime, Port};

use crate::answers::impair;
use crate::answers::node_states::BY_HAND;
use crate::clock::mono_ns;
use crate::error::EngineError;
use crate::life::attached::{Attached, instructions};
use crate::life::manifest::bounds;
use crate::life::site::Site;
use crate::life::threads::RelayThreads;
use crate::life::together::{ClusterPart, MachineConnection};
use crate::nodes::builder::{Builder, carries_gso};
use crate::nodes::kernels::{Here, Kernels};
use crate::nodes::launcher::{Launcher, hosts_file, namespaces_file, resolver_file};
use crate::nodes::management::ManagementNet;
use crate::nodes::own_stack::OwnStacks;
use crate::nodes::stackless::Stackless;
use crate::progress::{Progress, Stage};
use crate::routing::forwarding::Forwarding;

/// A lab without routes and before lab time: nodes, ports and the link plane.
pub(crate) struct Fabric {
    pub(crate) blueprint: Arc<Blueprint>,
    /// The nodes and their kernels.
    pub(crate) kernels: Arc<Kernels>,
    pub(crate) plane: Box<dyn Plane>,
    /// Interfaces of the machine behind which there are hosts of the lab.
    pub(crate) attached: Attached,
    /// The management network, if a scenario's network asks for it.
    pub(crate) management: Option<ManagementNet>,
    pub(crate) handle: Arc<dyn Links>,
    /// The connection to the other machines, for a lab on several.
    pub(crate) between: Option<MachineConnection>,
    pub(crate) launcher: Arc<Launcher>,
    /// The runtime, if nodes of lost machines may have to be created later.
    pub(crate) runtime: Option<Box<dyn NodeRuntime>>,
    /// Whether nodes send TCP super-frames.
    pub(crate) super_frames: bool,
    pub(crate) memory_per_node_bytes: u64,
    pub(crate) nodes_s: f64,
    /// The part of [`Plane::lost_before_capture`] from before there were edges.
    pub(crate) lost_before_start: u64,
}

/// Returns the lab with a failure that has no nodes yet, for those that users fail by command.
pub(crate) fn may_fail(lab: Lab) -> Result<Lab, EngineError> {
    let by_hand = Failure {
        name: BY_HAND.to_owned(),
        what: FailureTarget::Nodes(Vec::new()),
        when: FailureTime::Told,
    };
    let layout = lab.layout.with_failures(vec![by_hand]);
    let layout = layout.map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        EngineError::Configuration(errors.join("; "))
    })?;
    Ok(Lab {
        layout: Arc::new(layout),
        ..lab
    })
}

/// Creates the fabric. Its parts are in namespaces held by descriptors, or are recorded in the claim. `lab_dir` is
/// the lab's runtime folder. `together` is this machine's part of a lab on several machines.
///
/// # Errors
/// Any refusal of the host; nothing of the fabric is left then.
pub(crate) fn fabric(
    lab: Lab,
    site: &dyn Site,
    (name, lab_dir): (&LabName, &Path),
    together: Option<&ClusterPart>,
    progress: &dyn Progress,
) -> Result<Fabric, EngineError> {
    let started = Instant::now();
    let lab = match together {
        Some(together) => together.may_lose(lab)?,
        None => may_fail(lab)?,
    };
    let blueprint = Arc::new(Blueprint::new(lab)?);
    let forwarding = Forwarding::wanted(&blueprint)?.map(Arc::new);
    let stackless = Stackless::wanted(&blueprint)?.map(Arc::new);
    let layout = &blueprint.lab.layout;
    let ours = together.map_or_else(LocalNodes::all, ClusterPart::ours);
    // Nodes without a stack have no namespace, and other machines create their own nodes.
    let here = layout.nodes().iter();
    let here = here.filter(|node| ours.has(node.id) && !blueprint.lab.forwards(node.id));
    let (nodes_here, ports_here) = here.fold((0, 0), |(nodes, ports), node| {
        (nodes + 1, ports + layout.ports_of(node.id).len())
    });
    // Limits and cgroups come first: the first namespace may already need them.
    let cgroups = site.make_room(&blueprint)?;
    if !cgroups.unlimited().is_empty() {
        let missing = cgroups.unlimited().join(" and ");
        progress.say(&format!(
            "this host cannot limit what programs in nodes take of: {missing}"
        ));
    }
    let images = site.images(&blueprint, &ours, progress)?;
    say_privileges(&blueprint, &ours, progress);
    let management = blueprint.lab.management(name.as_str());
    write_hosts(&blueprint, management.as_ref(), lab_dir)?;
    if let Some(own) = &management {
        progress.say(&format!(
            "management: this machine is {} on {}, and its way to nodes {}",
            own.host, own.interface, own.subnet
        ));
    }
    let managed = management.clone();
    let management = management.map(|own| site.management(own)).transpose()?;
    let management = management.flatten();
    if let Some(Err(unreached)) = management.as_ref().map(ManagementNet::reach) {
        progress.say(&format!("warning: {unreached}"));
    }

    // The link plane exists before the nodes, because each port is attached to it as soon as it is created.
    let config = plane_config(&blueprint, stackless.as_deref(), name, together.is_some());
    let mut attached = site.attached(&blueprint)?;
    // The difference of free memory gives the memory per node in the summary.
    let before = memory_bytes("MemAvailable:");
    let mut made = None;
    site.hurried(&mut || {
        let stage = Stage::begin(progress, "link plane", 1);
        let plane = site.plane(&config)?;
        plane.take_interfaces(&attached.externals)?;
        let crossing = together.map(|own| own.open(&blueprint.lab, plane.as_ref()));
        let crossing = crossing.transpose()?;
        stage.end("");
        let stage = Stage::begin(progress, "nodes and ports", nodes_here as u64);
        let runtime = site.runtime(&blueprint, &ours, &images)?;
        let super_frames =
            attached.externals.is_empty() && carries_gso(plane.as_ref(), &blueprint.lab.scenario);
        let veths = site.ports(plane.as_ref(), super_frames, forwarding.clone());
        let builder = Builder {
            blueprint: &blueprint,
            runtime: runtime.as_ref(),
            ports: veths.as_ref(),
            management: management.as_ref(),
            stackless: stackless.as_ref(),
            together,
        };
        let nodes = builder.build(&stage)?;
        let took_s = started.elapsed().as_secs_f64();
        stage.end(&format!("{ports_here} interfaces in {took_s:.2} s"));
        drop(veths);
        // The runtime is kept only if nodes of lost machines move; otherwise it would hold memory for the whole
        // run.
        let moves = blueprint.lab.scenario.on_machine_loss == OnMachineLoss::Move;
        let runtime = Some(runtime).filter(|_| moves && together.is_some());
        made = Some((plane, nodes, crossing, (runtime, super_frames)));
        Ok(())
    })?;
    let (plane, nodes, crossing, (runtime, super_frames)) = made.expect("made, or refused");
    let (nodes, elsewhere) = nodes;
    let kernels = Arc::new(Kernels {
        nodes,
        elsewhere,
        here: Here::new(ours),
        blueprint: Arc::clone(&blueprint),
        forwarding,
        stackless,
        own_stacks: OwnStacks::default(),
    });
    if let Some(own) = managed {
        kernels.own_stacks.manage(own);
    }
    let after = memory_bytes("MemAvailable:");
    let used = before
        .zip(after)
        .map_or(0, |(before, after)| before.saturating_sub(after));

    // Frames lost before this count belong to the bring-up and are subtracted at the end.
    let lost_before_start = plane.lost_before_capture()?;
    let handle = start_links(&blueprint, plane.as_ref())?;
    let listen = together.zip(crossing);
    let listen = listen.map(|(own, crossing)| own.listen(crossing, Arc::clone(&handle)));
    let between = listen.transpose()?;
    // Interfaces of the machine come last, so that no frame arrives before its edge exists.
    attached.captured = plane.let_in(&attached.externals)?;
    for line in instructions(&blueprint) {
        progress.say(&line);
    }
    let launcher = Arc::new(Launcher {
        lab: name.to_string(),
        lab_dir: lab_dir.to_owned(),
        kernels: Arc::clone(&kernels),
        cgroups: Arc::new(cgroups),
        images,
    });
    write_namespaces(&launcher)?;
    Ok(Fabric {
        memory_per_node_bytes: used / kernels.count().max(1) as u64,
        nodes_s: started.elapsed().as_secs_f64(),
        lost_before_start,
        blueprint,
        plane,
        attached,
        management,
        handle,
        between,
        kernels,
        launcher,
        runtime,
        super_frames,
    })
}

/// Returns the configuration of the link plane for a lab.
fn plane_config(
    blueprint: &Blueprint,
    stackless: Option<&Stackless>,
    name: &LabName,
    on_several: bool,
) -> PlaneConfig {
    let lab = &blueprint.lab;
    let ports = lab.layout.ports();
    PlaneConfig {
        grain_ns: lab.scenario.grain.ns().unsigned_abs(),
        channels: lab
            .channels()
            .into_iter()
            .map(|(_, shared)| shared)
            .collect(),
        switches: lab.switches(),
        transit: stackless.map(|all| Arc::clone(&all.table)),
        threads: RelayThreads::of(lab, on_several).count,
        nodes: ports.iter().map(|port| port.node.index() as u32).collect(),
        deduct_stacks: lab.scenario.stack_time == StackTime::Deducted,
        ..PlaneConfig::new(
            name.as_str(),
            u32::try_from(ports.len()).unwrap_or(u32::MAX),
            lab.scenario.seed,
        )
    }
}

/// Starts the link plane, with separate lateness statistics for each class of edges.
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
    links.late_beyond(bounds(&blueprint.lab.scenario).lateness_p99_ns)?;
    // Until lab time starts, time-dependent laws count from here.
    impair::put_profiles(blueprint, links.as_ref(), mono_ns())?;
    Ok(links)
}

/// Writes the `/etc/hosts` of the nodes, with the machine's name if nodes can reach it over the management network.
fn write_hosts(
    blueprint: &Blueprint,
    management: Option<&Management>,
    lab_dir: &Path,
) -> Result<(), EngineError> {
    let names = blueprint.addresses.hosts(&blueprint.lab.layout);
    // Node names have no dot, so that this name is free.
    let machine =
        management.map_or_else(String::new, |own| format!("{} host.management\n", own.host));
    let text = format!("127.0.0.1 localhost\n::1 localhost\n{names}{machine}");
    write(&hosts_file(lab_dir), text)?;
    // With an empty resolver file a program gets an error at once for other names, instead of waiting for the
    // host's name server.
    let text = "# Nodes have no name servers; /etc/hosts has their names.\n".to_owned();
    write(&resolver_file(lab_dir), text)
}

/// Prints the privileges that the scenario gives to containers here in addition to the default.
fn say_privileges(blueprint: &Blueprint, ours: &LocalNodes, progress: &dyn Progress) {
    let mut given: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (node, container) in ours.containers(&blueprint.lab) {
        for more in container.privileges() {
            let name = blueprint.lab.layout.node(node).name.as_str();
            given.entry(more).or_default().push(name);
        }
    }
    for (more, nodes) in given {
        let first = nodes.first().copied().unwrap_or_default();
        let others = match nodes.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        progress.say(&format!("beyond the default, {first}{others} may: {more}"));
    }
}

/// Writes the paths of the nodes' namespaces, for other processes. They are valid as long as this process lives. A
/// single file is written, and not one per node, because `/run` may be on a disk.
pub(crate) fn write_namespaces(launcher: &Launcher) -> Result<(), EngineError> {
    let kernels = &launcher.kernels;
    let ours = kernels.ours();
    let paths: BTreeMap<&str, std::path::PathBuf> = kernels
        .blueprint
        .lab
        .layout
        .nodes()
        .iter()
        .zip(kernels.nodes.iter())
        .filter(|(node, _)| ours.has(node.id) && !kernels.blueprint.lab.forwards(node.id))
        .map(|(node, live)| (node.name.as_str(), live.netns_path()))
        .collect();
    let text = serde_json::to_string(&paths).map_err(|error| EngineError::Io {
        what: "list the nodes' namespaces".to_owned(),
        source: error.into(),
    })?;
    write(&namespaces_file(&launcher.lab_dir), text)
}

fn write(path: &Path, text: String) -> Result<(), EngineError> {
    fs::write(path, text).map_err(|source| EngineError::Io {
        what: format!("write {}", path.display()),
        source,
    })
}
