//! The conversion of a plan into the information for its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use constel_link::PortId;
use constel_link::rules::words::mac_text;
use constel_scenario::model::TopologyScope;
use constel_topology::{LaserSlot, NodeId, Snapshot};

use crate::information::changes::Change;
use crate::information::opensn;
use crate::information::{
    End, Link, LinkEnd, Links, LiveLink, Node, OpenSn, OpenSnEnd, OpenSnLink, Peer, Peers, Port,
    Ports, Scope, Seat, Topology, TopologyNode, VERSION,
};
use crate::{Blueprint, LocalNodes, node_ifindex};

/// The information that a node requests in addition to the common information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraInformation {
    /// How much of the topology.
    pub scope: Scope,
    /// How far `orbit.json` and `contacts.json` look ahead, nanoseconds; `None`: the node has none.
    pub ahead_ns: Option<u64>,
    /// Whether in [OpenSN's form](crate::information::OpenSn) as well.
    pub opensn: bool,
    /// The user's files, by name.
    pub user: BTreeMap<String, String>,
}

/// The revision and time of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Its revision.
    pub revision: u64,
    /// Lab time since which it is so, nanoseconds.
    pub t_ns: u64,
}

/// The information for the nodes of a lab that are on one machine.
pub struct NodeInformation {
    blueprint: Arc<Blueprint>,
    asked: BTreeMap<NodeId, ExtraInformation>,
}

impl NodeInformation {
    /// Creates the information for those nodes of this lab that are on this machine. Returns `None` if none of them requests
    /// any.
    #[must_use]
    pub fn new(blueprint: &Arc<Blueprint>, ours: &LocalNodes) -> Option<Self> {
        let entries = &blueprint.lab.scenario.information;
        let nodes = blueprint.lab.layout.nodes().iter();
        let nodes = nodes.filter(|node| ours.has(node.id));
        let asked = nodes.filter_map(|node| {
            let own = entries.iter();
            let mut own = own
                .filter(|entry| entry.is_for(node.class.name, &node.name))
                .peekable();
            own.peek()?;
            let mut asked = ExtraInformation {
                scope: Scope::Neighbourhood,
                ahead_ns: None,
                opensn: false,
                user: BTreeMap::new(),
            };
            for entry in own {
                match entry.topology {
                    Some(TopologyScope::All) => asked.scope = Scope::All,
                    Some(TopologyScope::Neighbourhood) => asked.scope = Scope::Neighbourhood,
                    None => {}
                }
                let ahead_ns = entry.ahead.map(|ahead| ahead.ns().unsigned_abs());
                asked.ahead_ns = ahead_ns.or(asked.ahead_ns);
                asked.opensn = entry.opensn.unwrap_or(asked.opensn);
                let user = entry.user.iter();
                let user = user.map(|file| (file.name.clone(), file.text.clone()));
                asked.user.extend(user);
            }
            Some((node.id, asked))
        });
        let asked: BTreeMap<_, _> = asked.collect();
        (!asked.is_empty()).then(|| Self {
            blueprint: Arc::clone(blueprint),
            asked,
        })
    }

    /// The lab.
    #[must_use]
    pub fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    /// Returns the nodes that request information, by number.
    pub fn asking(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.asked.keys().copied()
    }

    /// Returns the information that a node requests, or `None` if it requests none.
    #[must_use]
    pub fn asked(&self, node: NodeId) -> Option<&ExtraInformation> {
        self.asked.get(&node)
    }

    /// `node.json`, in the lab of that name.
    ///
    /// # Panics
    /// When there is no such node; so do the others here.
    #[must_use]
    pub fn node(&self, id: NodeId, lab: &str) -> Node {
        let of = &self.blueprint.lab;
        let node = of.layout.node(id);
        let entry = of.catalogue.of(id);
        let (ipv4, ipv6) = self.own(id);
        let seat = node.seat.map(|seat| {
            let constellation = &of.scenario.constellations[usize::from(seat.constellation)];
            Seat {
                constellation: constellation.name.to_string(),
                shell: seat.shell,
                plane: seat.plane,
                slot: seat.slot,
            }
        });
        Node {
            version: VERSION,
            lab: lab.to_owned(),
            name: node.name.clone(),
            number: id.0,
            class: node.class.name.to_owned(),
            seat,
            catalogue_name: entry.and_then(|entry| entry.catalogue_name.clone()),
            norad_id: entry.and_then(|entry| entry.norad_id),
            ipv4,
            ipv6,
            start: of.scenario.start.to_string(),
            step_ns: of.step_ns(),
            seed: of.scenario.seed,
        }
    }

