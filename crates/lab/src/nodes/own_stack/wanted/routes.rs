//! Routes that a stack has lost: those that came with addresses, and computed ones.

use std::collections::BTreeSet;
use std::net::IpAddr;

use constel_host::netlink::{
    InstalledRoute, IpPrefix, NextHop, ROUTE_PROTOCOL, Route, RouteTarget, Stack,
};
use constel_plan::LOOPBACK_IFINDEX;

use super::{Cure, Finding, Request, Wanted};
use crate::routing::tables::MAIN;

/// The kernel's default metric of an IPv6 route.
const IPV6_METRIC: u32 = 1024;
/// The metric of routes that come with IPv6 addresses.
const IPV6_CONNECTED_METRIC: u32 = 256;
/// `RTPROT_KERNEL` and `RTN_LOCAL` of the kernel's `rtnetlink.h`.
pub(super) const OF_KERNEL: u8 = 2;
pub(super) const LOCAL: u8 = 2;
/// `RT_TABLE_LOCAL`, which rule 0 looks up before all others.
const TABLE_LOCAL: u32 = 255;

impl Wanted {
    /// Finds lost routes that the kernel created with addresses: the local route of the address, and the route to
    /// its subnet.
    pub(super) fn lost_with_addresses(
        &self,
        stack: &Stack,
        routes: &[InstalledRoute],
        usable: impl Fn(u32) -> bool,
        found: &mut Vec<Finding>,
    ) {
        let there = self.addresses.iter().filter(|own| {
            let known = stack.has_address(own.ifindex, own.local);
            known && usable(own.ifindex)
        });
        for own in there {
            let (name, local) = (self.name(own.ifindex), own.local);
            let host = IpPrefix::host(local.addr);
            let mut all = routes.iter();
            if !all.any(|now| now.kind == LOCAL && now.dst == host) {
                found.push(Finding {
                    about: format!("local {local}"),
                    words: format!("{name} takes no packets for {}", local.addr),
                    cure: Cure::Requests(vec![Request::Renewed(own.ifindex, local)]),
                });
                // The renewed address brings both routes back, so that the second is not checked.
                continue;
            }
            let (ifindex, net) = (own.ifindex, network(local));
            let leads = |now: &InstalledRoute| {
                now.dst == net
                    && now.table == MAIN
                    && hops(&now.target).any(|hop| hop == Some(ifindex))
            };
            // A host prefix has no subnet route.
            if ifindex == LOOPBACK_IFINDEX || net == host || routes.iter().any(leads) {
                continue;
            }
            let is_v4 = local.addr.is_ipv4();
            let route = Route {
                protocol: OF_KERNEL,
                prefsrc: Some(local.addr).filter(|_| is_v4),
                metric: (!is_v4).then_some(IPV6_CONNECTED_METRIC),
                ..Route::new(net, RouteTarget::Hop(NextHop::dev(ifindex)))
            };
            found.push(Finding {
                about: format!("subnet {local}"),
                words: format!("{name} has lost the route to {net}"),
                cure: Cure::Requests(vec![Request::Connected(route)]),
            });
        }
    }

    pub(super) fn lost_routes(
        &self,
        routes: &[InstalledRoute],
        usable: impl Fn(u32) -> bool,
        found: &mut Vec<Finding>,
    ) {
        // A route over an interface that is down or missing cannot be restored.
        let possible = |route: &&Route| hops(&route.target).all(|hop| hop.is_none_or(&usable));
        let own = self.own_routes.iter().filter(|(_, route)| possible(&route));
        let computed = self.routes.iter().filter(possible);
        // A table may have thousands of routes: each is searched among those of its destination.
        let mut known: Vec<&InstalledRoute> = routes
            .iter()
            .filter(|now| now.protocol == ROUTE_PROTOCOL)
            .collect();
        known.sort_by_key(|now| now.dst);
        let is_lost = |route: &&Route| {
            let first = known.partition_point(|now| now.dst < route.dst);
            let of_dst = known[first..]
                .iter()
                .take_while(|now| now.dst == route.dst)
                .filter(|now| now.table == route.table);
            !of_dst.into_iter().any(|now| is_same(route, now))
        };
        for (purpose, route) in own.filter(|(_, route)| is_lost(&route)) {
            found.push(Finding {
                about: (*purpose).to_owned(),
                words: format!("the route for {purpose} is lost"),
                cure: Cure::Requests(vec![Request::Route(route.clone())]),
            });
        }
        let lost = computed.filter(is_lost);
        let cure: Vec<Request> = lost.map(|route| Request::Route(route.clone())).collect();
        if !cure.is_empty() {
            found.push(Finding {
                about: "routes".to_owned(),
                words: format!(
                    "{} of {} computed routes are lost",
                    cure.len(),
                    self.routes.len()
                ),
                cure: Cure::Requests(cure),
            });
        }
    }
}

