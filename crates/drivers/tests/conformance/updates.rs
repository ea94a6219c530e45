//! Edges that come, change and go, and effects on top of them.

use super::*;

#[test]
fn an_update_is_all_or_nothing_for_every_frame() {
    each(|kind| {
        if !kind.capabilities().atomic_updates {
            return;
        }
        let lab = PlaneLab::silent(kind, 4);
        let wire = Impairment::delay_only(MS);
        lab.apply(vec![set(0, 1, wire), set(0, 2, wire)]);
        let far: Vec<Raw> = (1..4).map(|node| listener(&lab, node)).collect();
        let sender = sender(&lab);
        let sending = thread::spawn(move || {
            for n in 0..3000 {
                sender.send(&numbered(BROADCAST, n, 60));
                if n % 10 == 9 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        for _ in 0..8 {
            thread::sleep(Duration::from_millis(15));
            lab.apply(vec![remove(0, 1), remove(0, 2), set(0, 3, wire)]);
            thread::sleep(Duration::from_millis(15));
            lab.apply(vec![set(0, 1, wire), set(0, 2, wire), remove(0, 3)]);
        }
        sending.join().unwrap();
        let got: Vec<BTreeSet<u32>> = far
            .iter()
            .map(|raw| {
                drain(raw, Duration::from_millis(500))
                    .iter()
                    .map(|f| f.0)
                    .collect()
            })
            .collect();
        assert_eq!(got[0], got[1], "a frame saw half of a table");
        assert!(got[0].is_disjoint(&got[2]), "a frame saw both tables");
        assert!(!got[2].is_empty() && !got[0].is_empty());
        assert_eq!(got[0].len() + got[2].len(), 3000, "a frame saw no table");
    });
}

#[test]
fn an_update_takes_effect_in_its_time() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        lab.apply(link(0, 1, MS));
        let at = mono_ns() + 60 * MS;
        let changes = vec![remove(0, 1)];
        let pending = lab.handle.submit(EdgeUpdate { changes }, Some(at)).unwrap();
        let applied = pending.wait().unwrap();
        let late = late() + lab.stalled_ns(at, applied.at_ns);
        assert!(
            (at..at + late).contains(&applied.at_ns),
            "{} late",
            applied.at_ns as i64 - at as i64
        );
        assert_eq!(applied.changes.removed, 1);
    });
}

#[test]
fn an_edge_is_up_from_its_instant_on() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        let far = listener(&lab, 1);
        let sender = sender(&lab);
        let acquired = Impairment {
            up_from_ns: mono_ns() + 300 * MS,
            ..Impairment::delay_only(MS)
        };
        lab.apply(vec![set(0, 1, acquired)]);
        sender.send(&numbered(mac_of(PortId(1)), 0, 60));
        assert!(
            mono_ns() < acquired.up_from_ns,
            "sent too late to say anything"
        );
        thread::sleep(Duration::from_nanos(
            acquired.up_from_ns + late() - mono_ns(),
        ));
        sender.send(&numbered(mac_of(PortId(1)), 1, 60));
        let got: Vec<u32> = drain(&far, Duration::from_millis(500))
            .iter()
            .map(|f| f.0)
            .collect();
        assert_eq!(got, [1]);
    });
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        lab.apply(link(0, 1, MS));
        let wire = Impairment::delay_only(MS);
        let try_update = |changes| lab.handle.apply(EdgeUpdate { changes }, None).unwrap_err();
        let error = try_update(vec![remove(0, 1), set(0, 7, wire)]);
        assert!(
            matches!(&error, DriverError::Update(e) if matches!(e.errors[0], ChangeError::NoSuchPort { .. }))
        );
        lab.apply(vec![remove(1, 0)]);
        let error = try_update(vec![remove(0, 1), remove(1, 0)]);
        assert!(
            matches!(&error, DriverError::Update(e) if e.errors.len() == 1),
            "{error}"
        );
        assert!(
            lab.handle
                .edge_stats(PortId(0), PortId(1))
                .unwrap()
                .unwrap()
                .impairment
                .is_some()
        );

        let all = Effects {
            jitter: Some(Jitter::of(JitterLaw::Uniform { half_width_ns: 1 })),
            duplicate_ratio: Some(0.1),
            queue_frames: Some(3),
            ..Effects::default()
        };
        let change = EffectsChange::Edge {
            from: PortId(0),
            to: PortId(1),
            effects: Some(all.clone()),
        };
        let refusals = kind.capabilities().refusals(&all);
        match lab.handle.apply_effects(vec![change]) {
            Ok(_) => assert!(refusals.is_empty()),
            Err(DriverError::Unsupported(said)) => {
                assert_eq!(said.len(), 3);
                assert!(
                    said.iter()
                        .all(|text| text.ends_with("drivers that have: relay")),
                    "{said:?}"
                );
                assert!(!refusals.is_empty());
            }
            Err(error) => panic!("{error}"),
        }
        let known = lab.handle.effects(PortId(0), PortId(1)).unwrap();
        assert_eq!(known.own.is_empty(), !refusals.is_empty());
    });
}

