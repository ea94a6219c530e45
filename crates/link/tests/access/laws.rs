//! Laws that hold for every access, whatever its values.

use super::MS;
use constel_link::access::{
    Access, Blockage, Cell, Changes, Direction, Fate, Gap, Grants, Leg, Partial, Passage, Rate,
    Retransmission, Slots, Step, Terminal,
};
use proptest::prelude::*;

fn gap() -> impl Strategy<Value = Option<Gap>> {
    let values = (0.0..=1.0, 0..2_000 * MS, 0.0..2.0, 0..1_000 * MS);
    let gap = values.prop_map(|(ratio, median_ns, spread, hold_ns)| Gap {
        ratio,
        median_ns,
        spread,
        hold_ns,
    });
    prop::option::of(gap)
}

fn leg() -> impl Strategy<Value = Leg> {
    let grants = (0..20 * MS, MS / 10..100 * MS).prop_map(|(request_ns, period_ns)| Grants {
        request_ns,
        period_ns,
    });
    let retransmission =
        (0.0..=1.0, 0..50 * MS, 1..=16u32).prop_map(|(ratio, again_ns, transmissions)| {
            Retransmission {
                ratio,
                again_ns,
                transmissions,
            }
        });
    let rate = (1_000..1_000_000_000u64, 0.0..1.0)
        .prop_map(|(alone_bps, spread)| Rate { alone_bps, spread });
    (
        0..50 * MS,
        prop_oneof![Just(0), MS / 10..10 * MS],
        prop::option::of(grants),
        prop::option::of(retransmission),
        prop::option::of(rate),
    )
        .prop_map(
            |(processing_ns, turn_ns, grants, retransmission, rate)| Leg {
                processing_ns,
                turn_ns,
                grants,
                retransmission,
                rate,
            },
        )
}

fn partial() -> impl Strategy<Value = Partial> {
    let values = (
        0.0..=1.0,
        10 * MS..5_000 * MS,
        10 * MS..5_000 * MS,
        0..500 * MS,
    );
    values.prop_map(|(ratio, blocked_ns, clear_ns, hold_ns)| Partial {
        ratio,
        blocked_ns,
        clear_ns,
        hold_ns,
    })
}

fn access() -> impl Strategy<Value = Access> {
    let slots = (50 * MS..20_000 * MS).prop_flat_map(|period_ns| {
        (0..period_ns).prop_map(move |phase_ns| Slots {
            period_ns,
            phase_ns,
        })
    });
    let changes = (MS / 10..10_000 * MS, 0.0..3.0)
        .prop_map(|(every_ns, spread)| Changes { every_ns, spread });
    let cell = (
        prop::array::uniform24(0.0..0.98),
        0.0..3.0,
        prop::option::of(changes),
    )
        .prop_map(|(load_by_hour, spread, changes)| Cell {
            load_by_hour,
            spread,
            changes,
        });
    let step = (0..100 * MS, 0.0..=1.0, 0..100 * MS, 0..100 * MS, 0.0..=1.0).prop_map(
        |(spread_ns, long_ratio, long_least_ns, width, change_ratio)| Step {
            spread_ns,
            long_ratio,
            long_least_ns,
            long_most_ns: long_least_ns + width,
            change_ratio,
        },
    );
    let blockage = (0.0..0.5, 0.0..=0.5, prop::option::of(partial())).prop_map(
        |(begin_ratio, end_ratio, partial)| Blockage {
            begin_ratio,
            end_ratio,
            partial,
        },
    );
    (
        slots,
        prop::option::of(cell),
        prop::option::of(step),
        gap(),
        gap(),
        prop::option::of(blockage),
        leg(),
        leg(),
    )
        .prop_map(
            |(slots, cell, step, handover, relink, blockage, up, down)| Access {
                slots,
                cell,
                step,
                handover,
                relink,
                blockage,
                sky: None,
                up,
                down,
            },
        )
}

