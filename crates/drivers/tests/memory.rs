//! The driver without a kernel: the same table as all drivers', time that a test gives, and calls that fail on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use constel_drivers::memory::{Call, Event, Memory};
use constel_drivers::{DriverError, DriverKind, Links, Plane};
use constel_link::{
    ChangeError, EdgeChange, EdgeUpdate, Effects, EffectsChange, Impairment, PortId,
};

const MS: u64 = 1_000_000;

/// A plane for four ports, its clock, and its links.
fn started(kind: DriverKind) -> (Memory, Arc<AtomicU64>, Arc<dyn Links>) {
    let time_ns = Arc::new(AtomicU64::new(1));
    let clock = time_ns.clone();
    let memory = Memory::new(kind, 4, 7, move || clock.load(Ordering::Acquire));
    let links = memory.start().unwrap();
    (memory, time_ns, links)
}

fn set(from: u32, to: u32, delay_ns: u64) -> EdgeChange {
    EdgeChange::Set {
        from: PortId(from),
        to: PortId(to),
        impairment: Impairment::delay_only(delay_ns),
    }
}

fn remove(from: u32, to: u32) -> EdgeChange {
    EdgeChange::Remove {
        from: PortId(from),
        to: PortId(to),
    }
}

fn update(changes: &[EdgeChange]) -> EdgeUpdate {
    EdgeUpdate {
        changes: changes.to_vec(),
    }
}

fn edges(links: &dyn Links) -> Vec<(u32, u32, u64)> {
    let edges = links.all_edges().unwrap();
    let row = |e: &constel_link::EdgeStats| {
        let delay_ns = e.impairment.map_or(0, |i| i.delay.delay_ns);
        (e.from.0, e.to.0, delay_ns)
    };
    edges.iter().map(row).collect()
}

#[test]
fn updates_take_effect_in_their_time_and_order() {
    let (memory, time_ns, links) = started(DriverKind::Relay);
    let late = links.submit(update(&[remove(0, 1)]), Some(20 * MS));
    let early = links.submit(update(&[set(0, 1, 5)]), Some(10 * MS));
    assert!(edges(links.as_ref()).is_empty(), "nothing is due");
    time_ns.store(10 * MS, Ordering::Release);
    assert_eq!(edges(links.as_ref()), [(0, 1, 5)]);
    // Waiting lets time pass.
    let applied = late.unwrap().wait().unwrap();
    assert_eq!((applied.at_ns, applied.changes.removed), (20 * MS, 1));
    assert!(edges(links.as_ref()).is_empty());
    assert_eq!(early.unwrap().wait().unwrap().at_ns, 10 * MS);
    // An update that is due in the past is applied at once, at this instant.
    let now = links.apply(update(&[set(2, 3, 1)]), Some(MS)).unwrap();
    assert_eq!(now.at_ns, 10 * MS);
    assert_eq!(
        memory.events()[1..],
        [
            Event::Updated {
                at_ns: 10 * MS,
                changes: vec![set(0, 1, 5)]
            },
            Event::Updated {
                at_ns: 20 * MS,
                changes: vec![remove(0, 1)]
            },
            Event::Updated {
                at_ns: 10 * MS,
                changes: vec![set(2, 3, 1)]
            },
        ]
    );
}

#[test]
fn an_update_is_all_or_nothing() {
    let (memory, _, links) = started(DriverKind::Relay);
    links.apply(update(&[set(0, 1, 5)]), None).unwrap();
    let before = memory.events();
    let mixed = update(&[set(0, 1, 9), remove(2, 3)]);
    let Err(DriverError::Update(error)) = links.apply(mixed, None) else {
        panic!("an edge that does not exist was removed");
    };
    let (from, to) = (PortId(2), PortId(3));
    assert_eq!(error.errors, [ChangeError::NoSuchEdge { from, to }]);
    let impossible = update(&[set(0, 1, 9), set(0, 9, 1)]);
    let refused = links.submit(impossible, None).unwrap_err();
    assert!(matches!(refused, DriverError::Update(_)), "{refused}");
    assert_eq!(edges(links.as_ref()), [(0, 1, 5)]);
    assert_eq!(memory.events(), before);
}

