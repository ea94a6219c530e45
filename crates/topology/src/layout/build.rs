//! From a spec to its nodes, ports and pairs of ports.

use super::{CableLink, IslLink, Layout, TerminalLayout};
use crate::check::check;
use crate::class::{Access, Attachment, CABLE, EdgeClass, GSL, ISL, NodeClass, STATION};
use crate::error::SpecError;
use crate::failures::that_hit_nothing;
use crate::geometry::Motion;
use crate::node::{LaserSlot, Node, NodeId, Port, Seat};
use crate::pairing::{self, IslKind, pair};
use crate::sky::Sky;
use crate::spec::{Constellation, Failure, GroundService, IslPattern, MTU_BYTES, Operators, Spec};
use crate::track::place_at;
use constel_link::PortId;
use constel_orbit::{DVec3, Geodetic, Site, line_of_sight};
use std::collections::{BTreeMap, BTreeSet};

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
            network_ports: vec![Vec::new(); spec.networks.len()],
            edge_classes: vec![&ISL, &GSL, &CABLE],
            access_ports: Vec::new(),
            cable_of_port: BTreeMap::new(),
            link_of_port: Vec::new(),
            node_of_port: Vec::new(),
            seams: Vec::new(),
            satellite_count,
            constellation_start: vec![0],
            sites: Vec::new(),
            host_sites: Vec::new(),
            serves_ground: Vec::new(),
            terminals: Vec::new(),
            terminal_start: vec![0],
            aims: Vec::new(),
            masks: Vec::new(),
            by_name: BTreeMap::new(),
            spec,
        };
        layout.number_nodes();
        layout.lay_cables();
        layout.pair(sky)?;
        layout.set_mtus();
        let errors = that_hit_nothing(&layout);
        if errors.is_empty() {
            Ok(layout)
        } else {
            Err(errors)
        }
    }

    /// Returns the layout with these failures in addition.
    ///
    /// # Errors
    /// Failure names that are used twice, names of unknown nodes, and failures without targets.
    pub fn with_failures(&self, more: Vec<Failure>) -> Result<Layout, Vec<SpecError>> {
        let mut layout = self.clone();
        layout.spec.failures.extend(more);
        let mut errors = check(&layout.spec);
        errors.extend(that_hit_nothing(&layout));
        if errors.is_empty() {
            Ok(layout)
        } else {
            Err(errors)
        }
    }

    fn number_nodes(&mut self) {
        let spec = std::mem::take(&mut self.spec);
        let further = FurtherPorts::of(&spec);
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
                let lasers = lasers_of(lasers, cross);
                let radios = usize::from(constellation.class.access != Access::None);
                let class = constellation.class;
                self.push_node(&sat.name, class, Some(seat), (&lasers, radios), &further);
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
        for (place, station) in spec.stations.iter().enumerate() {
            let radios = station.terminals.len();
            self.push_node(&station.name, &STATION, None, (&[], radios), &further);
            self.sites.push(place_at(station, 0));
            self.set_up_terminals(&spec, place, &shells);
        }
        for host in &spec.hosts {
            self.push_node(&host.name, host.class, None, (&[], 0), &further);
            if let (Some(interface), Some(node)) = (&host.attach, self.nodes.last()) {
                let first = node.first_port.0 as usize;
                for port in &mut self.ports[first..] {
                    port.attachment = Attachment::HostInterface(interface.clone());
                }
            }
            self.host_sites.push(Site::new(&Geodetic {
                latitude_rad: host.latitude_deg.to_radians(),
                longitude_rad: host.longitude_deg.to_radians(),
                height_m: host.altitude_m,
            }));
        }
        self.spec = spec;
    }

    /// Lays out the terminals of the station whose node was pushed last, by its place in the spec. `shells`: those that
    /// serve the ground.
    fn set_up_terminals(&mut self, spec: &Spec, place: usize, shells: &BTreeSet<(u16, u16)>) {
        let station = &spec.stations[place];
        let (first, _) = self.access_ports[self.nodes.len() - 1];
        for (terminal, port) in station.terminals.iter().zip(first.0..) {
            let begin = self.aims.len();
            if station.gateway {
                let own = shells.iter().filter(|(k, _)| terminal.serves.has(*k));
                self.aims.extend(own.map(|shell| Some(*shell)));
            } else {
                let any = std::iter::repeat_n(None, usize::from(terminal.antennas));
                self.aims.extend(any);
            }
            self.terminals.push(TerminalLayout {
                station: place,
                port: PortId(port),
                rule: terminal.rule,
                beams: begin..self.aims.len(),
            });
            let mask = |(k, own): (u16, &Constellation)| {
                let mask_deg = terminal.min_elevation_deg.unwrap_or(own.min_elevation_deg);
                let serves = terminal.serves.has(k);
                serves.then(|| (mask_deg.to_radians().sin(), mask_deg))
            };
            self.masks.extend((0..).zip(&spec.constellations).map(mask));
        }
        self.terminal_start.push(self.terminals.len());
    }

    /// The port of a satellite's laser, by the satellite's place.
    ///
    /// # Panics
    /// When it has no such laser.
    fn laser_port(&self, satellite: usize, laser: LaserSlot) -> PortId {
        let ports = self.ports_of(NodeId(satellite as u32));
        let port = ports.iter().find(|p| p.laser == Some(laser));
        port.unwrap_or_else(|| unreachable!("only lasers that exist are paired"))
            .id
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

    /// Adds a node and its ports in their order: cables, lasers, radios to the ground or sky, networks.
    fn push_node(
        &mut self,
        name: &str,
        class: &'static NodeClass,
        seat: Option<Seat>,
        (lasers, radios): (&[LaserSlot], usize),
        further: &FurtherPorts<'_>,
    ) {
        let id = NodeId(self.nodes.len() as u32);
        let first_port = PortId(self.ports.len() as u32);
        for name in CABLE.ports.iter().take(further.cables_of(name)) {
            self.push_port(id, &CABLE, name, None);
        }
        for laser in lasers {
            self.push_port(id, &ISL, laser.port_name(), Some(*laser));
        }
        let first_radio = PortId(self.ports.len() as u32);
        for name in GSL.ports.iter().take(radios) {
            self.push_port(id, &GSL, name, None);
        }
        self.access_ports.push((first_radio, radios as u8));
        let mut used: BTreeMap<&str, usize> = BTreeMap::new();
        for &(network, member, class) in further.networks_of(name) {
            let count = used.entry(class.name).or_default();
            let port = self.push_port(id, class, class.ports[*count], None);
            *count += 1;
            let ports = &mut self.network_ports[network];
            ports.resize(ports.len().max(member + 1), port);
            ports[member] = port;
            if !self.edge_classes.contains(&class) {
                self.edge_classes.push(class);
            }
        }
        self.by_name.insert(name.to_owned(), id);
        self.nodes.push(Node {
            id,
            name: name.to_owned(),
            class,
            seat,
            first_port,
            port_count: (self.ports.len() as u32 - first_port.0) as u8,
        });
    }

    fn push_port(
        &mut self,
        node: NodeId,
        class: &'static EdgeClass,
        name: &'static str,
        laser: Option<LaserSlot>,
    ) -> PortId {
        let id = PortId(self.ports.len() as u32);
        let own = self.ports.iter().rev().take_while(|p| p.node == node);
        let index_in_node = own.count() as u8;
        self.ports.push(Port {
            id,
            node,
            index_in_node,
            name,
            class,
            medium: class.medium,
            addressing: class.addressing,
            attachment: Attachment::Veth,
            mtu_bytes: MTU_BYTES,
            laser,
        });
        id
    }

    /// Gives every port the MTU of its links. If links of one port disagree, the port has the least.
    fn set_mtus(&mut self) {
        let spec = &self.spec;
        let mut least: BTreeMap<PortId, u32> = BTreeMap::new();
        let mut say = |port: PortId, mtu_bytes: u32| {
            let known = least.entry(port).or_insert(mtu_bytes);
            *known = mtu_bytes.min(*known);
        };
        for link in &self.isl_links {
            let mtu_bytes = self.laser(link).class.mtu_bytes;
            say(link.a, mtu_bytes);
            say(link.b, mtu_bytes);
        }
        for (link, cable) in self.cables.iter().zip(&spec.cables) {
            say(link.a, cable.class.mtu_bytes);
            say(link.b, cable.class.mtu_bytes);
        }
        // The settings that the terminals of a set of constellations agree on; constellations that serve no
        // ground node do not count.
        let serving = |k: &&Constellation| k.ground != GroundService::Shells(BTreeSet::new());
        let ground = |operators: &Operators| {
            let those = (0..).zip(&spec.constellations);
            let those = those.filter(|(k, _)| operators.has(*k)).map(|(_, own)| own);
            let least = those.filter(serving).map(|k| k.gsl_class.mtu_bytes).min();
            least.unwrap_or(MTU_BYTES)
        };
        for (node, radio) in self.nodes.iter().zip(&self.access_ports) {
            if let (Some(seat), (port, 1)) = (node.seat, *radio) {
                let own = &spec.constellations[usize::from(seat.constellation)];
                let mtu_bytes = match serving(&own) {
                    true => own.gsl_class.mtu_bytes,
                    false => ground(&Operators::All),
                };
                say(port, mtu_bytes);
            }
        }
        for (laid, terminal) in self
            .terminals
            .iter()
            .zip(spec.stations.iter().flat_map(|s| &s.terminals))
        {
            say(laid.port, ground(&terminal.serves));
        }
        for (ports, network) in self.network_ports.iter().zip(&spec.networks) {
            ports.iter().for_each(|port| say(*port, network.mtu_bytes));
        }
        for (port, mtu_bytes) in least {
            self.ports[port.0 as usize].mtu_bytes = mtu_bytes;
        }
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
                let (a, b) = (offset + pair.a, offset + pair.b);
                let x = self.laser_port(a, pair.a_laser);
                let y = self.laser_port(b, pair.b_laser);
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
        self.node_of_port = self.ports.iter().map(|port| port.node).collect();
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
                // Satellites without a position then count as too far away.
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
                // Pairs that separate are still better than none, after all that do not. NaN counts as far.
                let far = later.fold(here, |far, d| if d <= far { far } else { d });
                Some(if far.is_nan() {
                    cross.max_range_m
                } else {
                    far.min(cross.max_range_m)
                })
            });
            for (a, b) in pairs {
                (paired[a], paired[b]) = (true, true);
                let (x, y) = (
                    self.laser_port(a, LaserSlot::Cross),
                    self.laser_port(b, LaserSlot::Cross),
                );
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
}

