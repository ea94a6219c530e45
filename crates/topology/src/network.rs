//! The edges of networks in a step, and checks of networks.

use crate::check::Checker;
use crate::class::{Access, CABLE, GSL, ISL};
use crate::error::SpecError;
use crate::failures::Broken;
use crate::layout::Layout;
use crate::snapshot::Snapshot;
use crate::spec::{Centre, Disruption, FailureTarget, Moment, Network, NetworkEdge, Spec};
use constel_link::PortId;
use constel_orbit::DVec3;
use std::collections::{BTreeMap, BTreeSet};

/// A step as the stepper sees it.
pub(crate) struct Step<'a> {
    pub(crate) t_ns: u64,
    pub(crate) step_ns: u64,
    /// Positions of all nodes.
    pub(crate) now: &'a [DVec3],
    pub(crate) later: &'a [DVec3],
    pub(crate) broken: &'a Broken,
}

impl Network {
    /// The edges of a step between members that work.
    pub(crate) fn edges(&self, layout: &Layout, place: usize, step: &Step<'_>) -> Vec<NetworkEdge> {
        let ports = layout.network_ports(place);
        let node = |member: usize| layout.port(ports[member]).node;
        let at = |positions: &[DVec3]| -> Vec<DVec3> {
            let members = 0..ports.len();
            members.map(|m| positions[node(m).index()]).collect()
        };
        let mut edges = Vec::new();
        let moment = Moment {
            t_ns: step.t_ns,
            step_ns: step.step_ns,
            now_itrf_m: &at(step.now),
            later_itrf_m: &at(step.later),
        };
        self.law.edges(&moment, &mut edges);
        let works = |member: usize| step.broken.node(node(member)).is_none();
        edges.retain(|edge| works(edge.from) && works(edge.to));
        for failure in &step.broken.networks {
            let failure = &layout.spec().failures[usize::from(*failure)];
            if let FailureTarget::Network { network, trouble } = &failure.what
                && *network == place
            {
                let centre = |centre: &Centre| match centre {
                    Centre::Place(at_m) => Some(*at_m),
                    Centre::Node(name) => layout.find(name).map(|node| step.now[node.id.index()]),
                };
                trouble.befall(&mut edges, moment.now_itrf_m, centre);
            }
        }
        edges
    }
}

/// Returns the active failure that removes an edge of a network, if there is one.
pub(crate) fn cut_by(
    layout: &Layout,
    snapshot: &Snapshot,
    from: PortId,
    to: PortId,
) -> Option<u16> {
    let networks = (0..).zip(&layout.spec().networks);
    let place_of = |port: PortId, ports: &[PortId]| ports.iter().position(|p| *p == port);
    let (place, from, to) = networks.into_iter().find_map(|(place, _)| {
        let ports = layout.network_ports(place);
        Some((place, place_of(from, ports)?, place_of(to, ports)?))
    })?;
    let with = |failures: &[u16]| {
        let broken = Broken {
            networks: failures.to_vec(),
            ..Broken::default()
        };
        let step = Step {
            t_ns: snapshot.t_ns,
            step_ns: layout.spec().step_ns,
            now: &snapshot.positions_itrf_m,
            later: &snapshot.positions_itrf_m,
            broken: &broken,
        };
        let edges = layout.spec().networks[place].edges(layout, place, &step);
        edges.iter().any(|edge| (edge.from, edge.to) == (from, to))
    };
    let failures = snapshot.broken.networks.iter();
    let mut cuts = failures.copied().filter(|failure| !with(&[*failure]));
    with(&[]).then(|| cuts.next()).flatten()
}

impl Disruption {
    /// Removes or worsens edges by a failure. Members are at `at_m`.
    fn befall(
        &self,
        edges: &mut Vec<NetworkEdge>,
        at_m: &[DVec3],
        centre: impl Fn(&Centre) -> Option<DVec3>,
    ) {
        match self {
            Disruption::Partition(groups) => {
                let group = |member: &usize| groups.iter().position(|group| group.contains(member));
                edges.retain(|edge| group(&edge.from) == group(&edge.to));
            }
            Disruption::Jamming {
                centre: of,
                radius_m,
                loss_ratio,
            } => {
                // A node without a position is not near the centre.
                let Some(centre) = centre(of) else { return };
                let hit = |edge: &NetworkEdge| at_m[edge.to].distance(centre) <= *radius_m;
                worsen(edges, hit, *loss_ratio, 0);
            }
            Disruption::Disturbance {
                from,
                to,
                loss_ratio,
                extra_delay_ns,
            } => {
                let hit = |edge: &NetworkEdge| from.contains(&edge.from) && to.contains(&edge.to);
                worsen(edges, hit, *loss_ratio, *extra_delay_ns);
            }
        }
    }
}

/// Adds loss and delay to some edges; an edge that would lose all frames is removed.
fn worsen(
    edges: &mut Vec<NetworkEdge>,
    hit: impl Fn(&NetworkEdge) -> bool,
    loss_ratio: f64,
    extra_delay_ns: u64,
) {
    if loss_ratio >= 1.0 {
        edges.retain(|edge| !hit(edge));
        return;
    }
    for edge in edges.iter_mut().filter(|edge| hit(edge)) {
        let class = &mut edge.class;
        class.loss_ratio = 1.0 - (1.0 - class.loss_ratio) * (1.0 - loss_ratio);
        edge.delay_ns += extra_delay_ns;
        edge.later_delay_ns += extra_delay_ns;
    }
}

impl Checker {
    /// Kinds of nodes stand where they can.
    pub(crate) fn classes(&mut self, spec: &Spec) {
        for k in &spec.constellations {
            if !k.class.flies || k.class.access == Access::Chooses {
                self.errors.push(SpecError::BadClass {
                    name: k.name.clone(),
                    class: k.class.name,
                    reason: "members of a constellation fly and serve the ground, or have no radio for it",
                });
            }
        }
        for host in &spec.hosts {
            if host.class.flies || host.class.access != Access::None {
                self.errors.push(SpecError::BadClass {
                    name: host.name.clone(),
                    class: host.class.name,
                    reason: "hosts are on the Earth and have no radio to the sky",
                });
            }
        }
    }

    /// Networks have members that exist, each once, and no node has more ports than its kind has names for.
    pub(crate) fn networks(&mut self, spec: &Spec, nodes: &BTreeSet<&str>) {
        let mut names = BTreeSet::new();
        let mut used: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for network in &spec.networks {
            let mut bad = |reason: String| {
                self.errors.push(SpecError::BadNetwork {
                    name: network.name.clone(),
                    reason,
                });
            };
            if !names.insert(&network.name) {
                bad("there is one of that name already".to_owned());
            }
            if [&ISL, &GSL, &CABLE].contains(&network.ports) {
                let class = network.ports.name;
                bad(format!(
                    "ports of kind `{class}` are made for lasers, radios and cables only"
                ));
            }
            let mut members = BTreeSet::new();
            for member in &network.members {
                if !nodes.contains(member.as_str()) {
                    bad(format!("`{member}` is no node"));
                } else if !members.insert(member) {
                    bad(format!("`{member}` is a member twice"));
                }
                let count = used.entry((member, network.ports.name)).or_default();
                *count += 1;
                let most = network.ports.ports.len();
                if *count == most + 1 {
                    bad(format!("`{member}` has more than {most} such ports"));
                }
            }
        }
    }
}
