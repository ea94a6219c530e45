//! The sets of states that antennas may be in when their past is not known.
//!
//! A rule is a function from an antenna's state and the sky to its next state. Applied to every possible state,
//! it leaves fewer and fewer states: an antenna that kept a satellite loses it, and all states that lose a
//! satellite at the same time choose the same one. Once a single state is left, it is the right one whatever
//! the past was: coupling from the past (Propp and Wilson, "Exact sampling with coupled Markov chains", Random
//! Structures and Algorithms 9, 1996), here without randomness.

use super::{Beam, Beams, Rules};
use std::collections::BTreeSet;

/// Every state that each antenna may be in, by its place among all.
#[derive(Debug, Clone)]
pub(crate) struct Possible(Vec<Antenna>);

#[derive(Debug, Clone, PartialEq)]
enum Antenna {
    /// Any of these.
    Open(Vec<Beam>),
    /// The only state that the antenna can have at the end.
    Known(Beam),
}

impl Possible {
    /// Returns the number of states to decide from, of all antennas together.
    pub(crate) fn count(&self) -> usize {
        let open = |antenna: &Antenna| match antenna {
            Antenna::Open(states) => states.len(),
            Antenna::Known(_) => 0,
        };
        self.0.iter().map(open).sum()
    }
}

impl Beams {
    /// Whether an antenna's action depends only on the sky and its own previous state: no satellite can be out
    /// of beams, no rule considers how many links a satellite has, and no two antennas of a station can choose
    /// the same satellite.
    pub(crate) fn each_by_itself(&self, rules: &Rules<'_>) -> bool {
        let antennas = self.states.len();
        // An antenna that changes its satellite has two links.
        let beams_for_all = |capacity: &u32| *capacity as usize >= 2 * antennas;
        let heeds_load = rules.policies.iter().any(|policy| policy.heeds_load());
        let shared = heeds_load || !rules.capacity.iter().all(beams_for_all);
        let mut stations = 0..self.station_count();
        rules.bent_pipe.is_none()
            && (antennas <= 1 || !shared)
            && stations.all(|station| self.want_different(rules, station))
    }

    /// Whether no satellite is for two antennas of a station.
    fn want_different(&self, rules: &Rules<'_>, station: usize) -> bool {
        let layout = rules.layout;
        let mut wanted = BTreeSet::new();
        let mut none_twice = true;
        for terminal in self.terminals_of(station) {
            for beam in self.places(terminal) {
                for (shell, constellation) in layout.spec().constellations.iter().enumerate() {
                    if layout.mask(terminal, shell).is_none() {
                        continue;
                    }
                    let shells: BTreeSet<u16> =
                        constellation.satellites.iter().map(|s| s.shell).collect();
                    let fits = |s: &u16| {
                        let aim = layout.aim(beam);
                        aim.is_none_or(|aim| aim == (shell as u16, *s))
                    };
                    for own in shells.into_iter().filter(fits) {
                        none_twice &= wanted.insert((shell, own));
                    }
                }
            }
        }
        none_twice
    }

    /// Returns the state of complete uncertainty: every antenna has chosen before, and its state is not known.
    pub(crate) fn unknown(&mut self) -> Possible {
        self.reset();
        self.started = true;
        Possible(vec![Antenna::Open(Vec::new()); self.states.len()])
    }

    /// Returns, for each terminal, whether the final state of some of its antennas is still unknown.
    pub(crate) fn open(&self, possible: &Possible) -> Vec<bool> {
        let open = |antenna: &Antenna| matches!(antenna, Antenna::Open(_));
        let of = |ends: &[usize]| possible.0[ends[0]..ends[1]].iter().any(open);
        self.starts.windows(2).map(of).collect()
    }

    /// Lets every terminal choose from `found`, from every state that its antennas may be in. With `any`, each
    /// antenna may also have had any satellite that it can use, or none, without a change in progress. A
    /// satellite that it can no longer use has the effect of none.
    pub(crate) fn decide_possible(
        &mut self,
        rules: &Rules<'_>,
        possible: &mut Possible,
        any: bool,
    ) {
        self.load.fill(0);
        for terminal in 0..self.starts.len() - 1 {
            for beam in self.places(terminal) {
                let Antenna::Open(states) = &mut possible.0[beam] else {
                    continue;
                };
                if any {
                    let found = self.found_of(terminal).iter().map(|f| f.satellite);
                    let had = found.filter(|satellite| rules.fits(beam, *satellite));
                    states.push(Beam::default());
                    states.extend(had.map(|satellite| Beam {
                        serving: Some(satellite),
                        ..Beam::default()
                    }));
                }
                for state in &mut *states {
                    *state = self.decide_from(rules, (terminal, beam), *state);
                }
                states.sort_unstable();
                states.dedup();
            }
        }
    }

    /// Returns the next state of an antenna that was in `state`, if all other antennas use nothing.
    fn decide_from(
        &mut self,
        rules: &Rules<'_>,
        (terminal, beam): (usize, usize),
        state: Beam,
    ) -> Beam {
        self.states[beam] = state;
        for satellite in [state.serving, state.old].into_iter().flatten() {
            if self.sees(terminal, satellite) {
                self.load[satellite.index()] += 1;
            }
        }
        self.decide_one(rules, terminal, beam);
        let after = std::mem::take(&mut self.states[beam]);
        let ends = [state.serving, state.old, after.serving, after.old];
        for satellite in ends.into_iter().flatten() {
            self.load[satellite.index()] = 0;
        }
        after
    }

    /// Marks the antennas as known for which a single state is left. Returns true when that is all of them; the
    /// others need a start farther back.
    pub(crate) fn know(&mut self, possible: &mut Possible) -> bool {
        for antenna in &mut possible.0 {
            if let Antenna::Open(states) = antenna {
                match states[..] {
                    [one] => *antenna = Antenna::Known(one),
                    _ => states.clear(),
                }
            }
        }
        let known = possible.0.iter().map(|antenna| match antenna {
            Antenna::Known(state) => Some(*state),
            Antenna::Open(_) => None,
        });
        let Some(states) = known.collect() else {
            return false;
        };
        self.states = states;
        self.started = true;
        true
    }
}
