//! Machines of a lab are lost, and others take their nodes.

use crate::machines::common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use constel_cluster::machines::{Division, Homes, Machines, Pin, Placement, PlacementPolicy};
use constel_plan::Lab;
use constel_topology::NodeId;
use proptest::prelude::*;

use common::lab;

fn iridium() -> &'static Lab {
    static LAB: OnceLock<Lab> = OnceLock::new();
    LAB.get_or_init(|| lab("iridium.yaml"))
}

fn homes(lab: &Lab, machines: &str, pins: &[&str], order: PlacementPolicy) -> Homes {
    let machines: Machines = machines.parse().unwrap();
    let pins: Vec<Pin> = pins.iter().map(|pin| pin.parse().unwrap()).collect();
    let placement = Placement::new(lab, &machines, &pins, order).unwrap();
    let division = Division {
        machines,
        pins,
        order,
    };
    Homes::new(lab, division, placement)
}

fn held(lab: &Lab, homes: &Homes) -> BTreeMap<usize, usize> {
    let mut held = BTreeMap::new();
    for node in lab.layout.nodes() {
        *held.entry(homes.machine_of(node.id)).or_default() += 1;
    }
    held
}

#[test]
fn others_take_all_in_proportion_and_keep_what_they_have() {
    let lab = iridium();
    for order in [
        PlacementPolicy::FewestCrossings,
        PlacementPolicy::RoundRobin,
    ] {
        let mut homes = homes(lab, "a,b,c=2", &[], order);
        let all = || lab.layout.nodes().iter().map(|node| node.id);
        let before: Vec<usize> = all().map(|node| homes.machine_of(node)).collect();
        let moved = homes.lose(0, true).unwrap();
        assert!(homes.lose(0, true).is_none(), "once");
        assert_eq!(moved.nodes.len(), moved.to.len());
        for (node, was) in all().zip(before) {
            let is = homes.machine_of(node);
            assert!(if was == 0 { is != 0 } else { is == was });
        }
        let held = held(lab, &homes);
        // Eighty nodes, one to two, and a part may be 5 % larger.
        assert!((24..=29).contains(&held[&1]), "{order:?} {held:?}");
        assert!((51..=56).contains(&held[&2]), "{order:?} {held:?}");
    }
}

/// Few links cross afterwards, too: not many more than if the lab had been divided among those that are left.
#[test]
fn neighbours_stay_together() {
    let lab = iridium();
    let mut homes = homes(lab, "a,b,c", &[], PlacementPolicy::FewestCrossings);
    homes.lose(1, true).unwrap();
    let first = lab.stepper().advance();
    let crosses = |of: &dyn Fn(NodeId) -> usize| {
        let node = |port| of(lab.layout.port(port).node);
        let edges = first.edges.iter();
        edges.filter(|e| node(e.from) != node(e.to)).count()
    };
    let two: Machines = "a,c".parse().unwrap();
    let fresh = Placement::new(lab, &two, &[], PlacementPolicy::FewestCrossings).unwrap();
    let (moved, fresh) = (
        crosses(&|node| homes.machine_of(node)),
        crosses(&|node| fresh.machine_of(node)),
    );
    assert!(moved <= 2 * fresh, "{moved} beside {fresh}");
}

#[test]
fn what_is_pinned_goes_with_its_machine_and_what_has_no_room_too() {
    let lab = iridium();
    let pins = ["tokyo=a", "sydney=b", "iridium-p00-*=a"];
    let mut homes = homes(lab, "a,b/30,c/30", &pins, PlacementPolicy::FewestCrossings);
    let moved = homes.lose(0, true).unwrap();
    let name = |node: &NodeId| lab.layout.node(*node).name.clone();
    let gone: Vec<String> = moved
        .nodes
        .iter()
        .filter(|node| !moved.to.contains_key(node))
        .map(name)
        .collect();
    assert!(gone.contains(&"tokyo".to_owned()));
    // Room for sixty: stations come before satellites.
    assert_eq!(gone.len(), 20, "{gone:?}");
    let stays = |name: &&String| *name == "tokyo" || name.starts_with("iridium-");
    assert_eq!(gone.iter().filter(stays).count(), gone.len(), "{gone:?}");
    let held = held(lab, &homes);
    assert_eq!((held[&0], held[&1], held[&2]), (20, 30, 30));
}

