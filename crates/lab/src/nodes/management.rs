//! The management network, with which a machine reaches nodes outside the emulated network: a bridge in a namespace
//! of its own, to which each node has a port and this machine a link.
//!
//! Isolation comes from missing routes, not from filters. The bridge's ports exchange no frames with each other.
//! For packets from nodes the namespace has one route, to the machine's address on the link. For packets from the
//! machine it has the nodes' addresses and no others. In a node only packets of its own programs find the machine's
//! address, in a table that no other lookup uses. Everything is in namespaces held by descriptors, except for the
//! machine's end of the link, which carries Constel's mark.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::time::Duration;

use constel_host::NetNs;
use constel_host::claim::{HostObject, LINK_GROUP, LabName, link_alias};
use constel_host::netlink::{
    AddressSpec, Batch, DroppingChain, IpPrefix, LinkChange, Mac, NeighbourSpec, NextHop, Route,
    RouteTarget, Rule, Socket, VethEnd, dropping_chains,
};
use constel_host::template::{Setting, namespace_with};
use constel_plan::{MANAGEMENT_IFINDEX, MANAGEMENT_PORT, Management};
use constel_routing::Prefix4;
use constel_topology::NodeId;
use rustix::io::Errno;

use crate::error::EngineError;

/// The settings of the namespace: it forwards IPv4, only from sources to which it has a return route, and has no
/// IPv6.
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
/// The first interface index of the nodes' ports.
const FIRST_IFINDEX: u32 = 10_000;

const BRIDGE_MAC: Mac = Mac([0x02, 0xc5, 0x6d, 0, 0, 1]);
const UPLINK_MAC: Mac = Mac([0x02, 0xc5, 0x6d, 0, 0, 2]);
const HOST_MAC: Mac = Mac([0x02, 0xc5, 0x6d, 0, 0, 3]);

/// The table of the routes, which no routing daemon fills. Its rule comes before that of the main table (32766) and
/// after that of local addresses (0).
const TABLE: u32 = 7_000;
const PRIORITY: u32 = 100;

/// Returns the record of the machine's end of the link, to be written before it is created.
pub(crate) fn thing(own: &Management) -> HostObject {
    HostObject::HostLink {
        name: own.interface.clone(),
    }
}

/// Tests the kernel features that management needs, in a namespace of its own: a bridge with an isolated port, and
/// a rule.
///
/// # Errors
/// The refusal of the kernel.
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

/// Tests whether packets pass between this machine and a namespace like those of management: over a link in the
/// machine's namespace, with addresses for documentation (RFC 5737).
///
/// # Errors
/// [`EngineError::Unable`] when something on this machine drops them, most often its firewall; refusals of the
/// kernel.
pub fn probe_management_reach() -> Result<(), EngineError> {
    // The block TEST-NET-2 does not appear in real networks.
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
        // These addresses are in use, so that the test is not possible.
        return Ok(());
    }
    let lab: LabName = "doctor".parse()?;
    ManagementNet::raise(own, &lab)?.reach()
}

/// The wait for the answer. The far end is on this machine, so that an answer takes microseconds. But the kernel
/// activates the queues of new links after their carrier is up (`linkwatch`), 100 a second in all labs together, and
/// drops packets before that. TCP repeats its request after 1, 3 and 7 seconds.
const ANSWERS_WITHIN: Duration = Duration::from_secs(8);

/// Connects to a listener. A refused connection is a failure too: firewalls refuse in the name of the far end.
fn connects(listener: &TcpListener) -> std::io::Result<()> {
    TcpStream::connect_timeout(&listener.local_addr()?, ANSWERS_WITHIN).map(drop)
}

/// The most chains that an error names.
const MOST_CHAINS: usize = 4;

