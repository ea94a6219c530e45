//! What never changes during a run: nodes, ports and the pairs of ports lasers may join.

use crate::check::check;
use crate::error::SpecError;
use crate::failures::that_hit_nothing;
use crate::geometry::Motion;
use crate::node::{Node, NodeId, NodeKind, Port, PortRole, Seat};
use crate::pairing::{self, IslKind, SeamPlanes, pair};
use crate::sky::Sky;
use crate::spec::{Constellation, IslPattern, LinkClass, Spec};
use crate::track::place_at;
use constel_link::PortId;
use constel_orbit::{DVec3, Geodetic, Site, line_of_sight};
use std::collections::{BTreeMap, BTreeSet};

/// A pair of laser ports that may be linked. `a < b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IslLink {
    /// Place in [`Layout::isl_links`]; stable for the run, so addresses derive from it.
    pub number: u32,
    /// The port with the lower number.
    pub a: PortId,
    /// The other.
    pub b: PortId,
    /// What kind of neighbours.
    pub kind: IslKind,
    /// Index of the constellation in the spec; of a link between shells, that of `a`.
    pub constellation: u16,
    /// Of a link between shells, its entry in the spec.
    pub cross: Option<u16>,
}

/// A cable and its two ports. `a < b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CableLink {
    /// Place in [`Layout::cables`] and in the spec; stable for the run, so addresses derive from it.
    pub number: u32,
    /// The port with the lower number.
    pub a: PortId,
    /// The other.
    pub b: PortId,
}

impl IslLink {
    /// The port at the other end.
    pub(crate) fn far_end(&self, port: PortId) -> PortId {
        if self.a == port { self.b } else { self.a }
    }
}

/// Node table, port table and ISL pairs of a lab. A pure function of the spec and the sky at time 0.
#[derive(Debug, Clone)]
pub struct Layout {
    spec: Spec,
    nodes: Vec<Node>,
    ports: Vec<Port>,
    isl_links: Vec<IslLink>,
    cables: Vec<CableLink>,
    /// Number of the cable in a port.
    cable_of_port: BTreeMap<PortId, u32>,
    /// ISL link number of each port, `u32::MAX` for none.
    link_of_port: Vec<u32>,
    /// Constellation and planes of each seam.
    seams: Vec<(u16, SeamPlanes)>,
    satellite_count: usize,
    /// First satellite of each constellation, and one past the last.
    constellation_start: Vec<usize>,
    sites: Vec<Site>,
    /// Where hosts are.
    host_sites: Vec<Site>,
    /// Of each satellite, whether it serves the ground.
    serves_ground: Vec<bool>,
    /// First antenna of each station, and one past the last.
    beam_start: Vec<usize>,
    /// Of each antenna, the constellation and shell it is for; `None`: any.
    aims: Vec<Option<(u16, u16)>>,
    /// Of each station and constellation: sine of the mask, and the mask in degrees.
    masks: Vec<(f64, f64)>,
    by_name: BTreeMap<String, NodeId>,
}

