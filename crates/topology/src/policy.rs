//! How a station chooses its satellite. One rule is built in; the trait is the door for more.

use crate::node::NodeId;
use crate::spec::GslPolicy;

/// A satellite a station could use now: above the mask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Which.
    pub satellite: NodeId,
    /// How far, metres.
    pub range_m: f64,
    /// Sine of its elevation.
    pub sin_elevation: f64,
}

impl Candidate {
    /// Its elevation, degrees.
    #[must_use]
    pub fn elevation_deg(&self) -> f64 {
        self.sin_elevation.clamp(-1.0, 1.0).asin().to_degrees()
    }
}

/// What a station knows when it chooses.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// Step number.
    pub step: u64,
    /// The station.
    pub station: NodeId,
    /// The satellite it used in the step before; `None` when dark or at the start.
    pub serving: Option<NodeId>,
    /// What is above the mask, by node number.
    pub candidates: &'a [Candidate],
}

/// A rule of choice. Must be a pure function of its argument, ties broken by something deterministic.
pub trait Policy: Send + Sync {
    /// The satellite to use in this step; `None` leaves the station dark. Must be one of the candidates.
    fn choose(&self, choice: &Choice<'_>) -> Option<NodeId>;

    /// True when `choose` ignores `serving`, so that a step can be computed without those before it.
    fn memoryless(&self) -> bool;
}

/// [`GslPolicy::Nearest`].
#[derive(Debug, Clone, Copy)]
pub struct Nearest;

impl Policy for Nearest {
    fn choose(&self, choice: &Choice<'_>) -> Option<NodeId> {
        choice
            .candidates
            .iter()
            .min_by(|a, b| {
                a.range_m
                    .total_cmp(&b.range_m)
                    .then(a.satellite.cmp(&b.satellite))
            })
            .map(|c| c.satellite)
    }

    fn memoryless(&self) -> bool {
        true
    }
}

/// The rule a spec names.
#[must_use]
pub fn built_in(policy: GslPolicy) -> Box<dyn Policy> {
    match policy {
        GslPolicy::Nearest => Box::new(Nearest),
    }
}
