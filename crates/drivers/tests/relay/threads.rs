//! Two threads of the relay: what holds with one holds with two.

use super::*;
use constel_drivers::Links;

/// As [`Lab::new`], half of the ports with each of two threads. `None` on a machine of one processor.
fn two(ports: &[u32]) -> Option<Lab> {
    let max = ports.iter().max().unwrap() + 1;
    let config = RelayConfig {
        slots: 4096,
        threads: 2,
        ..RelayConfig::new("two", max, 1)
    };
    (Relay::threads_max() > 1).then(|| Lab::with(config, ports))
}

#[test]
fn frames_go_across_and_back_and_are_counted_once() {
    let Some(lab) = two(&[0, 1, 2, 3]) else {
        return;
    };
    // Within the first thread, within the second, and across.
    lab.apply([link(0, 1, MS), link(2, 3, 2 * MS), link(0, 3, 3 * MS)].concat());
    assert_eq!(lab.handle.relay_stats().unwrap().threads, 2);
    for (from, to, delay) in [(0, 1, MS), (2, 3, 2 * MS), (0, 3, 3 * MS), (3, 0, 3 * MS)] {
        for ip in [|n| v4(n).into(), |n| IpAddr::from(v6(n))] {
            one_way(&lab, from, to, ip, 1200);
            let known = one_way(&lab, from, to, ip, 1200);
            assert!((delay..delay + 5 * MS).contains(&known), "{known}");
        }
    }
    eventually("nothing is under way", || {
        let stats = lab.handle.relay_stats().unwrap();
        (stats.totals.held == 0 && stats.emulator_drops.backlog == 0).then_some(())
    });
    let stats = lab.handle.relay_stats().unwrap();
    assert_eq!(stats.emulator_drops.total(), 0, "{stats:?}");
    assert_eq!(stats.early, 0);
    let edges = lab.handle.all_edges().unwrap();
    assert_eq!((edges.len(), stats.totals.edges), (6, 6));
    for edge in &edges {
        let one = lab.handle.edge_stats(edge.from, edge.to).unwrap().unwrap();
        let counters = one.counters;
        assert_eq!(counters.offered, counters.delivered + one.held as u64);
    }
    assert!(stats.totals.counters.delivered >= 16);
    every_slot_comes_back(&lab, 2 * 4096);
}

#[test]
fn a_stream_goes_across_whole_and_comes_back_in_slots() {
    let Some(lab) = two(&[0, 1]) else {
        return;
    };
    lab.apply(link(0, 1, MS));
    const BYTES: usize = 20_000_000;
    let listener = lab.nodes[1].run(|| TcpListener::bind((v4(2), 7100)).unwrap());
    let receiving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut hash = DefaultHasher::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match stream.read(&mut buffer).unwrap() {
                0 => return hash.finish(),
                len => hash.write(&buffer[..len]),
            }
        }
    });
    let mut stream = lab.nodes[0].run(|| TcpStream::connect((v4(2), 7100)).unwrap());
    let bytes: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
    stream.write_all(&bytes).unwrap();
    drop(stream);
    let mut expected = DefaultHasher::new();
    expected.write(&bytes);
    assert_eq!(receiving.join().unwrap(), expected.finish());
    every_slot_comes_back(&lab, 2 * 4096);
}

#[test]
fn several_edges_of_a_port_may_be_of_several_threads() {
    if let Some(lab) = two(&[0, 1, 2, 3]) {
        tables::several_edges(&lab);
    }
}

/// Ports 0 and 1 are with the one thread, 2 with the other.
#[test]
fn an_update_is_one_instant_for_all_threads() {
    if let Some(lab) = two(&[0, 1, 2]) {
        tables::handover(&lab);
    }
}

#[test]
fn a_bad_part_of_an_update_is_a_bad_update_for_all() {
    let Some(lab) = two(&[0, 1]) else {
        return;
    };
    lab.apply(link(0, 1, MS));
    // One thread could make its part.
    let changes = vec![set(0, 1, Impairment::delay_only(9 * MS)), remove(1, 0)];
    lab.apply(vec![remove(1, 0)]);
    let error = lab.handle.apply(EdgeUpdate { changes }, None).unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
    let edges = lab.handle.all_edges().unwrap();
    let delays = edges.iter().map(|e| e.impairment.unwrap().delay.at(0));
    assert_eq!(delays.collect::<Vec<_>>(), [MS]);
    lab.apply(vec![remove(0, 1)]);
    tables::bad_updates(&lab);
}

/// Effects of a port hold for its edges whichever thread has them, and for those to come.
#[test]
fn effects_hold_for_edges_of_all_threads() {
    let Some(lab) = two(&[0, 1, 2, 3]) else {
        return;
    };
    lab.apply(vec![set(0, 1, Impairment::delay_only(MS))]);
    let down = Effects {
        down: Some(true),
        ..Effects::default()
    };
    let change = EffectsChange::Port {
        port: PortId(0),
        effects: Some(down),
    };
    let before = mono_ns();
    let at = lab.handle.apply_effects(vec![change]).unwrap();
    assert!((before..=mono_ns()).contains(&at));
    lab.apply(vec![set(0, 3, Impairment::delay_only(MS))]);
    for to in [1, 3] {
        let known = lab.handle.effects(PortId(0), PortId(to)).unwrap();
        assert_eq!(known.in_force.down, Some(true));
    }
    let sender = lab.nodes[0].run(|| Raw::new(ODD));
    for to in [1, 3] {
        sender.send(&frame(mac_of(PortId(to)), mac_of(PortId(0)), ODD, &[1; 50]));
    }
    for to in [1, 3] {
        eventually("the frame is lost to the outage", || {
            let edge = lab.handle.edge_stats(PortId(0), PortId(to)).unwrap()?;
            (edge.counters.dropped_outage > 0).then_some(())
        });
    }
}

