//! The resolved scenario: every default filled in, every unit typed, every file read and hashed.
//!
//! An `Option` here never means "not said": `None` is itself the answer, as its comment says.

mod transport;

use constel_link::Effects;
use constel_units::{Angle, DataRate, DataSize, Length, RainRate, Ratio, TimeSpan, Utc};
use serde::Serialize;

use crate::deferred::DeferredNode;
pub use crate::radio::{Carrier, Modcod, Radio, Recorded, Recording};
pub use crate::raw::{
    ClockHold, Destinations, DriverChoice, Family, HandoverKind, Metric, Name, Polarization,
    RegionHits, Software, WalkerPattern,
};
use crate::source::Source;
pub use crate::text_file::TextFile;
pub use transport::{
    LeotpSettings, LeotpVariant, Midnodes, OnTheWay, Over, Placement, SplitTcp, Transfer,
};

/// A scenario that can be planned. Made by [`resolve`](crate::resolve).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scenario {
    /// Name of the scenario.
    pub name: Name,
    /// The author's words; may be empty.
    pub description: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// UTC at lab time zero.
    pub start: Utc,
    /// How long the lab runs; a positive whole multiple of `step`.
    pub duration: TimeSpan,
    /// Time between two topologies, 10 ms to 60 s.
    pub step: TimeSpan,
    /// When lab time starts to run.
    pub clock_hold: ClockHold,
    /// What flies, by name; at least one.
    pub constellations: Vec<Constellation>,
    /// Ground stations by name; from `stations` and from files of places. Names are unique among
    /// stations and Walker satellites.
    pub stations: Vec<Station>,
    /// Nodes on the ground that only have cables, by name.
    pub hosts: Vec<Host>,
    /// Cables between stations and hosts.
    pub cables: Vec<Cable>,
    /// Links between shells.
    pub cross_shell: Vec<CrossShell>,
    /// What breaks; names are unique.
    pub failures: Vec<Failure>,
    /// How packets find their way.
    pub routing: Routing,
    /// Which driver carries the frames.
    pub driver: DriverChoice,
    /// What nodes on the way do for the flows that pass them.
    pub transport: OnTheWay,
    /// Flows and commands in order of their start; equal starts in the order of the file.
    pub traffic: Vec<Flow>,
    /// Every file that was read, the scenario itself first, the others by path.
    pub inputs: Vec<InputFile>,
    /// Node names in `traffic` that may be satellites of an element file; settled by
    /// [`check_nodes`](Self::check_nodes).
    #[serde(skip)]
    pub deferred: Vec<DeferredNode>,
    /// The scenario file, for errors of later stages.
    #[serde(skip)]
    pub source: Source,
}

/// One constellation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Constellation {
    /// Its name; the beginning of its satellites' names.
    pub name: Name,
    /// Its orbits.
    pub orbits: Orbits,
    /// Links between its satellites.
    pub isl: Isl,
    /// Links between its satellites and the ground; `None`: it has no such links.
    pub gsl: Option<Gsl>,
}

/// Where a constellation's orbits come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Orbits {
    /// A Walker pattern.
    Walker(Walker),
    /// Two-line elements, SGP4.
    Tle(ElementSet),
    /// OMM JSON or CSV, SGP4.
    Omm(ElementSet),
    /// Positions over time: OEM or CSV. Its text is passed on unread.
    Ephemeris(TextFile),
}

/// A Walker pattern `inclination:satellites/planes/phasing`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Walker {
    /// Over which angle the planes are spread.
    pub pattern: WalkerPattern,
    /// Inclination, 0 to 180 degrees.
    pub inclination: Angle,
    /// T, 1 to 100,000; a multiple of `planes`.
    pub satellites: u32,
    /// P, at least 1.
    pub planes: u32,
    /// F, less than `planes`.
    pub phasing: u32,
    /// Height above the equatorial radius of WGS84.
    pub altitude: Length,
    /// Right ascension of the ascending node of plane 0 at lab time zero, 0 to < 360 degrees.
    pub raan0: Angle,
    /// From one plane's ascending node to the next, of star patterns; `None`: 180 degrees / P.
    pub plane_spacing: Option<Angle>,
}

