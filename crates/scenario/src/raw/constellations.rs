//! `constellations`: constellations, their orbits and their links.

use constel_topology::PlainPolicy;
use constel_units::{Angle, DataRate, Length, Ratio, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::link::{no_loss, yes};
use super::{Name, OrNone, Preset, RawAccess, RawLink, RawNode, RawRadio};

/// A constellation. Exactly one of `preset`, `walker`, `tle`, `omm` and `ephemeris` gives its orbits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Constellation")]
pub struct RawConstellation {
    /// Links between its satellites.
    pub isl: RawIsl,
    /// Whether any of its satellites has links to the ground. With `false` it only relays, and
    /// `gsl` is left out.
    #[serde(default = "yes")]
    pub serves_ground: bool,
    /// Links between its satellites and the ground. Required unless `serves_ground` is `false`.
    pub gsl: Option<RawGsl>,
    /// Whether its satellites are nodes of the lab. With `false` they only serve as an underlay: networks use
    /// their links by `law: {over: NAME}`, and no other part of the scenario can name or use them.
    #[serde(default = "yes")]
    pub nodes: bool,
    /// The software of its satellites.
    pub node: Option<RawNode>,
    /// The orbits.
    #[serde(flatten)]
    pub orbits: RawOrbits,
}

/// The source of a constellation's orbits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawOrbits {
    /// A designed constellation by name, a Walker pattern like `walker`.
    Preset(Preset),
    /// A regular pattern of circular orbits (two-body motion and the secular effect of J2).
    Walker(Walker),
    /// Real satellites from a file of two-line elements, propagated with SGP4.
    Tle(RawElements),
    /// Real satellites from a file of orbit mean-elements messages, JSON or CSV, propagated with SGP4.
    Omm(RawElements),
    /// Objects with given positions: spacecraft, the Moon, aircraft with antennas to satellites.
    Ephemeris(RawEphemeris),
}

/// A Walker constellation `i:T/P/F`: T satellites in P evenly spaced planes, phase factor F.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Walker")]
pub struct Walker {
    /// Angle over which the planes' ascending nodes are spread.
    pub pattern: WalkerPattern,
    /// Inclination of every plane.
    #[schemars(extend("x-minimum" = "0 deg", "x-maximum" = "180 deg"))]
    pub inclination: Angle,
    /// T: number of satellites in all planes together. A multiple of `planes`.
    #[schemars(range(min = 1, max = 100_000))]
    pub satellites: u32,
    /// P: number of planes.
    #[schemars(range(min = 1, max = 10_000))]
    pub planes: u32,
    /// F: satellites of a plane lead those of the plane to its west by `F * 360 deg / T`.
    /// Less than `planes`.
    #[schemars(range(min = 0, max = 9_999))]
    pub phasing: u32,
    /// Height of the circular orbits above the equatorial radius of WGS84 (6378.137 km).
    #[schemars(extend("x-minimum" = "100 km", "x-maximum" = "100000 km"))]
    pub altitude: Length,
    /// Right ascension of the ascending node of plane 0 at lab time zero.
    #[serde(default = "zero_angle")]
    #[schemars(extend("x-minimum" = "0 deg", "x-exclusive-maximum" = "360 deg"))]
    pub raan0: Angle,
    /// Angle from the ascending node of a plane to that of the next. Only for star patterns, where all planes
    /// together span less than 180 deg; the remaining angle is at the seam. Default `180 deg` / P (Iridium's
    /// planes are 31.6 deg apart, which leaves 22 deg).
    #[schemars(extend("x-exclusive-minimum" = "0 deg", "x-exclusive-maximum" = "180 deg"))]
    pub plane_spacing: Option<Angle>,
}

fn zero_angle() -> Angle {
    Angle::from_deg(0.0)
}

/// Angle over which the ascending nodes of the planes are spread.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum WalkerPattern {
    /// 180 degrees, near-polar planes: the first and the last fly in opposite directions along
    /// the seam (Iridium, OneWeb).
    Star,
    /// 360 degrees: every plane has two co-rotating neighbours (Starlink, Kuiper).
    Delta,
}

