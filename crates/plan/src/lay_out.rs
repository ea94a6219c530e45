//! The layout of a scenario as a lab: orbits, nodes and ports, and the checks on them.

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use constel_link::Effects;
use constel_orbit::{Walker, WalkerKind, WalkerSpec};
use constel_scenario::model::{
    self, Expected, Mode, NodeSoftware, NodesNamed, Orbits, WalkerPattern,
};
use constel_scenario::{
    Diagnostic, Diagnostics, Files, LeftOut, NodeFacts, NodeKind, Scenario, read_scenario_with,
};
use constel_topology::{
    Access, Cable, Circle, Constellation, CrossShell, Failure, FailureTarget, GroundService, HOST,
    Host, IslPattern, Lasers, Layout, LinkClass, Neighbours, Network, PlusGrid, SATELLITE,
    SPACECRAFT, Satellite, Sky, Spec, SpecError, Station,
};

use crate::access;
use crate::addresses::check_addresses;
use crate::catalogue::{Catalogue, Catalogued};
use crate::choices;
use crate::daemons::{check_areas, check_networks, check_template, check_uplinks};
use crate::elements;
use crate::ephemeris;
use crate::flown::{Flown, wrap_of};
use crate::formation;
use crate::ground::{class, elevation_step, station_spec};
use crate::lab::{Lab, whole_file};
use crate::networks;
use crate::next_nodes::NextNodes;
use crate::planner::destinations;
use crate::sky::{self, LabSky};
use crate::watched::check_expectations;

/// The range limit for "as far as the line of sight": the topology's largest range, twice the distance between the
/// highest orbits of a scenario.
const LINE_OF_SIGHT_M: f64 = 1e9;

impl Lab {
    /// Reads a scenario file and lays it out.
    ///
    /// # Errors
    /// All errors of its form, of its meaning, and of the files that it names.
    pub fn read(file_name: &str, bytes: &[u8], files: &dyn Files) -> Result<Self, Diagnostics> {
        read_scenario_with(file_name, bytes, files, |scenario, errors| {
            Self::lay_out(scenario, errors, Vec::new())
        })
    }

    /// Reads a changed scenario file of a running lab, and lays it out. Effects of links keep the numbers that they have in the
    /// running lab, and new ones get further numbers.
    ///
    /// # Errors
    /// As [`Lab::read`].
    pub fn read_over(
        &self,
        file_name: &str,
        bytes: &[u8],
        files: &dyn Files,
    ) -> Result<Self, Diagnostics> {
        read_scenario_with(file_name, bytes, files, |scenario, errors| {
            Self::lay_out(scenario, errors, self.profiles.to_vec())
        })
    }

    /// Lays a scenario out.
    ///
    /// # Errors
    /// All errors in element files (with their own file and line), orbits and node names.
    pub fn new(scenario: Scenario) -> Result<Self, Diagnostics> {
        Self::lay_out(scenario, Diagnostics::new(), Vec::new())
    }

