//! The way to nodes beside what is emulated: a bridge in a namespace of its own, to which each node has a port and this machine a
//! link.
//!
//! What is isolated is so by what is not there, not by filters. The bridge's ports exchange no frames with each other. From nodes the
//! namespace knows one way, to the machine's address on the link; from the machine it knows the nodes' addresses and no
//! others. In a node only what its own programs send finds the machine's address, in a table that nobody else asks. All of it lives in
//! namespaces held by descriptors, except for the machine's end of the link, which carries our mark.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::time::Duration;

use constel_host::NetNs;
use constel_host::claim::{LINK_GROUP, LabName, Thing, link_alias};
use constel_host::netlink::{
    AddressSpec, Batch, IpPrefix, LinkChange, Mac, NeighbourSpec, NextHop, Route, RouteTarget,
    Rule, Socket, VethEnd,
};
use constel_host::template::{Setting, namespace_with};
use constel_plan::{MANAGEMENT_IFINDEX, MANAGEMENT_PORT, Management};
use constel_routing::Prefix4;
use constel_topology::NodeId;
use rustix::io::Errno;

use crate::error::EngineError;

/// The namespace forwards IPv4, only what comes from where it would answer to, and speaks no IPv6.
const SETTINGS: &[Setting] = &[
    ("net/ipv4/conf/all/forwarding", "1"),
    ("net/ipv4/conf/default/forwarding", "1"),
    ("net/ipv4/conf/all/rp_filter", "1"),
    ("net/ipv4/conf/default/rp_filter", "1"),
    ("net/ipv4/conf/all/arp_ignore", "0"),
    ("net/ipv4/conf/default/arp_ignore", "0"),
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/default/send_redirects", "0"),
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
];

const BRIDGE: &str = "bridge";
const BRIDGE_IFINDEX: u32 = 1_000;
/// The namespace's end of the link to the machine.
const UPLINK: &str = "machine";
/// Ports of nodes have indices from here on.
const FIRST_IFINDEX: u32 = 10_000;

const BRIDGE_MAC: Mac = Mac([0x02, 0xc5, 0x6d, 0, 0, 1]);
const UPLINK_MAC: Mac = Mac([0x02, 0xc5, 0x6d, 0, 0, 2]);
const HOST_MAC: Mac = Mac([0x02, 0xc5, 0x6d, 0, 0, 3]);

/// A table that no routing daemon fills, asked before the main one (32766) and after that of own addresses (0).
const TABLE: u32 = 7_000;
const PRIORITY: u32 = 100;

/// What is recorded before it is made: the machine's end of the link.
pub(crate) fn thing(own: &Management) -> Thing {
    Thing::HostLink {
        name: own.interface.clone(),
    }
}

/// Tries what management needs of the kernel, in a namespace of its own: a bridge with an isolated port, and a rule.
///
/// # Errors
/// What the kernel refuses.
pub fn probe_management() -> Result<(), EngineError> {
    let ns = namespace_with(SETTINGS)?;
    let ours = VethEnd {
        name: "m0",
        ifindex: Some(FIRST_IFINDEX),
        ..VethEnd::default()
    };
    let theirs = VethEnd {
        name: MANAGEMENT_PORT,
        ..VethEnd::default()
    };
    let mut batch = Batch::new();
    batch.create_bridge(BRIDGE, BRIDGE_IFINDEX, BRIDGE_MAC)?;
    batch.create_veth(&ours, &theirs)?;
    batch.join_bridge_isolated(FIRST_IFINDEX, BRIDGE_IFINDEX);
    batch.add_rule(BRIDGE, TABLE, PRIORITY)?;
    Ok(Socket::open_in(&ns)?.send(&mut batch)?)
}

