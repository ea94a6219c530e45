//! The constellations, and the links between satellites and to the ground.

use constel_link::Effects;
use constel_link::access::Access;
use constel_topology::{GslSpec, LaserPairing, Radio};
use constel_units::{Angle, DataRate, DataSize, Length, Ratio, TimeSpan};

use crate::raw::numbered;

use super::{ElevationStep, Formation, Name, NodesNamed, Shell, TextFile, Walker};

/// One constellation.
#[derive(Debug, Clone, PartialEq)]
pub struct Constellation {
    /// The constellation's name; its satellites' names begin with it.
    pub name: Name,
    /// Its orbits.
    pub orbits: Orbits,
    /// Links between its satellites.
    pub isl: Isl,
    /// Links between its satellites and the ground; `None`: it has no such links.
    pub gsl: Option<Gsl>,
}

/// The source of a constellation's orbits.
#[derive(Debug, Clone, PartialEq)]
pub enum Orbits {
    /// A Walker pattern.
    Walker(Walker),
    /// Two-line elements, SGP4.
    Tle(ElementSet),
    /// OMM in any notation, SGP4.
    Omm(ElementSet),
    /// Positions over time.
    Ephemeris(Positions),
    /// Craft that fly together; without lasers and links to the ground.
    Formation(Formation),
}

impl Constellation {
    /// Names of its members, if they are known before files are read.
    pub fn craft_names(&self) -> Option<impl Iterator<Item = String>> {
        match &self.orbits {
            Orbits::Formation(formation) => Some(numbered(&self.name, formation.count)),
            _ => None,
        }
    }
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

/// Objects whose positions are given.
#[derive(Debug, Clone, PartialEq)]
pub struct Positions {
    /// The file. Its text is passed on unread; the plan reads it and reports errors through it.
    pub file: TextFile,
    /// The selection of objects that fly.
    pub chosen: Chosen,
    /// One state that cannot be used refuses the file.
    pub strict: bool,
}

/// A selection of a file's objects, by patterns of their names and catalogue numbers without regard to case.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chosen {
    /// Objects that fly; `None`: all.
    pub only: Option<Vec<NodesNamed>>,
    /// Objects that do not fly.
    pub except: Vec<NodesNamed>,
}

/// Real satellites: the text of a file and the shells to sort them into.
#[derive(Debug, Clone, PartialEq)]
pub struct ElementSet {
    /// The file. Its text is passed on unread; the plan reads it and reports errors through it.
    pub file: TextFile,
    /// The shells, in the order of the file; names unique. An object that fits
    /// several belongs to the first. None: all objects fly as they are, in the order of the file.
    pub shells: Vec<Shell>,
    /// The selection of objects that fly.
    pub chosen: Chosen,
    /// Elements farther than this from lab time zero are left out.
    pub max_age: TimeSpan,
    /// One record that cannot be read refuses the file.
    pub strict: bool,
}

/// Inter-satellite links of a constellation.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one for each constellation of a scenario"
)]
pub enum Isl {
    /// No links.
    None,
    /// Links by one of the patterns, the +Grid or another.
    PlusGrid(PlusGrid),
}

/// Links between satellites of a shell.
#[derive(Debug, Clone, PartialEq)]
pub struct PlusGrid {
    /// Link the first and last plane of star patterns. Always false where there are only deltas,
    /// which have no seam.
    pub seam: bool,
    /// The number of slots by which a satellite's neighbour in the next plane is ahead of the one nearest in
    /// phase; always 0 where orbits are no Walker pattern.
    pub slots_ahead: i16,
    /// Inter-plane links are off while either end is beyond this latitude; `None`: never.
    pub polar_cutoff: Option<Angle>,
    /// Longest link; `None`: as far as the line of sight reaches.
    pub max_range: Option<Length>,
    /// The line of sight stays this high above the Earth.
    pub atmosphere: Length,
    /// The rule by which satellites are linked.
    pub pairing: LaserPairing,
    /// How far a terminal can turn in a second; `None`: as far as needed.
    pub max_slew_per_second: Option<Angle>,
    /// How long a link takes to come up.
    pub acquisition: TimeSpan,
    /// Rate, queue and loss in each direction.
    pub link: Link,
}

/// Links between two shells.
#[derive(Debug, Clone, PartialEq)]
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

/// Ground-satellite links of a constellation.
#[derive(Debug, Clone, PartialEq)]
pub struct Gsl {
    /// Lowest usable elevation, 0 to < 90 degrees.
    pub min_elevation: Angle,
    /// The default rule of terminals.
    pub rule: GslSpec,
    /// How many links to the ground a satellite can have; `None`: any number.
    pub beams: Option<u32>,
    /// Total capacity of a satellite's links to the ground, in each direction; `None`: each link has its full
    /// rate.
    pub capacity: Option<DataRate>,
    /// Smallest angle between a station's pointing direction and the geostationary arc; 0: a station may point
    /// at the arc.
    pub gso_avoidance: Angle,
    /// Rate and loss by elevation, lowest first; below the first, `link` holds.
    pub by_elevation: Vec<ElevationStep>,
    /// The radio that determines the rates of links; `None`: `link` and `by_elevation` do.
    pub radio: Option<Radio>,
    /// Access of stations that are no feeders; `None`: no part of it.
    pub access: Option<Access>,
    /// Stations that are no feeders use only satellites that a feeder uses.
    pub bent_pipe: bool,
    /// Rate, queue and loss in each direction.
    pub link: Link,
}

/// The properties of a kind of link, in each direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// At least 1 kbit/s.
    pub rate: DataRate,
    /// Largest packet, 576 to 9,000 bytes.
    pub mtu: DataSize,
    /// At least one full frame.
    pub queue: DataSize,
    /// Chance that a frame is lost.
    pub loss: Ratio,
    /// Delay on top of the light time.
    pub extra_delay: TimeSpan,
    /// All other effects, with laws of time that begin at lab time zero.
    pub effects: Effects,
}
