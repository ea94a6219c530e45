//! The assignment of satellites to antennas: choices of the policies, and the cost of a change.

mod possible;

use crate::decided::Decided;
use crate::ground::Seen;
use crate::layout::Layout;
use crate::node::NodeId;
use crate::policy::{Candidate, Choice, Policy};
use crate::spec::GslSpec;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

pub(crate) use possible::Possible;

/// One antenna of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Beam {
    /// The satellite it uses, or is turning to.
    pub(crate) serving: Option<NodeId>,
    /// The satellite it keeps until the new link is up.
    pub(crate) old: Option<NodeId>,
    /// When the link to `serving` comes up, ns after the start of the lab; 0 when it is.
    pub(crate) up_from_ns: u64,
}

/// A satellite that a terminal can use now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) satellite: NodeId,
    pub(crate) seen: Seen,
    pub(crate) remaining_s: f64,
    /// It will not be usable long enough for a change to another one in time.
    pub(crate) leaving: bool,
}

/// All antennas of a lab and the satellites that they use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beams {
    /// By terminal, station by station; `starts` has the first antenna of each terminal.
    pub(crate) states: Vec<Beam>,
    starts: Vec<usize>,
    /// First terminal of each station, and one past the last.
    stations: Vec<usize>,
    /// The satellites that each terminal can use, by node number within a terminal.
    pub(crate) found: Vec<Found>,
    /// The first entry of each terminal in `found`.
    pub(crate) found_starts: Vec<usize>,
    /// Links to the ground of each satellite.
    load: Vec<u32>,
    scratch: Vec<Candidate>,
    /// The part of the constellations that each satellite is in; see [`Candidate::part`].
    parts: Arc<[u32]>,
    /// For each part, the number of stations that can use a satellite of it; empty if no policy needs that.
    stations_of_part: Vec<u32>,
    /// False until stations have chosen once: a first choice is no change.
    started: bool,
    /// The antennas that users point by command: at this satellite, or at none.
    pub(crate) pointed: BTreeMap<usize, Option<NodeId>>,
}

/// The rules that decisions depend on besides the sky.
pub(crate) struct Rules<'a> {
    /// By rule of the spec.
    pub(crate) policies: &'a [Arc<dyn Policy>],
    pub(crate) step: u64,
    pub(crate) step_ns: u64,
    /// Node number of the first station.
    pub(crate) first_station: usize,
    /// How many links a satellite can have, by its place in the node table.
    pub(crate) capacity: &'a [u32],
    /// Gives the shell that an antenna is for, and the rule by which a terminal chooses.
    pub(crate) layout: &'a Layout,
    /// With bent-pipe satellites: the stations that feed satellites, and the satellites that need feeders.
    pub(crate) bent_pipe: Option<&'a BentPipe>,
    /// Decisions that replace the rules.
    pub(crate) decided: &'a Decided,
}

/// The stations that feed satellites, and the satellites that only relay to feeders.
#[derive(Debug, Clone, Default)]
pub(crate) struct BentPipe {
    /// By station.
    pub(crate) feeders: Vec<bool>,
    /// Whether each satellite, by its index in the node table, only relays to feeders.
    pub(crate) relays: Vec<bool>,
}

impl<'a> Rules<'a> {
    pub(crate) fn new(
        layout: &'a Layout,
        policies: &'a [Arc<dyn Policy>],
        capacity: &'a [u32],
        bent_pipe: Option<&'a BentPipe>,
        decided: &'a Decided,
        step: u64,
    ) -> Rules<'a> {
        Rules {
            policies,
            step,
            step_ns: layout.spec().step_ns,
            first_station: layout.satellite_count(),
            capacity,
            layout,
            bent_pipe,
            decided,
        }
    }

    fn t_ns(&self) -> u64 {
        self.step * self.step_ns
    }

    /// Whether an antenna, by its place among all, may use a satellite.
    fn fits(&self, beam: usize, satellite: NodeId) -> bool {
        self.layout.aim(beam).is_none_or(|aim| {
            let seat = self.layout.node(satellite).seat;
            seat.is_some_and(|s| (s.constellation, s.shell) == aim)
        })
    }

    /// Returns the policy of a terminal, and the cost of a change.
    fn of(&self, terminal: usize) -> (&dyn Policy, &GslSpec) {
        let rule = self.layout.terminals()[terminal].rule;
        (&*self.policies[rule], &self.layout.spec().rules[rule])
    }

    /// Whether the choice of a terminal depends on its previous choice.
    fn remembers(&self, terminal: usize) -> bool {
        let (policy, rule) = self.of(terminal);
        !policy.memoryless() || rule.keeps_old()
    }
}

