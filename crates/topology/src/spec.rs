//! What a topology is computed from. Everything here is resolved: no defaults, SI units.

use crate::ground_link::{Radio, Rain, Recording};
use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroU64};

/// The whole of what decides the edges, apart from where satellites are (that is [`Sky`](crate::Sky)).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spec {
    /// Length of a step in nanoseconds, 1 ms to 60 s. Decisions are taken at step starts only.
    pub step_ns: u64,
    /// What flies. Satellites get node numbers in this order.
    pub constellations: Vec<Constellation>,
    /// What stands on the ground. Stations get node numbers after all satellites.
    pub stations: Vec<Station>,
    /// What stands on the ground without a radio. Hosts get node numbers after all stations.
    pub hosts: Vec<Host>,
    /// Cables between stations and hosts. They never move.
    pub cables: Vec<Cable>,
    /// How a station chooses its satellite.
    pub gsl: GslSpec,
    /// Seed of every random choice.
    pub seed: u64,
    /// Lasers between shells. A satellite has one such laser; of several entries the first that pairs it counts.
    pub cross: Vec<CrossShell>,
    /// What breaks; at most 65,535 entries.
    pub failures: Vec<Failure>,
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
    /// Rate and loss of ground links by elevation, lowest first; below the first step, `gsl_class` holds.
    pub gsl_steps: Vec<ElevationStep>,
    /// Radio of ground links: what it carries limits the rate further, and where it does not close there is no
    /// link. `None`: rates are as said.
    pub radio: Option<Radio>,
    /// Whether its satellites only pass on what a feeder sends or takes: stations that are no feeders use only
    /// satellites that a feeder uses in the same step.
    pub bent_pipe: bool,
    /// Which shells' satellites serve the ground.
    pub ground: GroundService,
    /// How many links to the ground a satellite can have at the same time; `None` does not limit.
    pub beams: Option<NonZeroU32>,
    /// What a satellite's links to the ground can carry in all, each way, bits per second at layer 2: each has at most
    /// an even share of it. `None`: each has what it has.
    pub capacity_bps: Option<NonZeroU64>,
    /// A station does not use a satellite that it sees within this angle of the geostationary arc, degrees,
    /// 0..=45; 0 does not limit.
    pub gso_avoidance_deg: f64,
    /// How lasers find their ends and what that costs.
    pub lasers: Lasers,
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
    /// What a ground link is like at an elevation.
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
    /// The station's own horizon: the larger of this and the constellation's mask counts. Degrees, -5..90.
    pub min_elevation_deg: f64,
    /// How many satellites it can use at the same time, 1..=32; of no meaning for a gateway.
    pub antennas: u8,
    /// It has one antenna for each shell that serves the ground, instead of `antennas` for any.
    pub gateway: bool,
    /// Where something stands in the way.
    pub obstacles: Vec<Obstacle>,
    /// Where it is when, in order of time; empty for a station that stands at the place above.
    pub track: Vec<Waypoint>,
    /// Whether it feeds bent-pipe satellites.
    pub feeder: bool,
    /// How hard it rains, in order of time; no rain before the first entry.
    pub rain: Vec<Rain>,
    /// What was measured there, laid over its ground links.
    pub recording: Recording,
}

/// A router or computer on the ground that only has cables.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Unique in the lab.
    pub name: String,
    /// WGS84 geodetic latitude, degrees, -90..90.
    pub latitude_deg: f64,
    /// Longitude, degrees, -180..180.
    pub longitude_deg: f64,
    /// Height above the WGS84 ellipsoid, metres, -1,000..20,000.
    pub altitude_m: f64,
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

/// Where a moving station is at a time.
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
    /// On the equator at longitude 0, one antenna, free view to the horizon.
    fn default() -> Station {
        Station {
            name: String::new(),
            latitude_deg: 0.0,
            longitude_deg: 0.0,
            altitude_m: 0.0,
            min_elevation_deg: 0.0,
            antennas: 1,
            gateway: false,
            obstacles: Vec::new(),
            track: Vec::new(),
            feeder: false,
            rain: Vec::new(),
            recording: Recording::default(),
        }
    }
}

/// Something on the horizon, from one azimuth clockwise to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Obstacle {
    /// Where it begins, degrees from north, 0..360.
    pub from_deg: f64,
    /// Where it ends, clockwise from there, degrees from north, 0..360.
    pub to_deg: f64,
    /// How high it is, degrees, -5..90.
    pub elevation_deg: f64,
}

