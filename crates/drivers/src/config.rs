//! What a link plane is made for.

use std::sync::Arc;

use constel_link::medium::Shared;
use constel_link::transit::Table;
use constel_link::{Nanos, PortId};

/// What a link plane is made for.
#[derive(Clone, Debug)]
pub struct PlaneConfig {
    /// The lab, for the name of the driver's thread.
    pub lab: String,
    /// Ports there can be, numbered from 0: 65,536 at most are of nodes with a stack.
    pub ports: u32,
    /// Edges there can be at a time, for drivers that keep them in memory of a fixed size.
    pub edges: u32,
    /// Decides all random draws of all edges.
    pub seed: u64,
    /// Frames leave at whole multiples of this; 0: each at its own time. Only [`crate::relay`] knows it.
    pub grain_ns: Nanos,
    /// Channels that ports share: what these send goes over the air. Only [`crate::relay`] knows them.
    pub channels: Vec<Shared>,
    /// The ports of each learning switch, which may have any Ethernet addresses behind them. Only [`crate::relay`] learns: with
    /// other drivers a port has its own address alone.
    pub switches: Vec<Vec<PortId>>,
    /// Nodes without a stack, which only forward. Only [`crate::relay`] does it for them.
    pub transit: Option<Arc<Table>>,
    /// Threads that move the frames, which divide the nodes among them. Only [`crate::relay`] has more than one.
    pub threads: usize,
    /// By port, the number of its node; ports beyond the end are nodes of their own.
    pub nodes: Vec<u32>,
    /// What nodes' stacks take to pass a frame on is taken off its way. Only [`crate::relay`] can.
    pub deduct_stacks: bool,
}

impl PlaneConfig {
    /// For so many ports, with room for 32 edges a port, 65,536 at least.
    #[must_use]
    pub fn new(lab: impl Into<String>, ports: u32, seed: u64) -> PlaneConfig {
        PlaneConfig {
            lab: lab.into(),
            ports,
            edges: ports.saturating_mul(32).clamp(65_536, 1 << 22),
            seed,
            grain_ns: 0,
            channels: Vec::new(),
            switches: Vec::new(),
            transit: None,
            threads: 1,
            nodes: Vec::new(),
            deduct_stacks: true,
        }
    }
}
