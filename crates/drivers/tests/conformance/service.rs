//! Rate, queue, marks and loss.

use super::*;

#[test]
fn loss_is_binomial_and_follows_from_the_seed() {
    each(|kind| {
        for (ratio, count) in [(0.3, 2000u32), (0.02, 3000)] {
            let lab = PlaneLab::silent(kind, 2);
            let lossy = Impairment {
                loss: Loss::Bernoulli { loss_ratio: ratio },
                ..Impairment::delay_only(3 * MS)
            };
            lab.apply(vec![set(0, 1, lossy)]);
            let far = listener(&lab, 1);
            let sender = sender(&lab);
            let sending = thread::spawn(move || {
                stay_on_one_processor();
                for n in 0..count {
                    sender.send(&numbered(mac_of(PortId(1)), n, 60));
                    if n % 50 == 49 {
                        thread::sleep(Duration::from_millis(2));
                    }
                }
            });
            sending.join().unwrap();
            let got: BTreeSet<u32> = drain(&far, Duration::from_secs(1))
                .iter()
                .map(|f| f.0)
                .collect();
            let lost = f64::from(count) - got.len() as f64;
            let mean = f64::from(count) * ratio;
            let deviation = (mean * (1.0 - ratio)).sqrt();
            let off = (lost - mean) / deviation;
            let text = format!("{lost} of {count} lost at {ratio}: {off:+.2} standard deviations");
            println!("{}: {text}", kind.name());
            if waits() {
                // `tools/virtual/conformance` compares two runs.
                let lost: Vec<u32> = (0..count).filter(|n| !got.contains(n)).collect();
                println!("lost: {lost:?}");
            }
            assert!(off.abs() < 4.5, "{text}");
            let stats = settled(&lab);
            assert_eq!(stats.totals.counters.dropped_loss, lost as u64, "{stats:?}");
            if kind.capabilities().seeded {
                assert_eq!(
                    got,
                    survivors(&lossy, count),
                    "not those that the seed says"
                );
            }
        }
    });
}

/// The frames that the pure model lets pass.
fn survivors(impairment: &Impairment, count: u32) -> BTreeSet<u32> {
    let mut edge = Edge::new(*impairment, SEED, 0, 1, 0);
    let lost = &mut |_, _| {};
    for n in 0..count {
        edge.arrive(u64::from(n), n, 60, lost).unwrap();
    }
    std::iter::from_fn(|| edge.pop_due(u64::MAX, lost))
        .map(|released| released.frame)
        .collect()
}

#[test]
fn frames_leave_when_service_and_propagation_say() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        // 1,000 bytes take 8 ms.
        let edge = rated(1_000_000, 1 << 20, 30 * MS);
        lab.apply(vec![set(0, 1, edge)]);
        let far = listener(&lab, 1);
        let sender = sender(&lab);
        let sent = Sent::by(|| {
            for n in 0..25 {
                sender.send(&numbered(mac_of(PortId(1)), n, 1000));
            }
        });
        let got = drain(&far, Duration::from_secs(2));
        assert_eq!(got.len(), 25);
        for (n, at) in got {
            let due = (u64::from(n) + 1) * 8 * MS + 30 * MS;
            lab.assert_took(&sent, at, due, late());
        }
    });
}

#[test]
fn the_queue_holds_what_it_is_to_hold_whatever_the_delay() {
    each(|kind| {
        for delay in [0, 150 * MS] {
            let lab = PlaneLab::silent(kind, 2);
            // A frame of 1,514 bytes takes 121 ms: the burst is over long before the first is served.
            lab.apply(vec![set(0, 1, rated(100_000, 10 * 1514, delay))]);
            let far = listener(&lab, 1);
            let sender = sender(&lab);
            for n in 0..30 {
                sender.send(&numbered(mac_of(PortId(1)), n, 1514));
            }
            let got: Vec<u32> = drain(&far, Duration::from_secs(2))
                .iter()
                .map(|f| f.0)
                .collect();
            assert_eq!(
                got,
                (0..11).collect::<Vec<_>>(),
                "one in service, ten waiting"
            );
            let edge = lab
                .handle
                .edge_stats(PortId(0), PortId(1))
                .unwrap()
                .unwrap();
            assert_eq!(
                (edge.counters.dropped_queue, edge.counters.delivered),
                (19, 11)
            );
        }
    });
}

