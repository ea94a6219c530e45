//! The variables of a template: one node from the view of its daemons.

use super::{Bfd, Protocol, Software, Spec, SpecError};
use crate::addresses::{AddressPlan, Block};
use crate::areas::Areas;
use crate::ospf::{self, AreaView, Served};
use constel_link::PortId;
use constel_topology::{Access, EdgeClass, GSL, ISL, Layout, NETWORK, NodeId};
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Everything a template can use. Field names are the template's variables.
#[derive(Debug, Clone, Serialize)]
pub struct Context {
    /// Name of the program that the file is for: `bird`, `zebra`, `ospfd`, ...
    pub program: &'static str,
    /// `bird` or `frr`.
    pub software: Software,
    /// `ospf`, `isis` or `babel`.
    pub protocol: Protocol,
    /// Whether IPv4 is routed.
    pub ipv4: bool,
    /// Whether IPv6 is routed.
    pub ipv6: bool,
    /// Timers of the protocol.
    pub timers: Timers,
    /// BFD, or none.
    pub bfd: Option<Bfd>,
    /// Whether the kernel notifies daemons of changes.
    pub kernel_events: bool,
    /// The node.
    pub node: NodeRow,
    /// Ports of the node, in order, without ports whose other end is unused, and without cables to other systems.
    pub ports: Vec<PortRow>,
    /// OSPF's instances, each with its areas.
    pub ospf: Vec<OspfRow>,
    /// Whether the node's system has areas: there are defaults, and blocks of other areas and shells.
    pub in_areas: bool,
    /// BGP configuration of the node. None if the node does not run BGP.
    pub bgp: Option<Bgp>,
    /// Whether nothing may pass through the node although it has links to several satellites: a station with several
    /// terminals that is no gateway.
    pub stub: bool,
    /// Address blocks of the lab.
    pub blocks: Blocks,
}

/// An instance of OSPF. A node has one, but a station in areas one for each area.
#[derive(Debug, Clone, Serialize)]
pub struct OspfRow {
    /// Number that distinguishes the instances of a node. 0 for the only one.
    pub number: u8,
    /// Whether default routes are accepted.
    pub default_route: bool,
    /// Whether this is the instance of cables, beside those of areas. It learns from these the locations of all nodes, and
    /// they learn from it the nodes behind the cables.
    pub cables: bool,
    /// Areas of the instance, the backbone first.
    pub areas: Vec<AreaRow>,
}

/// A node's part of an area of OSPF.
#[derive(Debug, Clone, Serialize)]
pub struct AreaRow {
    /// The area's number.
    pub number: u16,
    /// Totally stubby: a default route in place of summaries.
    pub stub: bool,
    /// Whether the node's loopbacks are advertised here.
    pub loopback: bool,
    /// OSPF's instance number on ground ports (RFC 6549).
    pub instance: u8,
    /// The prefix into which a border router summarises the area.
    pub range: Option<BlockRow>,
    /// The prefix that a border router does not advertise to other areas.
    pub hidden: Option<BlockRow>,
    /// Blocks that are behind this node.
    pub behind: Vec<BlockRow>,
    /// The node's ports in this area.
    pub ports: Vec<PortRow>,
}

/// A block of loopbacks, `address/length`.
#[derive(Debug, Clone, Serialize)]
pub struct BlockRow {
    /// IPv4.
    pub ipv4: String,
    /// IPv6.
    pub ipv6: String,
}

impl From<Block> for BlockRow {
    fn from(block: Block) -> Self {
        Self {
            ipv4: format!("{}/{}", block.v4.0, block.v4.1),
            ipv6: format!("{}/{}", block.v6.0, block.v6.1),
        }
    }
}

/// BGP of one node.
#[derive(Debug, Clone, Serialize)]
pub struct Bgp {
    /// Number of its autonomous system.
    pub asn: u32,
    /// Seconds between keepalives.
    pub hello_s: u16,
    /// Hold time, seconds.
    pub dead_s: u16,
    /// The BGP neighbours.
    pub neighbors: Vec<BgpNeighbor>,
    /// IPv4 loopbacks of its system's stations and hosts.
    pub announced_ipv4: Vec<Ipv4Addr>,
    /// IPv6 loopbacks of its system's stations and hosts.
    pub announced_ipv6: Vec<Ipv6Addr>,
}

