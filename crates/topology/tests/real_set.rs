//! The real Starlink set: true neighbours, gaps and all.

use crate::common;

use common::*;
use constel_orbit::shells::{PlaneRule, ShellSpec, sort};
use constel_orbit::tle;
use constel_topology::{
    Constellation, IslKind, IslPattern, Layout, Neighbours, OrbitSky, PlusGrid, Satellite, Stepper,
    Wrap,
};
use constel_units::{Angle, Length, TimeSpan};
use std::sync::Arc;

#[test]
fn starlink_of_september_2022_links_true_neighbours() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/data/starlink-2022-09-14.tle"
    );
    let sets = tle::parse(std::fs::read(file).unwrap()).unwrap();
    let shell = |name: &str, altitude_km: f64, inclination_deg: f64| ShellSpec {
        name: name.into(),
        altitude: Length::from_m(altitude_km * 1e3),
        altitude_tolerance: Length::from_m(7e3),
        inclination: Angle::from_deg(inclination_deg),
        inclination_tolerance: Angle::from_deg(0.08),
        planes: PlaneRule::Gap(Angle::from_deg(1.5)),
    };
    let shells = [shell("1", 550.0, 53.05), shell("4", 540.0, 53.22)];
    let sorted = sort(
        &sets,
        &shells,
        start(),
        TimeSpan::from_secs_f64(4.0 * 86_400.0),
    )
    .unwrap();
    assert!(sorted.kept.len() > 1500, "{}", sorted.kept.len());
    let constellation = Constellation {
        name: "starlink".into(),
        satellites: sorted
            .kept
            .iter()
            .map(|p| Satellite {
                name: format!("{}", sets[p.index].catalogue_number().unwrap()),
                shell: p.shell as u16,
                plane: p.plane as u16,
                slot: p.slot as u16,
            })
            .collect(),
        isl: IslPattern::PlusGrid(PlusGrid {
            neighbours: Neighbours::Nearest { wrap: Wrap::Delta },
            polar_cutoff_deg: 90.0,
            max_range_m: 2.5e6,
            clearance_m: 80e3,
        }),
        isl_class: class(),
        min_elevation_deg: 25.0,
        gsl_class: class(),
        ..Constellation::default()
    };
    let mut spec = spec(&[], cities());
    spec.constellations = vec![constellation];
    let orbits = sorted.kept.iter().map(|p| p.satellite.clone()).collect();
    let sky = Arc::new(OrbitSky::new(start(), orbits));
    let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
    let satellites = layout.satellite_count();
    let count = |kind| layout.isl_links().iter().filter(|l| l.kind == kind).count();
    let (intra, inter) = (count(IslKind::IntraPlane), count(IslKind::InterPlane));
    println!("{satellites} satellites: {intra} links in planes, {inter} across");
    let mut stepper = Stepper::new(layout.clone(), sky);
    // Planes hold up to 22 satellites, some far fewer: most rings close, most planes pair off.
    assert!(intra as f64 > 0.95 * satellites as f64);
    assert!(inter as f64 > 0.8 * satellites as f64);
    for minutes in [0, 45, 90] {
        let snapshot = stepper.at_step(minutes * 60);
        assert!(snapshot.lost.is_empty());
        let up = |kind: IslKind| {
            let of_kind = layout.isl_links().iter().filter(|l| l.kind == kind);
            of_kind
                .filter(|l| snapshot.edge(l.a, l.b).is_some())
                .count()
        };
        let (ring, across) = (up(IslKind::IntraPlane), up(IslKind::InterPlane));
        println!("after {minutes} min: {ring} and {across} up");
        assert!(ring as f64 > 0.85 * intra as f64);
        assert!(
            across as f64 > 0.9 * inter as f64,
            "pairs must stay neighbours for an orbit"
        );
        assert!(snapshot.serving.iter().all(Option::is_some));
    }
}
