//! The table: where frames go, updates that are all or nothing, order over all edges.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use constel_link::{
    ChangeError, CheckedEffects, DropCause, Edge, EdgeChange, EdgeCounters, EdgeTable, EdgeUpdate,
    Effects, EffectsChange, Frames, Impairment, Loss, Nanos, PortId, QueueLimit, mac_of,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const BROADCAST: [u8; 6] = [0xff; 6];

#[derive(Default)]
struct Log {
    dropped: Vec<(u32, DropCause)>,
    copies: usize,
    no_copies: bool,
}

impl Frames<u32> for Log {
    fn duplicate(&mut self, frame: &u32) -> Option<u32> {
        self.copies += 1;
        (!self.no_copies).then_some(*frame)
    }
    fn flip_bit(&mut self, _: &mut u32, _: u64) {}
    fn discard(&mut self, frame: u32, cause: DropCause) {
        self.dropped.push((frame, cause));
    }
}

fn set(from: u32, to: u32, impairment: Impairment) -> EdgeChange {
    EdgeChange::Set {
        from: PortId(from),
        to: PortId(to),
        impairment,
    }
}

fn remove(from: u32, to: u32) -> EdgeChange {
    EdgeChange::Remove {
        from: PortId(from),
        to: PortId(to),
    }
}

fn apply(t: &mut EdgeTable<u32>, now: Nanos, log: &mut Log, changes: Vec<EdgeChange>) {
    let update = EdgeUpdate { changes }.check(t.ports()).unwrap();
    t.apply(now, &update, log).unwrap();
}

fn drain(t: &mut EdgeTable<u32>, log: &mut Log) -> Vec<(Nanos, u32, u32)> {
    let mut out = Vec::new();
    while let Some(at) = t.next_event() {
        assert!(at == 0 || t.pop_due(at - 1, log).is_none(), "early");
        while let Some(d) = t.pop_due(at, log) {
            assert_eq!(d.due_ns, at);
            out.push((d.due_ns, d.to.0, d.frame));
        }
    }
    out
}

#[test]
fn unicast_multicast_and_nothing() {
    let mut t = EdgeTable::new(5, 1);
    let mut log = Log::default();
    let delay = |ms| Impairment::delay_only(ms * MS);
    let changes = vec![
        set(0, 1, delay(1)),
        set(0, 2, delay(2)),
        set(1, 0, delay(3)),
    ];
    apply(&mut t, 0, &mut log, changes);

    assert_eq!(
        t.arrive(0, PortId(0), mac_of(PortId(2)), 64, 10, &mut log),
        1
    );
    assert_eq!(t.arrive(0, PortId(0), BROADCAST, 64, 11, &mut log), 2);
    assert_eq!(log.copies, 1, "one copy for two edges");
    // Two edges: an address of no port, and a port without an edge to it.
    assert_eq!(
        t.arrive(0, PortId(0), [2, 0, 0, 0, 0, 9], 64, 12, &mut log),
        0
    );
    assert_eq!(
        t.arrive(0, PortId(0), mac_of(PortId(3)), 64, 13, &mut log),
        0
    );
    // The only edge of a port takes any unicast.
    assert_eq!(
        t.arrive(0, PortId(1), [2, 0, 0, 0, 0, 9], 64, 14, &mut log),
        1
    );
    // A port without edges, and a port that does not exist.
    assert_eq!(t.arrive(0, PortId(3), BROADCAST, 64, 15, &mut log), 0);
    assert_eq!(t.arrive(0, PortId(77), BROADCAST, 64, 16, &mut log), 0);

    let no_edge = [12, 13, 15, 16].map(|n| (n, DropCause::NoEdge));
    assert_eq!(log.dropped, no_edge);
    assert_eq!(
        (
            t.no_edge(PortId(0)),
            t.no_edge(PortId(3)),
            t.totals().dropped_no_edge
        ),
        (2, 1, 4)
    );
    let expected = [
        (MS, 1, 11),
        (2 * MS, 2, 10),
        (2 * MS, 2, 11),
        (3 * MS, 0, 14),
    ];
    assert_eq!(drain(&mut t, &mut log), expected);
    assert_eq!(t.held(), 0);
}

