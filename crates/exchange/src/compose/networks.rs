//! Compose's networks as cables: of two members one between them, of more one from each to a router.

use std::collections::{BTreeMap, BTreeSet};

use constel_scenario::yaml::Node;

use super::Project;
use super::tree::is_nothing;
use crate::draft::{Cable, Draft, Host, fit_name};
use crate::text::shown;

/// Cables that a router has to members; two more are to the routers before and behind it, and 16 are a host's most.
const OF_A_ROUTER: usize = 14;

/// The network that services are in which name none.
const DEFAULT: &str = "default";

/// The networks of a file, and who is in them.
#[derive(Default)]
pub(super) struct Networks {
    declared: BTreeSet<String>,
    members: BTreeMap<String, Vec<String>>,
}

/// Of which networks a service is.
#[derive(Debug, Clone, Default)]
pub(super) struct Memberships(Vec<String>);

impl Networks {
    /// Those that the file has.
    pub(super) fn declared(
        project: &mut Project<'_>,
        draft: &mut Draft,
        said: Option<&Node>,
    ) -> Self {
        let mut networks = Self::default();
        networks.declared.insert(DEFAULT.to_owned());
        let Some(said) = said else {
            return networks;
        };
        for entry in project.reader.map(said, "`networks`").entries {
            networks.declared.insert(entry.key.clone());
            if is_nothing(&entry.value) {
                continue;
            }
            let name = shown(&entry.key);
            let what = format!("the network `{name}`");
            for key in project.reader.map(&entry.value, &what).entries {
                let key = shown(&key.key);
                if key.starts_with("x-") || key == "name" {
                    continue;
                }
                let reason = match key.as_str() {
                    "ipam" => "Constel gives addresses, see `addresses`",
                    "driver" | "driver_opts" => "networks are cables",
                    "external" => "a lab joins nothing outside of it",
                    "internal" => "no network of a lab leads out of it",
                    "labels" => "cables have none",
                    "enable_ipv6" | "enable_ipv4" => "see `routing.families`",
                    _ => "a lab has no such thing",
                };
                draft.note(format!(
                    "`networks.{name}.{key}` was not carried over: {reason}"
                ));
            }
        }
        networks
    }

    /// Adds a node to networks.
    pub(super) fn join(&mut self, node: &str, of: &Memberships) {
        for network in &of.0 {
            let members = self.members.entry(network.clone()).or_default();
            members.push(node.to_owned());
        }
    }

    /// Makes the cables, and the routers that they need.
    pub(super) fn lay(self, draft: &mut Draft, names: &mut BTreeSet<String>) {
        let mut joined: BTreeSet<(String, String)> = BTreeSet::new();
        let mut several: BTreeMap<String, usize> = BTreeMap::new();
        for member in self.members.values().flatten() {
            *several.entry(member.clone()).or_default() += 1;
        }
        for (network, members) in self.members {
            let shown = shown(&network);
            match members.as_slice() {
                [] => {}
                // Without any cable it would be no node.
                [only] if several[only] > 1 => draft.note(format!(
                    "the network `{shown}` has no member but `{only}`: it has no cable"
                )),
                [a, b] if !joined.insert((a.clone(), b.clone())) => draft.note(format!(
                    "the network `{shown}` joins `{a}` and `{b}` once more: they have one cable"
                )),
                [a, b] => cable(draft, a, b),
                _ => {
                    let routers = routers(draft, names, &network, &members);
                    draft.note(format!(
                        "the network `{shown}` (nodes: {}) is the router {}, with a cable to each",
                        members.len(),
                        routers.join(", ")
                    ));
                }
            }
        }
        if several.values().any(|networks| *networks > 1) {
            draft.note("nodes of several networks forward between them, which Compose's do not: everybody reaches everybody");
        }
    }
}

fn cable(draft: &mut Draft, from: &str, to: &str) {
    draft.cables.push(Cable {
        from: from.to_owned(),
        to: to.to_owned(),
    });
}

/// As many routers as it takes, in a row.
fn routers(
    draft: &mut Draft,
    names: &mut BTreeSet<String>,
    network: &str,
    members: &[String],
) -> Vec<String> {
    let mut routers: Vec<String> = Vec::new();
    for group in members.chunks(OF_A_ROUTER) {
        let name = fit_name(network, "network", names);
        draft.hosts.push(Host {
            name: name.clone(),
            software: None,
        });
        if let Some(before) = routers.last() {
            cable(draft, before, &name);
        }
        for member in group {
            cable(draft, member, &name);
        }
        routers.push(name);
    }
    routers
}

impl Memberships {
    /// What a service says; all that say nothing are in the network of those.
    pub(super) fn read(
        project: &mut Project<'_>,
        draft: &mut Draft,
        service: &str,
        said: Option<&Node>,
    ) -> Self {
        use constel_scenario::yaml::Value;
        let Some(said) = said.filter(|said| !is_nothing(said)) else {
            return Self(vec![DEFAULT.to_owned()]);
        };
        let what = format!("`{service}.networks`");
        if let Value::Sequence(list) = &said.value {
            let names = list.iter();
            let names = names.filter_map(|node| project.reader.text(node, &what));
            return Self(unique(names));
        }
        let entries = project.reader.map(said, &what).entries;
        for entry in &entries {
            let network = shown(&entry.key);
            for own in project.reader.map(&entry.value, &what).entries {
                let key = shown(&own.key);
                let reason = match key.as_str() {
                    "aliases" => "a node has its own name alone",
                    "ipv4_address" | "ipv6_address" | "link_local_ips" => {
                        "Constel gives addresses, see `addresses`"
                    }
                    _ => "cables have no such thing",
                };
                draft.note(format!(
                    "`{service}.networks.{network}.{key}` was not carried over: {reason}"
                ));
            }
        }
        Self(unique(entries.into_iter().map(|entry| entry.key.clone())))
    }

    /// Those that the file does not have.
    pub(super) fn unknown<'a>(&'a self, declared: &'a Networks) -> impl Iterator<Item = &'a str> {
        let names = self.0.iter().map(String::as_str);
        names.filter(|name| !declared.declared.contains(*name))
    }
}

fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(name.clone())).collect()
}
