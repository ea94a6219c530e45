//! Netlink against the real kernel, in namespaces that exist only here.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use constel_host::netlink::{
    AddressSpec, Batch, ChangeKind, ChangeMonitor, IpPrefix, LinkChange, Mac, NeighbourSpec,
    NextHop, ROUTE_PROTOCOL, Route, RouteTarget, Socket, VethEnd,
};
use constel_host::{Error, NetNs};

fn ip(s: &str) -> IpAddr {
    s.parse().unwrap()
}

fn prefix(s: &str) -> IpPrefix {
    s.parse().unwrap()
}

/// Two namespaces joined by a veth pair: index 70 in each, both up, `fe80::` addresses off.
struct Pair {
    a: NetNs,
    b: NetNs,
    sa: Socket,
    sb: Socket,
}

fn pair() -> Pair {
    let (a, b) = (NetNs::new().unwrap(), NetNs::new().unwrap());
    let (mut sa, mut sb) = (Socket::open_in(&a).unwrap(), Socket::open_in(&b).unwrap());
    let mut batch = Batch::new();
    let first = VethEnd {
        name: "left",
        ifindex: Some(70),
        mac: Some(Mac([2, 0, 0, 0, 0, 1])),
        mtu: Some(1400),
        tx_queue_len: Some(77),
        gso_max_size: Some(6000),
        gso_max_segs: Some(5),
        group: Some(42),
        up: true,
        ..VethEnd::default()
    };
    let second = VethEnd {
        name: "right",
        ifindex: Some(70),
        mac: Some(Mac([2, 0, 0, 0, 0, 2])),
        mtu: Some(1400),
        netns: Some(b.fd()),
        ..VethEnd::default()
    };
    batch.create_veth(&first, &second).unwrap();
    sa.send(&mut batch).unwrap();
    batch.link_up(70).link_up(1);
    sb.send(&mut batch).unwrap();
    Pair { a, b, sa, sb }
}

#[test]
fn veth_has_every_property_asked_for() {
    let mut p = pair();
    let l = p.sa.link_named("left").unwrap().unwrap();
    assert_eq!(
        (l.ifindex, l.mtu, l.tx_queue_len, l.group),
        (70, 1400, 77, 42)
    );
    assert_eq!(l.mac, Some(Mac([2, 0, 0, 0, 0, 1])));
    assert_eq!(
        (l.gso_max_size, l.gso_max_segs, l.queues),
        (6000, 5, (1, 1))
    );
    assert_eq!(l.kind.as_deref(), Some("veth"));
    assert!(l.up && l.carrier);
    assert_eq!(l.peer_ifindex, Some(70));
    let r = p.sb.link_named("right").unwrap().unwrap();
    assert_eq!((r.ifindex, r.up, r.queues), (70, true, (1, 1)));
    assert!(p.sa.link_named("right").unwrap().is_none());

    let mut b = Batch::new();
    let change = LinkChange {
        ifindex: 70,
        alias: Some("constel lab=t owner=1"),
        group: Some(43),
        link_local: Some(false),
        ..LinkChange::default()
    };
    b.change_link(&change).unwrap();
    p.sa.send(&mut b).unwrap();
    let l = p.sa.link_named("left").unwrap().unwrap();
    assert_eq!(l.alias.as_deref(), Some("constel lab=t owner=1"));
    assert_eq!(l.group, 43);
    b.delete_link(70);
    p.sa.send(&mut b).unwrap();
    assert!(p.sb.link_named("right").unwrap().is_none());
}

