//! Effects at work: against a reference that computes each frame from the one before, and
//! properties that hold whatever is drawn.

use std::sync::Arc;

use constel_link::{
    CheckedEffects, DropCause, Edge, EdgeChange, EdgeTable, EdgeUpdate, Effects, EffectsChange,
    Frames, Impairment, Jitter, JitterLaw, LossLaw, Nanos, PortId, Reorder, mac_of,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// Frames are numbers; a copy has the same number, a flipped bit adds 1,000,000.
#[derive(Default)]
struct Log {
    dropped: Vec<(u32, DropCause)>,
    no_room: bool,
}

impl Frames<u32> for Log {
    fn duplicate(&mut self, frame: &u32) -> Option<u32> {
        (!self.no_room).then_some(*frame)
    }
    fn discard(&mut self, frame: u32, cause: DropCause) {
        self.dropped.push((frame, cause));
    }
    fn flip_bit(&mut self, frame: &mut u32, _: u64) {
        *frame += 1_000_000;
    }
}

struct Lab {
    table: EdgeTable<u32>,
    log: Log,
}

impl Lab {
    fn new(effects: Effects) -> Lab {
        let mut lab = Lab {
            table: EdgeTable::new(2, 7),
            log: Log::default(),
        };
        lab.edge_effects(0, Some(effects));
        lab.set(0, Impairment::delay_only(5 * MS));
        lab
    }

    fn set(&mut self, now: Nanos, impairment: Impairment) {
        let (from, to) = (PortId(0), PortId(1));
        let set = EdgeChange::Set {
            from,
            to,
            impairment,
        };
        let update = EdgeUpdate { changes: vec![set] };
        let update = update.check(2).unwrap();
        self.table.apply(now, &update, &mut self.log).unwrap();
    }

    fn remove(&mut self, now: Nanos) {
        let (from, to) = (PortId(0), PortId(1));
        let update = EdgeUpdate {
            changes: vec![EdgeChange::Remove { from, to }],
        };
        let update = update.check(2).unwrap();
        self.table.apply(now, &update, &mut self.log).unwrap();
    }

    fn change(&mut self, now: Nanos, change: EffectsChange) {
        let checked = CheckedEffects::new(vec![change], 2).unwrap();
        self.table
            .apply_effects(now, &checked, &mut self.log)
            .unwrap();
    }

    fn edge_effects(&mut self, now: Nanos, effects: Option<Effects>) {
        let (from, to) = (PortId(0), PortId(1));
        self.change(now, EffectsChange::Edge { from, to, effects });
    }

    fn send(&mut self, now: Nanos, frame: u32, len: u32) {
        let mac = mac_of(PortId(1));
        self.table
            .arrive(now, PortId(0), mac, len, frame, &mut self.log);
    }

    fn due(&mut self, now: Nanos) -> Vec<(Nanos, u32)> {
        let mut out = Vec::new();
        while let Some(d) = self.table.pop_due(now, &mut self.log) {
            out.push((d.due_ns, d.frame));
        }
        out
    }

    fn all(&mut self) -> Vec<(Nanos, u32)> {
        let mut out = Vec::new();
        while let Some(at) = self.table.next_event() {
            out.extend(self.due(at));
        }
        let t = self.table.totals();
        let c = t.counters;
        assert_eq!(c.offered + c.duplicated, c.delivered + c.dropped());
        assert_eq!(t.held, 0);
        out
    }
}

#[test]
fn frame_17_is_lost_and_no_other() {
    let frames = vec![(17, 17)];
    let mut lab = Lab::new(Effects {
        loss: Some(LossLaw::Pattern { frames }),
        ..Effects::default()
    });
    (1..=40).for_each(|n| lab.send(u64::from(n), n, 64));
    let got: Vec<u32> = lab.all().into_iter().map(|(_, n)| n).collect();
    assert_eq!(got, (1..=40).filter(|n| *n != 17).collect::<Vec<_>>());
    assert_eq!(lab.log.dropped, [(17, DropCause::Loss)]);
}

#[test]
fn duplicates_follow_at_once_and_are_counted() {
    let mut lab = Lab::new(Effects {
        duplicate_ratio: Some(1.0),
        corrupt_ratio: Some(1.0),
        ..Effects::default()
    });
    lab.send(0, 1, 64);
    lab.send(1, 2, 64);
    let (one, two) = (1_000_001, 1_000_002);
    let (a, b) = (5 * MS, 5 * MS + 1);
    assert_eq!(lab.all(), [(a, one), (a, one), (b, two), (b, two)]);
    let c = lab.table.totals().counters;
    assert_eq!((c.duplicated, c.corrupted, c.delivered), (2, 2, 4));
    assert_eq!(
        lab.table.edge_stats(PortId(0), PortId(1)).unwrap().counters,
        c,
        "the edge's own counters say the same"
    );
    lab.log.no_room = true;
    lab.send(10 * MS, 3, 64);
    assert_eq!(lab.all(), [(15 * MS, 1_000_003)]);
    assert_eq!(lab.table.totals().counters.dropped_no_buffer, 1);
}

#[test]
fn a_frame_held_back_is_overtaken_by_those_within_its_extent() {
    let only_first = Effects {
        reorder: Some(Reorder {
            ratio: 1.0,
            extent_ns: 100,
        }),
        ..Effects::default()
    };
    let mut lab = Lab::new(only_first);
    lab.send(0, 1, 64);
    lab.edge_effects(1, None);
    for (t, n) in [(50, 2), (99, 3), (101, 4)] {
        lab.send(t, n, 64);
    }
    let at = |t, n| (5 * MS + t, n);
    assert_eq!(lab.all(), [at(50, 2), at(99, 3), at(100, 1), at(101, 4)]);
}

#[test]
fn a_failed_edge_drops_what_comes_and_waits_and_delivers_what_flies() {
    let mut lab = Lab::new(Effects {
        rate_bps: Some(8_000_000),
        queue_bytes: Some(1000),
        ..Effects::default()
    });
    (1..=3).for_each(|n| lab.send(0, n, 100));
    let down = |down| Effects {
        down: Some(down),
        rate_bps: Some(8_000_000),
        queue_bytes: Some(1000),
        ..Effects::default()
    };
    lab.edge_effects(150_000, Some(down(true)));
    lab.send(160_000, 4, 100);
    // A step of the topology does not heal it.
    lab.set(170_000, Impairment::delay_only(5 * MS));
    lab.send(180_000, 5, 100);
    lab.edge_effects(200_000, Some(down(false)));
    lab.send(200_000, 6, 100);
    assert_eq!(lab.all(), [(5_100_000, 1), (5_300_000, 6)]);
    use DropCause::{Outage, Removed};
    assert_eq!(
        lab.log.dropped,
        [(2, Removed), (3, Removed), (4, Outage), (5, Outage)]
    );
}

#[test]
fn effects_survive_steps_and_lives_and_lie_on_top_of_the_port() {
    let mut lab = Lab::new(Effects {
        delay_ns: Some(7),
        ..Effects::default()
    });
    let effects = Some(Effects {
        delay_ns: Some(9),
        overhead_bytes: Some(50),
        rate_bps: Some(8_000_000_000),
        ..Effects::default()
    });
    let port = PortId(0);
    lab.change(0, EffectsChange::Port { port, effects });
    lab.send(0, 1, 50);
    assert_eq!(lab.all(), [(107, 1)], "100 bytes at one per ns, then 7 ns");
    lab.set(1000, Impairment::delay_only(MS));
    lab.send(1000, 2, 50);
    assert_eq!(lab.all(), [(1107, 2)]);
    lab.remove(2000);
    lab.set(3000, Impairment::delay_only(MS));
    lab.send(3000, 3, 50);
    assert_eq!(lab.all(), [(3107, 3)]);
    lab.edge_effects(4000, None);
    lab.send(4000, 4, 50);
    assert_eq!(lab.all(), [(4109, 4)], "the port's own");
    lab.change(
        5000,
        EffectsChange::Port {
            port,
            effects: None,
        },
    );
    lab.send(5000, 5, 50);
    assert_eq!(lab.all(), [(MS + 5000, 5)], "the plan's");
}

#[test]
fn one_law_does_not_change_what_another_draws() {
    let loss = Some(LossLaw::GilbertElliott {
        good_to_bad: 0.1,
        bad_to_good: 0.3,
        loss_good: 0.01,
        loss_bad: 0.7,
    });
    let plain = Effects {
        loss,
        ..Effects::default()
    };
    let rich = Effects {
        corrupt_ratio: Some(0.3),
        duplicate_ratio: Some(0.3),
        jitter: Some(Jitter {
            half_life_ns: 50,
            ..Jitter::of(JitterLaw::Pareto { sd_ns: 1000 })
        }),
        ..plain.clone()
    };
    let lost = |effects| {
        let mut lab = Lab::new(effects);
        (0..5000).for_each(|n| lab.send(u64::from(n) * 10, n, 64));
        lab.all();
        lab.log.dropped
    };
    let plain = lost(plain);
    assert!(plain.len() > 500);
    assert_eq!(plain, lost(rich));
}

fn law() -> impl Strategy<Value = Option<LossLaw>> {
    prop_oneof![
        Just(None),
        Just(Some(LossLaw::Periodic { every: 4, burst: 1 })),
        (0.0..=1.0f64).prop_map(|loss_ratio| Some(LossLaw::Bernoulli { loss_ratio })),
        prop::collection::vec(any::<bool>(), 1..9).prop_map(|lost| Some(LossLaw::Trace { lost })),
        (0.0..=1.0f64, 0.0..=1.0f64).prop_map(|(a, b)| Some(LossLaw::GilbertElliott {
            good_to_bad: a,
            bad_to_good: b,
            loss_good: 0.0,
            loss_bad: 1.0,
        })),
    ]
}

fn jitter() -> impl Strategy<Value = Option<Jitter>> {
    let law = prop_oneof![
        Just(JitterLaw::Uniform { half_width_ns: 400 }),
        Just(JitterLaw::Normal { sd_ns: 300 }),
        Just(JitterLaw::ParetoNormal { sd_ns: 300 }),
    ];
    prop::option::of((law, 0u64..500).prop_map(|(law, half_life_ns)| Jitter {
        half_life_ns,
        ..Jitter::of(law)
    }))
}

prop_compose! {
    fn effects(reordering: bool)(
        loss in law(),
        jitter in jitter(),
        rate_bps in prop::option::of(1_000_000_000u64..40_000_000_000),
        queue_bytes in prop::option::of(0u64..500),
        queue_frames in prop::option::of(0u64..5),
        overhead_bytes in prop::option::of(0u32..40),
        extra_delay_ns in 0u64..500,
        ratio in 0.0..=1.0f64,
        extent_ns in 0u64..1000,
        duplicate_ratio in prop::option::of(0.0..=1.0f64),
        corrupt_ratio in prop::option::of(0.0..=1.0f64),
    ) -> Effects {
        Effects {
            loss, jitter, rate_bps, queue_bytes, queue_frames, overhead_bytes,
            duplicate_ratio, corrupt_ratio,
            delay_ns: Some(500 - extra_delay_ns),
            extra_delay_ns: Some(extra_delay_ns),
            reorder: reordering.then_some(Reorder { ratio, extent_ns }),
            down: None,
            // In tests of their own.
            rate_law: None,
            discipline: None,
            access: None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The fate of a frame does not depend on when the data plane polls. A frame is never early,
    /// is in order unless reordering was requested, and is accounted for.
    #[test]
    fn looking_changes_nothing(
        (reordering, effects) in any::<bool>().prop_flat_map(|r| (Just(r), effects(r))),
        sends in prop::collection::vec((0u64..60, 1u32..60, any::<bool>()), 1..80),
    ) {
        let mut seldom = Lab::new(effects.clone());
        let mut often = Lab::new(effects);
        let mut got = Vec::new();
        let mut now = 0;
        for (n, &(wait, len, look)) in sends.iter().enumerate() {
            now += wait;
            seldom.send(now, n as u32, len);
            often.send(now, n as u32, len);
            if look {
                let due = often.due(now);
                prop_assert!(due.iter().all(|&(at, _)| at <= now), "early");
                got.extend(due);
                let t = often.table.totals();
                let c = t.counters;
                prop_assert_eq!(c.offered + c.duplicated, c.delivered + c.dropped() + t.held as u64);
            }
        }
        got.extend(often.all());
        let other = seldom.all();
        prop_assert!(other.is_sorted_by_key(|&(at, _)| at));
        if !reordering {
            prop_assert!(other.is_sorted_by_key(|&(_, n)| n % 1_000_000), "fifo");
        }
        let sorted = |mut v: Vec<(u32, DropCause)>| { v.sort_unstable(); v };
        prop_assert_eq!(got, other);
        prop_assert_eq!(sorted(often.log.dropped), sorted(seldom.log.dropped));
    }

    /// Service with overhead and both limits, periodic loss and a delay trace: each frame computed
    /// from the one before, in exact fractions.
    #[test]
    fn equals_the_recursion(
        rate in 1_000_000_000u64..40_000_000_000,
        bytes in 0u64..300,
        limit in 0u64..6,
        overhead in 0u32..40,
        extra in prop::collection::vec(-600i64..600, 1..5),
        sends in prop::collection::vec((0u64..40, 1u32..60), 1..80),
    ) {
        let (every, interval) = (3, 37);
        let effects = Effects {
            rate_bps: Some(rate),
            queue_bytes: Some(bytes),
            queue_frames: Some(limit),
            overhead_bytes: Some(overhead),
            loss: Some(LossLaw::Periodic { every, burst: 1 }),
            jitter: Some(Jitter::of(JitterLaw::Trace {
                interval_ns: interval, extra_ns: extra.clone(), origin_ns: 11,
            })),
            ..Effects::default()
        };
        let mut edge = Edge::new(Impairment::delay_only(500), 1, 0, 1, 0);
        edge.set_effects(0, Some(Arc::new(effects)), &mut |_, _| ());
        // (start of service, end), both times the rate; length; number.
        let mut served: Vec<(u128, u128, u32, u32)> = Vec::new();
        let mut refused = Vec::new();
        let mut got_refused = Vec::new();
        let mut now = 0u64;
        for (n, (wait, len)) in sends.into_iter().enumerate() {
            now += wait;
            let n = n as u32;
            let t = u128::from(now) * u128::from(rate);
            // Frames that are served within a nanosecond count as served at its end.
            let up = |x: u128| x.div_ceil(u128::from(rate)) * u128::from(rate);
            let busy: Vec<_> = served.iter().filter(|s| up(s.1) > t).collect();
            let waiting: u64 = busy.iter().skip(1).map(|s| u64::from(s.2)).sum();
            let full = !busy.is_empty()
                && (waiting + u64::from(len) > bytes || busy.len() as u64 > limit);
            if full {
                refused.push(n);
            } else {
                let start = match busy.last() { Some(s) => s.1, None => t };
                let work = u128::from(len + overhead) * 8_000_000_000;
                served.push((start, start + work, len, n));
            }
            if edge.arrive(now, n, len, &mut |_, _| ()).is_err() {
                got_refused.push(n);
            }
        }
        prop_assert_eq!(got_refused, refused);
        let mut expected = Vec::new();
        let mut last = 0u64;
        for (i, &(_, end, _, n)) in served.iter().enumerate() {
            if (i as u64 + 1).is_multiple_of(every) {
                continue;
            }
            let end = end.div_ceil(u128::from(rate)) as u64;
            let nr = end.saturating_sub(11) / interval;
            let delay = 500 + extra[(nr % extra.len() as u64) as usize];
            last = last.max(end + delay.max(0) as u64);
            expected.push((last, n));
        }
        let mut got = Vec::new();
        while let Some(at) = edge.next_event() {
            while let Some(r) = edge.pop_due(at, &mut |_, _| ()) {
                got.push((r.due_ns, r.frame));
            }
        }
        prop_assert_eq!(got, expected);
    }
}

#[test]
fn a_change_that_ends_leaves_what_others_changed() {
    let before = Effects {
        delay_ns: Some(5 * MS),
        rate_bps: Some(1_000),
        ..Effects::default()
    };
    let patch = Effects {
        delay_ns: Some(9 * MS),
        rate_bps: Some(2_000),
        loss: Some(LossLaw::Bernoulli { loss_ratio: 0.5 }),
        ..Effects::failed(true)
    };
    let set = before.merged(&patch);
    assert_eq!(set.without(&patch, &before), before);
    // Another request sets another delay and duplication before the end.
    let others = Effects {
        delay_ns: Some(7 * MS),
        duplicate_ratio: Some(0.1),
        ..Effects::default()
    };
    let left = set.merged(&others).without(&patch, &before);
    assert_eq!(left, before.merged(&others));
}
