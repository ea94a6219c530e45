//! OSPF areas of large shells: groups of neighbouring planes, joined by a backbone of two rows.
//!
//! In one area every satellite's router LSA crosses every laser, and every satellite computes every path: the cost of a
//! shell of n satellites grows with n squared. Areas reduce it to the cost of a group times the number of groups.
//!
//! - Every shell of every constellation is a *domain*: a network of its own with its own area 0. No laser joins domains.
//!   Ground stations do, as stub networks (see [`crate::daemons`]).
//! - A domain is cut into *groups* of neighbouring planes. A domain of one group is one area, its area 0.
//! - With more groups, the *backbone* (area 0) is two rows: a satellite and the next of its plane in the first plane, and
//!   from plane to plane their neighbours to the east. The lasers along the rows and between them are in area 0: a ladder,
//!   which no single failure divides. Every other laser within a group is in the group's area. A plane without one laser is
//!   still connected, so every area is contiguous, touches the backbone in each of its planes, and has two border routers
//!   per plane. Each of the two is connected to its group by one laser, the one along its plane away from the other. When
//!   that laser fails, the router is cut off from its group (but still advertises its summary). Any other laser may fail
//!   without dividing an area of two planes or more.
//! - Lasers from group to group outside the rows are in no area: OSPF puts a link into one area, and a satellite in two
//!   areas other than 0 would be a border router without a backbone. [`Areas::unused`] counts them.
//!
//! Group areas are totally stubby (RFC 2328, section 3.6, without summaries): satellites know their own group and a default
//! route to the nearest border router. Paths between groups therefore follow the rows, and are longer than those of one
//! area. That is the price of areas.

use constel_topology::{IslLink, LaserSlot, Layout, NodeId, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// How large areas are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// This number of planes per group, at least 1. The last groups of a shell may have one less.
    Planes(u16),
    /// As many whole planes per group as have at most this number of satellites, at least one plane.
    Satellites(u32),
}

/// An area of a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AreaId {
    /// The shell it is in, counted through all constellations.
    pub domain: u16,
    /// Number within the domain, as in OSPF: 0 is the backbone.
    pub area: u16,
}

/// One area, for the record.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct AreaRow {
    /// The constellation it is in.
    pub shell: String,
    /// OSPF's number of it.
    pub area: u16,
    /// How many satellites are in it; border routers are in two.
    pub satellites: usize,
    /// How many of them join it to another.
    pub border_routers: usize,
}

/// A lab that cannot be cut into areas.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AreaError {
    /// A shell without a row through all planes.
    #[error(
        "OSPF areas need a row of lasers from plane to plane through the whole shell; in `{constellation}` it ends \
         at `{satellite}`"
    )]
    BrokenRow {
        /// Name of the constellation.
        constellation: String,
        /// The last satellite of the row.
        satellite: String,
    },
    /// Lasers between shells.
    #[error("OSPF areas end at the shell: `cross_shell` links would be in none")]
    CrossShell,
    /// On ground links the OSPF instance number identifies the area, and it has eight bits (RFC 6549).
    #[error("{0} OSPF areas are too many: at most 255, so make them larger")]
    TooMany(usize),
    /// Stations connect shells by routes that are known in advance. Cables and other systems are not known in advance.
    #[error(
        "OSPF areas of {0} shells stand neither beside cables nor beside other autonomous systems: stations join the \
         shells, and know only these"
    )]
    Gateways(usize),
    /// At some time an area is in pieces.
    #[error("at {t_s} s {what} falls apart: `{satellite}` is cut off from the rest of it")]
    Apart {
        /// When, seconds of lab time.
        t_s: f64,
        /// Description of the area.
        what: String,
        /// One of the satellites cut off.
        satellite: String,
    },
}

/// The area of every satellite and link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Areas {
    /// For each satellite, the area of its ground links and its loopback.
    home: Vec<AreaId>,
    /// For each satellite, whether it is on the backbone. All are in a domain of one area.
    backbone: Vec<bool>,
    /// For each ISL, its area. `None`: OSPF does not use it.
    of_isl: Vec<Option<AreaId>>,
    /// How many groups each domain has, at least 1.
    groups: Vec<u16>,
    /// Number of the first group's area among all, by domain.
    first: Vec<u16>,
    /// Constellation of each domain.
    names: Vec<String>,
}

/// Planes of one shell from west to east, each in order of flight.
type Planes = Vec<Vec<NodeId>>;

