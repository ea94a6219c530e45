//! Why a link is up or down: the same tests the stepper applies, with words.

use crate::geometry::geocentric_latitude_deg;
use crate::layout::{IslLink, Layout};
use crate::node::{NodeId, NodeKind};
use crate::pairing::IslKind;
use crate::snapshot::Snapshot;
use crate::spec::IslPattern;
use constel_orbit::{DVec3, grazing_altitude_m, light_time_ns};
use std::fmt;

/// Why there is, or is not, a link between two nodes at the start of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// Frames pass.
    Up {
        /// Length of the link, metres.
        range_m: f64,
        /// Delay each way, ns.
        delay_ns: u64,
        /// Elevation seen from the station, degrees; `None` for an ISL.
        elevation_deg: Option<f64>,
    },
    /// The station has just changed its satellite; frames pass from `until_ns` of the lab on.
    Acquiring {
        /// Length of the link, metres.
        range_m: f64,
        /// End of the outage, nanoseconds after the start of the lab.
        until_ns: u64,
    },
    /// Not there.
    Down(Down),
}

/// Why a link is down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Down {
    /// Both are the same node.
    SameNode,
    /// Two ground nodes have no radio to each other.
    BothOnGround,
    /// The constellation has no lasers.
    NoLasers,
    /// The pattern does not make them neighbours.
    NotNeighbours,
    /// Their planes fly in opposite directions and the seam is not linked.
    Seam,
    /// The satellite's orbit gives no position now.
    NoPosition {
        /// The satellite.
        node: NodeId,
    },
    /// One end is too far from the equator for inter-plane links.
    PolarCutoff {
        /// The end that is.
        node: NodeId,
        /// Its geocentric latitude, degrees.
        latitude_deg: f64,
        /// The limit, degrees.
        cutoff_deg: f64,
    },
    /// Too far apart.
    BeyondRange {
        /// How far, metres.
        range_m: f64,
        /// The limit, metres.
        max_range_m: f64,
    },
    /// The straight line passes too low.
    LineOfSight {
        /// Its lowest height, metres; negative through the Earth.
        altitude_m: f64,
        /// The limit, metres.
        clearance_m: f64,
    },
    /// The satellite has no links to the ground, by design.
    NotForGround {
        /// The satellite.
        node: NodeId,
    },
    /// The satellite is too low above the station's horizon.
    BelowMask {
        /// Its elevation, degrees.
        elevation_deg: f64,
        /// The limit, degrees.
        mask_deg: f64,
    },
    /// The station uses another satellite.
    PolicyChose {
        /// The one it uses.
        satellite: NodeId,
    },
    /// The policy left the station dark though this satellite is above the mask.
    PolicyChoseNone,
}

