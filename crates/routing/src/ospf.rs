//! What a node's OSPF is told about areas: which ports and prefixes are in which.
//!
//! Without areas that is one instance with everything in area 0. With areas (see [`crate::areas`]):
//!
//! - A satellite runs one instance: its group's area, and area 0 when it is on the backbone. A border router
//!   sums its area up to others in one prefix, the area's block of addresses.
//! - A station runs one instance for each area whose satellites it will use, so that it is in several areas and a
//!   border router in none. A ground port is in all areas of its satellites under different instance numbers (RFC 6549).
//! - Between shells there is no backbone, only *gateways*: stations with an antenna to every shell. A gateway says
//!   in each area it uses that the other shells' blocks are stub networks behind it, and border routers say in
//!   their area that their own shell's block is behind them. A gateway thereby knows the way into every shell, and
//!   every satellite the way to the nearest gateway; no route is redistributed, and no default is believed by a
//!   gateway, so that nothing goes round between shells.

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
    /// Tells the instances of a node apart; 0 when there is one.
    pub number: u8,
    /// Whether a default route heard from a border router is believed.
    pub default_route: bool,
    /// Its areas: the backbone first.
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
    /// What a border router sums its area up in.
    pub range: Option<Block>,
    /// Not told to other areas: what border routers say of the shell as a whole.
    pub hidden: Option<Block>,
    /// Blocks that are behind this node.
    pub behind: Vec<Block>,
    /// Its ports there.
    pub ports: Vec<PortId>,
    /// The satellites that a station will use there.
    pub satellites: Served,
}

/// The instances of a node. `satellites` are those that a station will use; of no meaning for a satellite.
///
/// # Panics
/// When the node, or the areas, are not of this layout.
#[must_use]
pub fn instances(
    layout: &Layout,
    plan: &AddressPlan,
    areas: Option<&Areas>,
    node: NodeId,
    satellites: &Served,
) -> Vec<Instance> {
    let ports = layout.ports_of(node);
    let station = layout.node(node).class.access == Access::Chooses;
    let Some(areas) = areas else {
        let used =
            |p: &&constel_topology::Port| p.medium.several || layout.far_port(p.id).is_some();
        return vec![Instance {
            number: 0,
            default_route: true,
            areas: vec![Area {
                loopback: true,
                ports: ports.iter().filter(used).map(|p| p.id).collect(),
                satellites: if station {
                    satellites.clone()
                } else {
                    Served::new()
                },
                ..Area::of(AreaId { domain: 0, area: 0 }, 0)
            }],
        }];
    };
    if station {
        station_instances(layout, plan, areas, node, satellites)
    } else {
        vec![satellite_instance(layout, plan, areas, node)]
    }
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