    /// Lays a scenario out. If there are errors already, only the files of its constellations are read, for their errors. The
    /// first effects of links are `profiles`.
    fn lay_out(
        mut scenario: Scenario,
        mut errors: Diagnostics,
        profiles: Vec<Effects>,
    ) -> Result<Self, Diagnostics> {
        let Flights {
            orbits,
            constellations,
            mut profiles,
            catalogued,
            left_out,
            shells,
            ages,
        } = fly(&scenario, &mut errors, profiles);
        let mut errors = errors.or(Diagnostics::new())?;
        let satellites = constellations.iter().flat_map(|k| &k.satellites);
        let names = satellites.map(|satellite| satellite.name.as_str());
        let catalogue = Catalogue::new(names.zip(catalogued));
        let names = node_names(&constellations, &scenario);
        errors.take(scenario.settle_nodes(&names, |text| catalogue.resolve(text)));
        let networks = errors.take(networks::make(&scenario, &names, &mut profiles));
        let mut rules = Vec::new();
        let stations = scenario.stations.iter();
        let mut stations: Vec<Station> = stations
            .map(|station| station_spec(station, &mut rules))
            .collect();
        if let Some(file) = &scenario.choices {
            errors.take(choices::read(file, &constellations, &mut stations));
        }
        let switched = scenario.link_choices.as_ref().map(|file| {
            let hosts = scenario.hosts.iter().map(|host| host.name.as_str());
            let stations = stations.iter().map(|station| station.name.as_str());
            let satellites = constellations.iter().flat_map(|k| &k.satellites);
            let satellites = satellites.map(|satellite| satellite.name.as_str());
            // The order of node numbers.
            choices::read_links(file, satellites.chain(stations).chain(hosts))
        });
        let switched = switched.and_then(|read| errors.take(read));
        let networks = networks.unwrap_or_default();
        let mut errors = errors.or(Diagnostics::new())?;
        let spec = Spec {
            // The scenario's bounds make it positive and at most 60 s.
            step_ns: scenario.step.ns().unsigned_abs(),
            constellations,
            stations,
            hosts: scenario.hosts.iter().map(host_spec).collect(),
            cables: scenario
                .cables
                .iter()
                .map(|cable| cable_spec(cable, &mut profiles))
                .collect(),
            failures: failures(&scenario, &networks)?,
            networks,
            rules,
            seed: scenario.seed,
            switched: switched.unwrap_or_default(),
            cross: scenario
                .cross_shell
                .iter()
                .map(|c| cross_shell(&scenario, c, &mut profiles))
                .collect(),
        };
        let sky: Arc<dyn Sky> = Arc::new(LabSky::new(scenario.start, orbits));
        let layout = match Layout::new(spec, sky.as_ref()) {
            Ok(layout) => Arc::new(layout),
            Err(found) => {
                for error in found {
                    errors.push(in_layout(&scenario, &error));
                }
                return Err(errors);
            }
        };
        let software = software(&scenario, &layout, sky.as_ref())?;
        let next_nodes = next_nodes(&scenario, &layout)?;
        let profiles = access::placed(profiles, scenario.start, &layout);
        let lab = Self {
            scenario: Arc::new(scenario),
            layout,
            sky,
            profiles: Arc::new(profiles),
            left_out: Arc::new(left_out),
            shells: Arc::new(shells),
            catalogue: Arc::new(catalogue),
            ages: Arc::new(ages),
            software: Arc::new(software),
            next_nodes,
        };
        for check in [
            check_areas,
            check_uplinks,
            check_networks,
            check_addresses,
            check_template,
            check_patterns,
        ] {
            errors.take(check(&lab));
        }
        errors.or(lab)
    }
}

/// The constellations of a scenario, and what their files say.
#[derive(Default)]
struct Flights {
    orbits: Vec<sky::Orbits>,
    constellations: Vec<Constellation>,
    profiles: Vec<Effects>,
    catalogued: Vec<Option<Catalogued>>,
    left_out: Vec<LeftOut>,
    shells: Vec<elements::SortedShell>,
    ages: Vec<elements::DataAge>,
}

/// Reads the files of the constellations and places their satellites.
fn fly(scenario: &Scenario, errors: &mut Diagnostics, profiles: Vec<Effects>) -> Flights {
    let mut flights = Flights {
        profiles,
        ..Flights::default()
    };
    // Walker patterns have no file, and a wrong one has been reported.
    let reads_files_only = !errors.is_empty();
    for constellation in &scenario.constellations {
        let mut findings = elements::Findings {
            left_out: &mut flights.left_out,
            shells: &mut flights.shells,
            ages: &mut flights.ages,
            errors: &mut *errors,
        };
        let found = &mut findings;
        let flown = match &constellation.orbits {
            Orbits::Walker(_) if reads_files_only => continue,
            Orbits::Walker(own) => fly_walker(scenario, constellation, own, found.errors),
            Orbits::Tle(own) | Orbits::Omm(own) => {
                elements::fly(scenario, constellation, own, found)
            }
            Orbits::Ephemeris(own) => ephemeris::fly(scenario, constellation, own, found),
            Orbits::Formation(own) => formation::fly(scenario, constellation, own, found),
        };
        if let Some(flown) = flown {
            flights.orbits.push(flown.orbits);
            flights.catalogued.extend(flown.catalogued);
            flights.constellations.push(constellation_spec(
                constellation,
                flown.satellites,
                flown.neighbours,
                &mut flights.profiles,
            ));
        }
    }
    flights
}

