//! The division of a scenario over several machines: the nodes and the work of each machine. Changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use constel_analysis::capacity::Needs;
use constel_cluster::machines::{Load, Loads, Machines, Pin, Placement, PlacementPolicy};
use constel_plan::{Blueprint, FailedEdges, Planner, StepPlan};
use constel_units::TimeSpan;
use serde::Serialize;

use crate::error::Error;
use crate::scenario::Scenario;

/// A scenario divided over machines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Division {
    /// The placement policy.
    pub order: PlacementPolicy,
    /// The load of each machine at lab time zero.
    pub machines: Vec<Share>,
    /// Edges at lab time zero.
    pub edges: usize,
    /// Those between nodes of different machines.
    pub crossing_edges: usize,
    /// Shortest delay of these, nanoseconds. The delay between the machines must be shorter. `null` without crossing edges.
    pub shortest_crossing_ns: Option<u64>,
    /// The cost of the steps. Absent by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Steps>,
    /// The machine of each node, by their names.
    pub placement: BTreeMap<String, String>,
}

/// The load of one machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Share {
    /// Counted.
    #[serde(flatten)]
    pub load: Load,
    /// Estimated memory of its part, bytes, without that of the scenario's programs.
    pub memory_bytes: u64,
}

/// The cost of steps when they are only planned and not applied.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Steps {
    /// How many were planned after the first.
    pub steps: u64,
    /// Time to plan the first step with all nodes and routes, milliseconds. Each machine plans the whole lab.
    pub first_plan_ms: f64,
    /// Time to plan one of the other steps, mean and maximum, milliseconds. Each machine plans the whole lab.
    pub plan_ms_mean: f64,
    /// The most.
    pub plan_ms_max: f64,
    /// The changes that each machine applies.
    pub machines: Vec<MachineChanges>,
}

/// The changes that one machine applies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachineChanges {
    /// The machine.
    pub machine: String,
    /// With the first step.
    pub first: Rows,
    /// With all others.
    pub steps: Rows,
}

/// The changes that a machine makes in its kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Rows {
    /// Nodes made and ended.
    pub nodes: u64,
    /// Edges set and removed.
    pub edges: u64,
    /// Neighbours learnt and forgotten.
    pub neighbours: u64,
    /// Routes.
    pub routes: u64,
}

impl Rows {
    fn add(&mut self, plan: &StepPlan) {
        self.nodes += (plan.nodes.make.len() + plan.nodes.end.len()) as u64;
        self.edges += (plan.edges.len() + plan.gliding.len() + plan.drain.len()) as u64;
        self.neighbours +=
            (plan.learn.len() + plan.forget.len() + plan.forget_drained.len()) as u64;
        self.routes += plan.routes.len() as u64;
    }
}

impl Scenario {
    /// Divides the scenario over machines. With `until`, it also plans all steps up to this lab time as every machine does,
    /// and counts the changes that each machine would apply. Creates nothing.
    ///
    /// # Errors
    /// [`Error::Undividable`] if pins, caps or shared media do not allow it, [`Error::Unplannable`] for labs that are too
    /// large for their addresses.
    pub fn divide(
        &self,
        machines: &Machines,
        pins: &[Pin],
        order: PlacementPolicy,
        until: Option<TimeSpan>,
    ) -> Result<Division, Error> {
        let lab = &self.lab;
        let placement = Placement::new(lab, machines, pins, order);
        let placement = placement.map_err(|e| Error::Undividable(e.to_string()))?;
        let loads = Loads::at(lab, machines, &placement, &lab.stepper().advance());
        let steps = until
            .map(|until| self.steps(machines, &placement, until))
            .transpose()?;
        let nodes = lab.layout.nodes();
        let machine_of = |id| machines.all()[placement.machine_of(id)].name.clone();
        Ok(Division {
            order,
            edges: loads.edges,
            crossing_edges: loads.crossing_edges,
            shortest_crossing_ns: loads.shortest_crossing_ns,
            machines: self.shares(loads.machines),
            steps,
            placement: nodes
                .iter()
                .map(|node| (node.name.clone(), machine_of(node.id)))
                .collect(),
        })
    }

    /// Returns the load of each machine with the memory that it needs.
    pub(crate) fn shares(&self, loads: Vec<Load>) -> Vec<Share> {
        let memory = Needs::of(&self.lab, false).memory;
        let nodes = self.lab.layout.nodes().len();
        let share = |load: Load| {
            // State that each node keeps about every other node is stored on the machine of the node.
            let part = load.nodes as f64 / nodes as f64;
            let bytes = memory.fixed + (memory.linear + memory.squared) * part;
            Share {
                memory_bytes: bytes.round() as u64,
                load,
            }
        };
        loads.into_iter().map(share).collect()
    }

    fn steps(
        &self,
        machines: &Machines,
        placement: &Placement,
        until: TimeSpan,
    ) -> Result<Steps, Error> {
        let until_ns = u64::try_from(until.ns()).map_err(|_| {
            Error::BadTime(format!("lab time {until} is before the start of the lab"))
        })?;
        let blueprint = Blueprint::new(self.lab.clone());
        let blueprint = Arc::new(blueprint.map_err(|e| Error::Unplannable(e.to_string()))?);
        let layout = Arc::clone(&blueprint.lab.layout);
        let mut carried: Vec<MachineChanges> = machines
            .all()
            .iter()
            .map(|machine| MachineChanges {
                machine: machine.name.clone(),
                first: Rows::default(),
                steps: Rows::default(),
            })
            .collect();
        let mut deal = |plan: &StepPlan, rows: fn(&mut MachineChanges) -> &mut Rows| {
            for (place, carried) in carried.iter_mut().enumerate() {
                rows(carried).add(&plan.share(&layout, |node| placement.machine_of(node) == place));
            }
        };
        let failed = FailedEdges::default();
        let mut planner = Planner::new(blueprint);
        let ms = |began: Instant| began.elapsed().as_secs_f64() * 1e3;
        let began = Instant::now();
        let first = planner.first(&failed);
        let first_plan_ms = ms(began);
        deal(&first.plan, |carried| &mut carried.first);
        planner.installed(first, &failed);
        let steps = until_ns / self.lab.step_ns();
        let (mut all_ms, mut most_ms) = (0.0, 0.0_f64);
        for _ in 0..steps {
            let began = Instant::now();
            let mut step = planner.advance();
            planner.route(&mut step, &failed);
            let took_ms = ms(began);
            all_ms += took_ms;
            most_ms = most_ms.max(took_ms);
            deal(&step.plan, |carried| &mut carried.steps);
            planner.installed(step, &failed);
        }
        Ok(Steps {
            steps,
            first_plan_ms,
            plan_ms_mean: if steps > 0 {
                all_ms / steps as f64
            } else {
                0.0
            },
            plan_ms_max: most_ms,
            machines: carried,
        })
    }
}
