//! Why a link is up or down: the same tests the stepper applies, with words.

use crate::class::Access;
use crate::decided::is_among;
use crate::down::Down;
use crate::failures::Broken;
use crate::geometry::{geocentric_latitude_deg, slew_rad};
use crate::ground::Watcher;
use crate::ground_link::{Path, Signals};
use crate::layout::{IslLink, Layout};
use crate::network;
use crate::node::NodeId;
use crate::pairing::IslKind;
use crate::snapshot::{Edge, Snapshot};
use crate::spec::IslPattern;
use constel_link::PortId;
use constel_orbit::{DVec3, grazing_altitude_m, line_of_sight};

/// Why there is, or is not, a link between two nodes at the start of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LinkReason {
    /// Frames pass.
    Up {
        /// Length of the link, metres.
        range_m: f64,
        /// Delay in each direction, ns.
        delay_ns: u64,
        /// Elevation seen from the station, degrees; `None` for an ISL.
        elevation_deg: Option<f64>,
        /// The signals of its radio; `None` for links without one.
        radio: Option<Signals>,
        /// The satellite whose constellation gives the link an access; `None` for links without one.
        access: Option<NodeId>,
    },
    /// The antennas are turning to each other; frames pass from `until_ns` of the lab on.
    Acquiring {
        /// Length of the link, metres.
        range_m: f64,
        /// End of the outage, nanoseconds after the start of the lab.
        until_ns: u64,
    },
    /// Not there.
    Down(Down),
}

/// The state of the sky that the tests of lasers need.
pub(crate) struct Moment<'a> {
    pub(crate) positions: &'a [DVec3],
    /// A step later.
    pub(crate) later: &'a [DVec3],
    pub(crate) step_s: f64,
    pub(crate) broken: &'a Broken,
}

/// Tests a laser pair: its range in metres when up.
pub(crate) fn isl_state(
    layout: &Layout,
    link: &IslLink,
    sin_sq_cutoff: f64,
    moment: &Moment<'_>,
) -> Result<f64, Down> {
    let laser = layout.laser(link);
    let (na, nb) = (layout.node_of(link.a), layout.node_of(link.b));
    let (a, b) = (moment.positions[na.index()], moment.positions[nb.index()]);
    for (node, p) in [(na, a), (nb, b)] {
        if p.is_nan() {
            return Err(Down::NoPosition { node });
        }
    }
    let broken = moment.broken;
    if !(broken.nodes.is_empty() && broken.links.is_empty()) {
        let by = broken
            .node(na)
            .or_else(|| broken.node(nb))
            .or_else(|| broken.link(link.number));
        if let Some(failure) = by {
            return Err(Down::Failed { failure });
        }
    }
    if link.kind != IslKind::IntraPlane {
        for (node, p) in [(na, a), (nb, b)] {
            if p.z * p.z > sin_sq_cutoff * p.length_squared() {
                return Err(Down::PolarCutoff {
                    node,
                    latitude_deg: geocentric_latitude_deg(p),
                    cutoff_deg: laser.polar_cutoff_deg,
                });
            }
        }
    }
    let range_m = a.distance(b);
    if range_m > laser.max_range_m {
        return Err(Down::BeyondRange {
            range_m,
            max_range_m: laser.max_range_m,
        });
    }
    if !line_of_sight(a, b, laser.clearance_m) {
        return Err(Down::LineOfSight {
            altitude_m: grazing_altitude_m(a, b),
            clearance_m: laser.clearance_m,
        });
    }
    if let Some(limit_deg_per_s) = laser.max_slew_deg_per_s {
        let (a2, b2) = (moment.later[na.index()], moment.later[nb.index()]);
        let one = slew_rad((a, a2), (b, b2), moment.step_s);
        let other = slew_rad((b, b2), (a, a2), moment.step_s);
        let rate_deg_per_s = one.max(other).to_degrees() / moment.step_s;
        if rate_deg_per_s > limit_deg_per_s {
            return Err(Down::SlewLimit {
                rate_deg_per_s,
                limit_deg_per_s,
            });
        }
    }
    Ok(range_m)
}