impl Beams {
    /// Creates the antennas of all stations, before any has chosen.
    pub(crate) fn new(layout: &Layout) -> Beams {
        let terminals = layout.terminals();
        let starts: Vec<usize> = std::iter::once(0)
            .chain(terminals.iter().map(|terminal| terminal.beams.end))
            .collect();
        let stations = 0..layout.sites().len();
        Beams {
            states: vec![Beam::default(); starts[terminals.len()]],
            starts,
            stations: std::iter::once(0)
                .chain(stations.map(|station| layout.terminal_places(station).end))
                .collect(),
            load: vec![0; layout.satellite_count()],
            parts: parts(layout).into(),
            ..Beams::default()
        }
    }

    /// Continues with the satellites of the same antennas in another lab of the same shape.
    pub(crate) fn continue_from(&mut self, before: &Beams) {
        self.states.clone_from(&before.states);
        self.started = before.started;
        self.pointed.clone_from(&before.pointed);
    }

    /// Resets the state: the next decision is a first one.
    pub(crate) fn reset(&mut self) {
        self.states.fill(Beam::default());
        self.started = false;
    }

    /// The antennas of a terminal.
    pub(crate) fn of(&self, terminal: usize) -> &[Beam] {
        &self.states[self.places(terminal)]
    }

    fn places(&self, terminal: usize) -> Range<usize> {
        self.starts[terminal]..self.starts[terminal + 1]
    }

    /// The terminals of a station.
    fn terminals_of(&self, station: usize) -> Range<usize> {
        self.stations[station]..self.stations[station + 1]
    }

    fn station_count(&self) -> usize {
        self.stations.len() - 1
    }

    /// Counts the links to the ground of each satellite, those that end and those that come up included.
    pub(crate) fn count_links(&self, links: &mut Vec<u32>) {
        links.clear();
        links.resize(self.load.len(), 0);
        let ends = self.states.iter().flat_map(|b| [b.serving, b.old]);
        ends.flatten().for_each(|s| links[s.index()] += 1);
    }

    /// Lets every station choose, in order, from `found`.
    pub(crate) fn decide(&mut self, rules: &Rules<'_>) {
        self.load.fill(0);
        self.count_stations(rules);
        let Some(bent_pipe) = rules.bent_pipe else {
            self.decide_group(rules, |_| true);
            self.started = true;
            return;
        };
        // Feeders choose first: the others can only use satellites that feeders use.
        self.decide_group(rules, |station| bent_pipe.feeders[station]);
        self.keep_fed(bent_pipe);
        self.decide_group(rules, |station| !bent_pipe.feeders[station]);
        self.started = true;
    }

    /// Counts how many stations can use each part, before any of them chooses.
    fn count_stations(&mut self, rules: &Rules<'_>) {
        self.stations_of_part.clear();
        if !rules.policies.iter().any(|policy| policy.wants_stations()) {
            return;
        }
        self.stations_of_part.resize(self.parts.len(), 0);
        let mut own: Vec<u32> = Vec::new();
        for station in 0..self.station_count() {
            own.clear();
            let found = self.terminals_of(station).flat_map(|t| self.found_of(t));
            own.extend(found.map(|f| self.parts[f.satellite.index()]));
            own.sort_unstable();
            own.dedup();
            for part in &own {
                self.stations_of_part[*part as usize] += 1;
            }
        }
    }