fn unreached(interface: &str, between: &str, error: &std::io::Error) -> EngineError {
    // The list needs a right and a feature of the kernel; without them the error names no chain.
    let mut chains = dropping_chains().unwrap_or_default();
    chains.truncate(MOST_CHAINS);
    let names = chains.iter().map(|c| {
        let DroppingChain {
            family,
            table,
            chain,
            why,
            ..
        } = c;
        format!("table {family} {table}, chain {chain} ({why})")
    });
    let mut names: Vec<String> = names.collect();
    let legacy = std::fs::read_to_string("/proc/net/ip_tables_names").unwrap_or_default();
    if !legacy.trim().is_empty() {
        names.push("the tables of iptables-legacy (`iptables-legacy -S`)".to_owned());
    }
    let by = match names.is_empty() {
        true => String::new(),
        false => format!(
            "; this machine's firewall may drop them in {}",
            names.join("; ")
        ),
    };
    let pass = |c: &DroppingChain| {
        let side = if c.arriving { "iifname" } else { "oifname" };
        let DroppingChain {
            family,
            table,
            chain,
            ..
        } = c;
        format!("`nft insert rule {family} {table} {chain} {side} \"cst-*\" accept`")
    };
    let mut rules: Vec<String> = chains.iter().map(pass).collect();
    if rules.is_empty() {
        let sides = [("INPUT", "-i"), ("OUTPUT", "-o")];
        rules.extend(
            sides.map(|(chain, side)| format!("`iptables -I {chain} {side} cst-+ -j ACCEPT`")),
        );
    }
    EngineError::Unable {
        what: format!(
            "`management` does not work: packets {between} over {interface} are dropped ({error}){by}"
        ),
        remedy: format!(
            "let packets of interfaces `cst-*` pass: {}; labs need no other rule",
            rules.join(" and ")
        ),
    }
}

/// The bridge of a lab and the link to it, as long as this value exists.
pub(crate) struct ManagementNet {
    own: Management,
    alias: String,
    ns: NetNs,
    inside: Mutex<Socket>,
}

impl ManagementNet {
    /// Creates the bridge and the link. The calling thread must be in the machine's namespace.
    ///
    /// # Errors
    /// [`EngineError::Unable`] when the machine has another route to any of the addresses; refusals of its kernel.
    /// No objects are left then.
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

    /// Tests whether connections pass between the machine and the bridge, begun by either.
    ///
    /// # Errors
    /// [`EngineError::Unable`] when one does not, with the chains of the machine's firewall that may drop the packets.
    pub(crate) fn reach(&self) -> Result<(), EngineError> {
        let listen = |address| TcpListener::bind((address, 0));
        let there = self.ns.run(|| listen(self.own.bridge))?;
        let (Ok(here), Ok(there)) = (listen(self.own.host), there) else {
            // Without ports the test is not possible.
            return Ok(());
        };
        // A firewall may let the machine's own connections pass, with their answers, and drop those of nodes.
        let (out, back) = std::thread::scope(|scope| {
            let back = scope.spawn(|| self.ns.run(|| connects(&here)));
            (connects(&there), back.join())
        });
        // A thread that could not enter the namespace has found nothing out.
        let back = back.ok().and_then(Result::ok).unwrap_or(Ok(()));
        let (between, error) = match (out, back) {
            (Ok(()), Ok(())) => return Ok(()),
            (Err(error), Ok(())) => ("from this machine to nodes", error),
            (Ok(()), Err(error)) => ("from nodes to this machine", error),
            (Err(error), Err(_)) => ("between this machine and nodes", error),
        };
        Err(unreached(&self.own.interface, between, &error))
    }

    /// Creates the machine's side.
    fn link(&self, host: &mut Socket) -> Result<(), EngineError> {
        let own = &self.own;
        // The group and the alias mark the link, so that it can be recognised and removed after a crash.
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
        // A permanent neighbour entry: the host sends no ARP request to the namespace, and no other host can answer for it.
        batch.replace_neighbour(&NeighbourSpec {
            ifindex,
            addr: own.bridge.into(),
            mac: UPLINK_MAC,
        });
        // The gateway is the bridge's address, which is `onlink`: the link has no subnet route.
        let mut to_nodes = Route::new(subnet(own), by(ifindex, own.bridge.into()));
        to_nodes.prefsrc = Some(own.host.into());
        batch.add_route(&to_nodes)?;
        Ok(host.send(&mut batch)?)
    }

