//! Shipped scenarios on several machines.

use crate::machines::common;

use constel_cluster::machines::{Loads, Machines, Pin, Placement, PlacementError, PlacementPolicy};
use constel_plan::Lab;
use constel_topology::NodeId;

use common::lab;

fn machines(text: &str) -> Machines {
    text.parse().unwrap()
}

fn loads(lab: &Lab, machines: &Machines, placement: &Placement) -> Loads {
    Loads::at(lab, machines, placement, &lab.stepper().advance())
}

#[test]
fn fewer_edges_cross_than_by_turns() {
    for (file, names, ratio) in [
        ("iridium.yaml", "a,b", 3),
        ("starlink-shell1.yaml", "a,b,c,d", 8),
    ] {
        let (lab, machines) = (lab(file), machines(names));
        let crossing = |order| {
            let placement = Placement::new(&lab, &machines, &[], order).unwrap();
            assert_eq!(
                placement,
                Placement::new(&lab, &machines, &[], order).unwrap(),
                "the same everywhere"
            );
            loads(&lab, &machines, &placement)
        };
        let (few, turns) = (
            crossing(PlacementPolicy::FewestCrossings),
            crossing(PlacementPolicy::RoundRobin),
        );
        assert!(
            few.crossing_edges * ratio <= turns.crossing_edges,
            "{file}: {few:?} {turns:?}"
        );
        for loads in [&few, &turns] {
            let nodes = lab.layout.nodes().len();
            assert_eq!(loads.machines.iter().map(|m| m.nodes).sum::<usize>(), nodes);
            let fair = nodes.div_ceil(machines.all().len());
            assert!(
                loads
                    .machines
                    .iter()
                    .all(|m| m.nodes <= fair + fair.div_ceil(20)),
                "{loads:?}"
            );
        }
    }
}

#[test]
fn by_turns_is_by_turns() {
    let (lab, machines) = (lab("iridium.yaml"), machines("a,b=2"));
    let placement = Placement::new(&lab, &machines, &[], PlacementPolicy::RoundRobin).unwrap();
    for node in lab.layout.nodes() {
        assert_eq!(
            placement.machine_of(node.id),
            usize::from(node.id.0 % 3 > 0)
        );
    }
    assert_eq!(placement.nodes_of(0).next(), Some(NodeId(0)));
}

#[test]
fn pins_and_caps_are_kept() {
    let (lab, machines) = (lab("iridium.yaml"), machines("a/20,b"));
    let pins: Vec<Pin> = ["tokyo=a", "iridium-p03-*=a"]
        .map(|text| text.parse().unwrap())
        .to_vec();
    for order in [
        PlacementPolicy::FewestCrossings,
        PlacementPolicy::RoundRobin,
    ] {
        let placement = Placement::new(&lab, &machines, &pins, order).unwrap();
        let on_a: Vec<&str> = placement
            .nodes_of(0)
            .map(|id| lab.layout.node(id).name.as_str())
            .collect();
        assert!(on_a.len() <= 20, "{on_a:?}");
        assert!(on_a.contains(&"tokyo"));
        assert_eq!(
            on_a.iter()
                .filter(|name| name.starts_with("iridium-p03-"))
                .count(),
            11
        );
    }
}

#[test]
fn a_radio_channel_is_on_one_machine() {
    let (lab, machines) = (lab("swarm.yaml"), machines("a,b"));
    let channel = lab.channels()[0].1.ports.clone();
    for order in [
        PlacementPolicy::FewestCrossings,
        PlacementPolicy::RoundRobin,
    ] {
        let Ok(placement) = Placement::new(&lab, &machines, &[], order) else {
            continue;
        };
        let of: Vec<usize> = channel
            .iter()
            .map(|port| placement.machine_of(lab.layout.port(*port).node))
            .collect();
        assert!(of.iter().all(|machine| *machine == of[0]), "{of:?}");
    }
    let placed = Placement::new(&lab, &machines, &[], PlacementPolicy::RoundRobin);
    assert!(placed.is_ok(), "{placed:?}");
    let node = |port: usize| {
        lab.layout
            .node(lab.layout.port(channel[port]).node)
            .name
            .clone()
    };
    let pins =
        [format!("{}=a", node(0)), format!("{}=b", node(1))].map(|text| text.parse().unwrap());
    let torn = Placement::new(&lab, &machines, &pins, PlacementPolicy::default());
    assert!(matches!(torn, Err(PlacementError::Torn { .. })), "{torn:?}");
}

#[test]
fn what_cannot_be_is_said() {
    let lab = lab("iridium.yaml");
    let refused = |names: &str, pins: &[&str]| {
        let pins: Vec<Pin> = pins.iter().map(|pin| pin.parse().unwrap()).collect();
        Placement::new(&lab, &machines(names), &pins, PlacementPolicy::default())
            .unwrap_err()
            .to_string()
    };
    for (names, pins, named) in [
        ("a,b", &["tokyo=c"][..], "no machine \"c\"; there are a, b"),
        ("a,b", &["atlantis=a"], "no node is called so"),
        ("a,b", &["tokyo=a", "tok*=b"], "pinned to a and to b"),
        ("a/30,b/30", &[], "80 nodes, and the machines take 60"),
        (
            "a/5,b",
            &["iridium-p00-*=a"],
            "11 nodes are pinned to a, which takes 5",
        ),
    ] {
        let error = refused(names, pins);
        assert!(error.contains(named), "{error}");
    }
}
