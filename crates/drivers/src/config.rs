//! Configuration of a link plane.

use std::sync::Arc;

use constel_link::medium::Shared;
use constel_link::transit::Table;
use constel_link::{Nanos, PortId};

/// Configuration of a link plane.
#[derive(Clone, Debug)]
pub struct PlaneConfig {
    /// The lab, for the name of the driver's thread.
    pub lab: String,
    /// Number of ports, numbered from 0. At most 65,536 ports may belong to nodes with a stack.
    pub ports: u32,
    /// Maximum number of edges at a time, for drivers that keep them in memory of a fixed size.
    pub edges: u32,
    /// Seed of all random draws of all edges.
    pub seed: u64,
    /// Frames leave at whole multiples of this interval; 0: each at its own time. Only [`crate::relay`] supports it.
    pub grain_ns: Nanos,
    /// Channels that several ports share. Only [`crate::relay`] supports them.
    pub channels: Vec<Shared>,
    /// Ports of each learning switch, behind which any Ethernet addresses may be. Only [`crate::relay`] learns
    /// addresses: with other drivers a port has its own address only.
    pub switches: Vec<Vec<PortId>>,
    /// Nodes without a stack, which only forward. Only [`crate::relay`] forwards for them.
    pub transit: Option<Arc<Table>>,
    /// Number of threads that move frames; they divide the nodes among them. Only [`crate::relay`] can have more than
    /// one.
    pub threads: usize,
    /// By port, the number of its node. A port beyond the end is a node of its own.
    pub nodes: Vec<u32>,
    /// Whether the time that a node's stack takes to forward a frame is deducted from the frame's path. Only
    /// [`crate::relay`] supports it.
    pub deduct_stacks: bool,
}

impl PlaneConfig {
    /// Returns a configuration for `ports` ports, with room for 32 edges a port and at least 65,536.
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