impl Layout {
    /// Checks the spec and lays out nodes, ports and ISL pairs.
    ///
    /// # Errors
    /// Everything that is wrong with the spec, all at once.
    pub fn new(spec: Spec, sky: &dyn Sky) -> Result<Layout, Vec<SpecError>> {
        let mut errors = check(&spec);
        let satellite_count = spec.constellations.iter().map(|c| c.satellites.len()).sum();
        if sky.count() != satellite_count {
            errors.push(SpecError::Count {
                spec: satellite_count,
                sky: sky.count(),
            });
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut layout = Layout {
            nodes: Vec::with_capacity(satellite_count + spec.stations.len()),
            ports: Vec::new(),
            isl_links: Vec::new(),
            cables: Vec::new(),
            cable_of_port: BTreeMap::new(),
            link_of_port: Vec::new(),
            seams: Vec::new(),
            satellite_count,
            constellation_start: vec![0],
            sites: Vec::new(),
            host_sites: Vec::new(),
            serves_ground: Vec::new(),
            beam_start: vec![0],
            aims: Vec::new(),
            masks: Vec::new(),
            by_name: BTreeMap::new(),
            spec,
        };
        layout.number_nodes();
        layout.lay_cables();
        layout.pair(sky)?;
        let errors = that_hit_nothing(&layout);
        if errors.is_empty() {
            Ok(layout)
        } else {
            Err(errors)
        }
    }

    fn number_nodes(&mut self) {
        let spec = std::mem::take(&mut self.spec);
        let mut cables: BTreeMap<&str, usize> = BTreeMap::new();
        for end in spec.cables.iter().flat_map(|c| [&c.a, &c.b]) {
            *cables.entry(end).or_default() += 1;
        }
        let cables_of = |name: &str| cables.get(name).copied().unwrap_or(0);
        for (k, constellation) in spec.constellations.iter().enumerate() {
            for sat in &constellation.satellites {
                let seat = Seat {
                    constellation: k as u16,
                    shell: sat.shell,
                    plane: sat.plane,
                    slot: sat.slot,
                };
                let lasers = constellation.isl != IslPattern::None;
                self.serves_ground.push(constellation.ground.has(sat.shell));
                let own = (k, sat.shell);
                let cross = spec.cross.iter().any(|c| c.from == own || c.to == own);
                let roles = roles_of(0, lasers, cross, true);
                self.push_node(&sat.name, NodeKind::Satellite, Some(seat), &roles);
            }
            self.constellation_start.push(self.nodes.len());
        }
        let shells: BTreeSet<(u16, u16)> = self
            .nodes
            .iter()
            .zip(&self.serves_ground)
            .filter(|(_, serves)| **serves)
            .filter_map(|(node, _)| node.seat.map(|s| (s.constellation, s.shell)))
            .collect();
        for station in &spec.stations {
            let roles = roles_of(cables_of(&station.name), false, false, true);
            self.push_node(&station.name, NodeKind::Ground, None, &roles);
            self.sites.push(place_at(station, 0));
            if station.gateway {
                self.aims.extend(shells.iter().map(|shell| Some(*shell)));
            } else {
                self.aims
                    .extend(std::iter::repeat_n(None, usize::from(station.antennas)));
            }
            self.beam_start.push(self.aims.len());
            self.masks.extend(spec.constellations.iter().map(|k| {
                let mask_deg = station.min_elevation_deg.max(k.min_elevation_deg);
                (mask_deg.to_radians().sin(), mask_deg)
            }));
        }
        for host in &spec.hosts {
            let roles = roles_of(cables_of(&host.name), false, false, false);
            self.push_node(&host.name, NodeKind::Host, None, &roles);
            self.host_sites.push(Site::new(&Geodetic {
                latitude_rad: host.latitude_deg.to_radians(),
                longitude_rad: host.longitude_deg.to_radians(),
                height_m: host.altitude_m,
            }));
        }
        self.spec = spec;
    }

    /// Gives every cable the next free ports of its ends.
    fn lay_cables(&mut self) {
        let mut used: BTreeMap<NodeId, u32> = BTreeMap::new();
        for (number, cable) in self.spec.cables.iter().enumerate() {
            let mut port = |name: &String| {
                let node = &self.nodes[self.by_name[name].index()];
                let count = used.entry(node.id).or_insert(0);
                *count += 1;
                PortId(node.first_port.0 + *count - 1)
            };
            let (x, y) = (port(&cable.a), port(&cable.b));
            for end in [x, y] {
                self.cable_of_port.insert(end, number as u32);
            }
            self.cables.push(CableLink {
                number: number as u32,
                a: x.min(y),
                b: x.max(y),
            });
        }
    }

    fn push_node(&mut self, name: &str, kind: NodeKind, seat: Option<Seat>, roles: &[PortRole]) {
        let id = NodeId(self.nodes.len() as u32);
        let first_port = PortId(self.ports.len() as u32);
        for (index, role) in roles.iter().enumerate() {
            self.ports.push(Port {
                id: PortId(self.ports.len() as u32),
                node: id,
                role: *role,
                index_in_node: index as u8,
            });
        }
        self.by_name.insert(name.to_owned(), id);
        self.nodes.push(Node {
            id,
            name: name.to_owned(),
            kind,
            seat,
            first_port,
            port_count: roles.len() as u8,
        });
    }

    fn pair(&mut self, sky: &dyn Sky) -> Result<(), Vec<SpecError>> {
        const DT_NS: u64 = 1_000_000_000;
        let (mut now, mut later) = (Vec::new(), Vec::new());
        let mut lost = sky.positions_itrf_m(0, &mut now);
        lost.extend(sky.positions_itrf_m(DT_NS, &mut later));
        if !lost.is_empty() {
            return Err(lost.into_iter().map(SpecError::from).collect());
        }
        let moves = now.iter().zip(&later);
        let motions: Vec<Motion> = moves
            .map(|(&p, &q)| Motion::new(p, q, DT_NS as f64 / 1e9))
            .collect();
        for (k, constellation) in self.spec.constellations.iter().enumerate() {
            let IslPattern::PlusGrid(grid) = &constellation.isl else {
                continue;
            };
            let range = self.constellation_start[k]..self.constellation_start[k + 1];
            let offset = range.start;
            let pairing = pair(
                &constellation.satellites,
                grid,
                &constellation.lasers.pairing,
                &motions[range],
            );
            self.seams
                .extend(pairing.seams.into_iter().map(|s| (k as u16, s)));
            for pair in pairing.pairs {
                let port = |i: usize, role: PortRole| {
                    PortId(self.nodes[offset + i].first_port.0 + role as u32)
                };
                let (x, y) = (port(pair.a, pair.a_role), port(pair.b, pair.b_role));
                self.isl_links.push(IslLink {
                    number: 0,
                    a: x.min(y),
                    b: x.max(y),
                    kind: pair.kind,
                    constellation: k as u16,
                    cross: None,
                });
            }
        }
        self.pair_across(sky, &now);
        self.isl_links.sort_unstable_by_key(|l| (l.a, l.b));
        self.link_of_port = vec![u32::MAX; self.ports.len()];
        for (number, link) in self.isl_links.iter_mut().enumerate() {
            link.number = number as u32;
            self.link_of_port[link.a.0 as usize] = link.number;
            self.link_of_port[link.b.0 as usize] = link.number;
        }
        Ok(())
    }

    /// Pairs satellites of different shells.
    fn pair_across(&mut self, sky: &dyn Sky, now: &[DVec3]) {
        let mut paired = vec![false; self.satellite_count];
        for (number, cross) in self.spec.cross.iter().enumerate() {
            let mut samples = [Vec::new(), Vec::new()];
            for (sample, share) in samples.iter_mut().zip([1, 2]) {
                // Satellites without a position then are too far away for anything.
                let _lost = sky.positions_itrf_m(cross.horizon_ns / 2 * share, sample);
            }
            let members = |(constellation, shell): (usize, u16)| -> Vec<usize> {
                let all = self.satellites_of(constellation);
                let own = |i: &usize| self.nodes[*i].seat.is_some_and(|s| s.shell == shell);
                all.filter(own).filter(|i| !paired[*i]).collect()
            };
            let (from, to) = (members(cross.from), members(cross.to));
            let pairs = pairing::cross(&from, &to, cross.max_range_m, |a, b| {
                let here = now[a].distance(now[b]);
                if here > cross.max_range_m || !line_of_sight(now[a], now[b], cross.clearance_m) {
                    return None;
                }
                let later = samples.iter().map(|s| s[a].distance(s[b]));
                // Pairs that part are still better than none, after all that do not. NaN is far.
                let far = later.fold(here, |far, d| if d <= far { far } else { d });
                Some(if far.is_nan() {
                    cross.max_range_m
                } else {
                    far.min(cross.max_range_m)
                })
            });
            for (a, b) in pairs {
                (paired[a], paired[b]) = (true, true);
                let port = |i: usize| {
                    let node = &self.nodes[i];
                    PortId(node.first_port.0 + u32::from(node.port_count) - 2)
                };
                let (x, y) = (port(a), port(b));
                let owner = self.nodes[a.min(b)].seat.map_or(0, |s| s.constellation);
                self.isl_links.push(IslLink {
                    number: 0,
                    a: x.min(y),
                    b: x.max(y),
                    kind: IslKind::CrossShell,
                    constellation: owner,
                    cross: Some(number as u16),
                });
            }
        }
    }

    /// The spec this was laid out from.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// All nodes, by number: satellites first.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All ports, by number.
    #[must_use]
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// All pairs of laser ports, by link number.
    #[must_use]
    pub fn isl_links(&self) -> &[IslLink] {
        &self.isl_links
    }

    /// All cables, by number.
    #[must_use]
    pub fn cables(&self) -> &[CableLink] {
        &self.cables
    }

    /// The cable in a port; `None` for other ports.
    #[must_use]
    pub fn cable_of_port(&self, port: PortId) -> Option<&CableLink> {
        let number = *self.cable_of_port.get(&port)?;
        self.cables.get(number as usize)
    }

    /// The one port that can be at the other end of a laser or cable.
    #[must_use]
    pub fn far_port(&self, port: PortId) -> Option<PortId> {
        let laser = self.isl_of_port(port).map(|l| (l.a, l.b));
        let (a, b) = laser.or_else(|| self.cable_of_port(port).map(|c| (c.a, c.b)))?;
        Some(if a == port { b } else { a })
    }

    /// The cable between two nodes, if any.
    #[must_use]
    pub fn cable_between(&self, a: NodeId, b: NodeId) -> Option<&CableLink> {
        let ends = |c: &CableLink| (self.port(c.a).node, self.port(c.b).node);
        self.cables
            .iter()
            .find(|c| ends(c) == (a, b) || ends(c) == (b, a))
    }

    /// How many of the nodes are satellites; they come first.
    #[must_use]
    pub fn satellite_count(&self) -> usize {
        self.satellite_count
    }

    /// A node by number.
    ///
    /// # Panics
    /// When there is none of that number.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// A port by number.
    ///
    /// # Panics
    /// When there is none of that number.
    #[must_use]
    pub fn port(&self, id: PortId) -> &Port {
        &self.ports[id.0 as usize]
    }

    /// A node by name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Node> {
        self.by_name.get(name).map(|id| self.node(*id))
    }

