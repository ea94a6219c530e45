//! `transport.leotp.gateways`: two nodes, and the hosts behind each.

use std::collections::{BTreeMap, BTreeSet};

use super::nodes::{Kind, Nodes};
use crate::diagnostic::Diagnostics;
use crate::glob::Glob;
use crate::model::{Action, Flow, Gateway, TransferProtocol};
use crate::parse::Parsed;
use crate::raw::Name;
use crate::walk::Seg::{self, Index, Key};

/// UDP ports that a gateway has for itself: LEOTP's, and the one for messages between gateways, just below.
const PORTS: [u16; 2] = [
    leotp_core::wire::DEFAULT_PORT - 1,
    leotp_core::wire::DEFAULT_PORT,
];

/// Returns both gateways, unless there are errors.
pub(super) fn resolve(
    parsed: &Parsed,
    nodes: &Nodes<'_>,
    traffic: &[Flow],
    raw: &[Name],
    errors: &mut Diagnostics,
) -> Option<[Gateway; 2]> {
    let [a, b] = raw else {
        // The schema requires two.
        return None;
    };
    let path = |index| {
        [
            Key("transport"),
            Key("leotp"),
            Key("gateways"),
            Index(index),
        ]
    };
    if a == b {
        let message = format!("`{a}` is both gateways");
        let error = parsed.error_at(&path(1), "same-node", message);
        errors.push(error.with_reason("nothing would cross the network between them"));
        return None;
    }
    let mut checker = Checker {
        parsed,
        nodes,
        traffic,
        errors,
    };
    // Both gateways are checked, also when one is wrong: all errors are reported at once.
    let can = [(0, a), (1, b)].map(|(index, name)| checker.can_be(&path(index), name));
    if can.contains(&false) {
        return None;
    }
    let cables = Cables::of(parsed, nodes);
    let of = [(a, b), (b, a)].map(|(own, other)| Gateway {
        node: own.clone(),
        behind: cables.behind(own, other),
    });
    for (index, gateway) in of.iter().enumerate() {
        if gateway.behind.is_empty() {
            let message = format!("nothing is behind the gateway `{}`", gateway.node);
            let error = parsed.error_at(&path(index), "no-effect", message);
            let error = error.with_reason(
                "it takes the connections of hosts whose only path to other nodes is a cable to it",
            );
            errors.push(error.with_suggestion(format!(
                "add a host to `ground.hosts` and a cable from it to `{}`",
                gateway.node
            )));
        }
    }
    Some(of)
}

struct Checker<'a> {
    parsed: &'a Parsed,
    nodes: &'a Nodes<'a>,
    traffic: &'a [Flow],
    errors: &'a mut Diagnostics,
}

impl Checker<'_> {
    /// Whether a gateway can be at a node of that name.
    fn can_be(&mut self, path: &[Seg<'_>; 4], name: &Name) -> bool {
        match self.nodes.kind(name) {
            Kind::Station | Kind::Host => {}
            // Something is wrong elsewhere.
            Kind::Unclear => return false,
            Kind::Satellite | Kind::Spacecraft => {
                let message = format!("`{name}` cannot be a gateway");
                let error = self.parsed.error_at(path, "bad-value", message);
                let error = error.with_reason(
                    "applications are behind a gateway, on cables, which only stations and hosts have",
                );
                self.errors.push(error.with_suggestion(
                    "name a station; satellites help as Midnodes: `satellites: 100 %`",
                ));
                return false;
            }
            Kind::Deferred | Kind::Unknown => {
                let (suggestion, allowed) = self.nodes.help(name.as_str());
                let message = format!("no station or host is called `{name}`");
                let error = self.parsed.error_at(path, "unknown-node", message);
                let mut error = error.with_allowed(allowed);
                error.suggestion = suggestion;
                self.errors.push(error);
                return false;
            }
        }
        let attached = self.parsed.raw.ground.hosts.get(name);
        if attached.is_some_and(|host| host.attach.is_some()) {
            let message = format!("`{name}` is behind an interface of the machine");
            let error = self.parsed.error_at(path, "disagreement", message);
            let error = error.with_reason("no program can be started there");
            self.errors
                .push(error.with_suggestion("name the station that its cable leads to"));
            return false;
        }
        self.check_ports(path, name);
        true
    }

    /// No flow's server has the ports that the gateway listens at.
    fn check_ports(&mut self, path: &[Seg<'_>; 4], name: &Name) {
        let taken = |flow: &&Flow| match &flow.action {
            Action::Transfer(transfer) => {
                !matches!(transfer.over, TransferProtocol::Tcp { .. })
                    && transfer.from == *name
                    && PORTS.contains(&transfer.port)
            }
            _ => false,
        };
        let Some(flow) = self.traffic.iter().find(taken) else {
            return;
        };
        let message = format!(
            "the server of flow `{}` has a port of the gateway `{name}`",
            flow.name
        );
        let error = self.parsed.error_at(path, "disagreement", message);
        let error = error.with_reason(format!(
            "a gateway has UDP ports {} and {}",
            PORTS[0], PORTS[1]
        ));
        self.errors.push(
            error.with_suggestion("give the flow another `port`, or a host behind it as its end"),
        );
    }
}

/// The cables between nodes, and the nodes that have other links besides.
struct Cables<'a> {
    of: BTreeMap<&'a Name, BTreeSet<&'a Name>>,
    elsewhere: BTreeSet<&'a Name>,
}

impl<'a> Cables<'a> {
    fn of(parsed: &'a Parsed, nodes: &Nodes<'_>) -> Self {
        let mut of: BTreeMap<&Name, BTreeSet<&Name>> = BTreeMap::new();
        for cable in &parsed.raw.ground.cables {
            for (near, far) in [(&cable.from, &cable.to), (&cable.to, &cable.from)] {
                of.entry(near).or_default().insert(far);
            }
        }
        let networks = parsed.raw.networks.values();
        let members: Vec<Glob> = networks
            .flat_map(|network| &network.members)
            .map(|member| Glob::new(member))
            .collect();
        let elsewhere = |name: &&Name| {
            let joined = members.iter().any(|glob| glob.matches(name.as_str()));
            joined || nodes.kind(name) != Kind::Host
        };
        let elsewhere = of.keys().copied().filter(elsewhere).collect();
        Self { of, elsewhere }
    }

    /// Returns the hosts that reach all other nodes over `own` alone, by name; `other` is not behind it either.
    fn behind(&self, own: &'a Name, other: &'a Name) -> Vec<Name> {
        let mut seen = BTreeSet::from([own]);
        let mut behind: Vec<Name> = Vec::new();
        for first in self.of.get(own).into_iter().flatten() {
            let mut part = Vec::new();
            let mut next = vec![*first];
            while let Some(name) = next.pop() {
                if seen.insert(name) {
                    part.push(name);
                    next.extend(self.of.get(name).into_iter().flatten());
                }
            }
            let apart = |name: &&Name| *name != other && !self.elsewhere.contains(*name);
            if part.iter().all(apart) {
                behind.extend(part.into_iter().cloned());
            }
        }
        behind.sort_unstable();
        behind
    }
}
