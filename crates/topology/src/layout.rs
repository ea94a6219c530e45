//! The parts of a topology that are constant during a run: nodes, ports and the pairs of ports that lasers may
//! join.

mod build;
mod shape;

use crate::class::{Access, EdgeClass, Transit};
use crate::node::{Node, NodeId, Port, Seat};
use crate::pairing::{IslKind, SeamPlanes};
use crate::spec::{Constellation, IslPattern, LinkClass, Spec};
use crate::track::place_at;
use constel_link::PortId;
use constel_orbit::Site;
use std::collections::BTreeMap;
use std::ops::Range;

/// A pair of laser ports that may be linked. `a < b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IslLink {
    /// Place in [`Layout::isl_links`]; stable for the run, so addresses derive from it.
    pub number: u32,
    /// The port with the lower number.
    pub a: PortId,
    /// The other.
    pub b: PortId,
    /// The kind of neighbours.
    pub kind: IslKind,
    /// Index of the constellation in the spec; for a link between shells, that of `a`.
    pub constellation: u16,
    /// The entry in the spec for a link between shells.
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

/// A station's terminal with its port and antennas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalLayout {
    /// Place of its station in the spec.
    pub station: usize,
    /// Its port.
    pub port: PortId,
    /// How its antennas choose: place in [`Spec::rules`].
    pub rule: usize,
    /// Places of its antennas in [`Snapshot::beams`](crate::Snapshot::beams).
    pub beams: Range<usize>,
}

/// Returns the pairs that a text `A-B` may name. Names may contain `-` themselves, so that every position is tried.
pub fn pairs_named<'a, T>(
    text: &'a str,
    find: impl Fn(&str) -> Option<T> + 'a,
) -> impl Iterator<Item = (T, T)> + 'a {
    let cuts = text.match_indices('-');
    cuts.filter_map(move |(at, _)| Some((find(&text[..at])?, find(&text[at + 1..])?)))
}

/// Node table, port table and ISL pairs of a lab. A pure function of the spec and the sky at time 0.
#[derive(Debug, Clone)]
pub struct Layout {
    spec: Spec,
    nodes: Vec<Node>,
    ports: Vec<Port>,
    isl_links: Vec<IslLink>,
    cables: Vec<CableLink>,
    /// For each network of the spec, its members' ports in their order.
    network_ports: Vec<Vec<PortId>>,
    /// The kinds of links of this lab; those of every lab first.
    edge_classes: Vec<&'static EdgeClass>,
    /// First radio between ground and sky of each node, and the number of its radios; radios are numbered
    /// consecutively.
    access_ports: Vec<(PortId, u8)>,
    /// Number of the cable in a port.
    cable_of_port: BTreeMap<PortId, u32>,
    /// ISL link number of each port, `u32::MAX` for none.
    link_of_port: Vec<u32>,
    /// Node of each port: every step looks up each laser's, and rows of the port table are long.
    node_of_port: Vec<NodeId>,
    /// Constellation and planes of each seam.
    seams: Vec<(u16, SeamPlanes)>,
    satellite_count: usize,
    /// First satellite of each constellation, and one past the last.
    constellation_start: Vec<usize>,
    sites: Vec<Site>,
    /// The positions of hosts.
    host_sites: Vec<Site>,
    /// For each satellite, whether it serves the ground.
    serves_ground: Vec<bool>,
    /// The terminals of all stations.
    terminals: Vec<TerminalLayout>,
    /// First terminal of each station, and one past the last.
    terminal_start: Vec<usize>,
    /// For each antenna, the constellation and shell it is for; `None`: any.
    aims: Vec<Option<(u16, u16)>>,
    /// For each terminal and each of its constellations: sine of the mask, and the mask in degrees.
    masks: Vec<Option<(f64, f64)>>,
    by_name: BTreeMap<String, NodeId>,
}

impl Layout {
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
    /// When no node has that number.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// A port by number.
    ///
    /// # Panics
    /// When no port has that number.
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

    /// The node's radios between ground and sky: of a satellite one or none, of a station those of its terminals.
    ///
    /// # Panics
    /// When there is no node of that number.
    #[must_use]
    pub fn access_ports(&self, id: NodeId) -> &[Port] {
        let (first, count) = self.access_ports[id.index()];
        let first = first.0 as usize;
        &self.ports[first..first + usize::from(count)]
    }

    /// The only or first radio of a node that is known to have one.
    ///
    /// # Panics
    /// When there is no node of that number, or it has none.
    #[must_use]
    pub fn gsl_port(&self, id: NodeId) -> PortId {
        let port = self.access_ports(id).first();
        port.unwrap_or_else(|| panic!("`{}` has no radio", self.node(id).name))
            .id
    }

    /// The kinds of links of this lab: lasers, ground links and cables, then those of its networks.
    #[must_use]
    pub fn edge_classes(&self) -> &[&'static EdgeClass] {
        &self.edge_classes
    }

    /// The ports of a network's members, by the network's place in the spec, in the order of its members.
    ///
    /// # Panics
    /// When there is no such network.
    #[must_use]
    pub fn network_ports(&self, network: usize) -> &[PortId] {
        &self.network_ports[network]
    }

