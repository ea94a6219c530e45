//! The access as an effect of edges.

use super::MS;
use std::num::NonZeroU64;
use std::sync::Arc;

use constel_link::access::{
    Access, Cell, Direction, EdgeAccess, Fate, Gap, HOURS, Leg, Passage, Rate, Terminal, preset,
};
use constel_link::{DriverKind, Edge, Effects, Impairment, PortId};

const SEED: u64 = 11;
const TERMINAL: u32 = 4;
const SATELLITE: u32 = 9;

fn effects(access: &Access) -> Effects {
    Effects {
        access: Some(EdgeAccess {
            parts: Arc::new(access.clone()),
            minute_ns: 3_000 * MS,
            terminals: [TERMINAL, TERMINAL + 1]
                .map(|port| (PortId(port), 20.5))
                .into(),
        }),
        ..Effects::default()
    }
}

fn edge(access: &Access, direction: Direction, impairment: Impairment) -> Edge<u64> {
    let (from, to) = match direction {
        Direction::Up => (TERMINAL, SATELLITE),
        Direction::Down => (SATELLITE, TERMINAL),
    };
    let mut edge = Edge::new(impairment, SEED, from, to, 0);
    edge.set_effects(0, Some(Arc::new(effects(access))), &mut |_, _| ());
    edge
}

#[test]
fn frames_leave_as_the_model_says_and_then_fly() {
    let mut access = preset("starlink-2025").unwrap().access;
    // Without rates, service takes no time and the edge is the model plus the flight.
    access.up.rate = None;
    access.down.rate = None;
    for direction in [Direction::Up, Direction::Down] {
        let flight_ns = 4 * MS;
        let mut edge = edge(&access, direction, Impairment::delay_only(flight_ns));
        let terminal = Terminal::new(SEED, TERMINAL).at(3_000 * MS, 20.5);
        let mut model = Passage::new(direction);
        let mut expected = Vec::new();
        let mut seen = Vec::new();
        let mut lost = 0;
        for n in 0..6_000u64 {
            let now = n * 10 * MS;
            match model.send(&access, &terminal, now) {
                Fate::Out { at_ns } => expected.push((n, at_ns + flight_ns)),
                Fate::Lost(_) => lost += 1,
            }
            edge.arrive(now, n, 100, &mut |_, _| ()).unwrap();
            while let Some(out) = edge.pop_due(now, &mut |_, _| ()) {
                seen.push((out.frame, out.due_ns));
            }
        }
        while let Some(out) = edge.pop_due(u64::MAX, &mut |_, _| ()) {
            seen.push((out.frame, out.due_ns));
        }
        assert_eq!(seen, expected);
        assert_eq!(edge.counters().dropped_loss, lost);
        assert!(lost > 0, "a minute and more of a lossy link");
    }
}

#[test]
fn both_directions_and_every_satellite_have_the_same_gaps() {
    let access = Access {
        handover: Some(Gap {
            ratio: 0.5,
            median_ns: 200 * MS,
            spread: 0.5,
            hold_ns: 0,
        }),
        ..Access::default()
    };
    let losses = |from: u32, to: u32| -> Vec<u64> {
        let mut edge = Edge::new(Impairment::delay_only(0), SEED, from, to, 0);
        edge.set_effects(0, Some(Arc::new(effects(&access))), &mut |_, _| ());
        let mut lost = Vec::new();
        for n in 0..12_000u64 {
            edge.arrive(n * 5 * MS, n, 100, &mut |frame, _| lost.push(frame))
                .unwrap();
            while edge.pop_due(n * 5 * MS, &mut |_, _| ()).is_some() {}
        }
        lost
    };
    let up = losses(TERMINAL, SATELLITE);
    assert!(!up.is_empty());
    assert_eq!(up, losses(SATELLITE, TERMINAL));
    assert_eq!(up, losses(TERMINAL, SATELLITE + 1));
    assert_ne!(up, losses(TERMINAL + 1, SATELLITE));
    // Between two satellites there is no terminal.
    assert_eq!(losses(SATELLITE, SATELLITE + 1), [0u64; 0]);
}

#[test]
fn the_rate_is_the_share_of_the_slot() {
    let access = Access {
        cell: Some(Cell {
            load_by_hour: [0.75; HOURS],
            spread: 0.0,
            changes: None,
        }),
        down: Leg {
            rate: Some(Rate {
                alone_bps: 1_000_000_000,
                spread: 0.0,
            }),
            ..Leg::default()
        },
        ..Access::default()
    };
    let impairment = Impairment {
        // The plan's rate: signal and weather have taken their part of that of the access.
        rate_bps: NonZeroU64::new(40_000_000),
        queue: constel_link::QueueLimit { bytes: 1 << 20 },
        ..Impairment::delay_only(0)
    };
    let mut edge = edge(&access, Direction::Down, impairment);
    for n in 0..100 {
        edge.arrive(0, n, 1_250, &mut |_, _| ()).unwrap();
    }
    // A quarter of 40 Mbit/s: 1 ms for each frame of 1,250 bytes.
    let mut dues = Vec::new();
    while let Some(out) = edge.pop_due(10_000 * MS, &mut |_, _| ()) {
        dues.push(out.due_ns);
    }
    let expected: Vec<u64> = (1..=100).map(|n| n * MS).collect();
    assert_eq!(dues, expected);
}

#[test]
fn a_rate_set_by_hand_is_not_shared() {
    let access = preset("starlink-2025").unwrap().access;
    let mut edge = edge(&access, Direction::Down, Impairment::delay_only(0));
    let by_hand = Effects {
        rate_bps: Some(8_000_000),
        ..effects(&Access {
            down: Leg {
                rate: access.down.rate,
                ..Leg::default()
            },
            ..Access::default()
        })
    };
    edge.set_effects(0, Some(Arc::new(by_hand)), &mut |_, _| ());
    edge.arrive(0, 1, 1_000, &mut |_, _| ()).unwrap();
    assert_eq!(
        edge.pop_due(u64::MAX, &mut |_, _| ()).unwrap().due_ns,
        1_000_000
    );
}

#[test]
fn only_the_relay_has_it() {
    let effects = effects(&preset("starlink-2025").unwrap().access);
    assert_eq!(effects.check(), Ok(()));
    let text = serde_json::to_string(&effects).unwrap();
    assert_eq!(serde_json::from_str::<Effects>(&text).unwrap(), effects);
    let refusals = |kind: DriverKind| kind.capabilities().refusals(&effects).len();
    assert_eq!(DriverKind::ALL.map(refusals), [0, 1, 1]);
    let later = effects.clone().starting_later(5);
    assert_eq!(later.access.unwrap().minute_ns, 3_000 * MS + 5);
    let mut wrong = effects;
    let access = wrong.access.as_mut().unwrap();
    access.terminals = [(PortId(2), 25.0), (PortId(1), 1.0)].into();
    Arc::make_mut(&mut access.parts).slots.period_ns = 0;
    // The period, the phase that is beyond it, the order and the hour.
    assert_eq!(wrong.check().unwrap_err().errors.len(), 4);
}
