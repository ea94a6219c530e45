//! Steps through time: positions, decisions, edges. Reuses its buffers and remembers only what decisions need.

use crate::beams::{Beams, BentPipe, Found, Rules};
use crate::down::Down;
use crate::edges::{Drafts, GroundEdges, Scene};
use crate::failures::{self, Broken, Failures};
use crate::ground::{Flight, Watcher, remaining_s};
use crate::ground_link::{Path, share};
use crate::layout::Layout;
use crate::network;
use crate::node::NodeId;
use crate::policy::{Policy, built_in};
use crate::sky::{NoPosition, Sky};
use crate::snapshot::{Edge, Snapshot};
use crate::visible::{CapIndex, Window};
use crate::why::{Moment, isl_state, sin_sq_cutoff};
use constel_orbit::DVec3;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Produces one [`Snapshot`] after another.
///
/// A step's snapshot is a pure function of (layout, sky, policy, step number): [`Stepper::at_step`] computed
/// from scratch equals stepping there from 0.
pub struct Stepper {
    layout: Arc<Layout>,
    sky: Arc<dyn Sky>,
    policy: Arc<dyn Policy>,
    next_step: u64,
    /// Positions of all nodes at the start of `next_step`, if already known.
    now: Located,
    now_known: bool,
    /// Positions at its end, if already known.
    later: Located,
    later_known: bool,
    /// Positions when a change that began now would be over: with foresight only.
    ahead: Located,
    beams: Beams,
    failures: Failures,
    broken: Broken,
    /// Of each laser link: when it came or comes up, ns; 0 since the start. Only with acquisition times.
    isl_up: Vec<Reach>,
    isl_started: bool,
    watchers: Vec<Watcher>,
    /// How satellites fly, for policies that want to know how long they stay.
    flights: Vec<Flight>,
    /// By station, then by constellation.
    windows: Vec<Window>,
    cutoffs: Vec<f64>,
    /// How many ground links a satellite can have.
    capacity: Vec<u32>,
    indexes: Vec<CapIndex>,
    /// How many links to the ground each satellite has; counted only where they share a capacity.
    links: Vec<u32>,
    drafts: Drafts,
    bent_pipe: Option<BentPipe>,
}

/// Whether a laser link is in reach, and when it is up.
#[derive(Debug, Clone, Copy, Default)]
struct Reach {
    in_reach: bool,
    up_from_ns: u64,
    /// Where it is in reach.
    range_m: f64,
}

/// Where all nodes are at an instant.
#[derive(Debug, Default)]
struct Located {
    positions: Vec<DVec3>,
    lost: Vec<NoPosition>,
}

impl Located {
    fn locate(&mut self, layout: &Layout, sky: &dyn Sky, t_ns: u64) {
        self.lost = sky.positions_itrf_m(t_ns, &mut self.positions);
        assert_eq!(
            self.positions.len(),
            layout.satellite_count(),
            "a sky must place every satellite"
        );
        let stations = 0..layout.sites().len();
        self.positions
            .extend(stations.map(|s| layout.site_at(s, t_ns).position_itrf_m));
        let hosts = layout.host_sites().iter();
        self.positions
            .extend(hosts.map(|site| site.position_itrf_m));
    }
}

impl Stepper {
    /// Starts at step 0 with the policy the spec names.
    #[must_use]
    pub fn new(layout: Arc<Layout>, sky: Arc<dyn Sky>) -> Stepper {
        let policy = Arc::from(built_in(layout.spec().gsl.policy));
        Stepper::with_policy(layout, sky, policy)
    }

