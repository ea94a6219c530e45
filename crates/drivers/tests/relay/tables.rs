//! Ports, edges and updates of the table.

use super::*;
use constel_drivers::{Links, Plane};

#[test]
fn two_shards() {
    let lab = Lab::new(&[3, 401, 799]);
    assert_ne!(
        lab.relay.shard_ns(PortId(3)).unwrap().inode().unwrap(),
        lab.relay.shard_ns(PortId(401)).unwrap().inode().unwrap()
    );
    let mut changes = link(3, 401, MS);
    changes.extend(link(3, 799, 2 * MS));
    lab.apply(changes);
    for (to, at_least) in [(1, MS), (2, 2 * MS)] {
        one_way(&lab, 0, to, |n| v4(n).into(), 1472);
        let known = one_way(&lab, 0, to, |n| v4(n).into(), 1472);
        assert!((at_least..at_least + 2 * MS).contains(&known), "{known}");
    }
}

#[test]
fn a_port_with_several_edges() {
    several_edges(&Lab::new(&[0, 1, 2, 3]));
}

/// Ports 0 to 3.
pub(super) fn several_edges(lab: &Lab) {
    let delay = Impairment::delay_only(MS);
    lab.apply(vec![
        set(0, 1, delay),
        set(0, 2, delay),
        set(1, 0, delay),
        set(2, 0, delay),
    ]);
    let receivers: Vec<Raw> = (1..4).map(|n| lab.nodes[n].run(|| Raw::new(ODD))).collect();
    receivers
        .iter()
        .for_each(|r| r.timeout(Duration::from_millis(200)));
    let sender = lab.nodes[0].run(|| Raw::new(ODD));
    let send = |to: [u8; 6], n: u8| sender.send(&frame(to, mac_of(PortId(0)), ODD, &[n; 50]));
    send(mac_of(PortId(2)), 1);
    send(BROADCAST, 2);
    send(mac_of(PortId(3)), 3);
    send([2, 9, 9, 9, 9, 9], 4);
    let got: Vec<Vec<u8>> = receivers
        .iter()
        .map(|r| {
            std::iter::from_fn(|| r.next())
                .map(|(f, _)| f[14])
                .collect()
        })
        .collect();
    assert_eq!(got, [vec![2], vec![1, 2], vec![]]);
    let stats = lab.handle.relay_stats().unwrap();
    assert!(
        stats.totals.dropped_no_edge >= 2,
        "two of ours, and perhaps the nodes' own"
    );
}

#[test]
fn without_an_edge_nothing_arrives() {
    let lab = Lab::new(&[0, 1]);
    let receiver = lab.nodes[1].run(|| Raw::new(ODD));
    receiver.timeout(Duration::from_millis(200));
    let sender = lab.nodes[0].run(|| Raw::new(ODD));
    for to in [mac_of(PortId(1)), BROADCAST] {
        sender.send(&frame(to, mac_of(PortId(0)), ODD, &[1; 50]));
    }
    assert_eq!(receiver.next(), None);
    assert!(lab.handle.relay_stats().unwrap().totals.dropped_no_edge >= 2);
    // One direction only: the other stays shut.
    lab.apply(vec![set(1, 0, Impairment::delay_only(MS))]);
    sender.send(&frame(BROADCAST, mac_of(PortId(0)), ODD, &[1; 50]));
    assert_eq!(receiver.next(), None);
}

#[test]
fn two_relays_do_not_see_each_other() {
    let (a, b) = (Lab::new(&[0, 1]), Lab::new(&[0, 1]));
    a.apply(link(0, 1, MS));
    b.apply(link(0, 1, MS));
    let receivers = [&a, &b].map(|lab| lab.nodes[1].run(|| Raw::new(ODD)));
    for (lab, n) in [(&a, 1), (&b, 2)] {
        let sender = lab.nodes[0].run(|| Raw::new(ODD));
        sender.send(&frame(BROADCAST, mac_of(PortId(0)), ODD, &[n; 50]));
    }
    for (receiver, n) in receivers.iter().zip([1, 2]) {
        assert_eq!(receiver.next().unwrap().0[14], n);
        receiver.timeout(Duration::from_millis(100));
        assert_eq!(receiver.next(), None);
    }
}

#[test]
fn handover_is_one_instant_and_touches_no_interface() {
    handover(&Lab::new(&[0, 1, 2]));
}