/// The lasers of a satellite, in the order of their ports.
fn lasers_of(in_shell: bool, cross: bool) -> Vec<LaserSlot> {
    let mut lasers = Vec::new();
    if in_shell {
        lasers.extend(LaserSlot::IN_SHELL);
    }
    if cross {
        lasers.push(LaserSlot::Cross);
    }
    lasers
}

/// The ports that cables and networks give to nodes, by the nodes' names.
struct FurtherPorts<'a> {
    cables: BTreeMap<&'a str, usize>,
    /// Place of the network in the spec, place in its members, kind of its ports.
    networks: BTreeMap<&'a str, Vec<(usize, usize, &'static EdgeClass)>>,
}

impl<'a> FurtherPorts<'a> {
    fn of(spec: &'a Spec) -> FurtherPorts<'a> {
        let mut further = FurtherPorts {
            cables: BTreeMap::new(),
            networks: BTreeMap::new(),
        };
        for end in spec.cables.iter().flat_map(|c| [&c.a, &c.b]) {
            *further.cables.entry(end).or_default() += 1;
        }
        for (place, network) in spec.networks.iter().enumerate() {
            for (member, name) in network.members.iter().enumerate() {
                let port = (place, member, network.ports);
                further.networks.entry(name).or_default().push(port);
            }
        }
        further
    }

    fn cables_of(&self, node: &str) -> usize {
        self.cables.get(node).copied().unwrap_or(0)
    }

    fn networks_of(&self, node: &str) -> &[(usize, usize, &'static EdgeClass)] {
        self.networks.get(node).map_or(&[], Vec::as_slice)
    }
}