    /// Starts at step 0 with a policy of the caller's.
    #[must_use]
    pub fn with_policy(layout: Arc<Layout>, sky: Arc<dyn Sky>, policy: Arc<dyn Policy>) -> Stepper {
        let spec = layout.spec();
        let cutoff = |link| sin_sq_cutoff(layout.laser(link).polar_cutoff_deg);
        let capacity = spec.constellations.iter().flat_map(|k| {
            let beams = k.beams.map_or(u32::MAX, NonZeroU32::get);
            std::iter::repeat_n(beams, k.satellites.len())
        });
        let stations = 0..spec.stations.len();
        let antennas = stations.clone().map(|s| layout.beams_of(s).len());
        Stepper {
            next_step: 0,
            now: Located::default(),
            now_known: false,
            later: Located::default(),
            later_known: false,
            ahead: Located::default(),
            beams: Beams::new(antennas, layout.satellite_count()),
            failures: Failures::new(&layout),
            broken: Broken::default(),
            isl_up: vec![Reach::default(); layout.isl_links().len()],
            isl_started: false,
            watchers: stations.map(|s| Watcher::new(&layout, s, 0)).collect(),
            flights: Vec::new(),
            windows: vec![Window::default(); spec.stations.len() * spec.constellations.len()],
            cutoffs: layout.isl_links().iter().map(cutoff).collect(),
            capacity: capacity.collect(),
            indexes: vec![CapIndex::default(); spec.constellations.len()],
            links: Vec::new(),
            drafts: Drafts::default(),
            bent_pipe: bent_pipe(&layout),
            layout,
            sky,
            policy,
        }
    }

    /// The sky as orbits alone foretell it: none of the spec's failures happens.
    #[must_use]
    pub fn foreseen(mut self) -> Stepper {
        self.failures = Failures::none();
        self
    }

    /// What is stepped through.
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

    /// How many steps before a step its snapshot can depend on; `None`: on all of them.
    #[must_use]
    pub fn look_back(&self) -> Option<u64> {
        let spec = self.layout.spec();
        if spec.gsl.make_before_break && spec.gsl.outage_ns > 0 {
            return None;
        }
        let lasers = spec
            .constellations
            .iter()
            .map(|k| k.lasers.acquisition_ns)
            .max();
        let policy = self.policy.look_back_ns()?;
        let across = spec.cross.iter().map(|c| c.acquisition_ns).max();
        let ns = (policy + spec.gsl.outage_ns).max(lasers.max(across).unwrap_or(0));
        Some(ns.div_ceil(spec.step_ns))
    }

