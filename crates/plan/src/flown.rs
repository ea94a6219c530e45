//! What an orbit source gives to a lab, whichever it is.

use constel_scenario::model::{self, WalkerPattern};
use constel_topology::{Neighbours, Satellite, Wrap};

use crate::catalogue::Catalogued;
use crate::sky;

/// What an orbit source gives: orbits and seats in the same order, and how planes are neighbours.
pub(crate) struct Flown {
    pub(crate) orbits: sky::Orbits,
    pub(crate) satellites: Vec<Satellite>,
    /// What a catalogue calls each of them.
    pub(crate) catalogued: Vec<Option<Catalogued>>,
    pub(crate) neighbours: Neighbours,
}

/// How the last plane and the first are neighbours.
pub(crate) fn wrap_of(pattern: WalkerPattern, isl: &model::Isl) -> Wrap {
    let seam = matches!(isl, model::Isl::PlusGrid(grid) if grid.seam);
    match (pattern, seam) {
        (WalkerPattern::Delta, _) => Wrap::Delta,
        (WalkerPattern::Star, false) => Wrap::StarSeamOff,
        (WalkerPattern::Star, true) => Wrap::StarSeamOn,
    }
}
