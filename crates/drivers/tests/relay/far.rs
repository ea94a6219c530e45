//! Ports whose nodes are elsewhere: what is carried off, and what is handed over.

use super::*;
use constel_drivers::relay::{Arrival, Carry, FarPorts};
use constel_drivers::{Links, Plane};

const HERE: [PortId; 2] = [PortId(0), PortId(1)];
const AFAR: PortId = PortId(2);
const AHEAD_NS: u64 = 20 * MS;

/// A frame for a far port: when it was carried off, when it is due, itself.
struct Carried {
    edge: (PortId, PortId),
    at_ns: u64,
    due_ns: u64,
    frame: Vec<u8>,
}

struct Collect(mpsc::Sender<Carried>);

impl Carry for Collect {
    fn carry(&mut self, edge: (PortId, PortId), due_ns: u64, frame: &[u8]) {
        let _ = self.0.send(Carried {
            edge,
            at_ns: mono_ns(),
            due_ns,
            frame: frame.to_vec(),
        });
    }

    fn flush(&mut self) {}
}

/// Two nodes that are here, and a port that is not.
fn lab(slots: u32) -> (Lab, mpsc::Receiver<Carried>) {
    let config = RelayConfig {
        slots,
        ..RelayConfig::new("far", 3, 1)
    };
    let relay = Relay::new(config).unwrap();
    let (carry, carried) = mpsc::channel();
    let far = |ports| FarPorts {
        ports,
        ahead_ns: AHEAD_NS,
        carry: Box::new(Collect(carry.clone())),
    };
    let error = relay.far(far(vec![PortId(3)])).unwrap_err();
    assert!(matches!(error, DriverError::NoSuchPort { .. }), "{error}");
    relay.far(far(vec![AFAR])).unwrap();
    let nodes = HERE.map(|port| {
        let node = Node::new();
        node.port(&relay, port, 0, port.0 as u8 + 1);
        node
    });
    let handle = relay.start_relay().unwrap();
    let lab = Lab {
        relay,
        handle,
        nodes: nodes.into(),
    };
    (lab, carried)
}

fn arrival(from: PortId, to: PortId, due_ns: u64, frame: &[u8]) -> Arrival {
    Arrival {
        from,
        to,
        due_ns,
        frame: frame.to_vec(),
    }
}

#[test]
fn frames_are_carried_off_ahead_and_their_time_is_the_edges() {
    let (lab, carried) = lab(16_384);
    let sender = lab.nodes[0].run(|| Raw::new(0));
    // Shorter than the head start, and longer; the other way round frames would wait for those before them.
    for delay_ns in [5 * MS, 50 * MS] {
        lab.apply(vec![set(0, 2, Impairment::delay_only(delay_ns))]);
        let sent = frame(mac_of(AFAR), mac_of(HERE[0]), ODD, &[7; 60]);
        let before_ns = mono_ns();
        sender.send(&sent);
        let after_ns = mono_ns();
        // Besides what the node's kernel has to say.
        let got = eventually("it is carried off", || {
            carried.try_iter().find(|carried| carried.frame == sent)
        });
        assert_eq!(got.edge, (HERE[0], AFAR));
        let due_ns = before_ns + delay_ns..=after_ns + delay_ns;
        assert!(due_ns.contains(&got.due_ns), "{} {due_ns:?}", got.due_ns);
        let least_ns = got.due_ns.saturating_sub(AHEAD_NS).max(before_ns);
        assert!(got.at_ns >= least_ns, "{} ns early", least_ns - got.at_ns);
    }
    let stats = lab.handle.relay_stats().unwrap();
    assert_eq!(
        (stats.early, stats.emulator_drops.total()),
        (0, 0),
        "{stats:?}"
    );
    every_slot_comes_back(&lab, 16_384);
}

#[test]
fn what_comes_from_afar_waits_for_its_instant() {
    let (lab, _carried) = lab(16_384);
    let receiver = lab.nodes[1].run(|| Raw::new(ODD));
    stamp(&receiver);
    let of = |payload: u8| frame(mac_of(HERE[1]), mac_of(AFAR), ODD, &[payload; 60]);
    // The clock of the kernel's stamps is another one.
    let (real, now_ns) = (real_ns(), mono_ns());
    let arrivals = [(3, 60 * MS), (2, 30 * MS), (4, 60 * MS), (1, 0)]
        .map(|(payload, in_ns)| arrival(AFAR, HERE[1], now_ns + in_ns, &of(payload)));
    lab.handle.arrive(arrivals.into()).unwrap();
    for (payload, in_ns) in [(1, 0), (2, 30 * MS), (3, 60 * MS), (4, 60 * MS)] {
        let (got, at) = receiver.next().expect("it arrives");
        assert_eq!(got, of(payload), "those of one instant as they came");
        // One of the clocks may be slewed in that time; a check below covers early frames by the relay's own clock.
        let early_ns = (real + in_ns).saturating_sub(at);
        assert!(early_ns < MS / 10, "{payload}: {early_ns} ns early");
    }
    let stats = lab.handle.relay_stats().unwrap();
    assert_eq!(
        (stats.early, stats.emulator_drops.total()),
        (0, 0),
        "{stats:?}"
    );
    every_slot_comes_back(&lab, 16_384);
}