#[test]
fn a_radio_channel_stays_together() {
    let lab = lab("swarm.yaml");
    let channel: BTreeSet<NodeId> = lab.channels()[0]
        .1
        .ports
        .iter()
        .map(|port| lab.layout.port(*port).node)
        .collect();
    let mut homes = homes(&lab, "a,b,c", &[], PlacementPolicy::RoundRobin);
    let first = *channel.first().unwrap();
    let had = homes.machine_of(first);
    homes.lose(had, true).unwrap();
    let of: BTreeSet<usize> = channel.iter().map(|node| homes.machine_of(*node)).collect();
    assert!(of.len() == 1 && !of.contains(&had), "{of:?}");
}

#[test]
fn who_does_not_come_as_far_keeps_nothing() {
    let lab = iridium();
    let mut homes = homes(lab, "a,b,c", &[], PlacementPolicy::FewestCrossings);
    let moved = homes.lose(0, true).unwrap();
    assert_eq!(moved.takers(), BTreeSet::from([1, 2]));
    let there = homes.back(0, &BTreeSet::from([2]));
    assert!(!there.is_empty() && there.values().all(|machine| *machine == 2));
    for (node, taker) in &moved.to {
        let is = if *taker == 2 { 2 } else { 0 };
        assert_eq!(homes.machine_of(*node), is);
    }
    assert!(homes.back(0, &BTreeSet::from([1, 2])).is_empty(), "once");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// For every order of losses: machines with equal messages in equal order agree, no machine has more than it takes, no node is
    /// on a machine that was lost later, and returning nodes are where the messages put them.
    #[test]
    fn all_find_the_same(
        told in prop::collection::vec((0usize..4, any::<bool>(), 0u8..16), 1..8),
        caps in prop::collection::vec(prop::option::of(20u32..60), 4),
        by_turns: bool,
    ) {
        let lab = iridium();
        let names = ["a", "b", "c", "d"];
        let machines: Vec<String> = names.iter().zip(&caps).map(|(name, cap)| match cap {
            Some(cap) => format!("{name}/{cap}"),
            None => (*name).to_owned(),
        }).collect();
        let machines = machines.join(",");
        let parsed: Machines = machines.parse().unwrap();
        let order = if by_turns { PlacementPolicy::RoundRobin } else { PlacementPolicy::FewestCrossings };
        prop_assume!(Placement::new(lab, &parsed, &[], order).is_ok());
        let mut all = [homes(lab, &machines, &[], order), homes(lab, &machines, &[], order)];
        let mut lost = BTreeSet::new();
        for (machine, is_loss, ready) in told {
            let ready: BTreeSet<usize> = (0..4).filter(|m| ready >> m & 1 == 1).collect();
            if is_loss {
                let [one, other] = all.each_mut().map(|homes| homes.lose(machine, true));
                prop_assert_eq!(&one, &other);
                prop_assert_eq!(one.is_some(), lost.insert(machine));
                if let Some(moved) = one {
                    prop_assert!(moved.to.values().all(|taker| !lost.contains(taker)));
                }
            } else {
                let [one, other] = all.each_mut().map(|homes| homes.back(machine, &ready));
                prop_assert_eq!(&one, &other);
                for (node, taker) in one {
                    prop_assert!(ready.contains(&taker) && !lost.contains(&taker));
                    prop_assert_eq!(all[0].machine_of(node), taker);
                }
            }
            for (machine, count) in held(lab, &all[0]) {
                let cap = caps[machine].filter(|_| !lost.contains(&machine));
                prop_assert!(cap.is_none_or(|cap| count <= cap as usize));
            }
        }
    }
}