impl Obstacle {
    /// Whether it stands in the direction `azimuth_deg`, 0..360.
    #[must_use]
    pub fn spans(&self, azimuth_deg: f64) -> bool {
        let width = (self.to_deg - self.from_deg).rem_euclid(360.0);
        (azimuth_deg - self.from_deg).rem_euclid(360.0) <= width
    }
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
    /// Delay on top of light time, ns: processing, framing, refraction.
    pub extra_delay_ns: u64,
    /// Number of the further effects of such links ([`Impairment::profile`](constel_link::Impairment)).
    pub profile: u16,
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
    /// A complete Walker pattern: the slot nearest in phase, or another at the same distance from it everywhere.
    Walker {
        /// Walker's F, 0 <= F < planes.
        phasing: u32,
        /// Whether the last plane links back to plane 0.
        wrap: Wrap,
        /// How many slots ahead of the one nearest in phase the neighbour in the next plane is; negative: behind it.
        slots_ahead: i16,
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
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GslSpec {
    /// The rule.
    pub policy: GslPolicy,
    /// How long it takes to get a new satellite after a decision to change, ns. A station's first choice at
    /// the start of the lab costs nothing.
    pub outage_ns: u64,
    /// Whether the old link is kept until the new one is up. The change then begins early enough, because
    /// orbits are known. Otherwise the antenna is dark for `outage_ns`.
    pub make_before_break: bool,
}

/// The rules built in. [`Policy`](crate::Policy) is the door for others. Ties go to the lower node number.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum GslPolicy {
    /// The satellite at the shortest range above the mask; equal ranges go to the lower node number.
    #[default]
    Nearest,
    /// The satellite highest above the horizon.
    HighestElevation,
    /// Keeps its satellite as long as it can; then takes the one that will stay longest.
    LongestVisible,
    /// Keeps its satellite until another one stands at least `gain_deg` higher.
    Hysteresis {
        /// Degrees, 0..=90.
        gain_deg: f64,
    },
    /// Keeps its satellite as long as it can; then takes the one that serves the fewest stations, the
    /// nearest of these.
    LeastLoaded,
    /// All stations are assigned at once at the start of every slot, in node order, each to the highest
    /// satellite that stays usable until the slot ends; nothing changes in between (Starlink's global
    /// scheduler, with slots of 15 s: Tanveer et al., "Making sense of constellations", CoNEXT 2023).
    Scheduler {
        /// Length of a slot, ns.
        period_ns: u64,
        /// When a slot begins, ns after the start of the lab; less than `period_ns`.
        phase_ns: u64,
    },
}

/// Something that breaks, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Unique name: it is said where something is missing, and random times depend on it.
    pub name: String,
    /// What breaks. Of several objects each breaks by itself when times are random.
    pub what: FailureTarget,
    /// When.
    pub when: FailureTime,
}

/// What a [`Failure`] hits. Constellations by their place in the spec.
#[derive(Debug, Clone, PartialEq)]
pub enum FailureTarget {
    /// These nodes lose all their links.
    Nodes(Vec<String>),
    /// One laser link.
    Link {
        /// A satellite.
        a: String,
        /// The satellite it is linked with.
        b: String,
    },
    /// All satellites of a constellation.
    Satellites {
        /// Whose.
        constellation: usize,
    },
    /// All satellites of a plane together.
    Plane {
        /// Whose.
        constellation: usize,
        /// Shell number.
        shell: u16,
        /// Plane number in the shell.
        plane: u16,
    },
    /// All laser links of a constellation.
    Lasers {
        /// Whose.
        constellation: usize,
    },
    /// All stations.
    Stations,
    /// Nodes over, or in, a circle on the ground.
    Region {
        /// Geocentric latitude of the centre, degrees.
        latitude_deg: f64,
        /// Longitude of the centre, degrees.
        longitude_deg: f64,
        /// Radius on a sphere of the Earth's mean radius, metres.
        radius_m: f64,
        /// Whether satellites above it lose all their links.
        satellites: bool,
        /// Whether stations in it lose all their links.
        stations: bool,
    },
    /// Laser links of a constellation with an end beyond a geocentric latitude, north or south.
    Polar {
        /// Whose.
        constellation: usize,
        /// Degrees, 0..=90.
        beyond_deg: f64,
    },
    /// Satellites of a constellation in the Earth's shadow (umbra): each works for `duty` of every `period_ns`,
    /// and not at all when that is 0. When in the period it works is the satellite's own, from the seed.
    Eclipse {
        /// Whose.
        constellation: usize,
        /// Share of the period, 0..=1.
        duty: f64,
        /// At least 1.
        period_ns: u64,
    },
    /// Laser links across the seam of a constellation.
    Seam {
        /// Whose.
        constellation: usize,
    },
}

/// When a [`Failure`] happens, nanoseconds after the start of the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureTime {
    /// Once.
    Scheduled {
        /// From here on.
        from_ns: u64,
        /// Until here; `None`: for good.
        until_ns: Option<u64>,
    },
    /// Again and again, times exponentially distributed, working at the start.
    Random {
        /// Mean time from a repair to the next failure, at least 1.
        mtbf_ns: u64,
        /// Mean time from a failure to its repair, at least 1.
        mttr_ns: u64,
    },
}

/// How lasers find their ends and what that costs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lasers {
    /// Which satellites are paired, at time 0 and for good.
    pub pairing: LaserPairing,
    /// How fast a terminal can turn, as seen in its satellite's frame of flight, degrees per second;
    /// `None` does not limit.
    pub max_slew_deg_per_s: Option<f64>,
    /// How long a link takes to come up after its ends come into reach, ns. Links that are in reach at the
    /// start of the lab are up.
    pub acquisition_ns: u64,
}

/// Which satellites of a constellation are paired, within the limits of its [`PlusGrid`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LaserPairing {
    /// A ring in each plane and one link to each adjacent plane.
    #[default]
    Grid,
    /// A ring in each plane and nothing else.
    Ring,
    /// Each satellite with up to so many others of its shell, the nearest over an orbit first. At most 4.
    Nearest(u8),
    /// These pairs of names, at most 4 of each satellite.
    List(Vec<(String, String)>),
}

/// Laser links between two shells: satellites are paired one to one at time 0, those first that stay nearest
/// over `horizon_ns`, and for good. Shells drift apart, so links end when they go out of range.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossShell {
    /// Constellation, by its place in the spec, and shell.
    pub from: (usize, u16),
    /// The other.
    pub to: (usize, u16),
    /// Longest range, metres.
    pub max_range_m: f64,
    /// The straight line must stay this high above the WGS84 ellipsoid, metres.
    pub clearance_m: f64,
    /// How long pairs shall last, ns.
    pub horizon_ns: u64,
    /// Rate, queue and loss.
    pub class: LinkClass,
    /// How long a link takes to come up, ns.
    pub acquisition_ns: u64,
}
