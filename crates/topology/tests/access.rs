//! The access of terminals: rates by position and rain, profiles, the reason of a link, and what a step costs.

use crate::common;

use common::*;
use constel_link::access::{Access, Direction, EdgeAccess, preset};
use constel_link::{
    CheckedEffects, DropCause, EdgeChange, EdgeTable, EdgeUpdate, Effects, EffectsChange, Frames,
};
use constel_orbit::WalkerKind;
use constel_topology::{
    Delta, GslAccess, Layout, NodeId, OrbitSky, Rain, Snapshot, Stepper, diff, why,
};
use std::sync::Arc;
use std::time::Instant;

const PROFILE: u16 = 1;

fn with_access(shells: &mut [Shell], access: &Access) {
    let parts = Arc::new(access.clone());
    for shell in shells {
        shell.constellation.access = Some(GslAccess {
            parts: Arc::clone(&parts),
            profile: PROFILE,
        });
    }
}

/// Returns rate and profile of the links of a station, up and down.
fn links(layout: &Layout, snapshot: &Snapshot, station: NodeId) -> Option<[(u64, u16); 2]> {
    let satellite = snapshot.serving[station.index() - layout.satellite_count()]?;
    let (port, far) = (
        layout.access_ports(station)[0].id,
        layout.gsl_port(satellite),
    );
    let of = |from, to| {
        let edge = snapshot.edge(from, to)?;
        Some((edge.impairment.rate_bps?.get(), edge.impairment.profile))
    };
    Some([of(port, far)?, of(far, port)?])
}

#[test]
fn terminals_have_the_rates_of_their_access_and_feeders_those_of_their_links() {
    let mut access = preset("starlink-2025").unwrap().access;
    access.up.rate.as_mut().unwrap().alone_bps = 50_000_000;
    access.down.rate.as_mut().unwrap().alone_bps = 90_000_000;
    let mut shells = vec![starlink_shell1()];
    with_access(&mut shells, &access);
    let mut stations = cities();
    stations[1].feeder = true;
    stations[2].rain = vec![Rain {
        t_ns: 0,
        mm_per_h: 50.0,
    }];
    let mut stepper = {
        let (layout, sky) = lab(shells, stations);
        Stepper::new(layout, sky)
    };
    let layout = Arc::clone(stepper.layout());
    let node = |name: &str| layout.find(name).unwrap().id;
    let sky = access.sky.unwrap();
    let mut seen = 0;
    for step in 0..60 {
        let snapshot = stepper.at_step(step);
        let london = links(&layout, &snapshot, node("london"));
        let tokyo = links(&layout, &snapshot, node("tokyo"));
        let feeder = links(&layout, &snapshot, node("new-york"));
        let (Some(london), Some(tokyo), Some(feeder)) = (london, tokyo, feeder) else {
            continue;
        };
        seen += 1;
        assert_eq!(feeder, [(100_000_000, 0); 2]);
        for (n, alone) in [50e6, 90e6].into_iter().enumerate() {
            // From 25 degrees of elevation on, a satellite is at most 2.1 times as far as in the zenith.
            let (least, most) = (sky.factor(2.1, 0.0, 0.0), 1.0);
            let share = london[n].0 as f64 / alone;
            assert!((least..=most).contains(&share), "{share}");
            let share = tokyo[n].0 as f64 / alone;
            let wettest = sky.factor(2.1, 50.0, 0.0);
            assert!(
                (wettest..sky.factor(1.0, 50.0, 0.0)).contains(&share),
                "{share}"
            );
            assert_eq!((london[n].1, tokyo[n].1), (PROFILE, PROFILE));
        }
        let told = why(
            &layout,
            &snapshot,
            node("london"),
            snapshot.serving[0].unwrap(),
        );
        let words = told.describe(&layout);
        let gaps = 100.0 * access.handover.as_ref().unwrap().ratio;
        let handover = format!("; access: handover: {gaps:.1} % of the slots");
        assert!(words.contains(&handover), "{words}");
        let processing_ms = access.down.processing_ns as f64 / 1e6;
        let down = format!("; down: processing {processing_ms:.1} ms, turns each 1.3 ms");
        assert!(words.contains(&down), "{words}");
        let told = why(
            &layout,
            &snapshot,
            node("new-york"),
            snapshot.serving[1].unwrap(),
        );
        assert!(!told.describe(&layout).contains("access"));
    }
    assert!(seen > 30, "{seen}");
}

