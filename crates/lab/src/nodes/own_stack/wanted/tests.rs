use super::filters::ROOT;
use super::routes::{LOCAL, OF_KERNEL, network};
use super::*;
use crate::routing::tables::MAIN;
use crate::testing::{blueprint, computed_iridium};
use constel_host::netlink::{
    Address, Batch, Conf, Filter, Neighbour, NextHop, QdiscInfo, ROUTE_PROTOCOL, RouteTarget,
};

/// The settings that a fresh node should have, with a route over its first port.
fn wanted() -> Wanted {
    let blueprint = blueprint(&computed_iridium());
    let mut wanted = Wanted::fresh(&blueprint, NodeId(0), false);
    let (first, second) = (wanted.links[1].ifindex, wanted.links[2].ifindex);
    for (n, ifindex) in [(1, first), (2, second)] {
        let via = "fe80::1".parse().unwrap();
        let dst = IpPrefix::host(format!("10.99.0.{n}").parse().unwrap());
        let route = Route::new(dst, RouteTarget::Hop(NextHop::via(ifindex, via)));
        wanted.routes.push(route);
    }
    wanted
}

/// A stack that is as it was made.
fn made(wanted: &Wanted) -> (Stack, Vec<InstalledRoute>) {
    let link = |link: &WantedLink| LinkInfo {
        ifindex: link.ifindex,
        name: link.name.clone(),
        mac: link.mac,
        mtu: link.mtu.unwrap_or(65_536),
        up: true,
        carrier: true,
        arp: true,
        xdp: false,
        alias: None,
        group: 0,
        qdisc: Some("noqueue".to_owned()),
        kind: (link.origin != Origin::Kernel).then(|| "veth".to_owned()),
        master_ifindex: None,
        peer_ifindex: None,
        peer_netnsid: None,
        queues: (1, 1),
        tx_queue_len: 1_000,
        gso_max_size: 65_536,
        gso_max_segs: 64,
    };
    let address = |own: &AddressSpec| Address {
        ifindex: own.ifindex,
        local: own.local,
        peer: None,
        flags: 0,
    };
    let neighbour = |own: &NeighbourSpec| Neighbour {
        ifindex: own.ifindex,
        addr: own.addr,
        mac: Some(own.mac),
        state: 0x80,
    };
    let route = |own: &Route| InstalledRoute {
        dst: own.dst,
        target: own.target.clone(),
        prefsrc: own.prefsrc,
        metric: 0,
        protocol: ROUTE_PROTOCOL,
        table: own.table,
        kind: 1,
    };
    let conf = |ifindex| Conf {
        ifindex,
        forwards: true,
        rp_filter: 0,
    };
    let stack = Stack {
        links: wanted.links.iter().map(link).collect(),
        addresses: wanted.addresses.iter().map(address).collect(),
        neighbours: wanted.neighbours.iter().map(neighbour).collect(),
        rules: wanted.rules.clone(),
        qdiscs: Vec::new(),
        forwards: [true; 2],
        ipv4: std::iter::once(None)
            .chain(wanted.links.iter().map(|link| Some(link.ifindex)))
            .map(conf)
            .collect(),
        filters: Vec::new(),
    };
    let mut routes: Vec<InstalledRoute> = wanted.routes.iter().map(route).collect();
    for own in &wanted.addresses {
        let of_kernel = |dst, kind, table| InstalledRoute {
            protocol: OF_KERNEL,
            kind,
            table,
            ..route(&Route::new(
                dst,
                RouteTarget::Hop(NextHop::dev(own.ifindex)),
            ))
        };
        routes.push(of_kernel(IpPrefix::host(own.local.addr), LOCAL, 255));
        routes.push(of_kernel(network(own.local), 1, MAIN));
    }
    routes.extend(wanted.own_routes.iter().map(|(_, own)| route(own)));
    (stack, routes)
}

/// The differences that a change makes, in words.
fn after(change: impl FnOnce(&mut Stack, &mut Vec<InstalledRoute>)) -> Vec<Finding> {
    let wanted = wanted();
    let (mut stack, mut routes) = made(&wanted);
    assert_eq!(wanted.differences(&stack, Some(&routes)), []);
    change(&mut stack, &mut routes);
    wanted.differences(&stack, Some(&routes))
}

fn words(found: &[Finding]) -> Vec<&str> {
    found.iter().map(|found| found.words.as_str()).collect()
}

#[test]
fn an_interface_that_is_off_is_said_and_what_follows_from_it_is_not() {
    let found = after(|stack, routes| {
        let down = stack.links[1].ifindex;
        stack.links[1].up = false;
        stack.addresses.retain(|own| own.ifindex != down);
        stack.neighbours.retain(|own| own.ifindex != down);
        routes.remove(0);
    });
    let name = &wanted().links[1].name;
    assert_eq!(words(&found), [format!("{name} is down")]);
    assert_eq!(found[0].cure, Cure::Node, "it is the node's to switch on");
}

