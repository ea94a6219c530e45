//! Interfaces of the machine from which a box or a lab takes frames. They are checked before anything is changed,
//! and refused if their use would harm the host or could not work as documented.

use std::net::IpAddr;
use std::time::Duration;

use constel_drivers::relay::{External, FRAME_MAX_BYTES};
use constel_host::ethernet::HEADER_BYTES;
use constel_host::netlink::{Address, LinkInfo, RouteTarget, Socket};
use constel_host::wire::{find_loops, merges_frames};
use constel_link::PortId;

/// The longest time in which a frame put on a wire can return over a switch.
const LISTEN: Duration = Duration::from_millis(300);

/// The reason why interfaces cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// All reasons, one per line.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    /// The kernel does not answer.
    #[error(transparent)]
    Host(#[from] constel_host::Error),
}

/// The intended use of interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The user of the interfaces, in words.
    pub who: &'static str,
    /// Whether the host's own frames are taken too.
    pub exclusive: bool,
    /// Whether this is allowed even if the host is reached over them.
    pub may_lose_host: bool,
}

/// An interface of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// The name.
    pub name: String,
    /// The index.
    pub ifindex: u32,
    /// The Ethernet address.
    pub mac: [u8; 6],
    /// The largest packet, bytes above Ethernet.
    pub mtu: u32,
    /// The host's addresses on it.
    pub own: Vec<IpAddr>,
}

impl Wire {
    /// Returns the interface as a port of the relay.
    #[must_use]
    pub fn external(&self, port: PortId, shared: bool) -> External {
        External {
            port,
            ifindex: self.ifindex,
            mac: self.mac,
            shared,
            own: self.own.clone(),
        }
    }
}

/// Returns the interfaces with these names in the calling thread's namespace, in order, if they can be used in this
/// way.
///
/// # Errors
/// [`WireError::Refused`] with all reasons against them; [`WireError::Host`] when the kernel does not answer.
pub fn look(names: &[String], wanted: Use) -> Result<Vec<Wire>, WireError> {
    let mut socket = Socket::open()?;
    let links = socket.links()?;
    let addresses = socket.addresses()?;
    // All reasons are collected, so that one call shows everything that must be changed.
    let mut against = Vec::new();
    let mut wires = Vec::new();
    for (place, name) in names.iter().enumerate() {
        if names[..place].contains(name) {
            against.push(format!(
                "{name} is named twice: {} takes an interface once",
                wanted.who
            ));
            continue;
        }
        let Some(link) = links.iter().find(|link| link.name == *name) else {
            let known: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
            against.push(format!(
                "no interface is called {name}; there are: {}",
                known.join(", ")
            ));
            continue;
        };
        let given = (&links[..], &addresses[..], wanted.who);
        wires.extend(wire(link, given, &mut against));
    }
    // Without exclusive use the host keeps its own frames, so that it cannot be cut off.
    if wanted.exclusive && !wanted.may_lose_host {
        let ways = ways_to_the_host(&mut socket)?;
        for wire in &wires {
            against.extend(host_in_use(wire, &ways));
        }
    }
    if against.is_empty() {
        Ok(wires)
    } else {
        Err(WireError::Refused(against))
    }
}

fn wire(
    link: &LinkInfo,
    (links, addresses, who): (&[LinkInfo], &[Address], &str),
    against: &mut Vec<String>,
) -> Option<Wire> {
    let name = &link.name;
    let before = against.len();
    // Interfaces such as tunnels have no Ethernet address, or one of zeros.
    let mac = link.mac.filter(|mac| mac.0 != [0; 6]);
    if mac.is_none() {
        against.push(format!(
            "{name} has no Ethernet address: {who} takes Ethernet interfaces"
        ));
    }
    if !link.up {
        against.push(format!(
            "{name} is down; `ip link set {name} up` brings it up"
        ));
    }
    if let Some(master) = link.master_ifindex {
        let master = links.iter().find(|link| link.ifindex == master);
        let master = master.map_or("another", |link| link.name.as_str());
        against.push(format!(
            "{name} is part of {master}, which would get none of its frames; `ip link set {name} nomaster` frees it"
        ));
    }
    // A frame must fit into the relay's buffers together with its Ethernet header.
    let most = (FRAME_MAX_BYTES - HEADER_BYTES) as u32;
    if link.mtu > most {
        against.push(format!(
            "{name} has an MTU of {} bytes, and {who} carries at most {most}; `ip link set {name} mtu {most}` or less would do",
            link.mtu
        ));
    }
    if merges_frames(name) {
        against.push(format!(
            "the hardware of {name} merges frames (LRO), which cannot be undone; `ethtool -K {name} lro off` ends that"
        ));
    }
    let own = addresses.iter().filter(|a| a.ifindex == link.ifindex);
    // The interface is returned only if no reason was added above.
    let mac = mac.filter(|_| against.len() == before)?;
    Some(Wire {
        name: name.clone(),
        ifindex: link.ifindex,
        mac: mac.0,
        mtu: link.mtu,
        own: own.map(|address| address.local.addr).collect(),
    })
}