#[test]
fn both_ends_can_be_made_elsewhere() {
    let all = NetNs::create_many(3, None).unwrap();
    let mut s = Socket::open_in(&all[0]).unwrap();
    let end = |name, ns: usize| VethEnd {
        name,
        ifindex: Some(77),
        gso_max_size: Some(9000),
        netns: Some(all[ns].fd()),
        ..VethEnd::default()
    };
    let mut b = Batch::new();
    b.create_veth(
        &VethEnd {
            up: true,
            ..end("x", 1)
        },
        &end("y", 2),
    )
    .unwrap();
    s.send(&mut b).unwrap();
    assert_eq!(s.links().unwrap().len(), 1);
    let (mut s1, mut s2) = (
        Socket::open_in(&all[1]).unwrap(),
        Socket::open_in(&all[2]).unwrap(),
    );
    let x = s1.link_named("x").unwrap().unwrap();
    let y = s2.link_named("y").unwrap().unwrap();
    assert_eq!((x.ifindex, x.up, x.gso_max_size), (77, true, 9000));
    assert_eq!((y.ifindex, y.up, y.gso_max_size), (77, false, 9000));
    // Without an automatic link-local address, then with one.
    let change = |on| LinkChange {
        ifindex: 77,
        up: Some(true),
        link_local: Some(on),
        ..LinkChange::default()
    };
    s2.send(b.change_link(&change(false)).unwrap()).unwrap();
    assert_eq!(s2.addresses().unwrap(), []);
    s2.send(b.link_down(77)).unwrap();
    s2.send(b.change_link(&change(true)).unwrap()).unwrap();
    assert_eq!(s2.addresses().unwrap().len(), 1);
    // And one end can move on.
    let change = LinkChange {
        ifindex: 77,
        netns: Some(all[0].fd()),
        ..LinkChange::default()
    };
    s2.send(b.change_link(&change).unwrap()).unwrap();
    assert!(s.link_named("y").unwrap().is_some());
}

#[test]
fn addresses_routes_and_neighbours_are_what_was_asked_for() {
    // The whole pair must live: with the far namespace the interface would go.
    let mut p = pair();
    let sa = &mut p.sa;
    let mut b = Batch::new();
    b.add_address(&AddressSpec::new(70, prefix("10.1.0.1/24")));
    b.add_address(&AddressSpec::new(70, prefix("fd00::1/64")));
    let ptp = AddressSpec {
        peer: Some(ip("10.9.0.2")),
        no_prefix_route: true,
        ..AddressSpec::new(70, prefix("10.9.0.1/32"))
    };
    b.add_address(&ptp);
    b.add_route(&Route::via(prefix("10.2.0.0/16"), 70, ip("10.1.0.2")))
        .unwrap();
    b.add_route(&Route::via(prefix("fd02::/32"), 70, ip("fd00::2")))
        .unwrap();
    // IPv4 through an IPv6 gateway.
    b.add_route(&Route::via(prefix("10.3.0.0/16"), 70, ip("fe80::2")))
        .unwrap();
    let hops = vec![
        NextHop {
            weight: 3,
            ..NextHop::via(70, ip("10.1.0.2"))
        },
        NextHop::via(70, ip("10.1.0.3")),
    ];
    let many = Route {
        metric: Some(7),
        prefsrc: Some(ip("10.9.0.1")),
        ..Route::new(prefix("10.4.0.0/16"), RouteTarget::Multipath(hops.clone()))
    };
    b.add_route(&many).unwrap();
    b.add_route(&Route::new(prefix("10.5.0.0/16"), RouteTarget::Unreachable))
        .unwrap();
    b.add_route(&Route::new(prefix("fd05::/16"), RouteTarget::Blackhole))
        .unwrap();
    let n4 = NeighbourSpec {
        ifindex: 70,
        addr: ip("10.1.0.2"),
        mac: Mac([2, 0, 0, 0, 0, 2]),
    };
    let n6 = NeighbourSpec {
        addr: ip("fd00::2"),
        ..n4
    };
    b.replace_neighbour(&n4).replace_neighbour(&n6);
    sa.send(&mut b).unwrap();

    let addrs = sa.addresses().unwrap();
    let has = |p: &str| addrs.iter().find(|a| a.local == prefix(p));
    assert!(has("10.1.0.1/24").is_some());
    assert!(
        !has("fd00::1/64").unwrap().is_tentative(),
        "no duplicate address detection"
    );
    assert_eq!(has("10.9.0.1/32").unwrap().peer, Some(ip("10.9.0.2")));

    let ours: Vec<_> = sa
        .routes()
        .unwrap()
        .into_iter()
        .filter(|r| r.protocol == ROUTE_PROTOCOL)
        .collect();
    assert_eq!(ours.len(), 6, "{ours:#?}");
    let find = |p: &str| ours.iter().find(|r| r.dst == prefix(p)).unwrap();
    let hop = |via: &str| RouteTarget::Hop(NextHop::via(70, ip(via)));
    assert_eq!(find("10.2.0.0/16").target, hop("10.1.0.2"));
    assert_eq!(find("fd02::/32").target, hop("fd00::2"));
    assert_eq!(find("10.3.0.0/16").target, hop("fe80::2"));
    assert_eq!(find("10.4.0.0/16").target, RouteTarget::Multipath(hops));
    assert_eq!(find("10.4.0.0/16").metric, 7);
    assert_eq!(find("10.4.0.0/16").prefsrc, Some(ip("10.9.0.1")));
    assert_eq!(find("10.5.0.0/16").target, RouteTarget::Unreachable);
    assert_eq!(find("fd05::/16").target, RouteTarget::Blackhole);

    let neigh = sa.neighbours().unwrap();
    for want in [n4, n6] {
        let n = neigh.iter().find(|n| n.addr == want.addr).unwrap();
        assert_eq!((n.mac, n.state), (Some(want.mac), 0x80));
    }

    // Replace in one step, then delete.
    b.replace_route(&Route::via(prefix("10.2.0.0/16"), 70, ip("10.1.0.9")))
        .unwrap();
    b.replace_route(&Route::via(prefix("fd02::/32"), 70, ip("fd00::9")))
        .unwrap();
    b.delete_route(&many).unwrap();
    sa.send(&mut b).unwrap();
    let routes = sa.routes().unwrap();
    let find = |p: &str| {
        routes
            .iter()
            .filter(|r| r.dst == prefix(p))
            .collect::<Vec<_>>()
    };
    assert_eq!(find("10.2.0.0/16").len(), 1);
    assert_eq!(find("10.2.0.0/16")[0].target, hop("10.1.0.9"));
    assert_eq!(find("fd02::/32").len(), 1);
    assert_eq!(find("fd02::/32")[0].target, hop("fd00::9"));
    assert!(find("10.4.0.0/16").is_empty());
}

