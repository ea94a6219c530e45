//! All the states that antennas may be in where what came before is not known.
//!
//! A rule is a function from an antenna's state and the sky to its next state. Carried out on every state that there may
//! be, it leaves fewer and fewer: whoever kept a satellite loses it, and all who lose one at the same time take the same
//! one. Once a single state is left, it is the right one whatever came before: coupling from the past (Propp and Wilson,
//! "Exact sampling with coupled Markov chains", Random Structures and Algorithms 9, 1996), here without any chance in it.

use super::{Beam, Beams, Rules};
use std::collections::BTreeSet;

/// Every state that each antenna may be in, by its place among all.
#[derive(Debug, Clone)]
pub(crate) struct Possible(Vec<Antenna>);

#[derive(Debug, Clone, PartialEq)]
enum Antenna {
    /// Any of these.
    Open(Vec<Beam>),
    /// It is known which it is at the end.
    Known(Beam),
}

impl Possible {
    /// How many states there are to decide from, of all antennas together.
    pub(crate) fn count(&self) -> usize {
        let open = |antenna: &Antenna| match antenna {
            Antenna::Open(states) => states.len(),
            Antenna::Known(_) => 0,
        };
        self.0.iter().map(open).sum()
    }
}

impl Beams {
    /// Whether what an antenna does depends on nothing but the sky and its own state before: no satellite can be out of
    /// beams, nobody looks at how many a satellite serves, and no two antennas of a station want the same.
    pub(crate) fn each_by_itself(&self, rules: &Rules<'_>) -> bool {
        let antennas = self.states.len();
        // While it changes, an antenna has two.
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

    /// Nothing is known of any antenna, but that it has chosen before.
    pub(crate) fn unknown(&mut self) -> Possible {
        self.reset();
        self.started = true;
        Possible(vec![Antenna::Open(Vec::new()); self.states.len()])
    }

    /// Of each terminal, whether it is not known of all its antennas what they do at the end.
    pub(crate) fn open(&self, possible: &Possible) -> Vec<bool> {
        let open = |antenna: &Antenna| matches!(antenna, Antenna::Open(_));
        let of = |ends: &[usize]| possible.0[ends[0]..ends[1]].iter().any(open);
        self.starts.windows(2).map(of).collect()
    }

    /// Lets every terminal choose from `found`, from every state that its antennas may be in. With `any`, each may besides
    /// have had any satellite that it can use, or none, and not be changing. One that it can no longer use is as good as
    /// none.
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

    /// What an antenna does that was in a state, all others using nothing.
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

    /// Takes over what is known at the end: of which antennas a single state is left. True when that is all; the others
    /// have to begin anew, farther back.
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
