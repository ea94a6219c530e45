//! Networks: named sets of ports on one medium, with a law for the edges between them.

use super::LinkClass;
use crate::class::EdgeClass;
use constel_orbit::DVec3;
use std::fmt::Debug;
use std::sync::Arc;

/// A named set of ports and the law of the edges between them. Each member has one port of its own in it.
#[derive(Debug, Clone)]
pub struct Network {
    /// Unique in the lab.
    pub name: String,
    /// The class of its ports and edges.
    pub ports: &'static EdgeClass,
    /// Names of its nodes, of any kind.
    pub members: Vec<String>,
    /// MTU of its ports, bytes above Ethernet, 576..=9000.
    pub mtu_bytes: u32,
    /// The rule of its edges.
    pub law: Arc<dyn Law>,
}

impl PartialEq for Network {
    /// Laws are equal when they are one.
    fn eq(&self, other: &Network) -> bool {
        self.name == other.name
            && self.ports == other.ports
            && self.members == other.members
            && self.mtu_bytes == other.mtu_bytes
            && Arc::ptr_eq(&self.law, &other.law)
    }
}

/// The edges of a network: a pure function of the moment.
pub trait Law: Debug + Send + Sync {
    /// Adds the network's edges to `edges`, each direction separately, at most one between two members. Edges
    /// from or to failed members may be included.
    fn edges(&self, moment: &Moment<'_>, edges: &mut Vec<NetworkEdge>);
}

/// The input of a rule.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// Start of the step, nanoseconds after the start of the lab.
    pub t_ns: u64,
    /// Length of the step, nanoseconds.
    pub step_ns: u64,
    /// ITRF positions of the members at the start of the step, metres, in their order; NaN for a member without
    /// a position.
    pub now_itrf_m: &'a [DVec3],
    /// ITRF positions of the members at the end of the step, metres.
    pub later_itrf_m: &'a [DVec3],
}

/// An edge from one member to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NetworkEdge {
    /// Place of the sender in the network's members.
    pub from: usize,
    /// Place of the receiver, another one.
    pub to: usize,
    /// One-way delay at the start of the step, ns.
    pub delay_ns: u64,
    /// The delay at its end; the delay changes linearly in between.
    pub later_delay_ns: u64,
    /// Rate, queue and loss. Its extra delay is added.
    pub class: LinkClass,
}