/// An IPv4 or IPv6 packet of nothing, or a frame of the odd EtherType, 1,250 bytes with its Ethernet header; `ecn` is
/// its ECN field (RFC 3168).
fn packet_with_ecn(ether_type: u16, ecn: u8, number: u32) -> Vec<u8> {
    let mut payload = vec![0; 1_236];
    payload[40..44].copy_from_slice(&number.to_be_bytes());
    match ether_type {
        0x0800 => {
            // Protocol 253 (RFC 3692), from 10.0.0.1 to 10.0.0.2.
            payload[..4].copy_from_slice(&[0x45, ecn, 4, 212]);
            payload[8..10].copy_from_slice(&[64, 253]);
            payload[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
            let check = !packet::fold(packet::words_sum(&payload[..20]));
            payload[10..12].copy_from_slice(&check.to_be_bytes());
        }
        0x86dd => {
            // No next header (RFC 8200).
            payload[..8].copy_from_slice(&[0x60, ecn << 4, 0, 0, 4, 172, 59, 64]); // 1,196 bytes follow
        }
        _ => {}
    }
    frame(mac_of(PortId(1)), mac_of(PortId(0)), ether_type, &payload)
}

#[test]
fn what_waits_too_long_is_marked_if_its_sender_understands() {
    each(|kind| {
        let discipline = Discipline::CeThreshold { above_ns: 350 * MS };
        let effects = Effects {
            discipline: Some(discipline),
            ..Effects::default()
        };
        if !kind.capabilities().refusals(&effects).is_empty() {
            return;
        }
        let lab = PlaneLab::silent(kind, 2);
        // 100 ms each: the burst is over long before the first is served, and the fifth waits 400 ms.
        lab.apply(vec![set(0, 1, rated(100_000, 1 << 20, MS))]);
        let edge = EffectsChange::Edge {
            from: PortId(0),
            to: PortId(1),
            effects: Some(effects),
        };
        lab.handle.apply_effects(vec![edge]).unwrap();
        let raw = lab.nodes[1].run(|| Raw::new(libc::ETH_P_ALL as u16));
        raw.timeout(Duration::from_secs(2));
        let sender = sender(&lab);
        let kinds = [(0x0800, 2), (0x86dd, 1), (0x0800, 0), (0x86dd, 0), (ODD, 0)];
        let sent: Vec<Vec<u8>> = (0..)
            .zip(kinds.into_iter().cycle().take(15))
            .map(|(n, (ether_type, ecn))| packet_with_ecn(ether_type, ecn, n))
            .collect();
        sent.iter().for_each(|whole| sender.send(whole));
        let mut expected = sent.clone();
        let marked = expected
            .iter_mut()
            .skip(4)
            .filter(|whole| packet::traits(&whole[12..]).ecn_capable)
            .map(|whole| packet::mark_ce(&mut whole[12..]))
            .count();
        assert_eq!(marked, 4, "two of each");
        for (n, wanted) in expected.iter().enumerate() {
            let (got, _) = raw.next().unwrap_or_else(|| panic!("frame {n} is missing"));
            let differs = got.iter().zip(wanted).position(|(a, b)| a != b);
            assert!(got == *wanted, "frame {n} differs at {differs:?}");
            if wanted[12..14] == [0x08, 0x00] {
                let sum = packet::fold(packet::words_sum(&got[14..34]));
                assert_eq!(sum, 0xffff, "frame {n}: the header's checksum is wrong");
            }
        }
        let of_edge = lab.handle.edge_stats(PortId(0), PortId(1));
        let of_edge = of_edge.unwrap().unwrap().counters;
        let of_all = settled(&lab).totals.counters;
        assert_eq!((of_edge.marked, of_all.marked), (4, 4));
        assert_eq!((of_all.delivered, of_all.dropped()), (15, 0));
    });
}

#[test]
fn the_rate_holds_over_seconds() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        let rate = 2_000_000;
        // All at once, so that it does not matter how fast this machine can send.
        lab.apply(vec![set(0, 1, rated(rate, 1 << 20, 2 * MS))]);
        let far = listener(&lab, 1);
        let sender = sender(&lab);
        for n in 0..600 {
            sender.send(&numbered(mac_of(PortId(1)), n, 1000));
        }
        let got = drain(&far, Duration::from_secs(1));
        assert_eq!(got.len(), 600);
        let span_ns = got[got.len() - 1].1 - got[0].1;
        if waits() {
            let off_ns = span_ns.abs_diff(599 * 4 * MS);
            assert!(off_ns <= late(), "599 frames are {off_ns} ns off");
        }
        let span = span_ns as f64 / 1e9;
        let seen = (got.len() - 1) as f64 * 8000.0 / span;
        let error = (seen / rate as f64 - 1.0).abs();
        let bound = if slow() { 0.03 } else { 0.005 };
        assert!(error < bound, "{seen} bit/s in {span} s");
    });
}
