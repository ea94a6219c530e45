//! Parsers of the kernel's messages about a namespace's objects.

use std::net::IpAddr;

use super::types::{IpPrefix, Mac, NextHop, RouteTarget};
use super::wire::{attributes, text};

/// From the kernel's `netconf.h` and `rtnetlink.h`.
pub(super) const RTM_NEWNETCONF: u16 = 80;
pub(super) const RTM_GETNETCONF: u16 = 82;
pub(super) const RTM_NEWSTATS: u16 = 92;
pub(super) const RTM_GETSTATS: u16 = 94;
/// `IFLA_STATS_LINK_64` of the kernel's `if_link.h`, and the filter that selects only it.
const IFLA_STATS_LINK_64: u16 = 1;
pub(super) const STATS_LINK_64_ONLY: u32 = 1;
/// Size of `struct if_stats_msg`.
const STATS_HEADER: usize = 12;
const NETCONFA_IFINDEX: u16 = 1;
const NETCONFA_FORWARDING: u16 = 2;
const NETCONFA_RP_FILTER: u16 = 3;
const NETCONFA_IFINDEX_ALL: i32 = -1;
/// `IFLA_XDP_ATTACHED` of the kernel's `if_link.h`.
const IFLA_XDP_ATTACHED: u16 = 2;

/// `RTNH_F_ONLINK` of the kernel's `rtnetlink.h`.
const RTNH_F_ONLINK: u8 = 4;

/// An interface as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkInfo {
    /// Interface index.
    pub ifindex: u32,
    /// Name.
    pub name: String,
    /// Ethernet address, for interfaces that have one of six bytes.
    pub mac: Option<Mac>,
    /// MTU in bytes.
    pub mtu: u32,
    /// Administratively up (`IFF_UP`).
    pub up: bool,
    /// Up with a carrier (`IFF_LOWER_UP`).
    pub carrier: bool,
    /// Whether it resolves addresses of neighbours (no `IFF_NOARP`).
    pub arp: bool,
    /// Whether an XDP program is attached to it.
    pub xdp: bool,
    /// Alias: our mark, on interfaces outside our own namespaces.
    pub alias: Option<String>,
    /// Group number, 0 by default.
    pub group: u32,
    /// Name of the root queueing discipline.
    pub qdisc: Option<String>,
    /// Kind: `veth`, `bridge`, ...; `None` for devices without one.
    pub kind: Option<String>,
    /// Index of the bridge or bond that it is part of.
    pub master_ifindex: Option<u32>,
    /// Index of the peer or lower device (in `peer_netnsid`'s namespace, if that is set).
    pub peer_ifindex: Option<u32>,
    /// Id of the peer's namespace as this namespace numbers it.
    pub peer_netnsid: Option<i32>,
    /// Number of TX and RX queues.
    pub queues: (u32, u32),
    /// Transmit queue length in packets.
    pub tx_queue_len: u32,
    /// Largest GSO packet in bytes.
    pub gso_max_size: u32,
    /// Largest GSO packet in segments.
    pub gso_max_segs: u32,
}

/// Counters of an interface since it was created (`struct rtnl_link_stats64`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Interface index.
    pub ifindex: u32,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Received packets that were dropped.
    pub rx_dropped: u64,
    /// Packets to be sent that were dropped.
    pub tx_dropped: u64,
}

/// Parses the payload of an `RTM_NEWSTATS`.
pub(super) fn link_counters(payload: &[u8]) -> Option<LinkCounters> {
    let ifindex = u32::from_ne_bytes(payload.get(4..8)?.try_into().ok()?);
    let mut of_kind = attributes(payload.get(STATS_HEADER..)?);
    let (_, values) = of_kind.find(|(kind, _)| *kind == IFLA_STATS_LINK_64)?;
    let value = |n: usize| {
        let bytes = values.get(8 * n..8 * n + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    Some(LinkCounters {
        ifindex,
        rx_packets: value(0)?,
        tx_packets: value(1)?,
        rx_bytes: value(2)?,
        tx_bytes: value(3)?,
        rx_dropped: value(6)?,
        tx_dropped: value(7)?,
    })
}

/// An address as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Interface index.
    pub ifindex: u32,
    /// Our own address and the prefix length.
    pub local: IpPrefix,
    /// The far end's address, if it is a point-to-point address.
    pub peer: Option<IpAddr>,
    /// `IFA_F_*` flags.
    pub flags: u32,
}

impl Address {
    /// Returns whether it is not usable yet: duplicate address detection is in progress.
    pub fn is_tentative(&self) -> bool {
        self.flags & libc::IFA_F_TENTATIVE != 0
    }
}

/// A route as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledRoute {
    /// Destination.
    pub dst: IpPrefix,
    /// Target of its packets.
    pub target: RouteTarget,
    /// Preferred source.
    pub prefsrc: Option<IpAddr>,
    /// Metric, 0 when the kernel reports none.
    pub metric: u32,
    /// Origin: 2 the kernel, 3 boot, [`super::ROUTE_PROTOCOL`] Constel.
    pub protocol: u8,
    /// Table.
    pub table: u32,
    /// Route type (`RTN_UNICAST` = 1, `RTN_LOCAL` = 2, ...).
    pub kind: u8,
}

