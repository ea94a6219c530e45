//! The door for decisions at run time: the satellites that stations could use, and decisions that replace the rules.

use super::Stepper;
use crate::node::NodeId;
use crate::policy::Candidate;
use crate::spec::{Chosen, Switched};

/// The satellites that a station could use in the next step, whatever it chooses.
#[derive(Debug, Clone, PartialEq)]
pub struct StationCandidates {
    /// The station.
    pub station: NodeId,
    /// The satellites that its antennas use in the step before, by node number.
    pub serving: Vec<NodeId>,
    /// The satellites above its mask, not hidden, within reach of its radio and not failed, by node number. Satellites without a free
    /// beam are included. `load` counts their links to the ground in the step before.
    pub satellites: Vec<Candidate>,
}

impl Stepper {
    /// Returns the satellites that each station could use in the next step. The result of [`Stepper::advance`] does not change by this.
    pub fn candidates(&mut self) -> Vec<StationCandidates> {
        self.tells_remaining = true;
        self.locate();
        self.find();
        let mut links = Vec::new();
        self.beams.count_links(&mut links);
        let stations = 0..self.layout.sites().len();
        stations
            .map(|station| self.candidates_of(station, &links))
            .collect()
    }

    fn candidates_of(&self, station: usize, links: &[u32]) -> StationCandidates {
        let (mut serving, mut satellites) = (Vec::new(), Vec::new());
        for terminal in self.layout.terminal_places(station) {
            let antennas = self.beams.of(terminal).iter();
            serving.extend(antennas.filter_map(|beam| beam.serving));
            let found = self.beams.found_of(terminal).iter();
            satellites.extend(found.map(|found| Candidate {
                satellite: found.satellite,
                range_m: found.seen.range_m,
                sin_elevation: found.seen.sin_elevation,
                load: links[found.satellite.index()],
                remaining_s: found.remaining_s,
                part: self.beams.part_of(found.satellite),
                stations: 0,
            }));
        }
        serving.sort_unstable();
        // Terminals of a station may see the same satellite.
        satellites.sort_by_key(|candidate| candidate.satellite);
        satellites.dedup_by_key(|candidate| candidate.satellite);
        StationCandidates {
            station: self.layout.station_node(station),
            serving,
            satellites,
        }
    }

    /// Lets a station use these satellites, the most wanted first, from an instant on that is later than its other decisions.
    ///
    /// # Panics
    /// When `station` is no station.
    pub fn choose(&mut self, station: NodeId, chosen: Chosen) {
        let place = station.index() - self.layout.satellite_count();
        self.decided.choose(place, chosen);
    }

    /// Switches a laser or a cable off or on, from an instant on that is later than its other decisions. A pair without either is
    /// never up, so that switching it has no effect.
    pub fn switch(&mut self, switched: Switched) {
        self.decided.switch(switched);
    }
}
