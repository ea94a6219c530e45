//! The sky of a scenario at any step, computed once for all clients, and the requests that need no lab.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use constel_analysis::{Interval, Series};
use constel_api::Event;
use constel_api::answers::{Hop, Optimum, Paths};
use constel_orbit::{DVec3, Geodetic, Site};
use constel_plan::{EdgeEnds, Lab};
use constel_routing::{Graph, GroundTransit, Scratch};
use constel_topology::{Access, Edge, Effort, NodeId, Snapshot, Stepper, why};
use constel_units::TimeSpan;
use tungstenite::Bytes;

use crate::changes::Changes;
use crate::frame::{Before, Links, Step};
use crate::tell::{Teller, Tellings};
use crate::views::{EdgeView, LinkView, NodeState, SeriesView, TrackView, VisibleSatellite};

/// Number of steps that are kept for other clients.
const KEPT: usize = 32;

/// Maximum distance in steps that is computed step by step. Farther steps are computed from scratch.
const WALK: u64 = 64;

/// Most samples of a series.
const SAMPLES: u64 = 2_000;

/// Points of a track.
const TRACK_POINTS: u32 = 240;

/// Maximum number of satellites above a station's horizon that are sent, highest first.
const SEEN: usize = 250;

/// The Earth's gravity, m^3/s^2 (WGS84), for how long a revolution takes.
const MU: f64 = 3.986_004_418e14;

/// A refusal as text.
pub(crate) type Refused = String;

/// An instant of a scenario: a step, and the changes by hand that are in force.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    pub(crate) step: u64,
    pub(crate) changes: Changes,
}

/// The topology of an instant: the scenario's, and the one with the changes by hand.
struct Topology<'a> {
    scenario: Arc<Snapshot>,
    in_force: Arc<Snapshot>,
    changes: &'a Changes,
}

/// A scenario's sky.
pub(crate) struct Skies {
    pub(crate) lab: Lab,
    found: Mutex<Found>,
    tellings: Tellings,
}

struct Found {
    stepper: Stepper,
    /// Whether the stepper may go on from where it is.
    sound: bool,
    kept: VecDeque<Arc<Snapshot>>,
}

impl Skies {
    pub(crate) fn new(lab: Lab) -> Self {
        let found = Found {
            stepper: lab.stepper(),
            sound: true,
            kept: VecDeque::new(),
        };
        Self {
            lab,
            found: Mutex::new(found),
            tellings: Tellings::default(),
        }
    }

