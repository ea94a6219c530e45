//! The input of a topology. Everything here is resolved: no defaults, SI units.

mod failures;
mod lasers;
mod network;
mod radio;

use crate::class::{NodeClass, SATELLITE};
use crate::node::NodeId;
use crate::policy::GslPolicy;
use constel_link::access::Access;
use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

pub use failures::{Centre, Disruption, Failure, FailureTarget, FailureTime};
pub use lasers::{CrossShell, IslPattern, LaserPairing, Lasers, Neighbours, PlusGrid, Wrap};
pub use network::{Law, Moment, Network, NetworkEdge};
pub(crate) use radio::rain_at;
pub use radio::{Radio, Rain, Recorded, Recording};

/// All that determines the edges, except the positions of satellites (these come from [`Sky`](crate::Sky)).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spec {
    /// Length of a step in nanoseconds, 1 ms to 60 s. Decisions are taken at step starts only.
    pub step_ns: u64,
    /// Constellations. Satellites get node numbers in this order.
    pub constellations: Vec<Constellation>,
    /// Ground stations. Stations get node numbers after all satellites.
    pub stations: Vec<Station>,
    /// Nodes on the ground without a radio. They get node numbers after all stations.
    pub hosts: Vec<Host>,
    /// Cables between nodes on the ground, whose links never change.
    pub cables: Vec<Cable>,
    /// Further ports and the rules of the edges between them.
    pub networks: Vec<Network>,
    /// How terminals choose their satellites; a terminal names its rule by the place here.
    pub rules: Vec<GslSpec>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Lasers between shells. A satellite has one such laser; of several entries the first that pairs it counts.
    pub cross: Vec<CrossShell>,
    /// Failures; at most 65,535 entries.
    pub failures: Vec<Failure>,
    /// Lasers and cables that are switched off and on, in order of time.
    pub switched: Vec<Switched>,
}

/// One operator's satellites and how they link.
#[derive(Debug, Clone, PartialEq)]
pub struct Constellation {
    /// Name, for messages.
    pub name: String,
    /// The class of its members.
    pub class: &'static NodeClass,
    /// The constellation's satellites.
    pub satellites: Vec<Satellite>,
    /// The rule for its lasers.
    pub isl: IslPattern,
    /// Rate, queue and loss of every ISL.
    pub isl_class: LinkClass,
    /// Elevation above a station's horizon under which its satellites are not used, degrees, -5..90.
    pub min_elevation_deg: f64,
    /// Rate, queue and loss of every ground link to its satellites, both directions.
    pub gsl_class: LinkClass,
    /// Rate and loss of ground links by elevation, lowest first; below the first step, `gsl_class` holds.
    pub gsl_steps: Vec<ElevationStep>,
    /// Radio of ground links: its rate limits the links' rate further, and where it does not close there is no
    /// link. `None`: links have their own rate.
    pub radio: Option<Radio>,
    /// Access of stations that are no feeders; `None`: their links have the delay of light and their class alone.
    pub access: Option<GslAccess>,
    /// Whether its satellites only relay between users and feeders: stations that are no feeders use only
    /// satellites that a feeder uses in the same step.
    pub bent_pipe: bool,
    /// The shells whose satellites serve the ground.
    pub ground: GroundService,
    /// The number of links to the ground that a satellite can have at the same time; `None` does not limit.
    pub beams: Option<NonZeroU32>,
    /// Total rate of a satellite's links to the ground, in each direction, bits per second at layer 2: each
    /// link has at most an even share of it. `None`: each link has its own rate.
    pub capacity_bps: Option<NonZeroU64>,
    /// A station does not use a satellite that it sees within this angle of the geostationary arc, degrees,
    /// 0..=45; 0 does not limit.
    pub gso_avoidance_deg: f64,
    /// How lasers acquire their links, and the time that it takes.
    pub lasers: Lasers,
}

impl Default for Constellation {
    /// No satellites, no links.
    fn default() -> Constellation {
        Constellation {
            name: String::new(),
            class: &SATELLITE,
            satellites: Vec::new(),
            isl: IslPattern::default(),
            isl_class: LinkClass::default(),
            min_elevation_deg: 0.0,
            gsl_class: LinkClass::default(),
            gsl_steps: Vec::new(),
            radio: None,
            access: None,
            bent_pipe: false,
            ground: GroundService::default(),
            beams: None,
            capacity_bps: None,
            gso_avoidance_deg: 0.0,
            lasers: Lasers::default(),
        }
    }
}