impl Walker {
    /// Satellites in each plane.
    pub fn slots(&self) -> u32 {
        self.satellites / self.planes
    }

    /// Name of a satellite of the constellation `prefix`.
    pub fn satellite_name(&self, prefix: &str, plane: u32, slot: u32) -> String {
        satellite_name(prefix, plane, self.planes, slot, self.slots())
    }

    /// All names, plane by plane.
    pub fn satellite_names<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = String> + 'a {
        (0..self.planes)
            .flat_map(move |p| (0..self.slots()).map(move |s| self.satellite_name(prefix, p, s)))
    }
}

/// `<prefix>-p<plane>-s<slot>`, both from 0, with at least two digits and enough for the last.
/// For an element set the prefix is `<constellation>-<shell>`.
pub fn satellite_name(prefix: &str, plane: u32, planes: u32, slot: u32, slots: u32) -> String {
    let digits = |count: u32| {
        count
            .saturating_sub(1)
            .checked_ilog10()
            .map_or(1, |n| n + 1)
            .max(2)
    };
    format!(
        "{prefix}-p{plane:0p$}-s{slot:0s$}",
        p = digits(planes) as usize,
        s = digits(slots) as usize
    )
}

/// Real satellites: the text of a file and the shells to sort them into.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ElementSet {
    /// The file. Its text is passed on unread; the plan reads it and reports errors through it.
    pub file: TextFile,
    /// The shells, in the order of the file; at least one, names unique. An object that fits
    /// several belongs to the first.
    pub shells: Vec<Shell>,
}

/// One shell of an element set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shell {
    /// Its name; satellites are called `<constellation>-<shell>-p<plane>-s<slot>`.
    pub name: Name,
    /// Over which angle the planes are spread.
    pub pattern: WalkerPattern,
    /// Mean altitude above the equatorial radius of WGS84.
    pub altitude: Length,
    /// Inclination.
    pub inclination: Angle,
    /// Members are within this of `altitude`.
    pub altitude_tolerance: Length,
    /// Members are within this of `inclination`.
    pub inclination_tolerance: Angle,
    /// Number of planes that hold members, at least 1.
    pub planes: u32,
    /// Whether its satellites have links to the ground.
    pub serves_ground: bool,
}

/// Inter-satellite links of a constellation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(
    clippy::large_enum_variant,
    reason = "one for each constellation of a scenario"
)]
pub enum Isl {
    /// None at all.
    None,
    /// Links by one of the patterns, the +Grid or another.
    PlusGrid(PlusGrid),
}

/// Links between satellites of a shell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlusGrid {
    /// Link the first and last plane of star patterns. Always false where there are only deltas,
    /// which have no seam.
    pub seam: bool,
    /// How many slots ahead of the one nearest in phase a satellite's neighbour in the next plane is; always 0 where
    /// orbits are no Walker pattern.
    pub slots_ahead: i16,
    /// Inter-plane links are off while either end is beyond this latitude; `None`: never.
    pub polar_cutoff: Option<Angle>,
    /// Longest link; `None`: as far as the line of sight reaches.
    pub max_range: Option<Length>,
    /// The line of sight stays this high above the Earth.
    pub atmosphere: Length,
    /// Which satellites are linked.
    pub pairing: Pairing,
    /// How far a terminal can turn in a second; `None`: as far as needed.
    pub max_slew_per_second: Option<Angle>,
    /// How long a link takes to come up.
    pub acquisition: TimeSpan,
    /// Rate, queue and loss in each direction.
    pub link: Link,
}

/// Which satellites of a shell are linked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pairing {
    /// A ring in each plane and one link to each adjacent plane.
    Grid,
    /// A ring in each plane.
    Ring,
    /// The nearest so many.
    Nearest(u8),
    /// These.
    List(Vec<(Name, Name)>),
}

