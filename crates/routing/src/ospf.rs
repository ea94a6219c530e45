//! The OSPF configuration of a node with regard to areas: the areas of its ports and prefixes.
//!
//! Without areas there is one instance with everything in area 0. With areas (see [`crate::areas`]):
//!
//! - A satellite runs one instance: its group's area, and area 0 when it is on the backbone. A border router summarises its
//!   area to others in one prefix, the area's block of addresses.
//! - A station runs one instance for each area whose satellites it will use, so that it is in several areas and a border
//!   router in none. A ground port is in all areas of its satellites under different instance numbers (RFC 6549).
//! - Between shells there is no backbone, only *gateways*: stations with an antenna to every shell. A gateway advertises in
//!   each area it uses that the other shells' blocks are stub networks behind it, and border routers advertise in their area
//!   that their own shell's block is behind them. A gateway thereby has a route into every shell, and every satellite has a
//!   route to the nearest gateway. No route is redistributed, and no gateway accepts a default route, so that no packet
//!   loops between shells.
//! - Cables of the satellites' system are an instance of their own, among stations and hosts, all of it area 0. A station
//!   exchanges routes between the two sides: nodes behind it learn the locations of all nodes, and its areas learn the nodes
//!   behind it. These areas, and those of labs with BGP, are *open*: plain areas instead of stubs, since no router in a stub
//!   may originate external routes. They learn every other area as a block, and each external destination. (Not-so-stubby
//!   areas, RFC 3101, would need less, but their routes need a forwarding address, and in OSPFv3 our links have none.)

use crate::addresses::{AddressPlan, Block};
use crate::areas::{AreaId, Areas};
use constel_link::PortId;
use constel_topology::{Access, Layout, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Satellites that a station will use, each with the port of the terminal that does.
pub type Served = BTreeSet<(PortId, NodeId)>;

/// One instance of OSPF in a node: one `protocol` of BIRD, for each family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Number that distinguishes the instances of a node. 0 if there is one.
    pub number: u8,
    /// Whether a default route from a border router is accepted.
    pub default_route: bool,
    /// It is that of cables.
    pub cables: bool,
    /// Areas of the instance, the backbone first.
    pub areas: Vec<Area>,
}

/// A node's part of an area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area {
    /// OSPF's number of the area.
    pub number: u16,
    /// Totally stubby: a default instead of summaries.
    pub stub: bool,
    /// Whether the node's own loopback is advertised here.
    pub loopback: bool,
    /// Instance number on ground ports.
    pub instance: u8,
    /// The prefix into which a border router summarises its area.
    pub range: Option<Block>,
    /// The prefix that is not advertised to other areas: routes of border routers for the shell as a whole.
    pub hidden: Option<Block>,
    /// Blocks that are behind this node.
    pub behind: Vec<Block>,
    /// Ports of the node in the area.
    pub ports: Vec<PortId>,
    /// The satellites that a station will use there.
    pub satellites: Served,
}

/// A network that is cut into areas, as it concerns one of its nodes.
#[derive(Debug, Clone, Copy)]
pub struct AreaView<'a> {
    /// The areas.
    pub areas: &'a Areas,
    /// Whether the node has cables to nodes of the same network.
    pub cables: bool,
    /// Whether any router originates external routes.
    pub open: bool,
}