#[test]
fn refused_requests_are_named_and_the_others_done() {
    let mut p = pair();
    let mut b = Batch::new();
    let end = |name| VethEnd {
        name,
        ..VethEnd::default()
    };
    b.create_veth(&end("h12"), &end("isl0")).unwrap();
    b.create_veth(&end("h12"), &end("isl1")).unwrap();
    b.link_up(999);
    b.add_route(&Route::via(prefix("10.2.0.0/16"), 70, ip("192.0.2.1")))
        .unwrap();
    b.create_veth(&end("h13"), &end("isl3")).unwrap();
    b.delete_link(998).tolerate(libc::ENODEV);
    let Err(Error::Batch(e)) = p.sa.send(&mut b) else {
        panic!("must fail")
    };
    assert!(b.is_empty());
    assert_eq!(e.total, 6);
    let named: Vec<_> = e
        .failures
        .iter()
        .map(|f| (f.index, &f.what[..], f.errno))
        .collect();
    assert_eq!(
        named,
        [
            (1, "create veth h12/isl1", libc::EEXIST),
            (2, "change interface 999 to up", libc::ENODEV),
            (
                3,
                "add route 10.2.0.0/16 via 192.0.2.1 on interface 70",
                libc::ENETUNREACH
            ),
        ]
    );
    assert_eq!(
        e.failures[3 - 1].explanation.as_deref(),
        Some("Nexthop has invalid gateway")
    );
    let text = e.to_string();
    assert!(
        text.starts_with("create veth h12/isl1: File exists; "),
        "{text}"
    );
    assert!(text.ends_with("(3 of 6 requests failed)"), "{text}");
    for name in ["h12", "isl0", "h13", "isl3"] {
        assert!(p.sa.link_named(name).unwrap().is_some(), "{name}");
    }
    // The socket is as good as new.
    b.link_up(70);
    p.sa.send(&mut b).unwrap();
}