/// Objects from a file of positions. The formats:
///
/// - CCSDS Orbit Ephemeris Message, as keywords or XML;
/// - SP3-a to SP3-d (GNSS orbits);
/// - STK's ephemeris (`.e`) with `EphemerisTimePos`, `EphemerisTimePosVel` or `EphemerisTimePosVelAcc`;
/// - CSV with the columns `t_utc`, `sat_id`, `x_m`, `y_m`, `z_m`, optionally `vx_mps`, `vy_mps`, `vz_mps`, and
///   `frame`. A row with empty coordinates means that the object has no position from the previous row on.
///
/// Frames may be ITRF, TEME, GCRF or ICRF, EME2000 (J2000), MOD and TOD, and times UTC, TAI, TT, GPS, BDT and
/// TDB. The names of the objects are `<constellation>-p00-s<slot>`, with slots in the order of the file.
/// Positions are interpolated, never extrapolated: outside its span, and in a hole between two segments, an
/// object has no position and no links.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Ephemeris")]
pub struct RawEphemeris {
    /// The file, relative to the scenario file.
    #[schemars(length(min = 1))]
    pub file: String,
    /// The objects that fly, by name; `*` and `?` stand for any characters, and case does not matter. Default: all.
    #[schemars(length(min = 1, max = 10_000))]
    pub only: Option<Vec<String>>,
    /// Objects that do not fly, also of those in `only`, in the same form.
    #[schemars(length(min = 1, max = 10_000))]
    pub except: Option<Vec<String>>,
    /// Whether one bad state of the file refuses the file. A state is bad if it cannot be read, if its position is inside the
    /// Earth, or if its instant is not later than that of the state before. So is one that contradicts the states beside it
    /// (by its velocity, or because the way would need more than 30 km/s). With `false` a bad state is a hole, in which the object has no
    /// links, and `constel check` counts the bad states.
    #[serde(default)]
    pub strict: bool,
}

/// Satellites from a file of orbital elements, sorted into shells by their elements, or used as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Elements")]
pub struct RawElements {
    /// The file, relative to the scenario file.
    #[schemars(length(min = 1))]
    pub file: String,
    /// The shells to use. Objects that fit none of them (still climbing, falling, of other operators) are left
    /// out; `constel check` reports their number and the reasons, and with `--json` their names. Without
    /// `shells` every object is used as it is, with any eccentricity: their names are
    /// `<constellation>-p00-s<slot>`, slots in the order of the file, and `isl.pattern` is `nearest`, `list` or
    /// `none`, because there are no planes.
    #[schemars(length(min = 1, max = 100))]
    pub shells: Option<Vec<Shell>>,
    /// The objects that fly, by name or catalogue number, also as two-line elements print the number (`00005`, `A0001`); `*`
    /// and `?` stand for any characters, and case does not matter. Default: all.
    #[schemars(length(min = 1, max = 10_000))]
    pub only: Option<Vec<String>>,
    /// Objects that do not fly, also of those in `only`, in the same form.
    #[schemars(length(min = 1, max = 10_000))]
    pub except: Option<Vec<String>>,
    /// Objects whose elements are farther than this from the start of the scenario are left out: SGP4 is
    /// accurate for a couple of weeks.
    #[serde(default = "two_weeks")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "36500 d"))]
    pub max_age: TimeSpan,
    /// Whether an unreadable record makes the whole file an error. With `false` the other objects are used, and
    /// `constel check` counts and names the unreadable ones.
    #[serde(default)]
    pub strict: bool,
}

impl RawOrbits {
    /// Whether satellites are in a regular pattern, so that their names follow from it.
    pub(crate) fn is_walker(&self) -> bool {
        matches!(self, Self::Preset(_) | Self::Walker(_))
    }