    /// Lets the stations of a group choose, in order. Those of a station's terminals that remember come first:
    /// the others choose from the rest, so that their previous choice does not matter.
    fn decide_group(&mut self, rules: &Rules<'_>, member: impl Fn(usize) -> bool) {
        self.count_held(rules, &member);
        for station in (0..self.station_count()).filter(|s| member(*s)) {
            let terminals = self.terminals_of(station);
            for terminal in terminals.clone().filter(|t| rules.remembers(*t)) {
                for beam in self.places(terminal) {
                    self.decide_one(rules, terminal, beam);
                }
            }
            for terminal in terminals.filter(|t| !rules.remembers(*t)) {
                self.decide_afresh(rules, terminal);
            }
        }
    }

    /// Removes satellites that only relay, and that no feeder uses, from the candidates of other stations.
    fn keep_fed(&mut self, bent_pipe: &BentPipe) {
        let mut fed = vec![false; self.load.len()];
        for station in (0..self.station_count()).filter(|s| bent_pipe.feeders[*s]) {
            for beam in self.terminals_of(station).flat_map(|t| self.of(t)) {
                for satellite in [beam.serving, beam.old].into_iter().flatten() {
                    fed[satellite.index()] = true;
                }
            }
        }
        let mut kept = 0;
        for station in 0..self.station_count() {
            for terminal in self.terminals_of(station) {
                let range = self.found_starts[terminal]..self.found_starts[terminal + 1];
                self.found_starts[terminal] = kept;
                for i in range {
                    let satellite = self.found[i].satellite.index();
                    if bent_pipe.feeders[station] || !bent_pipe.relays[satellite] || fed[satellite]
                    {
                        self.found[kept] = self.found[i];
                        kept += 1;
                    }
                }
            }
        }
        self.found.truncate(kept);
        let last = self.found_starts.len() - 1;
        self.found_starts[last] = kept;
    }

    /// The part of the constellations that a satellite is in; see [`Candidate::part`].
    pub(crate) fn part_of(&self, satellite: NodeId) -> u32 {
        self.parts[satellite.index()]
    }

    /// The satellites that a terminal can use.
    pub(crate) fn found_of(&self, terminal: usize) -> &[Found] {
        &self.found[self.found_starts[terminal]..self.found_starts[terminal + 1]]
    }

    fn sees(&self, terminal: usize, satellite: NodeId) -> bool {
        self.found_of(terminal)
            .binary_search_by_key(&satellite, |f| f.satellite)
            .is_ok()
    }

    /// Counts the links that can continue, so that no antenna takes a beam that another still uses.
    fn count_held(&mut self, rules: &Rules<'_>, member: impl Fn(usize) -> bool) {
        for station in (0..self.station_count()).filter(|s| member(*s)) {
            for terminal in self.terminals_of(station).filter(|t| rules.remembers(*t)) {
                for beam in self.places(terminal) {
                    let held = self.states[beam];
                    for satellite in [held.serving, held.old].into_iter().flatten() {
                        if self.sees(terminal, satellite) {
                            self.load[satellite.index()] += 1;
                        }
                    }
                }
            }
        }
    }

    /// Returns the satellites that the other antennas of a terminal's station use, as far as that is decided:
    /// those of terminals that remember, and of those before a terminal that does not. `except` is the antenna
    /// that chooses, if it is one that remembers.
    fn taken(&self, rules: &Rules<'_>, terminal: usize, except: Option<usize>) -> Vec<NodeId> {
        let station = rules.layout.terminals()[terminal].station;
        let asks_afresh = except.is_none();
        let decided = |t: &usize| rules.remembers(*t) || (asks_afresh && *t < terminal);
        self.terminals_of(station)
            .filter(decided)
            .flat_map(|t| self.places(t))
            .filter(|beam| Some(*beam) != except)
            .flat_map(|beam| [self.states[beam].serving, self.states[beam].old])
            .flatten()
            .collect()
    }