#[test]
fn more_failures_than_a_chunk_are_all_reported() {
    let ns = NetNs::new().unwrap();
    let mut s = Socket::open_in(&ns).unwrap();
    let mut b = Batch::new();
    const N: usize = 10_000;
    for i in 0..N {
        b.link_up(1_000 + i as u32);
    }
    let Err(Error::Batch(e)) = s.send(&mut b) else {
        panic!("must fail")
    };
    assert_eq!(e.failures.len(), N);
    assert!(
        e.failures
            .iter()
            .enumerate()
            .all(|(i, f)| f.index == i && f.errno == libc::ENODEV)
    );
    assert_eq!(
        e.failures[N - 1].what,
        format!("change interface {} to up", 1_000 + N - 1)
    );
}

#[test]
fn impossible_requests_are_refused_before_the_kernel() {
    let mut b = Batch::new();
    let end = |name| VethEnd {
        name,
        ..VethEnd::default()
    };
    for bad in [
        "",
        "0123456789abcdef",
        "a/b",
        "a b",
        "x%d",
        "..",
        "a:b",
        "\u{fc}",
    ] {
        assert!(b.create_veth(&end(bad), &end("ok")).is_err(), "{bad:?}");
    }
    let up = VethEnd {
        up: true,
        ..end("y")
    };
    assert!(b.create_veth(&end("x"), &up).is_err());
    let indexed = VethEnd {
        ifindex: Some(75),
        ..end("y")
    };
    assert!(b.create_veth(&end("x"), &indexed).is_err());
    assert!(
        b.add_route(&Route::via(prefix("fd00::/8"), 1, ip("10.0.0.1")))
            .is_err()
    );
    let none = Route::new(prefix("10.0.0.0/8"), RouteTarget::Multipath(vec![]));
    assert!(b.add_route(&none).is_err());
    assert!(b.is_empty());
    assert!("10.0.0.0/33".parse::<IpPrefix>().is_err());
}

#[test]
fn monitor_sees_every_change_and_only_in_its_namespace() {
    let mut p = pair();
    let mut ma = ChangeMonitor::open_in(&p.a).unwrap();
    let mut mb = ChangeMonitor::open_in(&p.b).unwrap();
    let mut b = Batch::new();
    b.add_address(&AddressSpec::new(70, prefix("10.1.0.1/24")));
    let route = Route::via(prefix("10.2.0.0/16"), 70, ip("10.1.0.2"));
    b.add_route(&route).unwrap();
    b.delete_route(&route).unwrap();
    p.sa.send(&mut b).unwrap();
    let seen = ma.drain().unwrap();
    let ours: Vec<_> = seen
        .iter()
        .filter_map(|c| match &c.what {
            ChangeKind::Route(r) if r.protocol == ROUTE_PROTOCOL => Some((c.deleted, r.dst)),
            _ => None,
        })
        .collect();
    assert_eq!(
        ours,
        [
            (false, prefix("10.2.0.0/16")),
            (true, prefix("10.2.0.0/16"))
        ]
    );
    assert!(
        seen.iter()
            .any(|c| matches!(&c.what, ChangeKind::Address(a) if a.ifindex == 70))
    );
    // Late news of the pair's own making (carrier, IPv6 routes) may arrive there, ours must not.
    assert!(!mb.drain().unwrap().iter().any(|c| match &c.what {
        ChangeKind::Route(r) => r.protocol == ROUTE_PROTOCOL,
        ChangeKind::Address(a) => a.local == prefix("10.1.0.1/24"),
        _ => false,
    }));
    b.delete_link(70);
    p.sa.send(&mut b).unwrap();
    let gone = mb
        .wait_for(Duration::from_secs(240), |c| {
            c.deleted && matches!(&c.what, ChangeKind::Link(l) if l.name == "right")
        })
        .unwrap();
    assert!(gone.is_some());
    let never = mb.wait_for(Duration::from_millis(50), |_| false).unwrap();
    assert!(never.is_none());
}