    /// The ports of a node, in order.
    #[must_use]
    pub fn ports_of(&self, id: NodeId) -> &[Port] {
        let node = self.node(id);
        let first = node.first_port.0 as usize;
        &self.ports[first..first + usize::from(node.port_count)]
    }

    /// The node's ground port, which all nodes have but hosts.
    ///
    /// # Panics
    /// When there is no node of that number, or it is a host.
    #[must_use]
    pub fn gsl_port(&self, id: NodeId) -> PortId {
        let node = self.node(id);
        assert!(node.kind != NodeKind::Host, "`{}` has no radio", node.name);
        PortId(node.first_port.0 + u32::from(node.port_count) - 1)
    }

    /// The pair a laser port belongs to; `None` for ground ports and lasers without a neighbour.
    #[must_use]
    pub fn isl_of_port(&self, port: PortId) -> Option<&IslLink> {
        let number = *self.link_of_port.get(port.0 as usize)?;
        self.isl_links.get(number as usize)
    }

    /// The constellation a satellite belongs to; `None` for stations.
    pub(crate) fn constellation_of(&self, satellite: NodeId) -> Option<&Constellation> {
        let seat = self.node(satellite).seat?;
        Some(&self.spec.constellations[usize::from(seat.constellation)])
    }

    /// The pair joining two satellites, if any.
    #[must_use]
    pub fn isl_between(&self, a: NodeId, b: NodeId) -> Option<&IslLink> {
        self.ports_of(a)
            .iter()
            .filter_map(|p| self.isl_of_port(p.id))
            .find(|l| self.port(l.a).node == b || self.port(l.b).node == b)
    }

