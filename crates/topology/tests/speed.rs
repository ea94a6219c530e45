//! The cost of a step. Run with `cargo test --release -p constel-topology --test speed -- --ignored --nocapture`.

use crate::common;

use common::*;
use constel_orbit::WalkerKind;
use constel_topology::{
    Failure, FailureTarget, FailureTime, GslPolicy, Layout, PlainPolicy, Snapshot, Spec, Stepper,
    diff,
};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

fn measure(what: &str, shells: Vec<Shell>, stations: u32, steps: u32) {
    measure_with(what, shells, stations, steps, |_| {});
}

fn measure_with(
    what: &str,
    shells: Vec<Shell>,
    stations: u32,
    steps: u32,
    change: impl FnOnce(&mut Spec),
) {
    let laid = Instant::now();
    let mut spec = spec(&shells, spread(stations));
    change(&mut spec);
    let sky = sky(shells);
    let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
    let mut stepper = Stepper::new(layout, sky);
    let laid = laid.elapsed();
    let layout = stepper.layout().clone();
    let (mut before, mut after) = (stepper.advance(), Snapshot::default());
    let (mut step_us, mut diff_us) = (Vec::new(), Vec::new());
    let (mut handovers, mut changed) = (0, 0);
    for _ in 0..steps {
        let t = Instant::now();
        stepper.advance_into(&mut after);
        step_us.push(t.elapsed().as_secs_f64() * 1e6);
        let t = Instant::now();
        let delta = diff(&layout, &before, &after);
        diff_us.push(t.elapsed().as_secs_f64() * 1e6);
        handovers += delta.handovers.len();
        changed += delta.changed.len();
        std::mem::swap(&mut before, &mut after);
    }
    let at = |v: &mut Vec<f64>, q: f64| {
        v.sort_by(f64::total_cmp);
        v[((v.len() - 1) as f64 * q) as usize]
    };
    println!(
        "{what} x {stations} stations: layout {:.1} ms; step p50 {:.2} ms p99 {:.2} ms; diff p50 {:.2} ms p99 {:.2} ms; \
         {} edges, {} changed and {:.2} handovers a step",
        laid.as_secs_f64() * 1e3,
        at(&mut step_us, 0.5) / 1e3,
        at(&mut step_us, 0.99) / 1e3,
        at(&mut diff_us, 0.5) / 1e3,
        at(&mut diff_us, 0.99) / 1e3,
        before.edges.len(),
        changed / steps as usize,
        handovers as f64 / f64::from(steps),
    );
}

#[test]
#[ignore = "prints figures; needs --release"]
fn steps_are_cheap() {
    measure("iridium", vec![iridium()], 12, 300);
    measure("shell 1 (1,584)", vec![starlink_shell1()], 20, 300);
    // Starlink as first filed: 4,408 satellites in five shells.
    let five = || {
        vec![
            walker("a", WalkerKind::Delta, (1584, 72, 17), 53.0, 550.0),
            walker("b", WalkerKind::Delta, (1584, 72, 17), 53.2, 540.0),
            walker("c", WalkerKind::Delta, (720, 36, 11), 70.0, 570.0),
            walker("d", WalkerKind::Delta, (348, 6, 1), 97.6, 560.0),
            walker("e", WalkerKind::Delta, (172, 4, 1), 97.6, 560.0),
        ]
    };
    measure("five shells (4,408), mask 10 deg", five(), 1000, 300);
    measure_with(
        "five shells (4,408), mask 25 deg",
        five(),
        1000,
        300,
        |spec| {
            for k in &mut spec.constellations {
                k.min_elevation_deg = 25.0;
            }
        },
    );
    measure_with("five shells, longest visible", five(), 1000, 300, |spec| {
        spec.rules[0].policy = GslPolicy::Plain(PlainPolicy::LongestVisible);
    });
    measure_with(
        "five shells, scheduler, beams, GSO arc, random failures",
        five(),
        1000,
        300,
        |spec| {
            spec.rules[0].policy = GslPolicy::Scheduler {
                period_ns: 15 * SECOND,
                phase_ns: 0,
            };
            for (constellation, k) in spec.constellations.iter_mut().enumerate() {
                k.beams = NonZeroU32::new(8);
                k.gso_avoidance_deg = 18.0;
                k.lasers.acquisition_ns = 10 * SECOND;
                k.lasers.max_slew_deg_per_s = Some(1.0);
                let when = FailureTime::Random {
                    mtbf_ns: 86_400 * SECOND,
                    mttr_ns: 3600 * SECOND,
                };
                let targets = [
                    FailureTarget::Satellites { constellation },
                    FailureTarget::Lasers { constellation },
                ];
                for (i, what) in targets.into_iter().enumerate() {
                    spec.failures.push(Failure {
                        name: format!("{constellation}-{i}"),
                        what,
                        when,
                    });
                }
            }
        },
    );
    measure_with(
        "five shells, make before break",
        five(),
        1000,
        300,
        |spec| {
            spec.rules[0].policy = GslPolicy::Plain(PlainPolicy::LongestVisible);
            spec.rules[0].outage_ns = 2 * SECOND;
            spec.rules[0].make_before_break = true;
        },
    );
}
