//! A difference between a stack and its settings, and the requests that undo it.

use constel_host::netlink::{
    AddressSpec, Batch, IpPrefix, LinkChange, Mac, NeighbourSpec, Route, Rule,
};
use constel_link::PortId;

use crate::nodes::management;

/// A difference of a stack, and its cure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::nodes::own_stack) struct Finding {
    /// The subject of the difference, the same in every comparison that finds it.
    pub(in crate::nodes::own_stack) about: String,
    /// The difference in words.
    pub(in crate::nodes::own_stack) words: String,
    /// The cure.
    pub(in crate::nodes::own_stack) cure: Cure,
}

/// The way to undo a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::nodes::own_stack) enum Cure {
    /// Constel changes nothing: the node switched something off, or added something of its own.
    Node,
    /// Requests to the kernel.
    Requests(Vec<Request>),
    /// The creation of the port.
    Port(PortId),
    /// The creation of the management port.
    Management,
}

/// A request that undoes a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::nodes::own_stack) enum Request {
    Name(u32, String),
    Mac(u32, Mac),
    Mtu(u32, u32),
    Group(u32, u32),
    /// ARP is switched on.
    Arp(u32),
    /// Interface and address.
    Address(u32, IpPrefix),
    /// An address that exists without its routes; removing and adding it makes the kernel create them.
    Renewed(u32, IpPrefix),
    Neighbour(NeighbourSpec),
    Rule(Rule),
    ManagementRule,
    Route(Route),
    /// A route that came with an address. Ports share one destination in IPv6 (fe80::/64), so that the route is
    /// appended: replacing it could remove another port's.
    Connected(Route),
}

impl Request {
    /// Adds it to a batch. An error cannot occur for a request that Constel made before.
    pub(in crate::nodes::own_stack) fn put(&self, batch: &mut Batch) -> constel_host::Result<()> {
        let link = |ifindex| LinkChange {
            ifindex,
            ..LinkChange::default()
        };
        // Requests state the wanted value, so that repeating them is harmless.
        match self {
            Self::Name(ifindex, name) => batch.change_link(&LinkChange {
                name: Some(name),
                ..link(*ifindex)
            })?,
            Self::Mac(ifindex, mac) => batch.change_link(&LinkChange {
                mac: Some(*mac),
                ..link(*ifindex)
            })?,
            Self::Mtu(ifindex, mtu) => batch.change_link(&LinkChange {
                mtu: Some(*mtu),
                ..link(*ifindex)
            })?,
            Self::Group(ifindex, group) => batch.change_link(&LinkChange {
                group: Some(*group),
                ..link(*ifindex)
            })?,
            Self::Arp(ifindex) => batch.change_link(&LinkChange {
                arp: Some(true),
                ..link(*ifindex)
            })?,
            Self::Address(ifindex, prefix) => {
                batch.replace_address(&AddressSpec::new(*ifindex, *prefix))
            }
            Self::Renewed(ifindex, prefix) => {
                let own = AddressSpec::new(*ifindex, *prefix);
                // A replaced address keeps its state. Only a new one makes the kernel create its routes again.
                batch.delete_address(&own).add_address(&own)
            }
            Self::Neighbour(neighbour) => batch.replace_neighbour(neighbour),
            Self::Rule(rule) => batch.add_born_rule(rule),
            Self::ManagementRule => management::rule(batch)?,
            Self::Route(route) => batch.replace_route(route)?,
            Self::Connected(route) => batch.append_route(route)?,
        };
        Ok(())
    }
}
