//! A lab in the formats of others: CZML scenes, maps, graphs, ephemerides, Hypatia's and StarPerf's files.

use std::fmt;
use std::io::Write;

use constel_exchange::czml::{self, Body, BodyPosition, Line, Run, Scene};
use constel_exchange::draft::{Shell, Station};
use constel_exchange::ephemeris::{Ephemeris, Frame, Segment, State};
use constel_exchange::graph::{Graph, GraphLink, GraphNode};
use constel_exchange::{hypatia, map, starperf};
use constel_orbit::{CircularOrbit, DVec3, EARTH_EQUATORIAL_RADIUS_M};
use constel_scenario::model::{Orbits, WalkerPattern};
use constel_topology::{Effort, Node, NodeId, Snapshot, Span};
use constel_units::{TimeSpan, Utc};

use crate::contacts::ContactPlan;
use crate::interval::Interval;
use crate::paths::Paths;
use constel_plan::Lab;
use constel_plan::PlanError;

/// Samples times nodes an export may hold in memory: 24 bytes each.
const MAX_PLACES: u64 = 50_000_000;

/// The reason why an export is not possible.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Too much to hold.
    #[error("{nodes} nodes at {samples} samples are too many; sample less often")]
    TooMany {
        /// Nodes.
        nodes: usize,
        /// Samples.
        samples: u64,
    },
    /// The format knows Walker patterns only.
    #[error(
        "{format} describes only Walker constellations with evenly spread planes; `{constellation}` is another kind"
    )]
    NotWalker {
        /// The format.
        format: &'static str,
        /// The constellation.
        constellation: String,
    },
    /// Two-line elements number 99,999 satellites.
    #[error("Hypatia's elements number at most 99,999 satellites")]
    TooManySatellites,
    /// The instant is not in the lab.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Writing failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Positions of all nodes at every sample and one more at the end, by node.
fn tracks(lab: &Lab, interval: &Interval) -> Result<Vec<Vec<DVec3>>, ExportError> {
    let satellites = lab.layout.satellite_count();
    let samples = interval.samples() + 1;
    if samples.saturating_mul(satellites as u64) > MAX_PLACES {
        return Err(ExportError::TooMany {
            nodes: satellites,
            samples,
        });
    }
    let mut tracks = vec![Vec::with_capacity(samples as usize); satellites];
    let mut now = Vec::new();
    for sample in 0..samples {
        // A satellite without a position is NaN, which every writer leaves out.
        let _lost = lab.sky.positions_itrf_m(interval.at(sample), &mut now);
        for (track, position) in tracks.iter_mut().zip(&now) {
            track.push(*position);
        }
    }
    Ok(tracks)
}

/// Writes the interval as CZML: satellites every `interval.every`, stations, and links as they come and go.
///
/// # Errors
/// [`ExportError::TooMany`], and those of `out`.
pub fn czml(
    lab: &Lab,
    interval: Interval,
    threads: usize,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let tracks = tracks(lab, &interval)?;
    let at = |ns: u64| lab.scenario.start + TimeSpan::from_ns(ns as i64);
    let place = lab
        .stepper()
        .at_step(interval.from_ns() / lab.step_ns())
        .positions_itrf_m;
    let step = TimeSpan::from_ns(interval.every_ns() as i64);
    let mut tracks = tracks.into_iter().enumerate();
    let bodies = lab.layout.nodes().iter().map(|node| {
        let ground = !node.class.flies;
        Body {
            name: node.name.clone(),
            description: lab.catalogue.of(node.id).map(ToString::to_string),
            color: if ground {
                [255, 80, 60, 255]
            } else {
                [120, 200, 255, 255]
            },
            pixels: if ground { 6 } else { 3 },
            labelled: ground,
            place: match tracks.next() {
                Some((satellite, track)) if !ground => BodyPosition::Sampled {
                    step,
                    runs: runs(lab, &interval, satellite, track),
                },
                _ => BodyPosition::Fixed(place[node.id.index()]),
            },
        }
    });
    let bodies: Vec<Body> = bodies.collect();
    let mut lines: Vec<Line> = Vec::new();
    let mut contacts = ContactPlan::new(lab, interval, threads).contacts;
    contacts.sort_by_key(|c| (c.a_node.min(c.b_node), c.a_node.max(c.b_node), c.from_ns));
    let mut last = None;
    for contact in contacts {
        let ends = (
            contact.a_node.min(contact.b_node),
            contact.a_node.max(contact.b_node),
        );
        if last != Some(ends) {
            last = Some(ends);
            lines.push(Line {
                a: lab.layout.node(ends.0).name.clone(),
                b: lab.layout.node(ends.1).name.clone(),
                color: if contact.class.span == Span::Access {
                    [80, 220, 80, 255]
                } else {
                    [200, 200, 255, 80]
                },
                shown: Vec::new(),
            });
        }
        if let Some(line) = lines.last_mut() {
            line.shown.push((at(contact.from_ns), at(contact.to_ns)));
        }
    }
    let scene = Scene {
        name: lab.scenario.name.to_string(),
        start: at(interval.from_ns()),
        end: at(interval.to_ns()),
        bodies,
        lines,
    };
    Ok(czml::write(&scene, out)?)
}