/// A sender that floods an edge of the other thread loses its own frames, and no slot gets lost.
#[test]
fn a_flood_across_costs_only_its_own_frames() {
    let Some(lab) = two(&[0, 1, 2, 3]) else {
        return;
    };
    let limited = Impairment {
        rate_bps: NonZeroU64::new(1_000_000),
        queue: QueueLimit { bytes: 10_000 },
        ..Impairment::delay_only(MS)
    };
    lab.apply([vec![set(0, 2, limited)], link(1, 3, 5 * MS)].concat());
    let stop = AtomicBool::new(false);
    let (sent, arrived) = thread::scope(|scope| {
        scope.spawn(|| {
            let flood = lab.nodes[0].run(|| Raw::new(ODD));
            let bytes = frame(mac_of(PortId(2)), mac_of(PortId(0)), ODD, &[1; 86]);
            while !stop.load(Ordering::Relaxed) {
                flood.try_send(&bytes);
            }
        });
        let victim = lab.nodes[1].run(|| Raw::new(ODD));
        let receiver = lab.nodes[3].run(|| Raw::new(ODD));
        let bytes = frame(mac_of(PortId(3)), mac_of(PortId(1)), ODD, &[2; 100]);
        let sent = send_now_and_then(&victim, &bytes, SECOND);
        stop.store(true, Ordering::Relaxed);
        let arrived = std::iter::from_fn(|| receiver.next()).take(sent);
        (sent, arrived.count())
    });
    let stats = lab.handle.relay_stats().unwrap();
    assert_eq!(arrived, sent, "{stats:?}");
    assert_eq!(
        (stats.emulator_drops.pool, stats.emulator_drops.ring),
        (0, 0)
    );
    assert_eq!(lab.handle.dropped_share(PortId(1)).unwrap(), Some(0));
    let victim = lab.handle.edge_stats(PortId(1), PortId(3)).unwrap();
    assert_eq!(victim.unwrap().counters.dropped(), 0);
    every_slot_comes_back(&lab, 2 * 4096);
}

/// With as many threads as processors, the last one has a processor of its own only while it takes one: no frame that
/// passes in that time is lost or comes before another.
#[test]
fn the_last_processor_is_taken_while_it_is_needed() {
    if Relay::processors().len() != 2 {
        return;
    }
    let Some(lab) = two(&[0, 1, 2, 3]) else {
        return;
    };
    // The loud one's and the quiet one's frames go across, each another way.
    lab.apply([link(0, 3, MS), link(2, 1, MS)].concat());
    let apart_ns = || lab.handle.relay_stats().unwrap().apart_ns;
    let sender = lab.nodes[2].run(|| Raw::new(ODD));
    let receiver = lab.nodes[1].run(|| Raw::new(ODD));
    let mut numbers = 0u32..;
    let mut pass = || {
        let some: Vec<[u8; 4]> = numbers.by_ref().take(8).map(u32::to_be_bytes).collect();
        for number in &some {
            let payload = [&number[..], &[0; 60]].concat();
            sender.send(&frame(mac_of(PortId(1)), mac_of(PortId(2)), ODD, &payload));
        }
        for number in &some {
            let (got, _) = receiver.next().expect("a frame that was sent");
            assert_eq!(got[14..18], *number, "in order");
        }
    };
    let mut pass_until = |what: &str, done: &dyn Fn() -> bool| {
        let end = Instant::now() + 20 * SECOND;
        while !done() {
            let stats = || lab.handle.relay_stats();
            assert!(Instant::now() < end, "{what}: {:?}", stats());
            pass();
        }
    };
    for _ in 0..2 {
        let before = apart_ns();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let flood = lab.nodes[0].run(|| Raw::new(ODD));
                let bytes = frame(mac_of(PortId(3)), mac_of(PortId(0)), ODD, &[1; 86]);
                while !stop.load(Ordering::Relaxed) {
                    flood.try_send(&bytes);
                }
            });
            pass_until("apart", &|| apart_ns() > before);
            stop.store(true, Ordering::Relaxed);
        });
        pass_until("together again", &|| {
            let before = apart_ns();
            thread::sleep(Duration::from_millis(5));
            apart_ns() == before
        });
    }
    pass();
    every_slot_comes_back(&lab, 2 * 4096);
}

#[test]
fn nodes_that_forward_are_with_one_thread_and_their_neighbours_with_another() {
    if Relay::threads_max() < 2 {
        return;
    }
    let (lab, _table) = transit::lab_of(2);
    let sender = lab.nodes[0].run(|| Raw::new(transit::IPV4));
    let receiver = lab.nodes[1].run(|| Raw::new(transit::IPV4));
    for n in 0..50u8 {
        sender.send(&transit::sent(&transit::packet(v4(2), 9, &[n; 200])));
    }
    for n in 0..50u8 {
        let (got, _) = transit::next(&receiver, transit::UDP);
        assert_eq!(got[34], n, "in order");
        assert_eq!(got[22], 7, "two hops");
    }
    let forwarded = lab.handle.transit(1).unwrap().unwrap().forwarded;
    assert!(forwarded >= 50, "{forwarded}");
    every_slot_comes_back(&lab, 2 * transit::SLOTS);
}