/// Ports 0 to 2.
pub(super) fn handover(lab: &Lab) {
    lab.apply(link(0, 1, 3 * MS));
    let links = || {
        lab.nodes
            .iter()
            .map(|n| n.run(link_state))
            .collect::<Vec<_>>()
    };
    let before = links();
    let receivers = [1, 2].map(|n| lab.nodes[n].run(|| Raw::new(ODD)));
    let (stop, stopped) = mpsc::channel::<()>();
    let sender = lab.nodes[0].run(|| Raw::new(ODD));
    let sent = Arc::new(Mutex::new(Vec::<(u64, u64)>::new()));
    let all = Arc::clone(&sent);
    let sending = thread::spawn(move || {
        let mut next = Instant::now();
        while stopped.try_recv().is_err() {
            let n = all.lock().unwrap().len() as u32;
            let payload = [&n.to_be_bytes()[..], &[0; 50]].concat();
            let before = mono_ns();
            sender.send(&frame(BROADCAST, mac_of(PortId(0)), ODD, &payload));
            all.lock().unwrap().push((before, mono_ns()));
            next += Duration::from_micros(200);
            while Instant::now() < next {
                thread::yield_now();
            }
        }
    });
    // A machine that is busy with others may not let the sender run for a whole while.
    let hundred_since = |at: u64| {
        eventually("frames are sent", || {
            let sent = sent.lock().unwrap();
            let since = sent.partition_point(|(before, _)| *before < at);
            (sent.len() - since >= 100).then_some(())
        });
    };
    hundred_since(0);
    let mut changes = vec![remove(0, 1), remove(1, 0)];
    changes.extend(link(0, 2, 3 * MS));
    let at = mono_ns() + 100 * MS;
    let applied = lab.handle.apply(EdgeUpdate { changes }, Some(at)).unwrap();
    assert_eq!(applied.at_ns, at);
    assert_eq!((applied.changes.added, applied.changes.removed), (2, 2));
    hundred_since(at);
    stop.send(()).unwrap();
    sending.join().unwrap();
    let sent = sent.lock().unwrap();
    let mut arrived = BTreeMap::new();
    receivers
        .iter()
        .for_each(|r| r.timeout(Duration::from_millis(10)));
    eventually("none lost: those in flight arrive", || {
        for (i, receiver) in receivers.iter().enumerate() {
            while let Some((f, _)) = receiver.next() {
                let n = u32::from_be_bytes(f[14..18].try_into().unwrap());
                assert_eq!(arrived.insert(n, i), None, "frame {n} arrived twice");
            }
        }
        (arrived.len() == sent.len()).then_some(())
    });
    for (n, (before, after)) in sent.iter().enumerate() {
        // Captured between `before` and `after`: only a frame in whose send the instant fell may
        // have gone either way.
        if *after < at {
            assert_eq!(
                arrived[&(n as u32)],
                0,
                "frame {n}, {} ns before",
                at - after
            );
        } else if *before >= at {
            assert_eq!(
                arrived[&(n as u32)],
                1,
                "frame {n}, {} ns after",
                before - at
            );
        }
    }
    assert!(arrived.values().any(|&i| i == 0) && arrived.values().any(|&i| i == 1));
    assert_eq!(links(), before);
}

/// Everything the kernel says about the node's interfaces.
fn link_state() -> String {
    let mut socket = constel_host::netlink::Socket::open().unwrap();
    socket
        .links()
        .unwrap()
        .iter()
        .map(|l| format!("{l:?}\n"))
        .collect()
}

#[test]
fn bad_updates_change_nothing() {
    bad_updates(&Lab::new(&[0, 1]));
}

/// Ports 0 and 1.
pub(super) fn bad_updates(lab: &Lab) {
    lab.apply(link(0, 1, MS));
    let changes = vec![remove(0, 1), set(0, 9, Impairment::delay_only(1))];
    let error = lab.handle.apply(EdgeUpdate { changes }, None).unwrap_err();
    let DriverError::Update(error) = error else {
        panic!("{error}")
    };
    assert!(matches!(
        error.errors[..],
        [ChangeError::NoSuchPort {
            port: PortId(9),
            ..
        }]
    ));
    let changes = vec![remove(0, 1), remove(1, 0)];
    lab.handle
        .apply(
            EdgeUpdate {
                changes: changes.clone(),
            },
            None,
        )
        .unwrap();
    let error = lab.handle.apply(EdgeUpdate { changes }, None).unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
    assert_eq!(lab.handle.all_edges().unwrap(), []);
    lab.handle.stop();
    assert!(matches!(
        lab.handle.relay_stats(),
        Err(DriverError::Stopped)
    ));
    let update = EdgeUpdate {
        changes: link(0, 1, MS),
    };
    assert!(matches!(
        lab.handle.apply(update, None),
        Err(DriverError::Stopped)
    ));
}

#[test]
fn configuration_that_cannot_be() {
    let ports = |ports| RelayConfig::new("x", ports, 1);
    let slots = |slots| RelayConfig { slots, ..ports(1) };
    let threads = |threads| RelayConfig {
        threads,
        ..ports(1)
    };
    let many = Relay::threads_max() + 1;
    for bad in [
        ports(0),
        ports(65_537),
        slots(0),
        slots(1000),
        slots(3000),
        threads(0),
        threads(many),
    ] {
        let error = Relay::new(bad.clone()).unwrap_err();
        assert!(matches!(error, DriverError::Config(_)), "{bad:?}: {error}");
    }
}

#[test]
fn a_relay_that_was_never_started_goes_as_well() {
    let config = RelayConfig {
        slots: 1024,
        ..RelayConfig::new("idle", 1, 1)
    };
    let relay = Relay::new(config).unwrap();
    let node = Node::new();
    node.port(&relay, PortId(0), 0, 1);
    drop(node);
    // The node is gone, and its port with it: attaching again must fail.
    eventually("the host end goes with the node", || {
        relay.attach(&[PortId(0)]).err()
    });
}