/// A map of the lab at `at` as SVG, with the least-delay paths of `pairs`.
///
/// # Errors
/// Times outside the lab's.
pub fn svg(lab: &Lab, at: TimeSpan, pairs: &[(NodeId, NodeId)]) -> Result<String, ExportError> {
    let (time, snapshot) = instant(lab, at)?;
    let places = &snapshot.positions_itrf_m;
    let mut map = map::Map {
        title: format!("{} at {time}", lab.scenario.name),
        ..map::Map::default()
    };
    for node in lab.layout.nodes() {
        let position = places[node.id.index()];
        match node.seat {
            None => map.stations.push(map::MapPoint {
                name: node.name.clone(),
                position_itrf_m: position,
            }),
            Some(seat) => {
                let constellation =
                    &lab.layout.spec().constellations[usize::from(seat.constellation)];
                let one = constellation
                    .satellites
                    .iter()
                    .all(|s| s.shell == seat.shell);
                let name = match one {
                    true => constellation.name.clone(),
                    false => format!("{} shell {}", constellation.name, seat.shell),
                };
                match map.shells.iter_mut().find(|s| s.name == name) {
                    Some(shell) => shell.satellites.push(position),
                    None => map.shells.push(map::Shell {
                        name,
                        satellites: vec![position],
                    }),
                }
            }
        }
    }
    for edge in snapshot.edges.iter().filter(|e| e.from < e.to) {
        let end = |port| places[lab.layout.port(port).node.index()];
        match edge.class.span {
            Span::Space => map.isls.push((end(edge.from), end(edge.to))),
            Span::Access | Span::Ground => map.gsls.push((end(edge.from), end(edge.to))),
        }
    }
    let mut paths = Paths::default();
    paths.load(&lab.layout, &snapshot);
    for (slot, &(a, b)) in pairs.iter().enumerate() {
        paths.aim(slot, b);
        paths.trace(a, |_, _, nodes| {
            if !nodes.is_empty() {
                map.paths
                    .push(nodes.iter().map(|n| places[*n as usize]).collect());
            }
        });
    }
    Ok(map.svg())
}

/// Returns the UTC of a lab time, and the topology of its step.
fn instant(lab: &Lab, at: TimeSpan) -> Result<(Utc, Snapshot), PlanError> {
    let t_ns = u64::try_from(at.ns()).map_err(|_| PlanError::BeforeStart(at))?;
    let time = (lab.scenario.start)
        .checked_add(at)
        .ok_or(PlanError::BeyondTime(at))?;
    let mut stepper = lab.stepper();
    let step = stepper.step_at(t_ns);
    let mut effort = Effort::new(Effort::QUESTION, &|| true);
    let snapshot = stepper.try_step(step, &mut effort)?;
    Ok((time, snapshot))
}

/// Returns all nodes and the links at `at` as a graph. In drawings each plane is a column and each slot a row; nodes without a
/// seat are in rows below.
///
/// # Errors
/// Times outside the lab's.
pub fn graph(lab: &Lab, at: TimeSpan) -> Result<Graph, ExportError> {
    let (time, snapshot) = instant(lab, at)?;
    let nodes = lab.layout.nodes();
    let plane = |node: &Node| {
        let seat = node.seat?;
        Some((seat.constellation, seat.shell, seat.plane))
    };
    let mut planes: Vec<_> = nodes.iter().filter_map(plane).collect();
    planes.sort_unstable();
    planes.dedup();
    let slots = nodes.iter().filter_map(|node| node.seat);
    let below = slots
        .map(|seat| u32::from(seat.slot) + 2)
        .max()
        .unwrap_or(0);
    let columns = planes.len().max(8) as u32;
    let mut without_seat = 0;
    let graph_node = |node: &Node| {
        let column = plane(node).and_then(|own| planes.binary_search(&own).ok());
        let place = match (column, node.seat) {
            (Some(column), Some(seat)) => (column as u32, u32::from(seat.slot)),
            _ => {
                without_seat += 1;
                (
                    (without_seat - 1) % columns,
                    below + (without_seat - 1) / columns,
                )
            }
        };
        GraphNode {
            name: node.name.clone(),
            kind: node.class.name.to_owned(),
            flies: node.class.flies,
            place,
        }
    };
    let graph_nodes = nodes.iter().map(graph_node).collect();
    let node = |port| lab.layout.port(port).node.index();
    // A link is drawn once, by its edge from the lower port, or by its only edge.
    let once = |edge: &&constel_topology::Edge| {
        edge.from < edge.to || snapshot.edge(edge.to, edge.from).is_none()
    };
    let links = snapshot.edges.iter().filter(once).map(|edge| GraphLink {
        a: node(edge.from),
        b: node(edge.to),
        kind: edge.class.name.to_owned(),
        delay_ms: edge.impairment.delay.at(snapshot.t_ns) as f64 / 1e6,
        rate_bps: edge.impairment.rate_bps.map(u64::from),
    });
    Ok(Graph {
        name: format!("{} at {time}", lab.scenario.name),
        links: links.collect(),
        nodes: graph_nodes,
    })
}

