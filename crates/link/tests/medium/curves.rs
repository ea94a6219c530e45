//! The channel against closed forms: ALOHA, slotted ALOHA, carrier sense with one window, slots.

use constel_link::medium::{Access, Counters, Frame, Medium, Reception, Spec};

use super::drive::{
    FRAME_NS, SECOND_NS, all_hear, aloha, bianchi, carrier_sense, frame, saturated, spec,
};

fn sum(medium: &Medium, ports: usize, what: impl Fn(Counters) -> u64) -> u64 {
    (0..ports).map(|port| what(medium.counters(port))).sum()
}

#[test]
fn aloha_is_g_times_e_to_the_minus_two_g() {
    for g in [0.1, 0.25, 0.5, 1.0, 2.0_f64] {
        let (seen, said) = (aloha(Access::Aloha, g, 200), g * (-2.0 * g).exp());
        assert!((seen - said).abs() < 0.004, "G {g}: {seen}, not {said}");
    }
}

#[test]
fn slotted_aloha_is_g_times_e_to_the_minus_g() {
    let access = || Access::SlottedAloha { slot_ns: FRAME_NS };
    for g in [0.1, 0.5, 1.0, 2.0_f64] {
        let (seen, said) = (aloha(access(), g, 200), g * (-g).exp());
        assert!((seen - said).abs() < 0.006, "G {g}: {seen}, not {said}");
    }
}

#[test]
fn carrier_sense_is_as_bianchi_says() {
    for (n, window) in [(2, 32), (5, 32), (10, 32), (10, 128), (30, 64)] {
        let (seen, said) = (carrier_sense(n, window, 200), bianchi(n, window));
        assert!(
            (seen / said - 1.0).abs() < 0.02,
            "n {n}, W {window}: {seen}, not {said}"
        );
    }
}

#[test]
fn two_saturating_senders_share_the_airtime() {
    let access = Access::Csma {
        slot_ns: 20_000,
        window: 32,
    };
    let mut medium = Medium::new(
        Spec {
            guard_ns: 34_000,
            ..spec(access)
        },
        3,
    )
    .unwrap();
    all_hear(&mut medium, 3, Reception::default());
    saturated(&mut medium, 2, 100);
    let [a, b] = [0, 1].map(|port| medium.counters(port).airtime_ns as f64);
    let share = a / (a + b);
    assert!((share - 0.5).abs() < 0.02, "{share}");
    // The sum is the rate less what backoff and guard take: 15.5 slots on average are the most.
    let used = (a + b) / (100.0 * SECOND_NS as f64);
    assert!((0.78..1.05).contains(&used), "{used}");
}

#[test]
fn who_does_not_hear_the_other_collides_and_who_does_not() {
    let lost = |hear_each_other: bool| {
        let access = Access::Csma {
            slot_ns: 50_000,
            window: 64,
        };
        let mut medium = Medium::new(
            Spec {
                guard_ns: 100_000,
                ..spec(access)
            },
            3,
        )
        .unwrap();
        all_hear(&mut medium, 3, Reception::default());
        if !hear_each_other {
            medium.hear(0, 1, None);
            medium.hear(1, 0, None);
        }
        saturated(&mut medium, 2, 20);
        let middle = medium.counters(2);
        middle.collisions as f64 / (middle.collisions + middle.heard) as f64
    };
    // Both draw the same number once in some 33 times.
    assert!(lost(true) < 0.07, "{}", lost(true));
    assert!(lost(false) > 0.3, "{}", lost(false));
}

#[test]
fn a_broadcast_takes_one_airtime_however_many_hear_it() {
    let airtime = |ports: usize| {
        let mut medium = Medium::new(spec(Access::Aloha), ports).unwrap();
        all_hear(
            &mut medium,
            ports,
            Reception {
                delay_ns: 1000,
                ..Reception::default()
            },
        );
        let mut events = Vec::new();
        medium.send(0, 0, frame(1)).unwrap();
        medium.advance(SECOND_NS, &mut events);
        assert_eq!(sum(&medium, ports, |c| c.heard), ports as u64 - 1);
        medium.counters(0).airtime_ns
    };
    assert_eq!([airtime(4), airtime(32)], [FRAME_NS; 2]);
}

