//! Edges whose frames come out ahead of their time, because something else has a way to take them.

use std::num::NonZeroU64;

use constel_link::{
    CheckedEffects, Delay, DropCause, EdgeChange, EdgeTable, EdgeUpdate, Effects, EffectsChange,
    Frames, Impairment, Jitter, JitterLaw, Loss, Nanos, PortId, QueueLimit, mac_of,
};
use proptest::prelude::*;

const NEAR: PortId = PortId(0);
const FAR: PortId = PortId(1);
const OTHER: PortId = PortId(2);

#[derive(Default)]
struct Log(Vec<(u32, DropCause)>);

impl Frames<u32> for Log {
    fn duplicate(&mut self, frame: &u32) -> Option<u32> {
        Some(*frame)
    }
    fn flip_bit(&mut self, _: &mut u32, _: u64) {}
    fn discard(&mut self, frame: u32, cause: DropCause) {
        self.0.push((frame, cause));
    }
}

/// A table with an edge to each of both ports, which comes out ahead at [`FAR`].
fn table(impairment: Impairment, effects: Effects, ahead_ns: Nanos) -> EdgeTable<u32> {
    let mut table = EdgeTable::new(3, 7);
    table.come_out_ahead(&[FAR, PortId(99)], ahead_ns);
    let effects = EffectsChange::Edge {
        from: NEAR,
        to: FAR,
        effects: Some(effects),
    };
    let effects = CheckedEffects::new(vec![effects], 3).unwrap();
    table
        .apply_effects(0, &effects, &mut Log::default())
        .unwrap();
    let set = |to| EdgeChange::Set {
        from: NEAR,
        to,
        impairment,
    };
    let update = EdgeUpdate {
        changes: vec![set(FAR), set(OTHER)],
    };
    let update = update.check(3).unwrap();
    table.apply(0, &update, &mut Log::default()).unwrap();
    table
}

/// All that comes out from `since` until `now`: when, and the frame with when it is due.
fn until(
    table: &mut EdgeTable<u32>,
    (since, now): (Nanos, Nanos),
    log: &mut Log,
    out: &mut Vec<(Nanos, Nanos, u32)>,
) {
    while let Some(at) = table.next_event().filter(|at| *at <= now) {
        let at = at.max(since);
        while let Some(delivery) = table.pop_due(at, log) {
            out.push((at, delivery.due_ns, delivery.frame));
        }
    }
}

#[test]
fn only_where_they_are_told_to_and_after_their_service() {
    // 1,250 bytes take 1 ms; then 3 ms, or 300 us.
    for (delay_ns, out_ns) in [(3_000_000, 2_000_000), (300_000, 1_000_000)] {
        let impairment = Impairment {
            rate_bps: NonZeroU64::new(10_000_000),
            ..Impairment::delay_only(delay_ns)
        };
        let mut table = table(impairment, Effects::default(), 2_000_000);
        let (mut log, mut out) = (Log::default(), Vec::new());
        for (to, frame) in [(FAR, 1), (OTHER, 2)] {
            table.arrive(0, NEAR, mac_of(to), 1_250, frame, &mut log);
        }
        until(&mut table, (0, u64::MAX), &mut log, &mut out);
        out.sort_by_key(|(.., frame)| *frame);
        let due_ns = 1_000_000 + delay_ns;
        assert_eq!(out, [(out_ns, due_ns, 1), (due_ns, due_ns, 2)]);
        assert_eq!(table.held(), 0);
    }
}

#[test]
fn an_edge_that_goes_lets_out_what_is_on_its_way() {
    let mut table = table(Impairment::delay_only(5_000), Effects::default(), 2_000);
    let (mut log, mut out) = (Log::default(), Vec::new());
    table.arrive(0, NEAR, mac_of(FAR), 100, 1, &mut log);
    let gone = EdgeUpdate {
        changes: vec![EdgeChange::Remove {
            from: NEAR,
            to: FAR,
        }],
    };
    table
        .apply(1_000, &gone.check(3).unwrap(), &mut log)
        .unwrap();
    until(&mut table, (1_000, u64::MAX), &mut log, &mut out);
    assert_eq!((out, log.0), (vec![(3_000, 5_000, 1)], Vec::new()));
}