    /// The topology of a step, found in some seconds at most.
    ///
    /// # Errors
    /// When it cannot be found so fast, or time ends before.
    pub(crate) fn at(&self, step: u64) -> Result<Arc<Snapshot>, Refused> {
        let mut found = self.found.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(kept) = found.kept.iter().find(|kept| kept.step == step) {
            return Ok(Arc::clone(kept));
        }
        let end_ns = step
            .checked_add(2)
            .and_then(|step| step.checked_mul(self.lab.step_ns()));
        let end = end_ns
            .and_then(|ns| i64::try_from(ns).ok())
            .map(TimeSpan::from_ns);
        if end
            .and_then(|end| self.lab.scenario.start.checked_add(end))
            .is_none()
        {
            return Err("that is beyond the year 2262".to_owned());
        }
        let ahead = step.checked_sub(found.stepper.next_step());
        let snapshot = if found.sound && ahead.is_some_and(|ahead| ahead < WALK) {
            let mut snapshot = found.stepper.advance();
            while snapshot.step < step {
                found.stepper.advance_into(&mut snapshot);
            }
            snapshot
        } else {
            let mut effort = Effort::new(Effort::QUESTION, &|| true);
            let snapshot = found.stepper.try_step(step, &mut effort);
            found.sound = snapshot.is_ok();
            snapshot.map_err(|error| error.to_string())?
        };
        let snapshot = Arc::new(snapshot);
        if found.kept.len() == KEPT {
            found.kept.pop_front();
        }
        found.kept.push_back(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// Returns the message of a step, with positions `ahead` steps later, for a browser in the state of `teller`.
    pub(crate) fn tell(
        &self,
        teller: &mut Teller,
        step: u64,
        ahead: u64,
    ) -> Result<Bytes, Refused> {
        let snapshot = self.at(step)?;
        let then_ns = snapshot.t_ns + ahead.clamp(1, 100_000) * self.lab.step_ns();
        let layout = &self.lab.layout;
        let message = |links: &Links, before: Option<Before<'_>>| {
            let mut then = Vec::new();
            drop(self.lab.sky.positions_itrf_m(then_ns, &mut then));
            // Nodes that move on the Earth keep their position of the step.
            then.extend_from_slice(&snapshot.positions_itrf_m[then.len()..]);
            let sun = self.lab.sky.sun_itrf_m(snapshot.t_ns).unwrap_or(DVec3::X);
            let step = Step {
                snapshot: &snapshot,
                then: &then,
                then_ns,
                sun,
            };
            step.message(links, before)
        };
        let links = || Links::new(layout, &snapshot);
        let times = (step, snapshot.t_ns, then_ns);
        Ok(self.tellings.tell(teller, times, links, message))
    }

    /// The node that a text names.
    pub(crate) fn find(&self, text: &str) -> Result<NodeId, Refused> {
        self.lab.find(text).map_err(|error| error.to_string())
    }

    fn name(&self, node: NodeId) -> String {
        self.lab.layout.node(node).name.clone()
    }

    fn port(&self, port: constel_link::PortId) -> String {
        let port = self.lab.layout.port(port);
        format!("{}/{}", self.lab.layout.node(port.node).name, port.name())
    }

    fn topology<'a>(&self, moment: &'a Moment) -> Result<Topology<'a>, Refused> {
        let scenario = self.at(moment.step)?;
        Ok(Topology {
            in_force: moment.changes.over(&self.lab, &scenario),
            scenario,
            changes: &moment.changes,
        })
    }

    /// Returns the scenario's edges from a node to another, or to all others.
    fn scenario_edges<'s>(
        &'s self,
        snapshot: &'s Snapshot,
        a: NodeId,
        b: Option<NodeId>,
    ) -> impl Iterator<Item = &'s Edge> {
        let layout = &self.lab.layout;
        let ports = layout.ports_of(a).iter();
        let edges = ports.flat_map(move |port| snapshot.edges_from(port.id));
        edges.filter(move |edge| b.is_none_or(|b| layout.port(edge.to).node == b))
    }

    /// Returns edges with the values in force. Edges that are failed by hand are not usable, and have the scenario's values.
    fn edges(&self, topology: &Topology<'_>, a: NodeId, b: Option<NodeId>) -> Vec<EdgeView> {
        let t_ns = topology.scenario.t_ns;
        let view = |planned: &Edge| {
            let in_force = topology.in_force.edge(planned.from, planned.to);
            let edge = in_force.unwrap_or(planned);
            let usable = in_force.is_some() && edge.usable_at(t_ns);
            let absent = || {
                topology
                    .changes
                    .why_absent(&self.lab, &[(edge.from, edge.to)])
            };
            let state = match in_force {
                Some(_) if usable => "up",
                Some(_) => "antennas turn",
                None if absent().is_some() => "member absent",
                None => "failed by hand",
            };
            EdgeView {
                from: self.port(edge.from),
                to: self.port(edge.to),
                kind: edge.class.name.to_owned(),
                delay_ns: edge.impairment.delay.at(t_ns),
                rate_bps: edge.impairment.rate_bps.map(u64::from),
                usable,
                state: state.to_owned(),
            }
        };
        let edges = self.scenario_edges(&topology.scenario, a, b);
        edges.map(view).collect()
    }

    /// Returns whether a link is up, and why, in the words of `constel link`.
    fn state(&self, topology: &Topology<'_>, a: NodeId, b: NodeId) -> (bool, String) {
        let layout = &self.lab.layout;
        let planned = why(layout, &topology.scenario, a, b);
        let words = planned.describe(layout);
        let both = [(a, b), (b, a)].into_iter();
        let edges = both.flat_map(|(a, b)| self.scenario_edges(&topology.scenario, a, Some(b)));
        let edges: Vec<EdgeEnds> = edges.map(|edge| (edge.from, edge.to)).collect();
        if let Some(absent) = topology.changes.why_absent(&self.lab, &edges) {
            return (false, format!("{absent}; else {words}"));
        }
        // A link counts as failed only if all its edges are.
        let failed_ns = edges
            .iter()
            .map(|edge| topology.changes.failed_ns(*edge))
            .collect::<Option<Vec<u64>>>()
            .and_then(|all| all.into_iter().max());
        match failed_ns {
            Some(failed_ns) => {
                let t_s = failed_ns as f64 / 1e9;
                let words = format!("down: failed by hand at t = {t_s:.3} s; else {words}");
                (false, words)
            }
            None => (planned.is_up(), words),
        }
    }

    /// Returns the link between two nodes at an instant. No lab is queried.
    pub(crate) fn link(&self, a: &str, b: &str, moment: &Moment) -> Result<LinkView, Refused> {
        let (a, b) = (self.find(a)?, self.find(b)?);
        let topology = self.topology(moment)?;
        let mut edges = self.edges(&topology, a, Some(b));
        edges.extend(self.edges(&topology, b, Some(a)));
        Ok(LinkView {
            a: self.name(a),
            b: self.name(b),
            t_ns: topology.scenario.t_ns as f64,
            up: edges.iter().any(|edge| edge.usable),
            why: self.state(&topology, a, b).1,
            edges,
            live: None,
        })
    }

    /// Returns the path of minimum delay at an instant. Kernels are not queried.
    pub(crate) fn path(&self, from: &str, to: &str, moment: &Moment) -> Result<Paths, Refused> {
        let (a, b) = (self.find(from)?, self.find(to)?);
        let snapshot = self.topology(moment)?.in_force;
        let layout = &self.lab.layout;
        let graph = Graph::new(layout, &snapshot, GroundTransit::Never);
        let tree = graph.tree(b, &mut Scratch::default());
        let optimum = graph.path(&tree, a).map(|hops| Optimum {
            delay_ns: hops.iter().map(|hop| hop.delay_ns).sum(),
            hops: hops
                .iter()
                .map(|hop| Hop {
                    from: self.name(hop.from),
                    from_port: layout.port(hop.port).name().to_owned(),
                    to: self.name(hop.to),
                    to_port: layout.port(hop.far_port).name().to_owned(),
                    delay_ns: hop.delay_ns,
                    next_hops: 1,
                })
                .collect(),
        });
        Ok(Paths {
            from: self.name(a),
            to: self.name(b),
            t_ns: snapshot.t_ns,
            kernel: Vec::new(),
            optimum,
            tables_t_ns: snapshot.t_ns,
            catalogued: Vec::new(),
        })
    }

    /// Returns a node at an instant; for a station, with its sky.
    pub(crate) fn node(&self, name: &str, moment: &Moment) -> Result<NodeState, Refused> {
        let node = self.find(name)?;
        let topology = self.topology(moment)?;
        let snapshot = &topology.scenario;
        let layout = &self.lab.layout;
        let position = snapshot.positions_itrf_m[node.index()];
        let place = (!position.is_nan()).then(|| Geodetic::from_itrf_m(position));
        let station = node.index().checked_sub(layout.satellite_count());
        let station = station.filter(|_| layout.node(node).class.access == Access::Chooses);
        let masks = station.into_iter().flat_map(|station| {
            let all = 0..layout.spec().constellations.len();
            all.filter_map(move |constellation| layout.lowest_mask_deg(station, constellation))
        });
        let mask_deg = masks.reduce(f64::min);
        let sky = match (station, &place) {
            (Some(_), Some(place)) => self.seen(&topology, node, &Site::new(place)),
            _ => Vec::new(),
        };
        Ok(NodeState {
            name: self.name(node),
            t_ns: snapshot.t_ns as f64,
            latitude_deg: place.map(|place| place.latitude_rad.to_degrees()),
            longitude_deg: place.map(|place| place.longitude_rad.to_degrees()),
            height_km: place.map(|place| place.height_m / 1e3),
            links: self.edges(&topology, node, None),
            sky,
            mask_deg,
        })
    }

    fn seen(&self, topology: &Topology<'_>, station: NodeId, site: &Site) -> Vec<VisibleSatellite> {
        let layout = &self.lab.layout;
        let satellites = &topology.scenario.positions_itrf_m[..layout.satellite_count()];
        let mut above: Vec<(usize, f64)> = satellites
            .iter()
            .enumerate()
            .filter(|(i, _)| layout.nodes()[*i].class.access == Access::Serves)
            .map(|(i, position)| (i, site.sin_elevation(*position)))
            .filter(|(_, sine)| *sine > 0.0)
            .collect();
        above.sort_by(|a, b| b.1.total_cmp(&a.1));
        above.truncate(SEEN);
        let seen = |(i, _): (usize, f64)| {
            let look = site.look(satellites[i]);
            let node = NodeId(u32::try_from(i).unwrap_or(u32::MAX));
            let (up, why) = self.state(topology, station, node);
            VisibleSatellite {
                name: self.name(node),
                node: i,
                azimuth_deg: look.azimuth_rad.to_degrees(),
                elevation_deg: look.elevation_rad.to_degrees(),
                range_km: look.range_m / 1e3,
                up,
                why,
            }
        };
        above.into_iter().map(seen).collect()
    }

    /// One revolution of a satellite from a step on.
    pub(crate) fn track(&self, name: &str, step: u64) -> Result<TrackView, Refused> {
        let node = self.find(name)?;
        if !self.lab.layout.node(node).class.flies {
            return Err(format!("{} does not fly", self.name(node)));
        }
        let from_ns = step.saturating_mul(self.lab.step_ns());
        let radius_m = self.at(step)?.positions_itrf_m[node.index()].length();
        if !radius_m.is_finite() {
            return Err(format!("{} has no position then", self.name(node)));
        }
        let period_s = std::f64::consts::TAU * (radius_m.powi(3) / MU).sqrt();
        let mut track = TrackView {
            itrf_km: Vec::new(),
            t_s: Vec::new(),
        };
        let mut at = Vec::new();
        for point in 0..=TRACK_POINTS {
            let share = f64::from(point) / f64::from(TRACK_POINTS);
            let t_ns = from_ns.saturating_add((share * period_s * 1e9) as u64);
            self.lab
                .sky
                .some_positions_itrf_m(t_ns, &[node.index()], &mut at);
            let Some(position) = at.get(node.index()).filter(|position| !position.is_nan()) else {
                break;
            };
            track
                .itrf_km
                .extend(position.to_array().map(|axis| axis / 1e3));
            track.t_s.push(t_ns as f64 / 1e9);
        }
        Ok(track)
    }

    /// Returns the least-delay path of a pair over the scenario, at some hundred to two thousand instants, with the changes
    /// by hand of these events: each from its instant on.
    pub(crate) fn series(
        &self,
        from: &str,
        to: &str,
        events: &[Event],
    ) -> Result<SeriesView, Refused> {
        let (a, b) = (self.find(from)?, self.find(to)?);
        if a == b {
            return Err("a path leads from one node to another".to_owned());
        }
        let duration = self.lab.scenario.duration;
        let steps = u64::try_from(duration.ns()).unwrap_or(0) / self.lab.step_ns();
        // No more work than for one question, whatever the size of the sky.
        let nodes = self.lab.layout.nodes().len().max(1) as u64;
        let samples = (Effort::QUESTION / nodes).clamp(2, SAMPLES);
        let every = steps.div_ceil(samples).max(1) * self.lab.step_ns();
        let every_ns = i64::try_from(every).map_err(|error| error.to_string())?;
        let zero = TimeSpan::from_ns(0);
        let interval = Interval::new(&self.lab, zero, duration, Some(TimeSpan::from_ns(every_ns)));
        let interval = interval.map_err(|error| error.to_string())?;
        let changes = Changes::over_time(&self.lab, events, every);
        let change = |snapshot: &Snapshot| {
            let known = changes.partition_point(|(t_ns, _)| *t_ns <= snapshot.t_ns);
            let (_, latest) = &changes[known.checked_sub(1)?];
            latest.applied(&self.lab, snapshot)
        };
        let pairs = vec![(a, b)];
        let series = Series::with_changes(&self.lab, interval, pairs, true, 1, change);
        let points = series.map_err(|error| error.to_string())?.points;
        let ms = |ns: std::num::NonZeroU64| ns.get() as f64 / 1e6;
        Ok(SeriesView {
            from: self.name(a),
            to: self.name(b),
            t_s: (0..points.len())
                .map(|i| i as f64 * every as f64 / 1e9)
                .collect(),
            delay_ms: points.iter().map(|point| point.delay_ns.map(ms)).collect(),
            hops: points.iter().map(|point| point.hops).collect(),
            changed: (0..points.len()).filter(|i| points[*i].changed).collect(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::changes::tests::link_set;
    use constel_control::Scenario;
    use std::path::Path;

    pub(crate) fn iridium() -> Lab {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/iridium.yaml");
        Scenario::load(&file).unwrap().lab
    }

    fn start(skies: &Skies) -> Moment {
        Moment {
            step: 0,
            changes: Changes::none(&skies.lab),
        }
    }

    #[test]
    fn a_step_is_the_same_however_one_comes_to_it() {
        let skies = Skies::new(iridium());
        let far = skies.at(500).unwrap();
        let near = skies.at(3).unwrap();
        let mut stepper = skies.lab.stepper();
        assert_eq!(*near, stepper.at_step(3));
        assert_eq!(*far, stepper.at_step(500));
        assert_eq!(*skies.at(501).unwrap(), stepper.advance());
        assert!(skies.at(u64::MAX).is_err());
    }

    #[test]
    fn a_station_sees_its_satellite_and_the_words_agree() {
        let skies = Skies::new(iridium());
        let tokyo = skies.node("tokyo", &start(&skies)).unwrap();
        assert_eq!(tokyo.mask_deg, Some(8.2));
        let used: Vec<&VisibleSatellite> = tokyo.sky.iter().filter(|seen| seen.up).collect();
        assert_eq!(used.len(), 1);
        let link = skies.link("tokyo", &used[0].name, &start(&skies)).unwrap();
        assert!(link.up && link.edges.len() == 2);
        assert_eq!(link.why, used[0].why);
        let path = skies.path("tokyo", "london", &start(&skies)).unwrap();
        let path = path.optimum.unwrap();
        assert_eq!(path.hops[0].to, used[0].name);
        assert_eq!(
            path.delay_ns,
            path.hops.iter().map(|hop| hop.delay_ns).sum::<u64>()
        );
        let series = skies.series("tokyo", "london", &[]).unwrap();
        assert_eq!(series.t_s.len(), 75);
        assert_eq!(series.delay_ms[0], Some(path.delay_ns as f64 / 1e6));
    }

    #[test]
    fn a_link_that_was_failed_by_hand_is_down_then_on_no_path_and_not_in_the_sky() {
        let skies = Skies::new(iridium());
        let planned = skies.path("tokyo", "london", &start(&skies)).unwrap();
        let planned = planned.optimum.unwrap();
        let serving = &planned.hops[0].to;
        let hop = &planned.hops[1];
        let (first, laser) = (
            format!("tokyo-{serving}"),
            format!("{}-{}", hop.from, hop.to),
        );
        let down = |down: bool| serde_json::json!({"down": down});
        let events = [
            link_set(2.5, &laser, down(true)),
            link_set(4.0, &laser, down(false)),
            link_set(5.0, &first, down(true)),
        ];
        let at = |t_s: f64| {
            let t_ns = (t_s * 1e9) as u64;
            let changes = Changes::until(&skies.lab, &events, t_ns);
            let step = t_ns / skies.lab.step_ns();
            Moment { step, changes }
        };
        let hops = |t_s| {
            let path = skies.path("tokyo", "london", &at(t_s)).unwrap().optimum;
            let hops = path.into_iter().flat_map(|path| path.hops);
            hops.map(|hop| (hop.from, hop.to)).collect::<Vec<_>>()
        };
        let over = (hop.from.clone(), hop.to.clone());
        assert!(hops(2.4).contains(&over));
        // Within the step in which it was failed, too.
        assert!(!hops(2.6).contains(&over) && !hops(2.6).is_empty());
        assert!(hops(4.0).contains(&over));
        let link = |t_s| skies.link(&hop.from, &hop.to, &at(t_s)).unwrap();
        assert!(link(2.4).up && link(4.0).up && !link(2.6).up);
        let why = link(2.6).why;
        let why = why.strip_prefix("down: failed by hand at t = 2.500 s; else ");
        assert_eq!(why, Some(link(2.4).why.as_str()));
        // The station's only link: no path, and the satellite is not used.
        assert_eq!(hops(5.0), []);
        let sky = |t_s| skies.node("tokyo", &at(t_s)).unwrap();
        let used = |node: &NodeState| node.sky.iter().filter(|seen| seen.up).count();
        assert_eq!((used(&sky(4.9)), used(&sky(5.0))), (1, 0));
        assert!(sky(5.0).links.iter().all(|edge| !edge.usable));
        // The curve of the pair has them from their instants on: 2.5 s is between two samples.
        let series = skies.series("tokyo", "london", &events).unwrap();
        let plain = skies.series("tokyo", "london", &[]).unwrap();
        assert_eq!(series.delay_ms[..3], plain.delay_ms[..3]);
        assert!(series.delay_ms[3] > plain.delay_ms[3]);
        assert_eq!(series.delay_ms[4], plain.delay_ms[4]);
        assert_eq!(series.delay_ms[5], None);
    }

    #[test]
    fn a_link_that_was_made_slow_by_hand_has_that_delay() {
        let skies = Skies::new(iridium());
        let planned = skies.path("tokyo", "london", &start(&skies)).unwrap();
        let serving = &planned.optimum.unwrap().hops[0].to;
        let slow = serde_json::json!({"delay_ns": 300_000_000});
        let events = [link_set(0.0, &format!("{serving}-tokyo"), slow)];
        let changes = Changes::until(&skies.lab, &events, 0);
        let now = Moment { step: 0, changes };
        let link = skies.link("tokyo", serving, &now).unwrap();
        assert!(link.up && link.edges.iter().all(|edge| edge.delay_ns == 300_000_000));
        let path = skies
            .path("tokyo", "london", &now)
            .unwrap()
            .optimum
            .unwrap();
        assert_eq!(path.hops[0].delay_ns, 300_000_000);
    }

    #[test]
    fn a_track_is_one_revolution() {
        let skies = Skies::new(iridium());
        let track = skies.track("iridium-p01-s04", 10).unwrap();
        assert_eq!(track.itrf_km.len(), 3 * track.t_s.len());
        let length_s = track.t_s.last().unwrap() - track.t_s[0];
        assert!((6000.0..6100.0).contains(&length_s), "{length_s}");
        assert!(
            skies
                .track("tokyo", 0)
                .unwrap_err()
                .contains("does not fly")
        );
        assert!(skies.track("iridium-p01-s0", 0).is_err());
    }
}
