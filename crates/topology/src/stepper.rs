//! Steps through time: positions, decisions, edges. It reuses its buffers and keeps only the state that
//! decisions need.

mod adopt;
mod decisions;
mod find;
mod located;
mod walk;

use crate::beams::{Beams, BentPipe, Rules};
use crate::decided::{Decided, Ends, is_among};
use crate::down::Down;
use crate::edges::{Drafts, GroundEdges, Scene};
use crate::failures::{self, Broken, Failures};
use crate::ground::{Flight, Watcher};
use crate::ground_link::{Path, share};
use crate::layout::Layout;
use crate::network;
use crate::node::NodeId;
use crate::policy::{Policy, built_in};
use crate::sky::Sky;
use crate::snapshot::{Edge, Snapshot};
use crate::visible::{CapIndex, Window};
use crate::why::{Moment, isl_state, sin_sq_cutoff};
use std::num::NonZeroU32;
use std::sync::Arc;

pub use decisions::StationCandidates;
use located::Located;
use walk::Near;
pub use walk::StepRefusal;

/// Produces one [`Snapshot`] after another.
///
/// A step's snapshot is a pure function of (layout, sky, policy, step number): [`Stepper::at_step`] computed
/// from scratch equals stepping there from 0, and mostly costs far less ([`Stepper::try_step`]).
pub struct Stepper {
    layout: Arc<Layout>,
    sky: Arc<dyn Sky>,
    /// By rule of the spec.
    policies: Vec<Arc<dyn Policy>>,
    next_step: u64,
    /// Positions of all nodes at the start of `next_step`, if already known.
    now: Located,
    now_known: bool,
    /// Positions at its end, if already known.
    later: Located,
    later_known: bool,
    /// Positions when a change that began now would be over, by rule; only those with foresight are known.
    ahead: Vec<Located>,
    beams: Beams,
    failures: Failures,
    /// Whether none of the spec's failures occurs.
    foresees: bool,
    broken: Broken,
    /// For each laser link, the time when it came or comes up, ns; 0 since the start. Only with acquisition
    /// times.
    isl_up: Vec<Reach>,
    isl_started: bool,
    watchers: Vec<Watcher>,
    /// Motion of satellites, for policies that consider how long they stay.
    flights: Vec<Flight>,
    /// By terminal, then by constellation.
    windows: Vec<Window>,
    cutoffs: Vec<f64>,
    /// The number of ground links that a satellite can have.
    capacity: Vec<u32>,
    indexes: Vec<CapIndex>,
    /// The number of links to the ground of each satellite; counted only if they share a capacity.
    links: Vec<u32>,
    drafts: Drafts,
    bent_pipe: Option<BentPipe>,
    /// Decisions that replace the rules.
    decided: Decided,
    /// The links that are switched off in `next_step`.
    off: Vec<Ends>,
    /// Whether candidates have their remaining time although no policy needs it.
    tells_remaining: bool,
    /// The satellites that decisions can depend on, while a stretch is walked through of which only decisions
    /// matter.
    near: Option<Near>,
}

/// Whether a laser link is within range, and when it is up.
#[derive(Debug, Clone, Copy, Default)]
struct Reach {
    in_reach: bool,
    up_from_ns: u64,
    /// The distance within range.
    range_m: f64,
}

impl Stepper {
    /// Starts at step 0 with the policies that the spec names, and with the choices made beforehand.
    #[must_use]
    pub fn new(layout: Arc<Layout>, sky: Arc<dyn Sky>) -> Stepper {
        let rules = layout.spec().rules.iter();
        let policies = rules.map(|rule| Arc::from(built_in(rule.policy)));
        let policies = policies.collect();
        let decided = Decided::of(layout.spec());
        Stepper::with_policies(layout, sky, policies, decided)
    }

    /// Starts at step 0 with a policy of the caller's, at all terminals. Choices made beforehand are ignored.
    #[must_use]
    pub fn with_policy(layout: Arc<Layout>, sky: Arc<dyn Sky>, policy: Arc<dyn Policy>) -> Stepper {
        let policies = vec![policy; layout.spec().rules.len()];
        let decided = Decided::links_of(layout.spec());
        Stepper::with_policies(layout, sky, policies, decided)
    }

