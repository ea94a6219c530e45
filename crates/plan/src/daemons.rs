//! The configuration of a scenario's routing daemons, and the check that the user's template can express it.

use constel_routing::daemons::{
    Bfd, Protocol, Served, Software, Spec, System, TemplateError, Templates, contexts,
    serving_within,
};
use constel_routing::{AddressError, AddressPlan, AreaError, Areas, Grouping};
use constel_scenario::model::{AreaSize, DaemonRouting, Igp, Name, Software as Asked};
use constel_scenario::{Diagnostic, Diagnostics};
use constel_topology::{Access, NodeId};

use crate::addresses::address_blocks;
use crate::disjoint::path_addresses;
use crate::lab::{Lab, whole_file};

/// The cost of every ISL. Equal costs make paths those with the fewest hops.
const ISL_COST: u16 = 10;

/// The cost of every cable.
const CABLE_COST: u16 = 10;

/// The cost of a GSL: high enough that no path leads through a station.
const GSL_COST: u16 = 1000;

/// Converts the scenario's daemons to the form that configuration templates use.
#[must_use]
pub fn daemon_spec(lab: &Lab, routing: &DaemonRouting) -> Spec {
    let families = lab.scenario.routing.families;
    let find = |name: &Name| lab.layout.find(name.as_str()).map(|node| node.id);
    let systems = routing.systems.iter().map(|system| System {
        asn: system.asn,
        nodes: system.nodes.iter().filter_map(find).collect(),
        reflectors: system.reflectors.iter().filter_map(find).collect(),
    });
    Spec {
        systems: systems.collect(),
        uplinks: Served::new(),
        bgp_hello_s: routing.bgp_timers.hello_s,
        bgp_dead_s: routing.bgp_timers.dead_s,
        cable_cost: CABLE_COST,
        software: match routing.software {
            Asked::Bird => Software::Bird,
            Asked::Frr => Software::Frr,
        },
        protocol: match routing.protocol {
            Igp::Ospf => Protocol::Ospf,
            Igp::Isis => Protocol::Isis,
            Igp::Babel => Protocol::Babel,
        },
        hello_s: routing.timers.hello_s,
        dead_s: routing.timers.dead_s,
        ground_hello_s: routing.ospf.ground.hello_s,
        ground_dead_s: routing.ospf.ground.dead_s,
        ground_retransmit_s: routing.ospf.ground_retransmit_s,
        retransmit_s: routing.ospf.retransmit_s,
        tick_s: routing.ospf.tick_s,
        isl_cost: ISL_COST,
        gsl_cost: GSL_COST,
        ipv4: families.ipv4,
        ipv6: families.ipv6,
        kernel_events: routing.kernel_events,
        bfd: routing.bfd.map(|bfd| Bfd {
            // The scenario's bounds limit it to one minute.
            interval_ms: u32::try_from(bfd.interval.ns() / 1_000_000).unwrap_or(u32::MAX),
            multiplier: bfd.multiplier,
        }),
    }
}

/// Returns the OSPF areas; `None` for one area, or without OSPF.
///
/// # Errors
/// All reasons why areas cannot be formed in this constellation at the start of the lab.
pub fn ospf_areas(lab: &Lab) -> Result<Option<Areas>, Vec<AreaError>> {
    let routing = lab.scenario.routing.mode.daemons();
    let Some(size) = routing.and_then(|routing| routing.ospf.areas) else {
        return Ok(None);
    };
    let grouping = match size {
        AreaSize::Planes(planes) => Grouping::Planes(planes),
        AreaSize::Satellites(satellites) => Grouping::Satellites(satellites),
    };
    let areas = Areas::new(&lab.layout, grouping)?;
    areas.check(&lab.layout, &lab.stepper().at_step(0))?;
    let beside =
        !lab.layout.spec().cables.is_empty() || routing.is_some_and(|r| !r.systems.is_empty());
    if areas.domains() > 1 && beside {
        return Err(vec![AreaError::Gateways(areas.domains())]);
    }
    Ok(Some(areas))
}

/// Returns the lab's addresses, with those of disjoint paths. Each area has a block of its own.
///
/// # Errors
/// When they do not fit.
pub fn address_plan(lab: &Lab, areas: Option<&Areas>) -> Result<AddressPlan, Vec<AddressError>> {
    let blocks = address_blocks(lab);
    let plan = match areas {
        Some(areas) => AddressPlan::in_blocks(&lab.layout, &blocks, areas),
        None => AddressPlan::new(&lab.layout, &blocks),
    }?;
    Ok(plan.with_paths(path_addresses(lab).map_err(|error| vec![error])?))
}

/// Checks that the lab can be divided into the requested areas.
///
/// # Errors
/// All reasons why it cannot.
pub(crate) fn check_areas(lab: &Lab) -> Result<(), Diagnostics> {
    ospf_areas(lab).map(|_| ()).map_err(|errors| {
        let mut found = Diagnostics::new();
        for error in errors {
            found.push(whole_file(&lab.scenario, "areas", error.to_string()));
        }
        found
    })
}

