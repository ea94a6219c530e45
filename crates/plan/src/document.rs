//! What `constel plan --json` prints. Scripts rely on it: fields are added, never changed.

use std::net::Ipv4Addr;

use constel_scenario::model::NodeSoftware;
use constel_topology::{Edge, Effort, Layout, Snapshot, Unreached};
use constel_units::{TimeSpan, Utc};
use serde::Serialize;

use crate::catalogue::Catalogued;
use crate::disjoint::{self, DisjointRow};
use crate::lab::Lab;
use crate::management::Management;

/// Nodes and edges at an instant, sorted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// The instant, UTC.
    pub time: Utc,
    /// Every node, satellites first, in node order.
    pub nodes: Vec<NodeRow>,
    /// Every edge that carries frames at that instant, both directions, sorted by its ports' numbers.
    pub edges: Vec<EdgeRow>,
    /// Pairs with disjoint paths (`routing.disjoint`); absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disjoint: Vec<DisjointRow>,
    /// What this machine reaches nodes by; absent where no network has `management`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub management: Option<ManagementRow>,
}

/// The way to nodes beside what is emulated, in a lab that has the scenario's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ManagementRow {
    /// The machine's interface.
    pub interface: String,
    /// The machine's address.
    pub host: Ipv4Addr,
    /// First address and length of the prefix that all addresses are of.
    pub subnet: String,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeRow {
    /// Name.
    pub name: String,
    /// The name of its class: `satellite`, `spacecraft`, `ground` or `host`.
    pub kind: &'static str,
    /// What a catalogue calls it; absent for nodes of none.
    #[serde(flatten)]
    pub catalogued: Catalogued,
    /// Where it is, ITRF, metres; null for a satellite whose orbit has no position then.
    pub position_itrf_m: Option<[f64; 3]>,
    /// Its interfaces.
    pub ports: Vec<&'static str>,
    /// Its address for management, in a lab that has the scenario's name; absent where it has no port for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub management: Option<Ipv4Addr>,
    /// What it is made of; nothing for a network namespace without limits of its own.
    #[serde(flatten)]
    pub software: NodeSoftware,
}

/// One edge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EdgeRow {
    /// Node and interface the frames leave.
    pub from_node: String,
    /// Interface.
    pub from_port: &'static str,
    /// Node and interface the frames reach.
    pub to_node: String,
    /// Interface.
    pub to_port: &'static str,
    /// `isl`, `gsl`, `cable` or `network`.
    pub kind: &'static str,
    /// Delay at the instant, nanoseconds.
    pub delay_ns: u64,
    /// Bits per second; null does not limit.
    pub rate_bps: Option<u64>,
    /// Chance that a frame is lost.
    pub loss_ratio: f64,
}

/// Why there is no plan for an instant.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// Lab time starts at zero.
    #[error("lab time {0} is before the start of the lab")]
    BeforeStart(TimeSpan),
    /// Time ends in 2262.
    #[error("lab time {0} is beyond the year 2262")]
    BeyondTime(TimeSpan),
    /// It takes too long to find out.
    #[error(transparent)]
    Unreached(#[from] Unreached),
}

impl Document {
    /// The plan at lab time `at`, found in some seconds at most.
    ///
    /// # Errors
    /// Times outside the lab's, and those that depend on more of the past than can be found out in that time.
    pub fn at(lab: &Lab, at: TimeSpan) -> Result<Self, PlanError> {
        Self::at_within(lab, at, &mut Effort::new(Effort::QUESTION, &|| true))
    }

    /// The same with no more than so much `effort`, or until it is called off.
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