#[test]
fn update_is_all_or_nothing() {
    let mut t = EdgeTable::new(4, 1);
    let mut log = Log::default();
    apply(
        &mut t,
        0,
        &mut log,
        vec![set(0, 1, Impairment::delay_only(1))],
    );
    let bad = EdgeUpdate {
        changes: vec![
            remove(0, 1),
            set(1, 0, Impairment::delay_only(1)),
            remove(2, 3),
            remove(3, 2),
        ],
    };
    let before = t.all_stats();
    let error = t
        .apply(5, &bad.clone().check(4).unwrap(), &mut log)
        .unwrap_err();
    assert_eq!(
        error.errors,
        [
            ChangeError::NoSuchEdge {
                from: PortId(2),
                to: PortId(3)
            },
            ChangeError::NoSuchEdge {
                from: PortId(3),
                to: PortId(2)
            }
        ]
    );
    assert_eq!(t.all_stats(), before);
    // Checked for a larger table: refused as well, not a panic.
    let wide = EdgeUpdate {
        changes: vec![set(0, 9, Impairment::delay_only(1))],
    };
    assert!(t.apply(5, &wide.check(10).unwrap(), &mut log).is_err());
    assert_eq!(t.all_stats(), before);
}

#[test]
fn handover_in_one_instant() {
    let mut t = EdgeTable::new(3, 1);
    let mut log = Log::default();
    let delay = |ms| Impairment::delay_only(ms * MS);
    apply(
        &mut t,
        0,
        &mut log,
        vec![set(0, 1, delay(10)), set(1, 0, delay(10))],
    );
    t.arrive(0, PortId(0), BROADCAST, 64, 1, &mut log);
    let changes = vec![
        remove(0, 1),
        remove(1, 0),
        set(0, 2, delay(4)),
        set(2, 0, delay(4)),
    ];
    apply(&mut t, MS, &mut log, changes);
    t.arrive(MS, PortId(0), BROADCAST, 64, 2, &mut log);
    assert_eq!(t.arrive(MS, PortId(1), BROADCAST, 64, 3, &mut log), 0);
    assert_eq!(drain(&mut t, &mut log), [(5 * MS, 2, 2), (10 * MS, 1, 1)]);
    let old = t.edge_stats(PortId(0), PortId(1)).unwrap();
    assert_eq!(
        (old.impairment, old.counters.delivered),
        (None, 1),
        "kept after it is gone"
    );
    assert_eq!(t.totals().counters.delivered, 2);
    assert_eq!(t.totals().edges, 2);
    assert!(t.edge_stats(PortId(1), PortId(2)).is_none());
}

#[test]
fn removed_and_back_while_frames_fly() {
    let mut t = EdgeTable::new(2, 1);
    let mut log = Log::default();
    apply(
        &mut t,
        0,
        &mut log,
        vec![set(0, 1, Impairment::delay_only(10 * MS))],
    );
    t.arrive(0, PortId(0), BROADCAST, 64, 1, &mut log);
    apply(&mut t, MS, &mut log, vec![remove(0, 1)]);
    assert_eq!(
        t.arrive(MS, PortId(0), BROADCAST, 64, 2, &mut log),
        0,
        "gone"
    );
    apply(
        &mut t,
        2 * MS,
        &mut log,
        vec![set(0, 1, Impairment::delay_only(MS))],
    );
    t.arrive(2 * MS, PortId(0), BROADCAST, 64, 3, &mut log);
    assert_eq!(
        drain(&mut t, &mut log),
        [(10 * MS, 1, 1), (10 * MS, 1, 3)],
        "no overtaking"
    );
    let stats = t.edge_stats(PortId(0), PortId(1)).unwrap();
    assert_eq!((stats.counters.offered, stats.counters.delivered), (2, 2));
}

#[test]
fn each_life_has_its_own_losses() {
    let lossy = Impairment {
        loss: Loss::Bernoulli { loss_ratio: 0.5 },
        ..Impairment::delay_only(1)
    };
    let run = |seed| {
        let mut t = EdgeTable::new(2, seed);
        let mut lives = Vec::new();
        let mut now = 0;
        for _ in 0..2 {
            let mut log = Log::default();
            apply(&mut t, now, &mut log, vec![set(0, 1, lossy)]);
            (0..64).for_each(|n| {
                t.arrive(now, PortId(0), BROADCAST, 64, n, &mut log);
            });
            drain(&mut t, &mut log);
            apply(&mut t, now + 10, &mut log, vec![remove(0, 1)]);
            lives.push(log.dropped);
            now += 100;
        }
        lives
    };
    let a = run(1);
    assert_ne!(a[0], a[1]);
    assert_eq!(a, run(1));
    assert_ne!(a, run(2));
}