/// Links between two shells.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CrossShell {
    /// Constellation by its place in the scenario, and shell by its place in the element set; 0 of a Walker
    /// pattern.
    pub from: (usize, u16),
    /// Another one.
    pub to: (usize, u16),
    /// Longest link.
    pub max_range: Length,
    /// The line of sight stays this high above the Earth.
    pub atmosphere: Length,
    /// How long a link takes to come up.
    pub acquisition: TimeSpan,
    /// Rate, queue and loss in each direction.
    pub link: Link,
}

/// Something that breaks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failure {
    /// Its name.
    pub name: Name,
    /// What breaks.
    pub what: FailureTarget,
    /// When.
    pub when: FailureTime,
}

/// What breaks. Constellations and shells as in [`CrossShell::from`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureTarget {
    /// These nodes.
    Nodes(Vec<Name>),
    /// The link between these satellites.
    Link(Name, Name),
    /// All satellites of a constellation, each by itself.
    Satellites(usize),
    /// All satellites of this plane together.
    Plane((usize, u16), u16),
    /// All links between satellites of a constellation, each by itself.
    Lasers(usize),
    /// All stations, each by itself.
    Stations,
    /// What is over or in a circle on the ground.
    Region {
        /// Latitude of the centre.
        latitude: Angle,
        /// Longitude of the centre.
        longitude: Angle,
        /// Radius on the ground.
        radius: Length,
        /// What is hit.
        hits: RegionHits,
    },
    /// Links of a constellation with an end beyond a latitude.
    Polar(usize, Angle),
    /// Satellites of a constellation in the Earth's shadow, but for this share of this period.
    Eclipse(usize, Ratio, TimeSpan),
    /// Links across the seam of a constellation.
    Seam(usize),
}

/// When something breaks, lab time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureTime {
    /// Once, for so long; `None`: for good.
    Once(TimeSpan, Option<TimeSpan>),
    /// Again and again: mean time between failures, mean time to repair.
    Random(TimeSpan, TimeSpan),
}

/// How a station chooses its satellite.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The nearest.
    Nearest,
    /// The highest.
    HighestElevation,
    /// The one that stays longest, as long as it can.
    LongestVisible,
    /// Its own until another is higher by this.
    Hysteresis(Angle),
    /// The one that serves the fewest stations, as long as it can.
    LeastLoaded,
    /// All stations at once in slots of this length.
    Scheduler(TimeSpan),
}

/// Ground-satellite links of a constellation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gsl {
    /// Lowest usable elevation, 0 to < 90 degrees.
    pub min_elevation: Angle,
    /// How a station chooses; equal in all constellations of a scenario.
    pub policy: Policy,
    /// How long a change of satellite takes; equal in all constellations of a scenario.
    pub handover_outage: TimeSpan,
    /// What happens to the old link meanwhile; equal in all constellations of a scenario.
    pub handover_kind: HandoverKind,
    /// How many links to the ground a satellite can have; `None`: any number.
    pub beams: Option<u32>,
    /// What a satellite's links to the ground can carry in all, each way; `None`: each what it can.
    pub capacity: Option<DataRate>,
    /// How near the geostationary arc a station may look; 0: at it.
    pub gso_avoidance: Angle,
    /// Rate and loss by elevation, lowest first; below the first, `link` holds.
    pub by_elevation: Vec<ElevationStep>,
    /// What decides what links carry; `None`: `link` and `by_elevation` do.
    pub radio: Option<Radio>,
    /// Stations that are no feeders use only satellites that a feeder uses.
    pub bent_pipe: bool,
    /// Rate, queue and loss in each direction.
    pub link: Link,
}

