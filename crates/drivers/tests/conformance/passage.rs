//! Frames arrive at the right nodes, in order, and on time.

use super::*;

#[test]
fn every_ether_type_takes_the_delay() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        let delay = 20 * MS;
        lab.apply(link(0, 1, delay));
        let (near, far) = (mac_of(PortId(0)), mac_of(PortId(1)));
        let payload = [7u8; 100];
        let sender = sender(&lab);
        for (to, ether_type) in [
            (far, ODD),
            (BROADCAST, ODD),
            // ARP, IPv4, IPv6, MPLS, LLDP, and IS-IS: a length instead of a type.
            (BROADCAST, 0x0806),
            (far, 0x0800),
            (far, 0x86dd),
            (far, 0x8847),
            ([0x01, 0x80, 0xc2, 0, 0, 0x0e], 0x88cc),
            ([0x01, 0x80, 0xc2, 0, 0, 0x14], 100),
        ] {
            let raw = lab.nodes[1].run(|| Raw::new(libc::ETH_P_ALL as u16));
            stamp(&raw);
            let whole = frame(to, near, ether_type, &payload);
            let sent = Sent::by(|| sender.send(&whole));
            let at = std::iter::from_fn(|| raw.next())
                .find(|(got, _)| *got == whole)
                .unwrap_or_else(|| panic!("{ether_type:#06x} does not arrive"))
                .1;
            lab.assert_took(&sent, at, delay, late());
        }
        let stats = lab.handle.snapshot().unwrap();
        assert_eq!(
            (stats.early.unwrap_or(0), lost(&stats)),
            (0, 0),
            "{stats:?}"
        );
        let lateness = stats.own_lateness.or(stats.lateness);
        // netem cannot measure it.
        assert_eq!(lateness.is_none(), kind == DriverKind::Netem);
        if let Some(lateness) = lateness {
            assert!(lateness.max_ns < late() && lateness.count == 8, "{stats:?}");
        }
    });
}

#[test]
fn ipv4_ipv6_and_tcp_between_nodes() {
    each(|kind| {
        let lab = PlaneLab::new(kind, 2);
        lab.apply(link(0, 1, 5 * MS));
        for ip in [std::net::IpAddr::from(v4(2)), v6(2).into()] {
            let listener = eventually("the address is ready", || {
                lab.nodes[1].run(|| TcpListener::bind((ip, 7000)).ok())
            });
            let reader = thread::spawn(move || {
                let mut bytes = Vec::new();
                listener
                    .accept()
                    .unwrap()
                    .0
                    .read_to_end(&mut bytes)
                    .unwrap();
                bytes
            });
            let mut stream = lab.nodes[0].run(|| TcpStream::connect((ip, 7000)).unwrap());
            let sent: Vec<u8> = (0..2_000_000u32).map(|i| (i * 7) as u8).collect();
            stream.write_all(&sent).unwrap();
            drop(stream);
            assert!(reader.join().unwrap() == sent, "the bytes are others");
        }
        let stats = settled(&lab);
        assert_eq!(
            (stats.early.unwrap_or(0), lost(&stats)),
            (0, 0),
            "{stats:?}"
        );
    });
}

#[test]
fn frames_take_only_edges_that_exist() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 3);
        let far: Vec<Raw> = (1..3).map(|node| listener(&lab, node)).collect();
        let sender = sender(&lab);
        let seen = || -> Vec<Vec<u32>> {
            let patience = Duration::from_millis(if slow() { 400 } else { 100 });
            far.iter()
                .map(|raw| drain(raw, patience).iter().map(|f| f.0).collect())
                .collect()
        };
        let send = |first: u32| {
            sender.send(&numbered(mac_of(PortId(1)), first, 60));
            sender.send(&numbered(mac_of(PortId(2)), first + 1, 60));
            sender.send(&numbered(BROADCAST, first + 2, 60));
            sender.send(&numbered([2, 0, 0, 0, 0, 9], first + 3, 60));
        };
        send(0);
        assert_eq!(seen(), [[0u32; 0], []], "no edges");
        let wire = Impairment::delay_only(MS);
        // Back to port 0: nothing it sends takes that.
        lab.apply(vec![set(0, 1, wire), set(2, 0, wire)]);
        send(10);
        assert_eq!(
            seen(),
            [vec![10, 11, 12, 13], vec![]],
            "an only edge takes everything"
        );
        lab.apply(vec![set(0, 2, wire)]);
        send(20);
        assert_eq!(seen(), [vec![20, 22], vec![21, 22]]);
        lab.apply(vec![remove(0, 1)]);
        send(30);
        assert_eq!(seen(), [vec![], vec![30, 31, 32, 33]]);
        lab.apply(vec![set(0, 1, wire), remove(0, 2), remove(2, 0)]);
        send(40);
        assert_eq!(seen(), [vec![40, 41, 42, 43], vec![]]);
    });
}

