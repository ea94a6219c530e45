//! Four nodes in a row, the two in the middle with the map.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use constel_drivers::forward::{Forwarder, NodeRoute};
use constel_host::netlink::{
    AddressSpec, Batch, IpPrefix, LinkChange, Mac, NeighbourSpec, Route, Socket, VethEnd,
};
use constel_link::{PortId, mac_of};

use crate::forward::packets::{Got, IPV4, IPV6, Packet};
use crate::forward::support::{ETH0, Node, Raw, eventually};

/// An address of each family.
pub(crate) type Both = (Ipv4Addr, Ipv6Addr);

const fn end(n: u8) -> Both {
    (
        Ipv4Addr::new(10, 99, 0, n),
        Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, n as u16),
    )
}

/// The first node.
pub(crate) const NEAR: Both = end(1);
/// The last node.
pub(crate) const FAR: Both = end(4);
/// Nobody.
pub(crate) const NOWHERE: Both = end(200);

const NODES: usize = 4;
const GOALS: [Both; 2] = [NEAR, FAR];

/// Packets that do not arrive within this time are lost.
const SOON: Duration = Duration::from_millis(300);
/// The wait for what must arrive: a busy host may take its time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Routes of the kernels in the middle to the two ends.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Tables {
    Empty,
    Full,
}

fn addresses(both: Both) -> [IpAddr; 2] {
    [both.0.into(), both.1.into()]
}

/// A link's end: the left one is 1, the right one 2.
fn link_end(link: usize, side: u8) -> Both {
    (
        Ipv4Addr::new(10, 1, link as u8, side),
        Ipv6Addr::new(0xfd00, 0, 0, link as u16, 0, 0, 0, side.into()),
    )
}

/// Index of a node's interface to the right; the one to the left is the first, where there is one.
fn to_the_right(node: usize) -> u32 {
    ETH0 + u32::from(node > 0)
}

pub(crate) struct Row {
    nodes: Vec<Node>,
    forwarder: Forwarder,
    /// By family: the sockets of the first node, and those of the last one.
    near: [Raw; 2],
    far: [Raw; 2],
}

impl Row {
    pub(crate) fn new(tables: Tables) -> Row {
        let nodes: Vec<Node> = (0..NODES).map(|_| Node::new()).collect();
        for link in 0..NODES - 1 {
            wire(&nodes, link);
        }
        for (number, node) in nodes.iter().enumerate() {
            configure(number, node, tables);
        }
        let named = |(goal, both): (usize, Both)| addresses(both).map(|a| (a, goal as u32));
        let goals: BTreeMap<IpAddr, u32> = GOALS.into_iter().enumerate().flat_map(named).collect();
        let forwarder = Forwarder::new(NODES, GOALS.len(), &goals).unwrap();
        for number in [1, 2] {
            nodes[number].run(|| {
                forwarder.attach(ETH0).unwrap();
                forwarder.attach(to_the_right(number)).unwrap();
            });
            let way = |ifindex: u32, port: usize, far_port: usize| NodeRoute {
                ifindex,
                port: PortId(port as u32),
                far_port: PortId(far_port as u32),
            };
            let left = way(ETH0, 2 * number - 1, 2 * number - 2);
            let right = way(to_the_right(number), 2 * number, 2 * number + 1);
            for (goal, way) in [left, right].into_iter().enumerate() {
                forwarder.set(number as u32, goal as u32, Some(way));
                assert_eq!(forwarder.way(number as u32, goal as u32), Some(way));
            }
        }
        let listen = |node: &Node| [IPV4, IPV6].map(|family| node.run(|| Raw::new(family)));
        let row = Row {
            near: listen(&nodes[0]),
            far: listen(&nodes[NODES - 1]),
            nodes,
            forwarder,
        };
        row.settle();
        row
    }

    /// Waits until every link carries frames: the kernel activates the queues of a new link up to a second after its
    /// carrier is up (`linkwatch`), and drops all frames before that.
    fn settle(&self) {
        let first = Packet::new(false, NEAR, FAR).ttl(64);
        eventually("a first packet crosses", || {
            self.seen(&self.far, &first, SOON, |got| got.is(&first).then_some(()))
        });
    }