/// Checks that the daemons can connect stations of several systems to the satellites.
///
/// # Errors
/// With FRR, when some stations belong to the satellites' system and some do not.
pub(crate) fn check_uplinks(lab: &Lab) -> Result<(), Diagnostics> {
    let Some(routing) = lab.scenario.routing.mode.daemons() else {
        return Ok(());
    };
    let spec = daemon_spec(lab, routing);
    let mut stations = lab.layout.nodes().iter();
    let own = stations.find(|n| n.class.access == Access::Chooses && spec.in_sky(n.id));
    let Some(own) = own.filter(|_| spec.software == Software::Frr) else {
        return Ok(());
    };
    if !spec.has_foreign_stations(&lab.layout) {
        return Ok(());
    }
    let message = format!(
        "with FRR either all stations belong to other systems than the satellites, or none: `{}` is the satellites' own",
        own.name
    );
    // ospfd makes satellites forward to the station itself, whose ground address no daemon advertises.
    Err(whole_file(&lab.scenario, "systems", message).into())
}

/// Checks that the daemons find their neighbours in the scenario's networks, in which a port can have several.
///
/// # Errors
/// Each network in which they do not, at the place of its members.
pub(crate) fn check_networks(lab: &Lab) -> Result<(), Diagnostics> {
    let Some(routing) = lab.scenario.routing.mode.daemons() else {
        return Ok(());
    };
    let spec = daemon_spec(lab, routing);
    let layout = &lab.layout;
    let in_areas = routing.ospf.areas.is_some();
    let mut found = Diagnostics::new();
    for (place, network) in lab.scenario.networks.iter().enumerate() {
        let nodes = layout.network_ports(place).iter();
        let nodes: Vec<NodeId> = nodes.map(|port| layout.port(*port).node).collect();
        let Some(written) = network.members.first() else {
            continue;
        };
        // FRR's IS-IS has no point-to-multipoint mode, and its OSPFv3 has none before version 10.
        let one_neighbour =
            spec.software == Software::Frr && (spec.protocol != Protocol::Ospf || spec.ipv6);
        if one_neighbour && nodes.len() > 2 {
            let message = format!(
                "network `{}` has {} members, and FRR's IS-IS and OSPFv3 hold one neighbour on a port",
                network.name,
                nodes.len()
            );
            let next = "use OSPF with `families: [ipv4]`, or `daemon: bird`";
            found.push(
                written
                    .error("one-neighbour", message)
                    .with_suggestion(next),
            );
        }
        let apart = nodes
            .iter()
            .find(|node| !spec.same_system(nodes[0], **node));
        if let Some(other) = apart {
            let name = |node: NodeId| layout.node(node).name.as_str();
            let message = format!(
                "network `{}` joins `{}` and `{}`, which are of different systems",
                network.name,
                name(nodes[0]),
                name(*other)
            );
            let error = written.error("one-system", message);
            let error = error.with_reason("systems speak BGP over cables and ground links only");
            found.push(error.with_suggestion("keep the members of a network in one system"));
        }
        if in_areas {
            let message = format!("network `{}` beside `ospf.areas`", network.name);
            let error = written.error("no-areas", message);
            let error = error.with_reason("areas are of lasers, ground links and cables: its ports would be in none, or in different ones");
            found.push(error.with_suggestion("leave `areas` out"));
        }
    }
    found.or(())
}

/// Returns the templates of the scenario's daemons.
///
/// # Errors
/// The error of the user's template, at its place.
pub fn daemon_templates(routing: &DaemonRouting) -> Result<Templates, Box<Diagnostic>> {
    let user = routing
        .template
        .as_ref()
        .map(|t| (t.path.as_str(), t.text()));
    Templates::new(user).map_err(|error| Box::new(diagnostic(routing, &error)))
}

/// Converts a template error to a diagnostic at its place in the user's file. Shipped templates have no errors of
/// their own: an error in one of them is caused by the file that includes it.
fn diagnostic(routing: &DaemonRouting, error: &TemplateError) -> Diagnostic {
    let Some(file) = &routing.template else {
        unreachable!("shipped templates suit every scenario: {error}");
    };
    if error.template == file.path {
        let line = error.line.unwrap_or(1);
        file.error_in_line(line as usize, "template", error.message.clone())
    } else {
        file.error_where_named("template", error.to_string())
    }
}

/// Renders the user's template for every node, as it will be at the start of the lab.
///
/// # Errors
/// The error of the first node whose template cannot be rendered: further nodes mostly have the same error.
pub(crate) fn check_template(lab: &Lab) -> Result<(), Diagnostics> {
    let scenario = &lab.scenario;
    let Some(routing) = scenario.routing.mode.daemons() else {
        return Ok(());
    };
    if routing.template.is_none() {
        return Ok(());
    }
    let templates = daemon_templates(routing).map_err(|error| *error)?;
    let spec = daemon_spec(lab, routing);
    let areas = ospf_areas(lab).unwrap_or_default();
    // Too few addresses are reported by their own check.
    let Ok(plan) = address_plan(lab, areas.as_ref()) else {
        return Ok(());
    };
    // The check needs a single step, and is never cancelled.
    let serving = serving_within(&mut lab.stepper(), 1, &|| true).unwrap_or_default();
    let spec = spec.with_uplinks(&lab.layout, &serving);
    let mut stations = serving.into_iter();
    for node in lab.layout.nodes() {
        let satellites = match node.class.access {
            Access::Chooses => stations.next().unwrap_or_default(),
            Access::Serves | Access::None => Served::new(),
        };
        let contexts = contexts(
            &lab.layout,
            &plan,
            &spec,
            areas.as_ref(),
            node.id,
            &satellites,
        )
        .map_err(|errors| whole_file(scenario, "routing", errors[0].to_string()))?;
        for context in &contexts {
            templates.render(context).map_err(|error| {
                diagnostic(routing, &error).with_reason(format!(
                    "filled for {} of node {}",
                    context.program, node.name
                ))
            })?;
        }
    }
    Ok(())
}
