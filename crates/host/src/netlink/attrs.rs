//! Conversion of our request types to rtnetlink messages.

use std::net::IpAddr;
use std::os::fd::AsRawFd;

use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoBridgePort, InfoData, InfoKind, InfoPortData,
    InfoPortKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteMessage, RouteNextHop, RouteNextHopFlags, RouteProtocol,
    RouteScope, RouteType, RouteVia,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};

use super::types::{
    AddressSpec, LinkChange, Mac, NeighbourSpec, NextHop, ROUTE_PROTOCOL, Route, RouteTarget,
    VethEnd,
};
use crate::error::{Error, Result};

pub(super) fn veth(first: &VethEnd<'_>, second: &VethEnd<'_>) -> LinkMessage {
    let mut msg = veth_end(first);
    msg.attributes.push(LinkAttribute::LinkInfo(vec![
        LinkInfo::Kind(InfoKind::Veth),
        LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(veth_end(second)))),
    ]));
    msg
}

fn veth_end(end: &VethEnd<'_>) -> LinkMessage {
    let mut msg = LinkMessage::default();
    msg.header.index = end.ifindex.unwrap_or(0);
    if end.up {
        msg.header.flags = LinkFlags::Up;
        msg.header.change_mask = LinkFlags::Up;
    }
    let a = &mut msg.attributes;
    let queues = end.queues.unwrap_or(1);
    a.push(LinkAttribute::IfName(end.name.to_owned()));
    a.push(LinkAttribute::NumTxQueues(end.tx_queues.unwrap_or(queues)));
    a.push(LinkAttribute::NumRxQueues(queues));
    a.extend(end.netns.map(|fd| LinkAttribute::NetNsFd(fd.as_raw_fd())));
    a.extend(end.mac.map(|m| LinkAttribute::Address(m.0.to_vec())));
    a.extend(end.mtu.map(LinkAttribute::Mtu));
    a.extend(end.tx_queue_len.map(LinkAttribute::TxQueueLen));
    a.extend(end.gso_max_segs.map(LinkAttribute::GsoMaxSegs));
    a.extend(end.gso_max_size.map(LinkAttribute::GsoMaxSize));
    a.extend(end.group.map(LinkAttribute::Group));
    msg
}

pub(super) fn bridge(name: &str, ifindex: u32, mac: Mac) -> LinkMessage {
    let mut msg = link_by_index(ifindex);
    msg.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::Address(mac.0.to_vec()),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]),
    ];
    msg
}

pub(super) fn member_of_bridge(ifindex: u32, bridge: u32) -> LinkMessage {
    let mut msg = link_by_index(ifindex);
    msg.attributes.push(LinkAttribute::Controller(bridge));
    msg
}

pub(super) fn isolated_port(ifindex: u32) -> LinkMessage {
    let mut msg = link_by_index(ifindex);
    let isolated = InfoPortData::BridgePort(vec![InfoBridgePort::Isolated(true)]);
    msg.attributes.push(LinkAttribute::LinkInfo(vec![
        LinkInfo::PortKind(InfoPortKind::Bridge),
        LinkInfo::PortData(isolated),
    ]));
    msg
}

pub(super) fn rule(from: &str, table: u32, priority: u32) -> RuleMessage {
    let mut msg = RuleMessage::default();
    msg.header.family = AddressFamily::Inet;
    msg.header.action = RuleAction::ToTable;
    msg.attributes = vec![
        RuleAttribute::Iifname(from.to_owned()),
        RuleAttribute::Table(table),
        RuleAttribute::Priority(priority),
        RuleAttribute::Protocol(RouteProtocol::from(ROUTE_PROTOCOL)),
    ];
    msg
}

pub(super) fn link_by_index(ifindex: u32) -> LinkMessage {
    let mut msg = LinkMessage::default();
    msg.header.index = ifindex;
    msg
}

pub(super) fn link_change(c: &LinkChange<'_>) -> LinkMessage {
    let mut msg = link_by_index(c.ifindex);
    let flags = [
        (LinkFlags::Up, c.up),
        (LinkFlags::Noarp, c.arp.map(|on| !on)),
    ];
    for (flag, on) in flags {
        if let Some(on) = on {
            msg.header.flags.set(flag, on);
            msg.header.change_mask.insert(flag);
        }
    }
    let a = &mut msg.attributes;
    a.extend(c.netns.map(|fd| LinkAttribute::NetNsFd(fd.as_raw_fd())));
    a.extend(c.alias.map(|s| LinkAttribute::IfAlias(s.to_owned())));
    a.extend(c.name.map(|s| LinkAttribute::IfName(s.to_owned())));
    a.extend(c.mac.map(|m| LinkAttribute::Address(m.0.to_vec())));
    a.extend(c.mtu.map(LinkAttribute::Mtu));
    a.extend(c.gso_max_segs.map(LinkAttribute::GsoMaxSegs));
    a.extend(c.gso_max_size.map(LinkAttribute::GsoMaxSize));
    a.extend(c.group.map(LinkAttribute::Group));
    a.extend(c.link_local.map(|on| {
        let mode = if on {
            In6AddrGenMode::Eui64
        } else {
            In6AddrGenMode::None
        };
        LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(
            mode,
        )])])
    }));
    msg
}