/// Squared sine of a cut-off latitude; 90 degrees gives 2, which no latitude exceeds.
pub(crate) fn sin_sq_cutoff(cutoff_deg: f64) -> f64 {
    if cutoff_deg >= 90.0 {
        2.0
    } else {
        cutoff_deg.to_radians().sin().powi(2)
    }
}

/// Why `a` and `b` are linked or not in `snapshot`.
///
/// # Panics
/// When a node number is not of this layout.
#[must_use]
pub fn why(layout: &Layout, snapshot: &Snapshot, a: NodeId, b: NodeId) -> LinkReason {
    if a == b {
        return LinkReason::Down(Down::SameNode);
    }
    let (x, y) = (layout.node(a), layout.node(b));
    match (x.class.access, y.class.access) {
        (Access::Chooses, Access::Serves) => why_gsl(layout, snapshot, a, b),
        (Access::Serves, Access::Chooses) => why_gsl(layout, snapshot, b, a),
        _ if x.seat.is_some() && y.seat.is_some() => {
            // Craft of a formation have no lasers, and perhaps a network.
            if layout.isl_between(a, b).is_none() && joined(layout, a, b).is_some() {
                why_cable(layout, snapshot, a, b)
            } else {
                why_isl(layout, snapshot, a, b)
            }
        }
        _ => why_cable(layout, snapshot, a, b),
    }
}

/// Between two nodes that neither a laser nor a ground link joins.
fn why_cable(layout: &Layout, snapshot: &Snapshot, a: NodeId, b: NodeId) -> LinkReason {
    let Some((from, to)) = joined(layout, a, b) else {
        let flies = [a, b].iter().any(|n| layout.node(*n).class.flies);
        return LinkReason::Down(if flies {
            Down::NotNeighbours
        } else {
            Down::BothOnGround
        });
    };
    let positions = &snapshot.positions_itrf_m;
    let range_m = positions[a.index()].distance(positions[b.index()]);
    let cable = layout.cable_of_port(from);
    let broken = || {
        let broken = &snapshot.broken;
        let cut = || cable.and_then(|cable| broken.cable(cable.number));
        broken.node(a).or_else(|| broken.node(b)).or_else(cut)
    };
    match (snapshot.edge(from, to), broken()) {
        (Some(edge), _) => linked(edge, snapshot.t_ns, range_m, None),
        (None, Some(failure)) => LinkReason::Down(Down::Failed { failure }),
        (None, None) if cable.is_some() && is_among(&snapshot.switched_off, a, b) => {
            LinkReason::Down(Down::SwitchedOff)
        }
        (None, None) => LinkReason::Down(match network::cut_by(layout, snapshot, from, to) {
            Some(failure) => Down::Failed { failure },
            None => Down::NotNeighbours,
        }),
    }
}

/// The ports by which a cable or a network joins two nodes.
fn joined(layout: &Layout, a: NodeId, b: NodeId) -> Option<(PortId, PortId)> {
    let own = |node: NodeId, port: &PortId| layout.port(*port).node == node;
    let cable = layout.cable_between(a, b).map(|c| vec![c.a, c.b]);
    let networks = (0..layout.spec().networks.len()).map(|n| layout.network_ports(n).to_vec());
    cable.into_iter().chain(networks).find_map(|ports| {
        let from = ports.iter().find(|port| own(a, port))?;
        Some((*from, *ports.iter().find(|port| own(b, port))?))
    })
}

fn why_isl(layout: &Layout, snapshot: &Snapshot, a: NodeId, b: NodeId) -> LinkReason {
    if let Some(link) = layout.isl_between(a, b) {
        if let Some(edge) = snapshot.edge(link.a, link.b) {
            let positions = &snapshot.positions_itrf_m;
            let range_m = positions[a.index()].distance(positions[b.index()]);
            return linked(edge, snapshot.t_ns, range_m, None);
        }
        let listed = snapshot
            .isl_down
            .binary_search_by_key(&link.number, |d| d.0);
        return match listed {
            Ok(at) => LinkReason::Down(snapshot.isl_down[at].1),
            // Not of this layout's stepper.
            Err(_) => LinkReason::Down(Down::NotNeighbours),
        };
    }
    let (Some(x), Some(y)) = (layout.node(a).seat, layout.node(b).seat) else {
        return LinkReason::Down(Down::NotNeighbours);
    };
    if (x.constellation, x.shell) != (y.constellation, y.shell) {
        return LinkReason::Down(Down::NotNeighbours);
    }
    let constellation = &layout.spec().constellations[usize::from(x.constellation)];
    let IslPattern::PlusGrid(grid) = &constellation.isl else {
        return LinkReason::Down(Down::NoLasers);
    };
    let seam = layout.across_seam(x, y) && !grid.neighbours.links_seam();
    LinkReason::Down(if seam {
        Down::Seam
    } else {
        Down::NotNeighbours
    })
}

