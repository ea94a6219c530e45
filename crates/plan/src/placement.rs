//! The choice of nodes for functions that only some nodes have.

use std::collections::BTreeSet;

use constel_scenario::model::{Action, Flow, Midnodes, Placement, SplitTcp, TransferProtocol};
use constel_topology::{NodeId, seeded_key};

use crate::lab::Lab;

impl Lab {
    /// Returns the nodes of a placement, sorted. Satellites are ranked by a number that depends only on the seed,
    /// `purpose` and the satellite's name. A smaller share is therefore a subset of a larger one. Nodes in `except`
    /// are never chosen by share.
    pub fn placed(
        &self,
        placement: &Placement,
        purpose: &str,
        except: &BTreeSet<NodeId>,
    ) -> Vec<NodeId> {
        let seed = self.scenario.seed;
        let mut ranked: Vec<(u64, NodeId)> = self
            .layout
            .nodes()
            .iter()
            .filter(|node| node.class.flies)
            .map(|node| (seeded_key(seed, purpose, &node.name), node.id))
            .collect();
        ranked.sort_unstable();
        let count = (placement.satellites.get() * ranked.len() as f64).round() as usize;
        let chosen = ranked[..count.min(ranked.len())].iter().map(|(_, id)| *id);
        // The names were checked when the lab was laid out.
        let named = placement
            .nodes
            .iter()
            .filter_map(|name| Some(self.layout.find(name.as_str())?.id));
        let mut nodes: Vec<NodeId> = chosen
            .filter(|id| !except.contains(id))
            .chain(named)
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Returns the nodes with a Midnode, sorted. No share of the satellites puts one on an end of a LEOTP transfer.
    pub fn midnodes(&self, midnodes: &Midnodes) -> Vec<NodeId> {
        let ends = self.ends_of(|flow| match &flow.action {
            Action::Transfer(transfer) => matches!(transfer.over, TransferProtocol::Leotp(_)),
            _ => false,
        });
        self.placed(&midnodes.place, "leotp", &ends)
    }

    /// Returns the nodes with a proxy that splits TCP connections, sorted; none if no flow has connections to split. No
    /// share of the satellites puts one on an end of such a flow.
    pub fn proxies(&self, split: &SplitTcp) -> Vec<NodeId> {
        let over_tcp = |flow: &Flow| flow.tcp_port().is_some();
        if !self.scenario.traffic.iter().any(over_tcp) {
            return Vec::new();
        }
        self.placed(&split.place, "split-tcp", &self.ends_of(over_tcp))
    }

    /// Returns both ends of the flows of a kind.
    fn ends_of(&self, is_one: impl Fn(&Flow) -> bool) -> BTreeSet<NodeId> {
        let flows = self.scenario.traffic.iter().filter(|flow| is_one(flow));
        let names = flows.filter_map(|flow| flow.action.ends());
        let names = names.flat_map(|(from, to)| [from, to]);
        names
            .filter_map(|name| Some(self.layout.find(name.as_str())?.id))
            .collect()
    }
}
