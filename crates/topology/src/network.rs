//! Networks: named sets of ports on one medium, with a law for the edges between them.

use crate::check::Checker;
use crate::class::{Access, CABLE, EdgeClass, GSL, ISL};
use crate::error::SpecError;
use crate::failures::Broken;
use crate::layout::Layout;
use crate::spec::{LinkClass, Spec};
use constel_orbit::DVec3;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

/// A named set of ports and the law of the edges between them. Each member has one port of its own in it.
#[derive(Debug, Clone)]
pub struct Network {
    /// Unique in the lab.
    pub name: String,
    /// What its ports and edges are.
    pub ports: &'static EdgeClass,
    /// Names of its nodes, of any kind.
    pub members: Vec<String>,
    /// Which edges there are, and when.
    pub law: Arc<dyn Law>,
}

impl PartialEq for Network {
    /// Laws are equal when they are one.
    fn eq(&self, other: &Network) -> bool {
        self.name == other.name
            && self.ports == other.ports
            && self.members == other.members
            && Arc::ptr_eq(&self.law, &other.law)
    }
}

/// Which edges a network has: a pure function of the moment.
pub trait Law: Debug + Send + Sync {
    /// Adds the network's edges to `edges`, each direction by itself, at most one between two members. Edges from or
    /// to members that are broken need not be left out.
    fn edges(&self, moment: &Moment<'_>, edges: &mut Vec<NetworkEdge>);
}

/// What a law may look at.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// Start of the step, nanoseconds after the start of the lab.
    pub t_ns: u64,
    /// Length of the step, nanoseconds.
    pub step_ns: u64,
    /// ITRF positions of the members at the start of the step, metres, in their order; NaN where there is none.
    pub now_itrf_m: &'a [DVec3],
    /// The same at its end.
    pub later_itrf_m: &'a [DVec3],
}

/// An edge from one member to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NetworkEdge {
    /// Place of the sender in the network's members.
    pub from: usize,
    /// Place of the receiver, another one.
    pub to: usize,
    /// One-way delay at the start of the step, ns.
    pub delay_ns: u64,
    /// The same at its end; the delay glides in between.
    pub later_delay_ns: u64,
    /// Rate, queue and loss. Its extra delay is added.
    pub class: LinkClass,
}

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