/// Tries whether packets pass between this machine and a namespace as those of management do: over a link of its own in the
/// machine's namespace, with addresses for documentation (RFC 5737).
///
/// # Errors
/// [`EngineError::Unable`] when something on this machine drops them, most often its firewall; what the kernel refuses.
pub fn probe_management_reach() -> Result<(), EngineError> {
    let at = |last| Ipv4Addr::new(198, 51, 100, last);
    let own = Management {
        interface: format!("cst-{}", std::process::id()),
        subnet: Prefix4 {
            first: at(0),
            length: 24,
        },
        host: at(1),
        bridge: at(2),
        nodes: Vec::new(),
    };
    if refuse_known(&own, &mut Socket::open()?).is_err() {
        // Somebody uses these addresses: nothing can be found out by them.
        return Ok(());
    }
    let lab: LabName = "doctor".parse()?;
    ManagementNet::raise(own, &lab)?.reach()
}

/// A port at which nothing listens (RFC 863, long out of use): the answer is a refusal.
const NO_PORT: u16 = 9;
/// The far end is on this machine: an answer comes in microseconds. But the kernel activates the queues of a new link up to a second
/// after its carrier is there (`linkwatch`), and drops what is sent before; TCP repeats its request after one second.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// The bridge of a lab and the link to it, as long as this lives.
pub(crate) struct ManagementNet {
    own: Management,
    alias: String,
    ns: NetNs,
    inside: Mutex<Socket>,
}

impl ManagementNet {
    /// Makes the bridge and the link. The calling thread is in the machine's namespace.
    ///
    /// # Errors
    /// [`EngineError::Unable`] when the machine has a way of its own to any of the addresses, and what its kernel refuses; then nothing of it
    /// is left.
    pub(crate) fn raise(own: Management, lab: &LabName) -> Result<Self, EngineError> {
        let mut host = Socket::open()?;
        refuse_known(&own, &mut host)?;
        let ns = namespace_with(SETTINGS)?;
        let inside = Mutex::new(Socket::open_in(&ns)?);
        let made = Self {
            own,
            alias: link_alias(lab),
            ns,
            inside,
        };
        made.link(&mut host)?;
        made.bridge()?;
        Ok(made)
    }

