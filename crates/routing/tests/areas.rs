//! Laws of OSPF areas over constellations of many shapes.

use crate::common;

use constel_link::{Delay, Impairment, Loss, QueueLimit};
use constel_orbit::WalkerKind;
use constel_routing::ospf::{AreaView, Served, instances};
use constel_routing::{AddressBlocks, AddressPlan, AreaId, Areas, Grouping};
use constel_topology::{Edge, ISL, Layout, NodeId, Snapshot};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// Every laser pair up.
fn all_up(layout: &Layout) -> Snapshot {
    let impairment = Impairment {
        delay: Delay {
            t0_ns: 0,
            delay_ns: 1_000_000,
            slope_ns_per_s: 0,
        },
        rate_bps: None,
        queue: QueueLimit { bytes: 100_000 },
        loss: Loss::None,
        up_from_ns: 0,
        profile: 0,
    };
    let both = |l: &constel_topology::IslLink| [(l.a, l.b), (l.b, l.a)];
    let mut edges: Vec<Edge> = layout
        .isl_links()
        .iter()
        .flat_map(both)
        .map(|(from, to)| Edge {
            from,
            to,
            class: &ISL,
            impairment,
        })
        .collect();
    edges.sort_unstable_by_key(|e| (e.from, e.to));
    Snapshot {
        edges,
        ..Snapshot::default()
    }
}

fn layout(planes: u32, slots: u32, phasing: u32, kind: WalkerKind) -> std::sync::Arc<Layout> {
    let numbers = (planes * slots, planes, phasing % planes);
    common::lab(kind, numbers, 53.0, 1200.0, common::cities())
        .layout()
        .clone()
}

fn grouping() -> impl Strategy<Value = Grouping> {
    prop_oneof![
        (1_u16..12).prop_map(Grouping::Planes),
        (1_u32..300).prop_map(Grouping::Satellites),
    ]
}

/// Areas without routes from outside.
fn closed(areas: &Areas) -> Option<AreaView<'_>> {
    Some(AreaView {
        areas,
        cables: false,
        open: false,
    })
}

fn contains(block: (Ipv4Addr, u8), address: Ipv4Addr) -> bool {
    (u32::from(block.0) ^ u32::from(address))
        .checked_shr(32 - u32::from(block.1))
        .unwrap_or(0)
        == 0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_area_is_whole_and_touches_the_backbone(
        (planes, slots, phasing) in (3_u32..20, 4_u32..16, any::<u32>()),
        star in any::<bool>(),
        size in grouping(),
    ) {
        let kind = if star { WalkerKind::Star } else { WalkerKind::Delta };
        let layout = layout(planes, slots, phasing, kind);
        let areas = Areas::new(&layout, size).unwrap();
        prop_assert_eq!(&areas, &Areas::new(&layout, size).unwrap(), "the same every time");
        let up = all_up(&layout);
        prop_assert_eq!(areas.check(&layout, &up), Ok(()));
        let satellites = || (0..planes * slots).map(NodeId);
        let mut borders: BTreeMap<AreaId, usize> = BTreeMap::new();
        let mut members: BTreeMap<AreaId, BTreeSet<u16>> = BTreeMap::new();
        for node in satellites() {
            let home = areas.home(node);
            *borders.entry(home).or_default() += usize::from(areas.is_border(node));
            members.entry(home).or_default().insert(layout.node(node).seat.unwrap().plane);
        }
        prop_assert_eq!(areas.count(), members.len());
        for (area, planes) in &members {
            if area.area != 0 {
                prop_assert_eq!(borders[area], 2 * planes.len(), "two border routers a plane");
            }
            let (first, last) = (planes.first().unwrap(), planes.last().unwrap());
            prop_assert_eq!(usize::from(last - first) + 1, planes.len(), "neighbouring planes");
            match size {
                Grouping::Planes(most) => prop_assert!(planes.len() <= usize::from(most)),
                Grouping::Satellites(most) => prop_assert!(
                    planes.len() == 1 || planes.len() * slots as usize <= most as usize
                ),
            }
        }
        // A laser is in an area only if both its ends are.
        for link in layout.isl_links() {
            let ends = [link.a, link.b].map(|p| layout.port(p).node);
            if let Some(area) = areas.of_isl(link.number) {
                for end in ends {
                    let backbone = area.area == 0 && areas.is_backbone(end);
                    prop_assert!(areas.home(end) == area || backbone);
                }
            }
        }
    }

    #[test]
    fn one_laser_less_parts_nothing(
        (planes, slots, phasing) in (4_u32..9, 5_u32..9, any::<u32>()),
        size in 2_u16..4,
        victim in any::<prop::sample::Index>(),
    ) {
        let layout = layout(planes, slots, phasing, WalkerKind::Delta);
        let areas = Areas::new(&layout, Grouping::Planes(size)).unwrap();
        let link = layout.isl_links()[victim.index(layout.isl_links().len())];
        let mut up = all_up(&layout);
        up.edges.retain(|e| (e.from, e.to) != (link.a, link.b) && (e.from, e.to) != (link.b, link.a));
        // A group of one plane is a line, and a border router hangs on its group by one laser.
        let hangs = [link.a, link.b].iter().any(|p| areas.is_border(layout.port(*p).node))
            && areas.of_isl(link.number).is_some_and(|area| area.area != 0);
        let lone = areas.of_isl(link.number).is_some_and(|area| {
            let of_area = |n: &NodeId| areas.home(*n) == area;
            let own: BTreeSet<u16> = (0..planes * slots).map(NodeId).filter(of_area)
                .map(|n| layout.node(n).seat.unwrap().plane).collect();
            area.area != 0 && own.len() == 1
        });
        prop_assert!(lone || hangs || areas.check(&layout, &up).is_ok(), "{:?}", areas.check(&layout, &up));
    }

    #[test]
    fn blocks_hold_their_own_and_nobody_else(
        (planes, slots) in (3_u32..30, 4_u32..40),
        size in grouping(),
    ) {
        let layout = layout(planes, slots, 1, WalkerKind::Delta);
        let areas = Areas::new(&layout, size).unwrap();
        let plan = AddressPlan::in_blocks(&layout, &AddressBlocks::default(), &areas).unwrap();
        let mut seen = BTreeSet::new();
        for node in layout.nodes() {
            let own = plan.loopback(node.id);
            prop_assert!(seen.insert(own.v4));
            prop_assert!(![0, 255].contains(&own.v4.octets()[3]), "{}", own.v4);
            prop_assert_eq!(plan.node_of(own.v4.into()), Some(node.id));
            prop_assert_eq!(plan.node_of(own.v6.into()), Some(node.id));
            for domain in areas.blocks() {
                for (area, members) in domain {
                    let inside = contains(plan.area_block(area).unwrap().v4, own.v4);
                    prop_assert_eq!(inside, members.contains(&node.id));
                }
            }
            let inside = contains(plan.domain_block(0).unwrap().v4, own.v4);
            prop_assert_eq!(inside, node.class.flies);
        }
    }

    #[test]
    fn every_port_is_in_one_area_and_every_loopback_too(
        (planes, slots) in (3_u32..12, 4_u32..10),
        size in grouping(),
    ) {
        let layout = layout(planes, slots, 1, WalkerKind::Delta);
        let areas = Areas::new(&layout, size).unwrap();
        let plan = AddressPlan::in_blocks(&layout, &AddressBlocks::default(), &areas).unwrap();
        for node in (0..layout.satellite_count() as u32).map(NodeId) {
            let own = instances(&layout, &plan, closed(&areas), node, &BTreeSet::new());
            prop_assert_eq!(own.len(), 1);
            let mut ports = BTreeSet::new();
            for area in &own[0].areas {
                for port in &area.ports {
                    prop_assert!(ports.insert(*port), "in two areas");
                }
                prop_assert_eq!(area.range.is_some(), areas.is_border(node) && area.number != 0);
            }
            prop_assert_eq!(own[0].areas.iter().filter(|a| a.loopback).count(), 1);
            for port in layout.ports_of(node) {
                let link = layout.isl_of_port(port.id);
                let used = link.map_or(port.medium.several, |l| areas.of_isl(l.number).is_some());
                prop_assert_eq!(ports.contains(&port.id), used);
            }
        }
    }
}