    /// The map is emptied.
    pub(crate) fn forget(&self) {
        for (node, goal) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
            self.forwarder.set(node, goal, None);
        }
    }

    fn send(&self, packet: &Packet) {
        let frame = packet.framed(mac_of(PortId(1)), mac_of(PortId(0)));
        self.near[0].send(&frame);
    }

    /// Sends a packet of the first node's and returns what `what` makes of the first frame at a pair of sockets that it accepts.
    fn seen<T>(
        &self,
        at: &[Raw; 2],
        packet: &Packet,
        within: Duration,
        what: impl Fn(Got) -> Option<T>,
    ) -> Option<T> {
        let raw = &at[usize::from(packet.is_v6())];
        raw.drain();
        self.send(packet);
        let until = Instant::now() + within;
        loop {
            let left = until.checked_duration_since(Instant::now())?;
            raw.timeout(left.max(Duration::from_millis(1)));
            let (frame, _) = raw.next()?;
            if let Some(found) = what(Got(frame)) {
                return Some(found);
            }
        }
    }

    /// The packet that arrives at the last node, if the first one sends this.
    pub(crate) fn across(&self, packet: &Packet) -> Got {
        self.seen(&self.far, packet, PATIENCE, |got| {
            got.is(packet).then_some(got)
        })
        .expect("it arrives")
    }

    /// Whether a packet that the first node sends never arrives at the last one.
    pub(crate) fn stays(&self, packet: &Packet) -> bool {
        self.seen(&self.far, packet, SOON, |got| got.is(packet).then_some(()))
            .is_none()
    }

    /// The node that answers a packet of the first node's, with type and code of ICMP.
    pub(crate) fn answer(&self, packet: &Packet) -> (IpAddr, (u8, u8)) {
        self.seen(&self.near, packet, PATIENCE, |got| got.error())
            .expect("an answer")
    }

    /// All addresses of a node in the middle.
    pub(crate) fn addresses_of(&self, node: usize) -> Vec<IpAddr> {
        let ends = [link_end(node - 1, 2), link_end(node, 1)];
        ends.into_iter().flat_map(addresses).collect()
    }

    pub(crate) fn narrow_last_link(&self, mtu: u32) {
        let change = LinkChange {
            ifindex: to_the_right(2),
            mtu: Some(mtu),
            ..LinkChange::default()
        };
        self.nodes[2].netlink(|batch| {
            batch.change_link(&change).unwrap();
        });
    }

    /// How many frames a node got from the left.
    pub(crate) fn received_by(&self, node: usize) -> u64 {
        let text =
            self.nodes[node].run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap());
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("eth0:"));
        let packets = line.unwrap().split_whitespace().nth(1);
        packets.unwrap().parse().unwrap()
    }

    /// A TCP stream of `bytes` from the first node to the last; returns how many arrive.
    pub(crate) fn stream(&self, bytes: usize) -> usize {
        let listener = self.nodes[NODES - 1].run(|| TcpListener::bind((FAR.0, 7000)).unwrap());
        let mut sender = self.nodes[0].run(|| {
            let to = (FAR.0, 7000).into();
            TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap()
        });
        let (mut receiver, _) = listener.accept().unwrap();
        let patience = Some(Duration::from_secs(5));
        receiver.set_read_timeout(patience).unwrap();
        sender.set_write_timeout(patience).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || sender.write_all(&vec![1; bytes]).unwrap());
            let mut all = Vec::new();
            receiver.read_to_end(&mut all).unwrap();
            all.len()
        })
    }
}

fn wire(nodes: &[Node], link: usize) {
    let port = |port: usize| Some(Mac(mac_of(PortId(port as u32))));
    let group = |node: usize| Some(Forwarder::group(node as u32));
    let left_name = if link > 0 { "eth1" } else { "eth0" };
    let left = VethEnd {
        name: left_name,
        ifindex: Some(to_the_right(link)),
        mac: port(2 * link),
        group: group(link),
        ..VethEnd::default()
    };
    let right = VethEnd {
        name: "eth0",
        netns: Some(nodes[link + 1].ns.fd()),
        ifindex: Some(ETH0),
        mac: port(2 * link + 1),
        group: group(link + 1),
        ..VethEnd::default()
    };
    let mut batch = Batch::new();
    batch.create_veth(&left, &right).unwrap();
    Socket::open_in(&nodes[link].ns)
        .unwrap()
        .send(&mut batch)
        .unwrap();
}

fn configure(number: usize, node: &Node, tables: Tables) {
    // Link, own side, interface.
    let mut links = Vec::new();
    if number > 0 {
        links.push((number - 1, 2, ETH0));
    }
    if number + 1 < NODES {
        links.push((number, 1, to_the_right(number)));
    }
    node.run(|| {
        for key in [
            "ipv4/conf/all/rp_filter=0",
            "ipv4/conf/default/rp_filter=0",
            "ipv4/conf/eth0/rp_filter=0",
            "ipv4/ip_forward=1",
            "ipv4/icmp_ratelimit=0",
            "ipv6/conf/all/forwarding=1",
            "ipv6/icmp/ratelimit=0",
        ] {
            let (key, value) = key.split_once('=').unwrap();
            std::fs::write(format!("/proc/sys/net/{key}"), value).unwrap();
        }
    });
    let is_end = number == 0 || number + 1 == NODES;
    node.netlink(|batch| {
        batch.link_up(1);
        for (link, side, ifindex) in &links {
            batch.link_up(*ifindex);
            let (own, other) = (link_end(*link, *side), link_end(*link, 3 - side));
            for (address, len) in addresses(own).into_iter().zip([24, 64]) {
                let prefix = IpPrefix::new(address, len).unwrap();
                batch.add_address(&AddressSpec::new(*ifindex, prefix));
            }
            for addr in addresses(other) {
                let far_port = PortId(2 * *link as u32 + u32::from(*side == 1));
                batch.replace_neighbour(&NeighbourSpec {
                    ifindex: *ifindex,
                    addr,
                    mac: Mac(mac_of(far_port)),
                });
            }
        }
        if is_end {
            let own = if number == 0 { NEAR } else { FAR };
            for address in addresses(own) {
                batch.add_address(&AddressSpec::new(1, IpPrefix::host(address)));
            }
        }
    });
    if is_end || tables == Tables::Full {
        node.netlink(|batch| {
            for (goal, own) in [(NEAR, 0), (FAR, NODES - 1)] {
                if number == own {
                    continue;
                }
                let (link, side, ifindex) = if own < number {
                    (number - 1, 1, ETH0)
                } else {
                    (number, 2, to_the_right(number))
                };
                let gateways = addresses(link_end(link, side));
                for (goal, gateway) in addresses(goal).into_iter().zip(gateways) {
                    let mut route = Route::via(IpPrefix::host(goal), ifindex, gateway);
                    if is_end {
                        let own = addresses(if number == 0 { NEAR } else { FAR });
                        route.prefsrc = own.into_iter().find(|a| a.is_ipv4() == goal.is_ipv4());
                    }
                    batch.add_route(&route).unwrap();
                }
            }
        });
    }
}