/// The positions of satellites over an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Ephemerides {
    /// The satellites that have two samples in a row at least.
    pub objects: Vec<Ephemeris>,
    /// The samples that are in none of the segments, by satellite.
    pub left_out: Vec<IsolatedSamples>,
}

/// The samples of a satellite that have no neighbour to interpolate to: a hole is on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct IsolatedSamples {
    /// The satellite's name.
    pub object: String,
    /// The instants of the samples. Empty if the satellite has no position at any sample.
    pub at: Vec<Utc>,
}

impl fmt::Display for IsolatedSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// More instants would fill the screen.
        const SHOWN: usize = 3;
        let object = &self.object;
        if self.at.is_empty() {
            return write!(
                f,
                "`{object}` has no position at any sample, so it is left out"
            );
        }
        let shown: Vec<String> = self.at.iter().take(SHOWN).map(Utc::to_string).collect();
        let (samples, verb) = match self.at.len() {
            1 => ("sample", "is"),
            _ => ("samples", "are"),
        };
        write!(f, "`{object}`: the {samples} at {}", shown.join(", "))?;
        if self.at.len() > SHOWN {
            write!(f, " and {} more", self.at.len() - SHOWN)?;
        }
        write!(
            f,
            " {verb} left out, as none is next to another with a position: sample more often"
        )
    }
}

/// Returns ephemerides of all satellites over the interval, ITRF positions without velocities. Where a satellite has no
/// position, one segment ends and the next begins after.
///
/// # Errors
/// [`ExportError::TooMany`].
pub fn ephemerides(lab: &Lab, interval: Interval) -> Result<Ephemerides, ExportError> {
    let tracks = tracks(lab, &interval)?;
    let mut left_out = Vec::new();
    let at =
        |sample: usize| lab.scenario.start + TimeSpan::from_ns(interval.at(sample as u64) as i64);
    let satellites = lab
        .layout
        .nodes()
        .iter()
        .zip(tracks)
        .enumerate()
        .filter_map(|(satellite, (node, track))| {
            let (mut segments, mut alone) = (Vec::new(), Vec::new());
            for run in runs(lab, &interval, satellite, track) {
                let first = run.first;
                match segment(run, &at) {
                    Some(segment) => segments.push(segment),
                    None => alone.push(at(first)),
                }
            }
            if segments.is_empty() || !alone.is_empty() {
                left_out.push(IsolatedSamples {
                    object: node.name.clone(),
                    at: alone,
                });
            }
            if segments.is_empty() {
                return None;
            }
            let number = lab.catalogue.of(node.id).and_then(|entry| entry.norad_id);
            Some(Ephemeris {
                object: node.name.clone(),
                object_id: number.map_or_else(|| node.name.clone(), |n| n.to_string()),
                segments,
            })
        });
    let objects = satellites.collect();
    Ok(Ephemerides { objects, left_out })
}

/// Samples of a satellite in runs: a sample without a position ends one, and so does a time without one between two samples.
fn runs(lab: &Lab, interval: &Interval, satellite: usize, track: Vec<DVec3>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut open = false;
    for (sample, position) in track.into_iter().enumerate() {
        if !position.is_finite() {
            open = false;
            continue;
        }
        let at = |sample: usize| interval.at(sample as u64);
        let broken = open
            && lab
                .sky
                .is_interrupted(satellite, at(sample - 1), at(sample));
        match runs.last_mut() {
            Some(run) if open && !broken => run.positions_itrf_m.push(position),
            _ => runs.push(Run {
                first: sample,
                positions_itrf_m: vec![position],
            }),
        }
        open = true;
    }
    runs
}