    /// `ports.json`.
    #[must_use]
    pub fn ports(&self, id: NodeId) -> Ports {
        let layout = &self.blueprint.lab.layout;
        let port = |port: &constel_topology::Port| {
            let known = self.blueprint.addresses.port(port.id);
            let v4 = known.v4.filter(|_| self.blueprint.families.ipv4);
            Port {
                name: port.name().to_owned(),
                ifindex: node_ifindex(port),
                kind: port.class.name.to_owned(),
                medium: port.medium.name.to_owned(),
                mac: mac_text(known.mac),
                mtu_bytes: port.mtu_bytes,
                ipv4: v4.map(|(address, length)| format!("{address}/{length}")),
                ipv6_link_local: self.link_local(port.id),
                laser: port.laser.map(|slot| laser(slot).to_owned()),
                area: self.area(id, port),
            }
        };
        Ports {
            version: VERSION,
            ports: layout.ports_of(id).iter().map(port).collect(),
        }
    }

    /// `peers.json` of a topology.
    #[must_use]
    pub fn peers(&self, id: NodeId, snapshot: &Snapshot, stamp: Stamp) -> Peers {
        let layout = &self.blueprint.lab.layout;
        let ports = layout.ports_of(id).iter();
        let edges = ports.flat_map(|port| snapshot.edges_from(port.id));
        let peer = |edge: &constel_topology::Edge| {
            let (near, far) = (layout.port(edge.from), layout.port(edge.to));
            let node = layout.node(far.node);
            let (ipv4, ipv6) = self.own(far.node);
            let known = self.blueprint.addresses.port(far.id);
            let v4 = known.v4.filter(|_| self.blueprint.families.ipv4);
            Peer {
                port: near.name().to_owned(),
                node: node.name.clone(),
                class: node.class.name.to_owned(),
                ipv4,
                ipv6,
                far: End {
                    port: far.name().to_owned(),
                    mac: mac_text(known.mac),
                    ipv4: v4.map(|(address, _)| address),
                    ipv6_link_local: self.link_local(far.id),
                },
            }
        };
        Peers {
            version: VERSION,
            revision: stamp.revision,
            t_ns: stamp.t_ns,
            peers: edges.map(peer).collect(),
        }
    }

    /// Returns a node's links in OpenSN's format. For a port with several far ends only the first counts, because ports of
    /// OpenSN have one each.
    #[must_use]
    pub fn opensn(&self, id: NodeId, snapshot: &Snapshot) -> OpenSn {
        let layout = &self.blueprint.lab.layout;
        let mut told = OpenSn {
            instance_id: layout.node(id).name.clone(),
            link_infos: BTreeMap::new(),
            end_infos: BTreeMap::new(),
        };
        for port in layout.ports_of(id) {
            let Some(edge) = snapshot.edges_from(port.id).first() else {
                continue;
            };
            let v4 = self.blueprint.addresses.port(port.id).v4;
            let v4 = v4.filter(|_| self.blueprint.families.ipv4);
            let info = OpenSnLink {
                ipv4: v4.map_or_else(String::new, |(own, length)| format!("{own}/{length}")),
            };
            let far = layout.node(layout.port(edge.to).node);
            let end = OpenSnEnd {
                instance_id: far.name.clone(),
                kind: opensn::kind(far.class.name).to_owned(),
                area: self.area(id, port).unwrap_or(0),
            };
            told.link_infos.insert(port.name().to_owned(), info);
            told.end_infos.insert(port.name().to_owned(), end);
        }
        told
    }

    /// `topology.json` of the neighbourhood of a node.
    #[must_use]
    pub fn neighbourhood(&self, id: NodeId, snapshot: &Snapshot, stamp: Stamp) -> Topology {
        let layout = &self.blueprint.lab.layout;
        let ports = layout.ports_of(id).iter();
        let edges = ports.flat_map(|port| snapshot.edges_from(port.id));
        let (mut nodes, mut links) = (BTreeSet::from([id]), Vec::new());
        for edge in edges {
            nodes.insert(layout.port(edge.to).node);
            let (a, b) = (edge.from.min(edge.to), edge.from.max(edge.to));
            links.push(self.link(a, b));
        }
        Topology {
            version: VERSION,
            scope: Scope::Neighbourhood,
            revision: stamp.revision,
            t_ns: stamp.t_ns,
            nodes: nodes.into_iter().map(|id| self.topology_node(id)).collect(),
            links,
        }
    }

