//! Types of requests to the kernel: links, addresses, routes, neighbours.

use std::fmt;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::str::FromStr;

use crate::error::Error;

/// The routing protocol number of our routes, which no routing software uses for its own.
///
/// A daemon regards a route with its own number as left behind by an earlier run. It then deletes the route, or keeps
/// it as its own. Used numbers are: up to 18, 42, 99 and 186 to 192 (the kernel's `rtnetlink.h`), 84 (OVN), 186 to 198
/// (FRR) and those that `rt_protos` of iproute2 lists.
pub const ROUTE_PROTOCOL: u8 = 227;

/// The lowest interface number that may be requested.
///
/// The kernel numbers the devices of a new namespace from 1: `lo`, then a fallback device for each tunnel module that
/// is loaded on the host (`tunl0`, `gre0`, `gretap0`, `erspan0`, `ip_vti0`, `ip6_vti0`, `sit0`, `ip6tnl0`, `ip6gre0`).
/// A request for one of their numbers is refused with `EBUSY`.
pub const FIRST_OWN_IFINDEX: u32 = 64;

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An address with a prefix length. Host bits are kept: `10.0.0.1/24` is an interface address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpPrefix {
    /// The address.
    pub addr: IpAddr,
    /// Prefix length in bits, at most 32 or 128.
    pub len: u8,
}

impl IpPrefix {
    /// Returns a prefix.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) when `len` exceeds the family's width.
    pub fn new(addr: IpAddr, len: u8) -> Result<IpPrefix, Error> {
        let max = if addr.is_ipv4() { 32 } else { 128 };
        if len > max {
            return Err(Error::Invalid(format!(
                "prefix length {len} of {addr} exceeds {max}"
            )));
        }
        Ok(IpPrefix { addr, len })
    }

    /// Returns the prefix that covers only this address (`/32` or `/128`).
    pub fn host(addr: IpAddr) -> IpPrefix {
        IpPrefix {
            addr,
            len: if addr.is_ipv4() { 32 } else { 128 },
        }
    }

    /// Returns whether an address begins with the prefix; an address of another family does not.
    pub fn contains(&self, address: IpAddr) -> bool {
        let same = |a: u128, b: u128, width: u32| {
            let rest = width - u32::from(self.len).min(width);
            a.checked_shr(rest) == b.checked_shr(rest)
        };
        match (self.addr, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
            _ => false,
        }
    }
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl fmt::Debug for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for IpPrefix {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self, Error> {
        let bad = || Error::Invalid(format!("\"{s}\" is not an IP prefix such as 10.0.0.0/8"));
        let (addr, len) = s.split_once('/').ok_or_else(bad)?;
        IpPrefix::new(
            addr.parse().map_err(|_| bad())?,
            len.parse().map_err(|_| bad())?,
        )
    }
}

/// One end of a veth pair to be created. `None` leaves the kernel's default.
#[derive(Clone, Copy, Debug, Default)]
pub struct VethEnd<'a> {
    /// Interface name, 1 to 15 bytes.
    pub name: &'a str,
    /// Namespace to create it in; `None`: that of the socket.
    pub netns: Option<BorrowedFd<'a>>,
    /// Explicit interface index. The kernel uses the second end's only if the first end has one as well;
    /// [`crate::netlink::Batch::create_veth`] refuses the combination that it would ignore.
    pub ifindex: Option<u32>,
    /// Ethernet address.
    pub mac: Option<Mac>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// `txqueuelen` in packets.
    pub tx_queue_len: Option<u32>,
    /// Number of TX and of RX queues. `None` means 1 here (the kernel would create one per CPU).
    pub queues: Option<u32>,
    /// Number of TX queues, if it differs from that of RX queues.
    pub tx_queues: Option<u32>,
    /// Largest GSO super-packet in segments.
    pub gso_max_segs: Option<u32>,
    /// Largest GSO super-packet in bytes.
    pub gso_max_size: Option<u32>,
    /// Interface group: the only mark that can be set at creation (aliases are set later).
    pub group: Option<u32>,
    /// Create it up. Only the first end can be: the kernel opens the second before it has a peer (ENOTCONN), so
    /// [`crate::netlink::Batch::create_veth`] refuses it there.
    pub up: bool,
}

