//! One socket hears what others than we change in many namespaces, and names the namespace. Needs root.

use std::time::Duration;

use constel_host::netlink::{
    AddressSpec, Batch, FIRST_OWN_IFINDEX, IpPrefix, LinkChange, Mac, NeighbourSpec, Route, Rule,
    Socket, StackWatch, VethEnd,
};
use constel_host::{NetNs, sysctl};

const ETH0: u32 = FIRST_OWN_IFINDEX;

/// Two namespaces joined by a cable, each with a socket whose changes the watch knows for ours, and a watch of both.
struct Watched {
    watch: StackWatch,
    nodes: [NetNs; 2],
    ours: [Socket; 2],
}

impl Watched {
    fn begin(routes: bool) -> Watched {
        let nodes = [(); 2].map(|()| NetNs::new().unwrap());
        for ns in &nodes {
            // Changes that IPv6 makes by itself come at their own time.
            let silent = || sysctl::write("net/ipv6/conf/default/disable_ipv6", "1");
            ns.run(silent).unwrap().unwrap();
        }
        let end = |name, ns: usize| VethEnd {
            name,
            ifindex: Some(ETH0),
            netns: Some(nodes[ns].fd()),
            ..VethEnd::default()
        };
        let mut batch = Batch::new();
        batch.create_veth(&end("a0", 0), &end("b0", 1)).unwrap();
        Socket::open_in(&nodes[0])
            .unwrap()
            .send(&mut batch)
            .unwrap();
        let mut ours =
            [&nodes[0], &nodes[1]].map(|ns| ns.run(Socket::open_known).unwrap().unwrap());
        for (socket, last) in ours.iter_mut().zip(["10.1.0.1/24", "10.1.0.2/24"]) {
            let mut batch = Batch::new();
            batch.link_up(1).link_up(ETH0);
            batch.add_address(&AddressSpec::new(ETH0, last.parse().unwrap()));
            socket.send(&mut batch).unwrap();
        }
        let watch = StackWatch::open(routes).unwrap();
        for (ns, number) in nodes.iter().zip([7, 9]) {
            watch.add(ns.fd(), number).unwrap();
        }
        let watched = Watched { watch, nodes, ours };
        // The kernel announces in its own time that a cable has a carrier, at either end: once a second.
        let mut quiet = 0;
        while quiet < 75 {
            std::thread::sleep(Duration::from_millis(20));
            quiet = if watched.touched().is_empty() {
                quiet + 1
            } else {
                0
            };
        }
        watched
    }

    /// The numbers of namespaces in which something changed since the last call.
    fn touched(&self) -> Vec<u32> {
        let touched = self.watch.drain().unwrap();
        assert!(!touched.lost);
        touched.ids.into_iter().collect()
    }

    /// Requests as any program in the second namespace makes them.
    fn by_a_program(&self, ask: impl FnOnce(&mut Batch)) {
        let mut batch = Batch::new();
        ask(&mut batch);
        let mut socket = Socket::open_in(&self.nodes[1]).unwrap();
        socket.send(&mut batch).unwrap();
    }
}

fn route(net: &str) -> Route {
    let via = "10.1.0.1".parse().unwrap();
    Route::via(net.parse::<IpPrefix>().unwrap(), ETH0, via)
}

fn neighbour(last: u8) -> NeighbourSpec {
    NeighbourSpec {
        ifindex: ETH0,
        addr: format!("10.1.0.{last}").parse().unwrap(),
        mac: Mac([2, 0, 0, 0, 0, last]),
    }
}