/// Many frames may be given as one where nothing acts on single frames and they take next to no time.
#[test]
fn gso_frames_pass_where_nothing_acts_on_frames() {
    let whole = |impairment: Impairment, effects: Option<Effects>| {
        let mut t = EdgeTable::new(2, 1);
        let mut log = Log::default();
        apply(&mut t, 0, &mut log, vec![set(0, 1, impairment)]);
        let (from, to) = (PortId(0), PortId(1));
        let change = EffectsChange::Edge { from, to, effects };
        let checked = CheckedEffects::new(vec![change], 2).unwrap();
        t.apply_effects(0, &checked, &mut log).unwrap();
        t.takes_gso(from, mac_of(to), 64_000, 20_000)
    };
    let plain = Impairment::delay_only(MS);
    assert!(whole(plain, None));
    let rate = |rate_bps, bytes| Impairment {
        rate_bps: NonZeroU64::new(rate_bps),
        queue: QueueLimit { bytes },
        ..plain
    };
    // 64,000 bytes in 20 us are 25.6 Gbit/s.
    assert!(whole(rate(25_600_000_000, 1_000_000), None));
    assert!(!whole(rate(25_599_999_999, 1_000_000), None));
    assert!(
        !whole(rate(25_600_000_000, 200_000), None),
        "queue too short"
    );
    let loss = Loss::Bernoulli { loss_ratio: 1e-6 };
    assert!(!whole(Impairment { loss, ..plain }, None));
    let twice = Effects {
        duplicate_ratio: Some(0.5),
        ..Effects::default()
    };
    assert!(!whole(plain, Some(twice)));

    // A port with several edges takes super-frames only to one of them; a missing destination does no harm.
    let mut t = EdgeTable::<u32>::new(3, 1);
    let mut log = Log::default();
    apply(
        &mut t,
        0,
        &mut log,
        vec![set(0, 1, plain), set(0, 2, plain)],
    );
    let takes = |from, to| t.takes_gso(PortId(from), to, 64_000, 20_000);
    assert!(takes(0, mac_of(PortId(2))));
    assert!(!takes(0, BROADCAST));
    assert!(takes(1, mac_of(PortId(0))) && takes(7, BROADCAST));
}

#[test]
fn no_room_for_a_copy_is_counted() {
    let mut t = EdgeTable::new(3, 1);
    let mut log = Log {
        no_copies: true,
        ..Log::default()
    };
    let changes = (1..3)
        .map(|to| set(0, to, Impairment::delay_only(1)))
        .collect();
    apply(&mut t, 0, &mut log, changes);
    assert_eq!(t.arrive(0, PortId(0), BROADCAST, 64, 1, &mut log), 1);
    assert_eq!(t.totals().counters.dropped_no_buffer, 1);
    assert_eq!(t.totals().counters.offered, 2);
}

#[test]
fn queue_drops_come_back_to_the_owner() {
    let mut t = EdgeTable::new(2, 1);
    let mut log = Log::default();
    let slow = Impairment {
        rate_bps: std::num::NonZeroU64::new(8_000_000),
        queue: QueueLimit { bytes: 100 },
        ..Impairment::delay_only(0)
    };
    apply(&mut t, 0, &mut log, vec![set(0, 1, slow)]);
    (0..3).for_each(|n| {
        t.arrive(0, PortId(0), BROADCAST, 100, n, &mut log);
    });
    assert_eq!(log.dropped, [(2, DropCause::Queue)]);
    apply(&mut t, 1, &mut log, vec![remove(0, 1)]);
    assert_eq!(
        log.dropped[1..],
        [(0, DropCause::Removed), (1, DropCause::Removed)]
    );
    assert_eq!((t.held(), t.next_event()), (0, None));
}