    /// The other ports of the network that a port is in; empty for ports of no network.
    #[must_use]
    pub fn network_peers(&self, port: PortId) -> Vec<PortId> {
        let own = self.network_ports.iter().find(|n| n.contains(&port));
        let others = own.into_iter().flatten().filter(|other| **other != port);
        others.copied().collect()
    }

    /// The nodes that choose the satellites that serve them, by number.
    pub fn stations(&self) -> impl Iterator<Item = &Node> {
        let chooses = |n: &&Node| n.class.access == Access::Chooses;
        self.nodes.iter().filter(chooses)
    }

    /// Returns the nodes at which users' traffic begins and ends, by number.
    pub fn endpoints(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|n| n.class.endpoint)
    }

    /// The pair a laser port belongs to; `None` for ground ports and lasers without a neighbour.
    #[must_use]
    pub fn isl_of_port(&self, port: PortId) -> Option<&IslLink> {
        let number = *self.link_of_port.get(port.0 as usize)?;
        self.isl_links.get(number as usize)
    }

    /// The node that a port belongs to.
    pub(crate) fn node_of(&self, port: PortId) -> NodeId {
        self.node_of_port[port.0 as usize]
    }

    /// Returns the ports that are lasers, in order, with their links.
    pub(crate) fn lasers_by_port(&self) -> impl Iterator<Item = (PortId, &IslLink)> {
        let link = |number: &u32| self.isl_links.get(*number as usize);
        let links = self.link_of_port.iter().map(link);
        let numbered = (0u32..).map(PortId).zip(links);
        numbered.filter_map(|(port, link)| Some((port, link?)))
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

    /// Returns the positions of hosts, in the order of the spec.
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

    /// The elevation mask between a terminal, by its place among all, and satellites of a constellation: its sine, and
    /// degrees; `None`: it is not for them.
    pub(crate) fn mask(&self, terminal: usize, constellation: usize) -> Option<(f64, f64)> {
        self.masks[terminal * self.spec.constellations.len() + constellation]
    }

    /// The lowest elevation, degrees, at which a terminal of a station may use satellites of a constellation; `None`:
    /// no terminal is for them. Both by their places in the spec.
    ///
    /// # Panics
    /// When there is no such station or constellation.
    #[must_use]
    pub fn lowest_mask_deg(&self, station: usize, constellation: usize) -> Option<f64> {
        let masks = self.terminal_places(station);
        let masks = masks.filter_map(|terminal| self.mask(terminal, constellation));
        masks.map(|(_, mask_deg)| mask_deg).reduce(f64::min)
    }

    /// The terminals of all stations, station by station.
    #[must_use]
    pub fn terminals(&self) -> &[TerminalLayout] {
        &self.terminals
    }

    /// A station's terminals, by its place in the spec.
    ///
    /// # Panics
    /// When there is no such station.
    #[must_use]
    pub fn terminals_of(&self, station: usize) -> &[TerminalLayout] {
        &self.terminals[self.terminal_places(station)]
    }

    /// Places of a station's terminals among all.
    pub(crate) fn terminal_places(&self, station: usize) -> Range<usize> {
        self.terminal_start[station]..self.terminal_start[station + 1]
    }

    /// Returns the position of a station, by its index in the spec, `t_ns` after the start of the lab.
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
    pub fn beams_of(&self, station: usize) -> Range<usize> {
        let terminals = self.terminals_of(station);
        let (first, last) = (&terminals[0], &terminals[terminals.len() - 1]);
        first.beams.start..last.beams.end
    }

    /// The constellation and shell an antenna is for, by its place among all; `None`: any.
    pub(crate) fn aim(&self, beam: usize) -> Option<(u16, u16)> {
        self.aims[beam]
    }

    /// Whether a node is a station that joins shells, with an antenna for each of them.
    ///
    /// # Panics
    /// When there is no node of that number.
    #[must_use]
    pub fn is_gateway(&self, node: NodeId) -> bool {
        let station = node.index().checked_sub(self.satellite_count);
        let station = station.and_then(|station| self.spec.stations.get(station));
        station.is_some_and(|station| station.gateway)
    }

    /// Whether a node forwards traffic of other nodes: satellites, hosts, gateways, and stations with a cable
    /// or in a network (packets that arrive by one leave by the other). At other stations paths begin and end,
    /// however many terminals they have.
    ///
    /// # Panics
    /// When no node has that number.
    #[must_use]
    pub fn is_transit(&self, node: NodeId) -> bool {
        match self.node(node).class.transit {
            Transit::Always => true,
            Transit::BetweenNetworks => {
                let radios = self.access_ports(node).len();
                self.is_gateway(node) || self.ports_of(node).len() > radios
            }
            Transit::Never => false,
        }
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

    /// Returns the limits and properties of a laser pair.
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

/// The limits and properties of a laser pair.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Laser<'a> {
    pub(crate) polar_cutoff_deg: f64,
    pub(crate) max_range_m: f64,
    pub(crate) clearance_m: f64,
    pub(crate) max_slew_deg_per_s: Option<f64>,
    pub(crate) acquisition_ns: u64,
    pub(crate) class: &'a LinkClass,
}