    /// The key and the elements of real satellites.
    pub(crate) fn elements(&self) -> Option<(&'static str, &RawElements)> {
        match self {
            Self::Tle(elements) => Some(("tle", elements)),
            Self::Omm(elements) => Some(("omm", elements)),
            Self::Preset(_) | Self::Walker(_) | Self::Ephemeris(_) => None,
        }
    }
}

impl RawElements {
    /// The shells; none: objects fly as they are.
    pub(crate) fn shells(&self) -> &[Shell] {
        self.shells.as_deref().unwrap_or_default()
    }
}

/// How far from the start of the scenario the epochs of elements may be unless `max_age` is given.
pub(crate) const TWO_WEEKS: TimeSpan = TimeSpan::from_ns(14 * 86_400 * 1_000_000_000);

fn two_weeks() -> TimeSpan {
    TWO_WEEKS
}

/// One shell of a set of real satellites.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Shell")]
pub struct Shell {
    /// Name of the shell, unique in its constellation.
    pub name: Name,
    /// Angle over which the planes are spread.
    #[serde(default = "delta")]
    pub pattern: WalkerPattern,
    /// Mean altitude of the shell above the equatorial radius of WGS84.
    #[schemars(extend("x-minimum" = "100 km", "x-maximum" = "100000 km"))]
    pub altitude: Length,
    /// Inclination of the shell.
    #[schemars(extend("x-minimum" = "0 deg", "x-maximum" = "180 deg"))]
    pub inclination: Angle,
    /// How far a member's mean altitude may be from `altitude`, up or down.
    #[schemars(extend("x-exclusive-minimum" = "0 km", "x-maximum" = "1000 km"))]
    pub altitude_tolerance: Length,
    /// How far a member's inclination may be from `inclination`, up or down.
    #[schemars(extend("x-exclusive-minimum" = "0 deg", "x-maximum" = "10 deg"))]
    pub inclination_tolerance: Angle,
    /// Number of planes that hold members. Planes are separated where the distance of ascending nodes is
    /// largest; nodes without that number of planes are an error of the plan.
    #[schemars(range(min = 1, max = 10_000))]
    pub planes: u32,
    /// Whether its satellites have links to the ground. Shells are linked with each other only by cross-shell
    /// links, so stations on two shells may have no path to each other.
    #[serde(default = "yes")]
    pub serves_ground: bool,
}

fn delta() -> WalkerPattern {
    WalkerPattern::Delta
}

/// Inter-satellite links.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "Isl",
    extend("x-instead" = {
        "nearest": "write `pattern: {nearest: VALUE}`",
        "pairs": "write `pattern: {list: [{from: ..., to: ...}]}`"
    })
)]
pub struct RawIsl {
    /// The rule by which satellites are linked.
    pub pattern: IslPattern,
    /// Whether the first and the last plane of a star pattern, which fly in opposite directions, are linked
    /// where range allows. Only for star patterns; default `false`.
    pub seam: Option<bool>,
    /// The satellite of the next plane (to the east, when ascending) that a satellite is linked with: this
    /// number of slots ahead of the satellite nearest in phase, or behind it if negative. Only for `pattern:
    /// plus-grid` of `preset` and `walker`; default `0`, the nearest.
    #[schemars(range(min = -1000, max = 1000))]
    pub slots_ahead: Option<i16>,
    /// Links between planes are off while either satellite is farther from the equator than
    /// this latitude. Default `none`: never off.
    #[schemars(extend("x-minimum" = "0 deg", "x-maximum" = "90 deg"))]
    pub polar_cutoff: Option<OrNone<Angle>>,
    /// Longest distance a link bridges. Default `none`: as far as the line of sight reaches.
    #[schemars(extend("x-exclusive-minimum" = "0 km", "x-maximum" = "1000000 km"))]
    pub max_range: Option<OrNone<Length>>,
    /// The line of sight must stay this high above the Earth. Default `80 km`.
    #[schemars(extend("x-minimum" = "0 km", "x-maximum" = "1000 km"))]
    pub atmosphere: Option<Length>,
    /// How far a laser terminal can turn in a second, in its satellite's frame of motion; a link whose ends
    /// pass each other faster is off. Default `none`: as fast as needed.
    #[schemars(extend("x-exclusive-minimum" = "0 deg", "x-maximum" = "360 deg"))]
    pub max_slew_per_second: Option<OrNone<Angle>>,
    /// Time from when the ends of a link come within range until it is up. Default `0 s`. Links within range at
    /// lab time zero are up.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 h"))]
    pub acquisition: Option<TimeSpan>,
    /// Rate, queue and loss of each link, in each direction. Required unless `pattern` is `none`.
    pub link: Option<RawLink>,
}