/// The interfaces over which the host is reached.
struct Ways {
    default: Vec<u32>,
    /// The other end of the caller's session, and the interface that leads there.
    session: Option<(IpAddr, u32)>,
}

fn interfaces_of(target: &RouteTarget) -> Vec<u32> {
    match target {
        RouteTarget::Hop(hop) => hop.ifindex.into_iter().collect(),
        RouteTarget::Multipath(hops) => hops.iter().filter_map(|hop| hop.ifindex).collect(),
        RouteTarget::Unreachable | RouteTarget::Blackhole => Vec::new(),
    }
}

fn ways_to_the_host(socket: &mut Socket) -> Result<Ways, WireError> {
    let routes = socket.routes()?;
    let default = routes.iter().filter(|route| route.dst.len == 0);
    let default = default.flat_map(|route| interfaces_of(&route.target));
    let default = default.collect();
    // SSH_CONNECTION has the client's address and port, then the server's address and port.
    let session = std::env::var("SSH_CONNECTION").ok();
    let peer = session.and_then(|text| text.split_whitespace().next()?.parse().ok());
    let session = match peer {
        None => None,
        Some(peer) => {
            // The route to the client leads over the interface of this session.
            let route = socket.lookup(&[peer])?.pop().flatten();
            let by = route.and_then(|route| interfaces_of(&route.target).first().copied());
            by.map(|by| (peer, by))
        }
    };
    Ok(Ways { default, session })
}

/// Returns reasons why the host's frames must not be taken from this interface.
fn host_in_use(wire: &Wire, ways: &Ways) -> Vec<String> {
    let name = &wire.name;
    let mut why = Vec::new();
    // Every interface has link-local addresses, so that these show no use.
    let link_local = |address: &&IpAddr| match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let own: Vec<String> = wire
        .own
        .iter()
        .filter(|address| !link_local(address))
        .map(ToString::to_string)
        .collect();
    if !own.is_empty() {
        why.push(format!("{name} has the address {}", own.join(" and ")));
    }
    if ways.default.contains(&wire.ifindex) {
        why.push(format!("the default route leads over {name}"));
    }
    if let Some((peer, _)) = ways.session.filter(|(_, by)| *by == wire.ifindex) {
        why.push(format!("this session comes from {peer} over {name}"));
    }
    let remedy = "without --exclusive the host's own frames do not pass through the box; with --confirm-within 60s the box stops \
                  unless `constel box confirm` is run";
    let words = |why| format!("{why}, and --exclusive would cut the host off: {remedy}");
    why.into_iter().map(words).collect()
}

/// Searches a connection between any of the interfaces that would send every frame round in a loop.
///
/// # Errors
/// [`WireError::Refused`] when there is one.
pub fn no_loop(wires: &[Wire]) -> Result<(), WireError> {
    let indices: Vec<u32> = wires.iter().map(|wire| wire.ifindex).collect();
    let found = find_loops(&indices, LISTEN)?;
    let name = |ifindex| {
        let wire = wires.iter().find(|wire| wire.ifindex == ifindex);
        wire.map_or("?", |wire| wire.name.as_str())
    };
    if found.is_empty() {
        return Ok(());
    }
    let words = found.iter().map(|&(sent, seen)| {
        format!(
            "a frame sent on {} came back on {}: a cable, switch or bridge joins them already, and every frame would go round \
             for ever; take that away first",
            name(sent),
            name(seen)
        )
    });
    Err(WireError::Refused(words.collect()))
}
