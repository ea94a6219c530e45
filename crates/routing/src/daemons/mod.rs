//! Configuration of routing daemons: the programs of each node, and their files. Checked against BIRD 2.0.12 and FRRouting
//! 8.4.4.
//!
//! A file is a template (Jinja, shipped in `templates/` or the user's own) filled with a [`Context`]: the node, its ports,
//! addresses, peers and timers. Comments in the templates explain the settings that were found to work.

mod bgp;
mod context;
mod programs;
mod serving;
mod templates;

pub use crate::ospf::Served;
pub use bgp::System;
pub use context::{
    AreaRow, Bgp, BgpNeighbor, BlockRow, Context, NodeRow, OspfRow, Peer, PortRow, contexts,
};
pub use programs::{Program, ZAPI_SOCKET, bird_arguments, frr_arguments, programs};
pub use serving::serving_within;
pub use templates::{TemplateError, Templates};

use constel_topology::Span;

/// Routing software.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Software {
    /// BIRD 2.
    Bird,
    /// FRRouting.
    Frr,
}

/// A routing protocol within an autonomous system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// OSPFv2 and OSPFv3.
    Ospf,
    /// IS-IS.
    Isis,
    /// Babel.
    Babel,
}

/// Bidirectional Forwarding Detection on every link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Bfd {
    /// Milliseconds between two packets, in both directions.
    pub interval_ms: u32,
    /// Number of packets that may be missing, at least 2.
    pub multiplier: u8,
}

/// Everything about a lab's daemons that is the same in every node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Which software.
    pub software: Software,
    /// The protocol, which the software must support.
    pub protocol: Protocol,
    /// Seconds between hellos, 1..=65535.
    pub hello_s: u16,
    /// Seconds without a hello until a neighbour is dropped, at least twice `hello_s`.
    pub dead_s: u16,
    /// Seconds until an unacknowledged packet is sent again, 1..=65535. Must exceed a link's round trip.
    pub retransmit_s: u16,
    /// Seconds between hello packets on ground links.
    pub ground_hello_s: u16,
    /// Seconds until a silent neighbour on a ground link is dead.
    pub ground_dead_s: u16,
    /// Seconds until an unacknowledged packet is sent again on a ground link, 1..=65535.
    pub ground_retransmit_s: u16,
    /// Seconds by which BIRD gathers route calculations, 1..=65535.
    pub tick_s: u16,
    /// Cost of an ISL, 1..=65535.
    pub isl_cost: u16,
    /// Cost of a ground link, 1..=65535. High enough and no path leads through a station.
    pub gsl_cost: u16,
    /// Cost of a cable, 1..=65535.
    pub cable_cost: u16,
    /// Autonomous systems; empty: one for all. Otherwise exactly one lists no nodes.
    pub systems: Vec<System>,
    /// Terminals of stations that belong to another system than the satellites, each with a satellite that it will use. They
    /// have BGP sessions with each other. See [`Spec::with_uplinks`].
    pub uplinks: Served,
    /// Seconds between BGP's keepalives.
    pub bgp_hello_s: u16,
    /// Seconds until BGP gives up a silent neighbour, at least 3.
    pub bgp_dead_s: u16,
    /// IPv4 is routed.
    pub ipv4: bool,
    /// IPv6 is routed.
    pub ipv6: bool,
    /// Whether links are watched by BFD.
    pub bfd: Option<Bfd>,
    /// Whether BIRD gets notifications of changes from the kernel. Otherwise it scans the interfaces every minute.
    pub kernel_events: bool,
}

/// A configuration that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A number out of bounds.
    #[error("{what} is {value}, must be at least {least}")]
    TooSmall {
        /// Which number.
        what: &'static str,
        /// The wrong value.
        value: u16,
        /// The bound.
        least: u32,
    },
    /// No address family is requested.
    #[error("routing needs IPv4 or IPv6 or both")]
    NoFamily,
    /// The software does not support the protocol.
    #[error("BIRD does not speak IS-IS, and FRR's Babel finds no neighbours")]
    NotSpoken,
    /// A node listed as a station's satellite is not a satellite.
    #[error("`{0}` is no satellite")]
    NotASatellite(String),
}

impl Spec {
    /// Cost of sending over a link between such ends.
    #[must_use]
    pub fn cost(&self, span: Span) -> u16 {
        match span {
            Span::Space => self.isl_cost,
            Span::Access => self.gsl_cost,
            Span::Ground => self.cable_cost,
        }
    }

    /// Finds everything that is wrong with the numbers.
    ///
    /// # Errors
    /// All findings.
    pub fn check(&self) -> Result<(), Vec<SpecError>> {
        let mut errors = Vec::new();
        let numbers = [
            ("hello time in seconds", self.hello_s, 1),
            (
                "dead time in seconds",
                self.dead_s,
                2 * u32::from(self.hello_s),
            ),
            (
                "hello time of ground links in seconds",
                self.ground_hello_s,
                1,
            ),
            (
                "dead time of ground links in seconds",
                self.ground_dead_s,
                2 * u32::from(self.ground_hello_s),
            ),
            (
                "retransmit time of ground links in seconds",
                self.ground_retransmit_s,
                1,
            ),
            ("retransmit time in seconds", self.retransmit_s, 1),
            ("tick in seconds", self.tick_s, 1),
            ("ISL cost", self.isl_cost, 1),
            ("ground link cost", self.gsl_cost, 1),
        ];
        for (what, value, least) in numbers {
            if u32::from(value) < least {
                errors.push(SpecError::TooSmall { what, value, least });
            }
        }
        if !self.ipv4 && !self.ipv6 {
            errors.push(SpecError::NoFamily);
        }
        // FRR 8.4.4's babeld sends no hello (seen with two nodes and one veth).
        let spoken = match self.protocol {
            Protocol::Ospf => true,
            Protocol::Isis => self.software == Software::Frr,
            Protocol::Babel => self.software == Software::Bird,
        };
        if !spoken {
            errors.push(SpecError::NotSpoken);
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }
}