#[test]
fn ten_thousand_routes() {
    const N: u32 = 10_000;
    // The whole pair must live: with the far namespace the interface would go.
    let mut p = pair();
    let sa = &mut p.sa;
    let mut b = Batch::new();
    b.add_address(&AddressSpec::new(70, prefix("10.1.0.1/24")));
    sa.send(&mut b).unwrap();
    let route = |i: u32, via: &str| {
        let dst = std::net::Ipv4Addr::from(0x0b00_0000 + i);
        Route::via(IpPrefix::host(dst.into()), 70, ip(via))
    };
    let mut took = Vec::new();
    for via in ["10.1.0.2", "10.1.0.3"] {
        let t = Instant::now();
        for i in 0..N {
            b.replace_route(&route(i, via)).unwrap();
        }
        sa.send(&mut b).unwrap();
        took.push(t.elapsed() / N);
    }
    let t = Instant::now();
    const ONE_BY_ONE: u32 = 1000;
    for i in 0..ONE_BY_ONE {
        sa.send(b.replace_route(&route(i, "10.1.0.4")).unwrap())
            .unwrap();
    }
    let single = t.elapsed() / ONE_BY_ONE;
    let t = Instant::now();
    let all = sa.routes().unwrap();
    println!(
        "routes: add {:.1?}, replace {:.1?} each; one by one {single:.1?}; list {} in {:.1?}",
        took[0],
        took[1],
        all.len(),
        t.elapsed()
    );
    let at = |via: &str| {
        all.iter()
            .filter(|r| r.target == RouteTarget::Hop(NextHop::via(70, ip(via))))
            .count()
    };
    assert_eq!((at("10.1.0.4"), at("10.1.0.3")), (1000, 9000));
}

#[test]
fn a_thousand_pairs_in_one_batch() {
    const N: u32 = 1000;
    let (a, b) = (NetNs::new().unwrap(), NetNs::new().unwrap());
    let mut sa = Socket::open_in(&a).unwrap();
    let mut sb = Socket::open_in(&b).unwrap();
    let names: Vec<_> = (0..N).map(|i| (format!("h{i}"), format!("n{i}"))).collect();
    let mut batch = Batch::new();
    let t = Instant::now();
    for (i, (h, n)) in names.iter().enumerate() {
        let ifindex = Some(100 + i as u32);
        let first = VethEnd {
            name: h,
            ifindex,
            up: true,
            ..VethEnd::default()
        };
        let second = VethEnd {
            name: n,
            ifindex,
            netns: Some(b.fd()),
            ..VethEnd::default()
        };
        batch.create_veth(&first, &second).unwrap();
    }
    let encoded = t.elapsed();
    sa.send(&mut batch).unwrap();
    let created = t.elapsed();
    for i in 0..N {
        batch.link_up(100 + i);
    }
    sb.send(&mut batch).unwrap();
    let up = t.elapsed();
    let links = sb.links().unwrap();
    let listed = t.elapsed();
    assert_eq!(
        links
            .iter()
            .filter(|l| l.up && l.kind.as_deref() == Some("veth"))
            .count(),
        1000
    );
    println!(
        "1000 veth pairs: encode {encoded:.1?}, create {:.1?}, peers up {:.1?}, list {:.1?}",
        created - encoded,
        up - created,
        listed - up
    );
}