/// A neighbour in BGP.
#[derive(Debug, Clone, Serialize)]
pub struct BgpNeighbor {
    /// Name of the neighbour's node.
    pub node: String,
    /// Number of its system.
    pub asn: u32,
    /// Whether it is in another system, at the other end of a cable or ground link.
    pub external: bool,
    /// Whether this node waits for it to call: a satellite for a station, which knows when it sees it.
    pub passive: bool,
    /// Whether this node is its route reflector.
    pub client: bool,
    /// Port of the link to it; none for neighbours of the same system.
    pub port: Option<&'static str>,
    /// Address of the neighbour: of its end of the link, or its loopback.
    pub ipv4: Ipv4Addr,
    /// Address of the neighbour: link-local of its end of the link, or its loopback.
    pub ipv6: Ipv6Addr,
}

/// Timers, seconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Timers {
    /// Between two hellos.
    pub hello_s: u16,
    /// Until a silent neighbour is dead.
    pub dead_s: u16,
    /// Until an unacknowledged packet is sent again.
    pub retransmit_s: u16,
    /// By which BIRD gathers route calculations.
    pub tick_s: u16,
}

/// The node.
#[derive(Debug, Clone, Serialize)]
pub struct NodeRow {
    /// Its name.
    pub name: String,
    /// `satellite`, `ground` or `host`.
    pub kind: &'static str,
    /// Number of the node in the lab, from 0.
    pub number: u32,
    /// IPv4 loopback address, which is also the router identifier.
    pub ipv4: Ipv4Addr,
    /// IPv6 loopback address.
    pub ipv6: Ipv6Addr,
    /// Network entity title for IS-IS (area 49.0001).
    pub net: String,
}

/// One interface.
#[derive(Debug, Clone, Serialize)]
pub struct PortRow {
    /// Name in the node.
    pub name: &'static str,
    /// Kind of link: `isl`, `gsl`, `cable` or `network`.
    pub role: &'static str,
    /// `point-to-point` or `point-to-multipoint`.
    pub network: &'static str,
    /// Cost of sending there.
    pub cost: u16,
    /// Seconds between two hellos.
    pub hello_s: u16,
    /// Seconds until a silent neighbour is dead.
    pub dead_s: u16,
    /// Seconds until an unacknowledged packet is sent again.
    pub retransmit_s: u16,
    /// IPv4 address.
    pub ipv4: Ipv4Addr,
    /// Length of its IPv4 subnet's prefix.
    pub ipv4_length: u8,
    /// IPv6 address: link-local, /64.
    pub ipv6: Ipv6Addr,
    /// Possible ports at the other end: the neighbour of a laser, the satellites that a station will use, the other members
    /// of a network. Empty for the ground port of a satellite, which discovers its stations.
    pub peers: Vec<Peer>,
}

/// The far end of a link.
#[derive(Debug, Clone, Serialize)]
pub struct Peer {
    /// Name of the peer's node.
    pub node: String,
    /// IPv4 address of the peer's port.
    pub ipv4: Ipv4Addr,
    /// Link-local address of the peer's port.
    pub ipv6: Ipv6Addr,
    /// IPv4 loopback address of the peer's node.
    pub loopback_ipv4: Ipv4Addr,
}

/// Address blocks, `address/length`.
#[derive(Debug, Clone, Serialize)]
pub struct Blocks {
    /// Loopbacks, IPv4.
    pub loopback_ipv4: String,
    /// Loopbacks, IPv6.
    pub loopback_ipv6: String,
    /// Ends of lasers, IPv4; empty where they have no addresses.
    pub isl_ipv4: String,
    /// Ground ports, IPv4; empty where they have no addresses.
    pub gsl_ipv4: String,
    /// Ports in networks, IPv4; empty where they have no addresses, and without networks.
    pub network_ipv4: String,
}