/// Access of the terminals of a constellation. Positions and rain decide its rates; all other parts are effects of its
/// profile.
#[derive(Debug, Clone, PartialEq)]
pub struct GslAccess {
    /// The parts.
    pub parts: Arc<Access>,
    /// Profile of the links, instead of that of the class.
    pub profile: u16,
}

/// Rate and loss of a ground link from an elevation upwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ElevationStep {
    /// Degrees, -5..=90.
    pub above_deg: f64,
    /// Bits per second at layer 2; `None` does not limit.
    pub rate_bps: Option<NonZeroU64>,
    /// Chance that a frame is lost, 0..=1.
    pub loss_ratio: f64,
}

impl Constellation {
    /// Returns the class of a ground link at an elevation.
    #[must_use]
    pub fn gsl_class_at(&self, elevation_deg: f64) -> LinkClass {
        let reached = self
            .gsl_steps
            .partition_point(|s| s.above_deg <= elevation_deg);
        match reached.checked_sub(1) {
            None => self.gsl_class,
            Some(step) => LinkClass {
                rate_bps: self.gsl_steps[step].rate_bps,
                loss_ratio: self.gsl_steps[step].loss_ratio,
                ..self.gsl_class
            },
        }
    }
}

/// The shells of a constellation that have links to the ground.
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

/// A ground station or terminal.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// Unique in the lab.
    pub name: String,
    /// WGS84 geodetic latitude, degrees, -90..90.
    pub latitude_deg: f64,
    /// Longitude, degrees, -180..180.
    pub longitude_deg: f64,
    /// Height above the WGS84 ellipsoid, metres, -1,000..20,000.
    pub altitude_m: f64,
    /// The station's radios to the sky, 1..=16, each with a port of its own.
    pub terminals: Vec<Terminal>,
    /// Whether its terminals have one antenna for each shell that serves the ground, instead of `antennas` for
    /// any, and packets that arrive by one shell may leave by another.
    pub gateway: bool,
    /// Obstacles that hide parts of its sky.
    pub obstacles: Vec<Obstacle>,
    /// Positions over time, in order of time; empty for a station that rests at the place above.
    pub track: Vec<Waypoint>,
    /// Whether it feeds bent-pipe satellites.
    pub feeder: bool,
    /// How hard it rains, in order of time; no rain before the first entry.
    pub rain: Vec<Rain>,
    /// Measurements, applied to its ground links.
    pub recording: Recording,
    /// Satellites chosen beforehand, in order of time; before the first entry its rules choose.
    pub choices: Vec<Chosen>,
}

/// The satellites chosen beforehand for a station, from an instant on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Nanoseconds after the start of the lab.
    pub t_ns: u64,
    /// The satellites, the most wanted first. Each antenna takes the first that it can use and that no other
    /// antenna of the station has; without one the station has no link.
    pub satellites: Vec<NodeId>,
}

/// A laser or cable that is switched off or on again, from an instant on. A link that is on is up only if geometry and failures allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switched {
    /// Nanoseconds after the start of the lab.
    pub t_ns: u64,
    /// One end.
    pub a: NodeId,
    /// The other end.
    pub b: NodeId,
    /// Whether it is on.
    pub up: bool,
}

/// A radio of a station, with a port of its own. No two antennas of a station use one satellite at the same time.
#[derive(Debug, Clone, PartialEq)]
pub struct Terminal {
    /// The constellations whose satellites it uses.
    pub serves: Operators,
    /// Elevation above the horizon under which it uses no satellite, degrees, -5..=90; `None`: the constellation's mask.
    pub min_elevation_deg: Option<f64>,
    /// The number of satellites that it can use at the same time, 1..=32; of no meaning at a gateway.
    pub antennas: u8,
    /// The rule by which its antennas choose: index in [`Spec::rules`].
    pub rule: usize,
}

impl Default for Terminal {
    /// One antenna for all constellations, which chooses by the first rule.
    fn default() -> Terminal {
        Terminal {
            serves: Operators::All,
            min_elevation_deg: None,
            antennas: 1,
            rule: 0,
        }
    }
}

/// The constellations whose satellites a terminal uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Operators {
    /// All constellations.
    #[default]
    All,
    /// These constellations, by their indices in the spec; at least one.
    Only(BTreeSet<u16>),
}

impl Operators {
    /// Whether satellites of a constellation are among them.
    #[must_use]
    pub fn has(&self, constellation: u16) -> bool {
        match self {
            Operators::All => true,
            Operators::Only(those) => those.contains(&constellation),
        }
    }
}