#[derive(Clone, Debug)]
enum Step {
    Arrive {
        from: u32,
        to: Option<u32>,
        len: u32,
    },
    Set {
        from: u32,
        to: u32,
        delay_us: u64,
        mbps: u64,
        loss: bool,
    },
    Remove {
        from: u32,
        to: u32,
    },
    Look,
    LookFairly {
        frames: usize,
    },
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let port = || 0u32..4;
    let what = prop_oneof![
        10 => (port(), prop::option::of(port()), 60u32..1500)
            .prop_map(|(from, to, len)| Step::Arrive { from, to, len }),
        3 => (port(), port(), 0u64..400_000, 0u64..200, any::<bool>()).prop_map(
            |(from, to, delay_us, mbps, loss)| Step::Set { from, to, delay_us, mbps, loss }
        ),
        1 => (port(), port()).prop_map(|(from, to)| Step::Remove { from, to }),
        4 => Just(Step::Look),
        4 => (0usize..6).prop_map(|frames| Step::LookFairly { frames }),
    ];
    (0u64..2_000_000, what)
}

#[test]
fn a_flooded_edge_does_not_hold_up_the_others() {
    let (mut t, mut log) = (EdgeTable::new(8, 1), Log::default());
    let flooders = [0, 2, 4];
    let edges = flooders.iter().chain(&[6]);
    let changes = edges.map(|&p| set(p, p + 1, Impairment::delay_only(MS)));
    apply(&mut t, 0, &mut log, changes.collect());
    for n in 0..300 {
        for from in flooders {
            t.arrive(u64::from(n), PortId(from), BROADCAST, 60, n, &mut log);
        }
    }
    // The victim's frame is due last, and all of them are late.
    t.arrive(400, PortId(6), BROADCAST, 60, 0, &mut log);
    let now = 2 * MS;
    let order: Vec<_> = std::iter::from_fn(|| t.pop_due_fairly(now, &mut log)).collect();
    assert_eq!(order.len(), 901);
    let place = order.iter().position(|d| d.from == PortId(6)).unwrap();
    // Each of the others may have had a few due together.
    assert!(
        place <= 4 * flooders.len(),
        "its turn came as number {place}"
    );
    // The flooders take turns, each in its own order.
    for (from, mut next) in flooders.map(|f| (f, 0)) {
        for d in order.iter().filter(|d| d.from == PortId(from)) {
            assert_eq!(d.frame, next);
            next += 1;
        }
    }
    let first: Vec<u32> = order.iter().take(40).map(|d| d.from.0).collect();
    for from in flooders {
        let count = first.iter().filter(|&&f| f == from).count();
        assert!((12..=14).contains(&count), "{from}: {count} of 40");
    }
    // One that comes while the others wait goes first.
    for n in 0..100 {
        t.arrive(now, PortId(0), BROADCAST, 60, n, &mut log);
    }
    let later = now + 2 * MS;
    for _ in 0..4 {
        assert!(t.pop_due_fairly(later, &mut log).is_some());
    }
    t.arrive(now, PortId(6), BROADCAST, 60, 7, &mut log);
    let d = t.pop_due_fairly(later, &mut log).unwrap();
    assert_eq!((d.from, d.frame), (PortId(6), 7));
    assert_eq!(t.next_event(), Some(0), "96 are due");
    while t.pop_due_fairly(later, &mut log).is_some() {}
    assert_eq!((t.next_event(), t.totals().held), (None, 0));
}

