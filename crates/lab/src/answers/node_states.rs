//! The state of nodes that users fail, stop or pause by command, the flows that they end, and the orders to the step loop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use constel_api::NodeChange;
use constel_plan::EdgeEnds;
use constel_topology::NodeId;

/// The failure of the topology with the nodes that are failed by command. Names of failures in scenarios have no space.
pub(crate) const BY_HAND: &str = "by hand";

/// The nodes and flows that were changed by command, and the orders to the step loop.
#[derive(Debug, Default)]
pub(crate) struct NodesByHand {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    /// Failed nodes, with the edges that were cut for them and were not failed before.
    pub(super) failed: BTreeMap<NodeId, Vec<EdgeEnds>>,
    /// Failed nodes that the planner does not know as failed yet.
    pub(super) unplanned: BTreeSet<NodeId>,
    /// Changes that the planner gets before it plans the next step: nodes, and whether they fail.
    pub(super) plans: Vec<(Vec<NodeId>, bool)>,
    pub(super) stopped: BTreeSet<NodeId>,
    pub(super) paused: BTreeSet<NodeId>,
    /// Nodes that have left the lab; these are stopped and failed as well.
    pub(super) removed: BTreeSet<NodeId>,
    pub(super) orders: Vec<Order>,
    /// Flows that were removed from the scenario, by name.
    pub(super) ended_flows: BTreeSet<String>,
}

/// An order to the step loop: to stop supervising the programs of nodes, because they are killed, or to start them again.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) starts: bool,
    pub(crate) done: SyncSender<Result<(), String>>,
}

impl NodesByHand {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the changes for the planner since the last call: nodes, and whether they fail.
    pub(crate) fn take_plans(&self) -> Vec<(Vec<NodeId>, bool)> {
        let mut inner = self.lock();
        inner.unplanned.clear();
        std::mem::take(&mut inner.plans)
    }

    /// Returns the orders since the last call.
    pub(crate) fn take_orders(&self) -> Vec<Order> {
        std::mem::take(&mut self.lock().orders)
    }

    /// Returns the failed nodes.
    pub(crate) fn failed(&self) -> Vec<NodeId> {
        self.lock().failed.keys().copied().collect()
    }

    /// Ends flows, running or to come.
    pub(super) fn end_flows(&self, names: impl IntoIterator<Item = String>) {
        self.lock().ended_flows.extend(names);
    }

    /// Returns whether a flow was removed from the scenario.
    pub(crate) fn is_flow_ended(&self, name: &str) -> bool {
        self.lock().ended_flows.contains(name)
    }

    /// Returns whether a node is stopped.
    pub(crate) fn is_stopped(&self, node: NodeId) -> bool {
        self.lock().stopped.contains(&node)
    }

    /// Returns the state of a node that was changed by command, in a word.
    pub(crate) fn word(&self, node: NodeId) -> Option<&'static str> {
        let inner = self.lock();
        match () {
            () if inner.removed.contains(&node) => Some("removed"),
            () if inner.stopped.contains(&node) => Some("stopped"),
            () if inner.paused.contains(&node) => Some("paused"),
            () if inner.failed.contains_key(&node) => Some("failed"),
            () => None,
        }
    }

    /// Returns whether a change has an effect on a node.
    ///
    /// # Errors
    /// The state of the node that excludes the change, with the next step.
    pub(super) fn changes(&self, node: NodeId, change: NodeChange) -> Result<bool, &'static str> {
        let inner = self.lock();
        let stopped = inner.stopped.contains(&node);
        let paused = inner.paused.contains(&node);
        let failed = inner.failed.contains_key(&node);
        let removed = inner.removed.contains(&node);
        match change {
            NodeChange::Remove => Ok(!removed),
            NodeChange::Add => Ok(removed),
            _ if removed => Err("was removed: `add` brings it back"),
            NodeChange::Fail => Ok(!failed),
            NodeChange::Heal if stopped => Err("is stopped: `start` brings it back"),
            NodeChange::Heal => Ok(failed),
            NodeChange::Stop => Ok(!stopped),
            NodeChange::Start => Ok(stopped),
            NodeChange::Restart if stopped => Err("is stopped: `start` brings it back"),
            NodeChange::Restart => Ok(true),
            NodeChange::Pause if stopped => Err("is stopped, and has no processes"),
            NodeChange::Pause => Ok(!paused),
            NodeChange::Resume => Ok(paused),
        }
    }
}