impl Wanted {
    /// Finds computed routes that never apply, because the kernel finds a route of another program first.
    pub(super) fn preceded_routes(&self, routes: &[InstalledRoute], found: &mut Vec<Finding>) {
        // Tables may have thousands of routes: both sides are searched by destination.
        let mut wanted: Vec<&Route> = self.routes.iter().collect();
        wanted.sort_by_key(|route| route.dst);
        let mut ours = BTreeSet::new();
        let mut preceded = BTreeSet::new();
        for now in routes {
            if now.protocol == ROUTE_PROTOCOL {
                ours.insert((now.table, now.dst));
                continue;
            }
            let local = now.table == TABLE_LOCAL;
            let first = wanted.partition_point(|route| route.dst < now.dst);
            let within = wanted[first..].iter().take_while(|route| match local {
                true => now.dst.contains(route.dst.addr),
                false => now.dst == route.dst,
            });
            for route in within {
                let key = (route.table, route.dst);
                let same = now.table == route.table;
                let earlier = match route.dst.addr {
                    _ if local => true,
                    // Routes to one destination are listed in the order in which the kernel tries them.
                    IpAddr::V4(_) => same && !ours.contains(&key),
                    IpAddr::V6(_) => same && now.metric < route.metric.unwrap_or(IPV6_METRIC),
                };
                if earlier {
                    preceded.insert(key);
                }
            }
        }
        // A route in place of ours is lost, and reported as that.
        preceded.retain(|key| ours.contains(key));
        if !preceded.is_empty() {
            found.push(Finding {
                about: "preceded routes".to_owned(),
                words: format!(
                    "routes of its own come before {} of {} computed routes",
                    preceded.len(),
                    wanted.len()
                ),
                cure: Cure::Node,
            });
        }
    }
}

/// Returns the subnet of an address.
pub(super) fn network(own: IpPrefix) -> IpPrefix {
    let addr = match own.addr {
        IpAddr::V4(addr) => {
            // A shift by the whole width (length 0) has no result, and the mask is 0.
            let mask = u32::MAX.checked_shl(32 - u32::from(own.len)).unwrap_or(0);
            IpAddr::V4((u32::from(addr) & mask).into())
        }
        IpAddr::V6(addr) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(own.len)).unwrap_or(0);
            IpAddr::V6((u128::from(addr) & mask).into())
        }
    };
    IpPrefix { addr, len: own.len }
}

/// Returns the interfaces of a route's next hops.
fn hops(target: &RouteTarget) -> impl Iterator<Item = Option<u32>> + '_ {
    let hops = match target {
        RouteTarget::Hop(hop) => std::slice::from_ref(hop),
        RouteTarget::Multipath(hops) => hops,
        RouteTarget::Unreachable | RouteTarget::Blackhole => &[],
    };
    hops.iter().map(|hop| hop.ifindex)
}

/// Returns whether an installed route equals this one.
fn is_same(route: &Route, now: &InstalledRoute) -> bool {
    let default = if route.dst.addr.is_ipv4() {
        0
    } else {
        IPV6_METRIC
    };
    now.metric == route.metric.unwrap_or(default)
        && now.prefsrc == route.prefsrc
        && leads_as(&now.target, &route.target)
}

/// Returns whether two targets have the same next hops in any order: the kernel does not keep the order for IPv6.
fn leads_as(now: &RouteTarget, wanted: &RouteTarget) -> bool {
    let sorted = |hops: &[NextHop]| {
        let mut hops = hops.to_vec();
        hops.sort();
        hops
    };
    match (now, wanted) {
        (RouteTarget::Multipath(now), RouteTarget::Multipath(wanted)) => {
            sorted(now) == sorted(wanted)
        }
        _ => now == wanted,
    }
}