#[test]
fn a_route_is_replaced_without_a_gap() {
    // One next hop, several, one of them, others: whatever is replaced by whatever. A lookup that holds the old entry when
    // the kernel lets go of it passes over it (IPv4: `fib_dead`) and finds nothing. That takes both within nanoseconds, or a
    // processor that the host took away just there; in IPv6 the moment is longer (Linux 6.18). If a route is removed and
    // added again, one reading in eight finds none.
    let mut p = pair();
    let mut b = Batch::new();
    b.add_address(&AddressSpec::new(70, prefix("10.1.0.1/24")));
    b.add_address(&AddressSpec::new(70, prefix("fd00::1/64")));
    p.sa.send(&mut b).unwrap();
    let goals = [ip("10.7.0.1"), ip("fd07::1")];
    let route = |goal: IpAddr, last: &[u8]| {
        let gateway = |n: &u8| match goal {
            IpAddr::V4(_) => ip(&format!("10.1.0.{n}")),
            IpAddr::V6(_) => ip(&format!("fd00::{n}")),
        };
        let mut hops: Vec<NextHop> = last.iter().map(|n| NextHop::via(70, gateway(n))).collect();
        let target = match hops.len() {
            1 => RouteTarget::Hop(hops.remove(0)),
            _ => RouteTarget::Multipath(hops),
        };
        Route::new(IpPrefix::host(goal), target)
    };
    let sets: [&[u8]; 6] = [&[2], &[2, 3, 4], &[3], &[5, 6], &[2, 3], &[4]];
    for goal in goals {
        b.add_route(&route(goal, sets[0])).unwrap();
    }
    p.sa.send(&mut b).unwrap();
    let mut asker = Socket::open_in(&p.a).unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    let (looked, absent) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let (mut looks, mut absent) = (0_u32, [0_u32; 2]);
            while !over.load(std::sync::atomic::Ordering::Acquire) {
                for (count, found) in absent.iter_mut().zip(asker.lookup(&goals).unwrap()) {
                    *count += u32::from(found.is_none());
                }
                looks += 1;
            }
            (looks, absent)
        });
        for set in sets.iter().cycle().take(3000) {
            for goal in goals {
                b.replace_route(&route(goal, set)).unwrap();
            }
            p.sa.send(&mut b).unwrap();
        }
        over.store(true, std::sync::atomic::Ordering::Release);
        looking.join().unwrap()
    });
    assert!(looked > 100, "{looked} looks prove little");
    println!(
        "3000 replacements, {looked} looks, {absent:?} of them between two routes (IPv4, IPv6)"
    );
    assert!(
        absent[0] <= 3 + looked / 100,
        "IPv4: {absent:?} of {looked}"
    );
    assert!(absent[1] < looked / 10, "IPv6: {absent:?} of {looked}");
    // Only the last one's settings remain.
    let left = p.sa.routes().unwrap();
    for goal in goals {
        let mut of_goal = left.iter().filter(|r| r.dst == IpPrefix::host(goal));
        assert_eq!(of_goal.next().unwrap().target, route(goal, sets[5]).target);
        assert!(of_goal.next().is_none(), "nothing else is left of {goal}");
    }
}

