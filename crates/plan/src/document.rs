//! The output of `constel plan --json`. Scripts depend on it: fields may be added, but never changed.

use std::net::Ipv4Addr;

use constel_scenario::model::NodeSoftware;
use constel_topology::{Edge, Effort, Layout, Snapshot, StepRefusal};
use constel_units::{TimeSpan, Utc};
use serde::Serialize;

use crate::catalogue::Catalogued;
use crate::disjoint::{self, DisjointRow};
use crate::lab::Lab;
use crate::management::Management;

/// The nodes and edges at an instant, sorted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// The instant, UTC.
    pub time: Utc,
    /// Every node, satellites first, in node order.
    pub nodes: Vec<NodeRow>,
    /// Every edge that carries frames at that instant, both directions, sorted by its ports' numbers.
    pub edges: Vec<EdgeRow>,
    /// The pairs with disjoint paths (`routing.disjoint`); absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disjoint: Vec<DisjointRow>,
    /// The management access of this machine to nodes; absent if no network has `management`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub management: Option<ManagementRow>,
}

/// The management access to nodes, outside the emulated network, in a lab that has the scenario's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ManagementRow {
    /// The machine's interface.
    pub interface: String,
    /// The machine's address.
    pub host: Ipv4Addr,
    /// The first address and the length of the prefix of all management addresses.
    pub subnet: String,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeRow {
    /// Name.
    pub name: String,
    /// The name of its class: `satellite`, `spacecraft`, `ground` or `host`.
    pub kind: &'static str,
    /// The catalogue entry; absent for nodes without one.
    #[serde(flatten)]
    pub catalogued: Catalogued,
    /// The position, ITRF, metres; null for a satellite whose orbit has no position then.
    pub position_itrf_m: Option<[f64; 3]>,
    /// The interfaces.
    pub ports: Vec<&'static str>,
    /// The management address, in a lab that has the scenario's name; absent without such a port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub management: Option<Ipv4Addr>,
    /// The software of the node; empty for a network namespace without limits of its own.
    #[serde(flatten)]
    pub software: NodeSoftware,
}

/// One edge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EdgeRow {
    /// The node that sends the frames.
    pub from_node: String,
    /// The interface that sends the frames.
    pub from_port: &'static str,
    /// The node that receives the frames.
    pub to_node: String,
    /// The interface that receives the frames.
    pub to_port: &'static str,
    /// `isl`, `gsl`, `cable` or `network`.
    pub kind: &'static str,
    /// Delay at the instant, nanoseconds.
    pub delay_ns: u64,
    /// The rate, bit/s; null for no limit.
    pub rate_bps: Option<u64>,
    /// The probability that a frame is lost.
    pub loss_ratio: f64,
}

/// The reason why there is no plan for an instant.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// Lab time starts at zero.
    #[error("lab time {0} is before the start of the lab")]
    BeforeStart(TimeSpan),
    /// Time ends in 2262.
    #[error("lab time {0} is beyond the year 2262")]
    BeyondTime(TimeSpan),
    /// The computation would take too long.
    #[error(transparent)]
    Unreached(#[from] StepRefusal),
}

impl Document {
    /// Computes the plan at lab time `at`, in some seconds at most.
    ///
    /// # Errors
    /// Times outside the lab's, and times whose topology depends on more of the past than can be computed in that
    /// time.
    pub fn at(lab: &Lab, at: TimeSpan) -> Result<Self, PlanError> {
        Self::at_within(lab, at, &mut Effort::new(Effort::QUESTION, &|| true))
    }

    /// Computes the plan with at most this `effort`, or until it is cancelled.
    ///
    /// # Errors
    /// As [`Document::at`].
    pub fn at_within(lab: &Lab, at: TimeSpan, effort: &mut Effort<'_>) -> Result<Self, PlanError> {
        let t_ns = u64::try_from(at.ns()).map_err(|_| PlanError::BeforeStart(at))?;
        let time = lab
            .scenario
            .start
            .checked_add(at)
            .ok_or(PlanError::BeyondTime(at))?;
        let mut stepper = lab.stepper();
        let snapshot = stepper.try_step(stepper.step_at(t_ns), effort)?;
        let snapshot = lab.at_start()(&snapshot).unwrap_or(snapshot);
        let mut positions = Vec::new();
        let lost = lab.sky.positions_itrf_m(t_ns, &mut positions);
        positions.extend_from_slice(&snapshot.positions_itrf_m[lab.layout.satellite_count()..]);
        let mut positions: Vec<Option<[f64; 3]>> = positions
            .iter()
            .map(|position| Some(position.to_array()))
            .collect();
        for satellite in lost {
            positions[satellite.satellite] = None;
        }
        let management = lab.management(lab.scenario.name.as_str());
        Ok(Self {
            time,
            nodes: nodes(lab, &positions, management.as_ref()),
            edges: edges(&lab.layout, &snapshot, t_ns),
            disjoint: disjoint::rows(lab, &snapshot, t_ns),
            management: management.map(|own| ManagementRow {
                subnet: own.subnet.to_string(),
                interface: own.interface,
                host: own.host,
            }),
        })
    }
}

fn nodes(
    lab: &Lab,
    positions: &[Option<[f64; 3]>],
    management: Option<&Management>,
) -> Vec<NodeRow> {
    let layout = &lab.layout;
    let row = |(node, position): (&constel_topology::Node, &Option<[f64; 3]>)| NodeRow {
        name: node.name.clone(),
        kind: node.class.name,
        catalogued: lab.catalogue.of(node.id).cloned().unwrap_or_default(),
        position_itrf_m: *position,
        ports: layout
            .ports_of(node.id)
            .iter()
            .map(|port| port.name())
            .collect(),
        management: management.and_then(|own| own.of(node.id)),
        software: lab
            .software
            .get(node.id.index())
            .cloned()
            .unwrap_or_default(),
    };
    layout.nodes().iter().zip(positions).map(row).collect()
}

fn edges(layout: &Layout, snapshot: &Snapshot, t_ns: u64) -> Vec<EdgeRow> {
    snapshot
        .edges
        .iter()
        .filter(|edge| edge.usable_at(t_ns))
        .map(|edge| edge_row(layout, edge, t_ns))
        .collect()
}

fn edge_row(layout: &Layout, edge: &Edge, t_ns: u64) -> EdgeRow {
    let (from, to) = (layout.port(edge.from), layout.port(edge.to));
    EdgeRow {
        from_node: layout.node(from.node).name.clone(),
        from_port: from.name(),
        to_node: layout.node(to.node).name.clone(),
        to_port: to.name(),
        kind: edge.class.name,
        delay_ns: edge.impairment.delay.at(t_ns),
        rate_bps: edge.impairment.rate_bps.map(u64::from),
        loss_ratio: match edge.impairment.loss {
            constel_link::Loss::None => 0.0,
            constel_link::Loss::Bernoulli { loss_ratio } => loss_ratio,
        },
    }
}
