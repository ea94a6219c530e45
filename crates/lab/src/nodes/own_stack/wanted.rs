//! The settings of a lab in a node's network stack, and the differences of a stack from them.

mod filters;
mod finding;
mod routes;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use constel_drivers::forward::Forwarder;
use constel_host::netlink::{
    AddressSpec, InstalledRoute, IpPrefix, LinkInfo, Mac, NeighbourSpec, Route, Rule, Stack,
};
use constel_link::PortId;
use constel_plan::{
    Blueprint, LOOPBACK_IFINDEX, MANAGEMENT_IFINDEX, MANAGEMENT_PORT, Management, node_ifindex,
};
use constel_topology::{Attachment, NodeId};

use crate::nodes::kernels::{multicast_route, spec};
use crate::nodes::management::{is_own_rule, port_of};

pub(super) use finding::{Cure, Finding, Request};

/// The minimum MTU of IPv6 (RFC 8200, section 5), bytes.
const IPV6_LEAST_MTU: u32 = 1_280;

/// The creator of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The kernel, with the namespace: `lo`.
    Kernel,
    /// The link plane.
    Port(PortId),
    /// The management network.
    Management,
}

/// The properties of an interface at its creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WantedLink {
    pub(super) origin: Origin,
    ifindex: u32,
    name: String,
    mac: Option<Mac>,
    mtu: Option<u32>,
    /// The interface group, by which the map of routes identifies the node.
    group: Option<u32>,
}

/// The settings that a node should have now.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub(super) links: Vec<WantedLink>,
    pub(super) addresses: Vec<AddressSpec>,
    pub(super) neighbours: Vec<NeighbourSpec>,
    pub(super) routes: Vec<Route>,
    /// Routes in addition to the computed ones, each with its purpose: for programs that send to multicast groups
    /// and name no interface, and for management.
    pub(super) own_routes: Vec<(&'static str, Route)>,
    /// Whether the node has the rule of management.
    pub(super) managed: bool,
    pub(super) rules: Vec<Rule>,
    /// Whether it forwards IPv4, and IPv6.
    pub(super) forwards: [bool; 2],
    /// Whether each port has the program that forwards by the map.
    by_map: bool,
    /// Whether the scenario has programs on the path that redirect packets to themselves.
    redirected: bool,
}

impl Wanted {
    /// Returns the stack of a new node: Constel's settings and the kernel's additions, without anything that
    /// changes over time.
    pub(super) fn fresh(blueprint: &Blueprint, node: NodeId, by_map: bool) -> Self {
        let (v4, v6) = (blueprint.families.ipv4, blueprint.families.ipv6);
        let setup = blueprint.setup(node);
        let transport = &blueprint.lab.scenario.transport;
        let mut wanted = Self {
            by_map,
            redirected: transport.leotp.is_some() || transport.split_tcp.is_some(),
            links: vec![WantedLink {
                origin: Origin::Kernel,
                ifindex: LOOPBACK_IFINDEX,
                name: "lo".to_owned(),
                mac: None,
                mtu: None,
                group: None,
            }],
            ..Self::default()
        };
        wanted.own_routes = multicast_route(&setup)
            .map(|route| ("multicast", route))
            .into_iter()
            .collect();
        let mut address = |ifindex, addr: IpAddr, len| {
            let prefix = IpPrefix { addr, len };
            wanted.addresses.push(AddressSpec::new(ifindex, prefix));
        };
        // The kernel adds these addresses itself.
        address(LOOPBACK_IFINDEX, Ipv4Addr::LOCALHOST.into(), 8);
        if v6 {
            address(LOOPBACK_IFINDEX, Ipv6Addr::LOCALHOST.into(), 128);
        }
        for own in setup.loopback {
            address(LOOPBACK_IFINDEX, own, if own.is_ipv4() { 32 } else { 128 });
        }
        let ports = blueprint.lab.layout.ports_of(node).iter();
        let ports = ports.filter(|port| port.attachment == Attachment::Veth);
        for port in ports {
            let ifindex = node_ifindex(port);
            let own = blueprint.addresses.port(port.id);
            // The kernel derives the link-local address from the MAC address, if frames are long enough for IPv6.
            if v6 && port.mtu_bytes >= IPV6_LEAST_MTU {
                address(ifindex, own.v6_link_local.into(), 64);
            }
            wanted.links.push(WantedLink {
                origin: Origin::Port(port.id),
                ifindex,
                name: port.name().to_owned(),
                mac: Some(Mac(own.mac)),
                mtu: Some(port.mtu_bytes),
                group: by_map.then(|| Forwarder::group(node.0)),
            });
        }
        for port in setup.ports {
            if let Some((addr, len)) = port.address {
                let prefix = IpPrefix { addr, len };
                let spec = AddressSpec::new(port.ifindex, prefix);
                wanted.addresses.push(spec);
            }
            let known = port.neighbours.iter();
            wanted.neighbours.extend(known.map(spec));
        }
        let families = [(true, v4), (false, v6)];
        let spoken = families.into_iter().filter(|(_, spoken)| *spoken);
        wanted.forwards = [v4, v6];
        wanted.rules = spoken.flat_map(|(ipv4, _)| Rule::born(ipv4)).collect();
        wanted
    }