#[test]
fn an_interface_that_is_gone_or_another_is_made_again() {
    let Origin::Port(port) = wanted().links[1].origin else {
        panic!("its first interface is no port");
    };
    let gone = after(|stack, _| drop(stack.links.remove(1)));
    assert_eq!(gone[0].cure, Cure::Port(port), "{gone:?}");
    let other = after(|stack, _| stack.links[1].kind = Some("bridge".to_owned()));
    assert_eq!(other[0].cure, Cure::Port(port), "{other:?}");
}

#[test]
fn everything_that_is_lost_is_asked_for_again() {
    let found = after(|stack, routes| {
        stack.addresses.clear();
        stack.neighbours.clear();
        stack.rules.clear();
        routes.clear();
    });
    let wanted = wanted();
    let asked = found.iter().flat_map(|found| match &found.cure {
        Cure::Requests(requests) => requests.clone(),
        other => panic!("{other:?}"),
    });
    let count = asked.count();
    let all =
        wanted.addresses.len() + wanted.neighbours.len() + wanted.rules.len() + wanted.routes.len();
    assert_eq!(count, all + wanted.own_routes.len());
    assert!(words(&found).contains(&"2 of 2 computed routes are lost"));
}

#[test]
fn a_table_that_is_flushed_gets_the_routes_of_addresses_back_too() {
    let main = after(|_, routes| routes.retain(|route| route.table != MAIN));
    let lost =
        |found: &[Finding], words: &str| found.iter().filter(|f| f.words.contains(words)).count();
    let wanted = wanted();
    let on_ports = wanted.addresses.iter().filter(|own| own.ifindex != 1);
    let subnets = on_ports.filter(|own| network(own.local) != IpPrefix::host(own.local.addr));
    assert_eq!(lost(&main, "has lost the route to"), subnets.count());
    assert_eq!(lost(&main, "computed routes are lost"), 1);
    let all = after(|_, routes| routes.clear());
    assert_eq!(lost(&all, "takes no packets for"), wanted.addresses.len());
}

#[test]
fn what_an_interface_is_like_is_restored() {
    let found = after(|stack, _| {
        let link = &mut stack.links[1];
        link.name = "wan".to_owned();
        link.mac = Some(Mac([2; 6]));
        link.mtu = 600;
    });
    assert_eq!(found.len(), 3);
    assert!(
        found
            .iter()
            .all(|found| matches!(&found.cure, Cure::Requests(all) if all.len() == 1))
    );
    let mut batch = Batch::new();
    for found in &found {
        if let Cure::Requests(requests) = &found.cure {
            requests
                .iter()
                .for_each(|request| request.put(&mut batch).unwrap());
        }
    }
    assert_eq!(batch.len(), 3);
}

#[test]
fn routes_of_others_are_no_difference_and_another_route_in_place_of_ours_is() {
    let other = |route: &InstalledRoute| InstalledRoute {
        protocol: 4,
        ..route.clone()
    };
    let beside = after(|_, routes| {
        let own = InstalledRoute {
            dst: IpPrefix::host("10.98.0.1".parse().unwrap()),
            ..other(&routes[0])
        };
        routes.insert(0, own);
    });
    assert_eq!(beside, []);
    let instead = after(|_, routes| routes[0] = other(&routes[0]));
    assert_eq!(words(&instead), ["1 of 2 computed routes are lost"]);
}

#[test]
fn a_switch_or_a_thing_of_the_nodes_own_is_reported_and_left() {
    let found = after(|stack, _| {
        stack.forwards = [false, true];
        stack.rules.push(Rule {
            priority: 5,
            plain: false,
            protocol: 0,
            ..Rule::born(true)[1]
        });
        stack.qdiscs.push(QdiscInfo {
            ifindex: stack.links[1].ifindex,
            kind: "tbf".to_owned(),
            handle: 0x10_0000,
            parent: ROOT,
        });
    });
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|found| found.cure == Cure::Node));
}

#[test]
fn a_packet_filter_of_any_kind_is_reported_and_left() {
    let table = |kind: &str, name: &str| Filter::Table {
        kind: kind.to_owned(),
        name: name.to_owned(),
    };
    let wanted = wanted();
    let first = &wanted.links[1];
    let found = after(|stack, _| {
        stack.links[1].xdp = true;
        stack.qdiscs.push(QdiscInfo {
            ifindex: first.ifindex,
            kind: "clsact".to_owned(),
            handle: 0xffff_0000,
            parent: 0xffff_fff1,
        });
        stack.filters = vec![
            table("nftables inet", "leotp_own"),
            table("iptables", "filter"),
            Filter::Policies(2),
            Filter::Programs {
                ifindex: first.ifindex,
                count: 1,
            },
        ];
        let above = LinkInfo {
            ifindex: 900,
            name: "mv0".to_owned(),
            kind: Some("macvlan".to_owned()),
            peer_ifindex: Some(first.ifindex),
            ..stack.links[0].clone()
        };
        stack.links.push(above);
    });
    let name = &first.name;
    let words_of = [
        format!("{name} passes its frames to an XDP program of the node's own"),
        format!("{name} has traffic filters of the node's own: clsact"),
        // The scenario has no Midnodes: a table of that name is the node's own.
        "it has a packet filter: nftables inet leotp_own".to_owned(),
        "it has a packet filter: iptables filter".to_owned(),
        "it has a packet filter: IPsec, 2 policies".to_owned(),
        format!("{name} passes its frames to BPF programs of the node's own: 1"),
        format!("{name} passes frames to mv0 (macvlan)"),
    ];
    assert_eq!(words(&found), words_of);
    assert!(found.iter().all(|found| found.cure == Cure::Node));
}