    /// The node number of a station, by its place in the spec.
    pub(crate) fn station_node(&self, station: usize) -> NodeId {
        NodeId((self.satellite_count + station) as u32)
    }

    /// Where hosts are, in the order of the spec.
    pub(crate) fn host_sites(&self) -> &[Site] {
        &self.host_sites
    }

    pub(crate) fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// Satellites of a constellation, as a range of node indices.
    pub(crate) fn satellites_of(&self, constellation: usize) -> std::ops::Range<usize> {
        self.constellation_start[constellation]..self.constellation_start[constellation + 1]
    }

    /// Whether a satellite, by its place in the node table, serves the ground.
    pub(crate) fn serves_ground(&self, satellite: usize) -> bool {
        self.serves_ground[satellite]
    }

    /// The elevation mask between a station and satellites of a constellation: its sine, and degrees.
    pub(crate) fn mask(&self, station: usize, constellation: usize) -> (f64, f64) {
        self.masks[station * self.spec.constellations.len() + constellation]
    }

    /// Where a station is, by its place in the spec, `t_ns` after the start of the lab.
    pub(crate) fn site_at(&self, station: usize, t_ns: u64) -> Site {
        let spec = &self.spec.stations[station];
        if spec.track.is_empty() {
            self.sites[station]
        } else {
            place_at(spec, t_ns)
        }
    }