/// Properties that only links to the ground have.
struct ToGround {
    elevation_deg: f64,
    radio: Option<Signals>,
    access: Option<NodeId>,
}

fn linked(edge: &Edge, t_ns: u64, range_m: f64, ground: Option<ToGround>) -> LinkReason {
    if edge.usable_at(t_ns) {
        LinkReason::Up {
            range_m,
            delay_ns: edge.impairment.delay.delay_ns,
            elevation_deg: ground.as_ref().map(|ground| ground.elevation_deg),
            radio: ground.as_ref().and_then(|ground| ground.radio),
            access: ground.and_then(|ground| ground.access),
        }
    } else {
        LinkReason::Acquiring {
            range_m,
            until_ns: edge.impairment.up_from_ns,
        }
    }
}

fn why_gsl(layout: &Layout, snapshot: &Snapshot, station: NodeId, satellite: NodeId) -> LinkReason {
    let place = station.index() - layout.satellite_count();
    let target = snapshot.positions_itrf_m[satellite.index()];
    let watcher = Watcher::new(layout, place, snapshot.t_ns);
    let constellation = layout.constellation_of(satellite);
    let far = layout.gsl_port(satellite);
    let mut radios = layout.access_ports(station).iter();
    if let Some(edge) = radios.find_map(|port| snapshot.edge(port.id, far)) {
        let look = watcher.site.look(target);
        let path = Path::to(&watcher, place, target, snapshot.t_ns);
        let has_access = constellation.is_some_and(|k| k.access.is_some());
        let feeder = layout.spec().stations[place].feeder;
        let ground = ToGround {
            elevation_deg: look.elevation_rad.to_degrees(),
            radio: constellation.and_then(|k| path.signals(layout, k)),
            access: (has_access && !feeder).then_some(satellite),
        };
        return linked(edge, snapshot.t_ns, look.range_m, Some(ground));
    }
    for node in [station, satellite] {
        if let Some(failure) = snapshot.broken.node(node) {
            return LinkReason::Down(Down::Failed { failure });
        }
    }
    let mut reasons = Vec::new();
    let mut able = None;
    for terminal in layout.terminal_places(place) {
        match watcher.test(layout, terminal, satellite.index(), target, snapshot.t_ns) {
            Ok(_) => able = able.or(Some(terminal)),
            Err(down) => reasons.push(down),
        }
    }
    let Some(able) = able else {
        // That of a terminal for such satellites, if there is one.
        let other = |down: &&Down| !matches!(down, Down::NoTerminal { .. });
        let own = reasons.iter().find(other).or(reasons.first());
        return LinkReason::Down(own.copied().unwrap_or(Down::NoTerminal { node: satellite }));
    };
    let links = snapshot.edges_from(far);
    if constellation.is_some_and(|k| k.bent_pipe) && !layout.spec().stations[place].feeder {
        let feeder = |edge: &Edge| {
            let node = layout.port(edge.to).node.index() - layout.satellite_count();
            layout.spec().stations[node].feeder
        };
        if !links.iter().any(feeder) {
            return LinkReason::Down(Down::NoFeeder);
        }
    }
    if let Some(beams) = constellation.and_then(|k| k.beams)
        && links.len() >= beams.get() as usize
    {
        return LinkReason::Down(Down::BeamsTaken { beams: beams.get() });
    }
    let beams = layout.terminals()[able].beams.clone();
    LinkReason::Down(match snapshot.beams[beams].first() {
        Some(Some(satellite)) => Down::PolicyChose {
            satellite: *satellite,
        },
        _ => Down::PolicyChoseNone,
    })
}