#[test]
fn lookups_find_what_the_kernel_would_use() {
    let mut p = pair();
    let mut batch = Batch::new();
    batch.add_address(&AddressSpec::new(70, prefix("10.9.0.1/31")));
    batch.add_address(&AddressSpec::new(70, prefix("fe80::1/64")));
    let via = |net: &str, gateway: &str| Route::via(prefix(net), 70, ip(gateway));
    batch.add_route(&via("10.0.0.0/10", "10.9.0.0")).unwrap();
    batch.add_route(&via("10.0.0.7/32", "10.9.0.0")).unwrap();
    batch.add_route(&via("fd00::/64", "fe80::2")).unwrap();
    batch
        .add_route(&Route::new(prefix("10.0.0.8/32"), RouteTarget::Blackhole))
        .unwrap();
    p.sa.send(&mut batch).unwrap();
    let asked = [
        "10.0.0.7", "10.0.0.6", "10.9.0.1", "11.0.0.1", "fd00::9", "fd01::9", "10.0.0.8",
    ]
    .map(ip);
    let found = p.sa.lookup(&asked).unwrap();
    let prefixes: Vec<Option<String>> = found
        .iter()
        .map(|r| r.as_ref().map(|r| r.dst.to_string()))
        .collect();
    let expected = [
        Some("10.0.0.7/32"),
        Some("10.0.0.0/10"),
        Some("10.9.0.1/32"),
        None,
        // IPv6 returns the path itself, not the table's entry.
        Some("fd00::9/128"),
        None,
        None,
    ];
    assert_eq!(prefixes, expected.map(|e| e.map(str::to_owned)));
    let hop = |i: usize| match &found[i].as_ref().unwrap().target {
        RouteTarget::Hop(hop) => (hop.ifindex, hop.via),
        other => panic!("{other:?}"),
    };
    assert_eq!(hop(0), (Some(70), Some(ip("10.9.0.0"))));
    assert_eq!(hop(4), (Some(70), Some(ip("fe80::2"))));
    // More than fits into one go, and the answers stay in order.
    let many: Vec<IpAddr> = (0..3000).map(|i| asked[i % 4]).collect();
    let found = p.sa.lookup(&many).unwrap();
    assert!((0..3000).all(|i| found[i].is_some() == (i % 4 != 3)));
}

/// Prints how long one route takes to be replaced while namespaces full of links come and go next door. Run with
/// `cargo test --release -p constel-host --test netlink -- --ignored --nocapture what_routes_wait_for`.
#[test]
#[ignore = "prints figures"]
fn what_routes_wait_for() {
    use std::sync::atomic::{AtomicBool, Ordering};
    const LINKS: u32 = 200;
    let mut p = pair();
    let mut b = Batch::new();
    b.add_address(&AddressSpec::new(70, prefix("10.1.0.1/24")));
    b.add_address(&AddressSpec::new(70, prefix("fd00::1/64")));
    p.sa.send(&mut b).unwrap();
    let mut measure = |what: &str| {
        for (family, goal, gateways) in [
            ("IPv4", "10.7.0.1/32", ["10.1.0.2", "10.1.0.3"]),
            ("IPv6", "fd07::1/128", ["fd00::2", "fd00::3"]),
        ] {
            let begun = Instant::now();
            let mut took: Vec<Duration> = Vec::new();
            while begun.elapsed() < Duration::from_secs(5) {
                let gateway = ip(gateways[took.len() % 2]);
                let mut b = Batch::new();
                b.replace_route(&Route::via(prefix(goal), 70, gateway))
                    .unwrap();
                let start = Instant::now();
                p.sa.send(&mut b).unwrap();
                took.push(start.elapsed());
                std::thread::sleep(Duration::from_millis(1));
            }
            took.sort_unstable();
            let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
            println!(
                "{family} route, {what}: p50 {:.1?} p99 {:.1?} max {:.1?} of {}",
                at(0.5),
                at(0.99),
                at(1.0),
                took.len()
            );
        }
    };
    measure("nothing else");
    let over = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            let mut rounds = 0;
            while !over.load(Ordering::Acquire) {
                let nodes = NetNs::create_many(LINKS as usize, None).unwrap();
                let home = NetNs::new().unwrap();
                let mut socket = Socket::open_in(&home).unwrap();
                let mut batch = Batch::new();
                for (number, node) in nodes.iter().enumerate() {
                    let name = format!("h{number}");
                    let near = VethEnd {
                        name: &name,
                        up: true,
                        ..VethEnd::default()
                    };
                    let far = VethEnd {
                        name: "far",
                        netns: Some(node.fd()),
                        ..VethEnd::default()
                    };
                    batch.create_veth(&near, &far).unwrap();
                }
                socket.send(&mut batch).unwrap();
                rounds += 1;
            }
            rounds
        });
        measure("namespaces and links made and removed");
        over.store(true, Ordering::Release);
        churn.join().unwrap()
    });
    println!("{rounds} times {LINKS} namespaces and links meanwhile");
}
