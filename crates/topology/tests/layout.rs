//! Nodes, ports, pairs of lasers, and what is refused.

use crate::common;

use common::*;
use constel_topology::{GSL, IslKind, IslPattern, LaserSlot, Layout, Neighbours, SpecError, Wrap};

#[test]
fn true_neighbours_survive_gaps() {
    // Shell 1 with one satellite in seven missing, paired by what is really there.
    let mut shell = starlink_shell1();
    let keep: Vec<bool> = (0..1584).map(|i| i % 7 != 3).collect();
    let mut it = keep.iter();
    shell
        .constellation
        .satellites
        .retain(|_| *it.next().unwrap());
    let mut it = keep.iter();
    shell.orbits.retain(|_| *it.next().unwrap());
    if let IslPattern::PlusGrid(g) = &mut shell.constellation.isl {
        g.neighbours = Neighbours::Nearest { wrap: Wrap::Delta };
        g.max_range_m = 4e6;
    }
    let satellites = shell.constellation.satellites.len();
    let mut stepper = stepper(vec![shell], vec![]);
    let layout = stepper.layout().clone();
    let snapshot = stepper.advance();
    let mut used = std::collections::BTreeSet::new();
    for l in layout.isl_links() {
        assert!(used.insert(l.a) && used.insert(l.b), "a port is used twice");
        let (a, b) = (
            layout.node(layout.port(l.a).node),
            layout.node(layout.port(l.b).node),
        );
        let (sa, sb) = (a.seat.unwrap(), b.seat.unwrap());
        match l.kind {
            IslKind::IntraPlane => {
                assert_eq!(sa.plane, sb.plane);
                // Next in the ring: only missing seats lie between them, at most two in a row.
                let gap = (i32::from(sa.slot) - i32::from(sb.slot)).rem_euclid(22);
                assert!(gap.min(22 - gap) <= 3, "{} {}", a.name, b.name);
            }
            _ => assert!([1, 71].contains(&sa.plane.abs_diff(sb.plane))),
        }
    }
    let intra = layout
        .isl_links()
        .iter()
        .filter(|l| l.kind == IslKind::IntraPlane)
        .count();
    assert_eq!(intra, satellites);
    let inter = layout.isl_links().len() - intra;
    assert!(
        inter as f64 > 0.95 * satellites as f64,
        "{inter} of {satellites}"
    );
    assert!(snapshot.edges.len() as f64 > 0.95 * 4.0 * satellites as f64);
}

#[test]
fn walker_and_true_neighbours_agree_on_a_complete_pattern_in_phase() {
    // With F = 0 satellites of adjacent planes are in phase, so the nearest is the same slot.
    let links = |nearest: bool| {
        let mut shell = walker(
            "w",
            constel_orbit::WalkerKind::Delta,
            (200, 20, 0),
            53.0,
            1000.0,
        );
        if let (true, IslPattern::PlusGrid(g)) = (nearest, &mut shell.constellation.isl) {
            g.neighbours = Neighbours::Nearest { wrap: Wrap::Delta };
        }
        lab(vec![shell], vec![])
            .0
            .isl_links()
            .iter()
            .map(|l| (l.a, l.b))
            .collect::<Vec<_>>()
    };
    assert_eq!(links(false), links(true));
}

#[test]
fn every_wrong_thing_is_said_at_once() {
    let mut shell = iridium();
    shell.constellation.satellites[5].name = "iridium-0-4".into();
    shell.constellation.satellites[7].slot = 6;
    shell.constellation.gsl_class.loss_ratio = 1.5;
    if let IslPattern::PlusGrid(g) = &mut shell.constellation.isl {
        g.neighbours = Neighbours::Walker {
            phasing: 6,
            wrap: Wrap::StarSeamOff,
            slots_ahead: 0,
        };
        g.max_range_m = f64::NAN;
    }
    let shells = vec![shell];
    let mut spec = spec(
        &shells,
        vec![station("x", 91.0, 0.0), station("x", 0.0, 500.0)],
    );
    spec.step_ns = 0;
    let errors = Layout::new(spec, &*sky(shells)).unwrap_err();
    let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
    for part in [
        "two nodes are named `iridium-0-4`",
        "two nodes are named `x`",
        "sit in the same place (shell 0, plane 0, slot 6)",
        "loss ratio is 1.5",
        "ISL range in m is NaN",
        "phasing 6 must be below the number of planes, 6",
        "plane 0 must have slots 0 to 10",
        "x: latitude in degrees is 91",
        "x: longitude in degrees is 500",
        "step: length in ns is 0",
    ] {
        assert!(
            text.iter().any(|t| t.contains(part)),
            "{part} missing in {text:#?}"
        );
    }
    assert!(
        errors
            .iter()
            .any(|e| matches!(e, SpecError::Phasing { .. }))
    );
}

#[test]
fn ports_and_numbers_are_dense_and_stable() {
    let (layout, _) = lab(vec![iridium()], cities());
    assert_eq!(layout.ports().len(), 66 * 5 + 6);
    for (i, p) in layout.ports().iter().enumerate() {
        assert_eq!(p.id.0 as usize, i);
        assert_eq!(layout.ports_of(p.node)[usize::from(p.index_in_node)], *p);
    }
    for n in layout.nodes() {
        let names: Vec<_> = layout.ports_of(n.id).iter().map(|p| p.name()).collect();
        match n.class.name {
            "satellite" => assert_eq!(names, ["isl0", "isl1", "isl2", "isl3", "gsl0"]),
            "ground" => assert_eq!(names, ["gsl0"]),
            other => panic!("no {other}s here"),
        }
        assert_eq!(layout.port(layout.gsl_port(n.id)).class, &GSL);
    }
    // Fore of slot s is aft of slot s + 1.
    let (a, b) = (
        layout.find("iridium-2-4").unwrap(),
        layout.find("iridium-2-5").unwrap(),
    );
    let link = layout.isl_between(a.id, b.id).unwrap();
    assert_eq!(layout.port(link.a).laser, Some(LaserSlot::Fore));
    assert_eq!(layout.port(link.b).laser, Some(LaserSlot::Aft));
    // East is the next plane: its satellite is to the east when ascending.
    let c = layout.find("iridium-3-4").unwrap();
    let link = layout.isl_between(a.id, c.id).unwrap();
    assert_eq!(layout.port(link.a).laser, Some(LaserSlot::East));
    let again = lab(vec![iridium()], cities()).0;
    assert_eq!(again.isl_links(), layout.isl_links());
}