/// Contexts of one node, one for each of the `programs` that run there.
///
/// `satellites` are those that a station will use during the run; ignored for a satellite. `areas` cut OSPF's
/// network; then addresses must be in their blocks.
///
/// # Errors
/// Everything that is wrong with the arguments.
///
/// # Panics
/// When a node is not of this layout.
pub fn contexts(
    layout: &Layout,
    plan: &AddressPlan,
    spec: &Spec,
    areas: Option<&Areas>,
    node: NodeId,
    satellites: &Served,
) -> Result<Vec<Context>, Vec<SpecError>> {
    let mut errors = spec.check().err().unwrap_or_default();
    for n in satellites.iter().map(|(_, n)| layout.node(*n)) {
        if n.class.access != Access::Serves {
            errors.push(SpecError::NotASatellite(n.name.clone()));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let of_ports = |class: &EdgeClass| {
        let block = plan.blocks().of(class);
        block.map_or_else(String::new, |block| block.to_string())
    };
    let context = Context {
        program: "",
        software: spec.software,
        protocol: spec.protocol,
        ipv4: spec.ipv4,
        ipv6: spec.ipv6,
        timers: Timers {
            hello_s: spec.hello_s,
            dead_s: spec.dead_s,
            retransmit_s: spec.retransmit_s,
            tick_s: spec.tick_s,
        },
        bfd: spec.bfd,
        kernel_events: spec.kernel_events,
        node: node_row(layout, plan, node),
        ports: port_rows(layout, plan, spec, node, satellites),
        ospf: ospf_rows(layout, plan, spec, areas, node, satellites),
        in_areas: areas.is_some() && spec.in_sky(node),
        bgp: super::bgp::of_node(layout, plan, spec, node),
        stub: layout.access_ports(node).len() > 1 && !layout.is_transit(node),
        blocks: Blocks {
            loopback_ipv4: plan.blocks().loopback.v4.to_string(),
            loopback_ipv6: plan.blocks().loopback.v6.to_string(),
            isl_ipv4: of_ports(&ISL),
            gsl_ipv4: of_ports(&GSL),
            network_ipv4: match layout.spec().networks.is_empty() {
                true => String::new(),
                false => of_ports(&NETWORK),
            },
        },
    };
    let one = |program: super::Program| Context {
        program: program.name,
        ..context.clone()
    };
    let runs = |program: &super::Program| !program.only_bgp || context.bgp.is_some();
    let programs = super::programs(spec).into_iter().filter(runs);
    Ok(programs.map(one).collect())
}

fn node_row(layout: &Layout, plan: &AddressPlan, node: NodeId) -> NodeRow {
    let own = plan.loopback(node);
    let [a, b, c, d] = own.v4.octets();
    // The system identifier is the IPv4 loopback in binary-coded decimal, as is the custom.
    let digits = format!("{a:03}{b:03}{c:03}{d:03}");
    NodeRow {
        name: layout.node(node).name.clone(),
        kind: layout.node(node).class.name,
        number: node.0,
        ipv4: own.v4,
        ipv6: own.v6,
        net: format!(
            "49.0001.{}.{}.{}.00",
            &digits[..4],
            &digits[4..8],
            &digits[8..]
        ),
    }
}

fn ospf_rows(
    layout: &Layout,
    plan: &AddressPlan,
    spec: &Spec,
    areas: Option<&Areas>,
    node: NodeId,
    satellites: &Served,
) -> Vec<OspfRow> {
    let row = |area: ospf::Area| {
        let mut ports = port_rows(layout, plan, spec, node, &area.satellites);
        let names: BTreeSet<&str> = area.ports.iter().map(|p| layout.port(*p).name()).collect();
        ports.retain(|port| names.contains(port.name));
        AreaRow {
            number: area.number,
            stub: area.stub,
            loopback: area.loopback,
            instance: area.instance,
            range: area.range.map(BlockRow::from),
            hidden: area.hidden.map(BlockRow::from),
            behind: area.behind.into_iter().map(BlockRow::from).collect(),
            ports,
        }
    };
    // Areas are the satellites' system's; in any other one area is enough.
    let areas = areas.filter(|_| spec.in_sky(node)).map(|areas| AreaView {
        areas,
        cables: layout.ports_of(node).iter().any(|port| {
            let far = layout.cable_of_port(port.id).and(layout.far_port(port.id));
            far.is_some_and(|far| spec.in_sky(layout.port(far).node))
        }),
        open: !spec.systems.is_empty() || has_own_cables(layout, spec),
    });
    ospf::instances(layout, plan, areas, node, satellites)
        .into_iter()
        .map(|instance| OspfRow {
            number: instance.number,
            default_route: instance.default_route,
            cables: instance.cables,
            areas: instance.areas.into_iter().map(row).collect(),
        })
        .collect()
}

/// Whether there are cables within the satellites' system.
pub(crate) fn has_own_cables(layout: &Layout, spec: &Spec) -> bool {
    let inside = |port: PortId| spec.in_sky(layout.port(port).node);
    let ports = layout.nodes().iter().flat_map(|n| layout.ports_of(n.id));
    let mut cables = ports.filter_map(|port| layout.cable_of_port(port.id));
    cables.any(|cable| inside(cable.a) && inside(cable.b))
}

/// Whether a node routes over its ground links by its system's own protocol.
fn shares_ground_links(layout: &Layout, spec: &Spec, node: NodeId) -> bool {
    match layout.node(node).class.access {
        Access::Chooses => spec.in_sky(node),
        Access::Serves => {
            let stations = layout.nodes().iter();
            let mut stations = stations.filter(|n| n.class.access == Access::Chooses);
            !spec.has_foreign_stations(layout) || stations.any(|n| spec.in_sky(n.id))
        }
        Access::None => true,
    }
}

fn port_rows(
    layout: &Layout,
    plan: &AddressPlan,
    spec: &Spec,
    node: NodeId,
    satellites: &Served,
) -> Vec<PortRow> {
    let peer = |port: PortId| {
        let at = layout.port(port).node;
        let far = plan.port(port);
        far.v4.map(|(v4, _)| Peer {
            node: layout.node(at).name.clone(),
            ipv4: v4,
            ipv6: far.v6_link_local,
            loopback_ipv4: plan.loopback(at).v4,
        })
    };
    let mut rows = Vec::new();
    for port in layout.ports_of(node) {
        let own = plan.port(port.id);
        // A laser without a neighbour has no address.
        let Some((v4, v4_len)) = own.v4 else { continue };
        let peers = if !port.medium.several {
            let far: Vec<PortId> = layout.far_port(port.id).into_iter().collect();
            let inside = |p: &PortId| spec.same_system(node, layout.port(*p).node);
            if !far.iter().all(inside) {
                continue;
            }
            far
        } else if !layout.access_ports(node).contains(port) {
            layout.network_peers(port.id)
        } else if !shares_ground_links(layout, spec, node) {
            continue;
        } else if layout.node(node).class.access == Access::Chooses {
            let own = satellites.iter().filter(|(own, _)| *own == port.id);
            own.map(|(_, s)| layout.gsl_port(*s)).collect()
        } else {
            Vec::new()
        };
        let (network, hello_s, dead_s, retransmit_s) = if port.medium.several {
            let (hello_s, dead_s) = (spec.ground_hello_s, spec.ground_dead_s);
            (
                "point-to-multipoint",
                hello_s,
                dead_s,
                spec.ground_retransmit_s,
            )
        } else {
            (
                "point-to-point",
                spec.hello_s,
                spec.dead_s,
                spec.retransmit_s,
            )
        };
        rows.push(PortRow {
            name: port.name(),
            role: port.class.name,
            network,
            cost: spec.cost(port.class.span),
            hello_s,
            dead_s,
            retransmit_s,
            ipv4: v4,
            ipv4_length: v4_len,
            ipv6: own.v6_link_local,
            peers: peers.into_iter().filter_map(peer).collect(),
        });
    }
    rows
}