/// A node on the ground without a radio to the sky: a router or computer with cables, or a member of networks.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Unique in the lab.
    pub name: String,
    /// The node's class; one that does not fly and chooses no satellites.
    pub class: &'static NodeClass,
    /// WGS84 geodetic latitude, degrees, -90..90.
    pub latitude_deg: f64,
    /// Longitude, degrees, -180..180.
    pub longitude_deg: f64,
    /// Height above the WGS84 ellipsoid, metres, -1,000..20,000.
    pub altitude_m: f64,
    /// The machine's interface that its ports are attached to; `None`: Constel creates them.
    pub attach: Option<String>,
}

/// A link on the ground.
#[derive(Debug, Clone, PartialEq)]
pub struct Cable {
    /// A station or host.
    pub a: String,
    /// Another.
    pub b: String,
    /// One-way delay, ns.
    pub delay_ns: u64,
    /// Rate, queue and loss in each direction. Its extra delay is added.
    pub class: LinkClass,
}

/// The position of a moving station at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waypoint {
    /// Nanoseconds after the start of the lab.
    pub t_ns: u64,
    /// WGS84 geodetic latitude, degrees, -90..90.
    pub latitude_deg: f64,
    /// Longitude, degrees, -180..180.
    pub longitude_deg: f64,
    /// Height above the WGS84 ellipsoid, metres, -1,000..20,000.
    pub altitude_m: f64,
}

impl Default for Station {
    /// On the equator at longitude 0, one terminal with one antenna for all constellations, free view to the horizon.
    fn default() -> Station {
        Station {
            name: String::new(),
            latitude_deg: 0.0,
            longitude_deg: 0.0,
            altitude_m: 0.0,
            terminals: vec![Terminal::default()],
            gateway: false,
            obstacles: Vec::new(),
            track: Vec::new(),
            feeder: false,
            rain: Vec::new(),
            recording: Recording::default(),
            choices: Vec::new(),
        }
    }
}

/// Something on the horizon, from one azimuth clockwise to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Obstacle {
    /// Azimuth of its start, degrees from north, 0..360.
    pub from_deg: f64,
    /// Azimuth of its end, clockwise from the start, degrees from north, 0..360.
    pub to_deg: f64,
    /// Elevation of its upper edge, degrees, -5..90.
    pub elevation_deg: f64,
}

impl Obstacle {
    /// Whether it is in the direction `azimuth_deg`, 0..360.
    #[must_use]
    pub fn spans(&self, azimuth_deg: f64) -> bool {
        let width = (self.to_deg - self.from_deg).rem_euclid(360.0);
        (azimuth_deg - self.from_deg).rem_euclid(360.0) <= width
    }
}

/// Rate, queue and loss of one kind of link, each direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkClass {
    /// MTU of the ports at its ends, bytes above Ethernet, 576..=9000.
    pub mtu_bytes: u32,
    /// Bits per second at layer 2; `None` does not limit.
    pub rate_bps: Option<NonZeroU64>,
    /// Bytes that may wait for service.
    pub queue_bytes: u64,
    /// Chance that a frame is lost, 0..=1.
    pub loss_ratio: f64,
    /// Delay on top of light time, ns: processing, framing, refraction.
    pub extra_delay_ns: u64,
    /// Number of the further effects of such links ([`Impairment::profile`](constel_link::Impairment)).
    pub profile: u16,
}

impl Default for LinkClass {
    /// The usual MTU, no limit of the rate, no queue, no loss.
    fn default() -> LinkClass {
        LinkClass {
            mtu_bytes: MTU_BYTES,
            rate_bps: None,
            queue_bytes: 0,
            loss_ratio: 0.0,
            extra_delay_ns: 0,
            profile: 0,
        }
    }
}

/// The default MTU of ports: Ethernet's.
pub(crate) const MTU_BYTES: u32 = 1500;

/// How the antennas of a terminal choose satellites.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GslSpec {
    /// The rule.
    pub policy: GslPolicy,
    /// Time to acquire a new satellite after a decision to change, ns. A first choice at the start of the lab
    /// takes no time.
    pub outage_ns: u64,
    /// Whether the old link is kept until the new one is up. The change then begins early enough, because
    /// orbits are known. Otherwise the antenna is dark for `outage_ns`.
    pub make_before_break: bool,
}

impl GslSpec {
    /// Whether an antenna that changes keeps its old link until the new one is up.
    pub(crate) fn keeps_old(&self) -> bool {
        self.make_before_break && self.outage_ns > 0
    }
}
