//! Hosts, cables and the autonomous systems that they form.

use std::collections::{BTreeMap, BTreeSet};

use super::inputs::Inputs;
use super::link::{check_jitter, link_of};
use super::nodes::{Kind, Nodes};
use crate::diagnostic::Diagnostics;
use crate::glob::Glob;
use crate::model::{Cable, Host};
use crate::parse::Parsed;
use crate::raw::Name;
use crate::walk::Seg::{self, Index, Key};

/// Most cables of one node.
const MOST_CABLES: usize = 16;

pub(super) fn resolve(
    parsed: &Parsed,
    inputs: &mut Inputs<'_>,
    nodes: &Nodes<'_>,
    errors: &mut Diagnostics,
) -> (Vec<Host>, Vec<Cable>) {
    let raw = &parsed.raw.ground;
    let mut counts: BTreeMap<&Name, usize> = BTreeMap::new();
    let mut pairs = BTreeSet::new();
    for (index, cable) in raw.cables.iter().enumerate() {
        let path = |end| [Key("ground"), Key("cables"), Index(index), Key(end)];
        for (key, end) in [("from", &cable.from), ("to", &cable.to)] {
            on_the_ground(parsed, nodes, &path(key), end, errors);
            let count = counts.entry(end).or_insert(0);
            *count += 1;
            if *count == MOST_CABLES + 1 {
                let message = format!("`{end}` has more than {MOST_CABLES} cables");
                errors.push(parsed.error_at(&path(key), "out-of-range", message));
            }
        }
        let (a, b) = (&cable.from, &cable.to);
        if a == b {
            let message = format!("`{a}` is both ends of the cable");
            errors.push(parsed.error_at(&path("to"), "same-node", message));
        } else if !pairs.insert((a.min(b), a.max(b))) {
            let message = format!("`{a}` and `{b}` have a cable already");
            errors.push(parsed.error_at(&path("to"), "duplicate-name", message));
        }
    }
    let networks = parsed.raw.networks.values();
    let members: Vec<Glob> = networks
        .flat_map(|network| &network.members)
        .map(|member| Glob::new(member))
        .collect();
    let joined = |name: &Name| members.iter().any(|glob| glob.matches(name.as_str()));
    let hosts = raw.hosts.keys();
    for name in hosts.filter(|name| !counts.contains_key(name) && !joined(name)) {
        let path = [Key("ground"), Key("hosts"), Key(name.as_str())];
        let error = parsed
            .error_at_key(
                &path,
                "unconnected",
                format!("host `{name}` has no cable and is in no network"),
            )
            .with_reason("nothing could ever reach it")
            .with_suggestion("add one to `ground.cables`, or the host to a network");
        errors.push(error);
    }
    let host = |(name, raw): (&Name, &crate::raw::RawHost)| Host {
        name: name.clone(),
        latitude: raw.latitude,
        longitude: raw.longitude,
        altitude: raw.altitude,
        attach: raw.attach.clone(),
    };
    let mut cable = |(index, raw): (usize, &crate::raw::RawCable)| {
        let path = [Key("ground"), Key("cables"), Index(index), Key("link")];
        let link = link_of(parsed, &path, &raw.link, inputs, errors);
        if raw.link.delay_trace.is_none() {
            // At most some days.
            let delay = raw.delay + link.extra_delay;
            check_jitter(parsed, &path, (link.effects.jitter.as_ref(), delay), errors);
        }
        Cable {
            from: raw.from.clone(),
            to: raw.to.clone(),
            delay: raw.delay,
            link,
        }
    };
    (
        raw.hosts.iter().map(host).collect(),
        raw.cables.iter().enumerate().map(&mut cable).collect(),
    )
}

/// Cables end at stations and hosts.
fn on_the_ground(
    parsed: &Parsed,
    nodes: &Nodes<'_>,
    path: &[Seg<'_>],
    name: &Name,
    errors: &mut Diagnostics,
) {
    let kind = nodes.kind(name);
    if matches!(kind, Kind::Station | Kind::Host | Kind::Unclear) {
        return;
    }
    let (suggestion, allowed) = nodes.help(name.as_str());
    let message = format!("no station or host is called `{name}`");
    let mut error = parsed
        .error_at(path, "unknown-node", message)
        .with_allowed(allowed);
    error.suggestion = suggestion;
    errors.push(error);
}

/// Autonomous systems share no number and no node, and one has all the rest.
pub(super) fn check_systems(parsed: &Parsed, nodes: &Nodes<'_>, errors: &mut Diagnostics) {
    let Some(systems) = &parsed.raw.routing.systems else {
        return;
    };
    let under = |name: &'static str| [Key("routing"), Key(name)];
    let rest = systems.values().filter(|s| s.nodes.is_none()).count();
    if rest != 1 || systems.len() < 2 {
        let message = format!("{} systems, {rest} of them without `nodes`", systems.len());
        let error = parsed
            .error_at_key(&under("systems"), "choose-one", message)
            .with_reason("there are at least two; exactly one has no `nodes`: the rest is its own");
        errors.push(error);
    }
    let (mut numbers, mut owned) = (BTreeSet::new(), BTreeSet::new());
    for (name, system) in systems {
        let path = [Key("routing"), Key("systems"), Key(name.as_str())];
        if !numbers.insert(system.asn) {
            let at = [path[0], path[1], path[2], Key("asn")];
            let message = format!("another system has the number {}", system.asn);
            errors.push(parsed.error_at(&at, "duplicate-name", message));
        }
        for (index, node) in system.nodes.iter().flatten().enumerate() {
            let at = [path[0], path[1], path[2], Key("nodes"), Index(index)];
            if !matches!(nodes.kind(node), Kind::Station | Kind::Host | Kind::Unclear) {
                let ground = &parsed.raw.ground;
                let known = ground.hosts.keys().chain(ground.stations.keys());
                let error = parsed
                    .error_at(
                        &at,
                        "unknown-node",
                        format!("no station or host is called `{node}`"),
                    )
                    .with_reason("satellites belong to the system without `nodes`")
                    .with_nearest(node.as_str(), known.map(Name::as_str));
                errors.push(error);
            } else if !owned.insert(node) {
                let message = format!("`{node}` is in two systems");
                errors.push(parsed.error_at(&at, "duplicate-name", message));
            }
        }
        for (index, node) in system.reflectors.iter().enumerate() {
            let at = [path[0], path[1], path[2], Key("reflectors"), Index(index)];
            let listed = system.nodes.as_ref().map(|own| own.contains(node));
            let kind = nodes.kind(node);
            let elsewhere = || {
                systems
                    .values()
                    .flat_map(|other| other.nodes.iter().flatten())
            };
            let rest =
                || matches!(kind, Kind::Station | Kind::Host) && !elsewhere().any(|n| n == node);
            let good = listed.unwrap_or_else(rest);
            if !good && kind != Kind::Unclear {
                let message = format!("`{node}` is no station or host of this system");
                errors.push(parsed.error_at(&at, "unknown-node", message));
            }
        }
    }
}
