//! The targets of failures: nodes and links by name, or all that are at a place at the time.

use constel_orbit::sun::{Shadow, shadow};

use super::random::{SplitMix, key};
use super::{Broken, Moment};
use crate::circle::Circle;
use crate::class::Access;
use crate::error::SpecError;
use crate::layout::Layout;
use crate::node::NodeId;
use crate::pairing::IslKind;
use crate::spec::{Failure, FailureTarget, FailureTime};

/// The nodes and links that a failure takes down.
#[derive(Debug, Clone)]
pub(super) enum Hits {
    Nodes(Vec<NodeId>),
    Links(Vec<u32>),
    Cables(Vec<u32>),
    /// Edges of a network; which is found with its edges.
    Network,
    /// The kind of objects that fail there.
    Region {
        circle: Circle,
        satellites: bool,
        stations: bool,
    },
    /// Satellites in the Earth's shadow, and when each works there all the same.
    Eclipse {
        /// Place in the node table, and where in the period its turn begins, 0..1.
        satellites: Vec<(usize, f64)>,
        duty: f64,
        period_ns: u64,
    },
    /// Lasers of satellites of a constellation beyond a latitude; squared sine of it.
    Polar {
        constellation: usize,
        sine_squared: f64,
    },
}

/// Adds the objects that fail at a moment.
pub(super) fn hit(
    hits: &Hits,
    failure: u16,
    layout: &Layout,
    moment: &Moment<'_>,
    out: &mut Broken,
) {
    let positions = moment.positions;
    match hits {
        Hits::Eclipse {
            satellites,
            duty,
            period_ns,
        } => {
            let Some(sun) = moment.sun else { return };
            let turn = (moment.t_ns % period_ns) as f64 / *period_ns as f64;
            for &(index, begins) in satellites {
                let rests = (turn - begins).rem_euclid(1.0) >= *duty;
                if rests && shadow(positions[index], sun) == Shadow::Umbra {
                    out.nodes.push((NodeId(index as u32), failure));
                }
            }
        }
        Hits::Nodes(nodes) => out.nodes.extend(nodes.iter().map(|n| (*n, failure))),
        Hits::Links(links) => out.links.extend(links.iter().map(|l| (*l, failure))),
        Hits::Cables(cables) => out.cables.extend(cables.iter().map(|c| (*c, failure))),
        Hits::Network => out.networks.push(failure),
        Hits::Region {
            circle,
            satellites,
            stations,
        } => {
            let first = if *satellites {
                0
            } else {
                layout.satellite_count()
            };
            let end = if *stations {
                positions.len()
            } else {
                layout.satellite_count()
            };
            for (i, p) in positions.iter().enumerate().take(end).skip(first) {
                if circle.is_below(*p) {
                    out.nodes.push((NodeId(i as u32), failure));
                }
            }
        }
        Hits::Polar {
            constellation,
            sine_squared,
        } => {
            let beyond = |port| {
                let p = positions[layout.port(port).node.index()];
                p.z * p.z > sine_squared * p.length_squared()
            };
            for link in layout.isl_links() {
                if usize::from(link.constellation) == *constellation
                    && (beyond(link.a) || beyond(link.b))
                {
                    out.links.push((link.number, failure));
                }
            }
        }
    }
}

/// Returns failures without a target in this layout: a plane without satellites, a link that is not a pair.
pub(crate) fn that_hit_nothing(layout: &Layout) -> Vec<SpecError> {
    let empty = |failure: &&Failure| {
        objects(layout, failure).iter().all(|(_, hits)| match hits {
            Hits::Nodes(nodes) => nodes.is_empty(),
            Hits::Links(links) => links.is_empty(),
            Hits::Cables(cables) => cables.is_empty(),
            Hits::Region { .. } | Hits::Polar { .. } | Hits::Eclipse { .. } | Hits::Network => {
                false
            }
        })
    };
    // A failure whose time is given at run time may get its nodes then.
    let told = |failure: &&Failure| failure.when == FailureTime::Told;
    let failures = layout.spec().failures.iter();
    let failures = failures.filter(|failure| empty(failure) && !told(failure));
    let error = |f: &Failure| SpecError::BadFailure {
        name: f.name.clone(),
        reason: match &f.what {
            FailureTarget::Link { a, b } => {
                format!("neither a laser nor a cable joins `{a}` and `{b}`")
            }
            _ => "it hits nothing".to_owned(),
        },
    };
    failures.map(error).collect()
}

