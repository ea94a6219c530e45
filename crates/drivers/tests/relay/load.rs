//! Idle, under load, and under more load than it can bear.

use super::*;
use constel_drivers::Links;

#[test]
fn an_idle_relay_sleeps() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, MS));
    // Let the nodes' own start-up chatter pass.
    thread::sleep(2 * SECOND);
    let before = lab.handle.relay_stats().unwrap();
    thread::sleep(2 * SECOND);
    let after = lab.handle.relay_stats().unwrap();
    let share = (after.cpu_ns - before.cpu_ns) as f64 / (after.at_ns - before.at_ns) as f64;
    assert!(share < 0.005, "{:.3} % of a core", share * 100.0);
}

#[test]
fn under_churn_every_frame_and_every_slot_is_accounted_for() {
    const SLOTS: u32 = 8192;
    let config = RelayConfig {
        slots: SLOTS,
        ..RelayConfig::new("churn", 4, 1)
    };
    let lab = Lab::with(config, &[0, 1, 2, 3]);
    let slow = Impairment {
        rate_bps: NonZeroU64::new(20_000_000),
        queue: QueueLimit { bytes: 3000 },
        loss: Loss::Bernoulli { loss_ratio: 0.1 },
        ..Impairment::delay_only(MS)
    };
    let (stop, stopped) = mpsc::channel::<()>();
    let sender = lab.nodes[0].run(|| Raw::new(ODD));
    let sending = thread::spawn(move || {
        let mut n = 0u32;
        while stopped.try_recv().is_err() {
            let to = if n.is_multiple_of(3) {
                BROADCAST
            } else {
                mac_of(PortId(1 + n % 3))
            };
            sender.send(&frame(to, mac_of(PortId(0)), ODD, &[n as u8; 300]));
            n += 1;
            if n.is_multiple_of(20) {
                thread::sleep(Duration::from_micros(300));
            }
        }
    });
    for n in 0..400u32 {
        let to = 1 + n % 3;
        let there = lab.handle.edge_stats(PortId(0), PortId(to)).unwrap();
        let there = there.is_some_and(|e| e.impairment.is_some());
        let change = match (there, n % 4) {
            (true, 0) => remove(0, to),
            (_, 1) => set(0, to, slow),
            _ => set(0, to, Impairment::delay_only(u64::from(n % 5) * MS)),
        };
        lab.apply(vec![change]);
        thread::sleep(Duration::from_millis(1));
    }
    stop.send(()).unwrap();
    sending.join().unwrap();
    let end = eventually("all is delivered", || {
        let stats = lab.handle.relay_stats().unwrap();
        let done = stats.totals.held == 0 && stats.emulator_drops.backlog == 0;
        done.then_some(stats)
    });
    let c = end.totals.counters;
    assert_eq!(c.offered, c.delivered + c.dropped());
    assert_eq!((c.delivered, c.delivered), (end.injected, end.delivered));
    assert!(
        c.dropped_loss > 0 && c.dropped_queue > 0 && c.delivered > 1000,
        "{c:?}"
    );
    assert_eq!(
        (end.emulator_drops.total(), end.foreign, end.early),
        (0, 0, 0),
        "{end:?}"
    );
    every_slot_comes_back(&lab, SLOTS as usize);
    let edges = lab.handle.all_edges().unwrap();
    assert_eq!(edges.len(), end.totals.edges);
}

/// A port that floods an edge with a long delay comes to hold its share of the slots, and no more; another
/// port's frames all arrive in that time.
#[test]
fn a_port_that_floods_leaves_slots_to_the_others() {
    let config = RelayConfig {
        slots: 4096,
        ..RelayConfig::new("test", 4, 1)
    };
    let lab = Lab::with(config, &[0, 1, 2, 3]);
    // Frames stay inside for a second.
    lab.apply([link(0, 1, 1000 * MS), link(2, 3, MS)].concat());
    let flood = lab.nodes[0].run(|| Raw::new(0x88b5));
    let frame_a = frame(mac_of(PortId(1)), mac_of(PortId(0)), 0x88b5, &[1; 100]);
    let sent = 8000;
    let start = std::time::Instant::now();
    (0..sent).for_each(|_| flood.send(&frame_a));
    assert!(
        start.elapsed() < Duration::from_millis(900),
        "all inside at the same time"
    );
    let stats = lab.handle.relay_stats().unwrap();
    let held = stats.totals.held as u64;
    assert!(
        stats.emulator_drops.share > 0 && stats.emulator_drops.pool == 0,
        "{stats:?}"
    );
    // The node's kernel may have had a word of its own with its neighbours.
    let known = held + stats.emulator_drops.total();
    assert!((sent..sent + 10).contains(&known), "{known} of {sent}");
    assert!((1000..4096 - 64).contains(&held), "{held}");
    let lost_at = |port| lab.handle.dropped_share(PortId(port)).unwrap();
    assert_eq!(
        lost_at(0),
        Some(stats.emulator_drops.share),
        "counted at the port"
    );
    assert_eq!(lost_at(2), Some(0));
    assert!(lab.handle.dropped_share(PortId(4)).is_err());

    let victim = lab.nodes[2].run(|| Raw::new(0x88b5));
    let receiver = lab.nodes[3].run(|| Raw::new(0x88b5));
    let frame_b = frame(mac_of(PortId(3)), mac_of(PortId(2)), 0x88b5, &[2; 100]);
    for _ in 0..200 {
        flood.send(&frame_a);
        victim.send(&frame_b);
    }
    for n in 0..200 {
        assert!(receiver.next().is_some(), "frame {n} of the quiet port");
    }
    // All come back, and the port may send again.
    every_slot_comes_back(&lab, 4096);
    let before = lab.handle.relay_stats().unwrap().emulator_drops.share;
    (0..200).for_each(|_| flood.send(&frame_a));
    let later = lab.handle.relay_stats().unwrap();
    assert_eq!(later.emulator_drops.share, before);
}

