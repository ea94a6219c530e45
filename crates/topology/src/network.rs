//! The edges that networks have in a step, and whether networks can be made.

use crate::check::Checker;
use crate::class::{Access, CABLE, GSL, ISL};
use crate::error::SpecError;
use crate::failures::Broken;
use crate::layout::Layout;
use crate::spec::{Moment, Network, NetworkEdge, Spec};
use constel_orbit::DVec3;
use std::collections::{BTreeMap, BTreeSet};

/// A step as the stepper sees it.
pub(crate) struct Step<'a> {
    pub(crate) t_ns: u64,
    pub(crate) step_ns: u64,
    /// Of all nodes.
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
        edges
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