    /// Returns the whole `topology.json`, which is the same for every node that receives it.
    #[must_use]
    pub fn whole(&self, snapshot: &Snapshot, stamp: Stamp) -> Topology {
        let nodes = self.blueprint.lab.layout.nodes().iter();
        let edges = snapshot.edges.iter().filter(|edge| edge.from < edge.to);
        Topology {
            version: VERSION,
            scope: Scope::All,
            revision: stamp.revision,
            t_ns: stamp.t_ns,
            nodes: nodes.map(|node| self.topology_node(node.id)).collect(),
            links: edges.map(|edge| self.link(edge.from, edge.to)).collect(),
        }
    }

    /// A node's links at lab time `now_ns`, on the edges of a topology.
    #[must_use]
    pub fn links(&self, id: NodeId, snapshot: &Snapshot, now_ns: u64) -> Links {
        let layout = &self.blueprint.lab.layout;
        let ports = layout.ports_of(id).iter();
        let edges = ports.flat_map(|port| snapshot.edges_from(port.id));
        let live = |edge: &constel_topology::Edge| LiveLink {
            port: layout.port(edge.from).name().to_owned(),
            node: layout.node(layout.port(edge.to).node).name.clone(),
            delay_ns: edge.impairment.delay.at(now_ns),
            rate_bps: edge.impairment.rate_bps.map(u64::from),
        };
        Links {
            t_ns: now_ns,
            links: edges.map(live).collect(),
        }
    }

    /// Links that came, and those that went, in the words of an event.
    #[must_use]
    pub fn met(&self, change: &Change) -> (Vec<LinkEnd>, Vec<LinkEnd>) {
        let layout = &self.blueprint.lab.layout;
        let met = |(port, far): &(PortId, PortId)| LinkEnd {
            port: layout.port(*port).name().to_owned(),
            node: layout.node(layout.port(*far).node).name.clone(),
        };
        let all = |ends: &[(PortId, PortId)]| ends.iter().map(met).collect();
        (all(&change.added), all(&change.removed))
    }

    fn link(&self, a: PortId, b: PortId) -> Link {
        let layout = &self.blueprint.lab.layout;
        let (a, b) = (layout.port(a), layout.port(b));
        Link {
            a: layout.node(a.node).name.clone(),
            a_port: a.name().to_owned(),
            b: layout.node(b.node).name.clone(),
            b_port: b.name().to_owned(),
            kind: a.class.name.to_owned(),
        }
    }

    fn topology_node(&self, id: NodeId) -> TopologyNode {
        let node = self.blueprint.lab.layout.node(id);
        let (ipv4, ipv6) = self.own(id);
        TopologyNode {
            name: node.name.clone(),
            class: node.class.name.to_owned(),
            ipv4,
            ipv6,
        }
    }

    /// A node's own addresses in the families spoken.
    fn own(&self, id: NodeId) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
        let own = self.blueprint.addresses.loopback(id);
        let families = self.blueprint.families;
        (
            families.ipv4.then_some(own.v4),
            families.ipv6.then_some(own.v6),
        )
    }

    fn link_local(&self, port: PortId) -> Option<Ipv6Addr> {
        let known = self.blueprint.addresses.port(port);
        let spoken = self.blueprint.families.ipv6;
        spoken.then_some(known.v6_link_local)
    }

    /// The area of a satellite's port: of a laser its pair's, of others the satellite's home.
    fn area(&self, id: NodeId, port: &constel_topology::Port) -> Option<u16> {
        let areas = self.blueprint.areas.as_ref()?;
        let layout = &self.blueprint.lab.layout;
        layout.node(id).seat?;
        let area = match layout.isl_of_port(port.id) {
            Some(pair) => areas.of_isl(pair.number)?,
            None => areas.home(id),
        };
        Some(area.area)
    }
}

fn laser(slot: LaserSlot) -> &'static str {
    match slot {
        LaserSlot::Fore => "fore",
        LaserSlot::Aft => "aft",
        LaserSlot::East => "east",
        LaserSlot::West => "west",
        LaserSlot::Cross => "cross",
    }
}
