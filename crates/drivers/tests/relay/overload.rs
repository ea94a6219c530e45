//! More than the host can serve, over many hops.

use super::*;
use constel_drivers::Links;
use constel_host::netlink::{AddressSpec, IpPrefix, LinkChange, Mac, NeighbourSpec, Route};
use std::net::Ipv4Addr;

pub(super) const HOPS: u32 = 12;
const SLOTS: u32 = 32_768;

/// Nodes in a row: hop `h` is the subnet 10.1.h.0/24 and goes from port `2h` of the node on its left to `2h + 1`.
pub(super) struct Row {
    relay: Relay,
    pub(super) handle: constel_drivers::relay::RelayHandle,
    pub(super) nodes: Vec<Node>,
}

pub(super) fn address(hop: u32, side: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, hop as u8, side)
}

impl Row {
    /// Links of this delay; what the stacks take is deducted from it or added.
    pub(super) fn new(delay_ns: u64, deduct_stacks: bool) -> Row {
        let config = RelayConfig {
            slots: SLOTS,
            nodes: (0..2 * HOPS).map(|port| port.div_ceil(2)).collect(),
            deduct_stacks,
            ..RelayConfig::new("row", 2 * HOPS, 1)
        };
        let relay = Relay::new(config).unwrap();
        let nodes: Vec<Node> = (0..=HOPS).map(|_| Node::new()).collect();
        for (n, node) in nodes.iter().enumerate() {
            let n = n as u32;
            // A node's first interface looks right, its second left.
            if n < HOPS {
                node.plug(&relay, PortId(2 * n), 0, false);
                Row::end(node, ETH0, (address(n, 1), address(n, 2)), 2 * n + 1);
            }
            if n > 0 {
                node.plug(&relay, PortId(2 * n - 1), 1, false);
                Row::end(
                    node,
                    ETH0 + 1,
                    (address(n - 1, 2), address(n - 1, 1)),
                    2 * n - 2,
                );
            }
            node.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
            node.netlink(|batch| {
                batch.link_up(1);
                for hop in n + 1..HOPS {
                    let to = IpPrefix::new(address(hop, 0).into(), 24).unwrap();
                    let route = Route::via(to, ETH0, address(n, 2).into());
                    batch.add_route(&route).unwrap();
                }
            });
        }
        let handle = relay.start_relay().unwrap();
        let changes = (0..HOPS).flat_map(|hop| link(2 * hop, 2 * hop + 1, delay_ns));
        let changes = changes.collect();
        handle.apply(EdgeUpdate { changes }, None).unwrap();
        Row {
            relay,
            handle,
            nodes,
        }
    }

    fn end(node: &Node, ifindex: u32, (near, far): (Ipv4Addr, Ipv4Addr), far_port: u32) {
        node.netlink(|batch| {
            batch.add_address(&AddressSpec::new(
                ifindex,
                IpPrefix::new(near.into(), 24).unwrap(),
            ));
            batch
                .change_link(&LinkChange {
                    ifindex,
                    up: Some(true),
                    ..LinkChange::default()
                })
                .unwrap();
            batch.replace_neighbour(&NeighbourSpec {
                ifindex,
                addr: far.into(),
                mac: Mac(mac_of(PortId(far_port))),
            });
        });
    }

    /// Frames that left a hop, and frames that were dropped on it.
    fn counts(&self, hop: u32) -> (u64, u64) {
        let edge = self.handle.edge_stats(PortId(2 * hop), PortId(2 * hop + 1));
        let counters = edge.unwrap().unwrap().counters;
        (counters.delivered, counters.dropped_overload)
    }

    /// Frames a second that leave the last hop at a rate of sending (0: as many as possible), after a while.
    fn flood(&self, fps: u64) -> f64 {
        let last = address(HOPS - 1, 2);
        let sender = self.nodes[0].run(|| udp(address(0, 1), 7010));
        sender.connect((last, 7010)).unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let start = Instant::now();
                let mut sent = 0;
                while !stop.load(Ordering::Relaxed) {
                    let asked = start.elapsed().as_nanos() as u64 * fps / 1_000_000_000;
                    if fps == 0 || sent < asked {
                        sent += 1;
                        let _ = sender.send(&[1; 1400]);
                    } else {
                        thread::sleep(Duration::from_micros(200));
                    }
                }
            });
            thread::sleep(Duration::from_millis(400));
            self.handle.clear_lateness().unwrap();
            let (before, start) = (self.counts(HOPS - 1).0, Instant::now());
            thread::sleep(Duration::from_millis(800));
            let arrived = self.counts(HOPS - 1).0 - before;
            let fps = arrived as f64 / start.elapsed().as_secs_f64();
            stop.store(true, Ordering::Relaxed);
            fps
        })
    }
}

/// Excess frames are dropped where they enter, 10 ms late and not seconds; as much arrives as with little more than the host
/// can serve.
#[test]
fn an_overloaded_row_delivers_what_the_host_can_serve() {
    let row = Row::new(MS, true);
    // The sender has to exceed the capacity first: a busy machine may not let it.
    let mut floods = (0..10).map(|_| row.flood(0));
    let is_too_much = |_: &f64| row.handle.relay_stats().unwrap().emulator_drops.overload > 0;
    let flat_out = floods.find(is_too_much).expect("never too much");
    let late = row.handle.lateness().unwrap().quantiles();
    let stats = row.handle.relay_stats().unwrap();
    println!(
        "{flat_out:.0} frames/s flat out, {late:?}, {:?}",
        stats.emulator_drops
    );
    // 10 ms for those that waited to enter, 60 whenever the flood begins again because its thread did not run; what a
    // machine that stands still adds. Without bounds it is a second and more.
    let stalled = row.handle.relay_stats().unwrap().stalls.longest_ns;
    assert!(late.max_ns < 250 * MS + stalled, "{late:?}");
    let lost = stats.emulator_drops;
    assert_eq!((lost.pool, lost.ring), (0, 0), "{lost:?}");
    for hop in 1..HOPS {
        assert_eq!(row.counts(hop).1, 0, "let go on hop {hop}");
    }
    let little_more = row.flood((flat_out * 1.2) as u64);
    println!("{little_more:.0} frames/s of a fifth more than that");
    assert!(flat_out > 0.75 * little_more, "{flat_out} {little_more}");
    eventually("every slot is free", || {
        let stats = row.handle.relay_stats().unwrap();
        (stats.totals.held == 0 && stats.free_slots == SLOTS as usize).then_some(())
    });
    drop(row.relay);
}