#[test]
fn what_cannot_come_from_afar_goes_nowhere() {
    let (lab, _carried) = lab(16_384);
    let whole = frame(mac_of(HERE[1]), mac_of(AFAR), ODD, &[7; 60]);
    let good = arrival(AFAR, HERE[1], 0, &whole);
    let receiver = lab.nodes[1].run(|| Raw::new(ODD));
    for (from, to) in [
        (HERE[0], HERE[1]),
        (AFAR, AFAR),
        (AFAR, PortId(3)),
        (PortId(3), HERE[1]),
    ] {
        let arrivals = vec![good.clone(), arrival(from, to, 0, &whole)];
        lab.handle.arrive(arrivals).unwrap_err();
    }
    // No frame can have this length.
    let sizes = [0, 13, 2_013, 5_000].map(|size| arrival(AFAR, HERE[1], 0, &vec![7; size]));
    lab.handle.arrive(sizes.into()).unwrap();
    let stats = lab.handle.relay_stats().unwrap();
    assert_eq!(
        (stats.emulator_drops.size, stats.emulator_drops.total()),
        (4, 4)
    );
    receiver.timeout(Duration::from_millis(50));
    assert_eq!(receiver.next(), None, "nor what came with it");
}

/// A remote sender that floods has a quarter of the room: local senders go on.
#[test]
fn a_flood_from_afar_leaves_room() {
    let (lab, _carried) = lab(1_024);
    lab.apply(link(0, 1, MS));
    let whole = frame(mac_of(HERE[1]), mac_of(AFAR), ODD, &[7; 60]);
    let flood = vec![arrival(AFAR, HERE[1], mono_ns() + 5_000 * MS, &whole); 2_000];
    lab.handle.arrive(flood).unwrap();
    let stats = lab.handle.relay_stats().unwrap();
    // The memory has one slot more than requested, for rehearsals.
    assert_eq!(stats.emulator_drops.no_buffer, 2_000 - 1_025 / 4);
    one_way(&lab, 0, 1, |n| v4(n).into(), 100);
    let stats = lab.handle.relay_stats().unwrap();
    assert_eq!(stats.emulator_drops.total(), 2_000 - 1_025 / 4, "{stats:?}");
}

/// Passes carried frames to the test, which delivers them.
struct Pass(mpsc::Sender<Arrival>);

impl Carry for Pass {
    fn carry(&mut self, (from, to): (PortId, PortId), due_ns: u64, frame: &[u8]) {
        let _ = self.0.send(arrival(from, to, due_ns, frame));
    }

    fn flush(&mut self) {}
}

/// Nodes without a stack, a machine each and a node with one at its side: what reaches one goes on there, and only there.
#[test]
fn nodes_without_a_stack_forward_where_they_are() {
    let table = transit::table();
    let machine = |number: u32, pass: mpsc::Sender<Arrival>| {
        let config = RelayConfig {
            slots: transit::SLOTS as u32,
            transit: Some(table.clone()),
            ..RelayConfig::new(format!("apart{number}"), 6, 1)
        };
        let relay = Relay::new(config).unwrap();
        let ports = (0..6).filter(|port| port / 3 != number).map(PortId);
        let far = FarPorts {
            ports: ports.collect(),
            ahead_ns: 2 * MS,
            carry: Box::new(Pass(pass)),
        };
        relay.far(far).unwrap();
        let (own, node) = (PortId(5 * number), Node::new());
        node.port(&relay, own, 0, number as u8 + 1);
        let handle = relay.start_relay().unwrap();
        let nodes = vec![node];
        Lab {
            relay,
            handle,
            nodes,
        }
    };
    let ((to_b, from_a), (to_a, from_b)) = (mpsc::channel(), mpsc::channel());
    let (a, b) = (machine(0, to_b), machine(1, to_a));
    let between = |from, to| vec![set(from, to, Impairment::delay_only(5 * MS))];
    a.apply([link(0, 1, 5 * MS), between(2, 3)].concat());
    b.apply([link(4, 5, 5 * MS), between(3, 2)].concat());
    for (arrivals, at) in [(from_a, b.handle.clone()), (from_b, a.handle.clone())] {
        // These threads end with the relay that their frames come from.
        std::thread::spawn(move || {
            arrivals
                .iter()
                .for_each(|one| at.arrive(vec![one]).unwrap());
        });
    }
    let sender = a.nodes[0].run(|| Raw::new(transit::IPV4));
    let receiver = b.nodes[0].run(|| Raw::new(transit::IPV4));
    let packet = |hops| transit::packet(v4(2), hops, &[7; 100]);
    let mut ways = (0..20).map(|_| {
        let before_ns = real_ns();
        sender.send(&transit::sent(&packet(64)));
        let (got, _) = transit::next(&receiver, transit::UDP);
        assert_eq!(got[14..], packet(62));
        real_ns() - before_ns
    });
    let all = ways.by_ref().collect::<Vec<_>>();
    // No later than a busy machine makes it.
    assert!(all.iter().all(|took| *took >= 15 * MS), "{all:?}");
    assert!(all.iter().any(|took| *took < 25 * MS), "{all:?}");
    // It dies at the far one, and the answer comes back over both.
    sender.send(&transit::sent(&packet(2)));
    let (answer, _) = transit::next(&sender, transit::ICMP);
    assert_eq!((answer[34], &answer[26..30]), (11, &[10, 9, 0, 2][..]));
    for (lab, counts) in [(&a, [(21, 0), (0, 0)]), (&b, [(0, 0), (20, 1)])] {
        let done = lab.handle.all_transit().unwrap();
        let done: Vec<_> = done.iter().map(|c| (c.forwarded, c.answered)).collect();
        // The answer passes the near one as well.
        let near = u64::from(counts[0].0 > 0);
        assert_eq!(done, [(counts[0].0 + near, counts[0].1), counts[1]]);
        let stats = lab.handle.relay_stats().unwrap();
        assert_eq!(
            (stats.early, stats.emulator_drops.total()),
            (0, 0),
            "{stats:?}"
        );
    }
}