/// What a kind of link does, in each direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Link {
    /// At least 1 kbit/s.
    pub rate: DataRate,
    /// At least one full frame.
    pub queue: DataSize,
    /// Chance that a frame is lost.
    pub loss: Ratio,
    /// Delay on top of the light time.
    pub extra_delay: TimeSpan,
    /// Everything else, with laws of time that begin at lab time zero.
    #[serde(skip_serializing_if = "Effects::is_empty")]
    pub effects: Effects,
}

/// What a ground link is like from an elevation upwards.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ElevationStep {
    /// The elevation.
    pub above: Angle,
    /// At least 1 kbit/s.
    pub rate: DataRate,
    /// Chance that a frame is lost.
    pub loss: Ratio,
}

/// A ground station.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Station {
    /// Its node name.
    pub name: Name,
    /// WGS84 geodetic latitude, -90 to 90 degrees.
    pub latitude: Angle,
    /// Longitude, -180 to 180 degrees.
    pub longitude: Angle,
    /// Height above the WGS84 ellipsoid.
    pub altitude: Length,
    /// How many satellites it can use at the same time, at least 1; of no meaning for a gateway.
    pub antennas: u8,
    /// It has one antenna for each shell that serves the ground.
    pub gateway: bool,
    /// Whether it feeds bent-pipe satellites.
    pub feeder: bool,
    /// How hard it rains from when on, in order of time; before the first entry it does not.
    pub rain: Vec<(TimeSpan, RainRate)>,
    /// What was measured of its ground links; without points, nothing was.
    pub recording: Recording,
    /// What stands in the way.
    pub obstacles: Vec<Obstacle>,
    /// Where it is when, in order of time; empty for a station that stands still.
    pub track: Vec<Waypoint>,
}

impl Station {
    /// A station with one antenna that stands still with a free view.
    pub(crate) fn at(name: Name, latitude: Angle, longitude: Angle, altitude: Length) -> Self {
        let (obstacles, track) = (Vec::new(), Vec::new());
        Self {
            name,
            latitude,
            longitude,
            altitude,
            antennas: 1,
            gateway: false,
            feeder: false,
            rain: Vec::new(),
            recording: Recording::default(),
            obstacles,
            track,
        }
    }
}

/// Something on a station's horizon.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Obstacle {
    /// Azimuth at which it begins.
    pub from: Angle,
    /// Azimuth at which it ends, clockwise.
    pub to: Angle,
    /// How high it is.
    pub elevation: Angle,
}

/// Where a moving station is at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Waypoint {
    /// Lab time.
    pub at: TimeSpan,
    /// WGS84 geodetic latitude.
    pub latitude: Angle,
    /// Longitude.
    pub longitude: Angle,
    /// Height above the WGS84 ellipsoid.
    pub altitude: Length,
}

/// A router or computer on the ground that only has cables.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Host {
    /// Its node name.
    pub name: Name,
    /// WGS84 geodetic latitude, -90 to 90 degrees.
    pub latitude: Angle,
    /// Longitude, -180 to 180 degrees.
    pub longitude: Angle,
    /// Height above the WGS84 ellipsoid.
    pub altitude: Length,
}

/// A cable between two nodes on the ground.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cable {
    /// A station or host.
    pub from: Name,
    /// Another.
    pub to: Name,
    /// One-way delay.
    pub delay: TimeSpan,
    /// Rate, queue and loss in each direction.
    pub link: Link,
}

/// How packets find their way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Routing {
    /// Which Internet protocols the nodes speak.
    pub families: Families,
    /// Who makes the routes.
    pub mode: Mode,
    /// How long links that go outlive the routes over them, less than a step; 0 without draining.
    pub drain: TimeSpan,
}

/// Which Internet protocols the nodes speak; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Families {
    /// IPv4.
    pub ipv4: bool,
    /// IPv6.
    pub ipv6: bool,
}

impl Families {
    /// Whether `family` is spoken.
    pub fn has(self, family: Family) -> bool {
        match family {
            Family::Ipv4 => self.ipv4,
            Family::Ipv6 => self.ipv6,
        }
    }
}