/// No frame is sent.
struct NoFrames;

impl Frames<()> for NoFrames {
    fn duplicate(&mut self, (): &()) -> Option<()> {
        Some(())
    }
    fn discard(&mut self, (): (), _: DropCause) {}
    fn flip_bit(&mut self, (): &mut (), _: u64) {}
}

/// A step and the update of the link table with it.
struct Job {
    stepper: Stepper,
    before: Snapshot,
    after: Snapshot,
    table: EdgeTable<()>,
    us: Vec<f64>,
}

impl Job {
    fn new(shells: Vec<Shell>, access: Option<&Access>) -> Job {
        let mut shells = shells;
        if let Some(access) = access {
            with_access(&mut shells, access);
        }
        let (layout, sky): (Arc<Layout>, Arc<OrbitSky>) = lab(shells, spread(1000));
        let ports = layout.ports().len() as u32;
        let mut table = EdgeTable::new(ports, 1);
        let terminals = layout.terminals().iter().map(|t| (t.port, 12.0));
        let profile = access.map(|access| Effects {
            access: Some(EdgeAccess {
                parts: Arc::new(access.clone()),
                minute_ns: 0,
                terminals: terminals.collect(),
            }),
            ..Effects::default()
        });
        let change = EffectsChange::Profile {
            number: PROFILE,
            effects: profile,
        };
        let checked = CheckedEffects::new(vec![change], ports).unwrap();
        table.apply_effects(0, &checked, &mut NoFrames).unwrap();
        let mut stepper = Stepper::new(layout, sky);
        let before = stepper.advance();
        let mut job = Job {
            stepper,
            before,
            after: Snapshot::default(),
            table,
            us: Vec::new(),
        };
        let first = Delta {
            added: job.before.edges.clone(),
            ..Delta::default()
        };
        job.put(&first);
        job
    }

    fn put(&mut self, delta: &Delta) {
        let removed = delta.removed.iter();
        let removed = removed.map(|&(from, to)| EdgeChange::Remove { from, to });
        let set = delta.added.iter().chain(&delta.changed);
        let set = set.map(|edge| EdgeChange::Set {
            from: edge.from,
            to: edge.to,
            impairment: edge.impairment,
        });
        let changes = removed.chain(set).collect();
        let ports = self.table.ports();
        let update = EdgeUpdate { changes }.check(ports).unwrap();
        self.table
            .apply(self.before.t_ns, &update, &mut NoFrames)
            .unwrap();
    }

    fn step(&mut self) {
        let began = Instant::now();
        self.stepper.advance_into(&mut self.after);
        let delta = diff(self.stepper.layout(), &self.before, &self.after);
        std::mem::swap(&mut self.before, &mut self.after);
        self.put(&delta);
        self.us.push(began.elapsed().as_secs_f64() * 1e6);
    }

    fn median_us(&mut self) -> f64 {
        self.us.sort_by(f64::total_cmp);
        self.us[self.us.len() / 2]
    }
}

/// Both jobs are done alternately, so that other work of the machine meets both.
#[test]
#[ignore = "prints figures; needs --release"]
fn a_step_with_access_costs_little_more() {
    let five = || {
        vec![
            walker("a", WalkerKind::Delta, (1584, 72, 17), 53.0, 550.0),
            walker("b", WalkerKind::Delta, (1584, 72, 17), 53.2, 540.0),
            walker("c", WalkerKind::Delta, (720, 36, 11), 70.0, 570.0),
            walker("d", WalkerKind::Delta, (348, 6, 1), 97.6, 560.0),
            walker("e", WalkerKind::Delta, (172, 4, 1), 97.6, 560.0),
        ]
    };
    let access = preset("starlink-2025").unwrap().access;
    assert!(access.leg(Direction::Up).rate.is_some());
    let (mut without, mut with) = (Job::new(five(), None), Job::new(five(), Some(&access)));
    for _ in 0..300 {
        without.step();
        with.step();
    }
    let (without, with) = (without.median_us(), with.median_us());
    println!(
        "4,408 satellites, 1,000 terminals: a step takes {:.2} ms without access and {:.2} ms with it: {:.2} times",
        without / 1e3,
        with / 1e3,
        with / without
    );
    assert!(with <= 1.3 * without);
}