/// Returns the targets of a failure, divided into objects that fail independently, with their names.
pub(super) fn objects(layout: &Layout, failure: &Failure) -> Vec<(String, Hits)> {
    let one = |id: NodeId| (layout.node(id).name.clone(), Hits::Nodes(vec![id]));
    let satellites = |constellation: usize| {
        layout
            .satellites_of(constellation)
            .map(|i| layout.nodes()[i].id)
    };
    let link_name = |number: u32| {
        let link = &layout.isl_links()[number as usize];
        let name = |port| layout.node(layout.port(port).node).name.as_str();
        format!("{} {}", name(link.a), name(link.b))
    };
    match &failure.what {
        FailureTarget::Nodes(names) => names
            .iter()
            .filter_map(|n| layout.find(n))
            .map(|n| one(n.id))
            .collect(),
        FailureTarget::Link { a, b } => {
            let ends = layout.find(a).zip(layout.find(b));
            let laser = ends.and_then(|(a, b)| layout.isl_between(a.id, b.id));
            let laser = laser.map(|l| (link_name(l.number), Hits::Links(vec![l.number])));
            let cable = ends.and_then(|(a, b)| layout.cable_between(a.id, b.id));
            let cable = cable.map(|c| (format!("{a} {b}"), Hits::Cables(vec![c.number])));
            laser.into_iter().chain(cable).collect()
        }
        FailureTarget::Satellites { constellation } => {
            satellites(*constellation).map(one).collect()
        }
        FailureTarget::Plane {
            constellation,
            shell,
            plane,
        } => {
            let in_plane = |id: &NodeId| {
                layout
                    .node(*id)
                    .seat
                    .is_some_and(|s| (s.shell, s.plane) == (*shell, *plane))
            };
            let members = satellites(*constellation).filter(in_plane).collect();
            let name = &layout.spec().constellations[*constellation].name;
            vec![(format!("{name} {shell} {plane}"), Hits::Nodes(members))]
        }
        FailureTarget::Lasers { constellation } => layout
            .isl_links()
            .iter()
            .filter(|l| usize::from(l.constellation) == *constellation)
            .map(|l| (link_name(l.number), Hits::Links(vec![l.number])))
            .collect(),
        FailureTarget::Stations => layout
            .nodes()
            .iter()
            .filter(|n| n.class.access == Access::Chooses)
            .map(|n| one(n.id))
            .collect(),
        FailureTarget::Seam { constellation } => {
            let links = layout.isl_links().iter().filter(|l| {
                usize::from(l.constellation) == *constellation && l.kind == IslKind::Seam
            });
            vec![(
                "seam".to_owned(),
                Hits::Links(links.map(|l| l.number).collect()),
            )]
        }
        FailureTarget::Network { network, .. } => {
            let name = layout.spec().networks[*network].name.clone();
            vec![(name, Hits::Network)]
        }
        FailureTarget::Region { .. }
        | FailureTarget::Polar { .. }
        | FailureTarget::Eclipse { .. } => moving(layout, failure).into_iter().collect(),
    }
}

/// Returns a target that depends on the time: satellites at a place, or in the shadow.
fn moving(layout: &Layout, failure: &Failure) -> Option<(String, Hits)> {
    let (name, hits) = match &failure.what {
        FailureTarget::Region {
            latitude_deg,
            longitude_deg,
            radius_m,
            satellites,
            stations,
        } => {
            let hits = Hits::Region {
                circle: Circle::new(*latitude_deg, *longitude_deg, *radius_m),
                satellites: *satellites,
                stations: *stations,
            };
            ("region", hits)
        }
        FailureTarget::Polar {
            constellation,
            beyond_deg,
        } => {
            let hits = Hits::Polar {
                constellation: *constellation,
                sine_squared: beyond_deg.to_radians().sin().powi(2),
            };
            ("polar", hits)
        }
        FailureTarget::Eclipse {
            constellation,
            duty,
            period_ns,
        } => {
            let begins = |i: usize| {
                let name = &layout.nodes()[i].name;
                let key = key(layout.spec().seed, &failure.name, name);
                (i, SplitMix(key).unit())
            };
            let hits = Hits::Eclipse {
                satellites: layout.satellites_of(*constellation).map(begins).collect(),
                duty: *duty,
                period_ns: *period_ns,
            };
            ("eclipse", hits)
        }
        _ => return None,
    };
    Some((name.to_owned(), hits))
}