#[test]
fn a_broadcast_is_one_frame_for_each_edge_each_in_its_time() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 5);
        let delays = [10 * MS, 40 * MS, 5 * MS, 60 * MS];
        lab.apply(
            (1..5)
                .map(|to| set(0, to, Impairment::delay_only(delays[to as usize - 1])))
                .collect(),
        );
        let far: Vec<Raw> = (1..5).map(|node| listener(&lab, node)).collect();
        let sender = sender(&lab);
        let sent: Vec<Sent> = (0..5)
            .map(|n| {
                let sent = Sent::by(|| sender.send(&numbered(BROADCAST, n, 200)));
                thread::sleep(Duration::from_millis(2));
                sent
            })
            .collect();
        for (raw, delay) in far.iter().zip(delays) {
            let got = drain(raw, Duration::from_millis(500));
            assert_eq!(got.iter().map(|f| f.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
            for ((_, at), sent) in got.iter().zip(&sent) {
                lab.assert_took(sent, *at, delay, late());
            }
        }
    });
}

#[test]
fn order_is_kept_while_delays_change() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        let far = listener(&lab, 1);
        let sender = sender(&lab);
        let mut number = 0;
        for delay in [40, 5, 60, 1, 30, 2] {
            lab.apply(vec![set(0, 1, Impairment::delay_only(delay * MS))]);
            for _ in 0..60 {
                sender.send(&numbered(mac_of(PortId(1)), number, 100));
                number += 1;
                thread::sleep(Duration::from_micros(300));
            }
        }
        let got: Vec<u32> = drain(&far, Duration::from_secs(1))
            .iter()
            .map(|f| f.0)
            .collect();
        if kind.capabilities().keeps_order {
            assert_eq!(got, (0..number).collect::<Vec<_>>());
        } else {
            let swapped = got.windows(2).filter(|pair| pair[0] > pair[1]).count();
            assert_eq!(got.len(), number as usize);
            assert!(swapped <= got.len() / 50, "{swapped} of {number} overtaken");
        }
    });
}

#[test]
fn the_delay_glides() {
    each(|kind| {
        if !kind.capabilities().delay_glides {
            return;
        }
        for slope in [60_000_000, -30_000_000] {
            let lab = PlaneLab::silent(kind, 2);
            let delay = Delay {
                t0_ns: mono_ns(),
                delay_ns: 40 * MS,
                slope_ns_per_s: slope,
            };
            let gliding = Impairment {
                delay,
                ..Impairment::delay_only(0)
            };
            lab.apply(vec![set(0, 1, gliding)]);
            let far = listener(&lab, 1);
            let sender = sender(&lab);
            let mut sent = Vec::new();
            for n in 0..40 {
                sent.push(Sent::by(|| {
                    sender.send(&numbered(mac_of(PortId(1)), n, 100));
                }));
                thread::sleep(Duration::from_millis(20));
            }
            let got = drain(&far, Duration::from_secs(1));
            assert_eq!(got.len(), 40);
            for ((_, at), sent) in got.into_iter().zip(sent) {
                // The delay of the moment it came in at, which lies somewhere in between.
                let ends = [sent.mono.start, sent.mono.end].map(|mono| delay.at(mono));
                let (least, most) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
                lab.assert_took_between(&sent, at, least, most + late());
            }
        }
    });
}

#[test]
fn frames_wait_for_no_other_edge() {
    each(|kind| {
        // Two edges into one port: what is far away must not hold up what is near.
        let lab = PlaneLab::silent(kind, 3);
        lab.apply(vec![
            set(0, 2, Impairment::delay_only(200 * MS)),
            set(1, 2, Impairment::delay_only(5 * MS)),
        ]);
        let far = listener(&lab, 2);
        let (a, b) = (sender(&lab), lab.nodes[1].run(|| Raw::new(0)));
        let sent = Sent::by(|| {
            a.send(&numbered(mac_of(PortId(2)), 0, 60));
            b.send(&numbered(mac_of(PortId(2)), 1, 60));
        });
        let got = drain(&far, Duration::from_secs(1));
        assert_eq!(got.iter().map(|f| f.0).collect::<Vec<_>>(), [1, 0]);
        lab.assert_took(&sent, got[0].1, 5 * MS, late());
        assert!(got[1].1 - sent.real.start >= 200 * MS);
    });
}