/// Checks that each pattern of `information`, `expect` and `sample` matches the name of some node, and that what `expect` is
/// about exists.
fn check_patterns(lab: &Lab) -> Result<(), Diagnostics> {
    let mut errors = Diagnostics::new();
    let names = || lab.layout.nodes().iter().map(|node| node.name.as_str());
    let scenario = &lab.scenario;
    let told = scenario.information.iter();
    let told = told.flat_map(|entry| entry.nodes.iter().flatten());
    let alive = scenario.expect.iter().filter_map(|e| match &e.what {
        Expected::Alive(nodes, _) => Some(nodes),
        _ => None,
    });
    let sampled = scenario.sampling.iter();
    let sampled = sampled.flat_map(|sampling| {
        let links = sampling.interfaces.iter().chain(&sampling.edges);
        links.chain(&sampling.usage)
    });
    for named in told.chain(alive.flatten()).chain(sampled) {
        if !names().any(|name| named.glob.matches(name)) {
            errors.push(named.no_node());
        }
    }
    errors.or(())?;
    check_accounted(lab)?;
    check_expectations(lab)
}

/// Checks that each pattern of `sample.usage` matches a node whose resources are counted. Without the key it is `*`, which may
/// match none.
fn check_accounted(lab: &Lab) -> Result<(), Diagnostics> {
    let mut errors = Diagnostics::new();
    let nodes = || lab.layout.nodes().iter();
    let counted = |named: &NodesNamed| {
        nodes().any(|node| named.glob.matches(&node.name) && lab.is_accounted(node.id))
    };
    let given = lab
        .scenario
        .raw
        .sample
        .iter()
        .filter(|raw| raw.usage.is_some());
    let sampling = given.zip(&lab.scenario.sampling);
    for named in sampling.flat_map(|(_, sampling)| &sampling.usage) {
        if !counted(named) {
            let message = format!(
                "the resources of `{}` are not counted: only containers and nodes with `limits` have cgroups of their own",
                named.glob
            );
            errors.push(named.error("no-effect", message).with_next(
                "add `limits` of these nodes, for example `processes: 4096`, or remove the pattern",
            ));
        }
    }
    errors.or(())
}

/// Returns the routes over time, if a file fixes them in advance.
fn next_nodes(scenario: &Scenario, layout: &Layout) -> Result<Option<Arc<NextNodes>>, Diagnostics> {
    let Mode::Computed(asked) = &scenario.routing.mode else {
        return Ok(None);
    };
    let read = |file: &_| NextNodes::read(file, layout, &destinations(layout, asked));
    Ok(asked
        .choices
        .as_deref()
        .map(read)
        .transpose()?
        .map(Arc::new))
}

/// Returns the software of each node.
fn software(
    scenario: &Scenario,
    layout: &Layout,
    sky: &dyn Sky,
) -> Result<Vec<NodeSoftware>, Diagnostics> {
    let over = over(&scenario.circles(), layout.nodes().len(), sky);
    let facts = |node: &'_ constel_topology::Node| match node.seat {
        Some(seat) => NodeKind::Satellite(
            scenario.constellations[usize::from(seat.constellation)]
                .name
                .as_str(),
        ),
        None if node.class.access == Access::Chooses => NodeKind::Station,
        None => NodeKind::Host,
    };
    let nodes: Vec<NodeFacts<'_>> = layout
        .nodes()
        .iter()
        .map(|node| NodeFacts {
            name: &node.name,
            kind: facts(node),
            shell: node
                .seat
                .map(|seat| (usize::from(seat.constellation), seat.shell)),
            over: &over[node.id.index()],
        })
        .collect();
    scenario.software(&nodes)
}

/// Returns for each node the circles that it is over at lab time zero.
fn over(circles: &[model::Circle], nodes: usize, sky: &dyn Sky) -> Vec<Vec<model::Circle>> {
    let mut over = vec![Vec::new(); nodes];
    if circles.is_empty() {
        return over;
    }
    let mut positions = Vec::new();
    // A satellite without a position at that time is over none.
    drop(sky.positions_itrf_m(0, &mut positions));
    for own in circles {
        let circle = Circle::new(own.latitude.deg(), own.longitude.deg(), own.radius.m());
        for (over, position) in over.iter_mut().zip(&positions) {
            if circle.is_below(*position) {
                over.push(*own);
            }
        }
    }
    over
}

/// Returns the names of all nodes of the lab.
fn node_names(constellations: &[Constellation], scenario: &Scenario) -> BTreeSet<String> {
    let satellites = constellations.iter().flat_map(|k| &k.satellites);
    let stations = scenario.stations.iter().map(|s| s.name.to_string());
    let hosts = scenario.hosts.iter().map(|h| h.name.to_string());
    let satellites = satellites.map(|s| s.name.clone());
    satellites.chain(stations).chain(hosts).collect()
}