    fn with_policies(
        layout: Arc<Layout>,
        sky: Arc<dyn Sky>,
        policies: Vec<Arc<dyn Policy>>,
        decided: Decided,
    ) -> Stepper {
        let spec = layout.spec();
        let cutoff = |link| sin_sq_cutoff(layout.laser(link).polar_cutoff_deg);
        let capacity = spec.constellations.iter().flat_map(|k| {
            let beams = k.beams.map_or(u32::MAX, NonZeroU32::get);
            std::iter::repeat_n(beams, k.satellites.len())
        });
        let stations = 0..spec.stations.len();
        let windows = layout.terminals().len() * spec.constellations.len();
        let rules = spec.rules.len();
        Stepper {
            next_step: 0,
            now: Located::default(),
            now_known: false,
            later: Located::default(),
            later_known: false,
            ahead: (0..rules).map(|_| Located::default()).collect(),
            beams: Beams::new(&layout),
            failures: Failures::new(&layout),
            foresees: false,
            broken: Broken::default(),
            isl_up: vec![Reach::default(); layout.isl_links().len()],
            isl_started: false,
            watchers: stations.map(|s| Watcher::new(&layout, s, 0)).collect(),
            flights: Vec::new(),
            windows: vec![Window::default(); windows],
            cutoffs: layout.isl_links().iter().map(cutoff).collect(),
            capacity: capacity.collect(),
            indexes: vec![CapIndex::default(); spec.constellations.len()],
            links: Vec::new(),
            drafts: Drafts::default(),
            bent_pipe: bent_pipe(&layout),
            decided,
            off: Vec::new(),
            tells_remaining: false,
            near: None,
            layout,
            sky,
            policies,
        }
    }

    /// Returns a stepper for the predicted sky: none of the spec's failures occurs.
    #[must_use]
    pub fn foreseen(mut self) -> Stepper {
        self.failures = Failures::none();
        self.foresees = true;
        self
    }

    /// Begins a failure of the spec whose time is [`Told`](crate::FailureTime::Told), with the first step at or
    /// after `from_ns`. An earlier call for the failure stays valid. Returns false when the spec has no such
    /// failure.
    pub fn fail_from(&mut self, name: &str, from_ns: u64) -> bool {
        let place = self.place_of(name);
        place.is_some_and(|place| self.failures.begin(&self.layout, place, from_ns))
    }

    /// As [`Stepper::fail_from`], for nodes that go with the failure and that the spec does not name.
    pub fn fail_also(&mut self, name: &str, nodes: &[NodeId], from_ns: u64) -> bool {
        let place = self.place_of(name);
        place.is_some_and(|at| self.failures.begin_also(&self.layout, at, nodes, from_ns))
    }

    /// Ends a failure whose time is given at run time, for these nodes, with the first step at or after
    /// `until_ns`; the others stay failed. Returns false when the spec has no such failure.
    pub fn heal_from(&mut self, name: &str, nodes: &[NodeId], until_ns: u64) -> bool {
        let place = self.place_of(name);
        place.is_some_and(|at| self.failures.end(&self.layout, at, nodes, until_ns))
    }

    fn place_of(&self, failure: &str) -> Option<usize> {
        let failures = &self.layout.spec().failures;
        failures.iter().position(|own| own.name == failure)
    }

    /// Returns the layout that is stepped through.
    #[must_use]
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The step the next call of [`advance`](Stepper::advance) computes.
    #[must_use]
    pub fn next_step(&self) -> u64 {
        self.next_step
    }

    /// The step that is running at `t_ns` after the start of the lab.
    #[must_use]
    pub fn step_at(&self, t_ns: u64) -> u64 {
        t_ns / self.layout.spec().step_ns
    }

    /// Computes the next step.
    #[must_use]
    pub fn advance(&mut self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        self.advance_into(&mut snapshot);
        snapshot
    }

