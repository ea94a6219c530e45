//! The step loop's part of changes by command: the topology, and the programs that it supervises.

use std::sync::Arc;

use constel_topology::NodeId;

use crate::answers::node_states::{BY_HAND, Order};
use crate::answers::steering::StepOrder;
use crate::error::EngineError;
use crate::life::lab_time::LabTime;
use crate::life::observed::Observed;
use crate::life::stages::paths_file;
use crate::routing::daemons::Daemons;
use crate::routing::machine::Machine;
use crate::routing::steps::Steps;

impl LabTime<'_> {
    /// Notifies the planner which nodes fail and heal from the step on that it plans next.
    pub(super) fn plan_nodes_by_hand(&self, steps: &mut Steps<Machine>) {
        let next_ns = steps.current().t_ns + self.fabric.blueprint.lab.step_ns();
        for (nodes, fail) in self.view.nodes.take_plans() {
            // The layout of a lab on one machine has this failure.
            let _known = match fail {
                true => steps.planner.fail_also(BY_HAND, &nodes, next_ns),
                false => steps.planner.heal_from(BY_HAND, &nodes, next_ns),
            };
        }
    }

    /// Takes over a changed scenario and pointed antennas, for the step that is planned next, and follows added flows.
    ///
    /// # Errors
    /// When the file of paths cannot be made.
    pub(super) fn adopt_changes(
        &self,
        steps: &mut Steps<Machine>,
        seen: &mut Observed,
    ) -> Result<(), EngineError> {
        let steering = &self.view.steering;
        let (followed, ended) = steering.take_followed();
        let now_ns = self.view.clock.now_ns().unwrap_or(0);
        for name in ended {
            if let Some(flow) = seen.paths.flows.get_mut(&name) {
                flow.end_at(now_ns);
            }
        }
        if !followed.is_empty() {
            seen.paths.flows.extend(followed);
            if seen.paths.rows.is_none() {
                seen.paths.rows = paths_file(&seen.paths, self.results)?;
            }
        }
        if let Some(StepOrder { blueprint, pointed }) = steering.take_order() {
            if !Arc::ptr_eq(&blueprint, steps.planner.blueprint()) {
                steps.planner.adopt(blueprint);
            }
            steps.planner.point(pointed);
        }
        Ok(())
    }

    /// Cuts links that a step brought to nodes which failed after it was planned.
    pub(super) fn cut_new_links(&self, steps: &Steps<Machine>) {
        let broken = &steps.current().broken;
        let mut nodes = self.view.nodes.failed();
        nodes.retain(|node| broken.node(*node).is_none());
        // A link plane that refuses has stopped, which the next step reports.
        drop(self.view.cut(&nodes));
    }

    /// Ends changes of links that are over, and carries out the orders to stop and start programs of nodes.
    pub(super) fn obey(&self, daemons: &mut Daemons) {
        self.view.end_due();
        for order in self.view.nodes.take_orders() {
            let done = self.carry_out(&order, daemons);
            // The client may have left.
            let _ = order.done.send(done.map_err(|error| error.to_string()));
        }
    }

    fn carry_out(&self, order: &Order, daemons: &mut Daemons) -> Result<(), EngineError> {
        for &node in &order.nodes {
            match order.starts {
                true => self.begin_programs(node, daemons)?,
                false => {
                    daemons.halt(node)?;
                    self.containers.borrow_mut().halt(node)?;
                    self.helpers.borrow_mut().halt(node);
                }
            }
        }
        Ok(())
    }

    fn begin_programs(&self, node: NodeId, daemons: &mut Daemons) -> Result<(), EngineError> {
        daemons.begin(node);
        self.containers.borrow_mut().begin(node);
        let launcher = &self.fabric.launcher;
        self.helpers.borrow_mut().begin(launcher, node)
    }
}