/// A run as a segment; `None` if it has a single sample.
fn segment(run: Run, at: &impl Fn(usize) -> Utc) -> Option<Segment> {
    let states: Vec<State> = (run.first..)
        .zip(run.positions_itrf_m)
        .map(|(sample, position_m)| State {
            at: at(sample),
            position_m,
            velocity_m_per_s: None,
        })
        .collect();
    let (method, degree) = Segment::suited(&states);
    Segment::new(Frame::Itrf, method, degree, states, None).ok()
}

/// Returns the Walker shells of a lab, for formats that support no other orbits.
fn shells(lab: &Lab, format: &'static str) -> Result<Vec<Shell>, ExportError> {
    let shell = |c: &constel_scenario::model::Constellation| match &c.orbits {
        Orbits::Walker(walker) if walker.plane_spacing.is_none() => Ok(Shell {
            star: walker.pattern == WalkerPattern::Star,
            altitude_m: walker.altitude.m(),
            inclination_deg: walker.inclination.deg(),
            planes: walker.planes,
            per_plane: walker.slots(),
            phasing: walker.phasing,
            raan0_deg: walker.raan0.deg(),
            isl: true,
            min_elevation_deg: None,
        }),
        _ => Err(ExportError::NotWalker {
            format,
            constellation: c.name.to_string(),
        }),
    };
    lab.scenario.constellations.iter().map(shell).collect()
}

fn stations(lab: &Lab) -> Vec<Station> {
    let station = |s: &constel_scenario::model::Station| Station {
        name: s.name.to_string(),
        latitude_deg: s.latitude.deg(),
        longitude_deg: s.longitude.deg(),
        altitude_m: s.altitude.m(),
    };
    lab.scenario.stations.iter().map(station).collect()
}

/// Hypatia's files as (name, text).
///
/// # Errors
/// Constellations that are no Walker patterns, or too many satellites.
pub fn hypatia(lab: &Lab) -> Result<Vec<(&'static str, String)>, ExportError> {
    let shells = shells(lab, "Hypatia")?;
    let spec = lab.layout.spec();
    let tles = hypatia::write_tles(lab.scenario.name.as_str(), &shells, lab.scenario.start)
        .ok_or(ExportError::TooManySatellites)?;
    let node = |port| lab.layout.port(port).node.0;
    let links: Vec<(u32, u32)> = lab
        .layout
        .isl_links()
        .iter()
        .map(|l| (node(l.a), node(l.b)))
        .collect();
    // The longest links geometry allows: at the mask, and past the Earth 80 km up.
    let (mut gsl_m, mut isl_m) = (0.0_f64, 0.0_f64);
    for (k, (shell, constellation)) in shells.iter().zip(&spec.constellations).enumerate() {
        let own_deg = (0..spec.stations.len()).filter_map(|s| lab.layout.lowest_mask_deg(s, k));
        let mask_deg = own_deg.fold(constellation.min_elevation_deg, f64::min);
        let radius_m = EARTH_EQUATORIAL_RADIUS_M + shell.altitude_m;
        let mask = mask_deg.to_radians();
        let level = EARTH_EQUATORIAL_RADIUS_M * mask.cos();
        gsl_m = gsl_m.max(
            (radius_m.powi(2) - level.powi(2)).sqrt() - EARTH_EQUATORIAL_RADIUS_M * mask.sin(),
        );
        isl_m = isl_m.max(
            2.0 * (radius_m.powi(2) - (EARTH_EQUATORIAL_RADIUS_M + 80e3).powi(2))
                .max(0.0)
                .sqrt(),
        );
    }
    Ok(vec![
        ("tles.txt", tles),
        ("isls.txt", hypatia::write_isls(&links)),
        (
            "ground_stations.basic.txt",
            hypatia::write_stations(&stations(lab)),
        ),
        (
            "gsl_interfaces_info.txt",
            hypatia::write_gsl_interfaces(lab.layout.nodes().len()),
        ),
        ("description.txt", hypatia::write_description(gsl_m, isl_m)),
    ])
}

/// StarPerf's files as (name, text).
///
/// # Errors
/// Constellations that are no Walker patterns.
pub fn starperf(lab: &Lab) -> Result<Vec<(&'static str, String)>, ExportError> {
    let shells = shells(lab, "StarPerf")?;
    let period_s = |shell: &Shell| {
        CircularOrbit::new(lab.scenario.start, shell.altitude_m, 0.0, 0.0, 0.0).kepler_period_s()
    };
    Ok(vec![
        (
            "constellation.xml",
            starperf::write_constellation(&shells, period_s),
        ),
        (
            "ground_stations.xml",
            starperf::write_stations(&stations(lab)),
        ),
    ])
}