/// What routes Constel computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ComputedRouting {
    /// Which nodes can be reached.
    pub destinations: Destinations,
    /// What makes a path short.
    pub metric: Metric,
    /// Most next hops of a route, 1..=16; more than one only with [`Metric::Hops`].
    pub paths: u8,
    /// How nodes hear of failures; `None`: they know at once.
    pub reaction: Option<Reaction>,
}

/// How nodes hear of what nobody foresaw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Reaction {
    /// Until the ends of a link notice.
    pub detect: TimeSpan,
    /// From hearing a message until it is sent on and routes follow.
    pub processing: TimeSpan,
    /// How many hops a message goes at most; `None`: to all.
    pub reach: Option<u8>,
}

/// Who makes the routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Constel.
    Computed(ComputedRouting),
    /// Routing daemons in the nodes.
    Daemons(Box<DaemonRouting>),
    /// Nobody.
    None,
}

impl Mode {
    /// The daemons, where daemons make the routes.
    pub fn daemons(&self) -> Option<&DaemonRouting> {
        match self {
            Mode::Daemons(routing) => Some(routing),
            Mode::Computed(_) | Mode::None => None,
        }
    }
}

/// A routing protocol within an autonomous system, of those that some software speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Igp {
    /// OSPFv2 for IPv4, OSPFv3 for IPv6.
    Ospf,
    /// IS-IS.
    Isis,
    /// Babel.
    Babel,
}

/// Routing by daemons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DaemonRouting {
    /// Which software.
    pub software: Software,
    /// Which protocol it speaks; one that this software has.
    pub protocol: Igp,
    /// The protocol's timers.
    pub timers: Timers,
    /// Timers of BGP between systems.
    pub bgp_timers: Timers,
    /// Autonomous systems; empty: one for all. Otherwise at least two, of which exactly one lists no nodes: the
    /// rest is its own.
    pub systems: Vec<System>,
    /// Bidirectional Forwarding Detection; `None`: not used.
    pub bfd: Option<Bfd>,
    /// What only OSPF has; of no meaning for other protocols.
    pub ospf: OspfExtra,
    /// How daemons that end are started again; `None`: they are not.
    pub restart: Option<Restart>,
    /// How fast daemons are started.
    pub start: Start,
    /// Routes that do not stand by then never will.
    pub within: TimeSpan,
    /// The user's template of the configuration; `None`: the one shipped.
    pub template: Option<TextFile>,
}

/// An autonomous system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct System {
    /// Its name.
    pub name: Name,
    /// Its number.
    pub asn: u32,
    /// Its hosts; empty: all nodes that no other has.
    pub nodes: Vec<Name>,
    /// Its route reflectors.
    pub reflectors: Vec<Name>,
}

/// Timers of a routing protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timers {
    /// Seconds between two hello packets, at least 1.
    pub hello_s: u16,
    /// Seconds after which a silent neighbour is dead, more than `hello_s`.
    pub dead_s: u16,
}

/// What OSPF has besides hello and dead times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OspfExtra {
    /// Seconds until an unacknowledged packet is sent again, at least 1.
    pub retransmit_s: u16,
    /// Seconds by which route calculations are gathered, at least 1.
    pub tick_s: u16,
    /// Timers of ground links.
    pub ground: Timers,
    /// Seconds until an unacknowledged packet is sent again on a ground link, at least 1.
    pub ground_retransmit_s: u16,
    /// How large areas are; `None`: one for everything.
    pub areas: Option<AreaSize>,
}

/// How large OSPF's areas are, at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AreaSize {
    /// So many planes, at least 1.
    Planes(u16),
    /// As many planes as have so many satellites.
    Satellites(u32),
}

/// How fast daemons are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Start {
    /// Most tasks that run or wait for each processor before the next is started, at least 1.
    pub load: u32,
    /// Memory that stays free.
    pub memory: DataSize,
}

/// Bidirectional Forwarding Detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bfd {
    /// Time between two packets, a whole number of milliseconds.
    pub interval: TimeSpan,
    /// How many may be missing, at least 2.
    pub multiplier: u8,
}