/// A neighbour entry as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour {
    /// Interface index.
    pub ifindex: u32,
    /// The neighbour's address.
    pub addr: IpAddr,
    /// The neighbour's Ethernet address, if known.
    pub mac: Option<Mac>,
    /// `NUD_*` state bits; 0x80 is permanent.
    pub state: u16,
}

/// A queueing discipline as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QdiscInfo {
    /// Interface index.
    pub ifindex: u32,
    /// Kind: `noqueue`, `pfifo_fast`, `clsact`, ...
    pub kind: String,
    /// Handle.
    pub handle: u32,
    /// Parent handle.
    pub parent: u32,
}

/// The settings of one family for packets that arrive at an interface, or at any (`conf/IFACE`, `conf/all`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conf {
    /// Interface index; `None`: the namespace as a whole.
    pub ifindex: Option<u32>,
    /// Whether they are forwarded.
    pub forwards: bool,
    /// `rp_filter`: 1 and 2 drop packets whose sender is not reachable over the interface, or over any. 0 for IPv6,
    /// which has no such setting.
    pub rp_filter: u8,
}

/// Reads `netconfmsg` and its attributes; `None` for settings of future interfaces (`conf/default`).
pub(super) fn conf(p: &[u8]) -> Option<Conf> {
    let (mut ifindex, mut forwards, mut rp_filter) = (None, None, 0);
    for (kind, value) in attributes(p.get(4..)?) {
        let number = value.first_chunk().map(|n| i32::from_ne_bytes(*n));
        match kind {
            NETCONFA_IFINDEX => ifindex = number,
            NETCONFA_FORWARDING => forwards = number.map(|n| n != 0),
            NETCONFA_RP_FILTER => rp_filter = u8::try_from(number?).unwrap_or(u8::MAX),
            _ => {}
        }
    }
    let ifindex = match ifindex? {
        NETCONFA_IFINDEX_ALL => None,
        number => Some(u32::try_from(number).ok()?),
    };
    Some(Conf {
        ifindex,
        forwards: forwards?,
        rp_filter,
    })
}

fn u16_of(b: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(*b.first_chunk()?))
}

fn u32_of(b: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*b.first_chunk()?))
}

fn mac(b: &[u8]) -> Option<Mac> {
    b.try_into().ok().map(Mac)
}

/// An address of 4 or 16 bytes.
pub(super) fn ip(b: &[u8]) -> Option<IpAddr> {
    match b.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(b).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(b).ok()?)),
        _ => None,
    }
}

/// Reads `ifinfomsg` and its attributes.
pub(super) fn link(p: &[u8]) -> Option<LinkInfo> {
    let flags = u32_of(p.get(8..)?)?;
    let mut l = LinkInfo {
        ifindex: u32_of(p.get(4..)?)?,
        name: String::new(),
        mac: None,
        mtu: 0,
        up: flags & libc::IFF_UP as u32 != 0,
        carrier: flags & libc::IFF_LOWER_UP as u32 != 0,
        arp: flags & libc::IFF_NOARP as u32 == 0,
        xdp: false,
        alias: None,
        group: 0,
        qdisc: None,
        kind: None,
        master_ifindex: None,
        peer_ifindex: None,
        peer_netnsid: None,
        queues: (0, 0),
        tx_queue_len: 0,
        gso_max_size: 0,
        gso_max_segs: 0,
    };
    for (kind, v) in attributes(p.get(16..)?) {
        let n = u32_of(v).unwrap_or(0);
        match kind {
            libc::IFLA_IFNAME => l.name = text(v),
            libc::IFLA_ADDRESS => l.mac = mac(v),
            libc::IFLA_MTU => l.mtu = n,
            libc::IFLA_IFALIAS => l.alias = Some(text(v)),
            libc::IFLA_GROUP => l.group = n,
            libc::IFLA_QDISC => l.qdisc = Some(text(v)),
            libc::IFLA_MASTER => l.master_ifindex = Some(n),
            libc::IFLA_LINK => l.peer_ifindex = Some(n),
            libc::IFLA_LINK_NETNSID => l.peer_netnsid = Some(n as i32),
            libc::IFLA_NUM_TX_QUEUES => l.queues.0 = n,
            libc::IFLA_NUM_RX_QUEUES => l.queues.1 = n,
            libc::IFLA_TXQLEN => l.tx_queue_len = n,
            libc::IFLA_GSO_MAX_SIZE => l.gso_max_size = n,
            libc::IFLA_GSO_MAX_SEGS => l.gso_max_segs = n,
            libc::IFLA_XDP => {
                let mut mode = attributes(v).filter(|(k, _)| *k == IFLA_XDP_ATTACHED);
                l.xdp = mode.any(|(_, mode)| mode.first().is_some_and(|mode| *mode != 0));
            }
            libc::IFLA_LINKINFO => {
                l.kind = attributes(v).find(|(k, _)| *k == 1).map(|(_, v)| text(v));
            }
            _ => {}
        }
    }
    Some(l)
}