#[test]
fn shell_1_is_cut_as_documented() {
    let stepper = common::shell1(common::cities());
    let layout = stepper.layout();
    let areas = Areas::new(layout, Grouping::Satellites(180)).unwrap();
    let rows = areas.rows(layout);
    // 72 planes of 22: nine groups of eight, and two rows of 72.
    assert_eq!(rows.len(), 10);
    assert_eq!((rows[0].area, rows[0].satellites), (0, 144));
    assert!(
        rows[1..]
            .iter()
            .all(|r| r.satellites == 176 && r.border_routers == 16)
    );
    // The lasers between groups, but for two on the rows; round the ring the rows do not meet themselves.
    assert!(
        areas.unused() >= 9 * 20 && areas.unused() <= 9 * 22,
        "{}",
        areas.unused()
    );
    let station = NodeId(1584);
    let plan = AddressPlan::in_blocks(layout, &AddressBlocks::default(), &areas).unwrap();
    let port = layout.gsl_port(station);
    let used: Served = [0, 1, 200, 1583].map(|n| (port, NodeId(n))).into();
    let own = instances(layout, &plan, closed(&areas), station, &used);
    let numbers: Vec<(u8, u16, usize)> = own
        .iter()
        .map(|i| (i.number, i.areas[0].number, i.areas[0].satellites.len()))
        .collect();
    assert_eq!(numbers, [(1, 1, 2), (2, 2, 1), (9, 9, 1)]);
    assert!(
        own.iter()
            .all(|i| i.areas.len() == 1 && i.default_route && i.areas[0].stub)
    );
}

#[test]
fn a_lone_group_is_a_plain_area_0() {
    let layout = layout(6, 11, 2, WalkerKind::Star);
    let areas = Areas::new(&layout, Grouping::Satellites(66)).unwrap();
    assert_eq!((areas.count(), areas.unused()), (1, 0));
    let home = areas.home(NodeId(5));
    assert_eq!((home.area, areas.is_border(NodeId(0))), (0, false));
    assert_eq!(areas.instance(home), 1);
}

#[test]
fn what_cannot_be_cut_says_why() {
    // Links between planes are off near the poles: the rows break there.
    let mut stepper = common::iridium(common::cities());
    let areas = Areas::new(stepper.layout(), Grouping::Planes(2)).unwrap();
    let mut found = Vec::new();
    for step in (0..6000).step_by(600) {
        let snapshot = stepper.at_step(step);
        found.extend(
            areas
                .check(stepper.layout(), &snapshot)
                .err()
                .unwrap_or_default(),
        );
    }
    let text: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(
        text.iter()
            .any(|t| t.contains("the backbone of `sat` falls apart")),
        "{text:?}"
    );
    let many = layout(19, 4, 1, WalkerKind::Delta);
    assert!(Areas::new(&many, Grouping::Planes(1)).is_ok());
}
