//! The distribution of each part alone, with fixed seeds.

use super::{MS, SLOT, stepped};
use constel_link::access::{
    Access, Blockage, Cell, Direction, Fate, Gap, Grants, HOURS, Leg, LostBy, Passage, Rate,
    Retransmission, Slots, Terminal, preset,
};

fn of_up(up: Leg) -> Access {
    Access {
        up,
        ..Access::default()
    }
}

/// Delays in milliseconds of a frame each `every_ns`, without those that are lost, in rising order.
fn delays(access: &Access, every_ns: u64, frames: u64) -> Vec<f64> {
    let terminal = Terminal::new(5, 2);
    let fates = (0..frames).map(|n| (n, access.fate(&terminal, Direction::Up, n * every_ns)));
    let mut delays: Vec<f64> = fates
        .filter_map(|(n, fate)| match fate {
            Fate::Out { at_ns } => Some((at_ns - n * every_ns) as f64 / 1e6),
            Fate::Lost(_) => None,
        })
        .collect();
    delays.sort_by(f64::total_cmp);
    delays
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn near(value: f64, expected: f64, within: f64) {
    assert!(
        (value - expected).abs() < within,
        "{value}, expected {expected} within {within}"
    );
}

#[test]
fn turns_are_a_uniform_wait() {
    let access = of_up(Leg {
        turn_ns: 4 * MS,
        ..Leg::default()
    });
    // 7.001 ms and 4 ms have no short common period, so every phase occurs.
    let waits = delays(&access, 7_001_000, 40_000);
    near(mean(&waits), 2.0, 0.03);
    near(waits[waits.len() / 4], 1.0, 0.05);
    assert!(waits[0] < 0.01 && waits[waits.len() - 1] < 4.0);
}

#[test]
fn grants_wait_for_the_next_poll_and_longer_in_a_loaded_cell() {
    let grants = Grants {
        request_ns: 5 * MS,
        period_ns: 10 * MS,
    };
    let mut access = of_up(Leg {
        grants: Some(grants),
        ..Leg::default()
    });
    let waits = delays(&access, 7_001_000, 40_000);
    near(mean(&waits), 5.0 + 5.0, 0.1);
    assert!(waits[waits.len() - 1] < 15.0);
    for load in [0.25, 0.5, 0.9] {
        access.cell = Some(Cell {
            load_by_hour: [load; HOURS],
            spread: 0.0,
            changes: None,
        });
        // At a load of 0.9 waits are correlated for 0.1 s, so that the mean of 2,800 s is exact to 1 %. Half a period to the next poll, then one more period for each poll that another terminal gets.
        let expected = 5.0 + 5.0 + 10.0 * load / (1.0 - load);
        near(
            mean(&delays(&access, 7_001_000, 400_000)),
            expected,
            0.05 * expected,
        );
    }
}

#[test]
fn the_load_follows_the_hour() {
    let mut load_by_hour = [0.2; HOURS];
    load_by_hour[20] = 0.6;
    let access = Access {
        cell: Some(Cell {
            load_by_hour,
            spread: 0.0,
            changes: None,
        }),
        ..Access::default()
    };
    let load = |hour: f64, after_ns: u64| {
        let terminal = Terminal::new(1, 1).at(0, hour);
        access.slot_at(&terminal, after_ns).load
    };
    near(load(20.0, 0), 0.6, 1e-9);
    near(load(20.5, 0), 0.4, 1e-9);
    near(load(19.5, 30 * 60_000 * MS), 0.6, 1e-9);
    near(load(-4.0, 0), 0.6, 1e-9);
    near(load(3.0, 0), 0.2, 1e-9);
}

#[test]
fn slots_spread_around_the_median_load() {
    let access = Access {
        cell: Some(Cell {
            load_by_hour: [0.3; HOURS],
            spread: 1.0,
            changes: None,
        }),
        ..Access::default()
    };
    let terminal = Terminal::new(3, 1);
    let mut odds: Vec<f64> = (0..20_000)
        .map(|n| access.slot_at(&terminal, n * SLOT).load)
        .map(|load| (load / (1.0 - load)).ln())
        .collect();
    odds.sort_by(f64::total_cmp);
    // The largest load, 0.98, cuts off odds above 49: five deviations from here.
    near(odds[10_000], (0.3f64 / 0.7).ln(), 0.05);
    near(odds[15_000] - odds[5_000], 2.0 * 0.6745, 0.06);
}

#[test]
fn a_gap_holds_its_last_frames_and_loses_those_before() {
    let access = Access {
        handover: Some(Gap {
            ratio: 1.0,
            median_ns: 300 * MS,
            spread: 0.0,
            hold_ns: 100 * MS,
        }),
        ..Access::default()
    };
    let terminal = Terminal::new(1, 1);
    let mut waits = Vec::new();
    for slot in 1..2_000 {
        let fates = [Direction::Up, Direction::Down].map(|direction| {
            let fate = |ms: u64| access.fate(&terminal, direction, slot * SLOT + ms * MS);
            (0..=301).map(fate).collect::<Vec<_>>()
        });
        // Both directions have the same gap and the same wait.
        assert_eq!(fates[0], fates[1]);
        let lost = Fate::Lost(LostBy::Handover);
        let first = fates[0].iter().position(|fate| *fate != lost).unwrap();
        for (ms, fate) in fates[0].iter().enumerate().skip(first) {
            // All frames after the lost ones wait for the end of the gap; the last one is behind it.
            let at_ns = slot * SLOT + (ms as u64).max(300) * MS;
            assert_eq!(*fate, Fate::Out { at_ns });
        }
        assert!((200..=300).contains(&first), "{first}");
        waits.push((300 - first) as f64);
    }
    // Waits are uniform from 0 to the longest; whole milliseconds round them down.
    near(mean(&waits), 50.0 - 0.5, 3.0);
    waits.sort_by(f64::total_cmp);
    near(waits[waits.len() / 4], 25.0, 3.5);
}

#[test]
fn a_handover_loses_the_frames_under_way() {
    let access = Access {
        handover: Some(Gap {
            ratio: 0.5,
            median_ns: 0,
            spread: 0.0,
            hold_ns: 0,
        }),
        ..of_up(Leg {
            processing_ns: 40 * MS,
            ..Leg::default()
        })
    };
    let terminal = Terminal::new(1, 1);
    let mut handovers = 0;
    for slot in 0..2_000 {
        let next = access.slot_at(&terminal, (slot + 1) * SLOT).handover;
        handovers += usize::from(next.is_some());
        for before_ms in [1, 39, 40, 41, 60] {
            let now = (slot + 1) * SLOT - before_ms * MS;
            let fate = access.fate(&terminal, Direction::Up, now);
            let cut = next.is_some() && before_ms <= 40;
            assert_eq!(fate == Fate::Lost(LostBy::Handover), cut, "{before_ms} ms");
        }
    }
    near(handovers as f64 / 2_000.0, 0.5, 0.05);
}

#[test]
fn gaps_have_their_share_and_their_median_length() {
    let gap = Gap {
        ratio: 0.25,
        median_ns: 80 * MS,
        spread: 0.7,
        hold_ns: 0,
    };
    let access = Access {
        handover: Some(gap),
        relink: Some(gap),
        ..Access::default()
    };
    let terminal = Terminal::new(8, 1);
    let slots: Vec<_> = (0..20_000)
        .map(|n| access.slot_at(&terminal, n * SLOT))
        .collect();
    for of in [
        |s: &constel_link::access::Slot| s.handover,
        |s: &constel_link::access::Slot| s.relink,
    ] {
        let mut lengths: Vec<u64> = slots
            .iter()
            .filter_map(|slot| of(slot).map(|gap| gap.end_ns - gap.begin_ns))
            .collect();
        lengths.sort_unstable();
        near(lengths.len() as f64 / 20_000.0, 0.25, 0.012);
        near(lengths[lengths.len() / 2] as f64 / 1e6, 80.0, 4.0);
        for slot in &slots {
            let inside = |gap: constel_link::access::Interval| {
                gap.begin_ns >= slot.time.begin_ns && gap.end_ns <= slot.time.end_ns
            };
            assert!(of(slot).is_none_or(inside));
        }
    }
    // The two kinds do not depend on each other.
    let both = slots
        .iter()
        .filter(|s| s.handover.is_some() && s.relink.is_some())
        .count();
    near(both as f64 / 20_000.0, 0.0625, 0.007);
}

#[test]
fn blocked_slots_come_in_rows() {
    let access = Access {
        blockage: Some(Blockage {
            begin_ratio: 0.05,
            end_ratio: 0.4,
            partial: None,
        }),
        ..Access::default()
    };
    let terminal = Terminal::new(2, 1);
    let blocked: Vec<bool> = (0..40_000)
        .map(|n| access.slot_at(&terminal, n * SLOT).blocked)
        .collect();
    let all = blocked.iter().filter(|b| **b).count();
    let begins = blocked.windows(2).filter(|w| !w[0] && w[1]).count();
    near(all as f64 / 40_000.0, 0.05 / 0.45, 0.01);
    near(all as f64 / begins as f64, 1.0 / 0.4, 0.12);
    let first = blocked.iter().position(|b| *b).unwrap() as u64;
    let fate = access.fate(&terminal, Direction::Down, first * SLOT + 1);
    assert_eq!(fate, Fate::Lost(LostBy::Blockage));
}

#[test]
fn steps_are_constant_within_a_slot() {
    let access = stepped(0.0);
    let terminal = Terminal::new(6, 1);
    let mut long = 0;
    for n in 0..10_000 {
        let slot = access.slot_at(&terminal, n * SLOT);
        let ms = slot.step_ns as f64 / 1e6;
        assert!(
            (0.0..=10.0).contains(&ms) || (50.0..=80.0).contains(&ms),
            "{ms}"
        );
        long += usize::from(ms >= 50.0);
        assert_eq!(access.slot_at(&terminal, slot.time.end_ns - 1), slot);
    }
    near(f64::from(long as u32) / 10_000.0, 0.2, 0.016);
}

#[test]
fn transmissions_fail_independently_up_to_the_last() {
    let access = of_up(Leg {
        retransmission: Some(Retransmission {
            ratio: 0.3,
            again_ns: 8 * MS,
            transmissions: 3,
        }),
        ..Leg::default()
    });
    let frames = 40_000;
    let delays = delays(&access, 1_333_333, frames);
    let share = |ms: f64| {
        let count = delays.iter().filter(|d| (**d - ms).abs() < 1e-6).count();
        count as f64 / frames as f64
    };
    near(share(0.0), 0.7, 0.01);
    near(share(8.0), 0.21, 0.01);
    near(share(16.0), 0.063, 0.006);
    near(1.0 - delays.len() as f64 / frames as f64, 0.027, 0.004);
    // The link layer delivers in order: a frame that needs no second transmission waits for one that does.
    let terminal = Terminal::new(5, 2);
    let mut passage = Passage::new(Direction::Up);
    let mut last = 0;
    let mut held = 0;
    for n in 0..frames {
        let alone = access.fate(&terminal, Direction::Up, n * 1_333_333);
        let fate = passage.send(&access, &terminal, n * 1_333_333);
        if let (Fate::Out { at_ns }, Fate::Out { at_ns: own_ns }) = (fate, alone) {
            assert!(at_ns >= last);
            held += usize::from(at_ns > own_ns);
            last = at_ns;
        }
    }
    assert!(held > 1_000, "{held}");
}

#[test]
fn the_rate_is_what_the_cell_leaves() {
    let access = Access {
        cell: Some(Cell {
            load_by_hour: [0.4; HOURS],
            spread: 0.0,
            changes: None,
        }),
        down: Leg {
            rate: Some(Rate {
                alone_bps: 100_000_000,
                spread: 0.0,
            }),
            ..Leg::default()
        },
        slots: Slots {
            period_ns: SLOT,
            phase_ns: 12_000 * MS,
        },
        ..Access::default()
    };
    let terminal = Terminal::new(1, 1);
    let rate = access.rate(&terminal, Direction::Down, 0, 0.5);
    // The slot of instant 0 began 3 s before the minute.
    assert_eq!(rate, Some((30_000_000, 12_000 * MS)));
    assert_eq!(access.rate(&terminal, Direction::Up, 0, 0.5), None);
}

#[test]
fn wrong_values_are_all_named() {
    let mut access = preset("starlink-2025").unwrap().access;
    assert_eq!(access.check(), Ok(()));
    access.slots.period_ns = 0;
    access.handover = Some(Gap {
        ratio: 1.5,
        median_ns: 0,
        spread: f64::NAN,
        hold_ns: u64::MAX,
    });
    access.up.retransmission = Some(Retransmission {
        ratio: 0.1,
        again_ns: 0,
        transmissions: 0,
    });
    let errors = access.check().unwrap_err();
    for part in [
        "slots.period_ns",
        "handover.ratio",
        "handover.spread",
        "handover.hold_ns",
        "up.retransmission.transmissions",
    ] {
        assert!(
            errors.iter().any(|e| e.starts_with(part)),
            "{part}: {errors:?}"
        );
    }
}