    /// A policy without memory: the set of satellites first, then antennas that have one of them keep it.
    fn decide_afresh(&mut self, rules: &Rules<'_>, terminal: usize) {
        let beams = self.places(terminal);
        let mut taken = self.taken(rules, terminal, None);
        if beams.clone().any(|beam| rules.layout.aim(beam).is_some()) {
            // Each antenna has a shell of its own, so two antennas of this terminal never want the same
            // satellite.
            for beam in beams {
                let chosen = self.choose(rules, (terminal, beam), None, &taken);
                if let Some(satellite) = chosen {
                    self.load[satellite.index()] += 1;
                }
                self.settle(rules, (terminal, beam), chosen, false);
            }
            return;
        }
        // Antennas that are pointed by command come first; the others do not exchange satellites with them.
        let (pointed, beams): (Vec<usize>, Vec<usize>) =
            beams.partition(|beam| self.pointed.contains_key(beam));
        for beam in pointed {
            let chosen = self.choose(rules, (terminal, beam), None, &taken);
            if let Some(satellite) = chosen {
                self.load[satellite.index()] += 1;
                taken.push(satellite);
            }
            self.settle(rules, (terminal, beam), chosen, false);
        }
        let others = taken.len();
        for &beam in &beams {
            let chosen = self.choose(rules, (terminal, beam), None, &taken);
            if let Some(satellite) = chosen {
                self.load[satellite.index()] += 1;
                taken.push(satellite);
            }
        }
        let mut wanted = taken.split_off(others);
        for &beam in &beams {
            let own = self.states[beam].serving;
            if let Some(at) = wanted.iter().position(|w| Some(*w) == own) {
                wanted.remove(at);
                self.settle(rules, (terminal, beam), own, false);
            } else {
                self.states[beam].old = own; // marks the antenna as free, until below
                self.states[beam].serving = None;
            }
        }
        let mut wanted = wanted.into_iter();
        for beam in beams {
            if self.states[beam].serving.is_none() {
                let before = self.states[beam].old.take();
                self.states[beam].serving = before;
                self.settle(rules, (terminal, beam), wanted.next(), false);
            }
        }
    }

    /// An antenna that remembers.
    fn decide_one(&mut self, rules: &Rules<'_>, terminal: usize, beam: usize) {
        let t_ns = rules.t_ns();
        let keeps_old = rules.of(terminal).1.keeps_old();
        let state = &mut self.states[beam];
        if state.up_from_ns <= t_ns {
            state.up_from_ns = 0;
            if let Some(old) = state.old.take()
                && self.sees(terminal, old)
            {
                self.load[old.index()] -= 1;
            }
        }
        if let Some(old) = self.states[beam].old
            && !self.sees(terminal, old)
        {
            self.states[beam].old = None;
        }
        let state = self.states[beam];
        let serving = state.serving.filter(|s| self.sees(terminal, *s));
        if keeps_old && state.up_from_ns > 0 {
            // A change in progress is completed, or cancelled when its target is lost.
            match (serving, state.old) {
                (Some(_), _) => return,
                (None, Some(old)) => {
                    self.states[beam] = Beam {
                        serving: Some(old),
                        ..Beam::default()
                    };
                }
                (None, None) => {}
            }
        }
        let before = self.states[beam].serving;
        let still = before.filter(|s| self.sees(terminal, *s));
        if let Some(own) = still {
            self.load[own.index()] -= 1;
        }
        let others = self.taken(rules, terminal, Some(beam));
        let chosen = self.choose(rules, (terminal, beam), still, &others);
        if let Some(satellite) = chosen {
            self.load[satellite.index()] += 1;
        }
        self.settle(rules, (terminal, beam), chosen, still.is_some());
        if let (Some(old), true) = (self.states[beam].old, chosen != before) {
            self.load[old.index()] += 1;
        }
    }