    /// Adds the node's management port, if it has one.
    pub(super) fn manage(&mut self, own: &Management, node: NodeId) {
        let Some((address, route)) = port_of(own, node) else {
            return;
        };
        self.links.push(WantedLink {
            origin: Origin::Management,
            ifindex: MANAGEMENT_IFINDEX,
            name: MANAGEMENT_PORT.to_owned(),
            mac: None,
            mtu: None,
            group: None,
        });
        self.addresses.push(address);
        self.own_routes.push(("management", route));
        self.managed = true;
    }

    /// Returns the differences of a stack, and of its routes if these are Constel's. Consequences of an interface
    /// that is down or missing are not listed separately.
    pub(super) fn differences(
        &self,
        stack: &Stack,
        routes: Option<&[InstalledRoute]>,
    ) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut usable = Vec::new();
        for link in &self.links {
            match stack.link(link.ifindex) {
                Some(now) if link.is_still(now) => {
                    link.differences(now, &mut found);
                    if now.up {
                        usable.push(link.ifindex);
                    }
                }
                _ => found.push(Finding {
                    about: format!("interface {}", link.ifindex),
                    words: format!("{} is gone", link.name),
                    cure: match link.origin {
                        Origin::Kernel => Cure::Node,
                        Origin::Port(port) => Cure::Port(port),
                        Origin::Management => Cure::Management,
                    },
                }),
            }
        }
        // Only interfaces that exist and are up can have addresses, neighbours and routes.
        let usable = |ifindex: u32| usable.contains(&ifindex);
        self.lost_addresses(stack, usable, &mut found);
        self.lost_neighbours(stack, usable, &mut found);
        // Rules, queueing disciplines, forwarding and filters do not depend on an interface that is up.
        self.rules(stack, &mut found);
        self.own_qdiscs(stack, &mut found);
        self.switches(stack, &mut found);
        self.own_filters(stack, &mut found);
        if let Some(routes) = routes {
            self.lost_with_addresses(stack, routes, usable, &mut found);
            self.lost_routes(routes, usable, &mut found);
            self.preceded_routes(routes, &mut found);
        }
        found
    }

    fn name(&self, ifindex: u32) -> &str {
        let link = self.links.iter().find(|link| link.ifindex == ifindex);
        link.map_or("?", |link| &link.name)
    }

    fn lost_addresses(
        &self,
        stack: &Stack,
        usable: impl Fn(u32) -> bool,
        found: &mut Vec<Finding>,
    ) {
        let lost = self.addresses.iter().filter(|own| {
            let known = stack.has_address(own.ifindex, own.local);
            !known && usable(own.ifindex)
        });
        found.extend(lost.map(|own| Finding {
            about: format!("address {}", own.local),
            words: format!("{} has lost {}", self.name(own.ifindex), own.local),
            cure: Cure::Requests(vec![Request::Address(own.ifindex, own.local)]),
        }));
    }

    fn lost_neighbours(
        &self,
        stack: &Stack,
        usable: impl Fn(u32) -> bool,
        found: &mut Vec<Finding>,
    ) {
        for link in &self.links {
            let own = self.neighbours.iter();
            let own: Vec<&NeighbourSpec> = own.filter(|n| n.ifindex == link.ifindex).collect();
            // An entry with another MAC address counts as lost too.
            let lost = own
                .iter()
                .filter(|n| stack.permanent(n.ifindex, n.addr) != Some(n.mac));
            let cure: Vec<Request> = lost.map(|n| Request::Neighbour(**n)).collect();
            if cure.is_empty() || !usable(link.ifindex) {
                continue;
            }
            found.push(Finding {
                about: format!("neighbours {}", link.ifindex),
                words: format!(
                    "{} has lost {} of {} neighbours",
                    link.name,
                    cure.len(),
                    own.len()
                ),
                cure: Cure::Requests(cure),
            });
        }
    }

    fn rules(&self, stack: &Stack, found: &mut Vec<Finding>) {
        let lost = self.rules.iter().filter(|rule| {
            let same = |now: &&Rule| {
                // Only a rule without further conditions is the kernel's original rule.
                (now.ipv4, now.priority, now.table, now.plain)
                    == (rule.ipv4, rule.priority, rule.table, true)
            };
            !stack.rules.iter().any(|now| same(&now))
        });
        found.extend(lost.map(|rule| Finding {
            about: format!("rule {rule:?}"),
            words: format!(
                "the {} rule {} (table {}) is lost",
                if rule.ipv4 { "IPv4" } else { "IPv6" },
                rule.priority,
                rule.table
            ),
            cure: Cure::Requests(vec![Request::Rule(*rule)]),
        }));
        if self.managed && !stack.rules.iter().any(is_own_rule) {
            found.push(Finding {
                about: "rule of management".to_owned(),
                words: "the rule of management is lost".to_owned(),
                cure: Cure::Requests(vec![Request::ManagementRule]),
            });
        }
        let own = stack.rules.iter().filter(|now| {
            let born = |rule: &&Rule| (rule.priority, rule.table) == (now.priority, now.table);
            // Other rules are the node's own, and are reported but never removed.
            !now.is_ours()
                && !self.redirects(now)
                && !Rule::born(now.ipv4).iter().any(|rule| born(&rule))
        });
        let own = own.count();
        if own > 0 {
            found.push(Finding {
                about: "rules of its own".to_owned(),
                words: format!("rules of its own: {own}"),
                cure: Cure::Node,
            });
        }
    }
}