/// How daemons that end are started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Restart {
    /// Wait before the first start; doubled for each that follows.
    pub after: TimeSpan,
    /// Longest wait, at least `after`.
    pub at_most: TimeSpan,
}

/// Software that runs at a stated time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Flow {
    /// Its name, unique in the scenario.
    pub name: Name,
    /// Start, lab time.
    pub at: TimeSpan,
    /// How long it may run; `at + length <= duration`.
    pub length: TimeSpan,
    /// What it does.
    pub action: Action,
}

impl Flow {
    /// When it is over at the latest, lab time.
    pub fn end(&self) -> TimeSpan {
        TimeSpan::from_ns(self.at.ns() + self.length.ns())
    }
}

impl Flow {
    /// Port of its TCP server; `None`: it has none.
    pub fn tcp_port(&self) -> Option<u16> {
        match &self.action {
            Action::Iperf3(iperf3) if matches!(iperf3.transport, Transport::Tcp { .. }) => {
                Some(iperf3.port)
            }
            Action::Http(http) => Some(http.port),
            Action::Transfer(transfer) if matches!(transfer.over, Over::Tcp { .. }) => {
                Some(transfer.port)
            }
            _ => None,
        }
    }
}

/// What a flow does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Echo requests.
    Ping(Ping),
    /// iperf3 client and server.
    Iperf3(Iperf3),
    /// HTTP download.
    Http(Http),
    /// A measured download over a transport of choice.
    Transfer(Transfer),
    /// A command.
    Run(Run),
}

impl Action {
    /// Client and server; `None` for a command.
    pub fn ends(&self) -> Option<(&Name, &Name)> {
        match self {
            Action::Ping(flow) => Some((&flow.from, &flow.to)),
            Action::Iperf3(flow) => Some((&flow.from, &flow.to)),
            Action::Http(flow) => Some((&flow.from, &flow.to)),
            Action::Transfer(flow) => Some((&flow.from, &flow.to)),
            Action::Run(_) => None,
        }
    }
}

/// Echo requests from one node to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ping {
    /// Who asks.
    pub from: Name,
    /// Who answers; another node than `from`.
    pub to: Name,
    /// Time between two requests, 2 ms to 1 h.
    pub interval: TimeSpan,
    /// Internet protocol, one of the scenario's.
    pub family: Family,
    /// Payload, 16 to 65,000 bytes.
    pub size: DataSize,
}

/// An iperf3 client and its server. `Flow::length` is a whole number of seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Iperf3 {
    /// The client.
    pub from: Name,
    /// The server; another node than `from`.
    pub to: Name,
    /// What is sent.
    pub transport: Transport,
    /// The server sends.
    pub reverse: bool,
    /// Internet protocol, one of the scenario's.
    pub family: Family,
    /// The server's port; no other flow's server on that node has it.
    pub port: u16,
}

/// What an iperf3 flow sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP with this congestion control.
    Tcp {
        /// Name of a congestion control module; whether the kernel has it is for the host to say.
        congestion: String,
    },
    /// UDP at this rate of payload.
    Udp {
        /// At least 1 kbit/s.
        rate: DataRate,
    },
}

/// An HTTP download.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Http {
    /// The client, which downloads.
    pub from: Name,
    /// The server; another node than `from`.
    pub to: Name,
    /// Size of the file, at least 1 byte.
    pub size: DataSize,
    /// Internet protocol, one of the scenario's.
    pub family: Family,
    /// The server's port; no other flow's server on that node has it.
    pub port: u16,
}

/// A command in a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Run {
    /// The node.
    pub node: Name,
    /// Program and arguments; at least the program, not empty.
    pub command: Vec<String>,
}

/// A file that a scenario was made from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct InputFile {
    /// As the scenario names it; the scenario itself as the user named it.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256, 64 hexadecimal digits.
    pub sha256: String,
}