    /// Creates the namespace's side.
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
        // The bridge's table has only the machine's address; everything else from nodes is unreachable, so that
        // nodes cannot reach each other or the host's network.
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
        // The rule matches only packets that arrive on the bridge, that is from nodes.
        batch.add_rule(BRIDGE, TABLE, PRIORITY)?;
        Ok(inside.send(&mut batch)?)
    }

    /// Creates a node's port, if it has one; its namespace is open as `netns`.
    ///
    /// # Errors
    /// The refusal of the kernel.
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
        // The workers that create nodes share this socket.
        let mut inside = self.inside.lock().unwrap_or_else(|e| e.into_inner());
        Ok(inside.send(&mut batch)?)
    }

    /// Creates a node's port again that a program deleted or moved away. If it was moved, the bridge's end still
    /// exists and is removed first.
    ///
    /// # Errors
    /// The refusal of the kernel.
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

    /// Adds the requests that set up a node's port, if it has one.
    ///
    /// # Errors
    /// No error occurs for addresses of the address plan.
    pub(crate) fn set_up(&self, node: NodeId, batch: &mut Batch) -> Result<(), EngineError> {
        self.set_up_port(node, batch)?;
        if self.own.of(node).is_some() {
            rule(batch)?;
        }
        Ok(())
    }

    /// Adds the same requests without the rule, which outlives the port.
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

/// Returns the address of a node's port, if it has one, and the route to the machine. The address has no route for
/// its subnet, so that the main table does not contain it.
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

/// Adds the rule for the route to the machine. It matches packets of the node's programs, but none that the node
/// receives.
pub(crate) fn rule(batch: &mut Batch) -> constel_host::Result<&mut Batch> {
    batch.add_rule("lo", TABLE, PRIORITY)
}

/// Returns whether a rule is that one.
pub(crate) fn is_own_rule(rule: &Rule) -> bool {
    (rule.ipv4, rule.table, rule.priority) == (true, TABLE, PRIORITY)
}

impl Drop for ManagementNet {
    /// The kernel removes an unused namespace with a delay, so that the machine's end is removed at once.
    fn drop(&mut self) {
        let removed = Socket::open().and_then(|mut host| {
            let ours = host.link_named(&self.own.interface)?;
            // Only a link in Constel's group is deleted: another program may have taken the name.
            let ours = ours.filter(|link| link.group == LINK_GROUP);
            let mut batch = Batch::new();
            if let Some(link) = ours {
                batch
                    .delete_link(link.ifindex)
                    .tolerate(Errno::NODEV.raw_os_error());
            }
            host.send(&mut batch)
        });
        // Anything that is left disappears with the namespace.
        drop(removed);
    }
}

/// Refuses a subnet to which the machine already has a route.
fn refuse_known(own: &Management, host: &mut Socket) -> Result<(), EngineError> {
    let subnet = subnet(own);
    let routes = host.routes()?;
    // A default route contains everything, and is no conflict.
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

/// Returns a next hop over a gateway that no route of the interface covers.
fn by(ifindex: u32, gateway: std::net::IpAddr) -> RouteTarget {
    RouteTarget::Hop(NextHop {
        onlink: true,
        ..NextHop::via(ifindex, gateway)
    })
}

fn index_of(socket: &mut Socket, name: &str) -> Result<u32, EngineError> {
    let found = socket.link_named(name)?;
    let lost = || {
        constel_host::Error::Invalid(format!(
            "interface {name} disappeared right after its creation"
        ))
    };
    Ok(found.ok_or_else(lost)?.ifindex)
}

/// Brings a link up without IPv6 link-local addresses, which are not used there. A kernel without IPv6 refuses the
/// setting, which is tolerated.
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