/// The rule by which satellites are linked with each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IslPattern {
    /// Two links inside the plane (ahead and behind) and one to each adjacent plane.
    PlusGrid,
    /// Two links inside the plane and none to other planes.
    Ring,
    /// No link between satellites.
    None,
    /// Each satellite with up to this number of other satellites of the shell, the nearest that are within range, by mean
    /// distance over an orbit; pairs are made at lab time zero and stay.
    Nearest(#[schemars(range(min = 1, max = 4))] u8),
    /// These pairs; at most four links of each satellite.
    List(#[schemars(length(min = 1, max = 100_000))] Vec<RawPair>),
}

/// Two satellites to be linked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Pair")]
pub struct RawPair {
    /// A satellite of the constellation.
    pub from: Name,
    /// Another one.
    pub to: Name,
}

/// Ground-satellite links.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "Gsl",
    extend("x-instead" = {
        "hysteresis": "write `policy: {hysteresis: VALUE}`",
        "slot": "write `policy: {scheduler: {slot: VALUE}}`"
    })
)]
pub struct RawGsl {
    /// A satellite is used only while it stands at least this high above the station's horizon.
    #[schemars(extend("x-minimum" = "0 deg", "x-exclusive-maximum" = "90 deg"))]
    pub min_elevation: Angle,
    /// The rule by which a station chooses its satellite. It must be equal in all constellations that one
    /// terminal uses.
    #[serde(default)]
    pub policy: RawPolicy,
    /// The cost of a change of satellite. It must be equal in all constellations that one terminal uses.
    #[serde(default)]
    pub handover: RawHandover,
    /// The number of links to the ground that a satellite can have at the same time. Stations are served in
    /// order of their names; if the policy keeps links, stations that have a link already come first. Without
    /// it there is no limit.
    #[schemars(range(min = 1, max = 100_000))]
    pub beams: Option<u32>,
    /// A station does not use a satellite that it sees within this angle of the geostationary arc (18 deg in
    /// Starlink's filings). Default `0 deg`: no limit.
    #[serde(default = "zero_angle")]
    #[schemars(extend("x-minimum" = "0 deg", "x-maximum" = "45 deg"))]
    pub gso_avoidance: Angle,
    /// Rate, queue and loss of each link, in each direction.
    pub link: RawLink,
    /// Total rate that a satellite can receive from the ground, and that it can send to it. The links share the
    /// total evenly: each has at most its share, computed at each step. Without it each link has its own rate.
    #[schemars(extend("x-minimum" = "1 kbit/s", "x-maximum" = "400 Gbit/s"))]
    pub capacity: Option<DataRate>,
    /// Rate and loss by elevation, evaluated at each step, lowest first. Below the first step, `link` holds.
    #[serde(default)]
    #[schemars(length(max = 90))]
    pub by_elevation: Vec<ElevationStep>,
    /// Radio that determines the rates of links, step by step. Without it, `link` and `by_elevation` do.
    pub radio: Option<RawRadio>,
    /// Access of stations that are no feeders: waits for turns and grants, a shared cell, gaps at handovers, losses and
    /// rates, as measured in real networks. Without it, links have the delay of light and the properties of `link`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<RawAccess>,
    /// Whether satellites only relay between stations and feeders: a station that is no feeder then uses only
    /// satellites that a feeder uses at the same time.
    #[serde(default)]
    pub bent_pipe: bool,
}

