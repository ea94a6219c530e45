//! The common result of all orbit sources.

use constel_scenario::model::{self, WalkerPattern};
use constel_topology::{Neighbours, Satellite, Wrap};

use crate::catalogue::Catalogued;
use crate::sky;

/// The result of an orbit source: orbits and seats in the same order, and the neighbour relation of planes.
pub(crate) struct Flown {
    pub(crate) orbits: sky::Orbits,
    pub(crate) satellites: Vec<Satellite>,
    /// The catalogue entry of each satellite.
    pub(crate) catalogued: Vec<Option<Catalogued>>,
    pub(crate) neighbours: Neighbours,
}

/// Returns how the last plane and the first are neighbours.
pub(crate) fn wrap_of(pattern: WalkerPattern, isl: &model::Isl) -> Wrap {
    let seam = matches!(isl, model::Isl::PlusGrid(grid) if grid.seam);
    match (pattern, seam) {
        (WalkerPattern::Delta, _) => Wrap::Delta,
        (WalkerPattern::Star, false) => Wrap::StarSeamOff,
        (WalkerPattern::Star, true) => Wrap::StarSeamOn,
    }
}