#[test]
fn slots_never_collide_and_each_gets_its_own() {
    const PORTS: usize = 8;
    let access = Access::Tdma {
        slot_ns: 5_300_000,
        order: (0..PORTS).collect(),
    };
    let mut medium = Medium::new(
        Spec {
            guard_ns: 250_000,
            ..spec(access)
        },
        PORTS,
    )
    .unwrap();
    all_hear(
        &mut medium,
        PORTS,
        Reception {
            delay_ns: 213_500,
            ..Reception::default()
        },
    );
    saturated(&mut medium, PORTS, 50);
    assert_eq!(sum(&medium, PORTS, |c| c.collisions + c.deaf + c.noise), 0);
    // Four frames and their guards in 5.3 ms, once in eight slots.
    let rounds = 50 * SECOND_NS / (5_300_000 * PORTS as u64);
    for port in 0..PORTS {
        let sent = medium.counters(port).sent;
        assert!(sent.abs_diff(rounds * 4) <= 4, "{sent} of {}", rounds * 4);
    }
    let long = Frame {
        id: 0,
        bytes: 9000,
        rate_bps: None,
    };
    assert!(medium.send(50 * SECOND_NS, 0, long).is_err());
}

#[test]
fn longer_frames_are_lost_more_often() {
    let hearing = Reception {
        bit_error_ratio: 1e-5,
        loss_ratio: 0.01,
        ..Reception::default()
    };
    let mut medium = Medium::new(spec(Access::Aloha), 2).unwrap();
    medium.hear(0, 1, Some(hearing));
    let mut events = Vec::new();
    for bytes in [100, 1400] {
        let before = medium.counters(1);
        for id in 0..20_000 {
            let now_ns = medium
                .next_ns()
                .unwrap_or(0)
                .max(id * 2_000_000 + u64::from(bytes) * 100 * SECOND_NS);
            medium.advance(now_ns, &mut events);
            medium
                .send(
                    now_ns,
                    0,
                    Frame {
                        id,
                        bytes,
                        rate_bps: None,
                    },
                )
                .unwrap();
        }
        medium.advance(u64::MAX / 2, &mut events);
        let after = medium.counters(1);
        let lost = (after.noise - before.noise) as f64 / 20_000.0;
        let said = 1.0 - 0.99 * (1.0 - 1e-5_f64).powf(f64::from(bytes) * 8.0);
        assert!((lost - said).abs() < 0.007, "{bytes}: {lost}, not {said}");
    }
}

#[test]
fn the_same_seed_gives_the_same_events_and_another_does_not() {
    let run = |seed| {
        let access = Access::Csma {
            slot_ns: 50_000,
            window: 32,
        };
        let mut medium = Medium::new(
            Spec {
                seed,
                ..spec(access)
            },
            4,
        )
        .unwrap();
        all_hear(
            &mut medium,
            4,
            Reception {
                loss_ratio: 0.1,
                ..Reception::default()
            },
        );
        saturated(&mut medium, 4, 2)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn who_sends_is_deaf() {
    let mut medium = Medium::new(spec(Access::Aloha), 2).unwrap();
    all_hear(
        &mut medium,
        2,
        Reception {
            delay_ns: 100,
            ..Reception::default()
        },
    );
    let mut events = Vec::new();
    medium.send(0, 0, frame(1)).unwrap();
    medium.advance(0, &mut events);
    medium.send(500_000, 1, frame(2)).unwrap();
    medium.advance(SECOND_NS, &mut events);
    // Each sent while the other's was there; no other frame was.
    assert_eq!([medium.counters(0).deaf, medium.counters(1).deaf], [1, 1]);
}