    /// Calls the policy with the candidates that are free and not in `taken`.
    fn choose(
        &mut self,
        rules: &Rules<'_>,
        (terminal, beam): (usize, usize),
        serving: Option<NodeId>,
        taken: &[NodeId],
    ) -> Option<NodeId> {
        let (policy, rule) = rules.of(terminal);
        let station = rules.layout.terminals()[terminal].station;
        let found = &self.found[self.found_starts[terminal]..self.found_starts[terminal + 1]];
        let free = |f: &&Found| {
            self.load[f.satellite.index()] < rules.capacity[f.satellite.index()]
                && !taken.contains(&f.satellite)
                && rules.fits(beam, f.satellite)
        };
        // With foresight, only satellites that stay long enough are candidates, if there are any.
        let stays = rule.keeps_old() && found.iter().filter(free).any(|f| !f.leaving);
        self.scratch.clear();
        if let Some(pointed) = self.pointed.get(&beam) {
            let mut usable = found.iter().filter(free);
            let own = usable.find(|f| Some(f.satellite) == *pointed);
            return own.map(|f| f.satellite);
        }
        let usable = found.iter().filter(free).filter(|f| !(stays && f.leaving));
        self.scratch.extend(usable.map(|f| {
            Candidate {
                satellite: f.satellite,
                range_m: f.seen.range_m,
                sin_elevation: f.seen.sin_elevation,
                load: self.load[f.satellite.index()],
                remaining_s: f.remaining_s,
                part: self.parts[f.satellite.index()],
                stations: self
                    .stations_of_part
                    .get(self.parts[f.satellite.index()] as usize)
                    .copied()
                    .unwrap_or(0),
            }
        }));
        if let Some(wanted) = rules.decided.satellites(station, rules.t_ns()) {
            let usable = |s: &&NodeId| self.scratch.iter().any(|c| c.satellite == **s);
            return wanted.iter().find(usable).copied();
        }
        let choice = Choice {
            step: rules.step,
            step_ns: rules.step_ns,
            station: NodeId((rules.first_station + station) as u32),
            serving,
            first: !self.started,
            candidates: &self.scratch,
        };
        policy.choose(&choice)
    }

    /// Carries a choice out. `held`: the satellite before could still be used.
    fn settle(
        &mut self,
        rules: &Rules<'_>,
        (terminal, beam): (usize, usize),
        chosen: Option<NodeId>,
        held: bool,
    ) {
        let (_, rule) = rules.of(terminal);
        let t_ns = rules.t_ns();
        let state = &mut self.states[beam];
        if state.up_from_ns <= t_ns {
            state.up_from_ns = 0;
        }
        if chosen == state.serving {
            return;
        }
        let keeps = rule.keeps_old() && held && chosen.is_some();
        let costs = self.started && chosen.is_some() && rule.outage_ns > 0;
        *state = Beam {
            serving: chosen,
            old: state.serving.filter(|_| keeps && costs),
            up_from_ns: if costs { t_ns + rule.outage_ns } else { 0 },
        };
    }
}

/// Returns the part of each satellite; its number is the lowest index in the node table of one of its
/// satellites.
fn parts(layout: &Layout) -> Vec<u32> {
    let satellites = layout.satellite_count();
    // A forest: each place points to a lower one of its part, or to itself.
    let mut lower: Vec<usize> = (0..satellites).collect();
    let root = |lower: &mut Vec<usize>, mut place: usize| {
        while lower[place] != place {
            lower[place] = lower[lower[place]];
            place = lower[place];
        }
        place
    };
    for link in layout.isl_links() {
        let ends = [link.a, link.b].map(|port| layout.port(port).node.index());
        if ends.iter().all(|place| *place < satellites) {
            let [a, b] = ends.map(|place| root(&mut lower, place));
            lower[a.max(b)] = a.min(b);
        }
    }
    (0..satellites)
        .map(|place| root(&mut lower, place) as u32)
        .collect()
}