proptest! {
    /// Effects of an edge on frames and their due times are the same with and without a lead. Frames come out no later than they are
    /// due, by the requested lead before that if their delay is that long, and never before they came.
    #[test]
    fn nothing_else_changes(
        ahead_ns in 0_u64..4_000_000,
        delay_ns in 0_u64..6_000_000,
        slope_ns_per_s in -50_000_i64..50_000,
        mbps in prop::option::of(1_u64..100),
        loss_ratio in 0.0..0.3,
        jitter_ns in 0_u64..2_000_000,
        frames in prop::collection::vec((0_u64..2_000_000, 60_u32..1_500), 1..80),
    ) {
        let impairment = Impairment {
            delay: Delay { t0_ns: 0, delay_ns, slope_ns_per_s },
            rate_bps: mbps.and_then(|mbps| NonZeroU64::new(mbps * 1_000_000)),
            queue: QueueLimit { bytes: 20_000 },
            loss: Loss::Bernoulli { loss_ratio },
            ..Impairment::delay_only(0)
        };
        let jitter = Jitter::of(JitterLaw::Uniform { half_width_ns: jitter_ns });
        let effects = Effects { jitter: (jitter_ns > 0).then_some(jitter), ..Effects::default() };
        let run = |ahead_ns| {
            let mut table = table(impairment, effects.clone(), ahead_ns);
            let (mut log, mut out, mut now) = (Log::default(), Vec::new(), 0);
            let mut came = Vec::new();
            for (number, (wait, len)) in (0..).zip(&frames) {
                until(&mut table, (now, now + wait), &mut log, &mut out);
                now += wait;
                came.push(now);
                table.arrive(now, NEAR, mac_of(FAR), *len, number, &mut log);
            }
            until(&mut table, (now, u64::MAX), &mut log, &mut out);
            log.0.sort_by_key(|(frame, _)| *frame);
            (out, log.0, came)
        };
        let (plain, plain_lost, _) = run(0);
        let (ahead, lost, came) = run(ahead_ns);
        let due = |out: &[(Nanos, Nanos, u32)]| -> Vec<(Nanos, u32)> {
            out.iter().map(|(_, due_ns, frame)| (*due_ns, *frame)).collect()
        };
        prop_assert_eq!(due(&plain), due(&ahead));
        prop_assert_eq!(plain_lost, lost);
        for (at_ns, due_ns, frame) in ahead {
            prop_assert!(at_ns <= due_ns && at_ns >= came[frame as usize]);
            prop_assert!(at_ns >= due_ns.saturating_sub(ahead_ns));
            if mbps.is_none() {
                let earliest_ns = due_ns.saturating_sub(ahead_ns).max(came[frame as usize]);
                prop_assert_eq!(at_ns, earliest_ns);
            }
        }
    }
}

/// The edges that carried frames to a port no longer exist: frames come out when they are due, also of edges that come again.
#[test]
fn frames_for_a_port_that_came_home_come_out_when_they_are_due() {
    let impairment = Impairment::delay_only(3_000_000);
    let mut table = table(impairment, Effects::default(), 2_000_000);
    let (mut log, mut out) = (Log::default(), Vec::new());
    let apply = |table: &mut EdgeTable<u32>, at_ns, change| {
        let update = EdgeUpdate {
            changes: vec![change],
        };
        let update = update.check(3).unwrap();
        table.apply(at_ns, &update, &mut Log::default()).unwrap();
    };
    // One is on its way when the edge goes.
    table.arrive(0, NEAR, mac_of(FAR), 100, 1, &mut log);
    let (from, to) = (NEAR, FAR);
    apply(&mut table, 10, EdgeChange::Remove { from, to });
    table.come_out_in_time(&[FAR, PortId(99)]);
    let set = EdgeChange::Set {
        from,
        to,
        impairment,
    };
    apply(&mut table, 20, set);
    table.arrive(30, NEAR, mac_of(FAR), 100, 2, &mut log);
    until(&mut table, (30, 10_000_000), &mut log, &mut out);
    assert_eq!(out, [(3_000_000, 3_000_000, 1), (3_000_030, 3_000_030, 2)]);
}