#[test]
fn what_a_scenario_has_its_own_programs_do_is_no_difference() {
    let mut wanted = wanted();
    (wanted.by_map, wanted.redirected) = (true, true);
    let (mut stack, routes) = made(&wanted);
    stack.filters = vec![
        Filter::Table {
            kind: "nftables inet".to_owned(),
            name: "leotp_mid".to_owned(),
        },
        Filter::Programs {
            ifindex: wanted.links[1].ifindex,
            count: 1,
        },
    ];
    stack.rules.push(Rule {
        priority: 19_525,
        table: 77,
        plain: false,
        protocol: 0,
        ..Rule::born(true)[1]
    });
    assert_eq!(wanted.differences(&stack, Some(&routes)), []);
    // A second program is the node's.
    stack.filters[1] = Filter::Programs {
        ifindex: wanted.links[1].ifindex,
        count: 2,
    };
    let found = wanted.differences(&stack, Some(&routes));
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn switches_of_one_interface_are_reported_and_arp_is_switched_on() {
    let wanted = wanted();
    let (index, name) = (wanted.links[1].ifindex, &wanted.links[1].name);
    let found = after(|stack, _| {
        stack.links[1].arp = false;
        let conf = stack.ipv4.iter_mut();
        for conf in conf.filter(|conf| conf.ifindex == Some(index)) {
            (conf.forwards, conf.rp_filter) = (false, 1);
        }
    });
    let words_of = [
        format!("{name} has ARP switched off"),
        format!("{name} does not forward IPv4"),
        format!("{name} drops packets by their source (rp_filter 1)"),
    ];
    assert_eq!(words(&found), words_of);
    assert_eq!(found[0].cure, Cure::Requests(vec![Request::Arp(index)]));
    assert_eq!(found[1].cure, Cure::Node);
    // The switch of the whole namespace is one difference, and not one for each interface.
    let whole = after(|stack, _| {
        stack.forwards[0] = false;
        for conf in &mut stack.ipv4 {
            conf.forwards = false;
        }
        stack.ipv4[0].rp_filter = 1;
    });
    let words_of = [
        "it does not forward IPv4",
        "it drops packets by their source (rp_filter 1)",
    ];
    assert_eq!(words(&whole), words_of);
}

/// The kernel finds such routes before ours, which are all there.
#[test]
fn a_route_in_front_of_ours_is_reported() {
    let wanted = wanted();
    let other = |table, dst: &str, target| InstalledRoute {
        dst: dst.parse().unwrap(),
        target,
        prefsrc: None,
        metric: 0,
        protocol: 3,
        table,
        kind: 6,
    };
    let with = |own: InstalledRoute, first: bool| {
        after(|_, routes| match first {
            true => routes.insert(0, own),
            false => routes.push(own),
        })
    };
    let blackhole = || RouteTarget::Blackhole;
    let one = ["routes of its own come before 1 of 2 computed routes"];
    let prepended = with(other(MAIN, "10.99.0.1/32", blackhole()), true);
    assert_eq!(words(&prepended), one);
    assert_eq!(prepended[0].cure, Cure::Node);
    // Behind ours it is never used.
    assert_eq!(with(other(MAIN, "10.99.0.1/32", blackhole()), false), []);
    // A shorter prefix is looked up later in the main table, and before it in the local table.
    assert_eq!(with(other(MAIN, "10.99.0.0/16", blackhole()), true), []);
    let local = with(other(255, "10.99.0.0/16", blackhole()), false);
    assert_eq!(
        words(&local),
        ["routes of its own come before 2 of 2 computed routes"]
    );
    assert_eq!(with(other(255, "10.98.0.0/16", blackhole()), false), []);
    let six: IpPrefix = "fd99::1/128".parse().unwrap();
    let mut wanted = wanted;
    let via = NextHop::via(wanted.links[1].ifindex, "fe80::1".parse().unwrap());
    wanted.routes = vec![Route::new(six, RouteTarget::Hop(via))];
    let (stack, mut routes) = made(&wanted);
    routes[0].metric = 1_024;
    assert_eq!(wanted.differences(&stack, Some(&routes)), []);
    let beside = |metric| InstalledRoute {
        metric,
        ..other(MAIN, "fd99::1/128", blackhole())
    };
    routes.push(beside(2_000));
    assert_eq!(wanted.differences(&stack, Some(&routes)), []);
    routes.push(beside(1));
    let found = wanted.differences(&stack, Some(&routes));
    assert_eq!(
        words(&found),
        ["routes of its own come before 1 of 1 computed routes"]
    );
}