pub(super) fn address(s: &AddressSpec) -> AddressMessage {
    let mut msg = AddressMessage::default();
    msg.header.family = family(s.local.addr);
    msg.header.prefix_len = s.local.len;
    msg.header.index = s.ifindex;
    msg.header.scope = match s.local.addr {
        IpAddr::V4(a) if a.is_loopback() => AddressScope::Host,
        IpAddr::V4(a) if a.is_link_local() => AddressScope::Link,
        // IPv6 scopes follow from the address itself.
        _ => AddressScope::Universe,
    };
    msg.attributes.push(AddressAttribute::Local(s.local.addr));
    msg.attributes
        .push(AddressAttribute::Address(s.peer.unwrap_or(s.local.addr)));
    // Without it, programs that query an interface's broadcast address get 0.0.0.0.
    if let (IpAddr::V4(own), None, len @ 1..=30) = (s.local.addr, s.peer, s.local.len) {
        let broadcast = u32::from(own) | (u32::MAX >> len);
        let broadcast = AddressAttribute::Broadcast(broadcast.into());
        msg.attributes.push(broadcast);
    }
    let mut flags = AddressFlags::empty();
    flags.set(AddressFlags::Noprefixroute, s.no_prefix_route);
    flags.set(AddressFlags::Nodad, s.no_dad && s.local.addr.is_ipv6());
    msg.attributes.push(AddressAttribute::Flags(flags));
    msg
}

pub(super) fn route(r: &Route) -> Result<RouteMessage> {
    let mut msg = RouteMessage::default();
    msg.header.address_family = family(r.dst.addr);
    msg.header.destination_prefix_length = r.dst.len;
    msg.header.protocol = RouteProtocol::from(r.protocol);
    msg.header.kind = RouteType::Unicast;
    if let Ok(small) = u8::try_from(r.table) {
        msg.header.table = small;
    } else {
        msg.attributes.push(RouteAttribute::Table(r.table));
    }
    let v4 = r.dst.addr.is_ipv4();
    let a = &mut msg.attributes;
    a.push(RouteAttribute::Destination(r.dst.addr.into()));
    a.extend(r.metric.map(RouteAttribute::Priority));
    a.extend(r.prefsrc.map(|s| RouteAttribute::PrefSource(s.into())));
    match &r.target {
        RouteTarget::Hop(h) => {
            a.extend(h.ifindex.map(RouteAttribute::Oif));
            a.extend(gateway(v4, h)?);
            if h.onlink {
                msg.header.flags |= RouteFlags::Onlink;
            }
            if v4 && h.via.is_none() {
                msg.header.scope = RouteScope::Link;
            }
        }
        RouteTarget::Multipath(hops) => {
            if hops.is_empty() {
                return Err(Error::Invalid(format!("route {} has no next hop", r.dst)));
            }
            let hops = hops
                .iter()
                .map(|h| next_hop(v4, h))
                .collect::<Result<_>>()?;
            a.push(RouteAttribute::MultiPath(hops));
        }
        RouteTarget::Unreachable => msg.header.kind = RouteType::Unreachable,
        RouteTarget::Blackhole => msg.header.kind = RouteType::BlackHole,
    }
    Ok(msg)
}

fn next_hop(v4: bool, h: &NextHop) -> Result<RouteNextHop> {
    if !(1..=256).contains(&h.weight) {
        return Err(Error::Invalid(format!(
            "next hop weight {} is not in 1..=256",
            h.weight
        )));
    }
    let mut nh = RouteNextHop::default();
    nh.interface_index = h.ifindex.unwrap_or(0);
    nh.hops = (h.weight - 1) as u8;
    if h.onlink {
        nh.flags = RouteNextHopFlags::Onlink;
    }
    nh.attributes.extend(gateway(v4, h)?);
    Ok(nh)
}

fn gateway(v4: bool, h: &NextHop) -> Result<Option<RouteAttribute>> {
    Ok(match h.via {
        None => None,
        Some(IpAddr::V6(g)) if v4 => Some(RouteAttribute::Via(RouteVia::Inet6(g))),
        Some(IpAddr::V4(g)) if !v4 => {
            return Err(Error::Invalid(format!(
                "an IPv6 route cannot go via IPv4 gateway {g}"
            )));
        }
        Some(g) => Some(RouteAttribute::Gateway(g.into())),
    })
}

pub(super) fn neighbour(n: &NeighbourSpec) -> NeighbourMessage {
    let mut msg = NeighbourMessage::default();
    msg.header.family = family(n.addr);
    msg.header.ifindex = n.ifindex;
    msg.header.state = NeighbourState::Permanent;
    msg.attributes
        .push(NeighbourAttribute::Destination(n.addr.into()));
    msg.attributes
        .push(NeighbourAttribute::LinkLayerAddress(n.mac.0.to_vec()));
    msg
}

pub(super) fn family(addr: IpAddr) -> AddressFamily {
    match addr {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}