#[test]
fn effects_lie_on_top_of_updates() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        lab.apply(link(0, 1, MS));
        let far = listener(&lab, 1);
        let sender = sender(&lab);
        let patience = Duration::from_millis(if slow() { 500 } else { 150 });
        let ends = |effects: Option<Effects>| EffectsChange::Edge {
            from: PortId(0),
            to: PortId(1),
            effects,
        };
        let took = |n: u32| {
            let sent = Sent::by(|| sender.send(&numbered(mac_of(PortId(1)), n, 60)));
            let at = drain(&far, patience).first().map(|(_, at)| *at)?;
            Some((sent, at))
        };
        let down = Effects {
            down: Some(true),
            ..Effects::default()
        };
        lab.handle.apply_effects(vec![ends(Some(down))]).unwrap();
        assert!(took(0).is_none(), "a failed edge");
        lab.apply(link(0, 1, 2 * MS));
        assert!(took(1).is_none(), "a failed edge that a step has changed");
        let longer = Effects {
            delay_ns: Some(90 * MS),
            ..Effects::default()
        };
        lab.handle.apply_effects(vec![ends(Some(longer))]).unwrap();
        let (sent, at) = took(2).expect("healed");
        assert!(at - sent.real.start >= 90 * MS, "with a delay of its own");
        lab.handle.apply_effects(vec![ends(None)]).unwrap();
        let (sent, at) = took(3).unwrap();
        lab.assert_took(&sent, at, 2 * MS, late());
    });
}

#[test]
fn edges_come_and_go() {
    each(|kind| {
        // Frames on the way of an edge that goes still arrive; one that comes back starts afresh.
        let lab = PlaneLab::silent(kind, 2);
        let far = listener(&lab, 1);
        let sender = sender(&lab);
        let mut wanted = Vec::new();
        for n in 0..5u32 {
            lab.apply(link(0, 1, 60 * MS));
            sender.send(&numbered(mac_of(PortId(1)), n, 60));
            wanted.push(n);
            lab.apply(vec![remove(0, 1), remove(1, 0)]);
            sender.send(&numbered(mac_of(PortId(1)), 100 + n, 60));
        }
        let got: Vec<u32> = drain(&far, Duration::from_secs(1))
            .iter()
            .map(|f| f.0)
            .collect();
        assert_eq!(got, wanted);
        let edge = lab
            .handle
            .edge_stats(PortId(0), PortId(1))
            .unwrap()
            .unwrap();
        assert_eq!((edge.impairment, edge.counters.delivered), (None, 5));
    });
}

/// A program in a node may delete its interface, and the host end goes with it. Edges of others, and its own, may change in the meantime.
#[test]
fn a_port_that_is_made_again_has_its_edges() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 3);
        let wire = Impairment::delay_only(MS);
        let slow_one = |rate_bps| rated(rate_bps, 60_000, MS);
        lab.apply(vec![
            set(0, 1, slow_one(10_000_000)),
            set(1, 0, slow_one(10_000_000)),
            set(0, 2, wire),
            set(2, 0, wire),
            set(1, 2, wire),
            set(2, 1, wire),
        ]);
        let [first, third] = [0, 2].map(|node| listener(&lab, node));
        let sender = sender(&lab);
        let come = |raw: &Raw| -> Vec<u32> {
            let got = drain(raw, Duration::from_millis(500));
            got.iter().map(|frame| frame.0).collect()
        };
        lab.nodes[1].netlink(|batch| {
            batch.delete_link(ETH0);
        });
        // A change that is made while the port is missing holds once it is there.
        lab.apply(vec![set(0, 1, slow_one(5_000_000)), set(0, 2, wire)]);
        lab.apply(vec![remove(2, 1), remove(0, 2)]);
        lab.apply(vec![set(0, 2, wire)]);
        sender.send(&numbered(mac_of(PortId(2)), 1, 60));
        assert_eq!(come(&third), [1], "others go on");
        lab.plug_again(PortId(1));
        let second = listener(&lab, 1);
        let [from_second, from_third] = [1, 2].map(|node| lab.nodes[node].run(|| Raw::new(0)));
        sender.send(&numbered(mac_of(PortId(1)), 2, 60));
        from_third.send(&numbered(mac_of(PortId(1)), 3, 60));
        assert_eq!(come(&second), [2], "a rate, and an edge that was removed");
        from_second.send(&numbered(mac_of(PortId(2)), 4, 60));
        from_second.send(&numbered(mac_of(PortId(0)), 5, 60));
        assert_eq!((come(&third), come(&first)), (vec![4], vec![5]));
        // A group address takes every edge.
        sender.send(&numbered(BROADCAST, 6, 60));
        assert_eq!((come(&second), come(&third)), (vec![6], vec![6]));
        // It stays a port like any other.
        lab.apply(vec![set(2, 1, wire), remove(0, 1)]);
        from_third.send(&numbered(mac_of(PortId(1)), 7, 60));
        sender.send(&numbered(mac_of(PortId(1)), 8, 60));
        assert_eq!(come(&second), [7]);
    });
}
