//! The shape of a layout: the parts that a running lab cannot change. Other parts may change from one step to the next.

use super::{Layout, TerminalLayout};
use crate::node::NodeId;
use crate::policy::GslPolicy;
use crate::spec::GslSpec;

impl Layout {
    /// Returns the first part whose shape is another in `other`, in a word; `None` if both have the same nodes, ports, pairs
    /// of ports and antennas, in the same order. Rates, delays, policies, failures and laws may differ.
    #[must_use]
    pub fn shape_differs(&self, other: &Layout) -> Option<&'static str> {
        let terminals = |layout: &Self| -> Vec<TerminalLayout> {
            let terminals = layout.terminals.iter().cloned();
            terminals
                .map(|own| TerminalLayout { rule: 0, ..own })
                .collect()
        };
        let parts = [
            ("step", self.spec.step_ns == other.spec.step_ns),
            ("nodes", self.nodes == other.nodes),
            ("ports", self.ports == other.ports),
            ("lasers", self.isl_links == other.isl_links),
            ("cables", self.cables == other.cables),
            ("networks", self.network_ports == other.network_ports),
            ("kinds of links", self.edge_classes == other.edge_classes),
            ("terminals", terminals(self) == terminals(other)),
            ("antennas", self.aims == other.aims),
            (
                "service to the ground",
                self.serves_ground == other.serves_ground,
            ),
        ];
        let mut parts = parts.into_iter();
        parts.find_map(|(part, same)| (!same).then_some(part))
    }

    /// Returns the layout with the networks of another one, whose laws have computed the time that has passed.
    #[must_use]
    pub fn with_networks_of(&self, other: &Layout) -> Layout {
        let mut layout = self.clone();
        layout.spec.networks.clone_from(&other.spec.networks);
        layout
    }

    /// Returns the layout with another policy at all terminals of these stations. The cost of a change of satellite stays that
    /// of each terminal. Nodes that are no stations are skipped.
    #[must_use]
    pub fn with_policy(&self, stations: &[NodeId], policy: GslPolicy) -> Layout {
        let mut layout = self.clone();
        for terminal in &mut layout.terminals {
            let node = self.station_node(terminal.station);
            if !stations.contains(&node) {
                continue;
            }
            let rule = GslSpec {
                policy,
                ..layout.spec.rules[terminal.rule]
            };
            let rules = &mut layout.spec.rules;
            let known = rules.iter().position(|known| *known == rule);
            terminal.rule = known.unwrap_or_else(|| {
                rules.push(rule);
                rules.len() - 1
            });
        }
        layout
    }
}