    /// Computes the next step into a snapshot whose memory is reused.
    pub fn advance_into(&mut self, snapshot: &mut Snapshot) {
        self.locate();
        self.decide();
        snapshot.step = self.next_step;
        snapshot.t_ns = self.t_ns();
        snapshot.positions_itrf_m.clone_from(&self.now.positions);
        snapshot.lost.clone_from(&self.now.lost);
        snapshot.broken.clone_from(&self.broken);
        snapshot.switched_off.clone_from(&self.off);
        snapshot.serving.clear();
        snapshot.beams.clear();
        for station in 0..self.layout.sites().len() {
            let begin = snapshot.beams.len();
            for terminal in self.layout.terminal_places(station) {
                let first = snapshot.beams.len();
                let antennas = self.beams.of(terminal).iter();
                snapshot.beams.extend(antennas.map(|b| b.serving));
                // By number, so that it does not matter which antenna has which.
                snapshot.beams[first..].sort_unstable_by_key(|b| (b.is_none(), *b));
            }
            let lit = snapshot.beams[begin..].iter().flatten().next();
            snapshot.serving.push(lit.copied());
        }
        snapshot.edges.clear();
        snapshot.isl_down.clear();
        self.reach(&mut snapshot.isl_down);
        self.edges(&mut snapshot.edges);
        self.go_on();
    }

    fn t_ns(&self) -> u64 {
        self.next_step * self.layout.spec().step_ns
    }

    /// Computes positions at the start of the step and at its end, failures, and the links that are switched off.
    fn locate(&mut self) {
        let (t_ns, step_ns) = (self.t_ns(), self.layout.spec().step_ns);
        if !self.now_known {
            let near = self.near.as_ref().map(Near::satellites);
            self.now.locate(&self.layout, &*self.sky, t_ns, near);
            self.now_known = true;
        }
        if !self.later_known {
            let near = self.near.as_ref().map(Near::satellites);
            let end_ns = t_ns + step_ns;
            self.later.locate(&self.layout, &*self.sky, end_ns, near);
            self.later_known = true;
        }
        let needs_sun = self.failures.need_the_sun();
        let moment = failures::Moment {
            t_ns,
            positions: &self.now.positions,
            sun: needs_sun.then(|| self.sky.sun_itrf_m(t_ns)).flatten(),
        };
        self.failures.at(&self.layout, &moment, &mut self.broken);
        self.decided.off_at(t_ns, &mut self.off);
    }

    fn go_on(&mut self) {
        std::mem::swap(&mut self.now, &mut self.later);
        self.now_known = self.later_known;
        self.later_known = false;
        self.next_step += 1;
    }

    /// Lets every station choose.
    fn decide(&mut self) {
        if self.watchers.is_empty() {
            return;
        }
        self.find();
        let (beams, rules) = self.rules();
        beams.decide(&rules);
    }

    /// Returns the antennas, and the rules of their decisions in the next step besides the candidates.
    fn rules(&mut self) -> (&mut Beams, Rules<'_>) {
        let (capacity, bent_pipe) = (&self.capacity, self.bent_pipe.as_ref());
        let rules = Rules::new(
            &self.layout,
            &self.policies,
            capacity,
            bent_pipe,
            &self.decided,
            self.next_step,
        );
        (&mut self.beams, rules)
    }

    /// Whether an antenna's action depends only on the sky and its previous action.
    fn antennas_by_themselves(&self) -> bool {
        let (capacity, bent_pipe) = (&self.capacity, self.bent_pipe.as_ref());
        let rules = Rules::new(
            &self.layout,
            &self.policies,
            capacity,
            bent_pipe,
            &self.decided,
            self.next_step,
        );
        self.beams.each_by_itself(&rules)
    }

