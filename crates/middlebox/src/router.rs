//! The router form of a box: a network namespace that forwards packets, with a cable to each interface of the box.
//!
//! The kernel answers ARP and neighbour discovery, decrements the TTL, and sends ICMP errors. Packets that it
//! forwards return to the box, where rules apply to them. The namespace has no name and no process: it exists as
//! long as the box's descriptor.

use std::net::IpAddr;

use constel_drivers::relay::External;
use constel_host::claim::{LabName, link_alias};
use constel_host::netlink::{
    AddressSpec, Batch, IpPrefix, LinkChange, Mac, NextHop, Route, RouteTarget, Socket, VethEnd,
};
use constel_host::{NetNs, sysctl};
use constel_lab::wires::Wire;
use constel_link::PortId;
use constel_scenario::model::BoxRouter;

use crate::error::BoxError;

const LO: u32 = 1;

const SETTINGS: [(&str, &str); 6] = [
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv6/conf/all/forwarding", "1"),
];

/// A router, which exists as long as this value.
pub(crate) struct Router {
    _ns: NetNs,
    /// The near ends of its cables, whose ports follow those of the box's interfaces.
    pub(crate) cables: Vec<External>,
}

/// Returns the router's address on an interface: the interface's own, made locally administered.
fn mac_of(wire: &Wire) -> [u8; 6] {
    let mut mac = wire.mac;
    mac[0] = (mac[0] | 2) & !1;
    if mac == wire.mac {
        mac[0] ^= 0x40;
    }
    mac
}

impl Router {
    /// Creates the router; its cables' near ends are in the calling thread's namespace.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(crate) fn make(
        lab: &LabName,
        router: &BoxRouter,
        wires: &[Wire],
    ) -> Result<Router, BoxError> {
        let ns = NetNs::new()?;
        ns.run(|| {
            SETTINGS
                .iter()
                .try_for_each(|(key, value)| sysctl::write(key, value))
        })??;
        let (mut socket, mut there) = (Socket::open()?, Socket::open_in(&ns)?);
        let mut ends = Vec::new();
        let mut cables = Vec::new();
        let mut inside = Batch::new();
        inside.link_up(LO);
        for (n, wire) in (0u32..).zip(wires) {
            let name = format!("cst{}r{n}", std::process::id());
            let near = VethEnd {
                name: &name,
                mtu: Some(wire.mtu),
                ..VethEnd::default()
            };
            let far = VethEnd {
                name: &wire.name,
                netns: Some(ns.fd()),
                mac: Some(Mac(mac_of(wire))),
                mtu: Some(wire.mtu),
                ..VethEnd::default()
            };
            let mut batch = Batch::new();
            batch.create_veth(&near, &far)?;
            socket.send(&mut batch)?;
            // The near end belongs to no host, so that it must not get addresses.
            sysctl::write(&format!("net/ipv6/conf/{name}/disable_ipv6"), "1")?;
            let made = socket.link_named(&name)?.ok_or_else(|| gone(&name))?;
            let end = there.link_named(&wire.name)?;
            let end = end.ok_or_else(|| gone(&wire.name))?.ifindex;
            ends.push(end);
            let mut batch = Batch::new();
            batch.change_link(&LinkChange {
                ifindex: made.ifindex,
                alias: Some(&link_alias(lab)),
                up: Some(true),
                ..LinkChange::default()
            })?;
            socket.send(&mut batch)?;
            cables.push(External {
                port: PortId(wires.len() as u32 + n),
                ifindex: made.ifindex,
                mac: [0; 6],
                shared: false,
                own: Vec::new(),
            });
            inside.link_up(end);
            let own = router.addresses.iter().filter(|(at, ..)| *at == wire.name);
            for (_, address, length) in own {
                let prefix = IpPrefix::new(*address, *length)?;
                inside.add_address(&AddressSpec::new(end, prefix));
            }
        }
        for (to, length, via) in &router.routes {
            let out = router.way_to(*via);
            let place = wires
                .iter()
                .position(|wire| Some(wire.name.as_str()) == out);
            let Some(place) = place else { continue };
            inside.add_route(&route(*to, *length, (ends[place], *via))?)?;
        }
        there.send(&mut inside)?;
        Ok(Router { _ns: ns, cables })
    }
}

fn gone(name: &str) -> constel_host::Error {
    constel_host::Error::Invalid(format!("interface {name} is gone"))
}

/// Returns a route over a neighbour at an interface.
///
/// # Errors
/// When the network has bits set after its prefix length.
pub(crate) fn route(
    to: IpAddr,
    length: u8,
    (ifindex, via): (u32, IpAddr),
) -> constel_host::Result<Route> {
    let prefix = IpPrefix::new(to, length)?;
    Ok(Route::new(
        prefix,
        RouteTarget::Hop(NextHop::via(ifindex, via)),
    ))
}