proptest! {
    /// Frames leave in order, never before they were sent plus the constant parts, and the same way again.
    #[test]
    fn order_bounds_and_determinism(
        access in access(),
        seed: u64,
        minute_ns in 0..100_000 * MS,
        hour in 0.0..24.0f64,
        gaps in prop::collection::vec(0..200 * MS, 1..200),
    ) {
        prop_assert_eq!(access.check(), Ok(()));
        let terminal = Terminal::new(seed, 3).at(minute_ns, hour);
        for direction in [Direction::Up, Direction::Down] {
            let mut passage = Passage::new(direction);
            let mut again = Passage::new(direction);
            let (mut now, mut last) = (0, 0);
            let leg = access.leg(direction);
            let least_ns = leg.processing_ns + leg.grants.map_or(0, |g| g.request_ns);
            for gap in &gaps {
                now += gap;
                let fate = passage.send(&access, &terminal, now);
                prop_assert_eq!(fate, again.send(&access, &terminal, now));
                if let Fate::Out { at_ns } = fate {
                    prop_assert!(at_ns >= now + least_ns, "{} before {}", at_ns, now + least_ns);
                    prop_assert!(at_ns >= last);
                    last = at_ns;
                }
            }
        }
    }

    /// A frame's fate depends on no other frame, except that it waits for those before it.
    #[test]
    fn traffic_changes_no_fate(access in access(), seed: u64, at in 0..60_000 * MS) {
        let terminal = Terminal::new(seed, 1);
        let alone = access.fate(&terminal, Direction::Up, at);
        let mut passage = Passage::new(Direction::Up);
        let mut held = 0;
        for before in (0..20).rev().map(|n| at.saturating_sub(n * 7 * MS)) {
            let fate = passage.send(&access, &terminal, before);
            if before < at && let Fate::Out { at_ns } = fate {
                held = at_ns;
            }
            if before == at {
                let expected = match alone {
                    Fate::Out { at_ns } => Fate::Out { at_ns: at_ns.max(held) },
                    lost @ Fate::Lost(_) => lost,
                };
                prop_assert_eq!(fate, expected);
            }
        }
    }

    /// Without steps and retransmission every part is a map of instants that never runs backwards: nothing has to be held.
    #[test]
    fn gaps_turns_and_grants_keep_the_order_by_themselves(
        mut access in access(),
        seed: u64,
        from in 0..60_000 * MS,
    ) {
        access.step = None;
        access.up.retransmission = None;
        let terminal = Terminal::new(seed, 1);
        let mut last = 0;
        for n in 0..300 {
            if let Fate::Out { at_ns } = access.fate(&terminal, Direction::Up, from + n * 3 * MS) {
                prop_assert!(at_ns >= last);
                last = at_ns;
            }
        }
    }

    /// A rate is positive, at most that of a terminal alone if it has no spread, and constant within its slot.
    #[test]
    fn rates_are_constant_within_slots(access in access(), seed: u64, at in 0..60_000 * MS) {
        let terminal = Terminal::new(seed, 1);
        let rate = |t| access.rate(&terminal, Direction::Down, t, 1.0);
        if let Some((bps, until_ns)) = rate(at) {
            prop_assert!(bps >= 1 && until_ns > at);
            prop_assert_eq!(rate(until_ns - 1), Some((bps, until_ns)));
            let alone = access.down.rate.unwrap();
            if alone.spread == 0.0 {
                prop_assert!(bps <= alone.alone_bps);
            }
        } else {
            prop_assert!(access.down.rate.is_none());
        }
    }
}

#[test]
fn without_parts_nothing_is_delayed() {
    let ideal = Access::default();
    assert!(ideal.is_ideal() && ideal.parts().is_empty());
    let terminal = Terminal::new(1, 1);
    for now in [0, 1, 15_000 * MS, u64::MAX] {
        let fate = ideal.fate(&terminal, Direction::Up, now);
        assert_eq!(fate, Fate::Out { at_ns: now });
    }
    assert_eq!(ideal.rate(&terminal, Direction::Up, 0, 1.0), None);
}
