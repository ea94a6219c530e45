//! What a topology is computed from. Everything here is resolved: no defaults, SI units.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

/// The whole of what decides the edges, apart from where satellites are (that is [`Sky`](crate::Sky)).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spec {
    /// Length of a step in nanoseconds, 1 ms to 60 s. Decisions are taken at step starts only.
    pub step_ns: u64,
    /// What flies. Satellites get node numbers in this order.
    pub constellations: Vec<Constellation>,
    /// What stands on the ground. Stations get node numbers after all satellites.
    pub stations: Vec<Station>,
    /// How a station chooses its satellite.
    pub gsl: GslSpec,
}

/// One operator's satellites and how they link.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Constellation {
    /// Name, for messages.
    pub name: String,
    /// Its satellites.
    pub satellites: Vec<Satellite>,
    /// Which lasers there are.
    pub isl: IslPattern,
    /// Rate, queue and loss of every ISL.
    pub isl_class: LinkClass,
    /// Elevation above a station's horizon under which its satellites are not used, degrees, -5..90.
    pub min_elevation_deg: f64,
    /// Rate, queue and loss of every ground link to its satellites, both directions.
    pub gsl_class: LinkClass,
    /// Which shells' satellites serve the ground.
    pub ground: GroundService,
}

/// Which of a constellation's shells have links to the ground.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GroundService {
    /// All of them.
    #[default]
    All,
    /// These shells only; none at all when empty.
    Shells(BTreeSet<u16>),
}

impl GroundService {
    /// Whether satellites of `shell` serve the ground.
    #[must_use]
    pub fn has(&self, shell: u16) -> bool {
        match self {
            GroundService::All => true,
            GroundService::Shells(shells) => shells.contains(&shell),
        }
    }
}

/// One satellite: its name and seat. Its orbit is the [`Sky`](crate::Sky)'s business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Satellite {
    /// Unique in the lab.
    pub name: String,
    /// Shell number; ISLs stay inside a shell.
    pub shell: u16,
    /// Plane number in the shell, in order of ascending node.
    pub plane: u16,
    /// Slot number in the plane, in order of flight.
    pub slot: u16,
}

/// A ground station or terminal with one antenna.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Station {
    /// Unique in the lab.
    pub name: String,
    /// WGS84 geodetic latitude, degrees, -90..90.
    pub latitude_deg: f64,
    /// Longitude, degrees, -180..180.
    pub longitude_deg: f64,
    /// Height above the WGS84 ellipsoid, metres, -1,000..20,000.
    pub altitude_m: f64,
    /// The station's own horizon: the larger of this and the constellation's mask counts. Degrees, -5..90.
    pub min_elevation_deg: f64,
}

/// Rate, queue and loss of one kind of link, each direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LinkClass {
    /// Bits per second at layer 2; `None` does not limit.
    pub rate_bps: Option<NonZeroU64>,
    /// Bytes that may wait for service.
    pub queue_bytes: u64,
    /// Chance that a frame is lost, 0..=1.
    pub loss_ratio: f64,
}

/// Which inter-satellite links a constellation has.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum IslPattern {
    /// None at all; satellites have only their ground port.
    #[default]
    None,
    /// Fore, aft, east and west.
    PlusGrid(PlusGrid),
}

/// The +Grid: a ring in each plane and one link to each adjacent plane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlusGrid {
    /// How the neighbour in the adjacent plane is found.
    pub neighbours: Neighbours,
    /// Inter-plane links are off while either end is farther from the equator than this
    /// (geocentric latitude, degrees, 0..=90; 90 never cuts).
    pub polar_cutoff_deg: f64,
    /// Longest range a laser bridges, metres.
    pub max_range_m: f64,
    /// The straight line must stay this high above the WGS84 ellipsoid, metres.
    pub clearance_m: f64,
}

/// How inter-plane neighbours are paired, once, at time 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbours {
    /// A complete Walker pattern: the slot nearest in phase, the same shift for a whole pair of planes.
    Walker {
        /// Walker's F, 0 <= F < planes.
        phasing: u32,
        /// Whether the last plane links back to plane 0.
        wrap: Wrap,
    },
    /// Real satellites with gaps: the ring goes by argument of latitude, and across planes the
    /// nearest true neighbours pair off one to one, shortest first, as far as they are within range.
    /// Nearness is the root mean square distance over an orbit, as time 0 shows it: neighbours at
    /// that moment only would part again. (Across a seam it is the distance at time 0.)
    Nearest {
        /// Whether the last plane links back to plane 0.
        wrap: Wrap,
    },
}

impl Neighbours {
    /// True when planes flying in opposite directions are linked.
    pub(crate) fn links_seam(self) -> bool {
        match self {
            Neighbours::Walker { wrap, .. } | Neighbours::Nearest { wrap } => {
                wrap == Wrap::StarSeamOn
            }
        }
    }
}

/// What happens between the last plane and the first. With [`Neighbours::Nearest`], a star's "last" plane is
/// the one before the widest step between ascending nodes, whatever its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrap {
    /// Planes span 360 degrees (Walker delta): they are neighbours, co-rotating.
    Delta,
    /// Planes span 180 degrees (Walker star): they fly in opposite directions. Not linked.
    StarSeamOff,
    /// As above, but linked across the seam where range allows.
    StarSeamOn,
}

/// How stations choose satellites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GslSpec {
    /// The rule.
    pub policy: GslPolicy,
    /// How long a station is dark after each change of its satellite (break before make), ns.
    pub outage_ns: u64,
}

/// The rules built in. [`Policy`](crate::Policy) is the door for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GslPolicy {
    /// The satellite at the shortest range above the mask; equal ranges go to the lower node number.
    #[default]
    Nearest,
}