fn fly_walker(
    scenario: &Scenario,
    constellation: &model::Constellation,
    walker: &model::Walker,
    errors: &mut Diagnostics,
) -> Option<Flown> {
    let spec = WalkerSpec {
        kind: match walker.pattern {
            WalkerPattern::Star => WalkerKind::Star,
            WalkerPattern::Delta => WalkerKind::Delta,
        },
        inclination: walker.inclination,
        satellites: walker.satellites,
        planes: walker.planes,
        phasing: walker.phasing,
        altitude: walker.altitude,
        raan0: walker.raan0,
        plane_spacing: walker.plane_spacing,
        epoch: scenario.start,
    };
    let pattern = match Walker::new(spec) {
        Ok(pattern) => pattern,
        Err(found) => {
            // `resolve` has made the same checks with better positions; these are only a second line of defence.
            for error in found {
                errors.push(whole_file(
                    scenario,
                    "walker",
                    format!("`{}`: {error}", constellation.name),
                ));
            }
            return None;
        }
    };
    let mut orbits = Vec::new();
    let mut flown = Flown {
        orbits: sky::Orbits::Computed(Vec::new()),
        satellites: Vec::new(),
        catalogued: Vec::new(),
        neighbours: Neighbours::Walker {
            phasing: walker.phasing,
            wrap: wrap_of(walker.pattern, &constellation.isl),
            slots_ahead: match &constellation.isl {
                model::Isl::PlusGrid(grid) => grid.slots_ahead,
                model::Isl::None => 0,
            },
        },
    };
    for satellite in pattern.satellites() {
        orbits.push(satellite.orbit.into());
        let (Ok(plane), Ok(slot)) = (
            u16::try_from(satellite.plane),
            u16::try_from(satellite.slot),
        ) else {
            let message = format!(
                "`{}` has more than 65,536 planes or slots",
                constellation.name
            );
            errors.push(whole_file(scenario, "walker", message));
            return None;
        };
        flown.satellites.push(Satellite {
            name: walker.satellite_name(
                constellation.name.as_str(),
                satellite.plane,
                satellite.slot,
            ),
            shell: 0,
            plane,
            slot,
        });
    }
    flown.catalogued = vec![None; orbits.len()];
    flown.orbits = sky::Orbits::Computed(orbits);
    Some(flown)
}

fn constellation_spec(
    constellation: &model::Constellation,
    satellites: Vec<Satellite>,
    neighbours: Neighbours,
    profiles: &mut Vec<Effects>,
) -> Constellation {
    let (isl, isl_class) = match &constellation.isl {
        // The class of nonexistent links is never read.
        model::Isl::None => (IslPattern::None, LinkClass::default()),
        model::Isl::PlusGrid(grid) => (
            IslPattern::PlusGrid(PlusGrid {
                neighbours,
                polar_cutoff_deg: grid.polar_cutoff.map_or(90.0, |angle| angle.deg()),
                max_range_m: grid.max_range.map_or(LINE_OF_SIGHT_M, |range| range.m()),
                clearance_m: grid.atmosphere.m(),
            }),
            class(&grid.link, profiles),
        ),
    };
    let gsl = constellation.gsl.as_ref();
    let lasers = match &constellation.isl {
        model::Isl::None => Lasers::default(),
        model::Isl::PlusGrid(grid) => lasers(grid),
    };
    Constellation {
        name: constellation.name.to_string(),
        class: match constellation.orbits {
            Orbits::Formation(_) => &SPACECRAFT,
            _ => &SATELLITE,
        },
        satellites,
        isl,
        isl_class,
        // Without links to the ground, the elevation mask and the class are never read.
        min_elevation_deg: gsl.map_or(90.0, |gsl| gsl.min_elevation.deg()),
        gsl_class: gsl.map_or_else(LinkClass::default, |gsl| class(&gsl.link, profiles)),
        gsl_steps: gsl.map_or_else(Vec::new, |gsl| {
            gsl.by_elevation.iter().map(elevation_step).collect()
        }),
        radio: gsl.and_then(|gsl| gsl.radio.clone()),
        access: gsl.and_then(|gsl| access::of_links(gsl, profiles)),
        bent_pipe: gsl.is_some_and(|gsl| gsl.bent_pipe),
        ground: ground_service(constellation),
        beams: gsl.and_then(|gsl| gsl.beams).and_then(NonZeroU32::new),
        capacity_bps: gsl
            .and_then(|gsl| gsl.capacity)
            .and_then(|rate| NonZeroU64::new(rate.bps())),
        gso_avoidance_deg: gsl.map_or(0.0, |gsl| gsl.gso_avoidance.deg()),
        lasers,
    }
}

