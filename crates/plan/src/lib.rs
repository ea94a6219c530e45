//! Converts a resolved scenario to everything that must exist: nodes, ports, links, and edges at any instant.
//!
//! [`Lab::new`] reads the element files that the scenario names, sorts real satellites into planes, and lays out
//! nodes and ports. [`Document::at`] is the output of `constel plan`. [`information`] has the documents that nodes get about
//! themselves. This crate never touches the host.
//!
//! ```
//! use constel_plan::{Document, Lab};
//! use constel_scenario::{DiskFiles, parse, resolve};
//!
//! let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/iridium.yaml");
//! let text = std::fs::read_to_string(path).unwrap();
//! let lab = Lab::new(resolve(&parse(path, &text)?, &DiskFiles::beside(path))?)?;
//! let document = Document::at(&lab, "30 s".parse().unwrap()).unwrap();
//! assert!(document.edges.iter().all(|edge| edge.delay_ns > 0));
//! # Ok::<(), constel_scenario::Diagnostics>(())
//! ```
#![forbid(unsafe_code)]

mod access;
mod addresses;
mod applier;
mod blueprint;
mod by_hand;
mod catalogue;
mod choices;
mod chosen;
mod daemons;
mod difference;
mod disjoint;
mod document;
mod elements;
mod ephemeris;
mod failed;
mod flown;
mod formation;
mod forwarders;
mod ground;
pub mod information;
mod lab;
mod lay_out;
mod live;
mod management;
mod members;
mod networks;
mod next_nodes;
mod ours;
mod placement;
mod planner;
mod sky;
mod step_plan;
mod table;
#[cfg(test)]
mod testing;
mod watched;

pub use addresses::address_blocks;
pub use applier::{Applier, EdgesApplied, RoutesApplied};
pub use blueprint::{
    Blueprint, BlueprintError, LOOPBACK_IFINDEX, Neighbour, NodeSetup, PortSetup, node_ifindex,
};
pub use by_hand::ManualEffects;
pub use catalogue::{Catalogue, Catalogued, NodeNameError};
pub use choices::{LINK_COLUMNS, STATION_COLUMNS, link_row, route_row, station_row};
pub use constel_scenario::LeftOut;
pub use daemons::{address_plan, daemon_spec, daemon_templates, ospf_areas};
pub use difference::{ChangeKind, Difference, Past, ScenarioChange};
pub use disjoint::{DisjointPath, DisjointRow, path_addresses};
pub use document::{Document, PlanError};
pub use elements::{DataAge, SortedShell};
pub use failed::FailedEdges;
pub use forwarders::Forwarders;
pub use lab::Lab;
pub use live::{Decision, RouteChoice};
pub use management::{MANAGEMENT_IFINDEX, MANAGEMENT_PORT, Management};
pub use members::{AbsentMembers, EdgeEnds, Move};
pub use networks::{is_square, read_delays};
pub use next_nodes::{NextNodes, ROUTE_COLUMNS, Reachability};
pub use ours::LocalNodes;
pub use planner::{
    PairStatistics, PathCountChange, PathStatistics, PlannedRoutes, PlannedStep, Planner,
    destinations,
};
pub use step_plan::{
    Adjacency, NodeChanges, RouteDestination, RouteRow, RoutesPlan, SharedRouteRow,
    StacklessRouteRow, StepPlan, at_clock,
};
pub use watched::{Resident, Watched};