    /// Whether packets pass between the machine and the bridge, both ways: its namespace refuses a connection.
    ///
    /// # Errors
    /// [`EngineError::Unable`] when no refusal comes.
    pub(crate) fn reach(&self) -> Result<(), EngineError> {
        let address = SocketAddr::from((self.own.bridge, NO_PORT));
        match TcpStream::connect_timeout(&address, ANSWERS_WITHIN) {
            Err(error) if error.kind() != ErrorKind::ConnectionRefused => {
                let interface = &self.own.interface;
                Err(EngineError::Unable {
                    what: format!(
                        "this machine does not reach nodes by `management`: packets over {interface} are dropped ({error})"
                    ),
                    remedy: "let packets in and out of interfaces `cst-*` in this machine's firewall, for example by \
                             `nft insert rule inet filter input iifname \"cst-*\" accept` and the same for output with `oifname`"
                        .to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    /// The machine's side.
    fn link(&self, host: &mut Socket) -> Result<(), EngineError> {
        let own = &self.own;
        let ours = VethEnd {
            name: &own.interface,
            mac: Some(HOST_MAC),
            group: Some(LINK_GROUP),
            ..VethEnd::default()
        };
        let theirs = VethEnd {
            name: UPLINK,
            netns: Some(self.ns.fd()),
            mac: Some(UPLINK_MAC),
            ..VethEnd::default()
        };
        let mut batch = Batch::new();
        batch.create_veth(&ours, &theirs)?;
        host.send(&mut batch)?;
        let ifindex = index_of(host, &own.interface)?;
        batch.change_link(&LinkChange {
            ifindex,
            alias: Some(&self.alias),
            ..LinkChange::default()
        })?;
        up_without_link_local(&mut batch, ifindex)?;
        batch.add_address(&AddressSpec::new(ifindex, IpPrefix::host(own.host.into())));
        batch.replace_neighbour(&NeighbourSpec {
            ifindex,
            addr: own.bridge.into(),
            mac: UPLINK_MAC,
        });
        let mut to_nodes = Route::new(subnet(own), by(ifindex, own.bridge.into()));
        to_nodes.prefsrc = Some(own.host.into());
        batch.add_route(&to_nodes)?;
        Ok(host.send(&mut batch)?)
    }

    /// The namespace's side.
    fn bridge(&self) -> Result<(), EngineError> {
        let own = &self.own;
        let mut inside = self.inside.lock().unwrap_or_else(|e| e.into_inner());
        let uplink = index_of(&mut inside, UPLINK)?;
        let mut batch = Batch::new();
        batch.create_bridge(BRIDGE, BRIDGE_IFINDEX, BRIDGE_MAC)?;
        batch.change_link(&LinkChange {
            ifindex: BRIDGE_IFINDEX,
            alias: Some(&self.alias),
            up: Some(true),
            ..LinkChange::default()
        })?;
        batch.link_up(uplink);
        let address = IpPrefix {
            addr: own.bridge.into(),
            len: own.subnet.length,
        };
        batch.add_address(&AddressSpec::new(BRIDGE_IFINDEX, address));
        batch.replace_neighbour(&NeighbourSpec {
            ifindex: uplink,
            addr: own.host.into(),
            mac: HOST_MAC,
        });
        let to_host = RouteTarget::Hop(NextHop::dev(uplink));
        let to_host = Route::new(IpPrefix::host(own.host.into()), to_host);
        let nowhere = IpPrefix {
            addr: std::net::Ipv4Addr::UNSPECIFIED.into(),
            len: 0,
        };
        let nowhere = Route {
            table: TABLE,
            ..Route::new(nowhere, RouteTarget::Unreachable)
        };
        batch.add_route(&to_host)?.add_route(&nowhere)?;
        batch.add_route(&Route {
            table: TABLE,
            ..to_host
        })?;
        batch.add_rule(BRIDGE, TABLE, PRIORITY)?;
        Ok(inside.send(&mut batch)?)
    }

    /// Makes a node's port, if it has one; its namespace is open as `netns`.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn add_port(
        &self,
        node: NodeId,
        name: &str,
        netns: BorrowedFd<'_>,
    ) -> Result<(), EngineError> {
        if self.own.of(node).is_none() {
            return Ok(());
        }
        let ifindex = FIRST_IFINDEX + node.0;
        let ours = VethEnd {
            name: &format!("m{}", node.0),
            ifindex: Some(ifindex),
            group: Some(LINK_GROUP),
            up: true,
            ..VethEnd::default()
        };
        let theirs = VethEnd {
            name: MANAGEMENT_PORT,
            netns: Some(netns),
            ifindex: Some(MANAGEMENT_IFINDEX),
            ..VethEnd::default()
        };
        let mut batch = Batch::new();
        batch.create_veth(&ours, &theirs)?;
        batch.join_bridge_isolated(ifindex, BRIDGE_IFINDEX);
        batch.change_link(&LinkChange {
            ifindex,
            alias: Some(&format!("{} node={name}", self.alias)),
            ..LinkChange::default()
        })?;
        let mut inside = self.inside.lock().unwrap_or_else(|e| e.into_inner());
        Ok(inside.send(&mut batch)?)
    }

    /// Makes the port of a node again that a program deleted or moved away: of one that was moved our end is left.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn add_port_again(
        &self,
        node: NodeId,
        name: &str,
        netns: BorrowedFd<'_>,
    ) -> Result<(), EngineError> {
        let mut batch = Batch::new();
        batch
            .delete_link(FIRST_IFINDEX + node.0)
            .tolerate(Errno::NODEV.raw_os_error());
        let mut inside = self.inside.lock().unwrap_or_else(|e| e.into_inner());
        inside.send(&mut batch)?;
        drop(inside);
        self.add_port(node, name, netns)
    }

    /// The requests that set a node's port up, if it has one.
    ///
    /// # Errors
    /// None that the address plan leaves room for.
    pub(crate) fn set_up(&self, node: NodeId, batch: &mut Batch) -> Result<(), EngineError> {
        self.set_up_port(node, batch)?;
        if self.own.of(node).is_some() {
            rule(batch)?;
        }
        Ok(())
    }

    /// The same without the rule, which stays where the port goes.
    ///
    /// # Errors
    /// As [`Self::set_up`].
    pub(crate) fn set_up_port(&self, node: NodeId, batch: &mut Batch) -> Result<(), EngineError> {
        let Some((address, route)) = port_of(&self.own, node) else {
            return Ok(());
        };
        up_without_link_local(batch, MANAGEMENT_IFINDEX)?;
        batch.add_address(&address);
        batch.add_route(&route)?;
        Ok(())
    }
}

/// What a node's port has, if it has one: its address, without a route of its subnet, since the main table knows nothing of it, and the route
/// to the machine.
pub(crate) fn port_of(own: &Management, node: NodeId) -> Option<(AddressSpec, Route)> {
    let address = own.of(node)?;
    let ifindex = MANAGEMENT_IFINDEX;
    let host = IpPrefix::host(own.host.into());
    let route = Route {
        table: TABLE,
        prefsrc: Some(address.into()),
        ..Route::new(host, by(ifindex, own.bridge.into()))
    };
    Some((
        AddressSpec::new(ifindex, IpPrefix::host(address.into())),
        route,
    ))
}

/// Adds the rule by which programs of a node, and nothing that comes in, find the machine.
pub(crate) fn rule(batch: &mut Batch) -> constel_host::Result<&mut Batch> {
    batch.add_rule("lo", TABLE, PRIORITY)
}

/// Whether a rule is that one.
pub(crate) fn is_own_rule(rule: &Rule) -> bool {
    (rule.ipv4, rule.table, rule.priority) == (true, TABLE, PRIORITY)
}

impl Drop for ManagementNet {
    /// The kernel takes its time with a namespace that nobody holds; the machine's end goes now.
    fn drop(&mut self) {
        let removed = Socket::open().and_then(|mut host| {
            let ours = host.link_named(&self.own.interface)?;
            let ours = ours.filter(|link| link.group == LINK_GROUP);
            let mut batch = Batch::new();
            if let Some(link) = ours {
                batch
                    .delete_link(link.ifindex)
                    .tolerate(Errno::NODEV.raw_os_error());
            }
            host.send(&mut batch)
        });
        // What is left goes with the namespace.
        drop(removed);
    }
}

/// Nothing that the machine has a way to already may be taken over.
fn refuse_known(own: &Management, host: &mut Socket) -> Result<(), EngineError> {
    let subnet = subnet(own);
    let routes = host.routes()?;
    let known = routes.iter().find(|route| {
        let dst = route.dst;
        dst.len > 0 && (subnet.contains(dst.addr) || dst.contains(subnet.addr))
    });
    let Some(known) = known else {
        return Ok(());
    };
    Err(EngineError::Unable {
        what: format!(
            "management would take {subnet}, and this machine has a route to {} of its own",
            known.dst
        ),
        remedy: "give `addresses.management` a block that it does not use, or the lab another name"
            .to_owned(),
    })
}

fn subnet(own: &Management) -> IpPrefix {
    IpPrefix {
        addr: own.subnet.first.into(),
        len: own.subnet.length,
    }
}

/// Through a gateway that no route of the interface covers.
fn by(ifindex: u32, gateway: std::net::IpAddr) -> RouteTarget {
    RouteTarget::Hop(NextHop {
        onlink: true,
        ..NextHop::via(ifindex, gateway)
    })
}

fn index_of(socket: &mut Socket, name: &str) -> Result<u32, EngineError> {
    let found = socket.link_named(name)?;
    let lost = || constel_host::Error::Invalid(format!("interface {name} went as it was made"));
    Ok(found.ok_or_else(lost)?.ifindex)
}

/// IPv6 is not spoken there; a kernel without it has nothing to turn off.
fn up_without_link_local(batch: &mut Batch, ifindex: u32) -> Result<(), EngineError> {
    let quiet = LinkChange {
        ifindex,
        link_local: Some(false),
        ..LinkChange::default()
    };
    batch
        .change_link(&quiet)?
        .tolerate(Errno::AFNOSUPPORT.raw_os_error())
        .link_up(ifindex);
    Ok(())
}