/// How a station chooses its satellite.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "GslPolicy")]
pub enum RawPolicy {
    /// Keeps its satellite until another stands higher by this angle.
    Hysteresis(#[schemars(extend("x-minimum" = "0 deg", "x-maximum" = "90 deg"))] Angle),
    /// Every `slot` all stations choose at once: the highest satellite that stays until the slot
    /// ends. Stations keep it until then. Starlink's global scheduler has slots of 15 s, which begin at
    /// seconds 12, 27, 42 and 57 of each minute of UTC.
    Scheduler {
        /// Length of a slot. A slot begins at second 12 of each minute of UTC where slots fill minutes.
        #[serde(default = "fifteen_seconds")]
        #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "1 h"))]
        slot: TimeSpan,
    },
    /// A rule without settings.
    #[serde(untagged)]
    Plain(PlainPolicy),
}

fn fifteen_seconds() -> TimeSpan {
    TimeSpan::from_ns(15_000_000_000)
}

impl Default for RawPolicy {
    fn default() -> Self {
        Self::Plain(PlainPolicy::default())
    }
}

/// The cost of a change of satellite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Handover")]
pub struct RawHandover {
    /// Time that it takes to acquire a new satellite.
    #[serde(default = "no_time")]
    #[schemars(extend("x-minimum" = "0 ms", "x-maximum" = "60 s"))]
    pub outage: TimeSpan,
    /// Whether the old link goes down before or after the new one is up.
    #[serde(default)]
    pub kind: HandoverKind,
}

/// The end of a station's old link while it acquires a new satellite.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum HandoverKind {
    /// The old link is cut; the antenna has no link for `outage`.
    #[default]
    BreakBeforeMake,
    /// The old link is kept until the new one is up. The change begins early enough, because orbits are known.
    MakeBeforeBreak,
}

impl Default for RawHandover {
    fn default() -> Self {
        Self {
            outage: no_time(),
            kind: HandoverKind::default(),
        }
    }
}

pub(super) fn no_time() -> TimeSpan {
    TimeSpan::from_ns(0)
}

/// The properties of a ground link from an elevation upwards.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ElevationStep")]
pub struct ElevationStep {
    /// From this elevation up to that of the next step. Higher than that of the step before.
    #[schemars(extend("x-minimum" = "0 deg", "x-exclusive-maximum" = "90 deg"))]
    pub above: Angle,
    /// Bits per second on the wire.
    #[schemars(extend("x-minimum" = "1 kbit/s", "x-maximum" = "400 Gbit/s"))]
    pub rate: DataRate,
    /// Chance that a frame is lost.
    #[serde(default = "no_loss")]
    pub loss: Ratio,
}

/// Links between satellites of two shells: each satellite uses one laser. Satellites are paired one to one at
/// lab time zero, first those that stay nearest over the time of the lab (at most 30 min); pairs stay. Shells
/// drift apart, so links end when they are out of range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CrossShell")]
pub struct RawCrossShell {
    /// A shell: the name of a constellation, or `<constellation>-<shell>` of an element file.
    pub from: Name,
    /// Another shell. If several entries pair a satellite, the first entry counts.
    pub to: Name,
    /// Longest distance a link bridges.
    #[schemars(extend("x-exclusive-minimum" = "0 km", "x-maximum" = "1000000 km"))]
    pub max_range: Length,
    /// The line of sight must stay this high above the Earth.
    #[serde(default = "eighty_km")]
    #[schemars(extend("x-minimum" = "0 km", "x-maximum" = "1000 km"))]
    pub atmosphere: Length,
    /// Time from when the ends of a link come within range until it is up.
    #[serde(default = "no_time")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 h"))]
    pub acquisition: TimeSpan,
    /// Rate, queue and loss of each link, in each direction.
    pub link: RawLink,
}

fn eighty_km() -> Length {
    Length::from_m(80_000.0)
}