/// Reads `ifaddrmsg` and its attributes.
pub(super) fn address(p: &[u8]) -> Option<Address> {
    let len = *p.get(1)?;
    let ifindex = u32_of(p.get(4..)?)?;
    let mut flags = u32::from(*p.get(2)?);
    let (mut local, mut addr) = (None, None);
    for (kind, v) in attributes(p.get(8..)?) {
        match kind {
            libc::IFA_LOCAL => local = ip(v),
            libc::IFA_ADDRESS => addr = ip(v),
            libc::IFA_FLAGS => flags = u32_of(v)?,
            _ => {}
        }
    }
    // IPv6 sends IFA_LOCAL only for point-to-point addresses.
    let own = local.or(addr)?;
    Some(Address {
        ifindex,
        local: IpPrefix { addr: own, len },
        peer: addr.filter(|a| *a != own),
        flags,
    })
}

/// Reads `rtmsg` and its attributes.
pub(super) fn route(p: &[u8]) -> Option<InstalledRoute> {
    let family = i32::from(*p.first()?);
    let len = *p.get(1)?;
    let mut table = u32::from(*p.get(4)?);
    let (protocol, kind) = (*p.get(5)?, *p.get(7)?);
    let rtm_flags = u32_of(p.get(8..)?)?;
    const RTM_F_CLONED: u32 = 0x200;
    if rtm_flags & RTM_F_CLONED != 0 {
        return None;
    }
    let zero: IpAddr = match family {
        libc::AF_INET => IpAddr::from([0; 4]),
        libc::AF_INET6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    let (mut dst, mut prefsrc, mut metric, mut many) = (zero, None, 0, None);
    let mut hop = NextHop {
        ifindex: None,
        via: None,
        weight: 1,
        onlink: rtm_flags & u32::from(RTNH_F_ONLINK) != 0,
    };
    for (attr, v) in attributes(p.get(12..)?) {
        match attr {
            libc::RTA_DST => dst = ip(v)?,
            libc::RTA_PREFSRC => prefsrc = ip(v),
            libc::RTA_PRIORITY => metric = u32_of(v)?,
            libc::RTA_TABLE => table = u32_of(v)?,
            libc::RTA_OIF => hop.ifindex = u32_of(v),
            libc::RTA_GATEWAY => hop.via = ip(v),
            libc::RTA_VIA => hop.via = ip(v.get(2..)?),
            libc::RTA_MULTIPATH => many = Some(next_hops(v)?),
            _ => {}
        }
    }
    let target = match kind {
        libc::RTN_BLACKHOLE => RouteTarget::Blackhole,
        libc::RTN_UNREACHABLE => RouteTarget::Unreachable,
        _ => many.map_or(RouteTarget::Hop(hop), RouteTarget::Multipath),
    };
    let dst = IpPrefix { addr: dst, len };
    Some(InstalledRoute {
        dst,
        target,
        prefsrc,
        metric,
        protocol,
        table,
        kind,
    })
}

/// Reads the `rtnexthop` array of a multipath route.
fn next_hops(mut v: &[u8]) -> Option<Vec<NextHop>> {
    let mut hops = Vec::new();
    while v.len() >= 8 {
        let len = usize::from(u16_of(v)?);
        let mut hop = NextHop {
            ifindex: u32_of(&v[4..]),
            via: None,
            weight: u16::from(v[3]) + 1,
            onlink: v[2] & RTNH_F_ONLINK != 0,
        };
        for (attr, value) in attributes(v.get(8..len)?) {
            match attr {
                libc::RTA_GATEWAY => hop.via = ip(value),
                libc::RTA_VIA => hop.via = ip(value.get(2..)?),
                _ => {}
            }
        }
        hops.push(hop);
        v = v.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(hops)
}

/// Reads `ndmsg` and its attributes.
pub(super) fn neighbour(p: &[u8]) -> Option<Neighbour> {
    let (mut addr, mut lladdr) = (None, None);
    for (attr, v) in attributes(p.get(12..)?) {
        match attr {
            1 => addr = ip(v),
            2 => lladdr = mac(v),
            _ => {}
        }
    }
    Some(Neighbour {
        ifindex: u32_of(p.get(4..)?)?,
        addr: addr?,
        mac: lladdr,
        state: u16_of(p.get(8..)?)?,
    })
}

/// Reads `tcmsg` and the kind.
pub(super) fn qdisc(p: &[u8]) -> Option<QdiscInfo> {
    let kind = attributes(p.get(20..)?)
        .find(|(k, _)| *k == 1)
        .map(|(_, v)| text(v))?;
    Some(QdiscInfo {
        ifindex: u32_of(p.get(4..)?)?,
        kind,
        handle: u32_of(p.get(8..)?)?,
        parent: u32_of(p.get(12..)?)?,
    })
}
