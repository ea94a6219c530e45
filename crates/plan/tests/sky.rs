//! Keys of the scenario that say how satellites are chosen, linked and broken reach the topology.

use constel_orbit::DVec3;
use constel_plan::Lab;
use constel_scenario::{Files, parse, resolve};
use constel_topology::{
    FailureTime, GslPolicy, IslKind, IslPattern, LaserPairing, Neighbours, Stepper, Wrap, why,
};

struct Memory;

impl Files for Memory {
    fn read(&self, path: &str) -> std::io::Result<Vec<u8>> {
        match path {
            "ship.csv" => Ok(b"t_s,latitude_deg,longitude_deg\n0,0,0\n60,0,1\n".to_vec()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        }
    }
}

const SKY: &str = r"
constel: 1
name: sky
seed: 7
start: 2026-11-21T00:00:05Z
duration: 60 s
constellations:
  low:
    preset: iridium
    isl: {pattern: {nearest: 3}, max_range: 5000 km, max_slew_per_second: 0.5 deg, acquisition: 3 s, link: {rate: 1 Gbit/s}}
    gsl: {min_elevation: 8.2 deg, policy: scheduler, beams: 2, gso_avoidance: 5 deg, handover: {outage: 500 ms, kind: make-before-break}, link: {rate: 50 Mbit/s}}
  high:
    preset: telesat-polar
    isl: {pattern: ring, link: {rate: 1 Gbit/s}}
    serves_ground: false
cross_shell:
  - {from: low, to: high, max_range: 2000 km, link: {rate: 1 Gbit/s}}
ground:
  stations:
    home: {latitude: 48 deg, longitude: 2 deg, antennas: 2, obstacles: [{from: 350 deg, to: 10 deg, elevation: 60 deg}]}
    ship: {track_file: ship.csv}
failures:
  - {name: blackout, at: 10 s, for: 5 s, nodes: [home]}
  - {name: wear, mtbf: 1 d, mttr: 1 h, satellites: high}
routing: {mode: computed}
";

fn lab(text: &str) -> Lab {
    let scenario = parse("sky.yaml", text).and_then(|parsed| resolve(&parsed, &Memory));
    scenario
        .and_then(Lab::new)
        .unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn keys_reach_the_topology() {
    let lab = lab(SKY);
    let spec = lab.layout.spec();
    assert_eq!(spec.seed, 7);
    // Slots begin at second 12 of the minute; the lab begins at second 5.
    let (period_ns, phase_ns) = (15_000_000_000, 7_000_000_000);
    assert_eq!(
        spec.rules[0].policy,
        GslPolicy::Scheduler {
            period_ns,
            phase_ns
        }
    );
    assert!(spec.rules[0].make_before_break && spec.rules[0].outage_ns == 500_000_000);
    // By name: `high` comes before `low`.
    let (high, low) = (&spec.constellations[0], &spec.constellations[1]);
    assert_eq!((high.name.as_str(), low.name.as_str()), ("high", "low"));
    assert_eq!(high.lasers.pairing, LaserPairing::Ring);
    assert_eq!(low.lasers.pairing, LaserPairing::Nearest(3));
    assert_eq!(low.lasers.max_slew_deg_per_s, Some(0.5));
    assert_eq!(low.lasers.acquisition_ns, 3_000_000_000);
    assert_eq!(
        (low.beams.map(u32::from), low.gso_avoidance_deg),
        (Some(2), 5.0)
    );
    assert!(!high.ground.has(0) && low.ground.has(0));
    let mtbf_ns = 86_400_000_000_000;
    assert_eq!(
        spec.failures[1].when,
        FailureTime::Random {
            mtbf_ns,
            mttr_ns: 3_600_000_000_000
        }
    );
    let cross = lab
        .layout
        .isl_links()
        .iter()
        .filter(|l| l.kind == IslKind::CrossShell)
        .count();
    assert!(cross > 40, "{cross}");
    assert_eq!(spec.stations[0].terminals[0].antennas, 2);
    assert_eq!(spec.stations[0].obstacles[0].elevation_deg, 60.0);
}

#[test]
fn planes_slots_and_shares_are_as_written() {
    let text = SKY
        .replace(
            "preset: iridium\n    isl: {pattern: {nearest: 3}, ",
            "walker: {pattern: star, inclination: 86.4 deg, satellites: 66, planes: 6, phasing: 2, altitude: 780 km, \
             plane_spacing: 31.6 deg}\n    isl: {pattern: plus-grid, slots_ahead: -1, ",
        )
        .replace("beams: 2,", "capacity: 60 Mbit/s,");
    let lab = lab(&text);
    let spec = lab.layout.spec();
    let low = &spec.constellations[1];
    let IslPattern::PlusGrid(grid) = &low.isl else {
        panic!("has lasers");
    };
    let walker = Neighbours::Walker {
        phasing: 2,
        wrap: Wrap::StarSeamOff,
        slots_ahead: -1,
    };
    assert_eq!(grid.neighbours, walker);
    assert_eq!(low.capacity_bps.map(u64::from), Some(60_000_000));
    // Two satellites of slot 0, at their ascending nodes but for the phase between planes of 2 x 360 / 66 degrees.
    let snapshot = lab.stepper().advance();
    let at = |name: &str| snapshot.positions_itrf_m[lab.layout.find(name).unwrap().id.index()];
    let node_deg = |p: DVec3, phase_deg: f64| {
        let phase = phase_deg.to_radians();
        let east = (phase.sin() * 86.4_f64.to_radians().cos()).atan2(phase.cos());
        (p.y.atan2(p.x) - east).to_degrees()
    };
    let apart = node_deg(at("low-p01-s00"), 2.0 * 360.0 / 66.0) - node_deg(at("low-p00-s00"), 0.0);
    assert!((apart.rem_euclid(360.0) - 31.6).abs() < 1e-6, "{apart}");
}

#[test]
fn failures_and_tracks_happen() {
    let lab = lab(SKY);
    let mut stepper: Stepper = lab.stepper();
    let layout = lab.layout.clone();
    let id = |name: &str| layout.find(name).unwrap().id;
    let mut places = Vec::new();
    for step in 0..25 {
        let snapshot = stepper.advance();
        let links = snapshot.edges_from(layout.gsl_port(id("home"))).len();
        let satellite = id("low-p00-s00");
        if (10..15).contains(&step) {
            assert_eq!(links, 0);
            let reason = why(&layout, &snapshot, id("home"), satellite).describe(&layout);
            assert_eq!(reason, "down: failed by `blackout`");
        } else if !(15..22).contains(&step) {
            // From its repair to the next slot, at second 27 of the minute, the scheduler leaves it dark.
            assert!(links >= 1, "step {step}");
        }
        places.push(snapshot.positions_itrf_m[id("ship").index()]);
    }
    // One degree of the equator in 60 s: 111.3 km.
    let speed = places[24].distance(places[0]) / 24.0;
    assert!((speed - 111_319.5 / 60.0).abs() < 1.0, "{speed}");
}

#[test]
fn a_plan_names_what_it_cannot_link() {
    let text = SKY.replace(
        "{name: blackout, at: 10 s, for: 5 s, nodes: [home]}",
        "{name: cut, at: 1 s, plane: {of: low, number: 6}}",
    );
    let scenario = parse("sky.yaml", &text)
        .and_then(|parsed| resolve(&parsed, &Memory))
        .unwrap();
    let Err(errors) = Lab::new(scenario) else {
        panic!("there is no plane 6")
    };
    assert!(
        errors
            .to_string()
            .contains("failure `cut`: it hits nothing"),
        "{errors}"
    );
}

#[test]
fn rate_and_loss_follow_elevation_and_delay_is_more_than_light() {
    let text = SKY.replace(
        "link: {rate: 50 Mbit/s}}",
        "link: {rate: 50 Mbit/s, extra_delay: 3 ms}, by_elevation: [{above: 20 deg, rate: 80 Mbit/s}, {above: 45 deg, rate: 120 Mbit/s, loss: 1 %}]}",
    );
    let lab = lab(&text);
    let layout = lab.layout.clone();
    let mut stepper = lab.stepper();
    let mut rates = std::collections::BTreeSet::new();
    for step in 0..40 {
        let snapshot = stepper.at_step(step * 15);
        for station in ["home", "ship"] {
            let id = layout.find(station).unwrap().id;
            for edge in snapshot.edges_from(layout.gsl_port(id)) {
                let satellite = layout.port(edge.to).node;
                let constel_topology::LinkReason::Up {
                    range_m,
                    elevation_deg,
                    ..
                } = why(&layout, &snapshot, id, satellite)
                else {
                    continue;
                };
                let light_ns = (range_m / 0.299_792_458).ceil() as u64;
                let extra = edge
                    .impairment
                    .delay
                    .delay_ns
                    .abs_diff(light_ns + 3_000_000);
                assert!(extra <= 1, "{extra}");
                let rate = edge.impairment.rate_bps.unwrap().get() / 1_000_000;
                let elevation = elevation_deg.unwrap();
                let expected = match elevation {
                    e if e < 20.0 => 50,
                    e if e < 45.0 => 80,
                    _ => 120,
                };
                assert_eq!(rate, expected, "at {elevation}");
                rates.insert(rate);
            }
        }
    }
    assert_eq!(rates.len(), 3, "{rates:?}");
}
