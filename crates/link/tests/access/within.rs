//! The laws of changes within a slot: service in parts, the load, and the step.

use super::{MS, SLOT, stepped};
use constel_link::access::{
    Access, Blockage, Cell, Changes, Direction, Fate, Grants, HOURS, Leg, LostBy, Partial, Slots,
    Terminal,
};
use proptest::prelude::*;

/// A sky that is blocked in all slots, each with service in parts.
fn blocked(partial: Partial) -> Access {
    Access {
        // Slots of an hour, so that few intervals are cut off at their ends.
        slots: Slots {
            period_ns: 3_600_000 * MS,
            phase_ns: 0,
        },
        blockage: Some(Blockage {
            begin_ratio: 1.0,
            end_ratio: 0.0,
            partial: Some(partial),
        }),
        ..Access::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// The share of time without service and the mean lengths of both kinds of intervals are the parameters.
    #[test]
    fn service_in_parts_has_its_mean_loss_and_lengths(
        blocked_ms in 100..2_000u64,
        clear_ms in 100..2_000u64,
        seed: u64,
    ) {
        let access = blocked(Partial {
            ratio: 1.0,
            blocked_ns: blocked_ms * MS,
            clear_ns: clear_ms * MS,
            hold_ns: 0,
        });
        let terminal = Terminal::new(seed, 1);
        // The chain changes its state at ticks of an eighth of the shorter mean, so half a tick sees every interval.
        let every_ns = blocked_ms.min(clear_ms) * MS / 16;
        let cycles = 2_000;
        let count = cycles * (blocked_ms + clear_ms) * MS / every_ns;
        let lost: Vec<bool> = (0..count)
            .map(|n| access.fate(&terminal, Direction::Up, n * every_ns))
            .map(|fate| fate == Fate::Lost(LostBy::Blockage))
            .collect();
        let all = lost.iter().filter(|lost| **lost).count() as f64;
        let rows = lost.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        let period = (blocked_ms + clear_ms) as f64;
        let ratio = blocked_ms as f64 / period;
        // Over 2,000 cycles of exponential lengths a mean has a deviation of 2.2 %; these are five of them.
        prop_assert!((all / count as f64 / ratio - 1.0).abs() < 0.11, "{} of {ratio}", all / count as f64);
        let mean_ms = all * every_ns as f64 / 1e6 / rows;
        prop_assert!((mean_ms / blocked_ms as f64 - 1.0).abs() < 0.11, "{mean_ms} of {blocked_ms}");
        let clear = (count as f64 - all) * every_ns as f64 / 1e6 / rows;
        prop_assert!((clear / clear_ms as f64 - 1.0).abs() < 0.11, "{clear} of {clear_ms}");
    }
}

#[test]
fn frames_wait_for_service_at_the_end_of_an_interval_only() {
    let hold_ns = 300 * MS;
    let mut access = blocked(Partial {
        ratio: 1.0,
        blocked_ns: 1_500 * MS,
        clear_ns: 1_000 * MS,
        hold_ns,
    });
    let terminal = Terminal::new(4, 1);
    let fates = |access: &Access, direction| -> Vec<Fate> {
        let times = (0..100_000).map(|n| n * 20 * MS);
        times
            .map(|t| access.fate(&terminal, direction, t))
            .collect()
    };
    let up = fates(&access, Direction::Up);
    assert_eq!(up, fates(&access, Direction::Down));
    let delays = up.iter().enumerate().filter_map(|(n, fate)| match fate {
        Fate::Out { at_ns } => Some(at_ns - n as u64 * 20 * MS),
        Fate::Lost(_) => None,
    });
    let most_ns = delays.max().unwrap();
    assert!((280 * MS..=hold_ns).contains(&most_ns), "{most_ns}");
    // Without waits, the frames that waited are lost; no other frame changes.
    if let Some(partial) = access.blockage.as_mut().and_then(|b| b.partial.as_mut()) {
        partial.hold_ns = 0;
    }
    let (mut waited, mut lost) = (0, 0);
    for (n, (held, strict)) in up.iter().zip(fates(&access, Direction::Up)).enumerate() {
        let now = n as u64 * 20 * MS;
        match *held {
            Fate::Out { at_ns } if at_ns > now => {
                waited += 1;
                assert_eq!(strict, Fate::Lost(LostBy::Blockage));
            }
            other => {
                lost += usize::from(other != Fate::Out { at_ns: now });
                assert_eq!(strict, other);
            }
        }
    }
    // Frames wait during the last 150 ms of 1,500 ms without service, in the mean; a shorter interval has less.
    assert!(waited > 4_000 && lost > 40_000, "{waited}, {lost}");
}

#[test]
fn slots_in_parts_have_their_share() {
    let access = Access {
        slots: Slots::default(),
        blockage: Some(Blockage {
            begin_ratio: 0.1,
            end_ratio: 0.3,
            partial: Some(Partial {
                ratio: 0.4,
                blocked_ns: 1_000 * MS,
                clear_ns: 1_000 * MS,
                hold_ns: 0,
            }),
        }),
        ..Access::default()
    };
    let terminal = Terminal::new(2, 1);
    let slots: Vec<_> = (0..20_000)
        .map(|n| access.slot_at(&terminal, n * SLOT))
        .collect();
    let blocked = slots.iter().filter(|slot| slot.blocked).count() as f64;
    let partial = slots.iter().filter(|slot| slot.partial).count() as f64;
    assert!((blocked / 20_000.0 - 0.25).abs() < 0.02, "{blocked}");
    assert!((partial / blocked - 0.4).abs() < 0.03, "{partial}");
    // A free slot loses nothing, a blocked one without parts all.
    for slot in slots
        .iter()
        .skip(1)
        .take(2_000)
        .filter(|slot| !slot.partial)
    {
        for n in 0..15 {
            let now = slot.time.begin_ns + n * 1_000 * MS;
            let lost = access.fate(&terminal, Direction::Up, now) != Fate::Out { at_ns: now };
            assert_eq!(lost, slot.blocked);
        }
    }
}

/// Correlation of the logarithms of neighbouring values.
fn correlation(values: &[f64], lag: usize) -> f64 {
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let all: f64 = logs.iter().map(|v| (v - mean).powi(2)).sum();
    let both = logs
        .windows(lag + 1)
        .map(|w| (w[0] - mean) * (w[lag] - mean));
    both.sum::<f64>() / all
}

#[test]
fn changes_of_the_load_make_neighbouring_waits_similar() {
    let waits = |changes: Option<Changes>| -> Vec<f64> {
        let access = Access {
            cell: Some(Cell {
                load_by_hour: [0.9; HOURS],
                spread: 0.0,
                changes,
            }),
            up: Leg {
                grants: Some(Grants {
                    request_ns: 0,
                    // Short beside the waits, so that the phase of the first poll does not show.
                    period_ns: MS,
                }),
                ..Leg::default()
            },
            ..Access::default()
        };
        let terminal = Terminal::new(3, 1);
        let times = (0..60_000).map(|n| n * 101 * MS);
        let fates = times.map(|t| (t, access.fate(&terminal, Direction::Up, t)));
        let waits = fates.filter_map(|(t, fate)| match fate {
            Fate::Out { at_ns } => Some((at_ns - t) as f64 / 1e6 + 1.0),
            Fate::Lost(_) => None,
        });
        waits.collect()
    };
    let constant = waits(None);
    // Polls are independent, so waits are: four deviations of 60,000 pairs.
    assert!(correlation(&constant, 1).abs() < 0.016);
    let spread = 1.2;
    let changing = waits(Some(Changes {
        every_ns: 1_010 * MS,
        spread,
    }));
    let lags = [1, 5, 10, 20].map(|lag| correlation(&changing, lag));
    // Two waits have the same load with a probability that falls linearly to 0 over ten intervals.
    assert!(lags[0] > 0.2, "{lags:?}");
    assert!((lags[1] / lags[0] - 5.0 / 9.0).abs() < 0.12, "{lags:?}");
    assert!(lags[2].abs() < 0.03 && lags[3].abs() < 0.03, "{lags:?}");
}

#[test]
fn a_step_changes_once_and_both_have_the_same_law() {
    let access = stepped(0.3);
    let terminal = Terminal::new(6, 1);
    let (mut changes, mut long, mut into_ns) = (0, [0, 0], 0.0);
    for n in 1..10_000 {
        let slot = access.slot_at(&terminal, n * SLOT);
        let delay = |t: u64| match access.fate(&terminal, Direction::Up, t) {
            Fate::Out { at_ns } => at_ns - t,
            Fate::Lost(_) => u64::MAX,
        };
        assert_eq!(delay(slot.time.begin_ns), slot.step_ns);
        let Some((from_ns, step_ns)) = slot.later_step else {
            assert_eq!(delay(slot.time.end_ns - 1), slot.step_ns);
            continue;
        };
        assert_eq!(delay(from_ns - 1), slot.step_ns);
        assert_eq!(delay(from_ns), step_ns);
        assert_eq!(delay(slot.time.end_ns - 1), step_ns);
        changes += 1;
        into_ns += (from_ns - slot.time.begin_ns) as f64;
        for (long, step_ns) in long.iter_mut().zip([slot.step_ns, step_ns]) {
            *long += i32::from(step_ns >= 50 * MS);
        }
    }
    let all = f64::from(changes);
    assert!((all / 10_000.0 - 0.3).abs() < 0.02, "{changes}");
    assert!((into_ns / all / SLOT as f64 - 0.5).abs() < 0.03);
    assert!(
        long.iter()
            .all(|n| (f64::from(*n) / all - 0.2).abs() < 0.04),
        "{long:?}"
    );
}