    /// Places of a station's antennas in [`Snapshot::beams`](crate::Snapshot::beams), by its place in the spec.
    ///
    /// # Panics
    /// When there is no such station.
    #[must_use]
    pub fn beams_of(&self, station: usize) -> std::ops::Range<usize> {
        self.beam_start[station]..self.beam_start[station + 1]
    }

    /// The constellation and shell an antenna is for, by its place among all; `None`: any.
    pub(crate) fn aim(&self, beam: usize) -> Option<(u16, u16)> {
        self.aims[beam]
    }

    /// Whether a node is a station with an antenna for each shell.
    ///
    /// # Panics
    /// When there is no node of that number.
    #[must_use]
    pub fn is_gateway(&self, node: NodeId) -> bool {
        let station = node.index().checked_sub(self.satellite_count);
        station.is_some_and(|station| self.spec.stations[station].gateway)
    }

    /// Whether traffic passes through a node: satellites, hosts, gateways, and stations with a cable (what comes by one
    /// goes on by the other); at other stations paths begin and end.
    ///
    /// # Panics
    /// When there is no node of that number.
    #[must_use]
    pub fn is_transit(&self, node: NodeId) -> bool {
        let cable = |port: &Port| port.role == PortRole::Cable;
        self.node(node).kind != NodeKind::Ground
            || self.is_gateway(node)
            || self.ports_of(node).iter().any(cable)
    }

    /// True when two satellites fly in the planes on either side of a seam.
    pub(crate) fn across_seam(&self, a: Seat, b: Seat) -> bool {
        let same = (a.constellation, a.shell) == (b.constellation, b.shell);
        let between = |s: &SeamPlanes| {
            s.shell == a.shell && [(a.plane, b.plane), (b.plane, a.plane)].contains(&s.planes)
        };
        same && self
            .seams
            .iter()
            .any(|(k, s)| *k == a.constellation && between(s))
    }

    /// What limits a laser pair, and what it is like.
    pub(crate) fn laser(&self, link: &IslLink) -> Laser<'_> {
        let constellation = &self.spec.constellations[usize::from(link.constellation)];
        match (
            link.cross.map(|c| &self.spec.cross[usize::from(c)]),
            &constellation.isl,
        ) {
            (Some(cross), _) => Laser {
                polar_cutoff_deg: 90.0,
                max_range_m: cross.max_range_m,
                clearance_m: cross.clearance_m,
                max_slew_deg_per_s: None,
                acquisition_ns: cross.acquisition_ns,
                class: &cross.class,
            },
            (None, IslPattern::PlusGrid(grid)) => Laser {
                polar_cutoff_deg: grid.polar_cutoff_deg,
                max_range_m: grid.max_range_m,
                clearance_m: grid.clearance_m,
                max_slew_deg_per_s: constellation.lasers.max_slew_deg_per_s,
                acquisition_ns: constellation.lasers.acquisition_ns,
                class: &constellation.isl_class,
            },
            (None, IslPattern::None) => unreachable!("links are only made from grids"),
        }
    }
}

/// Ports of a node, in their order: cables, the lasers of its shell, one to another shell, the radio.
fn roles_of(cables: usize, lasers: bool, cross: bool, radio: bool) -> Vec<PortRole> {
    let mut roles = vec![PortRole::Cable; cables];
    if lasers {
        roles.extend(PortRole::ISLS);
    }
    if cross {
        roles.push(PortRole::IslCross);
    }
    if radio {
        roles.push(PortRole::Gsl);
    }
    roles
}

/// What limits a laser pair, and what it is like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Laser<'a> {
    pub(crate) polar_cutoff_deg: f64,
    pub(crate) max_range_m: f64,
    pub(crate) clearance_m: f64,
    pub(crate) max_slew_deg_per_s: Option<f64>,
    pub(crate) acquisition_ns: u64,
    pub(crate) class: &'a LinkClass,
}