#[test]
fn effects_stay_whatever_updates_do() {
    let (_, _, links) = started(DriverKind::Relay);
    let (from, to) = (PortId(0), PortId(1));
    let slow = Effects {
        rate_bps: Some(1_000),
        ..Effects::default()
    };
    let own = Effects {
        down: Some(true),
        ..Effects::default()
    };
    let on_port = EffectsChange::Port {
        port: from,
        effects: Some(slow.clone()),
    };
    let on_edge = EffectsChange::Edge {
        from,
        to,
        effects: Some(own.clone()),
    };
    assert_eq!(links.apply_effects(vec![on_port, on_edge]).unwrap(), 1);
    for changes in [[set(0, 1, 5)], [remove(0, 1)], [set(0, 1, 6)]] {
        links.apply(update(&changes), None).unwrap();
        let known = links.effects(from, to).unwrap();
        assert_eq!(known.in_force, slow.merged(&own));
        assert_eq!(known.own, own);
    }
    let gone = EffectsChange::Edge {
        from,
        to,
        effects: None,
    };
    links.apply_effects(vec![gone]).unwrap();
    assert_eq!(links.effects(from, to).unwrap().in_force, slow);
}

#[test]
fn what_the_driver_lacks_is_refused() {
    let duplicated = EffectsChange::Port {
        port: PortId(0),
        effects: Some(Effects {
            duplicate_ratio: Some(0.5),
            ..Effects::default()
        }),
    };
    for kind in DriverKind::ALL {
        let (_, _, links) = started(kind);
        let result = links.apply_effects(vec![duplicated.clone()]);
        let refused = matches!(result, Err(DriverError::Unsupported(_)));
        assert_eq!(refused, kind != DriverKind::Relay, "{kind}: {result:?}");
    }
}

#[test]
fn a_call_fails_when_told_to_and_changes_nothing() {
    let (memory, _, links) = started(DriverKind::Relay);
    memory.fail_at(Call::Attach, 2);
    memory.fail_at(Call::Submit, 1);
    memory.attach(&[PortId(0)]).unwrap();
    let refused = memory.attach(&[PortId(1)]).unwrap_err();
    assert!(matches!(refused, DriverError::Unable(_)), "{refused}");
    memory.attach(&[PortId(2)]).unwrap();
    assert_eq!(memory.attached(), [PortId(0), PortId(2)].into());
    assert!(links.apply(update(&[set(0, 1, 5)]), None).is_err());
    assert!(edges(links.as_ref()).is_empty());
    links.apply(update(&[set(0, 1, 5)]), None).unwrap();
    assert_eq!(edges(links.as_ref()).len(), 1);
    let beyond = memory.attach(&[PortId(3), PortId(4)]).unwrap_err();
    assert!(matches!(beyond, DriverError::NoSuchPort { .. }), "{beyond}");
    assert!(!memory.attached().contains(&PortId(3)), "all or nothing");
}

#[test]
fn it_starts_once_and_ends_for_good() {
    let (memory, _, links) = started(DriverKind::Relay);
    assert!(matches!(memory.start(), Err(DriverError::Started)));
    let waiting = links.submit(update(&[set(0, 1, 5)]), Some(MS)).unwrap();
    links.stop();
    links.stop();
    assert!(matches!(waiting.wait(), Err(DriverError::Stopped)));
    assert!(matches!(links.snapshot(), Err(DriverError::Stopped)));
    assert_eq!(memory.events(), [Event::Started, Event::Stopped]);
}

#[test]
fn counters_are_those_of_a_driver_that_lost_nothing() {
    let (memory, _, links) = started(DriverKind::Netem);
    links
        .apply(update(&[set(0, 1, 5), set(1, 0, 5)]), None)
        .unwrap();
    let stats = links.snapshot().unwrap();
    assert_eq!((stats.driver, stats.totals.edges), (DriverKind::Netem, 2));
    assert_eq!((stats.emulator_drops.total(), stats.early), (0, None));
    assert_eq!(memory.lost_before_capture().unwrap(), 0);
    assert_eq!(links.edge_stats(PortId(2), PortId(3)).unwrap(), None);
}
