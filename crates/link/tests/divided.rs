//! Edges divided among several tables: each is as in one table, whatever the division.

use constel_link::{
    Delivery, DropCause, EdgeChange, EdgeTable, EdgeUpdate, Frames, Impairment, Loss, Nanos,
    PortId, mac_of,
};
use proptest::prelude::*;

const PORTS: u32 = 6;

/// Frames are numbers.
struct Numbers;

impl Frames<u32> for Numbers {
    fn duplicate(&mut self, frame: &u32) -> Option<u32> {
        Some(*frame)
    }
    fn discard(&mut self, _: u32, _: DropCause) {}
    fn flip_bit(&mut self, _: &mut u32, _: u64) {}
}

#[derive(Clone, Debug)]
enum Event {
    Update(Vec<(u32, u32, bool)>),
    Frame(u32, u32),
}

fn event() -> impl Strategy<Value = Event> {
    let edge = (0..PORTS, 0..PORTS, any::<bool>());
    prop_oneof![
        prop::collection::vec(edge, 1..8).prop_map(Event::Update),
        (0..PORTS, 0..PORTS).prop_map(|(from, to)| Event::Frame(from, to)),
    ]
}

fn changes(edges: &[(u32, u32, bool)], there: &mut Vec<(u32, u32)>) -> Vec<EdgeChange> {
    let mut named: Vec<(u32, u32)> = Vec::new();
    let mut changes = Vec::new();
    for &(from, to, set) in edges {
        if from == to || named.contains(&(from, to)) || (!set && !there.contains(&(from, to))) {
            continue;
        }
        named.push((from, to));
        let impairment = Impairment {
            loss: Loss::Bernoulli { loss_ratio: 0.4 },
            ..Impairment::delay_only(1000)
        };
        let (from_port, to_port) = (PortId(from), PortId(to));
        if set {
            there.push((from, to));
            changes.push(EdgeChange::Set {
                from: from_port,
                to: to_port,
                impairment,
            });
        } else {
            there.retain(|edge| *edge != (from, to));
            changes.push(EdgeChange::Remove {
                from: from_port,
                to: to_port,
            });
        }
    }
    changes
}

/// The output of a number of tables, sorted.
fn passed(events: &[Event], tables: usize) -> Vec<(u32, u32, Nanos, u32)> {
    let of = |port: PortId| port.0 as usize % tables;
    let mut all: Vec<EdgeTable<u32>> = (0..tables).map(|_| EdgeTable::new(PORTS, 7)).collect();
    let (mut there, mut out) = (Vec::new(), Vec::new());
    for (number, event) in (0u32..).zip(events) {
        let now = Nanos::from(number) * 100;
        match event {
            Event::Update(edges) => {
                let changes = changes(edges, &mut there);
                let update = EdgeUpdate { changes }.check(PORTS).unwrap();
                for (table, part) in all.iter_mut().zip(update.divided(tables, of)) {
                    table.apply(now, &part, &mut Numbers).unwrap();
                }
            }
            Event::Frame(from, to) => {
                if there.contains(&(*from, *to)) {
                    let table = &mut all[of(PortId(*to))];
                    let to = mac_of(PortId(*to));
                    table.arrive(now, PortId(*from), to, 100, number, &mut Numbers);
                }
            }
        }
    }
    for table in &mut all {
        while let Some(Delivery {
            from,
            to,
            due_ns,
            frame,
            ..
        }) = table.pop_due(Nanos::MAX / 2, &mut Numbers)
        {
            out.push((from.0, to.0, due_ns, frame));
        }
    }
    out.sort_unstable();
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Equal frames on an edge are lost, and the others leave at equal instants, with any other edges in its table.
    #[test]
    fn an_edge_does_not_know_whom_it_shares_a_table_with(events in prop::collection::vec(event(), 1..120)) {
        let one = passed(&events, 1);
        for tables in [2, 3] {
            prop_assert_eq!(&passed(&events, tables), &one);
        }
    }
}
