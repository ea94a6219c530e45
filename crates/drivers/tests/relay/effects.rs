//! Effects that act on single frames.

use super::*;
use constel_drivers::Links;

#[test]
fn loss_is_the_scenarios_and_counted() {
    let lab = Lab::new(&[0, 1]);
    let lossy = Impairment {
        loss: Loss::Bernoulli { loss_ratio: 0.5 },
        ..Impairment::delay_only(MS)
    };
    lab.apply(vec![set(0, 1, lossy)]);
    let receiver = lab.nodes[1].run(|| Raw::new(ODD));
    receiver.timeout(Duration::from_millis(200));
    let sender = lab.nodes[0].run(|| Raw::new(ODD));
    for n in 0..200u8 {
        sender.send(&frame(BROADCAST, mac_of(PortId(0)), ODD, &[n; 50]));
    }
    let got = std::iter::from_fn(|| receiver.next()).count();
    let edge = lab
        .handle
        .edge_stats(PortId(0), PortId(1))
        .unwrap()
        .unwrap()
        .counters;
    assert!((60..140).contains(&got), "{got} of 200");
    assert_eq!(edge.offered, edge.delivered + edge.dropped_loss);
    assert!(edge.delivered >= got as u64);
    assert_eq!(lab.handle.relay_stats().unwrap().emulator_drops.total(), 0);
}

#[test]
fn effects_are_real_in_packets() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, MS));
    let (from, to) = (PortId(0), PortId(1));
    let set = |effects: Effects| {
        let effects = Some(effects);
        let change = EffectsChange::Edge { from, to, effects };
        lab.handle.apply_effects(vec![change]).unwrap();
    };
    let pattern = |frames| Some(LossLaw::Pattern { frames });
    set(Effects {
        loss: pattern(vec![(3, 3), (5, 6)]),
        ..Effects::default()
    });
    let receiver = lab.nodes[1].run(|| Raw::new(ODD));
    receiver.timeout(Duration::from_millis(200));
    let sender = lab.nodes[0].run(|| Raw::new(ODD));
    let before = lab.handle.edge_stats(from, to).unwrap().unwrap().counters;
    let payload = |n| [n; 50];
    for n in 1..=8u8 {
        sender.send(&frame(BROADCAST, mac_of(from), ODD, &payload(n)));
    }
    let got = std::iter::from_fn(|| receiver.next()).count();
    let after = lab.handle.edge_stats(from, to).unwrap().unwrap().counters;
    // The nodes' own chatter may be among the frames counted.
    assert_eq!(after.dropped_loss - before.dropped_loss, 3);
    assert!(got >= 5, "{got}");
    set(Effects {
        duplicate_ratio: Some(1.0),
        corrupt_ratio: Some(1.0),
        ..Effects::default()
    });
    sender.send(&frame(BROADCAST, mac_of(from), ODD, &payload(0)));
    let got: Vec<Vec<u8>> = std::iter::from_fn(|| receiver.next())
        .map(|(bytes, _)| bytes)
        .collect();
    assert_eq!(got.len(), 2);
    assert_eq!(got[0], got[1], "a copy is a copy");
    let flipped: u32 = got[0][14..].iter().map(|b| b.count_ones()).sum();
    assert_eq!(flipped, 1);
    // A step of the topology leaves them; taken away, all is as planned.
    lab.apply(link(0, 1, 2 * MS));
    let known = lab.handle.effects(from, to).unwrap();
    assert_eq!(known.in_force, known.own);
    assert_eq!(known.own.corrupt_ratio, Some(1.0));
    let effects = None;
    let change = EffectsChange::Edge { from, to, effects };
    lab.handle.apply_effects(vec![change]).unwrap();
    assert!(lab.handle.effects(from, to).unwrap().in_force.is_empty());
}

#[test]
fn corruption_is_seen_by_checksums() {
    let lab = Lab::new(&[0, 1]);
    lab.apply(link(0, 1, MS));
    one_way(&lab, 0, 1, |n| v4(n).into(), 1);
    let effects = Some(Effects {
        corrupt_ratio: Some(1.0),
        ..Effects::default()
    });
    let port = PortId(0);
    let change = EffectsChange::Port { port, effects };
    lab.handle.apply_effects(vec![change]).unwrap();
    let receiver = lab.nodes[1].run(|| udp(v4(2), 7005));
    receiver
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let sender = lab.nodes[0].run(|| udp(v4(1), 7005));
    for _ in 0..50 {
        // 1,000 zeros: nearly every flip is in the payload.
        sender.send_to(&[0; 1000], (v4(2), 7005)).unwrap();
    }
    let mut buffer = [0; 2000];
    assert!(receiver.recv(&mut buffer).is_err(), "no damaged datagram");
    let edge = lab
        .handle
        .edge_stats(PortId(0), PortId(1))
        .unwrap()
        .unwrap();
    assert!(edge.counters.corrupted >= 50);
}