fn lasers(grid: &model::PlusGrid) -> Lasers {
    Lasers {
        pairing: grid.pairing.clone(),
        max_slew_deg_per_s: grid.max_slew_per_second.map(|angle| angle.deg()),
        acquisition_ns: grid.acquisition.ns().unsigned_abs(),
    }
}

fn cross_shell(
    scenario: &Scenario,
    cross: &model::CrossShell,
    profiles: &mut Vec<Effects>,
) -> CrossShell {
    /// Pairs are chosen to last for the lab, but not longer than shells stay together anyway.
    const LONGEST_NS: u64 = 1_800_000_000_000;
    CrossShell {
        from: cross.from,
        to: cross.to,
        max_range_m: cross.max_range.m(),
        clearance_m: cross.atmosphere.m(),
        horizon_ns: scenario.duration.ns().unsigned_abs().min(LONGEST_NS),
        class: class(&cross.link, profiles),
        acquisition_ns: cross.acquisition.ns().unsigned_abs(),
    }
}

/// Converts an error of the layout to a diagnostic, at its place if the file has one.
fn in_layout(scenario: &Scenario, error: &SpecError) -> Diagnostic {
    let written = match error {
        SpecError::BadFailure { name, .. } => {
            let mut all = scenario.failures.iter();
            let own = all.find(|failure| failure.name.as_str() == name);
            own.and_then(|failure| failure.written.as_ref())
        }
        _ => None,
    };
    match written {
        Some(written) => written.error("layout", error.to_string()),
        None => whole_file(scenario, "layout", error.to_string()),
    }
}

/// Converts the failures.
///
/// # Errors
/// Members that the networks do not have.
fn failures(scenario: &Scenario, networks: &[Network]) -> Result<Vec<Failure>, Diagnostics> {
    let mut errors = Diagnostics::new();
    let all = scenario.failures.iter();
    let all = all.filter_map(|own| failure(own, networks, &mut errors));
    let all = all.collect();
    errors.or(all)
}

fn failure(
    failure: &model::Failure,
    networks: &[Network],
    errors: &mut Diagnostics,
) -> Option<Failure> {
    let what = match &failure.what {
        model::FailureTarget::Network(name, trouble) => {
            networks::trouble(name, trouble, networks, errors)?
        }
        model::FailureTarget::Nodes(nodes) => {
            FailureTarget::Nodes(nodes.iter().map(ToString::to_string).collect())
        }
        model::FailureTarget::Link(a, b) => FailureTarget::Link {
            a: a.to_string(),
            b: b.to_string(),
        },
        model::FailureTarget::Sky(target) => target.clone(),
    };
    Some(Failure {
        name: failure.name.to_string(),
        what,
        when: failure.when,
    })
}

/// Returns the shells with links to the ground, by their index in the element set.
fn ground_service(constellation: &model::Constellation) -> GroundService {
    if constellation.gsl.is_none() {
        return GroundService::Shells(BTreeSet::new());
    }
    match &constellation.orbits {
        Orbits::Walker(_) | Orbits::Ephemeris(_) | Orbits::Formation(_) => GroundService::All,
        Orbits::Tle(set) | Orbits::Omm(set) if set.shells.is_empty() => GroundService::All,
        Orbits::Tle(set) | Orbits::Omm(set) => GroundService::Shells(
            (0u16..)
                .zip(&set.shells)
                .filter_map(|(number, shell)| shell.serves_ground.then_some(number))
                .collect(),
        ),
    }
}

fn host_spec(host: &model::Host) -> Host {
    Host {
        name: host.name.to_string(),
        class: &HOST,
        latitude_deg: host.latitude.deg(),
        longitude_deg: host.longitude.deg(),
        altitude_m: host.altitude.m(),
        attach: host.attach.clone(),
    }
}

fn cable_spec(cable: &model::Cable, profiles: &mut Vec<Effects>) -> Cable {
    Cable {
        a: cable.from.to_string(),
        b: cable.to.to_string(),
        delay_ns: cable.delay.ns().unsigned_abs(),
        class: class(&cable.link, profiles),
    }
}