/// More ports flood than the relay has time for: it sheds their frames, not another's, and stays below the share of
/// real time beyond which the kernel stops it for 50 ms in each second.
#[test]
fn floods_neither_drop_nor_delay_anothers_frames() {
    const FLOODS: u32 = 8;
    let ports: Vec<u32> = (0..2 + 2 * FLOODS).collect();
    let lab = Lab::new(&ports);
    let limited = Impairment {
        rate_bps: NonZeroU64::new(1_000_000),
        queue: QueueLimit { bytes: 10_000 },
        ..Impairment::delay_only(MS)
    };
    let floods = (1..=FLOODS).map(|n| set(2 * n, 2 * n + 1, limited));
    lab.apply(floods.chain(link(0, 1, 10 * MS)).collect());
    let classes = vec!["victim".to_owned(), "flood".to_owned()];
    let class_of = ports.iter().map(|&port| u8::from(port > 1)).collect();
    lab.handle.classify(classes, class_of).unwrap();

    let stop = AtomicBool::new(false);
    let (sent, arrived) = thread::scope(|scope| {
        for n in 1..=FLOODS {
            let (stop, lab) = (&stop, &lab);
            scope.spawn(move || {
                let flood = lab.nodes[2 * n as usize].run(|| Raw::new(ODD));
                let to = mac_of(PortId(2 * n + 1));
                let bytes = frame(to, mac_of(PortId(2 * n)), ODD, &[1; 86]);
                while !stop.load(Ordering::Relaxed) {
                    flood.try_send(&bytes);
                }
            });
        }
        let victim = lab.nodes[0].run(|| Raw::new(ODD));
        let receiver = lab.nodes[1].run(|| Raw::new(ODD));
        roomy(&receiver);
        let bytes = frame(mac_of(PortId(1)), mac_of(PortId(0)), ODD, &[2; 100]);
        let sent = send_now_and_then(&victim, &bytes, 2 * SECOND);
        stop.store(true, Ordering::Relaxed);
        let arrived = std::iter::from_fn(|| receiver.next()).take(sent);
        (sent, arrived.count())
    });
    let stats = lab.handle.relay_stats().unwrap();
    assert_eq!(arrived, sent, "{stats:?}");
    let lost = stats.emulator_drops;
    assert_eq!(
        (lost.pool, lost.ring),
        (0, 0),
        "only its own share: {lost:?}"
    );
    assert_eq!(lab.handle.dropped_share(PortId(0)).unwrap(), Some(0));
    let late = lab.handle.lateness_by_class().unwrap()[0].lateness;
    // Stopped for 50 ms in each second, it would be 45 ms.
    assert!(late.p99_ns < 30 * MS, "{late:?}");
}

#[test]
fn lateness_is_kept_by_class() {
    let lab = Lab::new(&[0, 1, 2, 3]);
    lab.apply([link(0, 1, MS), link(2, 3, MS)].concat());
    let names = vec!["a".to_owned(), "b".to_owned()];
    assert!(
        lab.handle.classify(names.clone(), vec![2]).is_err(),
        "no such class"
    );
    lab.handle.classify(names, vec![0, 0, 1, 1]).unwrap();
    for (from, to, count) in [(0, 1, 30u32), (2, 3, 50)] {
        let sender = lab.nodes[from].run(|| Raw::new(0x88b5));
        let receiver = lab.nodes[to].run(|| Raw::new(0x88b5));
        let (a, b) = (PortId(from as u32), PortId(to as u32));
        for _ in 0..count {
            sender.send(&frame(mac_of(b), mac_of(a), 0x88b5, &[0; 60]));
            receiver.next().unwrap();
        }
    }
    let classes = lab.handle.lateness_by_class().unwrap();
    let counts: Vec<_> = classes
        .iter()
        .map(|c| (c.class.as_str(), c.lateness.count))
        .collect();
    let all = lab.handle.relay_stats().unwrap().lateness.count;
    assert!(counts[0].1 >= 30 && counts[1].1 >= 50, "{counts:?}");
    assert!(counts.iter().map(|c| c.1).sum::<u64>() <= all);
    for class in classes {
        assert!(class.own_lateness.max_ns <= class.lateness.max_ns);
    }
}

/// Everything on one processor: the relay's thread must let those run that send and receive, and
/// still nothing is early or lost.
#[test]
fn one_processor_is_enough() {
    let bound = std::thread::spawn(|| {
        // SAFETY: an all-zero set is valid; the call is about the calling thread, and threads that
        // it starts (the relay's) inherit it.
        let result = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
        };
        assert_eq!(result, 0);
        let lab = Lab::new(&[0, 1]);
        lab.apply(link(0, 1, 2 * MS));
        let sender = lab.nodes[0].run(|| Raw::new(0x88b5));
        let receiver = lab.nodes[1].run(|| Raw::new(0x88b5));
        let bytes = frame(mac_of(PortId(1)), mac_of(PortId(0)), 0x88b5, &[0; 100]);
        let count = 3000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..count {
                    sender.send(&bytes);
                    if n % 10 == 9 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
            for n in 0..count {
                assert!(receiver.next().is_some(), "frame {n}");
            }
        });
        lab.handle.relay_stats().unwrap()
    });
    let stats = bound.join().unwrap();
    assert_eq!(stats.early, 0);
    assert_eq!(stats.emulator_drops.total(), 0, "{stats:?}");
    // Generous: other tests run at the same time.
    assert!(stats.own_lateness.p50_ns < 500_000, "{stats:?}");
}
