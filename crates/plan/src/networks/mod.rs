//! Networks: converts the scenario's types to those of the topology, finds the members and reads the laws.

mod channel;
mod disruptions;
mod matrix;
mod over;
mod range;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use constel_link::{Effects, PortId};
use constel_scenario::model;
use constel_scenario::{Diagnostics, Scenario};
use constel_topology::{Law, LinkClass, Moment, NETWORK, Network, NetworkEdge};

pub(crate) use disruptions::make as trouble;
pub use matrix::{is_square, read_delays};

use crate::ground::class;
use crate::lab::Lab;

/// The largest number of edges of a network; in a file of delays for all times together.
const MOST_EDGES: usize = 1_100_000;

/// Converts the scenario's networks. `names` are those of all nodes.
///
/// # Errors
/// Members that are not nodes, networks with less than two members, nodes in too many networks, and all errors in
/// matrix files.
pub(crate) fn make(
    scenario: &Scenario,
    names: &BTreeSet<String>,
    profiles: &mut Vec<Effects>,
) -> Result<Vec<Network>, Diagnostics> {
    let mut errors = Diagnostics::new();
    let mut networks = Vec::new();
    let mut ports: BTreeMap<String, usize> = BTreeMap::new();
    for network in &scenario.networks {
        let members = members_of(network, names, &mut errors);
        for away in &network.away {
            if !members.iter().any(|member| away.glob.matches(member)) {
                let message = format!("no member is called `{}`", away.glob);
                let error = away.error("unknown-node", message);
                errors.push(error.with_allowed(members.iter().map(String::as_str)));
            }
        }
        for member in &members {
            let count = ports.entry(member.clone()).or_default();
            *count += 1;
            let most = NETWORK.ports.len();
            if *count == most + 1 {
                let message = format!("`{member}` is in more than {most} networks");
                errors.push(network.members[0].error("out-of-range", message));
            }
        }
        has_not_too_many(network, members.len(), &mut errors);
        let (mtu_bytes, law): (u32, Option<Arc<dyn Law>>) = match &network.medium {
            model::Medium::Switched => (1500, Some(Arc::new(Switched))),
            model::Medium::Links { law, link } | model::Medium::Shared { law, link, .. } => {
                let class = class(link, profiles);
                (
                    class.mtu_bytes,
                    law_of(
                        scenario,
                        network,
                        law,
                        (class, &link.effects),
                        &members,
                        &mut errors,
                    ),
                )
            }
        };
        networks.extend(law.map(|law| Network {
            name: network.name.to_string(),
            ports: &NETWORK,
            members,
            mtu_bytes,
            law,
        }));
    }
    errors.or(networks)
}

/// Checks the number of edges that a network can have. A file of delays counts its own.
fn has_not_too_many(network: &model::Network, members: usize, errors: &mut Diagnostics) {
    let from_file = match &network.medium {
        model::Medium::Switched => false,
        model::Medium::Links { law, .. } | model::Medium::Shared { law, .. } => {
            matches!(law, model::Law::Matrix(_))
        }
    };
    let edges = members * members.saturating_sub(1);
    if from_file || edges <= MOST_EDGES {
        return;
    }
    let message = format!(
        "network `{}` has {members} members, between which {edges} edges are possible: more than {MOST_EDGES}",
        network.name
    );
    // The largest n with n (n - 1) edges.
    let most = (0.5 + (0.25 + MOST_EDGES as f64).sqrt()) as usize;
    let error = network.members[0].error("out-of-range", message);
    let error = error.with_allowed([format!("2 to {most} members")]);
    errors.push(error.with_next(
        "several smaller networks, or a table of the edges that exist (`law: {matrix: FILE}`)",
    ));
}

fn law_of(
    scenario: &Scenario,
    network: &model::Network,
    law: &model::Law,
    (class, effects): (LinkClass, &Effects),
    members: &[String],
    errors: &mut Diagnostics,
) -> Option<Arc<dyn Law>> {
    Some(match law {
        model::Law::Over(constellation) => {
            let names: BTreeSet<&str> = members.iter().map(String::as_str).collect();
            let beneath = scenario.beneath(constellation, &names)?;
            for name in &names {
                if !beneath.stations.iter().any(|s| s.name.as_str() == *name) {
                    let message = format!("`{name}` is not on the ground");
                    let error = network.members[0].error("no-effect", message);
                    errors.push(
                        error.with_reason("paths over a constellation join nodes on the ground"),
                    );
                }
            }
            match Lab::new(beneath) {
                Ok(beneath) => Arc::new(over::Over::new(&beneath, members, class)),
                Err(wrong) => {
                    errors.extend(wrong);
                    return None;
                }
            }
        }
        model::Law::Matrix(file) => {
            Arc::new(matrix::read(file, (class, effects), members, errors)?)
        }
        model::Law::Range {
            most,
            atmosphere,
            steps,
            radio,
        } => Arc::new(range::Range {
            radio: radio.clone(),
            most_m: most.m(),
            atmosphere_m: atmosphere.m(),
            class,
            steps: steps.iter().map(range::Step::of).collect(),
        }),
    })
}

impl Lab {
    /// Returns the ports of members that are not in their networks when the lab starts, with the networks' indices.
    #[must_use]
    pub fn away(&self) -> Vec<(usize, PortId)> {
        let networks = (0..).zip(&self.scenario.networks);
        let away = networks.flat_map(|(place, network)| {
            let ports = self.layout.network_ports(place).iter();
            ports.filter_map(move |port| {
                let name = &self.layout.node(self.layout.port(*port).node).name;
                let away = network.away.iter().any(|a| a.glob.matches(name));
                away.then_some((place, *port))
            })
        });
        away.collect()
    }
}

/// Returns the nodes that match the patterns, each once, in the order of the patterns and then of names.
fn members_of(
    network: &model::Network,
    names: &BTreeSet<String>,
    errors: &mut Diagnostics,
) -> Vec<String> {
    let mut members = Vec::new();
    let mut known = BTreeSet::new();
    for pattern in &network.members {
        let mut found = names
            .iter()
            .filter(|name| pattern.glob.matches(name))
            .peekable();
        if found.peek().is_none() {
            errors.push(pattern.no_node());
        }
        members.extend(found.filter(|name| known.insert(*name)).cloned());
    }
    if members.len() == 1 {
        let message = format!("network `{}` has one member only", network.name);
        errors.push(network.members[0].error("no-effect", message));
    }
    members
}

/// The law of a switch: every member reaches every other without delay.
#[derive(Debug)]
struct Switched;

impl Law for Switched {
    fn edges(&self, moment: &Moment<'_>, edges: &mut Vec<NetworkEdge>) {
        let members = moment.now_itrf_m.len();
        for from in 0..members {
            let others = (0..members).filter(|to| *to != from);
            edges.extend(others.map(|to| NetworkEdge {
                from,
                to,
                delay_ns: 0,
                later_delay_ns: 0,
                class: LinkClass::default(),
            }));
        }
    }
}
