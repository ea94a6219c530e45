//! From a topology to routes: addresses, shortest paths, next-hop changes, daemon configuration, and a walk over the routing
//! tables of the kernels.
//!
//! Everything is a pure function of its arguments.
#![forbid(unsafe_code)]

pub mod addresses;
pub mod areas;
pub mod blocks;
pub mod chosen;
pub mod daemons;
pub mod disjoint;
mod follow;
pub mod graph;
mod hops;
pub mod link_state;
pub mod ospf;
pub mod path_addresses;
pub mod path_routes;
pub mod reach;
pub mod routes;
mod runs;
pub mod walk;

pub use addresses::{AddressError, AddressPlan, AddressRow, Block, Loopback, PortAddresses};
pub use areas::{AreaError, AreaId, Areas, Grouping};
pub use blocks::{AddressBlocks, Pair, Prefix4, Prefix6};
pub use graph::{
    Graph, GroundTransit, Metric, NextHop, PathHop, Scratch, ShortestPaths, Tree, UNREACHABLE,
};
pub use path_addresses::{PathAddresses, PathEnd, PathPair};
pub use path_routes::{PathChange, PathRoutes};
pub use routes::{Changed, HopChange, RouteChange, Routes, Rule, Spare, Via, ends_first};
pub use walk::{Route, Table, Walk, WalkEnd, WalkHop, walk, walk_at, walk_by, walk_until};