/// Tests a laser pair: its range in metres when up.
pub(crate) fn isl_state(
    layout: &Layout,
    link: &IslLink,
    sin_sq_cutoff: f64,
    positions: &[DVec3],
) -> Result<f64, Down> {
    let grid = layout.grid_of(link);
    let (na, nb) = (layout.port(link.a).node, layout.port(link.b).node);
    let (a, b) = (positions[na.index()], positions[nb.index()]);
    for (node, p) in [(na, a), (nb, b)] {
        if p.is_nan() {
            return Err(Down::NoPosition { node });
        }
    }
    if link.kind != IslKind::IntraPlane {
        for (node, p) in [(na, a), (nb, b)] {
            if p.z * p.z > sin_sq_cutoff * p.length_squared() {
                return Err(Down::PolarCutoff {
                    node,
                    latitude_deg: geocentric_latitude_deg(p),
                    cutoff_deg: grid.polar_cutoff_deg,
                });
            }
        }
    }
    let range_m = a.distance(b);
    if range_m > grid.max_range_m {
        return Err(Down::BeyondRange {
            range_m,
            max_range_m: grid.max_range_m,
        });
    }
    let altitude_m = grazing_altitude_m(a, b);
    if altitude_m < grid.clearance_m {
        return Err(Down::LineOfSight {
            altitude_m,
            clearance_m: grid.clearance_m,
        });
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
pub fn why(layout: &Layout, snapshot: &Snapshot, a: NodeId, b: NodeId) -> Why {
    if a == b {
        return Why::Down(Down::SameNode);
    }
    match (layout.node(a).kind, layout.node(b).kind) {
        (NodeKind::Ground, NodeKind::Ground) => Why::Down(Down::BothOnGround),
        (NodeKind::Satellite, NodeKind::Satellite) => why_isl(layout, snapshot, a, b),
        (NodeKind::Ground, NodeKind::Satellite) => why_gsl(layout, snapshot, a, b),
        (NodeKind::Satellite, NodeKind::Ground) => why_gsl(layout, snapshot, b, a),
    }
}

fn why_isl(layout: &Layout, snapshot: &Snapshot, a: NodeId, b: NodeId) -> Why {
    if let Some(link) = layout.isl_between(a, b) {
        let cutoff = sin_sq_cutoff(layout.grid_of(link).polar_cutoff_deg);
        return match isl_state(layout, link, cutoff, &snapshot.positions_itrf_m) {
            Ok(range_m) => Why::Up {
                range_m,
                delay_ns: light_time_ns(range_m),
                elevation_deg: None,
            },
            Err(down) => Why::Down(down),
        };
    }
    let (Some(x), Some(y)) = (layout.node(a).seat, layout.node(b).seat) else {
        return Why::Down(Down::NotNeighbours);
    };
    if (x.constellation, x.shell) != (y.constellation, y.shell) {
        return Why::Down(Down::NotNeighbours);
    }
    let constellation = &layout.spec().constellations[usize::from(x.constellation)];
    let IslPattern::PlusGrid(grid) = &constellation.isl else {
        return Why::Down(Down::NoLasers);
    };
    Why::Down(
        if layout.across_seam(x, y) && !grid.neighbours.links_seam() {
            Down::Seam
        } else {
            Down::NotNeighbours
        },
    )
}

fn why_gsl(layout: &Layout, snapshot: &Snapshot, station: NodeId, satellite: NodeId) -> Why {
    let place = station.index() - layout.satellite_count();
    let target = snapshot.positions_itrf_m[satellite.index()];
    if target.is_nan() {
        return Why::Down(Down::NoPosition { node: satellite });
    }
    if !layout.serves_ground(satellite.index()) {
        return Why::Down(Down::NotForGround { node: satellite });
    }
    let look = layout.sites()[place].look(target);
    let (range_m, elevation) = (look.range_m, look.elevation_rad.to_degrees());
    if snapshot.serving[place] == Some(satellite) {
        let edge = snapshot.edge(layout.gsl_port(station), layout.gsl_port(satellite));
        return match edge {
            Some(e) if !e.usable_at(snapshot.t_ns) => Why::Acquiring {
                range_m,
                until_ns: e.impairment.up_from_ns,
            },
            _ => Why::Up {
                range_m,
                delay_ns: light_time_ns(range_m),
                elevation_deg: Some(elevation),
            },
        };
    }
    let seat = layout.node(satellite).seat;
    let mask_deg = seat.map_or(90.0, |s| {
        layout.mask_deg(place, usize::from(s.constellation))
    });
    if elevation < mask_deg {
        return Why::Down(Down::BelowMask {
            elevation_deg: elevation,
            mask_deg,
        });
    }
    Why::Down(match snapshot.serving[place] {
        Some(satellite) => Down::PolicyChose { satellite },
        None => Down::PolicyChoseNone,
    })
}

impl Why {
    /// True when frames pass.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(self, Why::Up { .. })
    }

    /// The reason in a sentence, with node names.
    #[must_use]
    pub fn describe(&self, layout: &Layout) -> String {
        Words { why: self, layout }.to_string()
    }
}

struct Words<'a> {
    why: &'a Why,
    layout: &'a Layout,
}

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |n: &NodeId| self.layout.node(*n).name.as_str();
        let km = |m: &f64| m / 1e3;
        match self.why {
            Why::Up {
                range_m,
                delay_ns,
                elevation_deg,
            } => {
                write!(
                    f,
                    "up: {:.1} km, {:.3} ms",
                    km(range_m),
                    *delay_ns as f64 / 1e6
                )?;
                match elevation_deg {
                    Some(e) => write!(f, ", elevation {e:.1} deg"),
                    None => Ok(()),
                }
            }
            Why::Acquiring { range_m, until_ns } => write!(
                f,
                "acquiring until {:.3} s after a handover: {:.1} km",
                *until_ns as f64 / 1e9,
                km(range_m)
            ),
            Why::Down(down) => {
                f.write_str("down: ")?;
                match down {
                    Down::SameNode => f.write_str("both ends are the same node"),
                    Down::BothOnGround => f.write_str("both are on the ground"),
                    Down::NoLasers => f.write_str("the constellation has no inter-satellite links"),
                    Down::NotNeighbours => f.write_str("the pattern does not make them neighbours"),
                    Down::Seam => {
                        f.write_str("across the seam: the planes fly in opposite directions")
                    }
                    Down::NoPosition { node } => {
                        write!(f, "{} has no position: its orbit has ended", name(node))
                    }
                    Down::PolarCutoff {
                        node,
                        latitude_deg,
                        cutoff_deg,
                    } => write!(
                        f,
                        "{} is at latitude {latitude_deg:.1} deg, beyond the polar cut-off of {cutoff_deg} deg",
                        name(node)
                    ),
                    Down::BeyondRange {
                        range_m,
                        max_range_m,
                    } => write!(
                        f,
                        "{:.1} km apart, beyond the range of {:.1} km",
                        km(range_m),
                        km(max_range_m)
                    ),
                    Down::LineOfSight {
                        altitude_m,
                        clearance_m,
                    } => write!(
                        f,
                        "line of sight passes at {:.1} km, below {:.1} km",
                        km(altitude_m),
                        km(clearance_m)
                    ),
                    Down::NotForGround { node } => {
                        write!(f, "{} does not serve the ground", name(node))
                    }
                    Down::BelowMask {
                        elevation_deg,
                        mask_deg,
                    } => write!(
                        f,
                        "below the mask by {:.1} deg (elevation {elevation_deg:.1}, mask {mask_deg})",
                        mask_deg - elevation_deg
                    ),
                    Down::PolicyChose { satellite } => {
                        write!(f, "policy chose {}", name(satellite))
                    }
                    Down::PolicyChoseNone => f.write_str("policy chose no satellite"),
                }
            }
        }
    }
}
