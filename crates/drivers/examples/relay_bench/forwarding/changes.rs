//! Time until changed routes are in force: by netlink in the kernel of each node, and in one map.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use constel_drivers::forward::{Forwarder, NodeRoute};
use constel_host::netlink::{AddressSpec, Batch, IpPrefix, Route, Socket, VethEnd};
use constel_host::netns::NetNs;
use constel_link::PortId;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use serde_json::{Value, json};

use crate::common::{Options, say};
use crate::spread::Spread;
use crate::support::ETH0;

/// Starlink Shell I with 100 stations: nodes, and destinations.
const NODES: usize = 1_684;
const GOALS: usize = 100;
/// Number of changed routes per step: fewer in half of the steps, more in one of a hundred (`experiments/opensn`).
const CHANGED: [usize; 2] = [832, 3_866];
const ROUNDS: usize = 11;

/// A node of its own namespace, with a full table.
struct FullNode {
    _ns: NetNs,
    socket: Socket,
}

/// Gateways: two of each family, since a change must change something.
fn gateways(round: usize) -> [IpAddr; 2] {
    let last = 2 + (round % 2) as u8;
    [
        Ipv4Addr::new(10, 1, 0, last).into(),
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last.into()).into(),
    ]
}

fn addresses(goal: usize) -> [IpAddr; 2] {
    [
        Ipv4Addr::new(10, 99, 0, goal as u8).into(),
        Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, goal as u16).into(),
    ]
}

fn put(batch: &mut Batch, goal: usize, round: usize) {
    for (goal, gateway) in addresses(goal).into_iter().zip(gateways(round)) {
        let route = Route::via(IpPrefix::host(goal), ETH0, gateway);
        batch.replace_route(&route).unwrap();
    }
}

fn places() -> Vec<FullNode> {
    let all = NetNs::create_many(NODES, None).unwrap();
    let place = |ns: NetNs| {
        let mut socket = Socket::open_in(&ns).unwrap();
        let mut batch = Batch::new();
        let near = VethEnd {
            name: "eth0",
            ifindex: Some(ETH0),
            up: true,
            ..VethEnd::default()
        };
        let far = VethEnd {
            name: "far",
            ifindex: Some(ETH0 + 1),
            ..VethEnd::default()
        };
        batch.create_veth(&near, &far).unwrap();
        batch.link_up(ETH0 + 1);
        let own = IpPrefix::new(Ipv4Addr::new(10, 1, 0, 1).into(), 24).unwrap();
        batch.add_address(&AddressSpec::new(ETH0, own));
        (0..GOALS).for_each(|goal| put(&mut batch, goal, 0));
        socket.send(&mut batch).unwrap();
        FullNode { _ns: ns, socket }
    };
    all.into_iter().map(place).collect()
}

/// Nodes and destinations of a step's changes: destination by destination, in the order in which they are made; those
/// of a destination in any order.
fn spread(count: usize) -> Vec<(usize, usize)> {
    let mut chosen: Vec<(usize, usize)> = (0..count)
        .map(|n| {
            // 997 is prime and no divisor of the whole: no pair comes twice.
            let pair = n * 997 % (NODES * GOALS);
            (pair % NODES, pair / NODES)
        })
        .collect();
    chosen.sort_unstable_by_key(|(node, goal)| (*goal, node * 7919 % NODES));
    chosen
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// A map for a program that looks up node and address at once: a hash map, with batches of changes.
fn hash_map() -> MapHandle {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let entries = (NODES * GOALS * 2) as u32;
    MapHandle::create(MapType::Hash, Some("cst_bench"), 20, 8, entries, &options).unwrap()
}

/// Keys and values of these changes, both families each.
fn batched(changes: &[(usize, usize)], round: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (node, goal) in changes {
        for address in addresses(*goal) {
            let v6 = match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            keys.extend((*node as u32).to_ne_bytes());
            keys.extend(v6.octets());
            values.extend((round as u64).to_ne_bytes());
        }
    }
    (keys, values)
}

fn update_hash(map: &MapHandle, changes: &[(usize, usize)], round: usize) {
    let (keys, values) = batched(changes, round);
    let count = (2 * changes.len()) as u32;
    let none = MapFlags::empty();
    map.update_batch(&keys, &values, count, MapFlags::ANY, none)
        .unwrap();
}

pub(super) fn changes(options: &Options) -> Vec<Value> {
    if options.hops.is_some() || !options.takes("changes") {
        return Vec::new();
    }
    say(
        options,
        &format!(
            "\nChanged routes, each in two families, put into place for {NODES} nodes and {GOALS} destinations, {ROUNDS} \
             times: ms, median (least to greatest)"
        ),
    );
    // A namespace and a socket for each node.
    constel_host::limits::raise_open_files(2 * NODES as u64 + 1024).unwrap();
    let mut places = places();
    let named = |goal| addresses(goal).map(|a: IpAddr| (a, goal as u32));
    let goals: BTreeMap<IpAddr, u32> = (0..GOALS).flat_map(named).collect();
    let forwarder = Forwarder::new(NODES, GOALS, &goals).unwrap();
    let hash = hash_map();
    let all: Vec<(usize, usize)> = (0..NODES * GOALS).map(|n| (n % NODES, n / NODES)).collect();
    update_hash(&hash, &all, 0);
    let mut results = Vec::new();
    for count in CHANGED {
        let changes = spread(count);
        let mut took: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for round in 1..=ROUNDS {
            let netlink = timed(|| {
                let mut batch = Batch::new();
                // One request for the neighbouring changes of a node, as `constel-lab` does it.
                for run in changes.chunk_by(|a, b| a.0 == b.0) {
                    run.iter()
                        .for_each(|(_, goal)| put(&mut batch, *goal, round));
                    places[run[0].0].socket.send(&mut batch).unwrap();
                }
            });
            let shared = timed(|| {
                for (node, goal) in &changes {
                    let way = NodeRoute {
                        ifindex: ETH0,
                        port: PortId(*node as u32),
                        far_port: PortId((node + round) as u32),
                    };
                    forwarder.set(*node as u32, *goal as u32, Some(way));
                }
            });
            let batched = timed(|| update_hash(&hash, &changes, round));
            for (how, time) in [("netlink", netlink), ("map", shared), ("hash map", batched)] {
                took.entry(how).or_default().push(time.as_secs_f64() * 1e3);
            }
        }
        for how in ["netlink", "hash map", "map"] {
            let times = took.remove(how).unwrap_or_default();
            let times = Spread::of(times);
            say(
                options,
                &format!("{count:>6} changed, {how:>8}: {}", times.text(1.0, 3)),
            );
            results.push(json!({
                "what": "routes put into place", "how": how, "changed": count, "families": 2,
                "ms": times, "nodes": NODES, "rounds": ROUNDS,
            }));
        }
    }
    results
}