proptest! {
    /// The table does to each edge what single edges polled one by one would do, in global order of
    /// due time, and no frame is ever unaccounted for.
    #[test]
    fn equals_single_edges(steps in prop::collection::vec(step(), 1..120)) {
        let mut t = EdgeTable::new(4, 9);
        let mut log = Log::default();
        let mut single: BTreeMap<(u32, u32), (Edge<u32>, bool)> = BTreeMap::new();
        let mut lives: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let mut dead: Vec<((u32, u32), Edge<u32>)> = Vec::new();
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        let (mut now, mut offered) = (0, 0u64);
        for (n, (wait, step)) in steps.into_iter().enumerate() {
            now += wait;
            let n = n as u32;
            match step {
                Step::Arrive { from, to, len } => {
                    let mac = to.map_or(BROADCAST, |to| mac_of(PortId(to)));
                    t.arrive(now, PortId(from), mac, len, n, &mut log);
                    let open: Vec<(u32, u32)> = single
                        .iter().filter(|(k, v)| k.0 == from && v.1).map(|(k, _)| *k).collect();
                    for k in &open {
                        if to.is_none() || open.len() == 1 || to == Some(k.1) {
                            offered += 1;
                            let e = &mut single.get_mut(k).unwrap().0;
                            let _ = e.arrive(now, n, len, &mut |_, _| {});
                        }
                    }
                }
                Step::Set { from, to, delay_us, mbps, loss } if from != to => {
                    let impairment = Impairment {
                        rate_bps: std::num::NonZeroU64::new(mbps * 1_000_000),
                        queue: QueueLimit { bytes: 4000 },
                        loss: if loss { Loss::Bernoulli { loss_ratio: 0.3 } } else { Loss::None },
                        ..Impairment::delay_only(delay_us * 1000)
                    };
                    apply(&mut t, now, &mut log, vec![set(from, to, impairment)]);
                    // A life that ended is a separate edge here; order between lives is then
                    // not compared (the table keeps it, see the test above).
                    match single.get_mut(&(from, to)) {
                        Some((e, true)) => e.reconfigure(now, &impairment, &mut |_, _| {}),
                        _ => {
                            if let Some((e, _)) = single.remove(&(from, to)) {
                                dead.push(((from, to), e));
                            }
                            let life = lives.get(&(from, to)).copied().unwrap_or(0);
                            let e = Edge::new(impairment, 9, from, to, life);
                            single.insert((from, to), (e, true));
                        }
                    }
                }
                Step::Remove { from, to } if single.get(&(from, to)).is_some_and(|e| e.1) => {
                    apply(&mut t, now, &mut log, vec![remove(from, to)]);
                    let e = single.get_mut(&(from, to)).unwrap();
                    e.0.close(now, &mut |_, _| {});
                    e.1 = false;
                    *lives.entry((from, to)).or_default() += 1;
                }
                Step::LookFairly { frames } => {
                    for _ in 0..frames {
                        let Some(d) = t.pop_due_fairly(now, &mut log) else { break };
                        prop_assert!(d.due_ns <= now);
                        out.push((d.from.0, d.to.0, d.frame, d.due_ns));
                    }
                }
                Step::Look => {
                    while let Some(d) = t.pop_due(now, &mut log) {
                        prop_assert!(d.due_ns <= now);
                        out.push((d.from.0, d.to.0, d.frame, d.due_ns));
                    }
                }
                _ => {}
            }
            let totals = t.totals();
            let c = totals.counters;
            prop_assert_eq!(c.offered, offered);
            let mut sum = EdgeCounters::default();
            t.all_stats().iter().for_each(|e| sum.add(&e.counters));
            prop_assert_eq!(c, sum, "kept along the way and added up");
            let mut open = Vec::new();
            let mut start = 0;
            while t.stats_of_places(start, 3, &mut open) {
                start += 3;
            }
            prop_assert_eq!(open.len(), totals.edges);
            prop_assert_eq!(c.offered, c.delivered + c.dropped() + totals.held as u64);
        }
        while let Some(at) = t.next_event() {
            while let Some(d) = t.pop_due(at, &mut log) {
                out.push((d.from.0, d.to.0, d.frame, d.due_ns));
            }
        }
        let reborn: Vec<(u32, u32)> = dead.iter().map(|(k, _)| *k).collect();
        for (k, mut e) in dead.into_iter().chain(single.into_iter().map(|(k, e)| (k, e.0))) {
            while let Some(at) = e.next_event() {
                if let Some(r) = e.pop_due(at, &mut |_, _| {}) {
                    expected.push((k.0, k.1, r.frame, r.due_ns));
                }
            }
        }
        // If an edge was reborn with frames in flight, its later frames may have to wait.
        for list in [&mut out, &mut expected] {
            list.iter_mut().filter(|d| reborn.contains(&(d.0, d.1))).for_each(|d| d.3 = 0);
            list.sort_unstable();
        }
        prop_assert_eq!(out, expected);
        prop_assert_eq!(t.totals().held, 0);
    }
}
