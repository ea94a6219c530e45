//! Compose's networks: each is a switched network of the scenario, a bridge without limits as Docker's are.

use std::collections::{BTreeMap, BTreeSet};

use constel_scenario::model::Name;
use constel_scenario::yaml::Node;

use super::Project;
use super::tree::is_nothing;
use crate::draft::{Draft, Host, Network, fit_name};
use crate::text::shown;

/// The network of services that name none.
const DEFAULT: &str = "default";

/// The networks of a file, and their members.
#[derive(Default)]
pub(super) struct Networks {
    declared: BTreeSet<String>,
    members: BTreeMap<String, Vec<String>>,
}

/// The networks that a service is in.
#[derive(Debug, Clone, Default)]
pub(super) struct Memberships(Vec<String>);

impl Networks {
    /// Returns the networks that the file declares.
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
                    "driver" | "driver_opts" => "a network is a switch without limits",
                    "external" => "a lab joins nothing outside of it",
                    "internal" => "no network of a lab leads out of it",
                    "labels" => "networks have none",
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

    /// Creates the scenario's networks.
    pub(super) fn lay(self, draft: &mut Draft, hosts: &mut BTreeSet<String>) {
        // As for services: a valid name is its own network's.
        let valid = |name: &&String| name.parse::<Name>().is_ok();
        let mut names: BTreeSet<String> = self.members.keys().filter(valid).cloned().collect();
        let mut several: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values().flatten() {
            *several.entry(member).or_default() += 1;
        }
        if several.values().any(|networks| *networks > 1) {
            draft.note("nodes of several networks forward between them, which Compose's do not: everybody reaches everybody");
        }
        let joined = self.members.values().filter(|members| members.len() > 1);
        let mut joined: BTreeSet<String> = joined.flatten().cloned().collect();
        for (network, mut members) in self.members {
            // A network has two members at least.
            if let [only] = members.as_slice() {
                let shown = shown(&network);
                if !joined.insert(only.clone()) {
                    draft.note(format!(
                        "the network `{shown}` has no member but `{only}`, which is in others: it is left out"
                    ));
                    continue;
                }
                let added = fit_name(&network, "network", hosts);
                draft.note(format!(
                    "the network `{shown}` has no member but `{only}`: the host `{added}` was added to it"
                ));
                draft.hosts.push(Host {
                    name: added.clone(),
                    software: None,
                });
                members.push(added);
            }
            let name = match network.parse::<Name>() {
                Ok(_) => network,
                Err(reason) => {
                    let name = fit_name(&network, "network", &mut names);
                    let shown = shown(&network);
                    draft.note(format!(
                        "the network `{shown}` is called `{name}`: {reason}"
                    ));
                    name
                }
            };
            draft.networks.push(Network { name, members });
        }
    }
}

impl Memberships {
    /// Returns the networks that a service names; services that name none share the default network.
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
                    _ => "members have no such thing",
                };
                draft.note(format!(
                    "`{service}.networks.{network}.{key}` was not carried over: {reason}"
                ));
            }
        }
        Self(unique(entries.into_iter().map(|entry| entry.key.clone())))
    }

    /// Whether it is of no network.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the networks that the file does not declare.
    pub(super) fn unknown<'a>(&'a self, declared: &'a Networks) -> impl Iterator<Item = &'a str> {
        let names = self.0.iter().map(String::as_str);
        names.filter(|name| !declared.declared.contains(*name))
    }
}

fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(name.clone())).collect()
}