#[test]
fn changes_of_programs_are_heard_and_ours_are_not() {
    let mut all = Watched::begin(true);
    assert_eq!(all.touched(), [0; 0]);
    let mut batch = Batch::new();
    batch.replace_route(&route("10.2.0.0/16")).unwrap();
    batch.replace_route(&route("10.2.0.0/16")).unwrap();
    batch.replace_route(&route("10.3.0.0/16")).unwrap();
    batch.delete_route(&route("10.3.0.0/16")).unwrap();
    batch.replace_neighbour(&neighbour(3));
    batch.replace_neighbour(&neighbour(4));
    batch.delete_neighbour(&neighbour(4));
    all.ours[1].send(&mut batch).unwrap();
    assert_eq!(all.touched(), [0; 0], "we know what we do");

    // Programs may have routes of their own.
    let own = Route {
        protocol: 4,
        ..route("10.4.0.0/16")
    };
    all.by_a_program(|batch| {
        batch.add_route(&own).unwrap();
        batch.delete_route(&own).unwrap();
    });
    assert_eq!(all.touched(), [0; 0]);

    let taking: [&dyn Fn(&mut Batch); 7] = [
        &|batch| {
            batch.delete_route(&route("10.2.0.0/16")).unwrap();
        },
        &|batch| {
            batch.delete_neighbour(&neighbour(3));
        },
        &|batch| {
            batch.replace_neighbour(&neighbour(5));
        },
        &|batch| {
            batch
                .change_link(&LinkChange {
                    ifindex: ETH0,
                    mtu: Some(1_400),
                    ..LinkChange::default()
                })
                .unwrap();
        },
        &|batch| {
            let prefix = "10.1.0.2/24".parse().unwrap();
            batch.delete_address(&AddressSpec::new(ETH0, prefix));
        },
        &|batch| {
            batch.add_born_rule(&Rule {
                priority: 77,
                ..Rule::born(true)[1]
            });
        },
        &|batch| {
            batch.link_down(ETH0);
        },
    ];
    for (n, take) in taking.into_iter().enumerate() {
        all.by_a_program(take);
        let touched = all.touched();
        assert!(touched.contains(&9), "change {n}: {touched:?}");
        // The carrier of a cable goes at both ends.
        assert!(n == 6 || touched == [9], "change {n}: {touched:?}");
    }
}

#[test]
fn a_route_of_ours_that_a_program_replaces_is_heard() {
    let mut all = Watched::begin(true);
    let mut batch = Batch::new();
    batch.replace_route(&route("10.2.0.0/16")).unwrap();
    all.ours[1].send(&mut batch).unwrap();
    let other = Route {
        protocol: 4,
        ..route("10.2.0.0/16")
    };
    all.by_a_program(|batch| {
        batch.replace_route(&other).unwrap();
    });
    assert_eq!(all.touched(), [9]);
}

#[test]
fn where_routes_are_others_they_are_not_heard() {
    let mut all = Watched::begin(false);
    let mut batch = Batch::new();
    batch.replace_route(&route("10.2.0.0/16")).unwrap();
    all.ours[1].send(&mut batch).unwrap();
    all.by_a_program(|batch| {
        batch.delete_route(&route("10.2.0.0/16")).unwrap();
    });
    assert_eq!(all.touched(), [0; 0]);
    all.by_a_program(|batch| {
        batch.link_down(ETH0);
    });
    assert!(all.touched().contains(&9));
}

/// On hosts with tunnel modules a fresh namespace has up to nine devices beside `lo`; bridges stand for them.
#[test]
fn devices_that_a_fresh_namespace_is_born_with_are_in_nobodys_way() {
    let nodes = [(); 2].map(|()| NetNs::new().unwrap());
    let born = [
        "tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0",
    ];
    for ns in &nodes {
        for name in born {
            let mut ip = std::process::Command::new("ip");
            ip.args(["link", "add", name, "type", "bridge"]);
            assert!(ns.run(|| ip.status()).unwrap().unwrap().success());
        }
        let numbers = Socket::open_in(ns).unwrap().links().unwrap();
        let numbers: Vec<u32> = numbers.iter().map(|link| link.ifindex).collect();
        assert_eq!(numbers, (1..=10).collect::<Vec<u32>>());
    }
    let end = |name, ns: usize| VethEnd {
        name,
        ifindex: Some(FIRST_OWN_IFINDEX),
        netns: Some(nodes[ns].fd()),
        ..VethEnd::default()
    };
    let mut batch = Batch::new();
    batch.create_veth(&end("eth0", 0), &end("eth0", 1)).unwrap();
    let mut socket = Socket::open_in(&nodes[0]).unwrap();
    socket.send(&mut batch).unwrap();
    // A number that may be in use on another host is not requested on any.
    for taken in [2, 10, FIRST_OWN_IFINDEX - 1] {
        let low = VethEnd {
            ifindex: Some(taken),
            ..end("low", 0)
        };
        assert!(batch.create_veth(&low, &end("other", 1)).is_err());
        assert!(batch.create_bridge("low", taken, Mac([2; 6])).is_err());
    }
    assert!(batch.is_empty());
}