impl Areas {
    /// Divides every shell of the layout.
    ///
    /// # Errors
    /// All reasons against the division.
    pub fn new(layout: &Layout, grouping: Grouping) -> Result<Areas, Vec<AreaError>> {
        let mut errors = Vec::new();
        if !layout.spec().cross.is_empty() {
            errors.push(AreaError::CrossShell);
        }
        let mut areas = Areas {
            home: vec![AreaId { domain: 0, area: 0 }; layout.satellite_count()],
            backbone: vec![false; layout.satellite_count()],
            of_isl: vec![None; layout.isl_links().len()],
            groups: Vec::new(),
            first: Vec::new(),
            names: Vec::new(),
        };
        for ((constellation, _), planes) in shells(layout) {
            let name = layout.spec().constellations[usize::from(constellation)]
                .name
                .clone();
            if let Err(satellite) = areas.add_domain(layout, &planes, grouping, &name) {
                let satellite = layout.node(satellite).name.clone();
                errors.push(AreaError::BrokenRow {
                    constellation: name,
                    satellite,
                });
            }
        }
        if areas.count() > 255 {
            errors.push(AreaError::TooMany(areas.count()));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        for link in layout.isl_links() {
            areas.of_isl[link.number as usize] = areas.place(layout, link);
        }
        Ok(areas)
    }

    /// Groups the planes of a shell and finds its rows. The error is where a row ends.
    fn add_domain(
        &mut self,
        layout: &Layout,
        planes: &[Vec<NodeId>],
        grouping: Grouping,
        name: &str,
    ) -> Result<(), NodeId> {
        let domain = self.groups.len() as u16;
        let count = planes.len();
        let largest = planes.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let most = match grouping {
            Grouping::Planes(planes) => usize::from(planes.max(1)),
            Grouping::Satellites(satellites) => (satellites as usize / largest).max(1),
        };
        let groups = count.div_ceil(most).max(1);
        let first = self.count();
        self.first.push(u16::try_from(first).unwrap_or(u16::MAX));
        self.groups.push(groups as u16);
        self.names.push(name.to_owned());
        for (place, plane) in planes.iter().enumerate() {
            // Groups of equal size, as far as planes allow.
            let group = place * groups / count;
            let area = if groups == 1 { 0 } else { group as u16 + 1 };
            for node in plane {
                self.home[node.index()] = AreaId { domain, area };
                self.backbone[node.index()] = groups == 1;
            }
        }
        if groups == 1 {
            return Ok(());
        }
        let Some(&start) = planes.first().and_then(|plane| plane.first()) else {
            return Ok(());
        };
        let beside = far(layout, start, LaserSlot::Fore).ok_or(start)?;
        for mut at in [start, beside] {
            for place in 0..count {
                self.backbone[at.index()] = true;
                if place + 1 < count {
                    let east = far(layout, at, LaserSlot::East).ok_or(at)?;
                    if !planes[place + 1].contains(&east) {
                        return Err(at);
                    }
                    at = east;
                }
            }
        }
        Ok(())
    }

    /// The area of a laser pair.
    fn place(&self, layout: &Layout, link: &IslLink) -> Option<AreaId> {
        let (a, b) = (layout.port(link.a).node, layout.port(link.b).node);
        let (x, y) = (self.home(a), self.home(b));
        if x.domain != y.domain {
            return None;
        }
        if self.is_backbone(a) && self.is_backbone(b) {
            return Some(AreaId { area: 0, ..x });
        }
        (x == y).then_some(x)
    }

    /// The area a satellite's ground links and loopback are in.
    ///
    /// # Panics
    /// When the node is no satellite of the layout.
    #[must_use]
    pub fn home(&self, satellite: NodeId) -> AreaId {
        self.home[satellite.index()]
    }

    /// Whether a satellite is on its domain's backbone.
    ///
    /// # Panics
    /// When the node is no satellite of the layout.
    #[must_use]
    pub fn is_backbone(&self, satellite: NodeId) -> bool {
        self.backbone[satellite.index()]
    }

    /// Whether a satellite joins an area to the backbone.
    ///
    /// # Panics
    /// When the node is no satellite of the layout.
    #[must_use]
    pub fn is_border(&self, satellite: NodeId) -> bool {
        self.is_backbone(satellite) && self.home(satellite).area != 0
    }

    /// The area of a laser pair by its number; `None`: OSPF does not use it.
    #[must_use]
    pub fn of_isl(&self, number: u32) -> Option<AreaId> {
        self.of_isl.get(number as usize).copied().flatten()
    }

    /// How many laser pairs OSPF does not use.
    #[must_use]
    pub fn unused(&self) -> usize {
        self.of_isl.iter().filter(|area| area.is_none()).count()
    }

    /// How many areas with ground links there are, in all domains.
    #[must_use]
    pub fn count(&self) -> usize {
        self.groups.iter().map(|g| usize::from(*g)).sum()
    }

    /// How many domains there are.
    #[must_use]
    pub fn domains(&self) -> usize {
        self.groups.len()
    }

    /// Returns the number of an area with ground links among all areas, from 1. It is the OSPF instance on its ground ports,
    /// by which a station that sees satellites of several areas distinguishes them.
    ///
    /// If there is no such area.
    #[must_use]
    pub fn instance(&self, area: AreaId) -> u8 {
        let number = self.first[usize::from(area.domain)] + area.area.saturating_sub(1) + 1;
        u8::try_from(number).expect("at most 255 areas, as checked")
    }

    /// The satellites of each area, which share a block of loopback addresses; domain by domain.
    #[must_use]
    pub fn blocks(&self) -> Vec<Vec<(AreaId, Vec<NodeId>)>> {
        let mut blocks: Vec<BTreeMap<AreaId, Vec<NodeId>>> =
            vec![BTreeMap::new(); self.groups.len()];
        for (node, area) in self.home.iter().enumerate() {
            blocks[usize::from(area.domain)]
                .entry(*area)
                .or_default()
                .push(NodeId(node as u32));
        }
        blocks
            .into_iter()
            .map(|domain| domain.into_iter().collect())
            .collect()
    }

    /// Every area in a row, for the record.
    #[must_use]
    pub fn rows(&self, layout: &Layout) -> Vec<AreaRow> {
        let mut rows: BTreeMap<AreaId, AreaRow> = BTreeMap::new();
        let mut count = |area: AreaId, border: bool| {
            let row = rows.entry(area).or_insert_with(|| AreaRow {
                shell: self.names[usize::from(area.domain)].clone(),
                area: area.area,
                satellites: 0,
                border_routers: 0,
            });
            row.satellites += 1;
            row.border_routers += usize::from(border);
        };
        for node in (0..layout.satellite_count() as u32).map(NodeId) {
            let (home, border) = (self.home(node), self.is_border(node));
            count(home, border);
            if border {
                count(AreaId { area: 0, ..home }, true);
            }
        }
        rows.into_values().collect()
    }

    /// Whether every area hangs together over the lasers that are up in a snapshot.
    ///
    /// # Errors
    /// One finding for each area that does not.
    pub fn check(&self, layout: &Layout, snapshot: &Snapshot) -> Result<(), Vec<AreaError>> {
        let mut members: BTreeMap<AreaId, BTreeSet<NodeId>> = BTreeMap::new();
        for node in (0..self.home.len() as u32).map(NodeId) {
            members.entry(self.home(node)).or_default().insert(node);
            if self.is_backbone(node) {
                let backbone = AreaId {
                    area: 0,
                    ..self.home(node)
                };
                members.entry(backbone).or_default().insert(node);
            }
        }
        let mut links: BTreeMap<NodeId, Vec<(AreaId, NodeId)>> = BTreeMap::new();
        for link in layout.isl_links() {
            let up = snapshot.edge(link.a, link.b).is_some();
            if let Some(area) = self.of_isl(link.number).filter(|_| up) {
                let (a, b) = (layout.port(link.a).node, layout.port(link.b).node);
                links.entry(a).or_default().push((area, b));
                links.entry(b).or_default().push((area, a));
            }
        }
        let mut errors = Vec::new();
        for (area, nodes) in &members {
            let mut left = nodes.clone();
            let mut reached: Vec<NodeId> = left.pop_first().into_iter().collect();
            while let Some(at) = reached.pop() {
                for (via, to) in links.get(&at).into_iter().flatten() {
                    if via == area && left.remove(to) {
                        reached.push(*to);
                    }
                }
            }
            if let Some(cut_off) = left.first() {
                errors.push(AreaError::Apart {
                    t_s: snapshot.t_ns as f64 / 1e9,
                    what: self.describe(*area),
                    satellite: layout.node(*cut_off).name.clone(),
                });
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    fn describe(&self, area: AreaId) -> String {
        let name = &self.names[usize::from(area.domain)];
        match area.area {
            0 => format!("the backbone of `{name}`"),
            number => format!("area {number} of `{name}`"),
        }
    }
}

/// The planes of every shell, by constellation and shell.
fn shells(layout: &Layout) -> BTreeMap<(u16, u16), Planes> {
    let mut shells: BTreeMap<(u16, u16), BTreeMap<u16, Vec<NodeId>>> = BTreeMap::new();
    for node in layout.nodes() {
        if let Some(seat) = node.seat {
            let shell = shells.entry((seat.constellation, seat.shell)).or_default();
            shell.entry(seat.plane).or_default().push(node.id);
        }
    }
    let ordered = shells
        .into_iter()
        .map(|(key, planes)| (key, planes.into_values().collect::<Planes>()));
    ordered
        .map(|(key, mut planes)| {
            // A star has a westernmost plane, at which no laser points from the west.
            let first = planes.iter().position(|plane| {
                plane
                    .iter()
                    .all(|node| far(layout, *node, LaserSlot::West).is_none())
            });
            planes.rotate_left(first.unwrap_or(0));
            (key, planes)
        })
        .collect()
}

/// The satellite at the far end of a laser.
fn far(layout: &Layout, node: NodeId, laser: LaserSlot) -> Option<NodeId> {
    let port = layout
        .ports_of(node)
        .iter()
        .find(|p| p.laser == Some(laser))?;
    let link = layout.isl_of_port(port.id)?;
    let other = if link.a == port.id { link.b } else { link.a };
    Some(layout.port(other).node)
}