impl WantedLink {
    /// Returns whether the interface with its index is still the original one.
    fn is_still(&self, now: &LinkInfo) -> bool {
        self.origin == Origin::Kernel || now.kind.as_deref() == Some("veth")
    }

    fn differences(&self, now: &LinkInfo, found: &mut Vec<Finding>) {
        let (index, name) = (self.ifindex, &self.name);
        let mut differs = |what: &str, words: String, cure: Cure| {
            found.push(Finding {
                about: format!("{what} {index}"),
                words,
                cure,
            });
        };
        let asks = |request| Cure::Requests(vec![request]);
        // Name, MAC, MTU, group and ARP are restored by requests. An interface that is down or enslaved, or has a
        // program, was changed by the node on purpose.
        if !now.up {
            differs("up", format!("{name} is down"), Cure::Node);
        }
        if now.name != *name {
            let words = format!("{name} is called {}", now.name);
            differs("name", words, asks(Request::Name(index, name.clone())));
        }
        if !now.arp {
            let words = format!("{name} has ARP switched off");
            differs("arp", words, asks(Request::Arp(index)));
        }
        if now.xdp {
            let words = format!("{name} passes its frames to an XDP program of the node's own");
            differs("xdp", words, Cure::Node);
        }
        if let Some(master) = now.master_ifindex {
            let words = format!("{name} is part of interface {master}");
            differs("master", words, Cure::Node);
        }
        if let Some(mac) = self.mac.filter(|mac| now.mac != Some(*mac)) {
            let has = now
                .mac
                .map_or_else(|| "none".to_owned(), |mac| mac.to_string());
            let words = format!("{name} has the MAC address {has} instead of {mac}");
            differs("mac", words, asks(Request::Mac(index, mac)));
        }
        if let Some(mtu) = self.mtu.filter(|mtu| now.mtu != *mtu) {
            let words = format!("{name} has an MTU of {} instead of {mtu} bytes", now.mtu);
            differs("mtu", words, asks(Request::Mtu(index, mtu)));
        }
        if let Some(group) = self.group.filter(|group| now.group != *group) {
            let words = format!("{name} is in group {} instead of {group}", now.group);
            differs("group", words, asks(Request::Group(index, group)));
        }
    }
}

#[cfg(test)]
mod tests;