/// The instances of a node. `satellites` are those that a station will use; of no meaning for a satellite.
///
/// # Panics
/// When the node, or the areas, are not of this layout.
#[must_use]
pub fn instances(
    layout: &Layout,
    plan: &AddressPlan,
    divided: Option<AreaView<'_>>,
    node: NodeId,
    satellites: &Served,
) -> Vec<Instance> {
    let ports = layout.ports_of(node);
    let access = layout.node(node).class.access;
    let in_one_area = |ports, satellites, cables| Instance {
        number: 0,
        default_route: true,
        cables,
        areas: vec![Area {
            loopback: true,
            ports,
            satellites,
            ..Area::of(AreaId { domain: 0, area: 0 }, 0)
        }],
    };
    let Some(divided) = divided else {
        let used =
            |p: &&constel_topology::Port| p.medium.several || layout.far_port(p.id).is_some();
        let satellites = match access {
            Access::Chooses => satellites.clone(),
            Access::Serves | Access::None => Served::new(),
        };
        let ports = ports.iter().filter(used).map(|p| p.id).collect();
        return vec![in_one_area(ports, satellites, false)];
    };
    let mut instances = match access {
        Access::Chooses => station_instances(layout, plan, divided.areas, node, satellites),
        Access::Serves => vec![satellite_instance(layout, plan, divided.areas, node)],
        Access::None => Vec::new(),
    };
    for area in instances
        .iter_mut()
        .flat_map(|instance| &mut instance.areas)
    {
        area.stub &= !divided.open;
    }
    if divided.cables || access == Access::None {
        let cables = ports
            .iter()
            .filter(|p| layout.cable_of_port(p.id).is_some());
        let cables = cables.map(|p| p.id).collect();
        instances.push(in_one_area(cables, Served::new(), true));
    }
    instances
}

impl Area {
    fn of(id: AreaId, instance: u8) -> Area {
        Area {
            number: id.area,
            stub: id.area != 0,
            loopback: false,
            instance,
            range: None,
            hidden: None,
            behind: Vec::new(),
            ports: Vec::new(),
            satellites: Served::new(),
        }
    }
}

fn satellite_instance(
    layout: &Layout,
    plan: &AddressPlan,
    areas: &Areas,
    node: NodeId,
) -> Instance {
    let home = areas.home(node);
    let mut parts = BTreeMap::new();
    let mut part = |id: AreaId, port: Option<PortId>| {
        let area = parts
            .entry(id)
            .or_insert_with(|| Area::of(id, areas.instance(home)));
        area.ports.extend(port);
    };
    part(home, None);
    if areas.is_backbone(node) {
        part(AreaId { area: 0, ..home }, None);
    }
    for port in layout.ports_of(node) {
        let area = match layout.isl_of_port(port.id) {
            Some(link) => areas.of_isl(link.number),
            None => port.medium.several.then_some(home),
        };
        if let Some(area) = area {
            part(area, Some(port.id));
        }
    }
    let several = areas.domains() > 1;
    if let Some(area) = parts.get_mut(&home) {
        area.loopback = true;
        if areas.is_border(node) {
            area.range = plan.area_block(home);
            area.hidden = plan.domain_block(home.domain).filter(|_| several);
        }
        // In a shell of one area every satellite's loopback is known anyway.
        if several && areas.is_border(node) {
            area.behind.extend(plan.domain_block(home.domain));
        }
    }
    Instance {
        number: 0,
        default_route: true,
        cables: false,
        areas: parts.into_values().collect(),
    }
}

/// The ports by which a station uses satellites.
fn ports_of(satellites: &Served) -> Vec<PortId> {
    let ports: BTreeSet<PortId> = satellites.iter().map(|(port, _)| *port).collect();
    ports.into_iter().collect()
}

fn station_instances(
    layout: &Layout,
    plan: &AddressPlan,
    areas: &Areas,
    node: NodeId,
    satellites: &Served,
) -> Vec<Instance> {
    let gateway = layout.is_gateway(node);
    let mut used: BTreeMap<AreaId, Served> = BTreeMap::new();
    for &(port, satellite) in satellites {
        used.entry(areas.home(satellite))
            .or_default()
            .insert((port, satellite));
    }
    let others = |domain: u16| {
        (0..areas.domains() as u16)
            .filter(move |other| gateway && *other != domain)
            .filter_map(|other| plan.domain_block(other))
    };
    used.into_iter()
        .map(|(id, satellites)| Instance {
            number: areas.instance(id),
            default_route: !gateway,
            cables: false,
            areas: vec![Area {
                loopback: true,
                behind: others(id.domain).collect(),
                ports: ports_of(&satellites),
                satellites,
                ..Area::of(id, areas.instance(id))
            }],
        })
        .collect()
}
