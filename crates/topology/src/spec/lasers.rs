//! The rules by which lasers link satellites.

use super::LinkClass;

/// The rule for a constellation's inter-satellite links.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum IslPattern {
    /// No links; satellites have only their ground port.
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
    /// Real satellites with gaps: the ring follows the argument of latitude. Across planes the nearest true
    /// neighbours form pairs one to one, shortest first, as far as they are within range. Nearness is the root
    /// mean square distance over an orbit, predicted from time 0: neighbours at that moment only would part
    /// again. (Across a seam it is the distance at time 0.)
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

/// The links between the last plane and the first. With [`Neighbours::Nearest`], a star's "last" plane is the
/// one before the widest step between ascending nodes, whatever its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrap {
    /// Planes span 360 degrees (Walker delta): they are neighbours, co-rotating.
    Delta,
    /// Planes span 180 degrees (Walker star): they fly in opposite directions. Not linked.
    StarSeamOff,
    /// As above, but linked across the seam where range allows.
    StarSeamOn,
}

/// How lasers acquire their links, and the time that it takes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lasers {
    /// The pairs of satellites, made at time 0 and for good.
    pub pairing: LaserPairing,
    /// How fast a terminal can turn, as seen in its satellite's frame of flight, degrees per second;
    /// `None` does not limit.
    pub max_slew_deg_per_s: Option<f64>,
    /// Time from when the ends of a link come within range until it is up, ns. Links that are within range at
    /// the start of the lab are up.
    pub acquisition_ns: u64,
}

/// The rule for the pairs of satellites of a constellation, within the limits of its [`PlusGrid`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LaserPairing {
    /// A ring in each plane and one link to each adjacent plane.
    #[default]
    Grid,
    /// A ring in each plane and no other links.
    Ring,
    /// Each satellite with up to this number of others of its shell, the nearest over an orbit first. At most
    /// 4.
    Nearest(u8),
    /// These pairs of names, at most 4 of each satellite.
    List(Vec<(String, String)>),
}

/// Laser links between two shells. Satellites are paired one to one at time 0, first those that stay nearest
/// over `horizon_ns`, and for good. Shells drift apart, so links end when they are out of range.
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
    /// Time until a link is up, ns.
    pub acquisition_ns: u64,
}
