//! Satellites that only forward (`runtime: forward`): checks of the settings that they exclude.

use std::collections::BTreeSet;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::model::{
    Action, Expected, Forwarding, Mode, NodeRule, NodeSoftware, Orbits, Placement, Runtime,
    Scenario,
};
use crate::raw::{DriverChoice, RawNode};
use crate::software::{NodeFacts, NodeKind};

/// A node that only forwards, and the rule that makes it one.
struct Forwarder<'s, 'n> {
    node: &'n NodeFacts<'n>,
    rule: &'s NodeRule,
}

impl Scenario {
    /// Reports every setting that needs more of nodes that only forward than they support.
    pub(crate) fn check_forwarders(
        &self,
        nodes: &[NodeFacts<'_>],
        all: &[NodeSoftware],
        errors: &mut Diagnostics,
    ) {
        let forwards = |rule: &&NodeRule| rule.set.runtime == Some(Runtime::Forward);
        let of = |(node, _)| {
            let mut rules = self.node_rules.iter().filter(forwards);
            let rule = rules.rfind(|rule| rule.of.has(node))?;
            Some(Forwarder { node, rule })
        };
        let made = nodes.iter().zip(all).filter(|(_, made)| made.forwards);
        let forwarders: Vec<Forwarder<'_, '_>> = made.filter_map(of).collect();
        let Some(first) = forwarders.first() else {
            return;
        };
        self.check_kinds(&forwarders, errors);
        self.check_surroundings(first, errors);
        self.check_programs(&forwarders, errors);
        self.check_idle_rules(nodes, all, errors);
    }

    /// Only satellites of constellations forward alone.
    fn check_kinds(&self, forwarders: &[Forwarder<'_, '_>], errors: &mut Diagnostics) {
        let formations: BTreeSet<&str> = self
            .constellations
            .iter()
            .filter(|c| matches!(c.orbits, Orbits::Formation(_)))
            .map(|c| c.name.as_str())
            .collect();
        let is_satellite = |kind| match kind {
            NodeKind::Satellite(of) => !formations.contains(of),
            NodeKind::Station | NodeKind::Host => false,
        };
        let other = forwarders.iter().find(|f| !is_satellite(f.node.kind));
        if let Some(Forwarder { node, rule }) = other {
            let message = format!("`{}` cannot only forward", node.name);
            let error = self.error_of_rule(rule, "bad-value", message);
            errors.push(error.with_reason(
                "only satellites of constellations have ways computed for them that need no stack",
            ));
        }
        let pairs = self.routing.mode.disjoint().iter();
        let mut ends = pairs.flat_map(|pair| &pair.between);
        let end = ends.find_map(|name| forwarders.iter().find(|f| f.node.name == name.as_str()));
        if let Some(Forwarder { node, rule }) = end {
            let message = format!(
                "`{}` only forwards and is an end of disjoint paths",
                node.name
            );
            let error = self.error_of_rule(rule, "disagreement", message);
            errors.push(give_a_stack(error, node.name));
        }
        let in_network = forwarders.iter().find(|f| {
            let members = self.networks.iter().flat_map(|network| &network.members);
            members.into_iter().any(|m| m.glob.matches(f.node.name))
        });
        if let Some(Forwarder { node, rule }) = in_network {
            let message = format!("`{}` only forwards and is a member of a network", node.name);
            let error = self.error_of_rule(rule, "disagreement", message);
            errors.push(give_a_stack(error, node.name));
        }
    }

    /// Checks that the source of the routes and the driver support nodes that only forward.
    fn check_surroundings(&self, first: &Forwarder<'_, '_>, errors: &mut Diagnostics) {
        let mut refuse = |message: &str, suggestion: &str| {
            let error = self.error_of_rule(first.rule, "disagreement", message.to_owned());
            errors.push(error.with_suggestion(suggestion));
        };
        match &self.routing.mode {
            Mode::Computed(computed) => {
                if computed.forwarding == Forwarding::Map {
                    refuse(
                        "`routing.forwarding: map` is for satellites with a stack",
                        "leave `forwarding` out: the link plane forwards by a table of its own",
                    );
                }
            }
            Mode::Daemons(_) => refuse(
                "a satellite that only forwards runs no routing daemon",
                "take `routing: {mode: computed}`, or `runtime: netns`",
            ),
            Mode::None => refuse(
                "satellites that only forward need computed routes",
                "take `routing: {mode: computed}`, or `runtime: netns`",
            ),
        }
        if !matches!(self.driver, DriverChoice::Auto | DriverChoice::Relay) {
            refuse(
                "only the driver `relay` forwards for satellites without a stack: the others leave frames to the kernel",
                "take `links: {driver: relay}`, or `runtime: netns`",
            );
        }
        if self.hosts.iter().any(|host| host.attach.is_some()) {
            refuse(
                "hosts that are attached to an interface of the machine need satellites with a stack",
                "leave `attach` out, or take `runtime: netns`",
            );
        }
    }

    /// Checks that no program is to run in these nodes.
    fn check_programs(&self, forwarders: &[Forwarder<'_, '_>], errors: &mut Diagnostics) {
        let find = |name: &str| forwarders.iter().find(|f| f.node.name == name);
        let mut refuse = |f: &Forwarder<'_, '_>, what: &str| {
            let node = f.node.name;
            let message = format!("{what} needs a program in `{node}`, which only forwards");
            let error = self.error_of_rule(f.rule, "disagreement", message);
            errors.push(give_a_stack(error, node));
        };
        for flow in &self.traffic {
            let ends = flow.action.ends().map(|(from, to)| [from, to]);
            let run = match &flow.action {
                Action::Run(run) => Some(&run.node),
                _ => None,
            };
            let mut names = ends.iter().flatten().copied().chain(run);
            // A ping's far end answers by itself.
            let is_ping = matches!(flow.action, Action::Ping(_));
            let busy = names.find_map(|name| {
                let answers = is_ping && ends.is_some_and(|[_, to]| to == name);
                find(name.as_str()).filter(|_| !answers)
            });
            if let Some(f) = busy {
                refuse(f, &format!("flow `{}`", flow.name));
            }
        }
        let leotp = self.transport.leotp.as_ref().map(|own| &own.place);
        let split = self.transport.split_tcp.as_ref().map(|own| &own.place);
        let placed = [("transport.leotp", leotp), ("transport.split_tcp", split)];
        for (key, place) in placed {
            let Some(Placement { satellites, nodes }) = place else {
                continue;
            };
            let named = nodes.iter().find_map(|name| find(name.as_str()));
            let some = named.or_else(|| forwarders.first().filter(|_| satellites.get() > 0.0));
            if let Some(f) = some {
                refuse(f, &format!("`{key}`"));
            }
        }
        let told = forwarders.iter().find(|f| {
            let entries = &mut self.information.iter();
            entries.any(|entry| entry.is_for("satellite", f.node.name))
        });
        if let Some(f) = told {
            refuse(f, "`information`");
        }
        let alive = self.expect.iter().filter_map(|e| match &e.what {
            Expected::Alive(nodes, _) => Some(nodes),
            _ => None,
        });
        for named in alive.flatten() {
            let waits_for = |f: &&Forwarder<'_, '_>| named.glob.matches(f.node.name);
            if let Some(f) = forwarders.iter().find(waits_for) {
                refuse(f, "`expect: alive`");
            }
        }
        for (name, _) in &self.limits.nodes {
            if let Some(f) = find(name.as_str()) {
                refuse(f, "`limits.nodes`");
            }
        }
    }

    /// Reports rules that have no effect because all their nodes only forward.
    fn check_idle_rules(
        &self,
        nodes: &[NodeFacts<'_>],
        all: &[NodeSoftware],
        errors: &mut Diagnostics,
    ) {
        for rule in &self.node_rules {
            let plain = RawNode {
                runtime: rule.set.runtime,
                ..RawNode::default()
            };
            let mut of_it = nodes.iter().zip(all).filter(|(node, _)| rule.of.has(node));
            // With an image, `software` has reported it already.
            let set = &rule.set;
            let own = set.limits.is_some() || set.restore.is_some() || set.checksums.is_some();
            let says = *set != plain && own;
            if says
                && of_it.by_ref().next().is_some_and(|(_, made)| made.forwards)
                && of_it.all(|(_, made)| made.forwards)
            {
                let message = "all nodes that match this only forward".to_owned();
                let error = self.error_of_rule(rule, "no-effect", message);
                errors.push(error.with_reason("no program runs in them"));
            }
        }
    }
}

fn give_a_stack(error: Diagnostic, node: &str) -> Diagnostic {
    error
        .with_reason("it has no network stack")
        .with_suggestion(format!(
            "give it one: `nodes: {{overrides: [{{nodes: [{node}], set: {{runtime: netns}}}}]}}`"
        ))
}