    /// Finds the laser links that are within range, since when, and the reasons why others are not.
    fn reach(&mut self, down: &mut Vec<(u32, Down)>) {
        let t_ns = self.t_ns();
        let moment = Moment {
            positions: &self.now.positions,
            later: &self.later.positions,
            step_s: self.layout.spec().step_ns as f64 / 1e9,
            broken: &self.broken,
        };
        for (link, cutoff) in self.layout.isl_links().iter().zip(&self.cutoffs) {
            let [a, b] = [link.a, link.b].map(|port| self.layout.node_of(port));
            let state = match is_among(&self.off, a, b) {
                true => Err(Down::SwitchedOff),
                false => isl_state(&self.layout, link, *cutoff, &moment),
            };
            let reach = &mut self.isl_up[link.number as usize];
            let acquisition_ns = self.layout.laser(link).acquisition_ns;
            match state {
                Ok(range_m) => {
                    reach.range_m = range_m;
                    if self.isl_started && !reach.in_reach && acquisition_ns > 0 {
                        reach.up_from_ns = t_ns + acquisition_ns;
                    } else if !self.isl_started || reach.up_from_ns <= t_ns {
                        reach.up_from_ns = 0;
                    }
                    reach.in_reach = true;
                }
                Err(why) => {
                    *reach = Reach::default();
                    down.push((link.number, why));
                }
            }
        }
        self.isl_started = true;
    }

    /// The edges of all links that are there.
    fn edges(&mut self, edges: &mut Vec<Edge>) {
        let layout = &*self.layout;
        let scene = Scene {
            layout,
            now: &self.now.positions,
            later: &self.later.positions,
            t_ns: self.next_step * layout.spec().step_ns,
        };
        self.drafts.clear(layout);
        for (link, reach) in layout.isl_links().iter().zip(&self.isl_up) {
            if reach.in_reach {
                self.drafts
                    .laser(&scene, link, reach.range_m, reach.up_from_ns);
            }
        }
        let mut shells = layout.spec().constellations.iter();
        if shells.any(|k| k.capacity_bps.is_some()) {
            self.beams.count_links(&mut self.links);
        }
        for (place, terminal) in layout.terminals().iter().enumerate() {
            let watcher = &self.watchers[terminal.station];
            for beam in self.beams.of(place) {
                let links = [(beam.serving, beam.up_from_ns), (beam.old, 0)];
                for (satellite, up_from_ns) in links {
                    let Some(satellite) = satellite else { continue };
                    let Some(constellation) = layout.constellation_of(satellite) else {
                        continue;
                    };
                    let target = scene.now[satellite.index()];
                    let path = Path::to(watcher, terminal.station, target, scene.t_ns);
                    let mut classes = path.classes(layout, constellation);
                    if let Some(capacity_bps) = constellation.capacity_bps {
                        let links = self.links[satellite.index()];
                        share(&mut classes, capacity_bps, links);
                    }
                    let link = GroundEdges {
                        station: layout.station_node(terminal.station),
                        terminal: terminal.port,
                        satellite,
                        up_from_ns,
                        classes,
                    };
                    self.drafts.ground(&scene, &link);
                }
            }
        }
        for link in layout.cables() {
            let ends = [link.a, link.b].map(|port| layout.node_of(port));
            let whole = self.broken.cable(link.number).is_none();
            let on = !is_among(&self.off, ends[0], ends[1]);
            if whole && on && ends.iter().all(|node| self.broken.node(*node).is_none()) {
                let cable = &layout.spec().cables[link.number as usize];
                self.drafts.cable(&scene, (link.a, link.b), cable);
            }
        }
        let step = network::Step {
            t_ns: scene.t_ns,
            step_ns: layout.spec().step_ns,
            now: scene.now,
            later: scene.later,
            broken: &self.broken,
        };
        for (place, network) in layout.spec().networks.iter().enumerate() {
            let ports = layout.network_ports(place);
            for edge in network.edges(layout, place, &step) {
                let ends = (ports[edge.from], ports[edge.to]);
                self.drafts.network(&scene, network.ports, ends, &edge);
            }
        }
        self.drafts.finish(&scene, edges);
    }
}

/// Returns the stations that feed satellites and the satellites that need them; `None` if no satellite only
/// relays.
fn bent_pipe(layout: &Layout) -> Option<BentPipe> {
    let spec = layout.spec();
    spec.constellations
        .iter()
        .any(|k| k.bent_pipe)
        .then(|| BentPipe {
            feeders: spec.stations.iter().map(|s| s.feeder).collect(),
            relays: spec
                .constellations
                .iter()
                .flat_map(|k| std::iter::repeat_n(k.bent_pipe, k.satellites.len()))
                .collect(),
        })
}