    /// Goes to `step`, whatever was computed before, and computes it.
    #[must_use]
    pub fn at_step(&mut self, step: u64) -> Snapshot {
        self.next_step = step.saturating_sub(self.look_back().unwrap_or(step));
        self.now_known = false;
        self.later_known = false;
        self.isl_started = false;
        self.beams.reset();
        while self.next_step < step {
            self.locate();
            self.decide();
            self.reach(&mut Vec::new());
            self.go_on();
        }
        self.advance()
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
        snapshot.serving.clear();
        snapshot.beams.clear();
        for station in 0..self.layout.sites().len() {
            let first = snapshot.beams.len();
            snapshot
                .beams
                .extend(self.beams.of(station).iter().map(|b| b.serving));
            // By number, so that it does not matter which antenna has which.
            snapshot.beams[first..].sort_unstable_by_key(|b| (b.is_none(), *b));
            snapshot.serving.push(snapshot.beams[first]);
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

    /// Positions at the start of the step and at its end, and what is broken.
    fn locate(&mut self) {
        let (t_ns, step_ns) = (self.t_ns(), self.layout.spec().step_ns);
        if !self.now_known {
            self.now.locate(&self.layout, &*self.sky, t_ns);
            self.now_known = true;
        }
        if !self.later_known {
            self.later.locate(&self.layout, &*self.sky, t_ns + step_ns);
            self.later_known = true;
        }
        let needs_sun = self.failures.need_the_sun();
        let moment = failures::Moment {
            t_ns,
            positions: &self.now.positions,
            sun: needs_sun.then(|| self.sky.sun_itrf_m(t_ns)).flatten(),
        };
        self.failures.at(&self.layout, &moment, &mut self.broken);
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
        let spec = self.layout.spec();
        self.beams.decide(&Rules {
            policy: &*self.policy,
            gsl: &spec.gsl,
            step: self.next_step,
            step_ns: spec.step_ns,
            first_station: self.layout.satellite_count(),
            capacity: &self.capacity,
            layout: &self.layout,
            bent_pipe: self.bent_pipe.as_ref(),
        });
    }

    /// What each station can use.
    fn find(&mut self) {
        let layout = &self.layout;
        let spec = layout.spec();
        let t_ns = self.next_step * spec.step_ns;
        for (k, index) in self.indexes.iter_mut().enumerate() {
            index.rebuild(&self.now.positions[layout.satellites_of(k)]);
        }
        let end_ns = t_ns + spec.gsl.outage_ns + spec.step_ns;
        let foresees = spec.gsl.make_before_break && spec.gsl.outage_ns > 0;
        if foresees {
            self.ahead.locate(layout, &*self.sky, end_ns);
        }
        self.flights.clear();
        if self.policy.wants_remaining() {
            let step_s = spec.step_ns as f64 / 1e9;
            let ways = self.now.positions.iter().zip(&self.later.positions);
            let ways = ways.take(layout.satellite_count());
            self.flights
                .extend(ways.map(|(now, later)| Flight::new(*now, *later, step_s)));
        }
        self.beams.found.clear();
        self.beams.found_starts.clear();
        self.beams.found_starts.push(0);
        for (station, fixed) in spec.stations.iter().enumerate() {
            let moves = !fixed.track.is_empty();
            if moves {
                self.watchers[station] = Watcher::new(layout, station, t_ns);
            }
            let watcher = &self.watchers[station];
            let moved = (foresees && moves).then(|| Watcher::new(layout, station, end_ns));
            let later = foresees.then(|| moved.as_ref().unwrap_or(watcher));
            let broken = self.broken.node(layout.station_node(station)).is_some();
            let shells = self.indexes.iter_mut().enumerate();
            for (k, index) in shells.filter(|_| !broken) {
                let offset = layout.satellites_of(k).start;
                let (sin_mask, mask_deg) = layout.mask(station, k);
                let site = watcher.site.position_itrf_m;
                let flights = self
                    .flights
                    .get(layout.satellites_of(k))
                    .unwrap_or_default();
                let window = &mut self.windows[station * layout.spec().constellations.len() + k];
                if moves {
                    *window = Window::default();
                }
                index.candidates(window, site, mask_deg, |i| {
                    // Many are below the mask: the cheap test first.
                    let sight = watcher.sight(self.now.positions[offset + i]);
                    if sight.seen.sin_elevation < sin_mask {
                        return;
                    }
                    let satellite = NodeId((offset + i) as u32);
                    let one = (k, satellite);
                    let Ok(seen) = watcher.test_one_of(layout, station, one, sight, t_ns) else {
                        return;
                    };
                    if self.broken.node(satellite).is_some() {
                        return;
                    }
                    let flight = flights.get(i);
                    let remaining_s =
                        flight.map_or(f64::INFINITY, |f| remaining_s(site, f, sin_mask));
                    let leaving = later.is_some_and(|w| {
                        let sight = w.sight(self.ahead.positions[offset + i]);
                        w.test_one_of(layout, station, one, sight, end_ns).is_err()
                    });
                    self.beams.found.push(Found {
                        satellite,
                        seen,
                        remaining_s,
                        leaving,
                    });
                });
            }
            self.beams.found_starts.push(self.beams.found.len());
        }
    }

    /// Which laser links are in reach, since when, and why others are not.
    fn reach(&mut self, down: &mut Vec<(u32, Down)>) {
        let t_ns = self.t_ns();
        let moment = Moment {
            positions: &self.now.positions,
            later: &self.later.positions,
            step_s: self.layout.spec().step_ns as f64 / 1e9,
            broken: &self.broken,
        };
        for (link, cutoff) in self.layout.isl_links().iter().zip(&self.cutoffs) {
            let state = isl_state(&self.layout, link, *cutoff, &moment);
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
        for (place, watcher) in self.watchers.iter().enumerate() {
            let station = layout.station_node(place);
            for beam in self.beams.of(place) {
                let links = [(beam.serving, beam.up_from_ns), (beam.old, 0)];
                for (satellite, up_from_ns) in links {
                    let Some(satellite) = satellite else { continue };
                    let Some(constellation) = layout.constellation_of(satellite) else {
                        continue;
                    };
                    let target = scene.now[satellite.index()];
                    let path = Path::to(watcher, place, target, scene.t_ns);
                    let mut classes = path.classes(layout, constellation);
                    if let Some(capacity_bps) = constellation.capacity_bps {
                        let links = self.links[satellite.index()];
                        share(&mut classes, capacity_bps, links);
                    }
                    let link = GroundEdges {
                        station,
                        satellite,
                        up_from_ns,
                        classes,
                    };
                    self.drafts.ground(&scene, &link);
                }
            }
        }
        for link in layout.cables() {
            let ends = [link.a, link.b].map(|port| layout.port(port).node);
            if ends.iter().all(|node| self.broken.node(*node).is_none()) {
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

/// Who feeds whom; `None` where no satellite only relays.
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