/// A change of an existing interface. `None` leaves a property unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkChange<'a> {
    /// The interface.
    pub ifindex: u32,
    /// Up or down.
    pub up: Option<bool>,
    /// Whether it resolves addresses of neighbours.
    pub arp: Option<bool>,
    /// The alias: our ownership mark on interfaces outside our own namespaces. "" removes it.
    pub alias: Option<&'a str>,
    /// New name (the interface must be down, or the kernel new enough to allow it up).
    pub name: Option<&'a str>,
    /// Ethernet address.
    pub mac: Option<Mac>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// Interface group.
    pub group: Option<u32>,
    /// Largest GSO super-packet in bytes.
    pub gso_max_size: Option<u32>,
    /// Largest GSO super-packet in segments.
    pub gso_max_segs: Option<u32>,
    /// `Some(false)`: no automatic IPv6 link-local address (addrgenmode none). `Some(true)`: EUI-64.
    pub link_local: Option<bool>,
    /// Move into this namespace.
    pub netns: Option<BorrowedFd<'a>>,
}

/// An interface address.
#[derive(Clone, Copy, Debug)]
pub struct AddressSpec {
    /// The interface.
    pub ifindex: u32,
    /// Our own address and the prefix length.
    pub local: IpPrefix,
    /// The far end's address on a point-to-point link.
    pub peer: Option<IpAddr>,
    /// Do not add the connected route of the prefix.
    pub no_prefix_route: bool,
    /// IPv6: usable at once, without duplicate address detection. Ignored by IPv4, which does not have it.
    pub no_dad: bool,
}

impl AddressSpec {
    /// An address with its connected route and without duplicate address detection.
    pub fn new(ifindex: u32, local: IpPrefix) -> AddressSpec {
        AddressSpec {
            ifindex,
            local,
            peer: None,
            no_prefix_route: false,
            no_dad: true,
        }
    }
}

/// A next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NextHop {
    /// Outgoing interface; may be `None` when `via` is in a connected prefix.
    pub ifindex: Option<u32>,
    /// Gateway; `None` for a directly connected destination. An IPv6 gateway of an IPv4 route is
    /// sent as `RTA_VIA` (RFC 5549).
    pub via: Option<IpAddr>,
    /// Share among several next hops, 1 to 256.
    pub weight: u16,
    /// Treat the gateway as reachable on `ifindex` even if no connected prefix covers it.
    pub onlink: bool,
}

impl NextHop {
    /// A gateway on an interface.
    pub fn via(ifindex: u32, via: IpAddr) -> NextHop {
        NextHop {
            ifindex: Some(ifindex),
            via: Some(via),
            weight: 1,
            onlink: false,
        }
    }

    /// A directly connected destination.
    pub fn dev(ifindex: u32) -> NextHop {
        NextHop {
            ifindex: Some(ifindex),
            via: None,
            weight: 1,
            onlink: false,
        }
    }
}

/// Target of a route's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteTarget {
    /// Forward to this next hop.
    Hop(NextHop),
    /// Distribute over several (at least one).
    Multipath(Vec<NextHop>),
    /// Reply "destination unreachable".
    Unreachable,
    /// Drop without a reply.
    Blackhole,
}

/// A kernel route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination (host bits must be zero, otherwise the kernel returns EINVAL).
    pub dst: IpPrefix,
    /// Target of its packets.
    pub target: RouteTarget,
    /// Preferred source address of packets from this node.
    pub prefsrc: Option<IpAddr>,
    /// Metric; lower wins. `None`: the kernel's default (0 for IPv4, 1024 for IPv6).
    pub metric: Option<u32>,
    /// Routing protocol number; ours is [`ROUTE_PROTOCOL`].
    pub protocol: u8,
    /// Routing table; 254 is main.
    pub table: u32,
}

impl Route {
    /// Our route in the main table.
    pub fn new(dst: IpPrefix, target: RouteTarget) -> Route {
        Route {
            dst,
            target,
            prefsrc: None,
            metric: None,
            protocol: ROUTE_PROTOCOL,
            table: 254,
        }
    }

    /// Our route through one gateway on one interface, in the main table.
    pub fn via(dst: IpPrefix, ifindex: u32, via: IpAddr) -> Route {
        Self::new(dst, RouteTarget::Hop(NextHop::via(ifindex, via)))
    }
}

/// A permanent neighbour entry: no ARP or neighbour discovery for this address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourSpec {
    /// The interface.
    pub ifindex: u32,
    /// The neighbour's address.
    pub addr: IpAddr,
    /// The neighbour's Ethernet address.
    pub mac: Mac,
}
